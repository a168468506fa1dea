"""The seeded generator of tool-calling tasks over the embedded pack.

Task `i` of a seed depends on the seed, on `i` and on nothing else but the questions of earlier tasks of its kind (a
question is not repeated): a longer list begins with the shorter one, and leaving kinds out leaves the others as they
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from ...errors import UnknownNameError, UsageError
from .generation.drafts import Draft
from .tasks import CATEGORIES, SPLITS, TIERS, Task

#: kinds of tasks, in the order in which they are generated again and again
KINDS: tuple[tuple[str, str], ...] = (
    ("single", "easy"), ("serial", "medium"), ("parallel", "medium"), ("irrelevant", "medium"), ("serial", "hard"),
    ("single", "medium"), ("recover", "medium"), ("mixed", "hard"), ("missing", "medium"), ("single", "easy"),
    ("serial", "medium"), ("parallel", "hard"), ("irrelevant", "hard"), ("mixed", "medium"), ("single", "hard"),
    ("recover", "hard"), ("serial", "hard"), ("missing", "hard"), ("single", "easy"), ("single", "medium"),
)  # fmt: skip
#: splits, likewise; each pass through `KINDS` starts one further on, so that every kind meets every split
CYCLE: tuple[str, ...] = (
    "train", "train", "test", "train", "ood_domain", "train", "train", "ood_tool", "train", "dev",
    "train", "train", "test", "train", "ood_domain", "train", "train", "ood_tool", "train", "train",
)  # fmt: skip


def generate_tasks(
    n: int = 3000,
    seed: int = 0,
    *,
    splits: Iterable[str] = SPLITS,
    categories: Iterable[str] = CATEGORIES,
    tiers: Iterable[str] = TIERS,
) -> tuple[Task, ...]:
    """Generate `n` tasks, always the same ones for the same arguments.

    Args:
        n: how many.
        seed: other seeds give other tasks, with the same division of questions among train, dev and test.
        splits: only tasks of these splits.
        categories: only tasks of these categories.
        tiers: only tasks of these tiers.

    Raises:
        UnknownNameError: there is no such split, category or tier.
        UsageError: `n` is negative, no task is of all the wanted kinds, or the kind has fewer than `n` questions.
    """
    wanted = (_known("split", splits, SPLITS), _known("category", categories, CATEGORIES), _known("tier", tiers, TIERS))
    if n < 0:
        raise UsageError(f"n is {n}: expected a number of tasks, 0 or more")
    tasks = _tasks(seed, wanted)
    return tuple(next(tasks)[1] for _ in range(n))


def tasks_among(
    first: int, seed: int = 0, *, splits: Iterable[str] = SPLITS, tiers: Iterable[str] = TIERS
) -> tuple[Task, ...]:
    """Those of the list `generate_tasks(first, seed)` that are of the splits and tiers; only these are generated.

    Args:
        first: length of the whole list.
        seed: as in `generate_tasks`.
        splits: only tasks of these splits.
        tiers: only tasks of these tiers.

    Raises:
        UnknownNameError: there is no such split or tier.
    """
    wanted = (_known("split", splits, SPLITS), frozenset(CATEGORIES), _known("tier", tiers, TIERS))
    if not any(_kind(index, wanted) for index in range(min(first, len(KINDS) * len(CYCLE)))):
        return ()
    return tuple(task for _, task in takewhile(lambda item: item[0] < first, _tasks(seed, wanted)))


def _known(kind: str, names: Iterable[str], allowed: Sequence[str]) -> frozenset[str]:
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in allowed:
            raise UnknownNameError(kind, name, allowed)
    return frozenset(names)


def _tasks(seed: int, wanted: tuple[frozenset[str], ...]) -> Iterator[tuple[int, Task]]:
    """The wanted tasks with their places in the whole list."""
    if not any(_kind(index, wanted) for index in range(len(KINDS) * len(CYCLE))):
        raise UsageError(
            "no task is of the wanted splits, categories and tiers at once: the easy tier has only single calls, "
            "none of "
            "them in ood_domain"
        )
    seen: dict[tuple[str, str, str], set[str]] = {}
    index = 0
    while True:
        kind = _kind(index, wanted)
        if kind is not None:
            yield index, Draft(seed, index, *kind).task(seen.setdefault(kind, set()))
        index += 1


def _kind(index: int, wanted: tuple[frozenset[str], ...]) -> tuple[str, str, str] | None:
    """(split, category, tier) of the task with this index, or None if it is not wanted."""
    category, tier = KINDS[index % len(KINDS)]
    split = CYCLE[(index + index // len(KINDS)) % len(CYCLE)]
    if tier == "easy" and split == "ood_domain":
        tier = "medium"  # the easy tier has one domain only
    kind = (split, category, tier)
    return kind if all(name in names for name, names in zip(kind, wanted, strict=True)) else None
