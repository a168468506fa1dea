"""What a collection of rollouts gave: groups and failures, and how the parts of several processes become one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InfrastructureError
from .trajectory import Trajectory

log = logging.getLogger(__name__)

#: Above this share of clipped episodes little can be learned.
CLIPPED_WARNING = 0.5


@dataclass(frozen=True)
class Failure:
    """An episode that was dropped.

    Attributes:
        task_id: its task.
        member: its number among the episodes of that task.
        reason: what failed.
    """

    task_id: str
    member: int
    reason: str

    def tell(self) -> None:
        """Log it."""
        log.warning("task %s, member %d: dropped: %s", self.task_id, self.member, self.reason)


@dataclass(frozen=True)
class Rollouts:
    """What a collection gave. Iterates over the groups.

    Attributes:
        groups: the finished trajectories of each task, by member; shorter where episodes failed.
        failures: the episodes that are missing.
        stats: `episodes`, `failed`, `turns`, `tokens`, `clipped_ratio` (share of the episodes that a length limit cut),
            `unscored` (episodes with a reward component that is None), `seconds`, `waited_seconds` (for environments
            while nothing was sampled), and the backend's counts.
    """

    groups: list[list[Trajectory]]
    failures: list[Failure]
    stats: dict[str, float]

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[list[Trajectory]]:
        return iter(self.groups)

    def __getitem__(self, index: int) -> list[Trajectory]:
        return self.groups[index]


@dataclass(frozen=True)
class Part:
    """What one process gave to a collection.

    Attributes:
        finished: trajectories by (group, member in the group).
        failures: likewise.
        counts: of the backend.
        seconds: it took.
        waited: seconds in which nothing but environments worked.
    """

    finished: dict[tuple[int, int], Trajectory]
    failures: dict[tuple[int, int], Failure]
    counts: dict[str, int]
    seconds: float
    waited: float


def join(parts: Sequence[Part], groups: int, max_new_tokens: int) -> Rollouts:
    """The parts of all processes as one collection of so many groups.

    Raises:
        InfrastructureError: every single episode failed.
    """
    finished = {place: t for part in parts for place, t in part.finished.items()}
    failed = {place: failure for part in parts for place, failure in part.failures.items()}
    for part in parts[1:]:  # of this process, the main one, they were told when they happened
        for failure in part.failures.values():
            failure.tell()
    failures = [failed[place] for place in sorted(failed)]
    if not finished:
        raise InfrastructureError(f"all {len(failures)} episodes failed; the first one: {failures[0].reason}")
    trajectories = [finished[place] for place in sorted(finished)]
    clipped = float(np.mean([t.clipped for t in trajectories]))
    if clipped > CLIPPED_WARNING:
        log.warning(
            "%.0f %% of the episodes were cut by a length limit: raise max_new_tokens (%d) or shorten the prompts",
            100 * clipped,
            max_new_tokens,
        )
    stats = {
        "episodes": len(trajectories),
        "failed": len(failures),
        "turns": sum(len(t.turns) for t in trajectories),
        "tokens": sum(map(len, trajectories)),
        "clipped_ratio": clipped,
        "unscored": sum(None in t.rewards.values() for t in trajectories),
        "seconds": max(part.seconds for part in parts),
        "waited_seconds": max(part.waited for part in parts),
        **{name: sum(part.counts.get(name, 0) for part in parts) for part in parts for name in part.counts},
    }
    members = [[finished[p] for p in sorted(finished) if p[0] == group] for group in range(groups)]
    return Rollouts(members, failures, stats)
