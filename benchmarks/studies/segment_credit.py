"""Ways to give credit in tool calling, side by side, while the judge of the summary gets noisier.

    python -m toolcredit.benchmarks.studies.segment_credit --out runs/segment_credit

Every seed has a start of its own: `tiny-chat`, trained on gold episodes of the easy tier by the preset `tiny`, which
ends at a mean total reward of 1.4 on dev, so that the starts are about equally good. From there each method makes the
same number of updates, on the same tasks in the same order, with as many episodes; all other settings are those of the
preset `tiny`.
The judge's rating is replaced by a uniform draw with the probability `noise` while learning; nobody is measured with
noise. The last weights count, so that no method is helped by a choice of checkpoints. Finished runs are kept: the
command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...agents.config import set_dotted
from ...runs import read_jsonl, write_json
from ..experiment import HELD_OUT, TRAINING, TrainingPlan, load_preset
from ..held_out import versions
from ..held_out_chat import ChatRecord, read_records
from .seeds import add_seeds, cell, interval, run

ENV_ID = "SGLSToolCallingReplay-v0"
SEEDS = (1, 2, 3, 4, 5)
NOISE = (0.0, 0.25, 0.5)
REFERENCE = "SLCA"
#: method and settings of each arm
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "SLCA": ("slca-grpo", {}),
    "GRPO": ("grpo-chat", {}),
    "ToolPO": ("toolpo", {}),
    "RLTR": ("rltr", {}),
    "GiGPO": ("gigpo", {}),
    "SLCA × GiGPO": ("slca-gigpo", {}),
    "exact SLCA": ("slca-exact", {"choice_values": "counterfactual"}),
}
#: arms that learn from the process reward alone: the judge's noise never reaches them, one run stands for all
DEAF = ("RLTR",)
#: what is measured on held-out episodes, and its title; an episode that failed counts 0
MEASURES = {
    "success_process": "success",
    "process": "process",
    "success_combined": "success, both",
    "summary": "summary",
    "calls": "calls",
}
#: at the end of training, of the episodes sampled in the last updates
LAST = 10

Runs = Mapping[float, Mapping[str, Sequence[TrainingPlan]]]


def main() -> None:
    """Starts, then every arm at every noise, seed by seed; the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/segment_credit"), help="folder of all runs")
    parser.add_argument("--workers", type=int, default=2, help="training processes at once")
    add_seeds(parser, len(SEEDS), default=len(SEEDS))
    parser.add_argument("--updates", type=int, default=40, help="updates of every arm")
    parser.add_argument("--noise", type=float, nargs="+", default=NOISE, help="probabilities of a random rating")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS, help="which arms")
    arguments = parser.parse_args()
    out: Path = arguments.out
    seeds = SEEDS[: arguments.seeds]
    starts = [start(out, seed) for seed in seeds]
    run(starts, arguments.workers)
    runs = {
        noise: {arm: [plan(out, arm, noise, seed, arguments.updates) for seed in seeds] for arm in arguments.arms}
        for noise in arguments.noise
    }
    # Seed after seed, so that what a stopped study has finished can be compared.
    order = [own[arm][i] for i in range(len(seeds)) for own in runs.values() for arm in arguments.arms]
    run(list({p.out: p for p in order}.values()), arguments.workers)
    result = summarise(starts, runs)
    write_json(out / "summary.json", result)
    print(markdown(result))


def start(out: Path, seed: int) -> TrainingPlan:
    """The supervised start of a seed."""
    preset = load_preset("sft", "tiny")
    return _plan("sft", preset, {"seed": seed, "policy.seed": seed}, preset["env"], out / f"start-{seed}")


def plan(out: Path, arm: str, noise: float, seed: int, updates: int) -> TrainingPlan:
    """One run of an arm."""
    learner, setting = ARMS[arm]
    noise = 0.0 if arm in DEAF else noise
    preset = load_preset(learner, "tiny")
    changes = {"max_updates": updates, "eval_every": updates, "probe_every": 0, "seed": seed}
    changes |= {"init": str(out / f"start-{seed}")} | setting
    scorer = {"name": "hierr", "noise": noise, "seed": seed} if noise else "hierr"
    name = arm.lower().replace(" × ", "-").replace(" ", "-")
    return _plan(
        learner, preset, changes, preset["env"] | {"scorer": scorer}, out / f"{name}-noise-{noise:g}-seed-{seed}"
    )


