"""Expectation and variance of an estimator's gradient over all groups of rollouts, by enumeration.

Groups are listed without order, each with its multinomial probability: an estimator treats its members alike.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import UnknownNameError
from ..estimators.exact_action import branch_values, unvisited
from ..estimators.group import Advantages, ChoicePoint, Group
from ..trajectory import Segment
from .enumeration import Enumeration

AGGREGATIONS = ("sum", "token_mean", "sequence_mean")
MODES = ("branch", "counterfactual")


@dataclass(frozen=True, eq=False)
class Moments:
    """What an estimator's gradient is on average, and how much it varies.

    Attributes:
        mean: (P,) expected gradient.
        variances: (P,) of each component.
        continuations: expected number of scored rollouts and branches per group.
        kept: probability that the estimator keeps the group; the other figures are conditional on that.
    """

    mean: np.ndarray
    variances: np.ndarray
    continuations: float
    kept: float

    def cosine(self, target: np.ndarray) -> float:
        """Cosine between the expected gradient and a target."""
        return float(self.mean @ target / (np.linalg.norm(self.mean) * np.linalg.norm(target)))

    def relative_norm(self, target: np.ndarray) -> float:
        """Norm of the expected gradient over that of a target."""
        return float(np.linalg.norm(self.mean) / np.linalg.norm(target))

    @property
    def variance(self) -> float:
        """Trace of the gradient's covariance."""
        return float(self.variances.sum())

    @property
    def relative_variance(self) -> float:
        """Variance over the squared norm of the mean: how many groups give a signal-to-noise ratio of 1."""
        return self.variance / float(self.mean @ self.mean)


@dataclass(frozen=True)
class Choices:
    """That the group of an estimator gets choice points.

    Attributes:
        state: where a name is chosen.
        mode: of the values: `branch` or `counterfactual`.
        reward: the tool reward.
    """

    state: str
    mode: str
    reward: str = "process"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownNameError("mode of values", self.mode, MODES)


def moments(
    task: Enumeration,
    estimator: Callable[[Group], Advantages],
    size: int,
    *,
    aggregation: str = "sum",
    choices: Choices | None = None,
    cuts: tuple[int, float] | None = None,
) -> Moments:
    """Mean and variance of an estimator's gradient over all groups.

    The gradient of a group is (1/G) Σ_i Σ_t Â_it ∇ log π_it, plus Σ_a π(a) ∇ log π(a) A(a) in place of a drawn name.

    Args:
        task: all rollouts and their policy.
        estimator: `Group` → `Advantages`.
        size: G.
        aggregation: `sum` as above; `token_mean` divides by the tokens of the group instead of G, `sequence_mean` each
            rollout also by its own.
        choices: give the group choice points.
        cuts: (every, threshold) for `cut_values`.
    """
    if aggregation not in AGGREGATIONS:
        raise UnknownNameError("aggregation", aggregation, AGGREGATIONS)
    total, scored = 0.0, 0.0
    first, second = np.zeros((2, len(task.theta)))
    for indices, probability in groups(task, size):
        group = task.group(indices, cuts=cuts)
        for share, points, extra in _choice_draws(task, indices, choices):
            advantages = estimator(group if points is None else replace(group, choices=points))
            if advantages.keep:
                gradient = _gradient(task, indices, advantages, aggregation, choices)
                weight = probability * share
                total += weight
                first += weight * gradient
                second += weight * gradient**2
                scored += weight * (size + extra)
    mean = first / total
    return Moments(mean, second / total - mean**2, scored / total, total)


