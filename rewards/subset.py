"""Rewards of a tool subset: pure functions of which subsets led the reasoner to the right answer.

Every reward is a function `(correct, sizes, n_tools, parsimony) -> rewards` over all 2**n subsets at once. `correct`
is a bool array of shape (..., 2**n) whose entry a says whether the answer given the tools of the bits of a was right;
entry 0 is the answer without tools. `SubsetReward` adds what an environment needs besides: the named parts of the sum,
the reward of a completion that is no action, and which outcomes one reward depends on.
"""

from __future__ import annotations

import importlib.metadata
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UnknownNameError, UsageError

ENTRY_POINT_GROUP = "toolcredit.rewards"
#: Share of the format in the trained differential reward, `0.95·r_diff + 0.05·r_format` (arXiv 2609.10221).
FORMAT_WEIGHT = 0.05

Rewards = NDArray[np.float64]
RowFunction = Callable[[NDArray[np.bool_], NDArray[np.int64], int, float], Any]


def subset_sizes(n_tools: int) -> NDArray[np.int64]:
    """Number of tools |a| of each subset a, shape (2**n_tools,)."""
    return np.array([bin(action).count("1") for action in range(2**n_tools)], dtype=np.int64)


def eq1(correct: ArrayLike, sizes: ArrayLike, n_tools: int, parsimony: float = 0.1) -> Rewards:
    """Correctness plus parsimony: `r(s,a) = (2·1[ŷ=y*] − 1) + λ(1 − 2|a|/n)`, equation 1 of arXiv 2609.10221.

    In [−(1+λ), 1+λ]; one more tool costs 2λ/n; with λ < 1 a right answer is always worth more than a wrong one.

    Args:
        correct: (..., 2**n) bool, whether the answer given each subset was right.
        sizes: (2**n,) number of tools of each subset.
        n_tools: n.
        parsimony: λ; the paper uses 0.1.

    Returns:
        (..., 2**n) float64.
    """
    parts = _eq1_parts(np.asarray(correct, bool), np.asarray(sizes), n_tools, parsimony)
    return parts["correct"] + parts["parsimony"]


def differential(
    correct: ArrayLike,
    sizes: ArrayLike | None = None,
    n_tools: int | None = None,
    parsimony: float = 0.0,
    *,
    format_weight: float = FORMAT_WEIGHT,
) -> Rewards:
    """What the tools change: `r_diff = 1[correct with a] − 1[correct with ∅]` (AuTAgent, after arXiv 2609.10221).

    Trained as `0.95·r_diff + 0.05·r_format`, where every subset has the right format; `format_weight=0` gives r_diff
    alone. Tools cost nothing: `sizes`, `n_tools` and `parsimony` are taken for the common interface and not read.

    Returns:
        (..., 2**n) float64.
    """
    change = _change(np.asarray(correct, bool))
    return (1 - format_weight) * change + format_weight


def vista(
    correct: ArrayLike, sizes: ArrayLike | None = None, n_tools: int | None = None, parsimony: float = 0.0
) -> Rewards:
    """VisTA's reward, after arXiv 2609.10221: right with tools 1, broken by tools −0.5, wrong either way 0.

    Right with tools gives 1 whether or not the answer was right without. The other arguments are not read.

    Returns:
        (..., 2**n) float64.
    """
    correct = np.asarray(correct, bool)
    return np.where(correct, 1.0, np.where(correct[..., :1], -0.5, 0.0))


def best_subsets(rewards: ArrayLike) -> NDArray[np.int64]:
    """The subset with the highest reward in each row; among equals the one with fewest tools, then the lowest number.

    Args:
        rewards: (rows, 2**n) float. Rewards that differ by less than 1e-9, as rounding makes them, are equal.

    Returns:
        (rows,) int.
    """
    rewards = np.asarray(rewards, np.float64)
    order = np.argsort(subset_sizes(rewards.shape[1].bit_length() - 1), kind="stable")
    ranked = rewards[:, order]
    return order[(ranked >= ranked.max(axis=1, keepdims=True) - 1e-9).argmax(axis=1)]


@dataclass(frozen=True)
class SubsetReward:
    """A reward of tool subsets with what an environment must know of it.

    Attributes:
        name: registry name or import path.
        parts: function `(correct, sizes, n_tools, parsimony)` to named (..., 2**n) arrays whose sum is the reward.
        malformed: reward of a completion that is no action, as a function of (n_tools, parsimony).
        reads: which outcomes the reward of one subset depends on: its own, also that of no tools, or all.
    """

    name: str
    parts: Callable[[NDArray[np.bool_], NDArray[np.int64], int, float], dict[str, Rewards]]
    malformed: Callable[[int, float], float]
    reads: Literal["own", "own+empty", "all"]

    def rows(self, correct: ArrayLike, n_tools: int, parsimony: float) -> Rewards:
        """Rewards of all subsets from all outcomes: (..., 2**n) bool to (..., 2**n) float64."""
        parts = self.parts(np.asarray(correct, bool), subset_sizes(n_tools), n_tools, parsimony)
        return np.sum(list(parts.values()), axis=0)

    def needed(self, action: int, n_tools: int) -> list[int]:
        """The subsets whose outcomes `one` must be given for `action`, in ascending order."""
        if self.reads == "all":
            return list(range(2**n_tools))
        return sorted({action} if self.reads == "own" else {0, action})

    def one(self, action: int, outcomes: dict[int, bool], n_tools: int, parsimony: float) -> dict[str, float]:
        """Named parts of the reward of one subset, given the outcomes of `needed(action)`."""
        correct = np.zeros(2**n_tools, bool)  # subsets that are not `needed` do not change the entry that is read
        for subset, right in outcomes.items():
            correct[subset] = right
        parts = self.parts(correct, subset_sizes(n_tools), n_tools, parsimony)
        return {name: float(values[action]) for name, values in parts.items()}


