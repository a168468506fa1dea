"""What estimators take and give: `Group`, the rollouts of one task as plain arrays, and `Advantages`.

An estimator is a pure function `(group, **options) -> Advantages`. It never looks at token ids or texts. What it needs
and a group does not have is a `CapabilityError`, never a silent fallback.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...errors import CapabilityError, UsageError
from ..advantages import filtered_advantages, is_dead
from ..trajectory import Segment

SAME_SUM = 1e-5
"""The rewards of an episode's steps may differ by this much from its reward: both are sums of floats."""


@dataclass(frozen=True, eq=False)
class ChoicePoint:
    """A place where the policy chose one of a short list of names, e.g. of tools.

    Attributes:
        member: which rollout of the group.
        tokens: (start, stop) of the drawn name's tokens in that rollout.
        logprobs: (names,) log-probability of writing each name there when it was sampled, in nats.
        values: (names,) tool reward that each name leads to, see `exact_action.branch_values` and
            `exact_action.counterfactual_values`; NaN if one could not be scored.
        drawn: index of the name that was drawn; None if it is none of the list.
    """

    member: int
    tokens: tuple[int, int]
    logprobs: np.ndarray
    values: np.ndarray
    drawn: int | None

    def __post_init__(self) -> None:
        for name in ("logprobs", "values"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        names = len(self.values)
        if self.logprobs.shape != (names,) or names < 2:
            raise UsageError(
                f"a choice point needs a log-probability and a value for each of at least two names, got shapes "
                f"{self.logprobs.shape} and {self.values.shape}"
            )
        if self.drawn is not None and not 0 <= self.drawn < names:
            raise UsageError(f"drawn={self.drawn}: expected an index below {names}, or None for another name")


@dataclass(frozen=True, eq=False)
class Group:
    """G rollouts of one task. Member i has T_i tokens and S_i steps (assistant turns).

    Every field but the first two is a capability that some estimators need; None means that it is not there.

    Attributes:
        rewards: for each component (G,) numbers; None or NaN where a rollout was not scored.
        trainable: G arrays (T_i,) bool, True on the policy's own tokens.
        step: G arrays (T_i,) int, the assistant turn of each token, −1 on the environment's.
        segment: G arrays (T_i,) int of `trajectory.Segment`: none, tool, summary. It partitions `trainable`.
        logprobs: G arrays (T_i,) log-probabilities when sampled, in nats.
        step_rewards: for each component G arrays (S_i,); their sums are the component's rewards.
        anchors: G sequences (S_i,) of hashable keys of what the policy saw before each step: equal keys, equal states.
        values: G arrays (S_i,), the value before each step: expected reward of the whole episode, see `values`.
        cut_values: G arrays, the value before each of `values.cut_points`.
        omitted: (G,) bool, which rollouts call nothing although the gold solution does.
        choices: choice points of all members.

    Raises:
        UsageError: shapes or sums do not fit each other.
    """

    rewards: Mapping[str, Any]
    trainable: Sequence[np.ndarray]
    step: Sequence[np.ndarray] | None = None
    segment: Sequence[np.ndarray] | None = None
    logprobs: Sequence[np.ndarray] | None = None
    step_rewards: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)
    anchors: Sequence[Sequence[Hashable]] | None = None
    values: Sequence[np.ndarray] | None = None
    cut_values: Sequence[np.ndarray] | None = None
    omitted: np.ndarray | None = None
    choices: Sequence[ChoicePoint] | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "rewards", {name: _numbers(values) for name, values in self.rewards.items()})
        by_step = {name: [_numbers(steps) for steps in own] for name, own in self.step_rewards.items()}
        set_field(self, "step_rewards", by_step)
        set_field(self, "trainable", [np.asarray(mask, bool) for mask in self.trainable])
        set_field(self, "omitted", None if self.omitted is None else np.asarray(self.omitted, bool))
        for name, dtype in (("step", int), ("segment", int), ("logprobs", float)):
            if getattr(self, name) is not None:
                set_field(self, name, [np.asarray(array, dtype) for array in getattr(self, name)])
        _check_shapes(self)
        if self.segment is not None:
            _check_segments(self)
        for component, steps in self.step_rewards.items():
            _check_step_rewards(self, component, steps)

    @classmethod
    def from_trajectories(cls, trajectories: Sequence[Any], **further: Any) -> Group:
        """The group of some `Trajectory` objects; `further` fields are added or replace what they say.

        What the environment's steps returned are the step rewards of `total`; the reward component `omitted`, if the
        environment scores it, is the field of that name.
        """
        names = {name for t in trajectories for name in t.rewards}
        rewards = {name: [t.rewards.get(name) for t in trajectories] for name in sorted(names)}
        arrays = ("trainable", "step", "segment", "logprobs")
        known: dict[str, Any] = {name: [getattr(t, name) for t in trajectories] for name in arrays}
        known["step_rewards"] = {"total": [[turn.reward for turn in t.turns] for t in trajectories]}
        if "omitted" in rewards:
            known["omitted"] = [bool(value) for value in rewards["omitted"]]
        return cls(**{"rewards": rewards, **known, **further})

    @property
    def size(self) -> int:
        """G, how many rollouts."""
        return len(self.trainable)

    def given(self, name: str) -> Any:
        """A field that may be None.

        Raises:
            CapabilityError: it is None.
        """
        if getattr(self, name) is None:
            raise CapabilityError(f"the group has no {name!r}: give it to Group, or use another estimator")
        return getattr(self, name)

    def reward(self, component: str) -> np.ndarray:
        """(G,) float, NaN where a rollout was not scored.

        Raises:
            CapabilityError: nothing was scored under that name.
        """
        if component not in self.rewards:
            raise CapabilityError(f"the rollouts have no reward component {component!r}, only {_listed(self.rewards)}")
        return self.rewards[component]

    def reward_by_step(self, component: str) -> list[np.ndarray]:
        """G arrays (S_i,) whose sums are `reward(component)`.

        Raises:
            CapabilityError: the component is not known step by step.
        """
        if component not in self.step_rewards:
            raise CapabilityError(
                f"the reward component {component!r} is not known step by step, only {_listed(self.step_rewards)}: add "
                "it to step_rewards, or state with Group.at_last_step that all of it is earned at the end"
            )
        return list(self.step_rewards[component])

    def at_last_step(self, component: str, segment: Segment | None = None) -> Group:
        """The same group, all of a component earned in the last step of a segment (of the rollout if it has none)."""
        rewards = []
        for member, reward in enumerate(self.reward(component)):
            steps = np.zeros(self.steps(member))
            own = self.steps_in(member, segment)
            steps[own[-1] if len(own) else -1] = reward
            rewards.append(steps)
        return replace(self, step_rewards={**self.step_rewards, component: rewards})

    def steps(self, member: int) -> int:
        """S_i, how many steps a rollout has."""
        return int(self.given("step")[member][self.trainable[member]].max(initial=-1)) + 1

    def steps_in(self, member: int, segment: Segment | None) -> np.ndarray:
        """The steps of a rollout that have tokens in a segment, in order; None means all."""
        return np.unique(self.given("step")[member][self.mask(member, segment)])

    def mask(self, member: int, segment: Segment | None = None) -> np.ndarray:
        """(T_i,) bool, a rollout's trainable tokens in a segment; None means all."""
        if segment is None:
            return self.trainable[member]
        return self.trainable[member] & (self.given("segment")[member] == segment)

    def present(self, segment: Segment | None) -> np.ndarray:
        """(G,) bool, which rollouts have tokens in a segment."""
        return np.array([self.mask(member, segment).any() for member in range(self.size)], bool)

    def spread(self, scalars: ArrayLike, segment: Segment | None = None) -> list[np.ndarray]:
        """Each member's scalar on all its tokens, times the mask of the segment: (G,) → G arrays (T_i,)."""
        return [scalar * self.mask(i, segment) for i, scalar in enumerate(np.asarray(scalars, np.float64))]

    def spread_steps(self, by_step: Sequence[np.ndarray], segment: Segment | None = None) -> list[np.ndarray]:
        """Each step's scalar on its tokens, times the mask of the segment: G arrays (S_i,) → G arrays (T_i,)."""
        return [
            np.where(self.mask(i, segment), scalars[own], 0.0)
            for i, (scalars, own) in enumerate(zip(by_step, self.given("step"), strict=True))
        ]


