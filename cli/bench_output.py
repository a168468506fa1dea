"""What `toolcredit bench` prints: progress with tokens and cost, results, comparisons, transcripts."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import ConfigError, ToolcreditError, UsageError
from . import options

if TYPE_CHECKING:
    from ..benchmarks.runner import OnProgress, Progress

Prices = dict[str, tuple[float, float]]
"""Model → prices of a million prompt tokens and a million completion tokens."""

_SHOWN_FAILURES, _SHOWN_DIFFERENCES = 5, 20
_A_MOMENT = 2.0


def parse_prices(items: Sequence[str] | None) -> Prices:
    """Prices as they are given with `--price`.

    Raises:
        ConfigError: one cannot be read.
    """
    found = {}
    for item in items or []:
        model, _, text = item.rpartition("=")
        try:
            prompt, completion = (float(part) for part in text.split(","))
        except ValueError:
            model = ""
        if not model or not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise ConfigError(f"--price {item!r}: expected MODEL=PROMPT,COMPLETION, e.g. small=0.15,0.60")
        found[model] = (prompt, completion)
    return found


def reporter(bar: Any, suite: str, prices: Prices) -> OnProgress:
    """Shows the progress of a run, and of its references, on a bar, once it takes longer than a moment."""
    began: dict[str, float] = {}
    tasks: dict[str, Any] = {}

    def report(progress: Progress) -> None:
        if time.monotonic() - began.setdefault(progress.name, time.monotonic()) < _A_MOMENT:
            return
        if progress.name not in tasks:
            tasks[progress.name] = bar.add_task(f"{suite}: {progress.name}", total=progress.total, note="")
        note = _spent(progress.usage, prices)
        if progress.failed:
            note = f"{progress.failed} failed  {note}"
        bar.update(tasks[progress.name], completed=progress.done, total=progress.total, note=note)

    return report


def _spent(usage: Mapping[str, Mapping[str, int]], prices: Prices) -> str:
    """Tokens of all models together, and what they cost as far as prices are known."""
    tokens = sum(amounts["prompt_tokens"] + amounts["completion_tokens"] for amounts in usage.values())
    priced = [cost for model, amounts in usage.items() if (cost := _cost(model, amounts, prices)) is not None]
    parts = [f"{tokens:,} tokens"] if tokens else []
    return ", ".join([*parts, f"cost {sum(priced):.4f}"] if priced else parts)


def _cost(model: str, amounts: Mapping[str, int], prices: Prices) -> float | None:
    if model not in prices:
        return None
    prompt, completion = prices[model]
    return (amounts["prompt_tokens"] * prompt + amounts["completion_tokens"] * completion) / 1e6


def print_result(result: Mapping[str, Any], prices: Prices) -> None:
    """Tables of categories and aggregates, what is not completed, tokens."""
    from ..benchmarks.exports import aggregate_rows, category_rows

    console = _console()
    console.print(
        f"{result['suite']}: {result['agent']}, {result['n']} attempts at {result['tasks']} tasks: "
        f"{result['completed']} completed, {result['failed']} failed, {result['unresolved']} unresolved"
    )
    references = list(result["references"])
    console.print(_table(["category", "n", "score", "95% interval", *references], category_rows(result)))
    console.print(_table(["aggregate", "value", "95% interval", *references], aggregate_rows(result)))
    for name, note in _notes(result["suite"]).items():
        if name in result["aggregates"]:
            console.print(f"{name}: {note}")
    failures = result["failures"]
    if failures:
        console.print("Not completed, counted as 0:")
        for failure in failures[:_SHOWN_FAILURES]:
            console.print(options.printable(f"  {failure['task']} ({failure['state']}): {failure['error']}"))
        if len(failures) > _SHOWN_FAILURES:
            console.print(f"  and {len(failures) - _SHOWN_FAILURES} more; --json lists all")
    for model, amounts in result["usage"].items():
        cost = _cost(model, amounts, prices)
        console.print(
            f"{model}: {amounts['calls']:,} calls, {amounts['prompt_tokens']:,} prompt tokens, "
            f"{amounts['completion_tokens']:,} completion tokens" + (f", cost {cost:.4f}" if cost is not None else "")
        )


def _notes(suite: str) -> Mapping[str, str]:
    from ..benchmarks.registry import suite_class

    try:
        return suite_class(suite).aggregate_notes
    except ToolcreditError:  # a run of a suite that is not installed here
        return {}


def _console() -> Any:
    """For plain text, since names come from files; wide enough for the tables where nobody says how wide it is."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, width=130)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Column, Table

    table = Table(Column(head[0]), *(Column(name, justify="right") for name in head[1:]))
    for row in rows:
        table.add_row(*row)
    return table


