"""Rollouts that go on from the middle of an earlier one: what choices and states are worth, by sampling.

Each branch takes the turns of its rollout again, so its environment must answer them as before; that is checked. The
random numbers of a branch depend on the seed and its own key alone, not on which other branches go on with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UsageError
from .collected import Rollouts
from .episode import Start
from .rollout import RolloutEngine
from .trajectory import SampledTurn, Trajectory


@dataclass(frozen=True, eq=False)
class Branch:
    """Where a continuation begins.

    Attributes:
        trajectory: the rollout it leaves.
        position: of the first sampled token that is not taken over.
        tokens: what is written in its place.
        key: of its random numbers; no two branches of a task have the same.
    """

    trajectory: Trajectory
    position: int
    tokens: tuple[int, ...] = ()
    key: tuple[int, ...] = ()

    @property
    def turn_start(self) -> int:
        """Position of the first token of the turn in which it begins."""
        return int((self.trajectory.step == self.trajectory.step[self.position]).argmax())

    def start(self, max_new_tokens: int) -> Start:
        """The beginning for the rollout engine; a turn that the given tokens fill is taken as cut off there."""
        t, own = self.trajectory, slice(self.turn_start, self.position)
        turns = tuple(t.sampled(step) for step in range(int(t.step[self.position])))
        ids = (*t.ids[own].tolist(), *self.tokens)
        logprobs = (*t.logprobs[own].tolist(), *(0.0 for _ in self.tokens))
        if not ids:
            return Start(t.task_id, turns, stream=self.key)
        if len(ids) < max_new_tokens:
            return Start(t.task_id, turns, SampledTurn(ids, logprobs), self.key)
        whole = SampledTurn(ids[:max_new_tokens], logprobs[:max_new_tokens], clipped=True)
        return Start(t.task_id, (*turns, whole), stream=self.key)


def roll_out(
    engine: RolloutEngine,
    branches: Sequence[Branch],
    repeats: int = 1,
    *,
    seed: int,
    temperature: float,
    max_new_tokens: int,
) -> Rollouts:
    """Continuations of branches with the policy's present weights, one group per branch.

    Args:
        engine: who samples, and in which environment.
        branches: where to begin.
        repeats: continuations of each.
        seed: of all random numbers, together with the branches' keys.
        temperature: of the sampling.
        max_new_tokens: longest assistant turn, what is given of it included.

    Raises:
        UsageError: the environment answered the same turns in another way.
    """
    if not branches:
        return Rollouts([], [], {})
    starts = [branch.start(max_new_tokens) for branch in branches]
    rollouts = engine.collect(starts, repeats, seed=seed, temperature=temperature, max_new_tokens=max_new_tokens)
    for branch, group in zip(branches, rollouts, strict=True):
        before = branch.trajectory.ids[: branch.turn_start]
        if any(not np.array_equal(found.ids[: len(before)], before) for found in group):
            raise UsageError(
                f"a continuation of the task {branch.trajectory.task_id!r} saw other answers than the rollout that it "
                "continues: values from branches need an environment that answers the same turns alike"
            )
    return rollouts
