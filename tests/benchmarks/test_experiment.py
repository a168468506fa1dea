"""Training runs from plans: presets, processes, kills, results."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.base import agent_class  # noqa: E402
from toolcredit.benchmarks.experiment import (  # noqa: E402
    TrainingPlan,
    default_preset,
    held_out_env,
    load_preset,
    run_jobs,
    train,
    train_side_by_side,
)
from toolcredit.benchmarks.held_out import measure_and_report, read_records  # noqa: E402
from toolcredit.envs.genome.questions import load_questions, write_questions  # noqa: E402
from toolcredit.envs.make import make_split  # noqa: E402
from toolcredit.errors import InfrastructureError, RunError, UnknownNameError, UsageError  # noqa: E402

SHIPPED = [(agent, preset) for agent in ("fgpo", "grpo") for preset in ("tiny", "laptop", "paper")]
SHORT = {"policy": {"model": "tiny"}, "max_updates": 3, "format_updates": 2, "batch_size": 4, "save_every": 1}


@pytest.fixture(scope="session")
def few_questions(tmp_path_factory):
    """Sixteen training and eight dev and test questions of the embedded set, as a file."""
    chosen, left = [], {"train": 16, "dev": 8, "test": 8}
    for question in load_questions():
        if left[question.split]:
            left[question.split] -= 1
            chosen.append(question)
    path = tmp_path_factory.mktemp("questions") / "few.jsonl"
    write_questions(path, chosen)
    return str(path)


@pytest.fixture
def plan(few_questions, tmp_path):
    def make(agent="fgpo", name="run", **config):
        kwargs = {"questions": few_questions, "prompt_bases": 10}
        return TrainingPlan(agent, SHORT | config, "GenomeToolSubset-v0", kwargs, str(tmp_path / name))

    return make


@pytest.mark.parametrize(("agent", "preset"), SHIPPED)
def test_every_shipped_preset_is_a_valid_configuration(agent, preset):
    shipped = load_preset(agent, preset)
    config = agent_class(agent)(shipped["config"]).config
    assert config.model_dump(mode="json").keys() >= shipped["config"].keys()
    make_split("GenomeToolSubset-v0", "dev", **shipped["env"]).close()


def test_presets_by_model_and_unknown_ones():
    assert [default_preset(m) for m in ("tiny", "smollm2", "Qwen/Qwen3-8B")] == ["tiny", "laptop", "paper"]
    with pytest.raises(UnknownNameError, match="did you mean 'fgpo-laptop'"):
        load_preset("fgpo", "laptob")


def test_a_run_leaves_everything_that_its_report_needs(plan, tmp_path):
    own = plan()
    train(own)
    result = measure_and_report([own], tmp_path / "run")
    assert set(result["strategies"]) == {"fgpo", "none", "all", "random", "best_fixed", "oracle"}
    assert result["n"] == 8 and result["split"] == "test"
    assert result["training"]["fgpo"]["spent"]["reasoner_calls"] == 16 * 16
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<svg" in page
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
    assert TrainingPlan.from_run(own.out).env_kwargs == own.env_kwargs


def test_runs_side_by_side_report_and_equal_runs_alone(plan):
    seen = []
    plans = [plan("fgpo", "a"), plan("grpo", "b", sampler="tree")]
    train_side_by_side(plans, on_record=lambda index, record: seen.append((index, record["update"])))
    assert sorted(seen) == [(i, u) for i in range(2) for u in range(1, 6)]
    alone = plan("fgpo", "c")
    train(alone)
    assert read_records(plans[0]) == read_records(alone)


def test_what_a_run_refuses_reaches_the_caller(plan):
    with pytest.raises(UsageError, match="no such question file"):
        train_side_by_side([TrainingPlan("fgpo", SHORT, "GenomeToolSubset-v0", {"questions": "no.jsonl"}, plan().out)])


def die(report):
    report({"update": 1})
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_is_an_error_and_not_a_hang():
    with pytest.raises(InfrastructureError, match="--resume"):
        run_jobs([die], lambda index, record: None, workers=1)


def test_a_run_killed_at_any_moment_resumes_to_the_same_result(plan, tmp_path):
    whole = plan(name="whole", max_updates=12)
    train(whole)
    script = (
        "import json, sys\n"
        "from toolcredit.benchmarks.experiment import TrainingPlan, train\n"
        "train(TrainingPlan(**json.loads(sys.argv[1])), resume=True)\n"
    )
    killed = plan(name="killed", max_updates=12)
    argument = json.dumps({**vars(killed)})
    metrics = tmp_path / "killed" / "metrics.jsonl"
    for lines in (1, 5):
        process = subprocess.Popen([sys.executable, "-c", script, argument], env=os.environ)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (metrics.exists() and metrics.read_text().count("\n") >= lines):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
    train(killed, resume=True)
    assert read_records(killed) == read_records(whole)
    assert _state(killed) == _state(whole)


def _state(own):
    from safetensors.torch import load_file

    return {k: v.tolist() for k, v in load_file(f"{own.out}/adapter/adapter_model.safetensors").items()}


def test_without_a_test_split_dev_is_measured_and_said(few_questions, plan, tmp_path):
    questions = [q for q in load_questions(few_questions) if q.split != "test"]
    path = tmp_path / "no-test.jsonl"
    write_questions(path, questions)
    own = TrainingPlan("fgpo", SHORT, "GenomeToolSubset-v0", {"questions": str(path)}, str(tmp_path / "run"))
    assert held_out_env(own)[0] == "dev"
    assert own.evaluation_env("test") is None


def test_unfinished_and_foreign_folders_are_refused(plan, tmp_path):
    with pytest.raises(RunError, match="has not answered the held-out questions"):
        read_records(plan())
    (tmp_path / "other").mkdir()
    for stored in ("{}", '{"agent": "fgpo", "config": {}, "env": []}'):
        (tmp_path / "other" / "config.json").write_text(stored)
        with pytest.raises(RunError, match="training run"):
            TrainingPlan.from_run(tmp_path / "other")
    with pytest.raises(UsageError, match="does not learn"):
        TrainingPlan("none", {}, "GenomeToolSubset-v0", {}, str(tmp_path)).learner()


def test_a_learner_given_by_its_import_path_is_found_again(few_questions, tmp_path):
    kwargs = {"questions": few_questions, "prompt_bases": 10}
    path = "toolcredit.agents.fgpo:FGPO"
    train(TrainingPlan(path, SHORT, "GenomeToolSubset-v0", kwargs, str(tmp_path / "run")))
    assert TrainingPlan.from_run(tmp_path / "run").agent == path
