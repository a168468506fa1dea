"""`toolcredit bench`: measure an agent on a benchmark suite, look at runs, compare them, export them.

Suites are imported by the commands that need them.
"""

from __future__ import annotations

import gc
import json
import re
import textwrap
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import ConfigError, ToolcreditError, UnknownNameError, UsageError
from . import options
from .bench_output import parse_prices, print_comparison, print_result, print_task, reporter

if TYPE_CHECKING:
    import inspect

    from ..benchmarks.suite import Suite

app = typer.Typer(no_args_is_help=True, help="Benchmark suites: run, resume, show, compare, export.")

#: how `bench run` is told that further flags belong to the suite
_SUITE_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}
_AGENT = typer.Option(
    None,
    "--agent",
    help="openai:MODEL | local:NAME[+ADAPTER] | a run folder | package.module:Class | gold | nothing | random.",
)
#: the reference `nothing` as `toolcredit eval` and papers call it
_OTHER_NAMES = {"do-nothing": "nothing", "do_nothing": "nothing"}
_AGENT_SET = typer.Option(
    None, "--agent-set", help="Further option of the agent, KEY=VALUE (repeatable), e.g. requests_per_minute=60."
)
_CATEGORY = typer.Option(None, "--category", help="Only these categories or groups (repeatable, or with commas).")
_PRICE = typer.Option(
    None, "--price", help="MODEL=PROMPT,COMPLETION: prices of a million tokens, to show the cost (repeatable)."
)
_RUNS = typer.Argument(..., help="Run folders.")


@app.command("list")
def list_suites(
    suite: str = typer.Argument(None, help="Show the categories and options of this suite."),
    as_json: bool = options.JSON,
) -> None:
    """Show the suites, or the categories and options of one."""
    from ..benchmarks.registry import suite_names

    rows = [_described(name) for name in ([suite] if suite else suite_names())]
    if suite:
        rows[0] |= _in_full(suite)
    if as_json:
        options.print_json(rows[0] if suite else rows)
        return
    for row in rows:
        typer.echo(f"{row['name']}: {row['about']}")
        if not suite:
            typer.echo("  options: " + " ".join(row["options"]))
        for flag in row.get("flags", ()):
            default = "" if flag["default"] is None else f" [default: {flag['default']}]"
            text = f"  {flag['flag']}{default}  {flag['meaning']}"
            typer.echo(textwrap.fill(text, 100, subsequent_indent=" " * 6, break_on_hyphens=False))
        if row.get("groups"):
            typer.echo("  groups of categories: " + ", ".join(row["groups"]))
        for name, number in row.get("categories", {}).items():
            typer.echo(f"  {number:6} {name}")
    if not suite:
        typer.echo("`toolcredit bench list SUITE` tells what its options mean, and its categories.")


