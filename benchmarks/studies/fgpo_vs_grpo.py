"""FGPO against GRPO on the embedded questions: sweeps of equal size on dev, then seeds of the chosen settings on test.

    python -m toolcredit.benchmarks.studies.fgpo_vs_grpo --out runs/fgpo_vs_grpo

Both learners get the same policy, warm-up, updates, batch, data order and number of settings. A setting is chosen by
the reward (Eq. 1) of its best checkpoint on dev. The chosen settings then run with other seeds, and are measured once
on test. With `--with-eq1` GRPO also trains on Eq. 1 itself: in a group that agrees on the answer, dividing by σ turns
the small parsimony differences into full-size advantages.
Finished runs are kept: the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...agents.config import set_dotted
from ...envs.make import make_split
from ...envs.table import RewardTable
from ...runs import write_json
from ..experiment import TRAINING, TrainingPlan, load_preset
from ..held_out import read_records, versions
from ..strategies import Record, evaluate, reference_agents
from .seeds import add_seeds, cell, interval, run

ENV_ID = "GenomeToolSubset-v0"
SWEEP_SEED = 1000
#: The sweep's runs are shorter than the presets', which the seeds use.
SWEEP_LENGTH = {"max_updates": 75, "eval_every": 25}
SEEDS = (1, 2, 3, 4, 5)

#: Settings over the laptop presets, the same number for each learner.
SWEEPS: dict[str, tuple[dict[str, Any], ...]] = {
    "fgpo": (
        {"learning_rate": 1e-3, "entropy": 0.03},
        {"learning_rate": 2e-3, "entropy": 0.03},
        {"learning_rate": 1e-3, "entropy": 0.1},
        {"learning_rate": 2e-3, "entropy": 0.1},
        {"learning_rate": 2e-3, "entropy": 0.3},
    ),
    "grpo": (
        {"learning_rate": 2e-4, "group_size": 6, "kl": 0.0},
        {"learning_rate": 5e-4, "group_size": 6, "kl": 0.02},
        {"learning_rate": 1e-3, "group_size": 12, "kl": 0.0},
        {"learning_rate": 1e-3, "group_size": 6, "kl": 0.02},
        {"learning_rate": 1e-3, "group_size": 12, "kl": 0.1},
    ),
}


def main() -> None:
    """Sweep, choose, repeat with seeds, summarise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/fgpo_vs_grpo"), help="folder of all runs")
    parser.add_argument("--workers", type=int, default=2, help="training processes at once")
    add_seeds(parser, len(SEEDS), default=3)
    parser.add_argument("--with-eq1", action="store_true", help="also train GRPO on Eq. 1 itself")
    arguments = parser.parse_args()
    out: Path = arguments.out
    RewardTable.build(make_split(ENV_ID, "all"), out / "table.parquet")

    sweep = {
        name: [plan(out / f"sweep-{name}-{i}", name, s | SWEEP_LENGTH, SWEEP_SEED) for i, s in enumerate(settings)]
        for name, settings in SWEEPS.items()
    }
    run([p for pair in zip(*sweep.values(), strict=True) for p in pair], arguments.workers)
    chosen = {name: choose(plans) for name, plans in sweep.items()}

    arms: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        name: (name, SWEEPS[name][index], {}) for name, index in chosen.items()
    }
    if arguments.with_eq1:
        arms["grpo on eq1"] = ("grpo", SWEEPS["grpo"][chosen["grpo"]], {"reward": "eq1"})
    runs = {
        arm: [
            plan(out / f"{arm.replace(' ', '-')}-seed-{seed}", name, setting, seed, **env)
            for seed in SEEDS[: arguments.seeds]
        ]
        for arm, (name, setting, env) in arms.items()
    }
    run([p for plans in zip(runs["fgpo"], runs["grpo"], strict=True) for p in plans], arguments.workers)
    run(runs.get("grpo on eq1", []), arguments.workers)
    result = summarise(sweep, chosen, runs)
    write_json(out / "summary.json", result)
    print(markdown(result))


def plan(out: Path, learner: str, setting: Mapping[str, Any], seed: int, **env: Any) -> TrainingPlan:
    """One run: the laptop preset, a setting over it, one cache of frozen states and one table for the whole study."""
    preset = load_preset(learner, "laptop")
    config = preset["config"]
    trunk = {"policy.trunk_cache": "disk", "policy.trunk_folder": str(out.parent / "trunk")}
    for name, value in {**setting, **trunk, "seed": seed, "policy.seed": seed}.items():
        set_dotted(config, name, value)
    kwargs = preset["env"] | {"table": str(out.parent / "table.parquet")} | env
    return TrainingPlan(learner, config, ENV_ID, kwargs, str(out))