def print_comparison(found: Mapping[str, Any]) -> None:
    """Tables of differences, and the first attempts with different verdicts."""
    from ..benchmarks.exports import interval, number

    console = _console()
    first, second = found["first"], found["second"]
    console.print(f"{first['run']} ({first['agent']}) minus {second['run']} ({second['agent']}): {found['n']} attempts")
    if found["left_out"]:
        console.print(f"{found['left_out']} attempts of one run only are left out")
    for change in found["changes"]:
        console.print(f"not the same: {change}")
    head = ["category", "n", "first", "second", "difference", "95% interval", "only first", "only second", "McNemar p"]
    rows = [
        [
            name,
            str(part["n"]),
            *map(number, (part["first"], part["second"], part["difference"])),
            interval(part["ci"]),
            str(part["first_only"]),
            str(part["second_only"]),
            "–" if part["p_value"] is None else _p_value(part["p_value"]),
        ]
        for name, part in [("all", found["overall"]), *found["categories"].items()]
    ]
    console.print(_table(head, rows))
    rows = [
        [name, *map(number, (part["first"], part["second"], part["difference"])), interval(part["ci"])]
        for name, part in found["aggregates"].items()
    ]
    console.print(_table(["aggregate", "first", "second", "difference", "95% interval"], rows))
    for attempt in found["attempts"][:_SHOWN_DIFFERENCES]:
        winner = "first" if attempt["first"] else "second"
        console.print(f"  {attempt['task']} (trial {attempt['trial']}): only the {winner} is right")
    if len(found["attempts"]) > _SHOWN_DIFFERENCES:
        console.print(f"  and {len(found['attempts']) - _SHOWN_DIFFERENCES} more; --json lists all")


def print_task(run: Path, task: str, as_json: bool) -> None:
    """What was said in one task of a run, and its scores.

    Raises:
        UsageError: the run has no outcome of it.
    """
    from ..benchmarks.results import run_config
    from ..runs import read_jsonl, reading

    run_config(run)
    with reading(run):
        records = [record for record in read_jsonl(run / "transcripts.jsonl") if record["task"] == task]
        scores = [record for record in read_jsonl(run / "results.jsonl") if record["task"] == task]
        shown = [*map(_as_text, records), *map(_score_as_text, scores)]
    if not records:
        raise UsageError(f"{run} has no outcome of a task {task!r}")
    if as_json:
        options.print_json({"task": task, "transcripts": records, "results": scores})
        return
    for text in shown:
        typer.echo(options.printable(text))


def _as_text(record: Mapping[str, Any]) -> str:
    """What was said in one attempt."""
    lines = [f"trial {record['trial']}"]
    for message in record["transcript"]:
        calls = "".join(f"\n  {json.dumps(c['function'], ensure_ascii=False)}" for c in message.get("tool_calls") or ())
        lines.append(f"[{message['role']}] {message.get('content') or ''}{calls}")
    return "\n".join(lines)


def _score_as_text(record: Mapping[str, Any]) -> str:
    shown = {"success": record["success"], "metrics": record["metrics"], "detail": record["detail"]}
    return f"trial {record['trial']}: {json.dumps(shown, ensure_ascii=False)}"


def _p_value(p: float) -> str:
    return f"{p:.3g}" if p >= 1e-300 else "< 1e-300"  # below, floats end
