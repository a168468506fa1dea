"""`toolcredit quickstart`: the whole comparison on the embedded questions, from nothing to a report, in minutes.

Builds the exhaustive reward table, trains SmolLM2 with FGPO and with GRPO under equal numbers of updates (side by side,
one process and one thread each), measures both and every reference on the held-out split, writes `report.html`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ..benchmarks.experiment import TrainingPlan, cache_frozen_states, is_finished, train_side_by_side
from ..benchmarks.held_out import measure_and_report, print_result
from ..envs.make import make_split
from ..envs.table import RewardTable
from ..errors import UsageError
from . import options
from .table import table_progress
from .train import plan_training, record_note

LEARNERS = ("fgpo", "grpo")
ENV_ID = "GenomeToolSubset-v0"


def quickstart(
    out: Path = typer.Option(Path("runs/quickstart"), "--out", help="Folder for the table, both runs and the report."),
    policy: str = typer.Option("smollm2", "--policy", help="smollm2, tiny, a local folder, or a hub name."),
    max_steps: int = typer.Option(60, "--max-steps", help="Updates of each learner after the format warm-up."),
    seed: int = typer.Option(0, "--seed", help="Seed of both runs."),
    workers: int = typer.Option(
        None, "--workers", min=1, help="Training processes at once; default: one a core, at most 2."
    ),
    resume: bool = typer.Option(True, "--resume/--restart", help="Go on with what --out holds, or throw it away."),
    as_json: bool = options.JSON,
) -> None:
    """Train SmolLM2 with FGPO and with GRPO on real genomics questions and compare both with every reference.

    A stopped quickstart goes on where it was when it is started again; a finished one prints its result again.
    """
    if not resume:
        _remove(out)
    plans = quickstart_plans(out, policy, max_steps, seed)
    with options.resumable("the same command"):
        with table_progress() as progress:
            RewardTable.build(make_split(ENV_ID, "all"), out / "table.parquet", progress=progress)
        left = [plan for plan in plans if not is_finished(plan)]
        if left:
            _train(left, workers or min(len(left), os.cpu_count() or 1))
        result = measure_and_report(plans, out)
    if as_json:
        options.print_json(result)
    else:
        print_result(result, out)


def quickstart_plans(out: Path, policy: str, max_steps: int, seed: int) -> list[TrainingPlan]:
    """One plan per learner: the shipped presets over one table, with one cache of the frozen layers' states."""
    fields: dict[str, Any] = {"policy.model": policy, "policy.seed": seed, "seed": seed, "max_updates": max_steps}
    if policy == "smollm2":
        fields |= {"policy.trunk_cache": "disk", "policy.trunk_folder": str(out / "trunk")}
    environment = {"table": str(out / "table.parquet")}
    return [plan_training(name, ENV_ID, environment, fields, out=out / name) for name in LEARNERS]


def _remove(out: Path) -> None:
    """Delete a quickstart's folder, and nothing that is not one."""
    if not out.exists():
        return
    if any((out / name / "config.json").exists() for name in LEARNERS) or (out / "table.parquet").exists():
        shutil.rmtree(out)
    elif any(out.iterdir()):
        raise UsageError(f"{out} is not the folder of a quickstart: remove it yourself, or choose another --out")


def _train(plans: Sequence[TrainingPlan], workers: int) -> None:
    _cache(plans[0], workers)
    with options.progress_bar() as progress:
        totals = [plan.learner().total_updates for plan in plans]  # type: ignore[attr-defined]
        bars = [progress.add_task(f"train {p.agent}", total=t, note="") for p, t in zip(plans, totals, strict=True)]

        def show(index: int, record: dict[str, Any]) -> None:
            progress.update(bars[index], completed=record["update"], note=record_note(record))

        train_side_by_side(plans, resume=True, on_record=show, workers=workers)


def _cache(plan: TrainingPlan, workers: int) -> None:
    """The states of the frozen layers, once for both runs."""
    done: dict[int, dict[str, Any]] = {}
    with options.progress_bar() as progress:
        bar = progress.add_task("frozen layers", total=None, note="")

        def show(part: int, record: dict[str, Any]) -> None:
            done[part] = record
            counts = {key: sum(r[key] for r in done.values()) for key in ("done", "total")}
            progress.update(bar, completed=counts["done"], total=counts["total"] if len(done) == workers else None)

        cache_frozen_states(plan, show, workers)