def subset_reward(spec: str | Callable | SubsetReward) -> SubsetReward:
    """The reward for a name, an import path `package.module:function`, a function, or a `SubsetReward`.

    A function of one's own gets `(correct, sizes, n_tools, parsimony)` as in the module's docstring and returns finite
    numbers of `correct`'s shape. It sees the whole row, so an environment asks for all 2**n outcomes before its first
    reward. Its attribute `malformed`, a number, is the reward of a completion that is no action; without one that is
    the lowest reward which the function gives when no subset with tools is right.

    Raises:
        UnknownNameError: no reward of that name, and no import path.
        UsageError: the import path leads nowhere, or to something that cannot be called.
    """
    if isinstance(spec, SubsetReward):
        return spec
    if callable(spec):
        return _custom(getattr(spec, "__name__", type(spec).__name__), spec)
    if not isinstance(spec, str):
        raise UsageError(f"a reward is a name, an import path or a function, got {type(spec).__name__}")
    if spec in _BUILT_IN:
        return _BUILT_IN[spec]
    points = {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}
    path = points.get(spec, spec)
    if ":" not in path:
        raise UnknownNameError("reward", spec, {*_BUILT_IN, *points}, "Or give an import path package.module:function")
    try:
        found = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"the reward {path!r} cannot be imported: {error}") from None
    if isinstance(found, SubsetReward):
        return found
    if not callable(found):
        raise UsageError(f"the reward {path!r} is {found!r}, expected a function (correct, sizes, n_tools, parsimony)")
    return _custom(spec, found)


def _eq1_parts(correct: NDArray[np.bool_], sizes: NDArray, n_tools: int, parsimony: float) -> dict[str, Rewards]:
    cost = parsimony * (1 - 2 * sizes / n_tools)
    return {"correct": np.where(correct, 1.0, -1.0), "parsimony": np.broadcast_to(cost, correct.shape)}


def _differential_parts(correct: NDArray[np.bool_], *_: Any) -> dict[str, Rewards]:
    change = (1 - FORMAT_WEIGHT) * _change(correct)
    return {"differential": change, "format": np.full(correct.shape, FORMAT_WEIGHT)}


def _vista_parts(correct: NDArray[np.bool_], *_: Any) -> dict[str, Rewards]:
    return {"vista": vista(correct)}


def _change(correct: NDArray[np.bool_]) -> Rewards:
    return correct.astype(np.float64) - correct[..., :1]


def _custom(name: str, function: RowFunction) -> SubsetReward:
    def parts(
        correct: NDArray[np.bool_], sizes: NDArray[np.int64], n_tools: int, parsimony: float
    ) -> dict[str, Rewards]:
        rewards = np.asarray(function(correct.copy(), sizes, n_tools, parsimony), np.float64)
        if rewards.shape != correct.shape or not np.isfinite(rewards).all():
            what = f"shape {rewards.shape}" if rewards.shape != correct.shape else "NaN or infinite values"
            raise UsageError(f"the reward {name} returned {what}, expected finite numbers of shape {correct.shape}")
        return {"reward": rewards}

    def malformed(n_tools: int, parsimony: float) -> float:
        given = getattr(function, "malformed", None)
        if given is not None:
            return float(given)
        correct = np.zeros((2, 2**n_tools), bool)
        correct[1, 0] = True
        return float(parts(correct, subset_sizes(n_tools), n_tools, parsimony)["reward"].min())

    return SubsetReward(name, parts, malformed, reads="all")


_BUILT_IN = {
    # A wrong answer with all tools: no completion without an action can beat one with an action.
    "eq1": SubsetReward("eq1", _eq1_parts, lambda n_tools, parsimony: -(1 + parsimony), reads="own"),
    # Neither term is earned: r_format is 0, and no tools ran that could have changed the answer, so r_diff is 0 too.
    "differential": SubsetReward(
        "differential", _differential_parts, lambda n_tools, parsimony: 0.0, reads="own+empty"
    ),
    # As bad as tools that break the answer: with 0 a question that no tools can rescue would teach no format at all.
    "vista": SubsetReward("vista", _vista_parts, lambda n_tools, parsimony: -0.5, reads="own+empty"),
}
REWARD_NAMES = tuple(_BUILT_IN)