@dataclass(frozen=True)
class Channel:
    """What became of one reward in a group.

    Attributes:
        dead: it gives no gradient: fewer than two members count, or all their rewards are equal.
        excluded: members that have the segment but no score (None or NaN); they got advantage 0.
        absent: members without the segment.
    """

    dead: bool
    excluded: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Advantages:
    """What an estimator gives.

    Attributes:
        tokens: G arrays (T_i,) float64; 0 on every token that is not trainable.
        channels: telemetry per reward channel: `episode`, `tool`, `summary`, `step`, `choices`.
        keep: False if the group should not be trained on, nor its KL (dynamic sampling).
        choices: for each choice point of the group (names,) advantages; they replace the drawn name's tokens.
    """

    tokens: list[np.ndarray]
    channels: Mapping[str, Channel] = field(default_factory=dict)
    keep: bool = True
    choices: tuple[np.ndarray, ...] = ()


def normalise(
    group: Group,
    rewards: np.ndarray,
    segment: Segment | None = None,
    *,
    scale: bool = True,
    baseline: str = "mean",
    filtered: bool = True,
) -> tuple[np.ndarray, Channel]:
    """Group-relative advantages of one reward channel, and its telemetry.

    Args:
        group: whose segments are looked at.
        rewards: (G,) float, NaN where not scored: such members are excluded.
        segment: what the rewards are for; None means the whole rollout.
        scale: see `advantages.filtered_advantages`, likewise `baseline`.
        baseline: `mean` or `leave_one_out`.
        filtered: only members with the segment count (presence filter); False counts every scored member.

    Returns:
        (G,) float64 and the channel.
    """
    present = group.present(segment)
    scored = np.isfinite(rewards)
    counted = scored & (present | (not filtered))
    advantages = filtered_advantages(rewards, counted, scale=scale, baseline=baseline)
    dead = bool(counted.sum() < 2 or is_dead(rewards[counted]))
    return advantages, Channel(dead, _indices(present & ~scored), _indices(~present))


