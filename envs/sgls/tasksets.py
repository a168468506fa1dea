"""The tasks of an environment: the embedded set, a file of any known format, or objects; one split and tier of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache

from ...errors import EmptySplitError, TaskError, UnknownNameError
from .generate import generate_tasks
from .tasks import SPLITS, TIERS, Task, ToolSpec

log = logging.getLogger(__name__)

_MOST_LOGGED = 5
#: size and seed of the embedded set
EMBEDDED_TASKS, EMBEDDED_SEED = 3_000, 0


class TaskSet:
    """Tasks by id, loaded when first needed.

    Args:
        source: `"embedded"`, a file that `loaders.load_tasks` reads (its rows that are of no split get `split`, and
            those that cannot be used are logged), or tasks.
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
        if self._source != "embedded":
            for task in self._load().values():
                for spec in task.specs:
                    found.setdefault(spec.name, spec)
        return found

    def _load(self) -> dict[str, Task]:
        if self._tasks is None:
            chosen: dict[str, Task] = {}
            for task in _read(self._source, self._split):
                if task.split == self._split and self._tier in (None, task.tier):
                    if task.id in chosen:
                        raise TaskError(f"two tasks have the id {task.id!r}: ids must be unique in a set")
                    chosen[task.id] = task
            if not chosen:
                what = f"split {self._split!r}" + (f", tier {self._tier!r}" if self._tier else "")
                raise EmptySplitError(f"there is no task of {what}: choose others, or other tasks")
            self._tasks = chosen
        return self._tasks


def _read(source: str | tuple[Task, ...], split: str) -> tuple[Task, ...]:
    if not isinstance(source, str):
        return source
    if source == "embedded":
        return embedded_tasks()
    from .loaders import load_tasks

    loaded = load_tasks(source, split=split)
    for remark in loaded.skipped[:_MOST_LOGGED]:
        log.warning("%s, row %d is not used: %s", source, remark.row, remark.text)
    if len(loaded.skipped) > _MOST_LOGGED:
        log.warning("%s: %d rows are not used; `toolcredit sgls tasks` lists all", source, len(loaded.skipped))
    return loaded.tasks


@lru_cache(maxsize=1)
def embedded_tasks() -> tuple[Task, ...]:
    """The embedded set."""
    return generate_tasks(EMBEDDED_TASKS, EMBEDDED_SEED)
