"""RLTR's reward of the plan, computed from rollouts (arXiv 2508.19598).

    planning = completeness − 0.1 · repeated calls − 0.2 · invalid call blocks;  −1 if no block of them can be read

Completeness is the environment's component of that name, the mean verdict on whether the calls suffice. Where it judges
none, its process score stands for it. What was repeated and invalid is what the environment's turns tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import CapabilityError
from .estimators.segments import planning_reward
from .trajectory import Trajectory

COMPONENT = "planning"
COMPLETENESS = ("completeness", "process")
"""Components that say whether the calls suffice; the first one that is there is used."""


def with_planning(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Rollouts with the reward component `planning`, unless the environment scores one itself.

    Raises:
        CapabilityError: nothing says whether the calls suffice.
    """
    return [
        t if COMPONENT in t.rewards else replace(t, rewards={**t.rewards, COMPONENT: _planned(t)}) for t in trajectories
    ]


def reward_of(trajectory: Trajectory, component: str) -> float | None:
    """A reward component of a rollout, `planning` worked out; None where it was not scored.

    Raises:
        CapabilityError: as `with_planning`.
    """
    known = with_planning([trajectory])[0] if component == COMPONENT else trajectory
    return known.rewards.get(component)


def _planned(t: Trajectory) -> float | None:
    source = next((name for name in COMPLETENESS if name in t.rewards), None)
    if source is None:
        raise CapabilityError(
            f"{COMPONENT!r} needs a reward component {' or '.join(COMPLETENESS)}, but the rollouts have only "
            f"{', '.join(sorted(t.rewards))}: give the estimator another one, options.reward=…"
        )
    completeness = t.rewards[source]
    blocks, valid = (sum(getattr(turn, name) for turn in t.turns) for name in ("blocks", "valid_blocks"))
    reward = planning_reward(
        np.array([[np.nan if completeness is None else completeness]]),
        np.array([sum(turn.repeated for turn in t.turns)]),
        np.array([blocks - valid]),
        np.array([valid > 0 or not blocks]),
    )
    return float(reward[0])
