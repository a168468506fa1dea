"""Estimators that treat tool calls and summary differently: SLCA, RLTR (locked), ToolPO, MT-GRPO (additive).

Units: standard deviations of the respective reward in the group, or its own unit without scaling.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import ConfigError
from ...rewards.hierr import OMISSION_PENALTY
from ..trajectory import Segment
from .group import Advantages, Group, add, normalise
from .requirements import requires

Schedule = float | Sequence[Sequence[float]]
"""A constant, or points (progress, value) between which it is interpolated; progress runs from 0 to 1."""


def at(schedule: Schedule, progress: float) -> float:
    """The value of a schedule at a point of the training."""
    if isinstance(schedule, int | float):
        return float(schedule)
    places, values = zip(*schedule, strict=True)
    if list(places) != sorted(places):
        raise ConfigError(f"schedule {schedule}: expected points (progress, value) in the order of their progress")
    return float(np.interp(progress, places, values))


def guarded(group: Group, tool: str, summary: str, guard: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Tool and summary rewards, (G,) each, under the omission guard (arXiv 2609.29050).

    Where a rollout omitted the calls that the gold has: R_tool := 0 and R_sum := −0.5. It overrides, also what was not
    scored; it does not subtract. Rewards that were guarded already, as HierR's are, stay as they are.
    """
    r_tool, r_sum = group.reward(tool), group.reward(summary)
    if not guard:
        return r_tool, r_sum
    omitted = group.given("omitted")
    return np.where(omitted, 0.0, r_tool), np.where(omitted, OMISSION_PENALTY, r_sum)


@requires("segment", omitted="guard", components=("tool", "summary"))
def slca(
    group: Group,
    *,
    tool: str = "process",
    summary: str = "summary",
    lambda_tool: Schedule = 1.0,
    lambda_summary: Schedule = 1.0,
    guard: bool = True,
    scale: bool = True,
    baseline: str = "mean",
    progress: float = 0.0,
) -> Advantages:
    """SLCA: each segment has its own reward, normalised over the members that have the segment (arXiv 2609.29050).

    Â_i = λ_tool (R_tool,i − μ_tool)/(σ_tool + ε) on tool tokens, λ_sum (R_sum,i − μ_sum)/(σ_sum + ε) on summary tokens.
    Fewer than two members with a segment: 0 there. λ multiplies after the normalisation, which it would not survive.

    Without scaling and with `leave_one_out` it is unbiased for the locked objective, see docs/estimators.md.

    Args:
        group: G rollouts.
        tool: component that scores the calls.
        summary: component that scores the summary.
        lambda_tool: weight or schedule.
        lambda_summary: weight or schedule.
        guard: the omission guard, the one way from the calls to the summary's reward.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
        progress: share of the training that is over, for the schedules.
    """
    r_tool, r_sum = guarded(group, tool, summary, guard)
    a_tool, tool_channel = normalise(group, r_tool, Segment.TOOL, scale=scale, baseline=baseline)
    a_sum, sum_channel = normalise(group, r_sum, Segment.SUMMARY, scale=scale, baseline=baseline)
    tokens = add(
        group.spread(at(lambda_tool, progress) * a_tool, Segment.TOOL),
        group.spread(at(lambda_summary, progress) * a_sum, Segment.SUMMARY),
    )
    return Advantages(tokens, {"tool": tool_channel, "summary": sum_channel})


@requires("segment", components=("reward",))
def rltr(group: Group, *, reward: str = "planning", scale: bool = True, baseline: str = "mean") -> Advantages:
    """RLTR: only the planner's tokens learn, from `planning_reward`; the summary gets 0 (arXiv 2508.19598).

    All scored members count, also those without a call: the plan to do nothing is a plan.

    Args:
        group: G rollouts.
        reward: component that scores the plan; the learner computes `planning`, see `planning_reward`.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
    """
    scalars, channel = normalise(
        group, group.reward(reward), Segment.TOOL, scale=scale, baseline=baseline, filtered=False
    )
    return Advantages(group.spread(scalars, Segment.TOOL), {"tool": channel})


def planning_reward(
    verdicts: np.ndarray, repeated: np.ndarray, invalid: np.ndarray, valid_format: np.ndarray
) -> np.ndarray:
    """RLTR's reward: completeness − 0.1·repeated − 0.2·invalid; −1 if the format is invalid (arXiv 2508.19598).

    Args:
        verdicts: (G, verdicts) in [0, 1], whether the calls are complete; three each in the paper. NaN: not given.
        repeated: (G,) calls that repeat the one before them.
        invalid: (G,) call blocks that cannot be read.
        valid_format: (G,) bool, False if calls were attempted and none of them can be read.

    Returns:
        (G,) float64; NaN where a verdict is missing and the format valid.
    """
    completeness = np.asarray(verdicts, np.float64).mean(axis=1)
    reward = completeness - 0.1 * np.asarray(repeated) - 0.2 * np.asarray(invalid)
    return np.where(valid_format, reward, -1.0)


@requires("segment", components=("outcome", "action"))
def toolpo(
    group: Group,
    *,
    outcome: str = "summary",
    action: str = "name",
    weight: float = 1.0,
    scale: bool = True,
    baseline: str = "mean",
) -> Advantages:
    """ToolPO: Â_outcome on all tokens, plus weight · Â_action on tool tokens (arXiv 2510.21618).

    The action's statistics cover the members that have tool tokens only. Without scaling and with `leave_one_out` it is
    unbiased for E[outcome + weight · action], provided that every rollout calls and the calls alone decide `action`.

    Args:
        group: G rollouts.
        outcome: component that scores the end.
        action: component that scores the calls. The comparison of arXiv 2609.29050 takes matched calls / gold calls;
            of HierR's components the F1 of the tool names is nearest.
        weight: of the second term.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
    """
    return _additive(group, outcome, action, weight, scale, baseline, filtered=True)


@requires("segment", components=("outcome", "turn"))
def mt_grpo(
    group: Group,
    *,
    outcome: str = "summary",
    turn: str = "process",
    weight: float = 1.0,
    scale: bool = True,
    baseline: str = "mean",
) -> Advantages:
    """MT-GRPO: Â_outcome + weight · Â_turn before the tool result, Â_outcome after it (arXiv 2505.11821).

    As ToolPO, but every scored member counts in both terms.

    Args:
        group: G rollouts.
        outcome: component that scores the end.
        turn: component that scores the calls.
        weight: of the second term.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
    """
    return _additive(group, outcome, turn, weight, scale, baseline, filtered=False)


def _additive(
    group: Group, outcome: str, action: str, weight: float, scale: bool, baseline: str, filtered: bool
) -> Advantages:
    a_all, episode = normalise(group, group.reward(outcome), scale=scale, baseline=baseline)
    a_tool, tool = normalise(
        group, group.reward(action), Segment.TOOL, scale=scale, baseline=baseline, filtered=filtered
    )
    tokens = add(group.spread(a_all), group.spread(weight * a_tool, Segment.TOOL))
    return Advantages(tokens, {"episode": episode, "tool": tool})
