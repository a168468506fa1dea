"""One self-contained HTML page about a run: what was compared, how the learners got there, what it cost, examples.

Nothing is loaded from elsewhere and everything shown is escaped: questions, evidence and model replies are hostile
text. The same data gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runs import RunFolder, read_jsonl, write_atomic
from . import page
from .page import tag
from .sections import SECTIONS, verdict
from .strategies import Example


@dataclass(frozen=True)
class LearnerRun:
    """How one learner got where it is.

    Attributes:
        name: as in the evaluation.
        metrics: its records, one per update; read are `update`, `seconds`, `spent`, `dev_reward`, `dev_accuracy`,
            `dev_tools`, `valid_mass`, `dev_valid_mass`, `dev_dead_group_rate`, `observed_dead` and `entropy`. What is
            absent is not drawn.
        config: its resolved configuration.
        dead_groups: group size to closed-form dead-group rate of the trained policy on the evaluated questions.
    """

    name: str
    metrics: Sequence[Mapping[str, Any]]
    config: Mapping[str, Any] = field(default_factory=dict)
    dead_groups: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def from_folder(cls, path: str | os.PathLike, dead_groups: Mapping[int, float] | None = None) -> LearnerRun:
        """The learner of a run folder.

        Raises:
            RunError: it is no run folder, or its metrics are broken.
        """
        config = RunFolder.load_config(path)
        metrics = list(read_jsonl(Path(path) / "metrics.jsonl"))
        return cls(str(config.get("agent", "learner")), metrics, config, dead_groups or {})

    def series(self, y: str, x: str = "update") -> tuple[list[float], list[float]]:
        """Values of the field `y` against `x` (`update`, or a key of `spent`) where both are there."""
        points = [(r.get(x, r.get("spent", {}).get(x)), r.get(y)) for r in self.metrics]
        known = [(float(a), float(b)) for a, b in points if a is not None and b is not None]
        return [a for a, _ in known], [b for _, b in known]


@dataclass(frozen=True)
class ReportData:
    """What a report shows, as plain data.

    Attributes:
        title: heading.
        evaluation: `strategies.Evaluation.summary()`, or the same read from `result.json`.
        questions: what was evaluated, e.g. "the 189 questions of the split test".
        learners: the learners among the strategies.
        dead_groups: name to (group size to rate) of policies to compare with, e.g. a uniform one.
        examples: rescued and broken questions.
        config: how the run was made; shown as JSON.
        versions: of what it was made with.
    """

    title: str
    evaluation: Mapping[str, Any]
    questions: str = "the held-out questions"
    learners: Sequence[LearnerRun] = ()
    dead_groups: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    examples: Sequence[Example] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def write_report(path: str | os.PathLike, data: ReportData) -> None:
    """Write the page to `path`, atomically."""
    write_atomic(path, render_report(data))


def render_report(data: ReportData) -> str:
    """The page as text."""
    sections = [section for make in SECTIONS if (section := make(data)) is not None]
    links = tag("nav", *(tag("a", title, href=f"#{anchor}") for anchor, title, _ in sections))
    head = tag("header", tag("h1", data.title), tag("p", verdict(data), class_="lead"))
    return page.document(data.title, [head, links, *(page.section(*section) for section in sections)])