@app.command(
    "run",
    context_settings=_SUITE_FLAGS,
    epilog="Flags of the suites, after the suite's name (see `toolcredit bench list SUITE`): "
    "bfcl --version --source --mode --scorer; genomeqa --questions --format --split --mode --bases --tools "
    "--reasoner --parsimony; tau2 --domain --split --solo --user --user-base-url --user-api-key-env --judge "
    "--judge-base-url --judge-api-key-env --max-steps --max-errors; toucan --tasks --split --tier --group --mock "
    "--judge --max-turns --strictness --distractors --distractor-seed.",
)
def run(
    ctx: typer.Context,
    suite: str = typer.Argument(..., help="A suite, or the folder of a run to go on with."),
    agent: str = _AGENT,
    base_url: str = typer.Option(
        None, "--base-url", help="Endpoint of openai:MODEL, up to /v1; default: $OPENAI_BASE_URL."
    ),
    temperature: float = typer.Option(None, "--temperature", help="Of the sampling; default: 0, greedy."),
    max_tokens: int = typer.Option(None, "--max-tokens", help="Longest reply; default: 4096, local models 512."),
    agent_set: list[str] = _AGENT_SET,
    category: list[str] = _CATEGORY,
    ids: str = typer.Option(None, "--ids", help="Only these tasks: ids with commas, or @FILE with one a line."),
    limit: int = typer.Option(None, "--limit", min=1, help="At most so many tasks, in turn from the categories."),
    trials: int = typer.Option(1, "--trials", min=1, help="Attempts at each task."),
    seed: int = typer.Option(0, "--seed", help="Seed of everything random."),
    workers: int = typer.Option(None, "--workers", min=1, help="Attempts at once; default 16, local models 8."),
    deadline: float = typer.Option(600.0, "--deadline", help="Seconds for one attempt; then it has failed."),
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Play failed attempts again."),
    references: bool = typer.Option(True, "--references/--no-references", help="Also play floors and ceilings."),
    price: list[str] = _PRICE,
    out: Path = typer.Option(None, "--out", help="Run folder; default: runs/bench-SUITE-DATE."),
    as_json: bool = options.JSON,
) -> None:
    """Measure an agent. Can be killed at any time: the same command with the same --out goes on where it was.

    Keys of endpoints are taken from the environment only.
    """
    from ..benchmarks.plan import PACING, BenchPlan
    from ..benchmarks.registry import suite_names

    prices = parse_prices(price)
    given = dict(options.key_value(item) for item in agent_set or [])
    named = {"base_url": base_url, "temperature": temperature, "max_tokens": max_tokens}
    given = {key: value for key, value in named.items() if value is not None} | given
    selected = (category, ids, limit, agent, base_url, temperature, max_tokens, ctx.args)
    # a run folder may be called like a suite: then --agent tells which is meant, since it begins a run
    if Path(suite).is_dir() and not (agent is not None and suite in suite_names()):
        if any(value not in (None, []) for value in selected) or set(given) - set(PACING):
            raise UsageError("a run goes on with its own settings: give only --workers, --deadline and such")
        plan, folder = BenchPlan.from_run(suite, given), Path(suite)
    else:
        if agent is None:
            raise UsageError("--agent is missing: for example openai:MODEL, local:smollm2, or gold")
        agent = _OTHER_NAMES.get(agent, agent)
        plan = BenchPlan(
            suite, agent, _suite_flags(suite, ctx.args), given, _selection(category, ids, limit), trials, seed
        )
        folder = out or Path("runs") / f"bench-{_slug(suite)}-{datetime.now():%Y%m%d-%H%M%S}"
    gc.freeze()  # what is loaded stays: collecting through it would stop all threads again and again
    with options.resumable(f"toolcredit bench run {folder}"), options.progress_bar(quiet=as_json) as bar:
        result = plan.run(
            folder,
            workers=workers,
            deadline=deadline,
            retry_failed=retry_failed,
            references=None if references else (),
            on_progress=reporter(bar, plan.suite, prices),
        )
    if as_json:
        options.print_json({**result, "run": str(folder)})
    else:
        print_result(result, prices)
        typer.echo(f"run: {folder}")
    if result["failed"]:
        typer.echo(f"play failed attempts again with: toolcredit bench run {folder} --retry-failed", err=True)
    if result["unresolved"]:
        typer.echo(
            f"{result['unresolved']} attempts are unresolved; go on with: toolcredit bench run {folder}", err=True
        )
        raise typer.Exit(1)


@app.command()
def show(
    run: Path = typer.Argument(..., help="Run folder, finished or not."),
    task: str = typer.Option(None, "--task", help="Show what the agent did in this task."),
    price: list[str] = _PRICE,
    as_json: bool = options.JSON,
) -> None:
    """Show a run: every category and aggregate with its interval, references beside it, failures, tokens."""
    from ..benchmarks.results import load_result

    if task is not None:
        print_task(run, task, as_json)
        return
    result = load_result(run)
    if as_json:
        options.print_json(result)
    else:
        print_result(result, parse_prices(price))


@app.command()
def compare(runs: list[Path] = _RUNS, as_json: bool = options.JSON) -> None:
    """Compare runs of one suite in pairs, on common tasks: McNemar's test, paired bootstrap, the tasks that differ."""
    from ..benchmarks.comparison import compare_runs

    found = compare_runs(runs)
    if as_json:
        options.print_json(found)
        return
    for comparison in found:
        print_comparison(comparison)


@app.command()
def export(
    run: Path = typer.Argument(..., help="Run folder."),
    format: str = typer.Option("json", "--format", help="json | csv | markdown, or a format of the suite."),
    out: Path = typer.Option(..., "--out", help="Folder to write to."),
) -> None:
    """Write a run in another form."""
    from ..benchmarks.exports import export_run

    for path in export_run(run, format, out):
        typer.echo(str(path))


