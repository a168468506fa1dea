"""The result of training runs: their held-out answers beside every reference, as JSON, as a table, as a page."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from .. import __version__
from ..agents.base import Agent
from ..agents.dead_groups import dead_group_curve
from ..envs.make import env_parameters
from ..envs.table import RewardTable
from ..errors import InfrastructureError, RunError
from ..runs import read_jsonl, write_json
from .experiment import GROUP_SIZES, HELD_OUT, TRAINING, TrainingPlan, held_out_env
from .held_out_chat import print_training
from .report import LearnerRun, ReportData, write_report
from .strategies import REFERENCES, Evaluation, Example, Record, evaluate, examples, reference_agents


def measure_and_report(plans: Sequence[TrainingPlan], out: Path) -> dict[str, Any]:
    """Join the held-out answers of finished runs with the references; write `result.json` and `report.html` to `out`.

    Returns:
        The result: `{"n", "split", "strategies": {name: {"accuracy", "ci", "reward", "tools_per_question", …}},
        "comparisons", "failures", "training": {name: {"updates", "seconds", "spent", "best"}}, "versions"}`.
    """
    split, env = held_out_env(plans[0])
    table = RewardTable.build(env)
    own = {plan.agent: read_records(plan) for plan in plans}
    references = evaluate(env, reference_agents(table), table=table)
    evaluation = Evaluation({**own, **references.records}, references.ceilings)
    training = {plan.agent: json.loads((Path(plan.out) / TRAINING).read_text("utf-8")) for plan in plans}
    result = {"split": split, **evaluation.summary(), "training": training, "versions": versions()}
    write_json(out / "result.json", result)
    rewards = table.rewards_for(env)
    uniform = np.full_like(rewards, 1 / rewards.shape[1])
    data = ReportData(
        title=f"{' and '.join(own)} on {plans[0].env_id}",
        evaluation=result,
        questions=f"the {len(rewards)} questions of the split {split}",
        learners=[LearnerRun.from_folder(plan.out, _by_size(training[plan.agent])) for plan in plans],
        dead_groups={"uniform policy": dead_group_curve(uniform, rewards, GROUP_SIZES)},
        examples=_examples(plans[0], split, evaluation),
        config=asdict(plans[0]) if len(plans) == 1 else {plan.agent: asdict(plan) for plan in plans},
        versions=result["versions"],
    )
    write_report(out / "report.html", data)
    return result


def evaluate_agent(env: gym.Env, name: str, agent: Agent) -> dict[str, Any]:
    """The result of one agent on the questions of `env`, references beside it: `measure_and_report` without files."""
    table = RewardTable.build(env)
    agents = {name: agent, **reference_agents(table)}
    return evaluate(env, agents, table=table).summary() | {"versions": versions()}


def _by_size(training: Mapping[str, Any]) -> dict[int, float]:
    """The dead-group curve of a run; JSON has made its group sizes strings."""
    return {int(size): rate for size, rate in training.get("dead_groups", {}).items()}


def _examples(plan: TrainingPlan, split: str, evaluation: Evaluation) -> list[Example]:
    """Rescued and broken questions of every learner, with evidence: the tools run again, a table keeps no text.

    Without examples where the reasoner's endpoint is down now: the result does not need it.
    """
    without_table = {"table": None} if "table" in env_parameters(plan.env_id) else {}
    env = plan.env(split, **without_table)
    own = [name for name in evaluation.records if name not in REFERENCES]
    try:
        return [example for name in own for example in examples(env, evaluation, name)]
    except InfrastructureError:
        return []


def read_records(plan: TrainingPlan) -> list[Record]:
    """The held-out answers that a finished run wrote.

    Raises:
        RunError: the run has not finished.
    """
    path = Path(plan.out) / HELD_OUT
    if not path.is_file():
        raise RunError(f"{plan.out} has not answered the held-out questions yet: continue it with --resume")
    return [Record(**record | {"tools": _tuple(record["tools"])}) for record in read_jsonl(path)]


def _tuple(tools: list[str] | None) -> tuple[str, ...] | None:
    return None if tools is None else tuple(tools)


def versions() -> dict[str, str]:
    """Versions of toolcredit, Python and the packages that numbers depend on."""
    found = {"toolcredit": __version__, "python": platform.python_version()}
    for package in ("gymnasium", "numpy", "torch", "transformers", "peft", "lightmotif", "biopython"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def print_result(result: Mapping[str, Any], out: Path | None = None) -> None:
    """The comparison as a rich table, the paired tests, and where the report is."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown = Table(title=f"{result['n']} questions" + (f" of the split {result['split']}" if "split" in result else ""))
    for column in ("strategy", "accuracy", "95% interval", "reward", "tools a question"):
        shown.add_column(column, justify="left" if column == "strategy" else "right")
    for name, s in result["strategies"].items():
        low, high = s["ci"]
        label = f"{name} (ceiling)" if s["ceiling"] else name
        cells = [
            f"{s['accuracy']:.3f}",
            f"{low:.3f}–{high:.3f}",
            f"{s['reward']:+.3f}",
            f"{s['tools_per_question']:.2f}",
        ]
        shown.add_row(label, *cells, style=None if name in REFERENCES else "bold")
    console.print(shown)
    for c in result["comparisons"]:
        p = "" if c["p_value"] is None else f", McNemar p = {c['p_value']:.2g}"
        reward = "none" if c["reward_ci"] is None else _signed(c["reward_difference"], *c["reward_ci"])
        accuracy = _signed(c["accuracy_difference"], *c["accuracy_ci"])
        console.print(f"{c['strategy']} − {c['reference']}: accuracy {accuracy}{p}; reward {reward}", highlight=False)
    print_training(result.get("training", {}), console)
    if out is not None:
        console.print(f"report: {out / 'report.html'}", highlight=False)


def _signed(value: float | None, *interval: float) -> str:
    """`+0.123`, with its interval if there is one; a mean over no question has no value."""
    text = "none" if value is None else f"{value:+.3f}"
    return f"{text} [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else text
