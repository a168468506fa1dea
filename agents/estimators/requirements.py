"""What an estimator needs of the rollouts, known before the first one is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def requires(
    *fields: str, components: tuple[str, ...] = (), step_components: tuple[str, ...] = (), **conditional: str
) -> Callable[[Function], Function]:
    """Declare the needs of an estimator; `estimators.Estimator.needs` lists them.

    Args:
        fields: fields of `Group` that it always needs.
        components: names of its options that name a reward component.
        step_components: names of its options that name a component it needs step by step.
        conditional: for further fields, the name of the option that makes the estimator need them if it is true.
    """

    def mark(function: Function) -> Function:
        def needs(options: Mapping[str, Any]) -> frozenset[str]:
            return frozenset(
                [
                    *fields,
                    *(field for field, option in conditional.items() if options[option]),
                    *(f"reward:{options[option]}" for option in components),
                    *(f"step_reward:{options[option]}" for option in step_components),
                ]
            )

        function.needs = needs  # type: ignore[attr-defined]
        return function

    return mark
