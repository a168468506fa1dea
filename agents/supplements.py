"""What some estimators need besides the rollouts, found out in the same update: choice points, values of states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .estimators import Advantages, Estimator
from .exact_choices import CreditedChoice, ExactChoices
from .group_config import GroupConfig
from .rollout import RolloutEngine
from .state_values import StateValues
from .trajectory import Trajectory

#: Fields of `Group` that are supplied.
SUPPLIED = ("choices", "values", "cut_values")


class Supplements:
    """Supplies what one estimator needs; nothing, if it needs nothing.

    Args:
        engine: samples continuations, in the environment of the rollouts.
        model: the policy that is trained.
        estimator: who gives credit.
        config: how choices and states are valued.

    Raises:
        CapabilityError: the environment or the configuration does not offer what is needed.
    """

    def __init__(self, engine: RolloutEngine, model: Any, estimator: Estimator, config: GroupConfig):
        self.choices: ExactChoices | None = None
        self.values: StateValues | None = None
        self._credited: dict[Trajectory, tuple[CreditedChoice, ...]] = {}
        if "choices" in estimator.needs:
            self.choices = ExactChoices(
                engine,
                model,
                mode=config.choice_values,
                reward=str(estimator.option("tool")),
                guard=bool(estimator.option("guard")),
                max_new_tokens=config.max_new_tokens,
            )
        if estimator.needs & {"values", "cut_values"}:
            self.values = StateValues(
                engine,
                estimator,
                critic=config.critic,
                repeats=config.value_rollouts,
                max_new_tokens=config.max_new_tokens,
            )

    def forget(self) -> None:
        """The choices of the last update are no longer needed."""
        self._credited = {}

    def credit(
        self, groups: Sequence[Sequence[Trajectory]], estimate: Callable[..., Advantages], seed: int
    ) -> list[Advantages]:
        """`estimate(group, **fields)` of groups that the present weights sampled.

        Args:
            groups: rollouts.
            estimate: what gives a group's advantages, with further fields of `Group`.
            seed: of the continuations.
        """
        pairs = self.choices.find(groups, seed) if self.choices else [[] for _ in groups]
        fields = self.values.fields(groups, seed) if self.values else [{} for _ in groups]
        credit = []
        for group, points, own in zip(groups, pairs, fields, strict=True):
            if self.choices is not None:
                own["choices"] = [point for _, point in points]
            credit.append(estimate(group, **own))
            if self.choices is not None:
                self._credited |= self.choices.credited(group, points, credit[-1].choices)
        return credit

    def choices_of(self, trajectory: Trajectory) -> tuple[CreditedChoice, ...]:
        """The choices of a rollout of this update that are credited in expectation."""
        return self._credited.get(trajectory, ())

    def objective(
        self,
        episodes: Sequence[tuple[Trajectory, Sequence[CreditedChoice]]],
        weights: torch.Tensor,
        clip: float,
    ) -> tuple[torch.Tensor, int]:
        """What the choices of a micro-batch add to the objective, see `ExactChoices.objective`."""
        if self.choices is None:
            return weights.new_zeros(()), 0
        return self.choices.objective(episodes, weights, clip)

    def take_counts(self) -> dict[str, float]:
        """What was done since this was last asked, see `ExactChoices` and `StateValues`."""
        supplier = self.choices or self.values
        return supplier.take_counts() if supplier is not None else {}
