"""What states of real rollouts are worth: by fresh rollouts from them, or by a critic.

A value is the expected reward of the whole episode, given its first tokens (see `estimators.values`). By Monte Carlo it
is the mean over `repeats` continuations with the present policy, independent of the rollout itself (VinePPO, arXiv
2410.01679). Rollouts of a group with the same first tokens share a value; so the prompt is valued once for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import CapabilityError, UsageError
from .base import import_object
from .branching import Branch, roll_out
from .distributed import processes
from .estimators import Estimator
from .estimators.values import carl, cut_points
from .planning import reward_of
from .rollout import RolloutEngine
from .trajectory import Trajectory

MONTE_CARLO = "monte_carlo"

Critic = Callable[[Trajectory], Sequence[float]]
"""A critic: the value before each assistant turn of a rollout."""


class StateValues:
    """Values for an estimator that needs them.

    Args:
        engine: samples the continuations, in the environment of the rollouts.
        estimator: who needs values, before each step or before each of its cut points.
        critic: `monte_carlo`, or the import path of a `Critic`; None is `monte_carlo`, except that `carl` must be told.
        repeats: continuations from each state.
        max_new_tokens: longest assistant turn.

    Raises:
        CapabilityError: there is no critic for an estimator that is about critics, or it cannot value cut points.
        UsageError: the import path does not lead to a function.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        estimator: Estimator,
        *,
        critic: str | None,
        repeats: int,
        max_new_tokens: int,
    ):
        if estimator.function is carl and critic is None:
            raise CapabilityError(
                "carl takes the values of a critic: set critic=package.module:function (trajectory) -> the value "
                f"before each of its turns, or critic={MONTE_CARLO} for means over fresh rollouts"
            )
        self._engine, self._estimator = engine, estimator
        self._repeats, self._max_new_tokens = repeats, max_new_tokens
        self._at_cuts = "cut_values" in estimator.needs
        self._critic: Critic | None = None
        if critic is not None and critic != MONTE_CARLO:
            if self._at_cuts:
                raise CapabilityError(f"{estimator.name} needs values in the middle of turns: set critic={MONTE_CARLO}")
            self._critic = import_object(critic)
            if not callable(self._critic):
                raise UsageError(f"critic={critic} is {self._critic!r}, expected a function (trajectory) -> values")
        self._counts: dict[str, float] = defaultdict(float)

    def fields(self, groups: Sequence[Sequence[Trajectory]], seed: int) -> list[dict[str, Any]]:
        """For each group the field of `Group` that the estimator needs; NaN where nothing was scored.

        Args:
            groups: rollouts of one update, sampled by the present weights.
            seed: of the continuations.
        """
        name = "cut_values" if self._at_cuts else "values"
        if self._critic is not None:
            everything = [t for group in groups for t in group]
            values = iter(processes().divide(lambda own: [_numbers(self._critic, t) for t in own], everything))
            return [{name: [next(values) for _ in group]} for group in groups]
        places = [[self._positions(t) for t in group] for group in groups]
        known = self._monte_carlo(groups, places, seed)
        return [
            {name: [np.array([known[g][_key(t, p)] for p in own]) for t, own in zip(group, positions, strict=True)]}
            for g, (group, positions) in enumerate(zip(groups, places, strict=True))
        ]

    def take_counts(self) -> dict[str, float]:
        """`branch_episodes` and `branch_tokens` sampled since this was last asked."""
        counts, self._counts = self._counts, defaultdict(float)
        return counts

    def _positions(self, t: Trajectory) -> list[int]:
        """Where a rollout needs a value: positions of sampled tokens before which it is taken."""
        if self._at_cuts:
            options = {name: self._estimator.option(name) for name in ("every", "threshold")}
            return cut_points(t.logprobs.astype(np.float64), t.trainable, **options).tolist()  # as in a Group
        return [int((t.step == step).argmax()) for step in range(len(t.turns))]

    def _monte_carlo(
        self, groups: Sequence[Sequence[Trajectory]], places: Sequence[Sequence[Sequence[int]]], seed: int
    ) -> list[dict[bytes, float]]:
        """The value of each distinct state of each group."""
        reward = str(self._estimator.option("reward"))
        branches: list[Branch] = []
        owners: list[tuple[int, bytes]] = []
        for g, (group, positions) in enumerate(zip(groups, places, strict=True)):
            distinct: dict[bytes, Branch] = {}
            for member, (t, own) in enumerate(zip(group, positions, strict=True)):
                for p in own:
                    distinct.setdefault(_key(t, p), Branch(t, p, key=(member, int(t.step[p]), p)))
            branches += distinct.values()
            owners += [(g, key) for key in distinct]
        if not branches:
            return [{} for _ in groups]
        rollouts = roll_out(
            self._engine,
            branches,
            self._repeats,
            seed=seed,
            temperature=branches[0].trajectory.temperature,
            max_new_tokens=self._max_new_tokens,
        )
        self._counts["branch_episodes"] += rollouts.stats["episodes"]
        self._counts["branch_tokens"] += rollouts.stats.get("sampled_tokens", 0)
        known: list[dict[bytes, float]] = [{} for _ in groups]
        for (g, key), found in zip(owners, rollouts, strict=True):
            worths = [worth for t in found if (worth := reward_of(t, reward)) is not None]
            known[g][key] = float(np.mean(worths)) if worths else np.nan
        return known


def _key(trajectory: Trajectory, position: int) -> bytes:
    return trajectory.ids[:position].tobytes()


def _numbers(critic: Critic | None, trajectory: Trajectory) -> np.ndarray:
    assert critic is not None
    values = np.asarray(critic(trajectory), np.float64)
    if values.shape != (len(trajectory.turns),):
        raise UsageError(
            f"the critic gave values of shape {values.shape} for a rollout of {len(trajectory.turns)} turns: expected "
            "one before each turn"
        )
    return values
