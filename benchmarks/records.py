"""The files of a benchmark run, and reading them back.

    config.json        what is measured, and how; a run is continued under the same configuration only
    tasks.jsonl        id and category of every task that belongs to the run
    transcripts.jsonl  one record per outcome, as the agent gave it: all that is needed to score again
    results.jsonl      one record per scored outcome
    failures.jsonl     attempts without an outcome or a score, with the reason
    sessions.jsonl     one record per time the run was worked on: settings, seconds, versions, the agent's identity
    result.json        the summary, once no attempt is left
    references/NAME/   the same files for a reference on the same tasks

An outcome is written before its score, so that a kill between the two costs no call of a model: what has a transcript
is scored, not played again. Records are whole lines in the order in which attempts ended; nothing in `results.jsonl`
depends on time or order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import RunError
from ..runs import JsonLines, RunFolder, read_jsonl, reading, write_atomic
from .suite import Attempt, Outcome, Score, SuiteTask

Key = tuple[str, int]
"""A task's id and a trial."""


class Records:
    """The records of one run, open for appending. One thread writes.

    Args:
        folder: the run folder.
        config: what is measured; must be that of the folder, if it holds a run.
        tasks: the tasks of the run.

    Raises:
        RunError: the folder holds another run, or one on other tasks.
    """

    def __init__(self, folder: str | os.PathLike, config: Mapping[str, Any], tasks: Sequence[SuiteTask]):
        self.folder = RunFolder(folder, dict(config), resume=True).path
        self._tasks = {task.id for task in tasks}
        listed = "".join(json.dumps({"task": t.id, "category": t.category}) + "\n" for t in tasks)
        file = self.folder / "tasks.jsonl"
        if not file.exists():
            write_atomic(file, listed)
        elif file.read_bytes() != listed.encode():
            raise RunError(f"{self.folder} was started on other tasks than the suite has now: use another --out")
        kinds = ("transcripts", "results", "failures", "sessions")
        self._files = {kind: JsonLines(self.folder / f"{kind}.jsonl") for kind in kinds}

    def unscored(self) -> dict[Key, dict[str, Any]]:
        """Transcripts without a result, as a kill leaves them.

        Raises:
            RunError: a record is broken, or of a task that the run does not have.
        """
        with reading(self.folder):
            scored = {key_of(record) for record in self._files["results"]}
            played = {key_of(record): record for record in self._files["transcripts"]}
        left = {key: record for key, record in played.items() if key not in scored}
        foreign = sorted({task for task, _ in left} - self._tasks)
        if foreign:
            raise RunError(f"{self.folder}/transcripts.jsonl has the task {foreign[0]!r}, which is not in tasks.jsonl")
        return left

    def settled(self, retry_failed: bool) -> set[Key]:
        """Attempts that are not to be played again: those with an outcome, and failed ones unless they are wanted."""
        with reading(self.folder):
            keys = {key_of(record) for record in self._files["transcripts"]}
            if not retry_failed:
                keys |= {key_of(record) for record in self._files["failures"] if record["state"] == "failed"}
        return keys

    def sessions(self) -> list[dict[str, Any]]:
        """What was recorded of earlier sessions."""
        return list(self._files["sessions"])

    def append(self, kind: str, record: Mapping[str, Any]) -> None:
        """Add a record to `transcripts`, `results`, `failures` or `sessions`.

        Raises:
            TypeError, ValueError: it is no plain JSON; nothing was written.
        """
        try:
            self._files[kind].append(dict(record))
        except UnicodeEncodeError:  # a lone surrogate, which no file can hold
            self._files[kind].append(json.loads(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")))

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def key_of(record: Mapping[str, Any]) -> Key:
    """The attempt that a record is about."""
    return str(record["task"]), int(record["trial"])


def transcript_record(task: SuiteTask, trial: int, outcome: Outcome, usage: Mapping, seconds: float) -> dict[str, Any]:
    """A line of `transcripts.jsonl`."""
    return {
        "task": task.id,
        "trial": trial,
        "category": task.category,
        "output": outcome.output,
        "transcript": list(outcome.transcript),
        "usage": dict(usage),
        "seconds": round(seconds, 3),
    }


def result_record(task: SuiteTask, trial: int, score: Score, usage: Mapping[str, Any]) -> dict[str, Any]:
    """A line of `results.jsonl`."""
    return {
        "task": task.id,
        "trial": trial,
        "category": task.category,
        "success": bool(score.success),
        "metrics": dict(score.metrics),
        "detail": dict(score.detail),
        "usage": dict(usage),
    }


def read_outcome(record: Mapping[str, Any]) -> Outcome:
    """The outcome that a line of `transcripts.jsonl` holds."""
    return Outcome(record["output"], record["transcript"])


def read_attempts(folder: str | os.PathLike, trials: int, outcomes: bool = False) -> list[Attempt]:
    """Every attempt that belongs to a run, finished or not, in the order of the tasks.

    Args:
        folder: the run folder.
        trials: of its configuration.
        outcomes: also load what the agent did.

    Raises:
        RunError: a file is missing or broken.
    """
    with reading(folder):
        return _read_attempts(Path(folder), trials, outcomes)


def _read_attempts(path: Path, trials: int, outcomes: bool) -> list[Attempt]:
    tasks = [SuiteTask(record["task"], record["category"], {}) for record in read_jsonl(path / "tasks.jsonl")]
    if not tasks:
        raise RunError(f"{path} holds no benchmark run: it has no tasks.jsonl")
    results = {key_of(record): record for record in read_jsonl(path / "results.jsonl")}
    failures = {key_of(record): record for record in read_jsonl(path / "failures.jsonl")}
    played: dict[Key, Outcome] = {}
    if outcomes:
        played = {key_of(record): read_outcome(record) for record in read_jsonl(path / "transcripts.jsonl")}
    attempts = []
    for trial in range(trials):
        for task in tasks:
            key = (task.id, trial)
            if key in results:
                record = results[key]
                score = Score(record["success"], record["metrics"], record["detail"])
                attempts.append(Attempt(task, trial, "completed", score, outcome=played.get(key)))
            elif key in failures:
                attempts.append(Attempt(task, trial, failures[key]["state"], error=failures[key]["error"]))
            else:
                attempts.append(Attempt(task, trial, "unresolved", error="not played yet"))
    return attempts


def read_usage(folder: str | os.PathLike) -> dict[str, dict[str, int]]:
    """What each model was asked in a run: calls, prompt and completion tokens; failed attempts included."""
    total: dict[str, dict[str, int]] = {}
    with reading(folder):
        for record in _with_usage(Path(folder)):
            for model, amounts in record["usage"].items():
                of_model = total.setdefault(model, dict.fromkeys(amounts, 0))
                for name, amount in amounts.items():
                    of_model[name] += amount
    return dict(sorted(total.items()))


def _with_usage(folder: Path) -> Iterator[dict[str, Any]]:
    for name in ("results.jsonl", "failures.jsonl"):
        yield from read_jsonl(folder / name)
