"""Options and helpers that several verbs share: environment arguments, dotted settings, progress bars, JSON output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from ..errors import ConfigError

ENV = typer.Option("GenomeToolSubset-v0", "--env", help="Gymnasium id of the environment.")
QUESTIONS = typer.Option(None, "--questions", help="Question file (.jsonl or .jsonl.gz); default: the embedded set.")
TOOLS = typer.Option(None, "--tools", help="Comma-separated tool names; default: the paper's four.")
REASONER = typer.Option(
    None, "--reasoner", help="evidence (default) | chat:MODEL | local:MODEL | package.module:Class."
)
TABLE = typer.Option(None, "--table", help="Reward table to answer from (see `toolcredit table build`).")
JSON = typer.Option(False, "--json", help="Print the result as JSON on standard output.")
ENV_SET = typer.Option(None, "--env-set", help="Further environment argument, KEY=VALUE (repeatable).")
AGENT_SET = typer.Option(
    None, "--agent-set", help="Argument of the agent, KEY=VALUE (repeatable), e.g. model=chat:NAME for `prompted`."
)


def agent_arguments(agent_set: list[str] | None) -> dict[str, Any]:
    """Keyword arguments for an agent from `--agent-set`."""
    return dict(key_value(item) for item in agent_set or [])


def env_arguments(
    questions: str | None = None,
    tools: str | None = None,
    reasoner: str | None = None,
    table: str | None = None,
    env_set: list[str] | None = None,
) -> dict[str, Any]:
    """Keyword arguments for `gym.make` from the options that were given; what was not given is left out."""
    named = {
        "questions": questions,
        "tools": [name.strip() for name in tools.split(",") if name.strip()] if tools is not None else None,
        "reasoner": reasoner,
        "table": table,
    }
    arguments: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    return arguments | dict(key_value(item) for item in env_set or [])


def key_value(item: str) -> tuple[str, Any]:
    """`KEY=VALUE` as a pair; VALUE is JSON where it parses as JSON, else the text itself.

    Raises:
        ConfigError: no `=`, or no key before it.
    """
    key, equals, text = item.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{item!r} is no setting: expected KEY=VALUE, e.g. learning_rate=0.001")
    try:
        return key.strip(), json.loads(text)
    except ValueError:
        return key.strip(), text


def print_json(value: Any) -> None:
    """One JSON document on standard output; NaN is refused, non-ASCII text is kept."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def printable(text: str) -> str:
    """Text without what would steer a terminal: what models write is anybody's text."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


#: seconds after which a log is told how far a collection of episodes is
_SILENCE = 60.0


class LineProgress:
    """Progress for logs and pipes: one line for every tenth of a task, with the time left."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self._tasks: list[dict[str, Any]] = []
        self._told = time.monotonic()

    def add_task(self, description: str, total: float | None = None, note: str = "") -> int:
        """Begin a task; `total` may come later."""
        self._tasks.append({"name": description, "total": total, "since": time.monotonic(), "first": None, "tenth": 0})
        return len(self._tasks) - 1

    def say(self, text: str) -> None:
        """A line about what happens now."""
        self._told = time.monotonic()
        if not self.quiet:
            typer.echo(text, err=True)

    def episodes(self, done: int, total: int) -> None:
        """How far a collection of episodes is; said where nothing else was for a minute."""
        if time.monotonic() - self._told >= _SILENCE:
            self.say(f"  {done} of {total} episodes")

    def update(self, task_id: int, completed: float, total: float | None = None, note: str = "") -> None:
        """Say how much is done."""
        task = self._tasks[task_id]
        task["total"] = task["total"] if total is None else total
        if task["first"] is None:
            task["first"] = completed  # what an earlier run did is no measure of this one's speed
        if self.quiet or not task["total"] or 10 * completed // task["total"] <= task["tenth"]:
            return
        task["tenth"] = 10 * completed // task["total"]
        seconds, done = time.monotonic() - task["since"], completed - task["first"]
        left = f", {seconds / done * (task['total'] - completed):.0f} s left" if done > 0 else ""
        line = f"{task['name']}: {completed:g}/{task['total']:g}, {seconds:.0f} s{left}"
        self.say(f"{line}  {note}".rstrip())


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Any]:
    """A rich progress display with time left on a terminal, plain lines elsewhere, nothing with `quiet`.

    What is yielded has `add_task(description, total, note)`, `update(task, completed, total, note)`, `say(text)` and
    `episodes(done, total)`, a watcher of `agents.watching` with a bar of its own while episodes are collected.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    class Bars(Progress):
        below: TaskID | None = None

        def say(self, text: str) -> None:
            self.console.print(text, markup=False, highlight=False)

        def episodes(self, done: int, total: int) -> None:
            if self.below is None:
                self.below = self.add_task("  episodes", note="")
            if done == 0:
                self.reset(self.below, total=total)
            self.update(self.below, completed=done, total=total, visible=done < total)

    def whole(width: int) -> Column:
        return Column(no_wrap=True, min_width=width)  # on a narrow terminal the note is broken, not the numbers

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield LineProgress(quiet)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20, table_column=Column(min_width=5)),
        MofNCompleteColumn(table_column=whole(5)),
        TimeElapsedColumn(table_column=whole(7)),
        TimeRemainingColumn(table_column=whole(7)),
        TextColumn("{task.fields[note]}", table_column=Column()),
    )
    with Bars(*columns, console=console) as progress:
        yield progress


@contextmanager
def resumable(command: str) -> Iterator[None]:
    """Ctrl-C ends the work inside with exit code 130 and says which command goes on with it."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; what is finished is kept. Go on with: {command}", err=True)
        raise typer.Exit(130) from None
