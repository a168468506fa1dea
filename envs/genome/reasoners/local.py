"""`local`: a frozen language model in this process (SmolLM2 out of the box), decoded greedily, answers one letter."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .... import assets
from ....errors import ConfigError, UnknownNameError
from ..questions import LETTERS, PublicQuestion
from ..tools.base import Evidence
from .base import Answer
from .prompt import parse_choice, prompt_digest, reasoner_messages

if TYPE_CHECKING:
    from ....llm.local import LocalModel

MODES = ("reply", "letter")

#: Characters left of each block when all of them together do not fit into the model's context, tried in this order.
SHORTER = (2000, 1000, 500, 250, 100)

_one_at_a_time = threading.Lock()  # tokenizers and models are not made for several threads


class LocalReasoner:
    """Asks a local transformers model.

    Args:
        model: `smollm2`, `tiny`, a folder or a hub name; see `load_local_model`.
        mode: `reply` writes a short reply and reads it as `chat` does; `letter` takes the option whose letter, as the
            first token, gains most over its probability without any content. Default: `letter` for `smollm2` and
            `tiny`, half of whose replies cannot be read, else `reply`.
        max_tokens: length of a reply.
        dtype: see `load_local_model`.
        device: see `load_local_model`.
        bases: show only the middle bases of each sequence.

    The model is loaded at the first question. Evidence that does not fit into its context is cut, every block to the
    same length. The correction of the letters (contextual calibration, arXiv:2102.09690) is needed because small models
    prefer a letter whatever is asked: SmolLM2 answers A to every question without it.
    """

    name = "local"
    concurrency = 1

    def __init__(
        self,
        model: str,
        *,
        mode: str | None = None,
        max_tokens: int = 64,
        dtype: str = "auto",
        device: str = "auto",
        bases: int | None = None,
    ):
        if mode not in (None, *MODES):
            raise UnknownNameError("mode of the local reasoner", mode, MODES)
        if not isinstance(model, str) or not model.strip():
            raise ConfigError(f"model={model!r}: expected smollm2, tiny, a folder or a hub name")
        if model in assets.ASSETS:
            assets.path(model)  # tell now that it is not installed, not at the first question
        self._model = (model, dtype, device)
        self._mode = mode or ("letter" if model in ("smollm2", "tiny") else "reply")
        self._max_tokens = max_tokens
        self._bases = bases

    @property
    def version(self) -> str:
        """Model name and a digest of prompt, mode, weights and tokenizer; loads the model."""
        settings = [prompt_digest(), self._mode, self._max_tokens, self._bases, SHORTER, _fingerprint(*self._model)]
        return f"{self._model[0]} {hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]}"

    def answer(self, question: PublicQuestion, evidence: Sequence[Evidence]) -> Answer:
        """The option that the model names (see `Reasoner`).

        Raises:
            UsageError: the question alone does not fit into the model's context.
        """
        with _one_at_a_time:
            model = _load(*self._model)
            messages = self._fitting(model, question, evidence)
            if self._mode == "reply":
                reply = model.reply(messages, max_tokens=self._max_tokens)
                return Answer(parse_choice(reply, question.choices), reply)
            letters = LETTERS[: len(question.choices)]
            logprobs = model.next_token_logprobs(messages, letters)
            gains = [here - always for here, always in zip(logprobs, _letter_bias(*self._model, letters), strict=True)]
        best = gains.index(max(gains))
        return Answer(best, letters[best])

    def _fitting(
        self, model: LocalModel, question: PublicQuestion, evidence: Sequence[Evidence]
    ) -> list[dict[str, Any]]:
        room = model.context_length - (self._max_tokens if self._mode == "reply" else 0)
        messages = reasoner_messages(question, evidence, self._bases)
        for length in SHORTER:
            if not evidence or len(model.render(messages)) <= room:
                break
            messages = reasoner_messages(question, [_cut(block, length) for block in evidence], self._bases)
        return messages


def _cut(block: Evidence, length: int) -> Evidence:
    return block if len(block.text) <= length else replace(block, text=block.text[:length] + " … [cut]")


@lru_cache(maxsize=2)
def _load(name: str, dtype: str, device: str) -> LocalModel:
    """One copy of a frozen model for all reasoners that use it."""
    from ....llm.local import load_local_model

    return load_local_model(name, dtype=dtype, device=device)


@lru_cache(maxsize=64)
def _letter_bias(name: str, dtype: str, device: str, letters: str) -> list[float]:
    """Log-probabilities of the letters where question, sequence and options say nothing."""
    nothing = PublicQuestion("N/A", ("N/A",) * len(letters), "N/A")
    return _load(name, dtype, device).next_token_logprobs(reasoner_messages(nothing, []), letters)


@lru_cache(maxsize=8)
def _fingerprint(name: str, dtype: str, device: str) -> str:
    return _load(name, dtype, device).fingerprint()
