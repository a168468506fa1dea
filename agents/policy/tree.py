"""Many token sequences packed into one: a prefix tree whose every node is one input token of one forward pass.

All completions of all prompts in a batch share every common prefix: the candidates of a question share its prompt, and
the questions of a batch share the system prompt and whatever else their prompts begin with. With an attention mask that
lets a node see its ancestors only, and depths as position ids, one pass over the nodes computes what one row per
(prompt, completion) pair would.

Invariants:
* nodes are in depth-first preorder, so the descendants of node i are the nodes i+1 … ends[i]-1, and the ancestor
  relation is two comparisons;
* the last token of a completion is predicted but never an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

TokenIds = Sequence[int]


@dataclass(frozen=True, eq=False)
class TokenTree:
    """The prefix tree of a batch. N nodes, P paths (prompt and completion), T tokens in the longest completion.

    Attributes:
        prompts: what it was built from.
        completions: likewise; paths are numbered in this order.
        tokens: (N,) token id of each node.
        depths: (N,) number of ancestors, which is the position id.
        ends: (N,) one past the last descendant.
        starts: (B,) first node that each successive prompt, in sorted order, adds to those before it.
        predictors: (R,) nodes whose next-token distribution is needed, ascending.
        rows: (P, T) index into `predictors` of the node that predicts each completion token; 0 in the padding.
        targets: (P, T) the completion tokens; 0 in the padding.
        lengths: (P,) tokens of each completion.
    """

    prompts: Sequence[TokenIds]
    completions: Sequence[Sequence[TokenIds]]
    tokens: np.ndarray
    depths: np.ndarray
    ends: np.ndarray
    starts: np.ndarray
    predictors: np.ndarray
    rows: np.ndarray
    targets: np.ndarray
    lengths: np.ndarray

    @classmethod
    def build(cls, prompts: Sequence[TokenIds], completions: Sequence[Sequence[TokenIds]]) -> TokenTree:
        """Pack `completions[b]` after `prompts[b]`, for every b.

        Paths are numbered in the order given: all completions of the first prompt, then of the second, and so on.

        Raises:
            ValueError: a prompt or completion is empty, or there is not one list of completions per prompt.
        """
        if len(prompts) != len(completions):
            raise ValueError(f"{len(prompts)} prompts need as many lists of completions, got {len(completions)}")
        pairs = [(p, list(c)) for p, own in zip(map(list, prompts), completions, strict=True) for c in own]
        if not pairs or any(not prompt or not completion for prompt, completion in pairs):
            raise ValueError("a token tree needs at least one path; prompts and completions must not be empty")
        inputs = [prompt + completion[:-1] for prompt, completion in pairs]
        order = sorted(range(len(inputs)), key=inputs.__getitem__)
        tokens: list[int] = []
        depths: list[int] = []
        ends: dict[int, int] = {}
        starts: list[int] = []
        nodes_of: dict[int, list[int]] = {}
        last_prompt: list[int] | None = None
        previous: list[int] = []
        nodes: list[int] = []
        for path in order:
            current = inputs[path]
            shared = _common_prefix(previous, current)
            # Sorted order is depth-first: what the new path leaves will not be visited again.
            ends.update(dict.fromkeys(nodes[shared:], len(tokens)))
            nodes = nodes[:shared] + list(range(len(tokens), len(tokens) + len(current) - shared))
            if len(current) > shared and pairs[path][0] is not last_prompt:
                starts.append(len(tokens))
                last_prompt = pairs[path][0]
            tokens += current[shared:]
            depths += range(shared, len(current))
            previous, nodes_of[path] = current, nodes
        ends.update(dict.fromkeys(nodes, len(tokens)))
        return cls(
            prompts,
            completions,
            tokens=np.array(tokens),
            depths=np.array(depths),
            ends=np.array([ends[node] for node in range(len(tokens))]),
            starts=np.array(starts),
            **_predictions(pairs, nodes_of),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ancestors(self) -> np.ndarray:
        """(N, N) bool: `ancestors[i, j]` is True if j is i or an ancestor of i, that is, if i may attend to j."""
        index = np.arange(len(self))
        return (index[None, :] <= index[:, None]) & (index[:, None] < self.ends[None, :])

    @property
    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Ranges of nodes that together cover the tree, each with the (K,) nodes that any of them may attend to."""
        for start, stop in zip(self.starts, [*self.starts[1:], len(self)], strict=True):
            above = np.flatnonzero(self.ancestors[start, :start])
            yield slice(start, stop), np.concatenate([above, np.arange(start, stop)])

    def within(self, window: int) -> np.ndarray:
        """(N, N) bool: `ancestors`, but only the nearest `window` nodes along the path, the node itself included."""
        return self.ancestors & (self.depths[:, None] - self.depths[None, :] < window)

    @cached_property
    def scored(self) -> np.ndarray:
        """(P, T) bool: True at completion tokens, False in the padding."""
        return np.arange(self.targets.shape[1])[None, :] < self.lengths[:, None]


def pack(prompts: Sequence[TokenIds], completions: Sequence[Sequence[TokenIds]], limit: int) -> Iterator[TokenTree]:
    """Trees of successive prompts, each of about `limit` nodes or of one prompt, to bound the memory of a pass."""
    start, size = 0, 0
    for b, (prompt, own) in enumerate(zip(prompts, completions, strict=True)):
        branches = len({tuple(c[:t]) for c in own for t in range(1, len(c))})
        new = len(prompt) - _common_prefix(prompts[start], prompt) + branches
        if b > start and size + new > limit:
            yield TokenTree.build(prompts[start:b], completions[start:b])
            start, size = b, 0
        size += len(prompt) + branches if b == start else new
    yield TokenTree.build(prompts[start:], completions[start:])


def _common_prefix(a: TokenIds, b: TokenIds) -> int:
    shortest = min(len(a), len(b))
    different = np.flatnonzero(np.array(a[:shortest]) != np.array(b[:shortest]))
    return int(different[0]) if len(different) else shortest


def _predictions(pairs: list[tuple[list[int], list[int]]], nodes_of: dict[int, list[int]]) -> dict[str, np.ndarray]:
    """Which node predicts which completion token."""
    lengths = np.array([len(completion) for _, completion in pairs])
    predicting = [nodes_of[path][len(prompt) - 1 :] for path, (prompt, _) in enumerate(pairs)]
    predictors, flat_rows = np.unique(list(chain.from_iterable(predicting)), return_inverse=True)
    scored = np.arange(lengths.max())[None, :] < lengths[:, None]
    rows = np.zeros(scored.shape, np.int64)
    targets = np.zeros(scored.shape, np.int64)
    rows[scored] = flat_rows
    targets[scored] = list(chain.from_iterable(completion for _, completion in pairs))
    return {"predictors": predictors, "rows": rows, "targets": targets, "lengths": lengths}
