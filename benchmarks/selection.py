"""Which tasks of a suite are played."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from .suite import SuiteTask


@dataclass(frozen=True)
class Selection:
    """Which tasks of a suite are wanted.

    Attributes:
        categories: only these; None for all.
        ids: only these; None for all.
        limit: at most so many in all, taken in turn from the categories, so that each is represented.
    """

    categories: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    limit: int | None = None

    def wants(self, category: str) -> bool:
        """Whether tasks of a category are wanted; a suite need not read the others."""
        return self.categories is None or category in self.categories

    def pick(self, tasks: Iterable[SuiteTask]) -> tuple[SuiteTask, ...]:
        """The wanted ones of `tasks`, in their order.

        Raises:
            UsageError: two tasks share an id, or nothing is left.
            UnknownNameError: an id or category is not there.
        """
        found: dict[str, SuiteTask] = {}
        for task in tasks:
            if task.id in found:
                raise UsageError(f"two tasks have the id {task.id!r}: ids must be unique in a suite")
            found[task.id] = task
        for kind, wanted, known in (
            ("category", self.categories, {task.category for task in found.values()}),
            ("task", self.ids, found),
        ):
            for name in wanted or ():
                if name not in known:
                    raise UnknownNameError(kind, name, known)
        ids = None if self.ids is None else set(self.ids)
        chosen = [task for task in found.values() if self.wants(task.category) and (ids is None or task.id in ids)]
        if not chosen:
            raise UsageError("no task is left: the ids given are in none of the categories given")
        return tuple(chosen if self.limit is None else _in_turn(chosen, self.limit))


def _in_turn(tasks: Sequence[SuiteTask], limit: int) -> list[SuiteTask]:
    seen: dict[str, int] = {}
    rank = []
    for place, task in enumerate(tasks):
        rank.append((seen.get(task.category, 0), place))
        seen[task.category] = rank[-1][0] + 1
    return [tasks[place] for place in sorted(place for _, place in sorted(rank)[:limit])]
