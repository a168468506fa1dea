"""Credit assignment: every estimator as a pure function of a `Group`, and their registry.

One file per family: `whole` (one advantage for the rollout), `segments` (tool calls and summary apart), `steps`
(equal states compared), `values` (differences of values), `exact_action` (the expectation over names instead of the
name that was drawn). Third parties add one function `(group, **options) -> Advantages` and one entry point in the group
`toolcredit.estimators`.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...errors import CapabilityError, UnknownNameError, UsageError
from ..base import import_object
from .exact_action import slca_exact
from .group import Advantages, ChoicePoint, Group, summarise
from .segments import mt_grpo, rltr, slca, toolpo
from .steps import gigpo, slca_gigpo
from .values import carl, spo_chain, vineppo
from .whole import dapo, dr_grpo, grpo, rloo

__all__ = [
    "ENTRY_POINT_GROUP",
    "ESTIMATORS",
    "Advantages",
    "ChoicePoint",
    "Estimator",
    "Group",
    "estimator",
    "estimator_names",
    "summarise",
]

ENTRY_POINT_GROUP = "toolcredit.estimators"

ESTIMATORS: Mapping[str, Callable[..., Advantages]] = {
    "grpo": grpo,
    "rloo": rloo,
    "dr_grpo": dr_grpo,
    "dapo": dapo,
    "slca": slca,
    "toolpo": toolpo,
    "rltr": rltr,
    "mt_grpo": mt_grpo,
    "gigpo": gigpo,
    "vineppo": vineppo,
    "spo_chain": spo_chain,
    "carl": carl,
    "slca_gigpo": slca_gigpo,
    "slca_exact": slca_exact,
}


@dataclass(frozen=True)
class Estimator:
    """An estimator with its options. Call it with a group.

    Attributes:
        name: in the registry.
        function: `(group, **options) -> Advantages`.
        options: that were given; the others have the function's defaults.
    """

    name: str
    function: Callable[..., Advantages]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = [option for option in self.options if option not in self._defaults]
        if unknown and not self._takes_any:
            raise UnknownNameError(f"option of the estimator {self.name!r}", unknown[0], self._defaults)

    def __call__(self, group: Group, *, progress: float = 0.0) -> Advantages:
        """The advantages of a group; `progress` is the share of the training that is over, for schedules."""
        schedule = {"progress": progress} if "progress" in self._parameters else {}
        return self.function(group, **schedule, **self.options)

    @property
    def needs(self) -> frozenset[str]:
        """Fields of `Group`, and `reward:COMPONENT` and `step_reward:COMPONENT`, without which it raises."""
        declared = getattr(self.function, "needs", None)
        return declared({**self._defaults, **self.options}) if declared else frozenset()

    def option(self, name: str) -> Any:
        """The value of an option, given or by default; None if there is no such option."""
        return {**self._defaults, **self.options}.get(name)

    def check(self, offered: Collection[str]) -> None:
        """Refuse before the first rollout what cannot work.

        Args:
            offered: what the rollouts will have, written as in `needs`.

        Raises:
            CapabilityError: something is missing.
        """
        missing = sorted(self.needs - set(offered))
        if missing:
            raise CapabilityError(
                f"the estimator {self.name!r} needs {', '.join(missing)}, but the rollouts have only "
                f"{', '.join(sorted(offered)) or 'none of it'}: use another estimator, environment or option"
            )

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.function).parameters

    @property
    def _defaults(self) -> dict[str, Any]:
        options = list(self._parameters.values())[1:]
        return {p.name: p.default for p in options if p.kind is not p.VAR_KEYWORD and p.name != "progress"}

    @property
    def _takes_any(self) -> bool:
        return any(p.kind is p.VAR_KEYWORD for p in self._parameters.values())


def estimator_names() -> list[str]:
    """Names of all estimators: built in and installed by other packages."""
    return sorted({*ESTIMATORS, *(point.name for point in _entry_points())})


def estimator(name: str, **options: Any) -> Estimator:
    """The estimator of a name or an import path `package.module:function`, with options.

    Raises:
        UnknownNameError: there is none of that name, or it has no such option.
        UsageError: the import path does not lead to a function.
    """
    if ":" in name:
        return Estimator(name, _imported(name), options)
    for point in _entry_points():
        if point.name == name:
            return Estimator(name, _imported(point.value), options)
    if name not in ESTIMATORS:
        hint = "Or give an import path package.module:function"
        raise UnknownNameError("estimator", name, estimator_names(), hint)
    return Estimator(name, ESTIMATORS[name], options)


def _entry_points() -> Iterable[importlib.metadata.EntryPoint]:
    return importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)


def _imported(path: str) -> Callable[..., Advantages]:
    found = import_object(path)
    if not callable(found):
        raise UsageError(f"{path} is {found!r}, expected a function (group, **options) -> Advantages")
    return found
