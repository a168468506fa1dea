"""What a reward table says before anything is learnt: how good each subset is, and how much there is to learn.

Outcomes that failed count as wrong answers here and are counted, so that accuracies and rewards are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UsageError
from ..rewards.subset import SubsetReward, best_subsets, subset_reward, subset_sizes
from .table import UNPARSED, RewardTable

#: Above this number of tools the sub-libraries are too many to enumerate (3**n pairs of sub-library and subset).
MAX_ENUMERATED_TOOLS = 10


def summary(
    table: RewardTable, reward: str | Callable | SubsetReward = "eq1", parsimony: float = 0.1
) -> dict[str, Any]:
    """Accuracy and mean reward of every subset and of the reference strategies, as plain JSON.

    Args:
        table: a table of outcomes.
        reward: how to derive rewards.
        parsimony: λ of that reward.

    Returns:
        `questions`, `tools`, `reward`, `parsimony`, `failed` and `unparsed` (numbers of outcomes); `subsets`: one entry
        per action; `strategies`: `none`, each single tool, `all`, `best_fixed`, `best_per_family` and `oracle`;
        `families`: questions and best subset of each; `degenerate_share`: by number of tools k, the share of questions
        on which all subsets of a library of k tools are equally right, averaged over the libraries of that size;
        `informative_share`: the share on which the subsets of the whole library differ. "Best" is by mean reward, ties
        go to fewer tools. A strategy that was chosen by the rewards it is then measured on is marked `ceiling`.

    Raises:
        TableError: the table holds rewards.
        UsageError: the table has no row.
    """
    if not len(table):
        raise UsageError(f"{table.name} has no row")
    outcomes, correct = table.outcomes(), table.correct()
    kind, n = subset_reward(reward), table.n_tools
    rewards = kind.rows(correct, n, parsimony)
    scores = _Scores(correct, rewards, table.header.tools)
    families = table.rows.column("family")
    degenerate = degenerate_shares(correct, n) if n <= MAX_ENUMERATED_TOOLS else {}
    return {
        "questions": len(table),
        "tools": list(table.header.tools),
        "reward": kind.name,
        "parsimony": parsimony,
        "failed": int(table.header.missing(outcomes).sum()),
        "unparsed": int((outcomes == UNPARSED).sum()),
        "subsets": [scores.fixed(action) for action in range(2**n)],
        "strategies": _strategies(scores, families),
        "families": {family: _family(scores, families == family) for family in sorted(set(families))},
        "degenerate_share": {str(size): share for size, share in degenerate.items()},
        "informative_share": float((correct != correct[:, :1]).any(axis=1).mean()),
    }


def degenerate_shares(correct: np.ndarray, n_tools: int) -> dict[int, float]:
    """Share of outcome-degenerate questions by library size, as in arXiv 2609.10221.

    A question is degenerate for a library of tools if all subsets of the library are right, or all are wrong.

    Args:
        correct: (questions, 2**n) bool.
        n_tools: n.

    Returns:
        For k = 1 … n the mean over all libraries of k of the n tools.
    """
    shares: dict[int, list[float]] = {size: [] for size in range(1, n_tools + 1)}
    actions = np.arange(2**n_tools)
    for library, size in zip(actions, subset_sizes(n_tools), strict=True):
        if size:
            inside = correct[:, actions & ~library == 0]
            shares[int(size)].append(float((inside == inside[:, :1]).all(axis=1).mean()))
    return {size: float(np.mean(values)) for size, values in shares.items()}


class _Scores:
    """Correctness and rewards of all actions, and what a choice of one action per question scores."""

    def __init__(self, correct: np.ndarray, rewards: np.ndarray, tools: tuple[str, ...]):
        self.correct, self.rewards, self.tools = correct, rewards, tools
        self.sizes = subset_sizes(len(tools))

    def of(self, actions: np.ndarray) -> dict[str, float]:
        rows = np.arange(len(actions))
        return {
            "accuracy": float(self.correct[rows, actions].mean()),
            "reward": float(self.rewards[rows, actions].mean()),
            "tools_per_question": float(self.sizes[actions].mean()),
        }

    def fixed(self, action: int) -> dict[str, Any]:
        return {"subset": self.names(action), **self.of(np.full(len(self.correct), action))}

    def names(self, action: int) -> list[str]:
        return [name for i, name in enumerate(self.tools) if action >> i & 1]


def _strategies(scores: _Scores, families: np.ndarray) -> dict[str, dict[str, Any]]:
    singles = {name: scores.fixed(1 << i) for i, name in enumerate(scores.tools)}
    per_family = np.zeros(len(families), np.int64)
    for family in set(families):
        members = families == family
        per_family[members] = _best_fixed(scores.rewards[members])
    return {
        "none": scores.fixed(0),
        **singles,
        "all": scores.fixed(len(scores.sizes) - 1),
        "best_fixed": {**scores.fixed(_best_fixed(scores.rewards)), "ceiling": True},
        "best_per_family": {**scores.of(per_family), "ceiling": True},
        "oracle": {**scores.of(best_subsets(scores.rewards)), "ceiling": True},
    }


def _family(scores: _Scores, members: np.ndarray) -> dict[str, Any]:
    part = _Scores(scores.correct[members], scores.rewards[members], scores.tools)
    last = len(scores.sizes) - 1
    none, everything = (float(part.correct[:, action].mean()) for action in (0, last))
    best = part.fixed(_best_fixed(part.rewards))
    return {"questions": int(members.sum()), "none": none, "all": everything, "best": best}


def _best_fixed(rewards: np.ndarray) -> int:
    return int(best_subsets(rewards.mean(axis=0, keepdims=True))[0])
