"""Log-probabilities of the sampled tokens of whole trajectories under a model's present weights, with gradients.

`pad_batch` puts trajectories into tensors, `token_logprobs` runs them. Only tokens that the policy sampled get logits,
and never more than a chunk of them at a time: the backward pass computes each chunk again, so that a vocabulary of
150,000 costs no memory. With `shared`, everything that trajectories begin with in common (the members of a group their
prompt, and all of them the system prompt) goes through the model once, packed into one tree of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from ..errors import UsageError
from .policy.families import forward_arguments
from .policy.tree import TokenTree
from .trajectory import Trajectory

#: A tree's mask grows with the square of its tokens: 64 MiB for these.
MOST_NODES = 8192


@dataclass(frozen=True)
class Batch:
    """B trajectories, padded on the right to T tokens. What is padding follows from the lengths, never from the ids.

    Attributes:
        trajectories: what it was made of.
        ids: (B, T) int64; 0 in the padding.
        lengths: (B,) int64.
        trainable: (B, T) bool; False in the padding, like all below.
        segment: (B, T) int8, see `trajectory.Segment`.
        step: (B, T) int16; −1 in the padding.
        logprobs: (B, T) float32, log p when sampled.
        temperature: that all of them were sampled with.
    """

    trajectories: tuple[Trajectory, ...]
    ids: torch.Tensor
    lengths: torch.Tensor
    trainable: torch.Tensor
    segment: torch.Tensor
    step: torch.Tensor
    logprobs: torch.Tensor
    temperature: float

    def padded(self, rows: Sequence[np.ndarray]) -> torch.Tensor:
        """Numbers of the tokens of each trajectory as (B, T) float32, 0 in the padding."""
        out = np.zeros(tuple(self.ids.shape), np.float32)
        for row, values in zip(out, rows, strict=True):
            row[: len(values)] = values
        return torch.from_numpy(out).to(self.ids.device)


@dataclass(frozen=True)
class TokenScores:
    """What a model says about the sampled tokens of a batch.

    Attributes:
        logprobs: (B, T) log p(token | everything before it), differentiable; 0 on all other tokens.
        entropy: (B, T) of the distributions they were drawn from, in nats, without gradient; 0 on all other tokens.
        tokens: how many tokens went through the model.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor
    tokens: int


def pad_batch(trajectories: Sequence[Trajectory], device: torch.device | str = "cpu") -> Batch:
    """Put trajectories into tensors.

    Raises:
        UsageError: there is none, or they were sampled at different temperatures.
    """
    temperatures = {t.temperature for t in trajectories}
    if len(temperatures) != 1:
        raise UsageError(f"a batch needs trajectories of one sampling temperature, got {sorted(temperatures)}")

    def padded(arrays: Sequence[np.ndarray], value: float = 0) -> torch.Tensor:
        rows = [torch.from_numpy(np.array(array)) for array in arrays]
        return pad_sequence(rows, batch_first=True, padding_value=value).to(device)

    return Batch(
        tuple(trajectories),
        ids=padded([t.ids for t in trajectories]),
        lengths=torch.tensor([len(t) for t in trajectories], device=device),
        trainable=padded([t.trainable for t in trajectories]),
        segment=padded([t.segment for t in trajectories]),
        step=padded([t.step for t in trajectories], -1),
        logprobs=padded([t.logprobs for t in trajectories]),
        temperature=temperatures.pop(),
    )


def token_logprobs(
    model: Any, batch: Batch, *, temperature: float | None = None, chunk: int = 1024, shared: bool = False
) -> TokenScores:
    """Log-probabilities of the sampled tokens; run it under `torch.no_grad()` if no gradient is wanted.

    Args:
        model: a causal language model of transformers, with or without an adapter inside (not wrapped by peft).
        batch: on the model's device.
        temperature: logits are divided by it. By default the sampling's own, as training must have it (1 for greedy).
        chunk: distributions that are held in memory at once.
        shared: pack the trajectories into a tree, if it has at most `MOST_NODES` tokens. Only for models on which
            `policy.scorer` has proven it (`ChatPolicy.packs`).
    """
    temperature = batch.temperature or 1.0 if temperature is None else temperature
    tree = _tree(batch) if shared else None
    states, tokens = _row_states(model, batch) if tree is None else _tree_states(model, batch, tree)
    targets = batch.ids[batch.trainable]

    def score(own: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = _logits(model, own)
        precise = logits if logits.dtype == torch.float64 else logits.float()
        logprobs = torch.log_softmax(precise if temperature == 1 else precise / temperature, -1)
        with torch.no_grad():
            entropy = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, wanted[:, None])[:, 0], entropy

    parts = [_recomputed(score, *pair) for pair in zip(states.split(chunk), targets.split(chunk), strict=True)]
    logprobs, entropy = (torch.cat(column) for column in zip(*parts, strict=True))
    empty = logprobs.new_zeros(batch.ids.shape)
    return TokenScores(
        empty.masked_scatter(batch.trainable, logprobs), empty.masked_scatter(batch.trainable, entropy), tokens
    )


def _row_states(model: Any, batch: Batch) -> tuple[torch.Tensor, int]:
    """(N, H) states that predict the N trainable tokens, row after row, from one padded row per trajectory."""
    ids = batch.ids[:, :-1]
    attention = torch.arange(ids.shape[1], device=ids.device)[None] < batch.lengths[:, None]
    states = model.base_model(input_ids=ids, attention_mask=attention.long(), use_cache=False).last_hidden_state
    return states[batch.trainable[:, 1:]], ids.numel()


def _tree(batch: Batch) -> TokenTree | None:
    """The tree of all trajectories; None if its mask would be too large."""
    cuts = [t.prompt_length for t in batch.trajectories]
    rows = [t.ids.tolist() for t in batch.trajectories]
    prompts = [row[:cut] for row, cut in zip(rows, cuts, strict=True)]
    tree = TokenTree.build(prompts, [[row[cut:]] for row, cut in zip(rows, cuts, strict=True)])
    return tree if len(tree) <= MOST_NODES else None


def _tree_states(model: Any, batch: Batch, tree: TokenTree) -> tuple[torch.Tensor, int]:
    """The same as `_row_states` from one tree of all trajectories."""
    arguments = forward_arguments(model, tree)
    del arguments["logits_to_keep"]
    states = model.base_model(**arguments).last_hidden_state[0]
    predicting = [
        tree.predictors[tree.rows[path, np.flatnonzero(t.trainable) - t.prompt_length]]
        for path, t in enumerate(batch.trajectories)
    ]
    return states[torch.from_numpy(np.concatenate(predicting)).to(states.device)], len(tree)


def _logits(model: Any, states: torch.Tensor) -> torch.Tensor:
    """(N, V) logits of (N, H) final states: by the model's own forward pass, whose head may scale or cap them."""
    with _forward_replaced(model.base_model, lambda *_, **__: _Output(states[None])):
        return model(input_ids=torch.zeros(1, len(states), dtype=torch.long, device=states.device)).logits[0]


class _Output:
    """What a decoder returns, with nothing but its final states."""

    def __init__(self, states: torch.Tensor):
        self.last_hidden_state = states

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, index: int) -> torch.Tensor:
        return (self.last_hidden_state,)[index]


@contextmanager
def _forward_replaced(module: Any, forward: Callable[..., Any]) -> Iterator[None]:
    before = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


def _recomputed(score: Callable[..., Any], states: torch.Tensor, targets: torch.Tensor) -> Any:
    if not torch.is_grad_enabled():
        return score(states, targets)
    return checkpoint(score, states, targets, use_reentrant=False, preserve_rng_state=False)
