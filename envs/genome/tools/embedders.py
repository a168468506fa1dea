"""How `genomic_expert` turns sequences into vectors: k-mer spectra (embedded), or any encoder of transformers."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from ....errors import MissingExtraError, UsageError
from ..sequence import reverse_complement
from .base import version_of

#: Set to 1 to let a model repository run its own code; the Nucleotide Transformer v2 needs that.
TRUST_VARIABLE = "TOOLCREDIT_TRUST_REMOTE_CODE"

_SPECTRUM_K = 4
_BATCH = 16
_LONGEST_CONTEXT = 100_000  # tokenizers without a limit report 10**30
_CODES = np.full(128, -1, dtype=np.int64)
_CODES[[ord(base) for base in "ACGT"]] = range(4)


class Embedder(Protocol):
    """Turns cleaned sequences into vectors.

    Two embedders that give the same vectors are equal and have the same hash: vectors are remembered by embedder.
    """

    @property
    def name(self) -> str:
        """How evidence calls it."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever a vector may change."""
        ...

    def __hash__(self) -> int: ...

    def embed(self, sequences: Sequence[str]) -> np.ndarray:
        """(len(sequences), dimensions) float32, rows of length 1, or all 0 for a sequence that cannot be embedded."""
        ...


@dataclass(frozen=True)
class KmerSpectrum:
    """Frequencies of the 4-mers on both strands, scaled to length 1. Words with an N are left out."""

    name = "4-mer spectra of both strands"
    version = version_of("spectrum-1")

    def embed(self, sequences: Sequence[str]) -> np.ndarray:
        """See `Embedder`; (len(sequences), 256)."""
        return np.stack([_spectrum(sequence) for sequence in sequences])


def _spectrum(sequence: str) -> np.ndarray:
    words = np.concatenate(
        [kmer_numbers(strand, _SPECTRUM_K)[0] for strand in (sequence, reverse_complement(sequence))]
    )
    counts = np.bincount(words, minlength=4**_SPECTRUM_K).astype(np.float32)
    return counts / max(1.0, float(np.linalg.norm(counts)))


def kmer_numbers(sequence: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers 0 … 4^k − 1, 0-based starts) of the words of a cleaned sequence that have no N."""
    codes = _CODES[np.frombuffer(sequence.encode("ascii"), dtype=np.uint8)]
    count = max(0, len(codes) - k + 1)
    number, known = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
    for offset in range(k):
        column = codes[offset : offset + count]
        number = number * 4 + column
        known &= column >= 0
    return number[known], np.flatnonzero(known)


@dataclass(frozen=True)
class TransformerEncoder:
    """Last hidden states of a transformers encoder, averaged over the tokens and scaled to length 1.

    The model is loaded when the object is made, so that a wrong name is reported at once. Sequences longer than its
    context are cut there.

    Args:
        model: name on the hub, or a folder.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        UsageError: the model cannot be loaded.
    """

    model: str

    def __post_init__(self):
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(package, "train", f"the embedder {self.model!r}")
        _load(self.model)

    @property
    def name(self) -> str:
        """See `Embedder`."""
        return f"mean-pooled {self.model}"

    @property
    def version(self) -> str:
        """A digest of the model's parameters."""
        return _load(self.model).version

    def embed(self, sequences: Sequence[str]) -> np.ndarray:
        """See `Embedder`; (len(sequences), hidden size)."""
        batches = [sequences[start : start + _BATCH] for start in range(0, len(sequences), _BATCH)]
        return np.concatenate([_load(self.model).encode(batch) for batch in batches])


class _Encoder:
    """A loaded tokenizer and model."""

    def __init__(self, name: str):
        import torch
        from transformers import AutoModel, AutoTokenizer

        trust = os.environ.get(TRUST_VARIABLE) == "1"
        self._tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=trust)
        model = AutoModel.from_pretrained(name, trust_remote_code=trust, dtype=torch.float32)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = model.eval().requires_grad_(False).to(device)
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.unk_token
        limits = (self._tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None))
        self._context = min([limit for limit in limits if limit], default=_LONGEST_CONTEXT)
        parameters = (value.cpu().contiguous().view(torch.uint8) for value in model.state_dict().values())
        self.version = version_of("encoder-1", *(value.numpy().tobytes() for value in parameters))

    def encode(self, sequences: Sequence[str]) -> np.ndarray:
        """(len(sequences), hidden size) float32, rows of length 1."""
        import torch

        tokens = self._tokenizer(
            list(sequences),
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=min(self._context, _LONGEST_CONTEXT),
        )
        tokens = {name: value.to(self._model.device) for name, value in tokens.items()}
        with torch.inference_mode():
            states = self._model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1)
        pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(pooled, dim=-1).float().cpu().numpy()


@lru_cache(maxsize=2)
def _load(name: str) -> _Encoder:
    try:
        return _Encoder(name)
    except Exception as error:  # a broken folder or repository raises whatever its reader raises
        raise UsageError(
            f"cannot load the embedder {name!r}: {error}. Give a folder or hub name of a transformers encoder; "
            f"one that brings its own code also needs {TRUST_VARIABLE}=1"
        ) from error
