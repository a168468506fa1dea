"""What is logged about episodes: pure functions of trajectories. All means are by episode, whatever their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .collected import Rollouts
from .estimators import Advantages
from .trajectory import Segment, Trajectory

SEGMENTS = {"tool": Segment.TOOL, "summary": Segment.SUMMARY}


def mean_rewards(trajectories: Sequence[Trajectory], missing: float | None = None) -> dict[str, float]:
    """Mean of each reward component, by episode.

    Args:
        trajectories: episodes.
        missing: what an episode counts that was not scored; None leaves it out.
    """
    means = {}
    for name in dict.fromkeys(name for t in trajectories for name in t.rewards):
        values = [t.rewards.get(name) for t in trajectories]
        given = [missing if value is None else value for value in values]
        numbers = [value for value in given if value is not None]
        if numbers:
            means[name] = float(np.mean(numbers))
    return means


def mean_lengths(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Assistant turns, turns with calls, calls that were answered, and sampled tokens of an episode, on average."""
    return {
        "turns": float(np.mean([len(t.turns) for t in trajectories])),
        "call_turns": float(np.mean([sum(turn.calls for turn in t.turns) for t in trajectories])),
        "calls": float(np.mean([t.answered_calls for t in trajectories])),
        "tokens": float(np.mean([t.trainable.sum() for t in trajectories])),
    }


def mean_advantages(groups: Sequence[Sequence[Trajectory]], credit: Sequence[Advantages]) -> dict[str, float]:
    """Mean size of the advantages of each segment's tokens, over the episodes that have it."""
    found = {}
    for name, segment in SEGMENTS.items():
        sizes = [
            np.abs(tokens[t.segment == segment]).mean()
            for group, own in zip(groups, credit, strict=True)
            for t, tokens in zip(group, own.tokens, strict=True)
            if t.has(segment)
        ]
        if sizes:
            found[f"advantage/{name}"] = float(np.mean(sizes))
    return found


def describe_rollouts(collected: Sequence[Rollouts]) -> dict[str, Any]:
    """What the rollouts of an update were like. `reward` is missing if none of them was scored."""
    episodes = [t for rollouts in collected for group in rollouts for t in group]
    stats = [rollouts.stats for rollouts in collected]
    rewards = {f"reward/{name}": value for name, value in mean_rewards(episodes).items()}
    total = {"reward": rewards["reward/total"]} if "reward/total" in rewards else {}
    return {
        **total,
        **rewards,
        "episodes": len(episodes),
        "failed": sum(s["failed"] for s in stats),
        "unscored": sum(s["unscored"] for s in stats),
        "clipped_ratio": float(np.mean([t.clipped for t in episodes])),
        **mean_lengths(episodes),
        "rollout_seconds": round(sum(s["seconds"] for s in stats), 3),
        "waited_seconds": round(sum(s["waited_seconds"] for s in stats), 3),
    }
