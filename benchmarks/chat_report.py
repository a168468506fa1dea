"""One self-contained HTML page about training runs on conversations, made of what their folders hold.

Like the page of `report`: nothing is loaded from elsewhere, everything shown is escaped, the same data gives the same
bytes. Nothing is played again: the references stand in each run's `result.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import RunError
from ..runs import write_atomic
from . import chat_curves, chat_sections, page
from .experiment import HELD_OUT
from .held_out_chat import ChatRecord, read_records
from .page import tag
from .report import LearnerRun


@dataclass(frozen=True)
class ChatRun:
    """One run as the page shows it.

    Attributes:
        learner: its curves and configuration, under the name that it has on the page.
        result: `result.json`; empty if the run has not finished.
        episodes: its held-out episodes; empty likewise.
    """

    learner: LearnerRun
    result: Mapping[str, Any] = field(default_factory=dict)
    episodes: Sequence[ChatRecord] = ()

    @property
    def name(self) -> str:
        """As the page calls it."""
        return self.learner.name

    @property
    def own(self) -> Mapping[str, Any]:
        """What was measured of it, without the references; empty if the run has not finished."""
        return self.result["strategies"][self.learner.config["agent"]] if self.result else {}

    @property
    def references(self) -> dict[str, Mapping[str, Any]]:
        """What was measured beside it."""
        strategies = self.result.get("strategies", {})
        return {name: s for name, s in strategies.items() if name != self.learner.config["agent"]}

    @classmethod
    def from_folder(cls, path: str | os.PathLike) -> ChatRun:
        """Read a run folder.

        Raises:
            RunError: it is none, or a file in it is broken.
        """
        folder = Path(path)
        learner = LearnerRun.from_folder(folder)
        if not (folder / "result.json").is_file():
            return cls(learner)
        try:
            result = json.loads((folder / "result.json").read_text("utf-8"))
            run = cls(learner, result, read_records(folder / HELD_OUT))
            run.own["turns"]  # noqa: B018 - there is such a strategy, and it is one of conversations
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{folder} holds no result of a run on conversations ({error!r}): train it again") from None
        return run


def read_runs(folders: Sequence[str | os.PathLike]) -> list[ChatRun]:
    """The runs of some folders. Where learners are called alike, the folders' names tell them apart."""
    runs = [ChatRun.from_folder(folder) for folder in folders]
    names = [run.name for run in runs]
    labels = [
        name if names.count(name) == 1 else f"{name} ({Path(folder).name})"
        for name, folder in zip(names, folders, strict=True)
    ]
    return [replace(run, learner=replace(run.learner, name=label)) for run, label in zip(runs, labels, strict=True)]


def write_chat_report(path: str | os.PathLike, folders: Sequence[str | os.PathLike]) -> None:
    """Write the page about the runs in some folders to `path`, atomically.

    Raises:
        RunError: a folder holds no run, or a broken one.
    """
    write_atomic(path, render_chat_report(read_runs(folders)))


def render_chat_report(runs: Sequence[ChatRun]) -> str:
    """The page as text."""
    made = [make(runs) for make in (*chat_sections.RESULTS, *chat_curves.FIGURES, *chat_sections.DETAILS)]
    sections = [section for section in made if section is not None]
    title = f"{' and '.join(run.name for run in runs)} on {_environments(runs)}"
    links = tag("nav", *(tag("a", heading, href=f"#{anchor}") for anchor, heading, _ in sections))
    head = tag("header", tag("h1", title), tag("p", chat_sections.verdict(runs), class_="lead"))
    return page.document(title, [head, links, *(page.section(*section) for section in sections)])


def _environments(runs: Sequence[ChatRun]) -> str:
    ids = [str(run.learner.config.get("env", {}).get("id", "an environment of its own")) for run in runs]
    return " and ".join(dict.fromkeys(ids))
