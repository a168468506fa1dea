"""Estimators that compare steps taken from the same state: GiGPO, and SLCA with it inside the tool segment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from ..advantages import filtered_advantages, is_dead
from ..trajectory import Segment
from .group import Advantages, Channel, Group, add, normalise
from .requirements import requires
from .segments import Schedule, at, guarded


@requires("step", "anchors", components=("reward",), step_components=("reward",))
def gigpo(
    group: Group,
    *,
    reward: str = "total",
    weight: float = 1.0,
    gamma: float = 0.95,
    scale: bool = True,
    baseline: str = "mean",
) -> Advantages:
    """GiGPO: Â = A_E + weight · A_S on all tokens of a step (arXiv 2505.10978).

    A_E is the episode's reward normalised in the group, A_S the discounted return from the step on, normalised among
    all steps of the group that start from the same anchor; a step whose anchor nobody shares has A_S = 0.

    Args:
        group: G rollouts.
        reward: component, with the rewards of its steps.
        weight: of A_S.
        gamma: discount per step.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
    """
    scalars, episode = normalise(group, group.reward(reward), scale=scale, baseline=baseline)
    by_step, step = step_advantages(group, reward, None, gamma=gamma, scale=scale, baseline=baseline)
    tokens = add(group.spread(scalars), group.spread_steps([weight * steps for steps in by_step]))
    return Advantages(tokens, {"episode": episode, "step": step})


@requires(
    "segment",
    "step",
    "anchors",
    omitted="guard",
    components=("tool", "summary"),
    step_components=("tool",),
)
def slca_gigpo(
    group: Group,
    *,
    tool: str = "process",
    summary: str = "summary",
    lambda_tool: Schedule = 1.0,
    lambda_summary: Schedule = 1.0,
    step_weight: float = 1.0,
    gamma: float = 1.0,
    guard: bool = True,
    scale: bool = True,
    baseline: str = "mean",
    progress: float = 0.0,
) -> Advantages:
    """SLCA with step credit inside the tool segment: λ_tool (Â_tool + step_weight · A_S) on tool tokens.

    A_S as in GiGPO (arXiv 2505.10978), from the tool reward of the tool steps alone: the lock of SLCA (arXiv
    2609.29050) is kept, no summary reward reaches a tool token.

    Args:
        group: G rollouts.
        tool: component that scores the calls, with the rewards of its steps.
        summary: component that scores the summary.
        lambda_tool: weight or schedule.
        lambda_summary: weight or schedule.
        step_weight: of A_S.
        gamma: discount per step.
        guard: the omission guard, see `segments.slca`.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
        progress: share of the training that is over, for the schedules.
    """
    r_tool, r_sum = guarded(group, tool, summary, guard)
    a_tool, tool_channel = normalise(group, r_tool, Segment.TOOL, scale=scale, baseline=baseline)
    a_sum, sum_channel = normalise(group, r_sum, Segment.SUMMARY, scale=scale, baseline=baseline)
    by_step, step = step_advantages(group, tool, Segment.TOOL, gamma=gamma, scale=scale, baseline=baseline)
    lambda_now = at(lambda_tool, progress)
    tokens = add(
        group.spread(lambda_now * a_tool, Segment.TOOL),
        group.spread_steps([lambda_now * step_weight * steps for steps in by_step], Segment.TOOL),
        group.spread(at(lambda_summary, progress) * a_sum, Segment.SUMMARY),
    )
    return Advantages(tokens, {"tool": tool_channel, "summary": sum_channel, "step": step})


def step_advantages(
    group: Group, reward: str, segment: Segment | None, *, gamma: float, scale: bool, baseline: str
) -> tuple[list[np.ndarray], Channel]:
    """A_S of GiGPO for the steps in a segment (arXiv 2505.10978).

    Args:
        group: with `anchors` and step rewards of the component.
        reward: component; members without a score are excluded.
        segment: whose steps are compared; None means all.
        gamma: discount per step.
        scale: see `advantages.filtered_advantages`, likewise `baseline`.
        baseline: `mean` or `leave_one_out`.

    Returns:
        G arrays (S_i,), 0 for steps outside the segment, and the channel; it is dead if no step gets an advantage.
    """
    anchors, rewards = group.given("anchors"), group.reward_by_step(reward)
    scored = np.isfinite(group.reward(reward))
    places: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    for member in np.flatnonzero(scored).tolist():
        for step in group.steps_in(member, segment).tolist():
            places[anchors[member][step]].append((member, step))
    advantages = [np.zeros(len(steps)) for steps in rewards]
    returns = [returns_to_go(steps, gamma) for steps in rewards]
    dead = True
    for shared in places.values():
        values = np.array([returns[member][step] for member, step in shared])
        dead &= len(values) < 2 or bool(is_dead(values))
        here = filtered_advantages(values, np.ones(len(values), bool), scale=scale, baseline=baseline)
        for (member, step), advantage in zip(shared, here, strict=True):
            advantages[member][step] = advantage
    present = group.present(segment)
    excluded, absent = np.flatnonzero(present & ~scored), np.flatnonzero(~present)
    return advantages, Channel(dead, tuple(excluded.tolist()), tuple(absent.tolist()))


def returns_to_go(rewards: np.ndarray, gamma: float = 1.0) -> np.ndarray:
    """Σ_{j≥k} γ^(j−k) r_j for each step k: (steps,) → (steps,)."""
    returns, ahead = np.zeros(len(rewards)), 0.0
    for k in reversed(range(len(rewards))):
        ahead = returns[k] = rewards[k] + gamma * ahead
    return returns
