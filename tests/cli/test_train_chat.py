"""`toolcredit train` on conversations: supervised first, then reinforcement from its weights; every preset is valid."""

import importlib.resources
import json

import pytest

pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.base import agent_class  # noqa: E402
from toolcredit.benchmarks.experiment import load_preset  # noqa: E402
from toolcredit.cli.main import app  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

ENV = ["--env", "SGLSToolCallingReplay-v0", "--policy", "tiny", "--set", "max_new_tokens=8"]
PRESETS = sorted(
    file.name.removesuffix(".json")
    for file in importlib.resources.files("toolcredit.agents.presets").iterdir()
    if file.name.endswith(".json")
)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_builds_its_learner(preset):
    agent, _, size = preset.rpartition("-")
    assert agent_class(agent)(load_preset(agent, size)["config"]).name == agent


def test_reinforcement_goes_on_from_a_supervised_run(tmp_path):
    def train(*arguments):
        done = CliRunner().invoke(app, ["train", *arguments, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout[done.stdout.index("{") :])

    sft, rl = str(tmp_path / "sft"), str(tmp_path / "rl")
    train("sft", *ENV, "--max-steps", "1", "--set", "batch_size=2", "--out", sft)
    small = ["--set", "tasks_per_update=1", "--set", "group_size=2"]
    result = train("slca-grpo", *ENV, *small, "--max-steps", "1", "--init", sft, "--out", rl)
    assert {"slca-grpo", "do_nothing", "random_calls", "gold"} <= result["strategies"].keys()
    assert result["split"] == "test" and result["strategies"]["gold"]["success_process"]["rate"] == 1.0
    again = train("slca-grpo", "--resume", "--out", rl)
    assert again["strategies"] == result["strategies"]