def add(*terms: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The sum of token advantages, member by member."""
    return [np.sum(arrays, axis=0) for arrays in zip(*terms, strict=True)]


def summarise(groups: Iterable[Advantages]) -> dict[str, float]:
    """Telemetry of a batch, counted by group and by rollout, so that long episodes weigh no more than short ones.

    Returns:
        for each channel `dead_group_rate/NAME` (share of groups), `excluded/NAME` and `absent/NAME` (rollouts); and
        `kept_groups` (share).
    """
    groups = list(groups)
    record = {"kept_groups": float(np.mean([group.keep for group in groups]))} if groups else {}
    for name in sorted({name for group in groups for name in group.channels}):
        own = [group.channels[name] for group in groups if name in group.channels]
        record[f"dead_group_rate/{name}"] = float(np.mean([channel.dead for channel in own]))
        record[f"excluded/{name}"] = float(sum(len(channel.excluded) for channel in own))
        record[f"absent/{name}"] = float(sum(len(channel.absent) for channel in own))
    return record


def _indices(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _numbers(values: Iterable[float | None]) -> np.ndarray:
    numbers = np.array([np.nan if value is None else value for value in values], np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _check_shapes(group: Group) -> None:
    lengths = [len(mask) for mask in group.trainable]
    for name in ("step", "segment", "logprobs"):
        arrays = getattr(group, name)
        if arrays is not None and [len(array) for array in arrays] != lengths:
            raise UsageError(f"{name} has lengths {[len(array) for array in arrays]}, but trainable {lengths}")
    whole = {**group.rewards, **group.step_rewards}
    whole |= {name: getattr(group, name) for name in ("anchors", "values", "cut_values", "omitted")}
    for name, values in whole.items():
        if values is not None and len(values) != group.size:
            raise UsageError(f"{name} has {len(values)} members, but the group {group.size}")
    for name in ("anchors", "values"):
        values = getattr(group, name)
        if values is not None:
            for member in range(group.size):
                _check_steps(group, name, member, len(values[member]))
    for choice in group.choices or ():
        if not 0 <= choice.member < group.size:
            raise UsageError(f"a choice point belongs to member {choice.member} of a group of {group.size}")


def _check_steps(group: Group, name: str, member: int, given: int) -> None:
    if given != group.steps(member):
        raise UsageError(f"{name} of member {member} has {given} steps, but the rollout {group.steps(member)}")


def _check_segments(group: Group) -> None:
    for member, segment in enumerate(group.given("segment")):
        if ((segment != Segment.NONE) != group.trainable[member]).any():
            raise UsageError(f"member {member}: exactly the trainable tokens must belong to a segment")


def _check_step_rewards(group: Group, component: str, steps: Sequence[np.ndarray]) -> None:
    """No reward of a step is dropped: the sum is the episode's. A rollout without a score has nothing to compare."""
    for member, whole in enumerate(group.reward(component)):
        _check_steps(group, f"step_rewards[{component!r}]", member, len(steps[member]))
        total = float(np.sum(steps[member]))
        if np.isfinite(whole) and not abs(total - whole) <= SAME_SUM:
            raise UsageError(
                f"the step rewards of {component!r} of member {member} sum to {total:g}, but its reward is {whole:g}"
            )
