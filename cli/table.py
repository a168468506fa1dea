"""`toolcredit table build` and `table show`: fill the exhaustive reward table of an environment, and read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from ..envs.make import make_split
from ..envs.table import ProgressCallback, RewardTable
from . import options

app = typer.Typer(no_args_is_help=True, help="Fill and read the exhaustive reward table of an environment.")

REWARD = typer.Option("eq1", "--reward", help="eq1 | differential | vista | package.module:function.")
PARSIMONY = typer.Option(0.1, "--parsimony", help="λ of eq1: what tools cost.")


@app.command("build")
def build(
    env: str = options.ENV,
    questions: str = options.QUESTIONS,
    split: str = typer.Option("all", "--split", help="train | dev | test | all."),
    tools: str = options.TOOLS,
    reasoner: str = options.REASONER,
    env_set: list[str] = options.ENV_SET,
    out: Path = typer.Option(..., "--out", help="Table file to write (Parquet)."),
    workers: int = typer.Option(
        None, "--workers", min=1, help="Questions at once; default: what the reasoner can answer at once."
    ),
    resume: bool = typer.Option(
        True, "--resume/--restart", help="Go on with what was built before, or start over. Failed outcomes are retried."
    ),
    as_json: bool = options.JSON,
) -> None:
    """Answer every question with every subset of the tools. Can be stopped or killed at any time and started again."""
    environment = make_split(env, split, **options.env_arguments(questions, tools, reasoner, env_set=env_set))
    started = time.monotonic()
    with options.resumable("the same command"), table_progress(quiet=as_json) as progress:
        table = RewardTable.build(environment, out, workers=workers, progress=progress, resume=resume)
    failed = table.failed()
    result = {
        "table": str(out),
        "questions": len(table),
        "actions": table.header.n_actions,
        "reasoner_calls": getattr(environment.unwrapped, "reasoner_calls", None),
        "failed": [{"id": question_id, "action": action} for question_id, action in failed],
        "seconds": round(time.monotonic() - started, 2),
    }
    if as_json:
        options.print_json(result)
        return
    typer.echo(f"{out}: {len(table)} questions × {table.header.n_actions} actions in {result['seconds']} s")
    if failed:
        typer.echo(
            f"{len(failed)} outcomes failed, see {out}.failed.jsonl; the same command tries them again", err=True
        )


@app.command("show")
def show(
    table: Path = typer.Argument(..., help="Table file."),
    split: str = typer.Option("all", "--split", help="train | dev | test | all."),
    reward: str = REWARD,
    parsimony: float = PARSIMONY,
    as_json: bool = options.JSON,
) -> None:
    """Accuracy and reward of every subset and of the reference strategies, and how much there is to learn."""
    from ..envs.table_summary import summary

    rows = RewardTable.open(table)
    result = summary(rows if split == "all" else rows.select(split), reward, parsimony)
    if as_json:
        options.print_json({"table": str(table), "split": split, **result})
    else:
        _print(f"{table} ({split})", result)


def _print(title: str, result: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False)  # names come from files
    console.print(
        f"{title}: {result['questions']} questions, tools {', '.join(result['tools'])}, "
        f"reward {result['reward']}, parsimony {result['parsimony']}"
    )
    subsets = {" + ".join(entry["subset"]) or "no tools": entry for entry in result["subsets"]}
    console.print(_score_table("Subsets", subsets, name_subsets=False))
    strategies = {
        name.replace("_", " ") + (" (ceiling)" if "ceiling" in entry else ""): entry
        for name, entry in result["strategies"].items()
    }
    console.print(_score_table("Strategies", strategies))
    families = {f"{name} ({entry['questions']})": entry["best"] for name, entry in result["families"].items()}
    console.print(_score_table("Best subset of each family", families))
    shares = ", ".join(f"{size}: {share:.1%}" for size, share in result["degenerate_share"].items())
    if shares:
        console.print(
            f"Questions that all subsets of a library answer right, or all wrong, by its number of tools: {shares}"
        )
    console.print(f"Informative questions (subsets differ): {result['informative_share']:.1%}")
    console.print(f"Unreadable answers: {result['unparsed']}")
    if result["failed"]:
        console.print(f"Failed outcomes: {result['failed']}; they count as wrong: values are lower bounds", style="red")


def _score_table(title: str, entries: dict[str, dict[str, Any]], name_subsets: bool = True) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("accuracy", "reward", "tools"):
        table.add_column(heading, justify="right")
    if name_subsets:
        table.add_column("subset")
    for name, entry in entries.items():
        cells = [f"{entry['accuracy']:.1%}", f"{entry['reward']:+.3f}", f"{entry['tools_per_question']:.2f}"]
        subset = " + ".join(entry["subset"]) or "none" if "subset" in entry else "varies"
        table.add_row(name, *cells, *([subset] if name_subsets else []))
    return table


@contextmanager
def table_progress(quiet: bool = False) -> Iterator[ProgressCallback]:
    """Progress of a table build, as its callback."""
    with options.progress_bar(quiet) as bar:
        task = bar.add_task("reward table", total=None, note="")
        yield lambda done, total: bar.update(task, completed=done, total=total)