def _plan(learner: str, preset: Mapping[str, Any], changes: Mapping[str, Any], env: Any, out: Path) -> TrainingPlan:
    config = preset["config"]
    for name, value in changes.items():
        set_dotted(config, name, value)
    return TrainingPlan(learner, config, ENV_ID, env, str(out))


def summarise(starts: Sequence[TrainingPlan], runs: Runs) -> dict[str, Any]:
    """Everything the tables show, in plain JSON."""
    first = [_measures(p) for p in starts]
    measured = {
        str(noise): {arm: [_measures(p) for p in plans] for arm, plans in arms.items()} for noise, arms in runs.items()
    }
    one_each = {arm: plans[0] for arms in runs.values() for arm, plans in arms.items()}
    return {
        "n": len(read_records(Path(starts[0].out) / HELD_OUT)),
        "start": _intervals(first),
        "arms": {noise: {arm: _intervals(own) for arm, own in arms.items()} for noise, arms in measured.items()},
        "slca_minus": {noise: _differences(arms) for noise, arms in measured.items() if REFERENCE in arms},
        "training": {arm: json.loads((Path(p.out) / TRAINING).read_text("utf-8")) for arm, p in one_each.items()},
        "versions": versions(),
    }


def _intervals(seeds: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    return {**{name: interval([own[name] for own in seeds]) for name in seeds[0]}, "seeds": list(seeds)}


def _differences(arms: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """SLCA minus each other arm, seed by seed."""
    return {
        arm: {
            name: interval([a[name] - b[name] for a, b in zip(arms[REFERENCE], own, strict=True)]) for name in MEASURES
        }
        for arm, own in arms.items()
        if arm != REFERENCE
    }


def _measures(p: TrainingPlan) -> dict[str, float]:
    """Means over the held-out episodes of a run, and over the episodes it sampled last."""
    records = read_records(Path(p.out) / HELD_OUT)
    logged = [r.get("reward/success_process") for r in read_jsonl(Path(p.out) / "metrics.jsonl")]
    sampled = [value for value in logged if value is not None]
    last = {"sampled_success": float(np.mean(sampled[-LAST:]))} if sampled else {}
    return {name: float(np.mean([_counts(r, name) for r in records])) for name in MEASURES} | last


def _counts(record: ChatRecord, name: str) -> float:
    return float(record.calls if name == "calls" else record.rewards.get(name) or 0.0)


def markdown(result: Mapping[str, Any]) -> str:
    """The tables of docs/results.md, which leave out the calls."""
    names, compared = [*MEASURES, "sampled_success"], list(MEASURES)
    lines = [f"Held-out tasks: {result['n']}. Means over {len(result['start']['seeds'])} seeds.", ""]
    lines += _head("", [*MEASURES.values(), "success, sampled"])
    lines.append(_row("*start*", result["start"], names, ""))
    for noise, arms in result["arms"].items():
        lines.append(_row(f"**noise {float(noise):g}**", {}, names))
        lines += [_row(arm, own, names, "") for arm, own in arms.items()]
    lines += ["", *_head(f"{REFERENCE} −", list(MEASURES.values()))]
    for noise, arms in result["slca_minus"].items():
        lines.append(_row(f"**noise {float(noise):g}**", {}, compared))
        lines += [_row(arm, own, compared) for arm, own in arms.items()]
    return "\n".join(lines)


def _head(first: str, titles: Sequence[str]) -> list[str]:
    return [f"| {first} | " + " | ".join(titles) + " |", "|---" * (len(titles) + 1) + "|"]


def _row(title: str, own: Mapping[str, Any], names: Sequence[str], sign: str = "+") -> str:
    return f"| {title} | " + " | ".join(cell(own[name], sign) if name in own else "" for name in names) + " |"


if __name__ == "__main__":
    main()
