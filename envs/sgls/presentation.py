"""What an agent is shown with a task: its tools, distractors among them, and variants of all of them, by seed.

The presentation depends on the settings, the seed and the task only, so that all episodes of a task, and all rollouts
of a group, see the same tools in the same order.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random

from ...errors import ConfigError, TaskError
from .pack import OVERLAPS, SPECS
from .schemas import SchemaError
from .splits import tool_pool
from .tasks import Task, ToolSpec
from .validation import Toolbox
from .variants import Variation, check_kinds, vary

_REMEMBERED = 256
_WORD = re.compile(r"[a-z]{3,}|\d+")


@dataclass(frozen=True)
class Presentation:
    """A task as an agent sees it.

    Attributes:
        task: with the plans and names of the shown tools, which its `specs` hold.
        toolbox: the shown tools.
        variation: what was changed about them; None if nothing was.
    """

    task: Task
    toolbox: Toolbox
    variation: Variation | None

    @cached_property
    def task_text(self) -> str:
        """The task as JSON text."""
        return json.dumps(self.task.to_json())


class Presenter:
    """Makes presentations and remembers the last ones. Safe to share among threads.

    Args:
        distractors: how many further tools to show with each task; fewer where the pool has not as many.
        hard: take those most similar to the task's tools instead of any.
        variants: kinds of `variants.KINDS`, or `"all"`.
        seed: of the choices.
        strictness: of the toolbox.
        coerce: of the toolbox.
        pool: tools of tasks that bring their own; those of the embedded pack come from the task's split and tier.

    Raises:
        ConfigError: an argument is out of range or unknown.
    """

    def __init__(
        self,
        distractors: int = 0,
        hard: bool = False,
        variants: str | Sequence[str] | None = None,
        seed: int = 0,
        strictness: str = "strict",
        coerce: bool = False,
        pool: Mapping[str, ToolSpec] | None = None,
    ):
        if isinstance(distractors, bool) or not isinstance(distractors, int) or distractors < 0:
            raise ConfigError(f"distractors={distractors!r}: expected a number of tools, 0 or more")
        self._distractors, self._hard, self._kinds, self._seed = distractors, hard, check_kinds(variants), seed
        self._strictness, self._coerce = strictness, coerce
        self._pool = dict(pool or {})
        Toolbox((), strictness)  # refuse an unknown strictness now
        self._remembered: OrderedDict[str, Presentation] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict:
        return {**vars(self), "_remembered": OrderedDict(), "_lock": None}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def present(self, task: Task) -> Presentation:
        """What is shown with `task`.

        Raises:
            TaskError: the task names an unknown tool, or one of its schemas cannot be used.
        """
        with self._lock:
            if task.id in self._remembered:
                self._remembered.move_to_end(task.id)
                return self._remembered[task.id]
        made = self._make(task)
        with self._lock:
            self._remembered[task.id] = made
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return made

    def _make(self, task: Task) -> Presentation:
        specs = own_specs(task)
        rng = Random(f"{self._seed}/{task.id}")
        if self._distractors:
            specs += self._draw(task, specs, rng)
            rng.shuffle(specs)
        if task.specs:  # those of the pack are known to be good
            _check(task, specs)
        variation = None
        if self._kinds:
            task, variation = vary(task, specs, self._kinds, rng)
            specs = list(variation.specs)
        return Presentation(task, Toolbox(specs, self._strictness, self._coerce), variation)

    def _draw(self, task: Task, specs: Sequence[ToolSpec], rng: Random) -> list[ToolSpec]:
        shown = {spec.name for spec in specs}
        pool = self._pool if task.specs else {name: SPECS[name] for name in tool_pool(task.split, task.tier)}
        barred = shown | _could_serve(task)
        others = [spec for name, spec in sorted(pool.items()) if name not in barred and not _same_domain(spec, task)]
        rng.shuffle(others)
        if self._hard:
            wanted = {call.name for plan in task.plans for call in plan.calls} or shown
            targets = [spec for spec in specs if spec.name in wanted]
            others.sort(key=lambda spec: -max((similarity(spec, target) for target in targets), default=0.0))
        return others[: self._distractors]


def own_specs(task: Task) -> list[ToolSpec]:
    """The tools of a task without distractors.

    Raises:
        TaskError: a tool is neither the task's own nor in the embedded pack.
    """
    own = {spec.name: spec for spec in task.specs}
    unknown = [name for name in task.tools if name not in own and name not in SPECS]
    if unknown:
        raise TaskError(
            f"task {task.id!r} shows the tool {unknown[0]!r}, which it does not bring and the pack does not have"
        )
    return [own.get(name) or SPECS[name] for name in task.tools]


def _check(task: Task, specs: Sequence[ToolSpec]) -> None:
    try:
        Toolbox(specs).check_schemas()
    except SchemaError as error:
        raise TaskError(f"task {task.id!r}: {error}") from None


def similarity(one: ToolSpec, other: ToolSpec) -> float:
    """Jaccard similarity of the words in names and descriptions, in [0, 1]."""
    a, b = _words(one.name, one.description), _words(other.name, other.description)
    return len(a & b) / len(a | b) if a | b else 0.0


@lru_cache(maxsize=4_096)
def _words(name: str, description: str) -> frozenset[str]:
    return frozenset(_WORD.findall(f"{name} {description}".lower()))


def _could_serve(task: Task) -> set[str]:
    """Tools of the pack that might solve the task in a way that its plans do not list."""
    used = {call.name for plan in task.plans for call in plan.calls}
    return used.union(*(OVERLAPS.get(name, frozenset()) for name in used))


def _same_domain(spec: ToolSpec, task: Task) -> bool:
    """Where nothing should be called, a tool of the same domain might make the request answerable."""
    return task.abstains and bool(task.domain) and spec.domain == task.domain
