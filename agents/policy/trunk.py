"""The frozen trunk: hidden states below the adapted layers, computed once per prompt and kept.

With an adapter on the upper layers only, the state of every node of a prompt's candidate tree at the first adapted
layer never changes. Kept, it leaves the upper layers to run per visit. The cut is made in the model's own forward pass,
by letting layers hand on their input, so positions, masks, scaling and the head stay the model's business.

Invariant: what is stored for a prompt depends on the prompt, the candidates and `plan` only, never on the order of
visits, so a resumed run finds the very same states.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import nn

from ...runs import write_atomic
from .families import decoder_layers, forward_arguments
from .tree import TokenIds, TokenTree, pack


class Store(Protocol):
    """Where states are kept, by prompt."""

    def get(self, prompt: TokenIds) -> torch.Tensor | None:
        """The states of a prompt, or None."""
        ...

    def put(self, prompt: TokenIds, states: torch.Tensor) -> None:
        """Keep the states of a prompt."""
        ...


class MemoryStore:
    """Keeps states in main memory."""

    def __init__(self) -> None:
        self._states: dict[tuple[int, ...], torch.Tensor] = {}

    def get(self, prompt: TokenIds) -> torch.Tensor | None:
        """The states of a prompt, or None."""
        return self._states.get(tuple(prompt))

    def put(self, prompt: TokenIds, states: torch.Tensor) -> None:
        """Keep the states of a prompt."""
        self._states[tuple(prompt)] = states.cpu()


class DiskStore:
    """Keeps states in one memory-mapped file per prompt; several processes may share the folder.

    Args:
        folder: None means a temporary folder that vanishes with the store.
        fingerprint: of everything besides the prompt that the states depend on; a folder of its own.
    """

    def __init__(self, folder: Path | None, fingerprint: str):
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="toolcredit-trunk-")
        self.folder = Path(folder or self._temporary.name) / fingerprint[:16]  # type: ignore[union-attr]

    def get(self, prompt: TokenIds) -> torch.Tensor | None:
        """The states of a prompt, or None."""
        file = self._file(prompt)
        return load_file(file)["states"] if file.exists() else None

    def put(self, prompt: TokenIds, states: torch.Tensor) -> None:
        """Keep the states of a prompt."""
        write_atomic(self._file(prompt), save({"states": states.cpu().contiguous()}))

    def _file(self, prompt: TokenIds) -> Path:
        name = hashlib.sha256(np.array(prompt, np.int64).tobytes()).hexdigest()
        return self.folder / name[:2] / f"{name}.safetensors"


class SplitModel:
    """A causal language model whose forward pass is cut before decoder layer `first`."""

    def __init__(self, model: Any, first: int):
        layers = decoder_layers(model)[1]
        if not 0 < first < len(layers):
            raise ValueError(f"a model of {len(layers)} layers cannot be cut before layer {first}")
        self.model = model
        self._lower, self._upper = list(layers[:first]), list(layers[first:])

    def lower(self, tree: TokenTree) -> torch.Tensor:
        """(N, H) states of the tree's nodes before layer `first`."""
        seen: list[torch.Tensor] = []

        def capture(states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
            seen.append(states)
            return states

        arguments = forward_arguments(self.model, tree) | {"logits_to_keep": 1}
        with _forward_replaced(self._upper[1:], _hand_on), _forward_replaced(self._upper[:1], capture):
            self.model(**arguments)
        return seen[0][0]

    def upper(self, tree: TokenTree, states: torch.Tensor) -> torch.Tensor:
        """(R, V) logits at the tree's predicting nodes, from the states before layer `first`."""
        with (
            _forward_replaced(self._lower[:-1], _hand_on),
            _forward_replaced(self._lower[-1:], lambda *_, **__: states[None]),
        ):
            return self.model(**forward_arguments(self.model, tree)).logits[0]


class Trunk:
    """Runs trees through a split model, with the lower layers' states from a store.

    Args:
        split: the model, cut at the first adapted layer.
        candidates: token ids of all candidates. Trees with other completions go through the whole model.
        store: where the states of a prompt's candidate tree are kept.
        tokens_per_pass: prompts that are planned together are computed in trees of about this many nodes.
    """

    def __init__(self, split: SplitModel, candidates: Sequence[TokenIds], store: Store, tokens_per_pass: int):
        self.split, self.store, self.tokens_per_pass = split, store, tokens_per_pass
        self.candidates = [tuple(candidate) for candidate in candidates]
        prefixes = sorted({c[:t] for c in self.candidates for t in range(1, len(c))})
        self._row = {prefix: row for row, prefix in enumerate(prefixes)}
        self._neighbours: dict[tuple[int, ...], Sequence[TokenIds]] = {}

    def plan(self, prompts: Sequence[TokenIds]) -> None:
        """Say which prompts will come: neighbours in this order are computed together and share their beginning."""
        distinct = sorted(set(map(tuple, prompts)))
        for tree in pack(distinct, [self.candidates] * len(distinct), self.tokens_per_pass):
            self._neighbours.update((tuple(prompt), tree.prompts) for prompt in tree.prompts)

    def fill(self, prompts: Sequence[TokenIds]) -> None:
        """Compute and keep the states of prompts that are not kept yet."""
        for prompt in prompts:
            self._of_prompt(prompt)

    def __call__(self, tree: TokenTree) -> torch.Tensor:
        """(R, V) logits at the tree's predicting nodes."""
        states = self._states(tree)
        if states is None:
            return self.split.model(**forward_arguments(self.split.model, tree)).logits[0]
        return self.split.upper(tree, states)

    def _states(self, tree: TokenTree) -> torch.Tensor | None:
        """(N, H) states of the tree's nodes before the adapted layers; None if a completion leaves the candidates."""
        places = [self._places(tree, b) for b in range(len(tree.prompts))]
        if any((rows < 0).any() for _, rows in places):
            return None
        model = self.split.model
        states: torch.Tensor | None = None
        for prompt, (nodes, rows) in zip(tree.prompts, places, strict=True):
            stored = self._of_prompt(prompt)
            if states is None:
                states = stored.new_empty(len(tree), stored.shape[1])
            states[torch.from_numpy(nodes)] = stored[torch.from_numpy(rows)]
        assert states is not None
        return states.to(model.device)

    def _of_prompt(self, prompt: TokenIds) -> torch.Tensor:
        """(rows, H) states of the prompt's tokens, then of the candidates' prefixes in sorted order."""
        stored = self.store.get(prompt)
        if stored is None:
            self._compute(self._neighbours.get(tuple(prompt), [prompt]))
            stored = self.store.get(prompt)
        assert stored is not None
        return stored

    @torch.no_grad()
    def _compute(self, prompts: Sequence[TokenIds]) -> None:
        tree = TokenTree.build(prompts, [self.candidates] * len(prompts))
        states = self.split.lower(tree)
        for b, prompt in enumerate(prompts):
            nodes, rows = self._places(tree, b)
            own = states.new_empty(len(prompt) + len(self._row), states.shape[1])
            own[torch.from_numpy(rows)] = states[torch.from_numpy(nodes)]
            self.store.put(prompt, own)

    def _places(self, tree: TokenTree, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes of the b-th prompt and its completions, and their rows in what is stored for the prompt; -1 if none."""
        first = sum(map(len, tree.completions[:b]))
        prompt_nodes = np.flatnonzero(tree.ancestors[tree.predictors[tree.rows[first, 0]]])
        nodes, rows = [prompt_nodes], [np.arange(len(prompt_nodes))]
        for path, completion in enumerate(map(tuple, tree.completions[b]), first):
            nodes.append(tree.predictors[tree.rows[path, 1 : len(completion)]])
            found = [self._row.get(completion[:t]) for t in range(1, len(completion))]
            rows.append(np.array([-1 if row is None else row + len(prompt_nodes) for row in found], np.int64))
        return np.concatenate(nodes), np.concatenate(rows)


def fingerprint(model_fingerprint: str, first: int, candidates: Sequence[TokenIds]) -> str:
    """SHA-256 of what stored states depend on besides the prompt: the model, the cut and the candidates."""
    return hashlib.sha256(f"{model_fingerprint} {first} {[list(c) for c in candidates]}".encode()).hexdigest()


def _hand_on(states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return states


@contextmanager
def _forward_replaced(layers: Sequence[nn.Module], forward: Callable[..., torch.Tensor]) -> Iterator[None]:
    """Give `layers` another forward pass for the time being; they stay in place, so indices and names hold."""
    before = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        layer.forward = forward
    try:
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            if own is None:
                del layer.forward
            else:
                layer.forward = own
