"""A benchmark run in other forms: JSON, CSV, Markdown, and whatever the suite's own tools read."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UnknownNameError
from ..runs import write_atomic, write_json
from .records import read_attempts
from .registry import make_suite, suite_class
from .results import load_result, run_config

FORMATS = ("json", "csv", "markdown")


def export_run(run: str | os.PathLike, format: str, out: str | os.PathLike) -> list[Path]:
    """Write a run to the folder `out`.

    Args:
        run: run folder.
        format: `json` (the result and every attempt), `csv` (a line per attempt), `markdown` (the tables), or a format
            of the suite.
        out: folder; made if it is not there.

    Returns:
        The files written.

    Raises:
        UnknownNameError: there is no such format.
        RunError: it is no run of a benchmark.
    """
    config, folder = run_config(run), Path(out)
    own = suite_class(config["suite"]).export_formats
    if format not in (*FORMATS, *own):
        raise UnknownNameError(f"export format of {config['suite']}", format, (*FORMATS, *own))
    if format in own:
        folder.mkdir(parents=True, exist_ok=True)
        suite = make_suite(config["suite"], config.get("options"))
        return suite.export(format, read_attempts(run, config["trials"], outcomes=True), folder)
    if format == "json":
        path = folder / "result.json"
        write_json(path, {**load_result(run), "attempts": _rows(run, config["trials"])})
    elif format == "csv":
        path = folder / "attempts.csv"
        write_atomic(path, _csv(_rows(run, config["trials"])))
    else:
        path = folder / "result.md"
        write_atomic(path, markdown(load_result(run)))
    return [path]


def _rows(run: str | os.PathLike, trials: int) -> list[dict[str, Any]]:
    return [
        {
            "task": a.task.id,
            "trial": a.trial,
            "category": a.task.category,
            "state": a.state,
            "success": a.success,
            "error": a.error,
            "metrics": dict(a.score.metrics) if a.score else {},
        }
        for a in read_attempts(run, trials)
    ]


def _csv(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["task", "trial", "category", "state", "success", "error", *names])
    for row in rows:
        cells = [row["task"], row["trial"], row["category"], row["state"], int(row["success"]), row["error"] or ""]
        writer.writerow([_harmless(cell) for cell in [*cells, *(row["metrics"].get(name) for name in names)]])
    return stream.getvalue()


def _harmless(cell: Any) -> Any:
    """A text that a spreadsheet would take for a formula, with an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def markdown(result: Mapping[str, Any]) -> str:
    """The tables of a result as Markdown."""
    references = list(result["references"])
    head = [
        f"# {result['suite']}: {result['agent']}",
        "",
        f"{result['n']} attempts at {result['tasks']} tasks: {result['completed']} completed, {result['failed']} "
        f"failed, {result['unresolved']} unresolved; whatever is not completed counts as 0.",
        "",
    ]
    lines = [*head, *_table(["category", "n", "score", "95 % interval", *references], category_rows(result))]
    lines += ["", *_table(["aggregate", "value", "95 % interval", *references], aggregate_rows(result)), ""]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return "\n".join([*lines, f"Versions: {versions}", ""])


def category_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Name, n, score, interval and the references' scores of each category, as text."""
    return [
        [name, str(part["n"]), number(part["score"]), interval(part["ci"])]
        + [number(reference["categories"].get(name)) for reference in result["references"].values()]
        for name, part in result["categories"].items()
    ]


def aggregate_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Name, value, interval and the references' values of each aggregate, as text."""
    return [
        [name, number(value), interval(result["aggregate_ci"].get(name))]
        + [number(reference["aggregates"].get(name)) for reference in result["references"].values()]
        for name, value in result["aggregates"].items()
    ]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in [head, *rows]]
    return [_line(escaped[0]), _line(["---", *["---:"] * (len(head) - 1)]), *map(_line, escaped[1:])]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """Four digits, or a dash for what was not measured."""
    return "–" if value is None else f"{value:.4f}"


def interval(ends: list[float] | None) -> str:
    """`low–high`, or a dash."""
    return "–" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"
