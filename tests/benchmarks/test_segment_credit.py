"""The study of credit in tool calling, at its smallest."""

from __future__ import annotations

import json
import sys

import pytest
from toolcredit.agents.base import agent_class
from toolcredit.benchmarks.experiment import TrainingPlan
from toolcredit.benchmarks.studies import fgpo_vs_grpo, segment_credit


@pytest.mark.parametrize("arm", segment_credit.ARMS)
def test_every_arm_is_a_run_that_can_be_made(arm, tmp_path):
    plan = segment_credit.plan(tmp_path, arm, 0.25, seed=3, updates=7)
    learner = agent_class(plan.agent)(plan.config)
    assert learner.total_updates == 7 and learner.config.seed == 3
    if arm in segment_credit.DEAF:
        assert plan.env("train").spec.kwargs["scorer"] == "hierr" and "noise-0-" in plan.out
        return
    assert plan.env("train").spec.kwargs["scorer"] == {"name": "hierr", "noise": 0.25, "seed": 3}
    for split in ("dev", "test"):
        assert plan.evaluation_env(split).spec.kwargs["scorer"]["noise"] == 0.0


def test_arms_differ_in_nothing_but_their_credit(tmp_path):
    def rest(plan: TrainingPlan) -> dict:
        allowed = {"estimator", "options", "at_end", "choice_values"}
        config = agent_class(plan.agent)(plan.config).config.model_dump(mode="json")
        return {name: value for name, value in config.items() if name not in allowed} | {"env": plan.env_kwargs}

    plans = [segment_credit.plan(tmp_path, arm, 0.0, seed=1, updates=3) for arm in segment_credit.ARMS]
    assert all(rest(plan) == rest(plans[0]) for plan in plans[1:])
    assert len({plan.out for plan in plans}) == len(plans)


def test_the_summary_compares_seed_by_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_credit, "SEEDS", (1, 2))

    def write(plan: TrainingPlan, solved: list[float], sampled: float) -> TrainingPlan:
        folder = tmp_path / plan.out
        folder.mkdir(parents=True)
        rows = [
            {"id": str(i), "rewards": {"success_process": s, "process": s}, "calls": 1} for i, s in enumerate(solved)
        ]
        rows.append({"id": "lost", "error": "endpoint down"})  # counts 0, in every mean
        (folder / "held_out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "training.json").write_text(json.dumps({"spent": {}}))
        record = {"update": 1, "reward/process": 0.5, "reward/success_process": sampled}
        (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
        return plan

    starts = [write(segment_credit.start(tmp_path, seed), [0, 0, 1], 0.1) for seed in (1, 2)]
    runs = {
        0.25: {
            arm: [write(segment_credit.plan(tmp_path, arm, 0.25, seed, 1), own, 0.4) for seed, own in ((1, a), (2, b))]
            for arm, a, b in (("SLCA", [1, 1, 1], [1, 1, 0]), ("GRPO", [1, 1, 0], [1, 0, 0]))
        }
    }
    result = segment_credit.summarise(starts, runs)
    assert result["n"] == 4
    assert result["start"]["success_process"]["mean"] == pytest.approx(0.25)
    assert result["arms"]["0.25"]["SLCA"]["success_process"]["mean"] == pytest.approx((0.75 + 0.5) / 2)
    assert result["arms"]["0.25"]["SLCA"]["calls"]["mean"] == pytest.approx(0.75)
    difference = result["slca_minus"]["0.25"]["GRPO"]["success_process"]
    assert difference == {"mean": pytest.approx(0.25), "low": pytest.approx(0.25), "high": pytest.approx(0.25)}
    lines = segment_credit.markdown(result).splitlines()
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 2  # two tables, none ragged
    assert any(line.startswith("| GRPO | +0.250 [+0.250, +0.250]") for line in lines)


@pytest.mark.parametrize("study", [segment_credit, fgpo_vs_grpo], ids=lambda study: study.__name__.rpartition(".")[2])
@pytest.mark.parametrize("seeds", ["1", "6"])
def test_a_study_without_an_interval_is_refused_before_it_begins(study, seeds, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["study", "--out", str(tmp_path / "runs"), "--seeds", seeds])
    with pytest.raises(SystemExit):
        study.main()
    assert "--seeds" in capsys.readouterr().err and not (tmp_path / "runs").exists()