def choose(plans: Sequence[TrainingPlan]) -> int:
    """Index of the setting whose best checkpoint has the highest reward on dev."""
    return int(np.argmax([best_on_dev(p)["dev_reward"] for p in plans]))


def best_on_dev(p: TrainingPlan) -> dict[str, Any]:
    """The record of a finished run's best dev evaluation."""
    return json.loads((Path(p.out) / TRAINING).read_text("utf-8"))["best"]


def summarise(
    sweep: Mapping[str, Sequence[TrainingPlan]],
    chosen: Mapping[str, int],
    runs: Mapping[str, Sequence[TrainingPlan]],
) -> dict[str, Any]:
    """Everything the tables show, in plain JSON."""
    env = next(iter(runs.values()))[0].evaluation_env("test")
    assert env is not None
    table = RewardTable.build(env)
    references = evaluate(env, reference_agents(table), table=table).summary()["strategies"]
    records = {arm: [read_records(p) for p in plans] for arm, plans in runs.items()}
    arms = {arm: _arm(own, plans) for (arm, plans), own in zip(runs.items(), records.values(), strict=True)}
    differences = [
        _difference(f"fgpo − {other}", [_mean(own) for own in records["fgpo"]], [_mean(own) for own in records[other]])
        for other in records
        if other != "fgpo"
    ]
    for name in ("none", "all", "best_fixed"):
        fixed = {key: references[name][key] for key in ("accuracy", "reward")}
        differences.append(
            _difference(f"fgpo − {name}", [_mean(own) for own in records["fgpo"]], [fixed] * len(records["fgpo"]))
        )
    settings = {
        name: [{**SWEEPS[name][i], **best_on_dev(p), "chosen": i == chosen[name]} for i, p in enumerate(plans)]
        for name, plans in sweep.items()
    }
    return {
        "n": len(env.unwrapped.question_ids),  # type: ignore[attr-defined]
        "sweep": settings,
        "arms": arms,
        "references": references,
        "differences": differences,
        "versions": versions(),
    }


def _mean(records: Sequence[Record]) -> dict[str, float]:
    return {
        "accuracy": float(np.mean([r.correct for r in records])),
        "reward": float(np.mean([r.reward for r in records if r.reward is not None])),
        "tools": float(np.mean([r.n_tools for r in records])),
    }


def _arm(records: Sequence[Sequence[Record]], plans: Sequence[TrainingPlan]) -> dict[str, Any]:
    means = [_mean(own) for own in records]
    training = [json.loads((Path(p.out) / TRAINING).read_text("utf-8")) for p in plans]
    return {
        **{key: interval([m[key] for m in means]) for key in means[0]},
        "seconds": float(np.mean([t["seconds"] for t in training])),
        "spent": training[0]["spent"],
        "seeds": means,
    }


def _difference(name: str, one: Sequence[Mapping[str, float]], other: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Seed by seed differences with a t interval; both sides of a pair share their seed, hence data order."""
    parts = {
        key: interval([a[key] - b[key] for a, b in zip(one, other, strict=True)]) for key in ("accuracy", "reward")
    }
    return {"difference": name, **parts}


def markdown(result: Mapping[str, Any]) -> str:
    """The tables of docs/results.md."""
    lines = [f"Held-out questions: {result['n']}.", "", "| strategy | accuracy | reward (Eq. 1) | tools a question |"]
    lines.append("|---|---|---|---|")
    for name, arm in result["arms"].items():
        lines.append(f"| **{name}** | " + " | ".join(cell(arm[key]) for key in ("accuracy", "reward", "tools")) + " |")
    for name, r in result["references"].items():
        ceiling = " (ceiling)" if r["ceiling"] else ""
        lines.append(f"| {name}{ceiling} | {r['accuracy']:.3f} | {r['reward']:+.3f} | {r['tools_per_question']:.2f} |")
    lines += ["", "| difference | accuracy | reward |", "|---|---|---|"]
    for d in result["differences"]:
        lines.append(f"| {d['difference']} | {cell(d['accuracy'])} | {cell(d['reward'])} |")
    for name, settings in result["sweep"].items():
        keys = [key for key in settings[0] if not key.startswith("dev_") and key not in ("chosen", "update")]
        lines += ["", f"| {name}: " + " | ".join(keys) + " | dev reward | dev accuracy | dev tools | best at update |"]
        lines.append("|---" * (len(keys) + 4) + "|")
        for s in settings:
            numbers = [f"{s['dev_reward']:+.3f}", f"{s['dev_accuracy']:.3f}", f"{s['dev_tools']:.2f}", str(s["update"])]
            cells = [str(s[key]) for key in keys] + numbers
            lines.append("| " + " | ".join(f"**{c}**" if s["chosen"] else c for c in cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
