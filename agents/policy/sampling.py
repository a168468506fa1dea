"""Drawing completions from the policy's own next-token distributions: no top-p, no top-k, one temperature for all.

`sample_tree` walks the candidate tree with the true distributions: its law is exactly that of free generation stopped
at the first token that leaves the tree, at the cost of one scoring pass for any number of samples. `generate` is free
generation with a key-value cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .scorer import Scorer, log_distribution
from .tree import TokenIds, TokenTree


@dataclass(frozen=True)
class Sample:
    """One sampled completion.

    Attributes:
        ids: token ids as sampled, never re-encoded.
        logprobs: log p of each of them at the sampling temperature (at temperature 1 if decoding was greedy).
        candidate: index of the candidate it is, or None.
        truncated: True if it was cut off by the length limit.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    candidate: int | None
    truncated: bool = False


def sample_tree(
    scorer: Scorer,
    prompts: Sequence[TokenIds],
    candidates: Sequence[TokenIds],
    group: int,
    *,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[list[Sample]]:
    """`group` completions per prompt, drawn from the whole vocabulary at every node of the candidate tree.

    A token that leads to no candidate ends the completion, which then has `candidate=None` and this token last.

    Args:
        scorer: scores by trees (`scorer.reason` is None).
        prompts: token ids.
        candidates: prefix-free token ids of the candidates.
        group: completions per prompt.
        temperature: 0 decodes greedily.
        generator: on the CPU; source of all randomness, one number per token.
    """
    samples: list[list[Sample]] = []
    completions = [candidates] * len(prompts)
    for tree, logprobs in scorer.distributions(prompts, completions, temperature=temperature or 1.0):
        draw = _Drawer(logprobs, temperature == 0, generator)
        for first in range(0, len(tree.lengths), len(candidates)):
            steps = _steps(tree, first, len(candidates))
            samples.append([_walk(draw, steps, root=int(tree.rows[first, 0])) for _ in range(group)])
    return samples


@torch.no_grad()
def generate(
    model: Any,
    prompts: Sequence[TokenIds],
    group: int,
    *,
    stop: Callable[[Sequence[int]], bool],
    max_new_tokens: int,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
    cached: bool = True,
) -> list[list[Sample]]:
    """`group` completions per prompt by free generation; each prompt goes through the model once.

    Args:
        model: a causal language model of transformers.
        prompts: token ids.
        group: completions per prompt.
        stop: told the ids so far after every token; True ends the completion.
        max_new_tokens: length limit.
        temperature: 0 decodes greedily.
        generator: on the CPU; source of all randomness, one number per token.
        cached: use a key-value cache; False runs everything again for each token, which any architecture can do.
    """
    if not cached and len(prompts) > 1:  # one by one, since recurrent layers would read the padding
        limits: dict[str, Any] = {"max_new_tokens": max_new_tokens, "temperature": temperature, "generator": generator}
        return [generate(model, [p], group, stop=stop, cached=False, **limits)[0] for p in prompts]
    next_logits: Callable[[Sequence[Sequence[int]]], torch.Tensor]
    next_logits = _Cached(model, prompts, group) if cached else _Uncached(model, prompts[0])
    count = len(prompts) * group
    ids: list[list[int]] = [[] for _ in range(count)]
    logprobs: list[list[float]] = [[] for _ in range(count)]
    done = [False] * count
    for _ in range(max_new_tokens):
        draw = _Drawer(log_distribution(next_logits(ids), temperature or 1.0), temperature == 0, generator)
        for i in range(count):
            if not done[i]:
                token, logprob = draw(i)
                ids[i].append(token)
                logprobs[i].append(logprob)
                done[i] = stop(ids[i])
        if all(done):
            break
    samples = [Sample(tuple(i), tuple(p), None, not d) for i, p, d in zip(ids, logprobs, done, strict=True)]
    return [samples[first : first + group] for first in range(0, count, group)]


class _Cached:
    """Next-token logits with a key-value cache. Prompts are padded on the left; ended completions are fed along."""

    def __init__(self, model: Any, prompts: Sequence[TokenIds], group: int):
        self.model, self.prompts, self.group = model, prompts, group
        longest = max(map(len, prompts))
        self.attention = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device)
        # transformers 5.2x renamed it
        self.name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        self.cache: Any = None

    def __call__(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """(completions, V) logits after the completions so far."""
        if not ids[0]:
            longest = self.attention.shape[1]
            tokens = [[0] * (longest - len(p)) + list(p) for p in self.prompts]
            positions = (self.attention.cumsum(-1) - 1).clamp(min=0)
            logits = self._forward(tokens, positions)
            self.cache.batch_repeat_interleave(self.group)
            self.attention = self.attention.repeat_interleave(self.group, 0)
            return logits.repeat_interleave(self.group, 0)
        positions = self.attention.sum(-1, keepdim=True)
        self.attention = torch.cat([self.attention, torch.ones_like(positions)], 1)
        return self._forward([[own[-1]] for own in ids], positions)

    def _forward(self, tokens: Sequence[Sequence[int]], positions: torch.Tensor) -> torch.Tensor:
        output = self.model(
            input_ids=torch.tensor(tokens, device=self.model.device),
            attention_mask=self.attention,
            position_ids=positions,
            logits_to_keep=1,
            use_cache=True,
            **{self.name: self.cache},
        )
        self.cache = getattr(output, self.name)
        return output.logits[:, -1]


class _Uncached:
    """Next-token logits of one prompt's completions by running everything again."""

    def __init__(self, model: Any, prompt: TokenIds):
        self.model, self.prompt = model, prompt

    def __call__(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """(completions, V) logits after the completions so far."""
        longest = max(map(len, ids))  # ended completions repeat their last token; nobody looks at what follows
        whole = [[*self.prompt, *own, *list(own[-1:]) * (longest - len(own))] for own in ids]
        tokens = torch.tensor(whole, device=self.model.device)
        return self.model(input_ids=tokens, use_cache=False, logits_to_keep=1).logits[:, -1]


class _Drawer:
    """Draws tokens from rows of log-probabilities by inverting the cumulative distribution with one uniform number."""

    def __init__(self, logprobs: torch.Tensor, greedy: bool, generator: torch.Generator | None):
        self.logprobs, self.greedy, self.generator = logprobs, greedy, generator
        self.cumulative: dict[int, torch.Tensor] = {}

    def __call__(self, row: int) -> tuple[int, float]:
        """A token of this row's distribution and its log-probability."""
        if self.greedy:
            token = int(self.logprobs[row].argmax())
        else:
            # In float32 a running sum over a whole vocabulary would be off by more than a rare token's probability.
            if row not in self.cumulative:
                self.cumulative[row] = self.logprobs[row].double().exp().cumsum(-1)
            cumulative = self.cumulative[row]
            uniform = torch.rand(1, generator=self.generator, dtype=torch.float64).to(cumulative.device)
            token = int(
                torch.searchsorted(cumulative, uniform * cumulative[-1], right=True).clamp(max=len(cumulative) - 1)
            )
        return token, float(self.logprobs[row, token])


def _steps(tree: TokenTree, first: int, count: int) -> dict[tuple[int, int], tuple[int | None, int | None]]:
    """(row, token) → (the row that predicts next, None) inside the tree, or (None, candidate) at a candidate's end."""
    steps: dict[tuple[int, int], tuple[int | None, int | None]] = {}
    for candidate in range(count):
        path, length = first + candidate, int(tree.lengths[first + candidate])
        rows, targets = tree.rows[path].tolist(), tree.targets[path].tolist()
        for t in range(length):
            ends = t == length - 1
            steps[rows[t], targets[t]] = (None, candidate) if ends else (rows[t + 1], None)
    return steps


def _walk(draw: _Drawer, steps: dict[tuple[int, int], tuple[int | None, int | None]], root: int) -> Sample:
    ids: list[int] = []
    logprobs: list[float] = []
    row: int | None = root
    candidate: int | None = None
    while row is not None:
        token, logprob = draw(row)
        ids.append(token)
        logprobs.append(logprob)
        row, candidate = steps.get((row, token), (None, None))
    return Sample(tuple(ids), tuple(logprobs), candidate)
