"""Saved transcripts, scored again: every component, Success@0.9 in its three definitions, with nothing left out.

An episode that a failure ended, or a row that is no transcript, has no score. It counts as not successful and is
listed; means of components are over the episodes in which they were scored, and say over how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ..envs.sgls.json_strict import StrictJsonError, loads
from ..envs.sgls.loaders.rows import MAX_ROW_CHARS, RowError, read_rows
from ..errors import TaskError
from ..rewards.hierr import SUCCESSES, HierR, Report
from .stats import wilson


@dataclass(frozen=True)
class Scored:
    """One transcript.

    Attributes:
        place: file and row.
        task_id: of its task; "" if it has none.
        category: likewise.
        turns: assistant turns.
        calls: calls in them.
        report: its score; None if it cannot be scored.
        failure: why it cannot, or has no score.
    """

    place: str
    task_id: str = ""
    category: str = ""
    turns: int = 0
    calls: int = 0
    report: Report | None = None
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON, the report's among them."""
        own = {"place": self.place, "task_id": self.task_id, "category": self.category, "failure": self.failure}
        return {**own, **(self.report.to_json() if self.report else {})}


def score_files(paths: Iterable[str | Path], scorer: HierR) -> list[Scored]:
    """Score every transcript of some files.

    Args:
        paths: JSONL files of transcripts, or of records that hold one as `transcript` (as JSON or as a string of it).
        scorer: the reward.

    Raises:
        TaskError: a file is missing or unreadable as a whole.
    """
    return [_score(f"{path}, row {number}", row, scorer) for path in paths for number, row in read_rows(path)]


def _score(place: str, row: dict[str, Any] | RowError, scorer: HierR) -> Scored:
    try:
        if isinstance(row, RowError):
            raise row
        transcript = row.get("transcript", row)
        if isinstance(transcript, str):
            transcript = loads(transcript, max_chars=MAX_ROW_CHARS)
        if not isinstance(transcript, dict) or not {"task", "turns", "ending", "tools"} <= transcript.keys():
            raise TaskError("the row is no transcript: it lacks task, tools, turns or ending")
        report = scorer.explain(transcript["task"], transcript)
        task, turns = transcript["task"], transcript["turns"]
        failure = report.notes[0] if report.rewards["process"] is None and report.plan is None else None
        calls = sum(len(turn["calls"]) for turn in turns)
        return Scored(place, str(task.get("id")), str(task.get("category")), len(turns), calls, report, failure)
    except (TaskError, StrictJsonError) as error:
        return Scored(place, failure=str(error))


def summarise(scored: Sequence[Scored]) -> dict[str, Any]:
    """The result in plain JSON: `{"n", "failed", "overall", "categories", "failures"}`.

    Each part has `n`; `success_…` as `{"rate", "ci", "unscored"}` over all n, failures and what could not be scored
    counted as 0, with Wilson's 95 % interval; every other component as `{"mean", "n"}`; `turns` and `calls` a task.
    """
    categories = sorted({one.category for one in scored if one.category})
    return {
        "n": len(scored),
        "failed": sum(one.failure is not None for one in scored),
        "overall": _part(scored),
        "categories": {name: _part([one for one in scored if one.category == name]) for name in categories},
        "failures": [{"place": one.place, "failure": one.failure} for one in scored if one.failure is not None],
    }


def _part(scored: Sequence[Scored]) -> dict[str, Any]:
    rewards = [one.report.rewards if one.report else {} for one in scored]
    names = list(dict.fromkeys(name for part in rewards for name in part))
    part: dict[str, Any] = {"n": len(scored)}
    for name in names:
        values = [value for part_rewards in rewards if (value := part_rewards.get(name)) is not None]
        if name in SUCCESSES:
            low, high = wilson(sum(values), len(scored))
            part[name] = {
                "rate": sum(values) / len(scored), "ci": [low, high], "unscored": len(scored) - len(values),
            }  # fmt: skip
        else:
            part[name] = {"mean": fmean(values) if values else None, "n": len(values)}
    played = [one for one in scored if one.report]
    part["turns"] = fmean(one.turns for one in played) if played else None
    part["calls"] = fmean(one.calls for one in played) if played else None
    return part