@app.command()
def build(
    recipe: str = typer.Argument(..., help="genbench-x | bm4."),
    source: list[str] = typer.Option(..., "--source", help="DATASET=TEST[,TRAIN]: labelled sequences (repeatable)."),
    apart: list[Path] = typer.Option(None, "--apart", help="Question files whose sequences must not occur."),
    seed: int = typer.Option(0, "--seed", help="Seed of the choice of sequences."),
    out: Path = typer.Option(..., "--out", help="Question file to write (.jsonl or .jsonl.gz)."),
    as_json: bool = options.JSON,
) -> None:
    """Build a set of genome questions from labelled sequences of your own, for `bench run genomeqa --questions`."""
    from ..benchmarks.genome_sets import LabelledFiles, build_set
    from ..envs.genome.questions import load_questions, write_questions

    files = {}
    for item in source:
        name, equals, paths = item.partition("=")
        test, _, train = paths.partition(",")
        if not equals or not test:
            raise ConfigError(f"--source {item!r}: expected DATASET=TEST or DATASET=TEST,TRAIN")
        files[name] = LabelledFiles(test, train or None)
    built = build_set(recipe, files, seed=seed, apart=[q for path in apart or [] for q in load_questions(path)])
    write_questions(out, built.questions)
    if as_json:
        options.print_json({"questions": str(out), "n": len(built.questions), "datasets": built.report})
        return
    for name, told in built.report.items():
        typer.echo(f"{name}: {json.dumps(told, ensure_ascii=False)}")
    typer.echo(f"{out}: {len(built.questions)} questions")


# --------------------------------------------------------------------------------------------------------- input


def _selection(category: Sequence[str] | None, ids: str | None, limit: int | None) -> Any:
    from ..benchmarks.suite import Selection

    names = tuple(name.strip() for item in category or [] for name in item.split(",") if name.strip())
    if category and not names:
        raise ConfigError(f"--category {category[0]!r}: expected names of categories")
    return Selection(names or None, _ids(ids), limit)


def _ids(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--ids {text}: {error}") from None
    else:
        lines = text.split(",")
    return tuple(line.strip() for line in lines if line.strip())


def _suite_flags(suite: str, words: Sequence[str]) -> dict[str, Any]:
    """`--name value`, `--name=value`, `--flag` and `--no-flag` as options of the suite."""
    from ..benchmarks.registry import suite_options

    known = suite_options(suite)
    found: dict[str, Any] = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--"):
            raise UsageError(f"{word!r} is no option: flags of a suite are written --name VALUE")
        name, equals, text = word[2:].partition("=")
        name = name.replace("-", "_")
        if not equals and name.startswith("no_") and name not in known and name[3:] in known:
            found[name[3:]] = False
            continue
        if name not in known:
            flags = ["--" + option.replace("_", "-") for option in known]
            raise UnknownNameError(f"flag of `bench run {suite}`", word.partition("=")[0], flags)
        if not equals and isinstance(known[name].default, bool):
            found[name] = True
            continue
        if not equals and (not waiting or waiting[0].startswith("--")):
            raise UsageError(f"{word} needs a value")
        found[name] = _value(text if equals else waiting.pop(0), known[name])
    return found


def _value(text: str, parameter: inspect.Parameter) -> Any:
    if str(parameter.annotation) in ("str", "str | None"):
        return text
    return options.key_value(f"value={text}")[1]


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name)


def _described(name: str) -> dict[str, Any]:
    from ..benchmarks.registry import suite_class, suite_options

    try:
        about = (suite_class(name).__doc__ or "").strip().splitlines()[0]
        flags = ["--" + option.replace("_", "-") for option in suite_options(name)]
    except ToolcreditError as error:
        about, flags = f"cannot be used here: {error}", []
    return {"name": name, "about": about, "options": flags}


def _in_full(name: str) -> dict[str, Any]:
    from ..benchmarks.registry import make_suite, option_meanings, suite_options
    from ..benchmarks.suite import Selection

    meanings = option_meanings(name)
    flags = []
    for option, parameter in suite_options(name).items():
        default = None if parameter.default is parameter.empty else parameter.default
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        meaning = meanings.get(option, "").replace("`", "")
        flags.append({"flag": "--" + option.replace("_", "-"), "default": shown, "meaning": meaning})
    suite: Suite = make_suite(name)
    counts: dict[str, int] = {}
    for task in suite.tasks(Selection()):
        counts[task.category] = counts.get(task.category, 0) + 1
    return {"flags": flags, "groups": sorted(suite.groups), "categories": counts}
