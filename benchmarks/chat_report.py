"""One self-contained HTML page about training runs on conversations, made of what their folders hold.

Like the page of `report`: nothing is loaded from elsewhere, everything shown is escaped, the same data gives the same
bytes. Nothing is played again: the references stand in each run's `result.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError
from ..runs import write_atomic
from . import chat_curves, chat_sections, page
from .experiment import HELD_OUT
from .held_out_chat import ChatRecord, read_records, summarise
from .page import tag
from .report import LearnerRun


@dataclass(frozen=True)
class ChatRun:
    """One run as the page shows it.

    Attributes:
        learner: its curves and configuration, under the name that it has on the page.
        episodes: its held-out episodes; empty if it has not finished.
        split: what they are of; empty if nothing says so.
        references: what was measured beside it, by name; empty if nothing was.
        versions: of what it was made with, where the result says so.
    """

    learner: LearnerRun
    episodes: Sequence[ChatRecord] = ()
    split: str = ""
    references: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the page calls it."""
        return self.learner.name

    @cached_property
    def own(self) -> Mapping[str, Any]:
        """What was measured of it; empty if it has not finished."""
        return {**summarise(self.episodes), "ceiling": False} if self.episodes else {}

    @classmethod
    def from_folder(cls, path: str | os.PathLike) -> ChatRun:
        """Read a run folder: `config.json`, `metrics.jsonl`, and where they are there `held_out.jsonl`, `result.json`.

        Raises:
            RunError: it is none, or a file in it is broken.
        """
        folder = Path(path)
        learner = LearnerRun.from_folder(folder)
        if not (folder / HELD_OUT).is_file():
            return cls(learner)
        try:
            episodes = read_records(folder / HELD_OUT)
            if not (folder / "result.json").is_file():
                return cls(learner, episodes)
            result = json.loads((folder / "result.json").read_text("utf-8"))
            own = {learner.config["agent"], *result.get("training", ())}  # an import path stands there as it was given
            references = {name: s for name, s in result["strategies"].items() if name not in own and s["turns"] >= 0}
            return cls(learner, episodes, str(result["split"]), references, dict(result.get("versions", {})))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{folder} holds no result of a run on conversations ({error!r}): train it again") from None


def read_runs(folders: Sequence[str | os.PathLike]) -> list[ChatRun]:
    """The runs of some folders. Where learners are called alike, the folders' names, or paths, tell them apart.

    Raises:
        UsageError: a folder is given twice.
    """
    runs = [ChatRun.from_folder(folder) for folder in folders]
    names, paths = [run.name for run in runs], [Path(folder) for folder in folders]
    if len(set(paths)) < len(paths):
        raise UsageError("a run is given twice: a page shows each run once")
    in_folders = [f"{name} ({path.name})" for name, path in zip(names, paths, strict=True)]
    labels = [
        name if names.count(name) == 1 else of_folder if in_folders.count(of_folder) == 1 else f"{name} ({path})"
        for name, of_folder, path in zip(names, in_folders, paths, strict=True)
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
    title = f"{', '.join(run.name for run in runs)} on {_environments(runs)}"
    links = tag("nav", *(tag("a", heading, href=f"#{anchor}") for anchor, heading, _ in sections))
    head = tag("header", tag("h1", title), tag("p", chat_sections.verdict(runs), class_="lead"))
    return page.document(title, [head, links, *(page.section(*section) for section in sections)])


def _environments(runs: Sequence[ChatRun]) -> str:
    ids = [str(run.learner.config.get("env", {}).get("id", "an environment of its own")) for run in runs]
    return " and ".join(dict.fromkeys(ids))
