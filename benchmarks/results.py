"""The result of a benchmark run: every category with its interval, named aggregates, floors and ceilings beside them.

What counts how:
* whatever is not completed counts as 0 in every figure and is listed;
* a rate over tasks that were played once has Wilson's interval; any other mean, and whatever is played several times,
  a percentile bootstrap over tasks, whose trials stay together;
* an aggregate has a bootstrap interval, too: tasks are resampled within their categories;
* where all tasks came out alike there is no bootstrap interval: resampling them would claim certainty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import RunError, ToolcreditError
from ..runs import RunFolder, read_jsonl, reading
from .intervals import aggregate_intervals, aggregates, mean_with_interval
from .records import read_attempts, read_usage
from .registry import make_suite
from .suite import Attempt, Suite

RESULT = "result.json"
_FIELDS = {"suite", "agent", "n", "tasks", "completed", "failed", "unresolved", "categories", "aggregates"} | {
    *("aggregate_ci", "failures", "references", "usage", "versions", "config")
}


def summarise(attempts: Sequence[Attempt], suite: Suite) -> dict[str, Any]:
    """All figures of a run, plain JSON.

    Returns:
        `n`, `tasks`, `completed`, `failed`, `unresolved`; `categories`, each with `n`, `score`, `ci` and `metrics`
        (`mean`, `ci`, `n`); `aggregates` and `aggregate_ci` by name; `failures`, a list.
    """
    categories = {name: [a for a in attempts if a.task.category == name] for name in _categories(attempts)}
    return {
        "n": len(attempts),
        "tasks": len({attempt.task.id for attempt in attempts}),
        **{state: sum(a.state == state for a in attempts) for state in ("completed", "failed", "unresolved")},
        "categories": {name: _figures(part) for name, part in categories.items()},
        "aggregates": aggregates(attempts, suite),
        "aggregate_ci": _aggregate_intervals(attempts, suite),
        "failures": [
            {"task": a.task.id, "trial": a.trial, "category": a.task.category, "state": a.state, "error": a.error}
            for a in attempts
            if a.state != "completed"
        ],
    }


def summarise_folder(folder: str | os.PathLike, suite: Suite) -> dict[str, Any]:
    """The result of a run folder as it stands, finished or not: `summarise`, and what it was made with.

    Returns:
        Also `suite`, `agent`, `config`, `references` (by name: `n`, `categories`, `aggregates`), `usage` by model, and
        `versions` (those of the last session).

    Raises:
        RunError: it is no run of a benchmark.
    """
    config = run_config(folder)
    with reading(folder):
        references = {
            path.parent.name: {
                "n": (result := json.loads(path.read_text("utf-8")))["n"],
                "categories": {name: part["score"] for name, part in result["categories"].items()},
                "aggregates": result["aggregates"],
            }
            for path in sorted(Path(folder).glob(f"references/*/{RESULT}"))
        }
        begun = [r for r in read_jsonl(Path(folder) / "sessions.jsonl") if r["event"] == "begin"]
        last = (begun[-1]["versions"], begun[-1]["agent"]) if begun else ({}, None)
    return {
        "suite": config["suite"],
        "agent": config["agent"],
        **summarise(read_attempts(folder, config["trials"]), suite),
        "references": references,
        "usage": read_usage(folder),
        "versions": last[0],
        "agent_identity": last[1],
        "config": config,
    }


def load_result(folder: str | os.PathLike) -> dict[str, Any]:
    """The result of a run folder: the stored one, or as far as the run has come.

    Raises:
        RunError: it is no run of a benchmark.
        UsageError: it is not finished, and its suite cannot be made here.
    """
    config = run_config(folder)
    stored = Path(folder) / RESULT
    if stored.is_file():
        try:
            result = json.loads(stored.read_text("utf-8"))
        except ValueError as error:
            raise RunError(f"{stored} is not JSON ({error}): remove it, it is made again from the records") from None
        if not isinstance(result, dict) or not result.keys() >= _FIELDS:
            raise RunError(f"{stored} is no result of a benchmark: remove it, it is made again from the records")
        return result
    return summarise_folder(folder, make_suite(config["suite"], config.get("options")))


def run_config(folder: str | os.PathLike) -> dict[str, Any]:
    """The configuration of a benchmark run.

    Raises:
        RunError: the folder holds none, or a run of something else.
    """
    config = RunFolder.load_config(folder)
    if not {"suite", "agent", "trials", "seed", "identity"} <= config.keys():
        raise RunError(f"{folder} is a run of something else than `toolcredit bench run`")
    if type(config["trials"]) is not int or type(config["seed"]) is not int:
        raise RunError(f"{folder}/config.json: trials and seed must be whole numbers")
    return config


def _categories(attempts: Iterable[Attempt]) -> list[str]:
    return list(dict.fromkeys(attempt.task.category for attempt in attempts))


def _figures(attempts: Sequence[Attempt]) -> dict[str, Any]:
    score = mean_with_interval([float(a.success) for a in attempts], [a.task.id for a in attempts])
    names = dict.fromkeys(name for a in attempts if a.score for name, v in a.score.metrics.items() if v is not None)
    metrics = {}
    for name in names:
        known = [(value, a.task.id) for a in attempts if (value := a.metric(name)) is not None]
        metrics[name] = mean_with_interval([value for value, _ in known], [task for _, task in known])
    return {"n": len(attempts), "score": score["mean"], "ci": score["ci"], "metrics": metrics}


def _aggregate_intervals(attempts: Sequence[Attempt], suite: Suite) -> dict[str, list[float] | None]:
    """Those of all aggregates; `micro`, a plain mean, has one as every category has."""
    micro = mean_with_interval([float(a.success) for a in attempts], [a.task.id for a in attempts])
    return {**aggregate_intervals([attempts], suite), "micro": micro["ci"]}


def usable_suite(config: dict[str, Any]) -> Suite | None:
    """The suite of a run's configuration, or None where it cannot be made here (its data are not installed)."""
    try:
        return make_suite(config["suite"], config.get("options"))
    except ToolcreditError:
        return None
