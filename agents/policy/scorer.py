"""Exact log-probabilities of completions under a causal language model, with gradients.

`Scorer` runs one packed pass per batch (see `tree`). Where that is not proven equal to plain rows, on the very model
and at start-up, it scores row by row instead, with the same gradient and bounded memory: rows are scored without a
graph, and each chunk is run again when its gradient is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from .families import forward_arguments, unsupported
from .tree import TokenIds, TokenTree, pack
from .trunk import Trunk

log = logging.getLogger(__name__)

ROWS_PER_PASS = 4
"""Rows of one chunk of the row-by-row scorer."""

TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.25}
"""Largest accepted difference of a mean token log-probability between tree and rows: what rows of two shapes differ."""


@dataclass(frozen=True)
class Paths:
    """Log-probabilities along P completions, padded to T tokens.

    Attributes:
        logprobs: (P, T) log p(token | everything before it); 0 in the padding. float32, or float64 for such a model.
        scored: (P, T) bool: False in the padding.
        tokens: how many tokens went through the model.
    """

    logprobs: torch.Tensor
    scored: torch.Tensor
    tokens: int

    @property
    def sums(self) -> torch.Tensor:
        """(P,) log p(completion | prompt)."""
        return self.logprobs.sum(-1)

    @property
    def lengths(self) -> torch.Tensor:
        """(P,) tokens of each completion."""
        return self.scored.sum(-1)


class Scorer:
    """Scores completions by packed trees, or row by row where `prove` found that a tree would be wrong.

    Args:
        model: a causal language model of transformers, with or without an adapter inside. It must be deterministic:
            no dropout.
        tokens_per_pass: a larger batch is split into passes of about this many nodes.

    Attributes:
        reason: why rows are used instead of trees; None if trees are.
        trunk: runs trees instead of the whole model, if set.
    """

    def __init__(self, model: Any, *, tokens_per_pass: int = 2048):
        self.model = model
        self.tokens_per_pass = tokens_per_pass
        self.reason = unsupported(model)
        self.trunk: Trunk | None = None

    def paths(
        self,
        prompts: Sequence[TokenIds],
        completions: Sequence[Sequence[TokenIds]],
        *,
        temperature: float = 1.0,
        grad: bool = False,
    ) -> Paths:
        """Log-probabilities of `completions[b]` after `prompts[b]` for every b; paths numbered in that order.

        Args:
            prompts: token ids.
            completions: for each prompt, token ids of each of its completions.
            temperature: logits are divided by it before the softmax.
            grad: keep the graph to the model's trainable parameters.
        """
        with torch.set_grad_enabled(grad):
            logprobs, tokens = (self._trees if self.reason is None else self._rows)(prompts, completions, temperature)
        lengths = torch.tensor([len(c) for own in completions for c in own], device=logprobs.device)
        scored = torch.arange(logprobs.shape[1], device=logprobs.device)[None] < lengths[:, None]
        return Paths(logprobs, scored, tokens)

    @torch.no_grad()
    def distributions(
        self, prompts: Sequence[TokenIds], completions: Sequence[Sequence[TokenIds]], *, temperature: float = 1.0
    ) -> Iterator[tuple[TokenTree, torch.Tensor]]:
        """The next-token distributions at every predicting node, pass by pass.

        Yields:
            the tree of a pass and (R, V) log-probabilities. Trees of successive passes cover the prompts in order.
        """
        for tree in pack(prompts, completions, self.tokens_per_pass):
            yield tree, log_distribution(self.logits(tree), temperature)

    @torch.no_grad()
    def prove(self, prompt: TokenIds, completions: Sequence[TokenIds]) -> None:
        """Compare tree with rows, and trunk with the whole model, on this very model; log and drop what differs.

        Args:
            prompt: token ids of a prompt as it will be used.
            completions: token ids of its completions; the shortest, a middle one and the longest are compared.
        """
        trunk, self.trunk = self.trunk, None
        by_length = sorted(completions, key=len)
        chosen = [by_length[0], by_length[len(by_length) // 2], by_length[-1]]
        limit = TOLERANCE[self.model.dtype]

        def difference(logprobs: torch.Tensor, other: torch.Tensor) -> float:
            lengths = torch.tensor([len(c) for c in chosen], device=other.device)
            return ((logprobs.sum(-1) - other.sum(-1)) / lengths).abs().max().item()

        if self.reason is None:
            whole = self.paths([prompt], [chosen]).logprobs
            off = difference(whole, concatenate([row_logprobs(self.model, [(prompt, c)]) for c in chosen]))
            if not off <= limit:
                self.reason = f"the packed tree differs from plain rows by {off:.2g} (limit {limit:g})"
        if self.reason is not None:
            log.warning("scoring row by row, which is many times slower: %s", self.reason)
        elif trunk is not None:
            self.trunk = trunk
            off = difference(self.paths([prompt], [chosen]).logprobs, whole)
            if not off <= limit:
                self.trunk = None
                log.warning("not caching the trunk: it differs from the whole model by %.2g (limit %g)", off, limit)

    def logits(self, tree: TokenTree) -> torch.Tensor:
        """(R, V) logits at the tree's predicting nodes."""
        if self.trunk is not None:
            return self.trunk(tree)
        return self.model(**forward_arguments(self.model, tree)).logits[0]

    def _trees(
        self, prompts: Sequence[TokenIds], completions: Sequence[Sequence[TokenIds]], temperature: float
    ) -> tuple[torch.Tensor, int]:
        """(P, T) log-probabilities by packed trees, and the tokens that took."""
        # Neighbours in sorted order have most in common, which matters if they do not all fit into one pass.
        order = sorted(range(len(prompts)), key=lambda b: list(prompts[b]))
        trees = list(pack([prompts[b] for b in order], [completions[b] for b in order], self.tokens_per_pass))
        logprobs = concatenate([token_logprobs(self.logits(tree), tree, temperature) for tree in trees])
        blocks = dict(zip(order, logprobs.split([len(completions[b]) for b in order]), strict=True))
        return torch.cat([blocks[b] for b in range(len(prompts))]), sum(map(len, trees))

    def _rows(
        self, prompts: Sequence[TokenIds], completions: Sequence[Sequence[TokenIds]], temperature: float
    ) -> tuple[torch.Tensor, int]:
        """(P, T) log-probabilities row by row, and the tokens that took."""
        pairs = [(prompt, c) for prompt, own in zip(prompts, completions, strict=True) for c in own]
        longest = max(len(c) for _, c in pairs)

        def scorer(chunk: Sequence[tuple[TokenIds, TokenIds]]) -> Callable[[], torch.Tensor]:
            return lambda: row_logprobs(self.model, chunk, temperature, longest)

        chunks = [scorer(pairs[i : i + ROWS_PER_PASS]) for i in range(0, len(pairs), ROWS_PER_PASS)]
        logprobs = _Recomputed.apply(chunks, *(p for p in self.model.parameters() if p.requires_grad))
        return logprobs, sum(len(prompt) + len(c) for prompt, c in pairs)