def groups(task: Enumeration, size: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every group without order, and its probability."""
    for indices in itertools.combinations_with_replacement(range(len(task.rollouts)), size):
        orders = math.factorial(size) / math.prod(math.factorial(n) for n in Counter(indices).values())
        yield indices, orders * float(task.probabilities[list(indices)].prod())


def _gradient(
    task: Enumeration, indices: Sequence[int], advantages: Advantages, aggregation: str, choices: Choices | None
) -> np.ndarray:
    lengths = [int(task.trainable[i].sum()) for i in indices]
    gradient = np.zeros(len(task.theta))
    for i, tokens, length in zip(indices, advantages.tokens, lengths, strict=True):
        gradient += tokens @ task.scores[i] / (length if aggregation == "sequence_mean" else 1)
    if choices is not None:
        by_name = np.sum(advantages.choices, axis=0) if advantages.choices else 0.0
        gradient += (np.exp(task.log_row(choices.state)) * by_name) @ task.row_scores(choices.state)
    return gradient / (sum(lengths) if aggregation == "token_mean" else len(indices))


def _choice_draws(
    task: Enumeration, indices: Sequence[int], choices: Choices | None
) -> Iterator[tuple[float, tuple[ChoicePoint, ...] | None, int]]:
    """Everything the values of a group's choice points can be: (probability, points, further continuations)."""
    if choices is None:
        yield 1.0, None, 0
        return
    places = [(member, _place(task, i, choices.state)) for member, i in enumerate(indices)]
    there = [(member, place) for member, place in places if place is not None]
    if choices.mode == "counterfactual" or not there:
        values = [_exchanged(task, indices[member], choices) for member, _ in there]
        yield 1.0, _points(task, indices, there, values, choices.state), 0
        return
    rewards, names = task.reward(choices.reward), task.actions[choices.state]
    drawn = [_drawn(task, indices[member], choices.state) for member, _ in there]
    missing = unvisited(drawn, len(names))
    returns = [rewards[indices[member]] for member, _ in there]
    for draw in itertools.product(*(_continuations(task, names[a], choices) for a in missing)):
        branches = {a: [value] for a, (_, value) in zip(missing, draw, strict=True)}
        values = [branch_values(drawn, returns, branches, len(names))] * len(there)
        yield math.prod(p for p, _ in draw), _points(task, indices, there, values, choices.state), len(missing)


def _points(
    task: Enumeration,
    indices: Sequence[int],
    there: Sequence[tuple[int, int]],
    values: Sequence[np.ndarray],
    state: str,
) -> tuple[ChoicePoint, ...]:
    return tuple(
        ChoicePoint(m, (place, place + 1), task.log_row(state), own, _drawn(task, indices[m], state))
        for (m, place), own in zip(there, values, strict=True)
    )


def _place(task: Enumeration, rollout: int, state: str) -> int | None:
    """The token at which a rollout chooses in a state, or None."""
    states = [d.state for d in task.rollouts[rollout].decisions]
    if state not in states:
        return None
    return int(np.flatnonzero(task.trainable[rollout])[states.index(state)])


def _drawn(task: Enumeration, rollout: int, state: str) -> int:
    action = next(d.action for d in task.rollouts[rollout].decisions if d.state == state)
    return task.actions[state].index(action)


def _continuations(task: Enumeration, name: str, choices: Choices) -> list[tuple[float, float]]:
    """(probability, tool reward) of what can follow a name."""
    rewards = task.reward(choices.reward)
    after: dict[float, float] = defaultdict(float)
    for i, rollout in enumerate(task.rollouts):
        if any(d.state == choices.state and d.action == name for d in rollout.decisions):
            after[float(rewards[i])] += float(task.probabilities[i])
    whole = sum(after.values())
    return [(p / whole, value) for value, p in after.items()]


def _exchanged(task: Enumeration, rollout: int, choices: Choices) -> np.ndarray:
    """(names,) tool rewards of a rollout's own tool actions with the name exchanged."""
    written = _tool_actions(task, rollout)
    place = [d.state for d in task.rollouts[rollout].decisions].index(choices.state)
    rewards = {_tool_actions(task, i): r for i, r in enumerate(task.reward(choices.reward))}
    names = task.actions[choices.state]
    return np.array([rewards[written[:place] + (name,) + written[place + 1 :]] for name in names])


def _tool_actions(task: Enumeration, rollout: int) -> tuple[str, ...]:
    return tuple(d.action for d in task.rollouts[rollout].decisions if d.segment == Segment.TOOL)
