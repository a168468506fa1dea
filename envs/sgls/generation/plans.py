"""From calls that depend on each other to all equivalent plans with the fewest steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ..tasks import Call, Plan

#: most plans enumerated for one task
MAX_PLANS = 16


def depths(needs: Sequence[Sequence[int]]) -> list[int]:
    """Earliest step of each call, counted from 0. `needs[i]` holds earlier calls that call i depends on."""
    found: list[int] = []
    for sources in needs:
        found.append(1 + max((found[source] for source in sources), default=-1))
    return found


def canonical_order(needs: Sequence[Sequence[int]]) -> list[int]:
    """The calls in the order of the canonical plan, in which every call is made as early as possible."""
    early = depths(needs)
    return sorted(range(len(needs)), key=lambda call: (early[call], call))


def equivalent_plans(
    calls: Sequence[Call], needs: Sequence[Sequence[int]], others: Sequence[Call | None], limit: int = MAX_PLANS
) -> tuple[Plan, ...]:
    """All plans of the fewest steps: a call that is needed late may wait, and another tool may do the same.

    Args:
        calls: the calls, each after those it depends on.
        needs: for each call the indices of the calls it depends on.
        others: for each call a call of another tool that does the same, or None.
        limit: at most so many plans.

    Returns:
        The plans, the canonical one (every call as early as possible, with the tool of `calls`) first.
    """
    choices = [(call,) if other is None else (call, other) for call, other in zip(calls, others, strict=True)]
    plans = (_plan(chosen, steps) for steps in _layerings(needs) for chosen in itertools.product(*choices))
    return tuple(itertools.islice(plans, limit))


def _plan(calls: Sequence[Call], steps: Sequence[int]) -> Plan:
    count = 1 + max(steps, default=-1)
    return Plan(tuple(tuple(call for call, at in zip(calls, steps, strict=True) if at == n) for n in range(count)))


def _layerings(needs: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Assignments of calls to steps that respect `needs`, use no more steps than necessary and leave no step empty."""
    early = depths(needs)
    last = max(early, default=0)
    late = [last] * len(needs)
    for call in reversed(range(len(needs))):
        for source in needs[call]:
            late[source] = min(late[source], late[call] - 1)

    def assign(steps: list[int]) -> Iterator[list[int]]:
        call = len(steps)
        if call == len(needs):
            yield steps
            return
        first = 1 + max((steps[source] for source in needs[call]), default=-1)
        for step in range(first, late[call] + 1):
            yield from assign([*steps, step])

    return assign([])
