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
        draw = _Drawer(logprobs, greedy=temperature == 0, generator=generator)
        for first in range(0, len(tree.lengths), len(candidates)):
            steps = _steps(tree, first, len(candidates))
            samples.append([_walk(draw, steps, root=int(tree.rows[first, 0])) for _ in range(group)])
    return samples


@torch.no_grad()
def generate(
    model: Any,
    prompt: TokenIds,
    group: int,
    *,
    stop: Callable[[Sequence[int]], bool],
    max_new_tokens: int,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
    cached: bool = True,
) -> list[Sample]:
    """`group` completions of one prompt by free generation; the prompt goes through the model once.

    Args:
        model: a causal language model of transformers.
        prompt: token ids.
        group: number of completions.
        stop: told the ids so far after every token; True ends the completion.
        max_new_tokens: length limit.
        temperature: 0 decodes greedily.
        generator: on the CPU; source of all randomness, one number per token.
        cached: use a key-value cache; False runs everything again for each token, which any architecture can do.
    """
    ids: list[list[int]] = [[] for _ in range(group)]
    logprobs: list[list[float]] = [[] for _ in range(group)]
    done = [False] * group
    start = torch.tensor([list(prompt)], device=model.device)
    output = model(input_ids=start, use_cache=cached, logits_to_keep=1)
    if cached:
        cache_name, cache = _cache(model, output)
        cache.batch_repeat_interleave(group)
    rows = output.logits[:, -1].expand(group, -1)
    for _ in range(max_new_tokens):
        step = log_distribution(rows, temperature or 1.0)
        draw = _Drawer(step, greedy=temperature == 0, generator=generator)
        for g in range(group):
            token, logprob = draw(g)
            if not done[g]:
                ids[g].append(token)
                logprobs[g].append(logprob)
                done[g] = stop(ids[g])
        if all(done):
            break
        if cached:
            latest = torch.tensor([[own[-1]] for own in ids], device=model.device)
            rows = model(input_ids=latest, use_cache=True, **{cache_name: cache}).logits[:, -1]
        else:
            longest = max(map(len, ids))
            whole = [[*prompt, *own, *own[-1:] * (longest - len(own))] for own in ids]
            so_far = torch.tensor(whole, device=model.device)
            rows = model(input_ids=so_far, use_cache=False, logits_to_keep=1).logits[:, -1]
    return [Sample(tuple(i), tuple(p), None, not d) for i, p, d in zip(ids, logprobs, done, strict=True)]


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


def _cache(model: Any, output: Any) -> tuple[str, Any]:
    """Keyword and key-value cache of a forward pass; transformers 5.2x renamed both."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    return name, getattr(output, name)
