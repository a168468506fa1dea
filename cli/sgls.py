"""`toolcredit sgls`: tool-calling tasks, scores of saved transcripts, and how faithful a mock is.

The environment is imported by the commands that need it: `toolcredit --help` must not wait for its tools and schemas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ..errors import ConfigError, TaskError, UnknownNameError, UsageError
from ..runs import JsonLines
from . import options

if TYPE_CHECKING:
    from ..envs.sgls.fidelity import Recording
    from ..envs.sgls.loaders import Remark
    from ..envs.sgls.tasks import Task

app = typer.Typer(no_args_is_help=True, help="Tool calling: tasks, scores of transcripts, fidelity of mocks.")

_TRANSCRIPTS = typer.Argument(..., help="JSONL files of transcripts (info['transcript'], one a line).")
_SET = typer.Option(None, "--set", help="Further argument of HierR, KEY=VALUE (repeatable), e.g. noise=0.25.")
_MOCK_SET = typer.Option(None, "--mock-set", help="Argument of the mock, KEY=VALUE (repeatable), e.g. base_url=….")


@app.command()
def score(
    transcripts: list[Path] = _TRANSCRIPTS,
    mode: str = typer.Option("default", "--mode", help="default | paper (the published score)."),
    weights: str = typer.Option("paper", "--weights", help="paper | uniform | value_heavy | name_heavy | no_parallel."),
    judge: str = typer.Option("embedded", "--judge", help="embedded | chat:MODEL | package.module:object."),
    settings: list[str] = _SET,
    out: Path = typer.Option(None, "--out", help="Write one JSON line for each transcript, with all reasons."),
    as_json: bool = options.JSON,
) -> None:
    """Score saved transcripts again. Failed episodes count as not successful and are listed."""
    from ..benchmarks.transcripts import score_files, summarise
    from ..rewards.hierr import HierR

    given = dict(options.key_value(item) for item in settings or [])
    try:
        scorer = HierR(**{"mode": mode, "weights": weights, "judge": judge, **given})
    except TypeError as error:
        raise ConfigError(f"--set: {error}") from None
    if out is not None and out.exists():
        raise UsageError(f"{out} exists already: choose another file")
    scored = score_files(transcripts, scorer)
    if not scored:
        raise TaskError(f"{', '.join(map(str, transcripts))}: there is no transcript in it")
    if out is not None:
        with JsonLines(out) as file:
            for one in scored:
                file.append(one.to_json())
    result = {**summarise(scored), "reward": scorer.identity}
    if as_json:
        options.print_json(result)
    else:
        _print_scores(result)


def _print_scores(result: dict[str, Any]) -> None:
    from ..rewards.hierr import SUCCESSES
    from ..rewards.process import COMPONENTS

    console = Console()
    parts = {**result["categories"], "all": result["overall"]}
    table = Table(
        Column("", no_wrap=True),
        *map(escape, parts),
        padding=(0, 0),
        title=f"{result['n']} transcripts, Success@0.9 and mean scores",
    )
    table.add_row("n", *(str(part["n"]) for part in parts.values()), end_section=True)
    for name in SUCCESSES:
        cells = [_number(part[name]["rate"] if name in part else None) for part in parts.values()]
        table.add_row(name, *cells, end_section=name == SUCCESSES[-1])
    for name in ("process", "summary", "total", *COMPONENTS):
        table.add_row(name, *(_number(part[name]["mean"] if name in part else None) for part in parts.values()))
    table.add_row("calls", *(_number(part["calls"]) for part in parts.values()))
    console.print(table)
    unscored = result["overall"].get("summary", {"n": 0})["n"]
    if unscored < result["n"] - result["failed"]:
        console.print(f"the summary was scored in {unscored} of {result['n']} episodes", highlight=False)
    for failure in result["failures"][:10]:
        console.print(f"failed: {escape(failure['place'])}: {escape(failure['failure'])}", highlight=False)
    if result["failed"] > 10:
        console.print(f"… and {result['failed'] - 10} more", highlight=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


@app.command()
def fidelity(
    recorded: Path = typer.Argument(..., help="Recorded conversations (Toucan, SLCA-GRPO SFT, OpenAI) or transcripts."),
    mock: str = typer.Option(..., "--mock", help="chat:MODEL | embedded | replay:FILE | package.module:Class."),
    mock_set: list[str] = _MOCK_SET,
    limit: int = typer.Option(None, "--limit", min=1, help="At most so many rows."),
    as_json: bool = options.JSON,
) -> None:
    """Put every recorded call to a mock and compare its answers with the real ones."""
    from ..envs.sgls.fidelity import measure
    from ..envs.sgls.mocks import make_mock

    remarks: list[str] = []
    found = measure(make_mock(mock_spec(mock, mock_set)), _recordings(recorded, limit, remarks))
    if not found.comparisons:
        reasons = [*remarks, *found.unusable]
        raise TaskError(f"{recorded}: no recorded call could be used{': ' + reasons[0] if reasons else ''}")
    result = {**found.summary(), "skipped": remarks}
    if as_json:
        options.print_json(result)
    else:
        _print_fidelity(result)


def mock_spec(text: str, settings: list[str] | None) -> dict[str, Any]:
    """The specification of a mock from `--mock` and `--mock-set`."""
    given = dict(options.key_value(item) for item in settings or [])
    kind, _, rest = text.partition(":")
    if kind == "chat" and rest:
        return {"name": "chat", "model": rest, **given}
    if kind == "replay" and rest:
        return {"name": "replay", "cassette": rest, **given}
    return {"name": text, **given}


def _recordings(path: Path, limit: int | None, remarks: list[str]) -> Iterator[Recording]:
    """The recorded episodes of a file; what cannot be used is noted in `remarks`."""
    from ..envs.sgls.fidelity import Recording, recording_of
    from ..envs.sgls.loaders import Remark, load_trajectories
    from ..envs.sgls.loaders.rows import read_rows

    first = next((row for _, row in read_rows(path) if isinstance(row, dict)), {})
    if {"turns", "task"} <= first.keys():
        for number, row in read_rows(path):
            if limit is not None and number > limit:
                return
            if isinstance(row, dict) and {"turns", "task"} <= row.keys():
                yield recording_of(row)
            else:
                remarks.append(f"row {number}: no transcript")
        return
    for item in load_trajectories(path, limit):
        if isinstance(item, Remark):
            remarks.append(f"row {item.row}: {item.text}")
        else:
            yield Recording(*item)


#: measure -> heading short enough for a terminal
_COLUMNS = {
    "real_error_rate": "real errors", "mock_error_rate": "mock errors", "error_agreement": "agree",
    "schema_valid": "schema", "type_agreement": "types", "key_overlap": "keys", "value_similarity": "values",
    "length_ratio": "length",
}  # fmt: skip


def _print_fidelity(result: dict[str, Any]) -> None:
    console = Console()
    first = Column("tool", no_wrap=True)
    table = Table(first, "calls", "failed", *_COLUMNS.values(), padding=(0, 0), title="fidelity: 1 is a perfect copy")
    for name, part in [*result["tools"].items(), ("all", result["overall"])]:
        row = [str(part["calls"]), str(part["failed"]), *(_number(part[column]) for column in _COLUMNS)]
        table.add_row(escape(name), *row)
    console.print(table)
    for text in [*result["skipped"], *result["unusable"]][:10]:
        console.print(f"not used: {escape(text)}", highlight=False)


@app.command()
def tasks(
    source: str = typer.Argument("embedded", help="embedded, or a file: Parquet, JSONL or a JSON list."),
    format: str = typer.Option("auto", "--format", help="auto | tasks | generic | slca | conversation | bfcl."),
    split: str = typer.Option(None, "--split", help="Embedded: only this split. A file: the split its tasks get."),
    tier: str = typer.Option(None, "--tier", help="Only this tier: easy | medium | hard."),
    category: str = typer.Option(None, "--category", help="Only this category, such as single or irrelevant."),
    limit: int = typer.Option(None, "--limit", min=1, help="At most so many tasks."),
    show: str = typer.Option(None, "--show", help="Print the task with this id."),
    keep_system: bool = typer.Option(False, "--keep-system", help="Keep system messages that list the tools."),
    out: Path = typer.Option(None, "--out", help="Write the tasks as JSONL, for the environment's `tasks`."),
    as_json: bool = options.JSON,
) -> None:
    """Count, show and convert tasks. Rows of a file that cannot be used are listed with reasons."""
    from ..envs.sgls.loaders import iter_tasks
    from ..envs.sgls.tasks import CATEGORIES, SPLITS, TIERS
    from ..envs.sgls.tasksets import embedded_tasks

    for kind, name, known in (("split", split, SPLITS), ("tier", tier, TIERS), ("category", category, CATEGORIES)):
        if name is not None and name not in known:
            raise UnknownNameError(kind, name, known)
    remarks: list[Remark] = []
    if out is not None and out.exists():
        raise UsageError(f"{out} exists already: choose another file")
    items: Iterable[Task | Remark]
    if source == "embedded":
        items = (task for task in embedded_tasks() if split in (None, task.split))
    else:
        items = iter_tasks(source, format, split or "train", keep_system)
    wanted = _matching(items, tier, category, limit, remarks)
    if show is not None:
        _show_task(wanted, show)
        return
    counts: dict[str, Counter[str]] = {key: Counter() for key in ("split", "tier", "category", "gold_kind", "domain")}
    file = JsonLines(out) if out is not None else None
    total = 0
    for task in wanted:
        total += 1
        for key, counter in counts.items():
            counter[getattr(task, key)] += 1
        if file is not None:
            file.append(task.to_json())
    if file is not None:
        file.close()
    skipped, notes = ([r for r in remarks if r.used is used] for used in (False, True))
    if not total:
        raise TaskError(f"{source}: no task fits" + (f"; row {skipped[0].row}: {skipped[0].text}" if skipped else ""))
    if as_json:
        told = {"skipped": _told(skipped), "notes": _told(notes)}
        options.print_json({"tasks": total, **{key: dict(c.most_common()) for key, c in counts.items()}, **told})
        return
    _print_counts(total, counts, skipped, notes, out)


def _matching(
    items: Iterable[Task | Remark], tier: str | None, category: str | None, limit: int | None, remarks: list[Remark]
) -> Iterator[Task]:
    from ..envs.sgls.loaders import Remark

    count = 0
    for item in items:
        if isinstance(item, Remark):
            remarks.append(item)
        elif tier in (None, item.tier) and category in (None, item.category):
            yield item
            count += 1
            if count == limit:
                return


def _show_task(found: Iterator[Task], wanted: str) -> None:
    ids = []
    for task in found:
        if task.id == wanted:
            options.print_json(task.to_json())
            return
        ids.append(task.id)
    raise UnknownNameError("task", wanted, ids[:20])


def _told(remarks: list[Remark]) -> list[dict[str, Any]]:
    return [{"row": remark.row, "text": remark.text} for remark in remarks]


def _print_counts(
    total: int, counts: dict[str, Counter[str]], skipped: list[Remark], notes: list[Remark], out: Path | None
) -> None:
    console = Console()
    console.print(f"{total} tasks", highlight=False)
    for key, counter in counts.items():
        parts = ", ".join(f"{name or 'none'} {count}" for name, count in counter.most_common())
        console.print(f"{key.replace('_', ' ')}: {escape(parts)}", highlight=False)
    for label, remarks in (("not used", skipped), ("note", notes)):
        for remark in remarks[:10]:
            console.print(f"{label}: row {remark.row}: {escape(remark.text)}", highlight=False)
        if len(remarks) > 10:
            console.print(f"… and {len(remarks) - 10} more; --json lists all", highlight=False)
    if out is not None:
        console.print(f"wrote {escape(str(out))}", highlight=False)