def token_logprobs(logits: torch.Tensor, tree: TokenTree, temperature: float = 1.0) -> torch.Tensor:
    """(P, T) log-probabilities of the tree's completion tokens from the (R, V) logits at its predicting nodes."""
    rows = torch.tensor(tree.rows, device=logits.device)
    targets = torch.tensor(tree.targets, device=logits.device)
    scored = torch.tensor(tree.scored, device=logits.device)
    return torch.where(scored, log_distribution(logits, temperature)[rows, targets], 0.0)


def log_distribution(logits: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Log softmax(logits / temperature), in float32 at least: the normaliser sums over the whole vocabulary."""
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(precise if temperature == 1 else precise / temperature, -1)


def row_logprobs(
    model: Any,
    pairs: Sequence[tuple[TokenIds, TokenIds]],
    temperature: float = 1.0,
    longest: int | None = None,
) -> torch.Tensor:
    """(P, T) completion log-probabilities with one plain row per (prompt, completion) pair: what a tree must equal.

    Args:
        model: any causal language model.
        pairs: prompt and completion token ids.
        temperature: logits are divided by it.
        longest: T; the longest completion's length by default.
    """
    device = model.device
    ids = pad_sequence([torch.tensor([*p, *c]) for p, c in pairs], batch_first=True).to(device)
    lengths = torch.tensor([len(p) + len(c) for p, c in pairs], device=device)
    attention = (torch.arange(ids.shape[1], device=device)[None] < lengths[:, None]).long()
    longest = longest or max(len(c) for _, c in pairs)
    first = min(len(p) for p, _ in pairs) - 1
    keep = torch.arange(first, ids.shape[1] - 1, device=device)
    logits = model(input_ids=ids, attention_mask=attention, logits_to_keep=keep, use_cache=False).logits
    if logits.shape[1] != len(keep):  # a model that does not know the argument returns them all
        logits = logits[:, keep]
    logprobs = log_distribution(logits, temperature).gather(-1, ids[:, first + 1 :, None])[..., 0]
    own = [logprobs[i, len(p) - 1 - first :][: len(c)] for i, (p, c) in enumerate(pairs)]
    return torch.stack([nn.functional.pad(row, (0, longest - len(row))) for row in own])


class _Recomputed(torch.autograd.Function):
    """Concatenates the results of `chunks`; keeps no graph, and runs each chunk again in the backward pass.

    The gradient is the one of `torch.cat([chunk() for chunk in chunks])` with respect to the parameters, at the memory
    of one chunk.
    """

    @staticmethod
    def forward(ctx: Any, chunks: Sequence[Callable[[], torch.Tensor]], *parameters: nn.Parameter) -> torch.Tensor:
        ctx.chunks, ctx.parameters = chunks, parameters
        results = [chunk() for chunk in chunks]
        ctx.sizes = [len(result) for result in results]
        return torch.cat(results)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        totals: list[torch.Tensor | None] = [None] * len(ctx.parameters)
        for chunk, weight in zip(ctx.chunks, gradient.split(ctx.sizes), strict=True):
            with torch.enable_grad():
                parts = torch.autograd.grad(chunk(), ctx.parameters, weight, allow_unused=True)
            totals = [p if t is None else t if p is None else t + p for t, p in zip(totals, parts, strict=True)]
        return (None, *totals)


def concatenate(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack (P_i, T_i) blocks into (sum P_i, max T_i), zero-padded."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([nn.functional.pad(part, (0, longest - part.shape[1])) for part in parts])
