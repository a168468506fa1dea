"""The tasks of an environment: the embedded set, a file of any known format, or objects; one split and tier of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache

from ...errors import EmptySplitError, TaskError, UnknownNameError
from .generate import generate_tasks, tasks_among
from .tasks import SPLITS, TIERS, Task, ToolSpec

log = logging.getLogger(__name__)

_MOST_LOGGED = 5
#: size and seed of the embedded set
EMBEDDED_TASKS, EMBEDDED_SEED = 3_000, 0
MOST_TASKS = 1_000_000


class TaskSet:
    """Tasks by id, loaded when first needed.

    Args:
        source: `"embedded"`; `"embedded:N"` for the set made longer or shorter, N tasks of all splits and tiers instead
            of 3,000; a file that `loaders.load_tasks` reads (its rows that are of no split get `split`, and
            those that cannot be used are logged); or tasks.
        split: only tasks of this split.
        tier: only tasks of this tier; None for all.

    Raises:
        UnknownNameError: there is no such split or tier.
    """

    def __init__(self, source: str | Sequence[Task], split: str, tier: str | None = None):
        for kind, name, known in (("split", split, SPLITS), ("tier", tier or TIERS[0], TIERS)):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        self._source = source if isinstance(source, str) else tuple(source)
        _embedded_number(self._source)  # refuses a bad number now
        self._split, self._tier = split, tier
        self._tasks: dict[str, Task] | None = None

    def __getstate__(self) -> dict:
        return {**vars(self), "_tasks": None}

    @property
    def ids(self) -> list[str]:
        """The ids, in the order of the source.

        Raises:
            TaskError: the source cannot be read, or two tasks have one id.
            EmptySplitError: it has no task of the split and tier.
        """
        return list(self._load())

    def __getitem__(self, task_id: str) -> Task:
        """The task with this id.

        Raises:
            UnknownNameError: there is none in the split and tier.
        """
        tasks = self._load()
        if task_id not in tasks:
            raise UnknownNameError(f"task of the split {self._split!r}", task_id, list(tasks)[:20])
        return tasks[task_id]

    @property
    def pool(self) -> dict[str, ToolSpec]:
        """All tools that the tasks bring themselves, by name; the first one where names collide."""
        found: dict[str, ToolSpec] = {}
        if _embedded_number(self._source) is None:
            for task in self._load().values():
                for spec in task.specs:
                    found.setdefault(spec.name, spec)
        return found

    def _load(self) -> dict[str, Task]:
        if self._tasks is None:
            chosen: dict[str, Task] = {}
            for task in _read(self._source, self._split, self._tier):
                if task.split == self._split and self._tier in (None, task.tier):
                    if task.id in chosen:
                        raise TaskError(f"two tasks have the id {task.id!r}: ids must be unique in a set")
                    chosen[task.id] = task
            if not chosen:
                what = f"split {self._split!r}" + (f", tier {self._tier!r}" if self._tier else "")
                raise EmptySplitError(f"there is no task of {what}: choose others, or other tasks")
            self._tasks = chosen
        return self._tasks


def _embedded_number(source: str | tuple[Task, ...]) -> int | None:
    """Length of the embedded set that is meant; None if the source is another one."""
    if source == "embedded":
        return EMBEDDED_TASKS
    if not isinstance(source, str) or not source.startswith("embedded:"):
        return None
    number = source.removeprefix("embedded:")
    if not number.isdecimal() or not 0 < int(number) <= MOST_TASKS:
        raise TaskError(f"tasks={source!r}: expected embedded:N with N from 1 to {MOST_TASKS}, the tasks of all kinds")
    return int(number)


def _read(source: str | tuple[Task, ...], split: str, tier: str | None) -> tuple[Task, ...]:
    if not isinstance(source, str):
        return source
    number = _embedded_number(source)
    if number == EMBEDDED_TASKS:
        return embedded_tasks()
    if number is not None:
        return _embedded_part(number, split, tier)
    from .loaders import load_tasks

    loaded = load_tasks(source, split=split)
    for remark in loaded.skipped[:_MOST_LOGGED]:
        log.warning("%s, row %d is not used: %s", source, remark.row, remark.text)
    if len(loaded.skipped) > _MOST_LOGGED:
        log.warning("%s: %d rows are not used; `toolcredit sgls tasks` lists all", source, len(loaded.skipped))
    return loaded.tasks


@lru_cache(maxsize=8)
def _embedded_part(number: int, split: str, tier: str | None) -> tuple[Task, ...]:
    """Kept, since every copy of an environment asks again."""
    return tasks_among(number, EMBEDDED_SEED, splits=[split], tiers=TIERS if tier is None else [tier])


@lru_cache(maxsize=1)
def embedded_tasks() -> tuple[Task, ...]:
    """The embedded set."""
    return generate_tasks(EMBEDDED_TASKS, EMBEDDED_SEED)
