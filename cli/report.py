"""`toolcredit report`: make the page of a run again, or one page about several runs side by side."""

from __future__ import annotations

from pathlib import Path

import typer

from ..benchmarks.chat_report import write_chat_report
from ..benchmarks.experiment import TrainingPlan
from ..benchmarks.held_out import measure_and_report
from ..benchmarks.held_out_chat import is_chat
from ..envs.make import make_env
from ..errors import UsageError


def report(
    runs: list[Path] = typer.Argument(..., help="Run folders, all of conversations or all of bandits."),
    out: Path = typer.Option(None, "--out", help="Folder of report.html; of a single run its own by default."),
) -> None:
    """Write report.html: rewards, credit by segment, held-out results, conversations, configurations.

    Runs on conversations need not have finished; nothing is played again. Runs on bandits are measured again beside
    their references, must have finished, and are of different learners.
    """
    if out is None and len(runs) > 1:
        raise UsageError("a page about several runs needs a place: give its folder as --out")
    folder = out or runs[0]
    plans = [TrainingPlan.from_run(run) for run in runs]
    kinds = {is_chat(make_env(plan.env_id, **plan.env_kwargs)) for plan in plans}
    if len(kinds) > 1:
        raise UsageError("runs on conversations and runs on bandits have nothing to compare: make a page for each kind")
    if kinds == {True}:
        write_chat_report(folder / "report.html", runs)
    else:
        names = [plan.agent for plan in plans]
        if len(set(names)) < len(names):
            raise UsageError(f"runs of the same learner on bandits ({', '.join(names)}) cannot stand on one page")
        measure_and_report(plans, folder)
    typer.echo(f"report: {folder / 'report.html'}")
