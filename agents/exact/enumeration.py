"""All rollouts of a small task under a tabular softmax policy, and the exact policy gradient.

A state is a row of the policy's table and what the policy sees; an action is one token. Rollouts are listed, not
sampled, so that an expectation is a sum:  ∇ E[R] = Σ_τ P(τ) R(τ) Σ_t ∇ log π(a_t | s_t).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...errors import UsageError
from ..estimators.group import Group
from ..estimators.values import cut_points
from ..trajectory import Segment


@dataclass(frozen=True)
class Decision:
    """One token of the policy.

    Attributes:
        state: what the policy sees; the row of its table.
        action: what it writes.
        segment: part of the tool calls or of the summary.
        step: assistant turn, from 0.
    """

    state: str
    action: str
    segment: Segment
    step: int


@dataclass(frozen=True)
class Rollout:
    """One possible rollout.

    Attributes:
        decisions: the policy's tokens in order.
        rewards: by component; None if it is not scored.
        step_rewards: by component, one per step.
        omitted: whether it calls nothing although it should.
        chance: probability that the environment does its part, given the decisions.
    """

    decisions: tuple[Decision, ...]
    rewards: Mapping[str, float | None]
    step_rewards: Mapping[str, Sequence[float]] = field(default_factory=dict)
    omitted: bool = False
    chance: float = 1.0


class Enumeration:
    """N rollouts under a tabular policy with P logits.

    Args:
        rollouts: all rollouts of the task.
        logits: for each state the logit of each action.

    Attributes:
        rows: for each state the slice of its logits in the vector of all P; `actions` has their names.
        theta: (P,) all logits.
        probabilities: (N,) P(τ).
        trainable, step, segment, logprobs: N arrays (T_i,) as in `Group`; an environment's token before each step.
        scores: N arrays (T_i, P), ∇ log π of each token; 0 on the environment's.

    Raises:
        UsageError: a decision is not in the table, or the probabilities do not sum to 1: rollouts are missing.
    """

    def __init__(self, rollouts: Sequence[Rollout], logits: Mapping[str, Mapping[str, float]]):
        self.rollouts = tuple(rollouts)
        self.actions = {state: list(row) for state, row in logits.items()}
        ends = np.cumsum([len(row) for row in logits.values()]).tolist()
        self.rows = {s: slice(end - len(row), end) for (s, row), end in zip(logits.items(), ends, strict=True)}
        self.theta = np.array([logit for row in logits.values() for logit in row.values()], np.float64)
        self._log_policy = np.concatenate([_log_softmax(self.theta[row]) for row in self.rows.values()])
        tokens = [_tokens(rollout) for rollout in self.rollouts]
        self.trainable = [np.array([d is not None for d in own]) for own in tokens]
        self.step = [np.array([-1 if d is None else d.step for d in own]) for own in tokens]
        self.segment = [np.array([Segment.NONE if d is None else d.segment for d in own]) for own in tokens]
        self.logprobs = [np.array([0.0 if d is None else self.log_probability(d) for d in own]) for own in tokens]
        self.scores = [np.array([self._score(d) for d in own]) for own in tokens]
        self._members: dict[tuple, dict[str, Any]] = {}
        self._groups: dict[tuple, Group] = {}
        self.probabilities = np.exp([own.sum() for own in self.logprobs]) * [r.chance for r in self.rollouts]
        if abs(self.probabilities.sum() - 1) > 1e-9:
            raise UsageError(f"the rollouts have probability {self.probabilities.sum():g} in all, expected 1: list all")

    def at(self, theta: ArrayLike) -> Enumeration:
        """The same task under other logits, (P,)."""
        values = iter(np.asarray(theta, np.float64).tolist())
        logits = {state: {action: next(values) for action in row} for state, row in self.actions.items()}
        return Enumeration(self.rollouts, logits)

    def reward(self, component: str) -> np.ndarray:
        """(N,) rewards; NaN where a rollout is not scored."""
        values = [rollout.rewards[component] for rollout in self.rollouts]
        return np.array([np.nan if value is None else value for value in values])

    def expected(self, component: str) -> float:
        """E[R]."""
        return float(self.probabilities @ self.reward(component))

    def gradient(self, component: str) -> np.ndarray:
        """(P,) the policy gradient ∇ E[R]."""
        return self.weighted([r * p for r, p in zip(self.reward(component), self.probabilities, strict=True)])

    def segment_gradient(self, component: str, segment: Segment, *, filtered: bool = True) -> np.ndarray:
        """(P,) what a reward does to the tokens of its own segment: Σ_τ P(τ) (R(τ) − μ) Σ_{t ∈ segment} ∇ log π_t.

        μ is the mean over the rollouts that have the segment and over which the sum runs, as an infinite group has it.

        Args:
            component: reward.
            segment: whose tokens learn.
            filtered: False takes μ over all rollouts.
        """
        masks = [own == segment for own in self.segment]
        present = np.array([mask.any() for mask in masks])
        counted = self.probabilities * (present if filtered else 1.0)
        rewards = self.reward(component)
        centred = rewards - np.nansum(counted * rewards) / counted[np.isfinite(rewards)].sum()
        weights = np.where(present, self.probabilities * centred, 0.0)
        return self.weighted([w * mask for w, mask in zip(weights, masks, strict=True)])

    def locked_gradient(self, tool: str = "process", summary: str = "summary") -> np.ndarray:
        """(P,) what SLCA estimates: each segment's tokens pushed by its own reward, see docs/estimators.md."""
        return self.segment_gradient(tool, Segment.TOOL) + self.segment_gradient(summary, Segment.SUMMARY)

    def weighted(self, weights: Sequence[ArrayLike]) -> np.ndarray:
        """(P,) Σ_τ Σ_t weight · ∇ log π_t for N scalars or arrays (T_i,)."""
        return sum(np.broadcast_to(w, len(own)) @ own for w, own in zip(weights, self.scores, strict=True))

    def value(self, component: str, rollout: int, position: int) -> float:
        """E[R | the rollout up to the token at `position`, which is not yet written]: a critic that is never wrong."""
        seen = self._history(rollout, position)
        same = [i for i in range(len(self.rollouts)) if self._history(i, position) == seen]
        weights = self.probabilities[same]
        return float(weights @ self.reward(component)[same] / weights.sum())

    def values(self, component: str, rollout: int) -> np.ndarray:
        """(S,) `value` before each step."""
        starts = [int(np.argmax(self.step[rollout] == k)) for k in range(int(self.step[rollout].max()) + 1)]
        return np.array([self.value(component, rollout, start) for start in starts])

    def group(self, indices: Sequence[int], component: str = "total", cuts: tuple[int, float] | None = None) -> Group:
        """Some rollouts, by number, as the group of an estimator.

        Args:
            indices: G numbers.
            component: whose exact values the group brings.
            cuts: (every, threshold) of SPO-chain, for `cut_values`; None: no such values.
        """
        key = (tuple(indices), component, cuts)
        if key not in self._groups:
            chosen = [self._member(i, component, cuts) for i in indices]
            keys = [name for name in chosen[0] if name not in ("rewards", "step_rewards")]
            fields: dict[str, Any] = {name: [member[name] for member in chosen] for name in keys}
            for name in ("rewards", "step_rewards"):
                fields[name] = {c: [member[name][c] for member in chosen] for c in chosen[0][name]}
            self._groups[key] = Group(**fields)
        return self._groups[key]

    def log_probability(self, decision: Decision) -> float:
        """Log π(action | state)."""
        return float(self.log_row(decision.state)[self.actions[decision.state].index(decision.action)])

    def log_row(self, state: str) -> np.ndarray:
        """(actions,) log π(· | state)."""
        return self._log_policy[self.rows[state]]

    def row_scores(self, state: str) -> np.ndarray:
        """(actions, P) ∇ log π(a | state) for every action."""
        row, count = self.rows[state], len(self.actions[state])
        scores = np.zeros((count, len(self.theta)))
        scores[:, row] = np.eye(count) - np.exp(self._log_policy[row])
        return scores

    def _score(self, decision: Decision | None) -> np.ndarray:
        if decision is None:
            return np.zeros(len(self.theta))
        return self.row_scores(decision.state)[self.actions[decision.state].index(decision.action)]

    def _member(self, i: int, component: str, cuts: tuple[int, float] | None) -> dict[str, Any]:
        if (i, component, cuts) not in self._members:
            self._members[i, component, cuts] = self._fields(i, component, cuts)
        return self._members[i, component, cuts]

    def _fields(self, i: int, component: str, cuts: tuple[int, float] | None) -> dict[str, Any]:
        rollout = self.rollouts[i]
        arrays = {name: getattr(self, name)[i] for name in ("trainable", "step", "segment", "logprobs")}
        first = {d.step: d.state for d in reversed(rollout.decisions)}
        member = {**arrays, "rewards": rollout.rewards, "omitted": rollout.omitted}
        member["step_rewards"] = rollout.step_rewards
        member["anchors"] = [first[k] for k in sorted(first)]
        member["values"] = self.values(component, i)
        if cuts is not None:
            positions = cut_points(self.logprobs[i], self.trainable[i], *cuts)
            member["cut_values"] = [self.value(component, i, position) for position in positions]
        return member

    def _history(self, rollout: int, position: int) -> Hashable:
        """What was written before a token, and what the policy sees there: that tells what the environment did."""
        decisions = self.rollouts[rollout].decisions
        count = int(self.trainable[rollout][:position].sum())
        here = decisions[count].state if count < len(decisions) else None
        return tuple((d.state, d.action) for d in decisions[:count]), here


def _tokens(rollout: Rollout) -> list[Decision | None]:
    """The rollout's tokens; None is one of the environment."""
    tokens: list[Decision | None] = []
    by_step: dict[int, list[Decision]] = defaultdict(list)
    for decision in rollout.decisions:
        by_step[decision.step].append(decision)
    for step in sorted(by_step):
        tokens += [None, *by_step[step]]
    return tokens


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())
