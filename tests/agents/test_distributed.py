"""Two processes train as one does: the same episodes, gradients and weights, up to the order of sums."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toolcredit.agents.distributed import Processes, processes
from toolcredit.cli.launch import asked_processes
from toolcredit.cli.main import app
from toolcredit.errors import UsageError
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="needs the extra 'train'")
pytest.importorskip("accelerate", reason="needs the extra 'train'")

from safetensors.torch import load_file  # noqa: E402
from toolcredit.agents.fgpo import FGPO  # noqa: E402

FAKES = Path(__file__).parents[1] / "fakes"
RUNS = ["slca-full", "slca-lora", "sft-full", "sft-lora", "dapo", "slca-exact", "vineppo", "resumed"]
SETTINGS = {"max_new_tokens": 6, "tasks_per_update": 2, "group_size": 3, "temperature": 2, "kl": 0}
COMMAND = ["train", "slca-grpo", "--env", "SGLSToolCallingReplay-v0", "--policy", "tiny-chat", "--max-steps", "2"]
COMMAND += [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
COMMAND += ["--env-set", "scorer=launched_runs:Letters", "--json", "--out"]


@pytest.fixture(scope="module")
def script():
    """The module `tests/fakes/launched_runs.py`, under the name that its processes know it by."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FAKES))
        yield importlib.import_module("launched_runs")


def launch(*command, **variables):
    paths = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
    settings = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths} | variables
    command = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(command, env=settings, capture_output=True, text=True, timeout=1800)


@pytest.fixture(scope="module")
def runs(script, tmp_path_factory):
    """The folders of the runs of one process and of two, and how the two ended."""
    folder = tmp_path_factory.mktemp("runs")
    script.main(folder / "one")
    launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    ended = launch(*launcher, FAKES / "launched_runs.py", folder / "two", ACCELERATE_USE_CPU="true")
    return folder / "one", folder / "two", ended


def records(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(folder):
    return load_file(next(folder.glob("*/*model.safetensors")))


def assert_equal_runs(one, two):
    """The same numbers, and weights whose difference, measured by its norm, is rounding."""
    a, b = weights(one), weights(two)
    assert a.keys() == b.keys()
    for name in a:  # single entries without any gradient to speak of differ more: Adam makes full steps of rounding
        assert float((a[name] - b[name]).norm()) <= 1e-4 * float(a[name].norm()), name
    for x, y in zip(records(one), records(two), strict=True):
        assert x.keys() == y.keys()
        for name, value in x.items():
            if name == "spent":  # passes through the model count their padding, which differs
                counted = {"episodes", "sampled_tokens", "evaluation_tokens", "branch_episodes", "branch_tokens"}
                assert {k: v for k, v in value.items() if k in counted} == {
                    k: v for k, v in y[name].items() if k in counted
                }
            elif "seconds" not in name:
                assert y[name] == (pytest.approx(value, rel=1e-4, abs=1e-6) if isinstance(value, float) else value)


@pytest.mark.parametrize("run", RUNS)
def test_two_processes_train_as_one_does(runs, run):
    one, two, _ = runs
    assert all(record["gradient_norm"] > 0.1 for record in records(one / run))
    assert_equal_runs(one / run, two / run)


def test_trajectories_are_written_once_and_in_order(runs):
    one, two, _ = runs
    lines = [(folder / "slca-lora" / "trajectories.jsonl").read_text().splitlines() for folder in (one, two)]
    ids = [[json.loads(line)["ids"] for line in own] for own in lines]
    assert ids[0] == ids[1] and len(ids[0]) == 27


def test_a_stopped_run_of_two_resumes_to_the_numbers_of_an_unbroken_one(runs):
    _, two, _ = runs
    a, b = weights(two / "slca-full"), weights(two / "resumed")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_an_error_in_one_process_is_raised_in_all_and_a_death_ends_all(runs):
    _, two, ended = runs
    for index in (0, 1):
        assert (two / f"error-{index}").read_text() == "UsageError: process 1: it is Tuesday"
    assert ended.returncode != 0 and "Signal 9" in ended.stderr


def test_accelerate_launch_on_the_cpu_trains_with_the_processes_it_was_asked_for(script, tmp_path):
    alone = CliRunner().invoke(app, [*COMMAND, str(tmp_path / "one")])
    assert alone.exit_code == 0, alone.output
    options = ["--cpu", "--num_processes", "2", "-m", "toolcredit"]
    ended = launch("accelerate.commands.launch", *options, *COMMAND, tmp_path / "two")
    assert ended.returncode == 0, ended.stderr
    assert "train slca-grpo, 2 processes" in ended.stderr
    assert ended.stderr.count("were cut by a length limit") == 4  # two updates, dev, test: each is said once
    assert_equal_runs(tmp_path / "one", tmp_path / "two")
    said = [json.loads(text[text.index("{") :])["strategies"] for text in (alone.stdout, ended.stdout)]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("accelerate launch --cpu --num_processes 2 -m toolcredit train sft --num_processes 5", 2),
        ("python -m accelerate.commands.launch --num-processes=3 --cpu -m toolcredit", 3),
        ("accelerate launch --cpu -m toolcredit train sft --set num_processes=4", 1),
        ("", 1),
    ],
)
def test_the_number_of_processes_is_read_from_the_launchers_command(command, number):
    assert asked_processes(command.split()) == number


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_the_whole_in_order(size):
    items = list(range(5))
    shares = [Processes(index, size).share(items) for index in range(size)]
    assert [item for share in shares for item in share] == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_what_cannot_be_divided_is_refused(subset_bandit, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="fgpo trains in one process"):
        FGPO({"policy": {"model": "tiny"}}, out=tmp_path).learn(subset_bandit([[1, 0]], ["a"]))
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    processes.cache_clear()
    try:
        with pytest.raises(UsageError, match="ACCELERATE_USE_FSDP.*--multi_gpu"):
            processes()
    finally:
        processes.cache_clear()
