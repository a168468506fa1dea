"""`toolcredit train` on conversations: supervised first, then reinforcement from its weights; every preset is valid."""

import importlib.resources
import json

import pytest

pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.base import agent_class  # noqa: E402
from toolcredit.benchmarks.experiment import load_preset  # noqa: E402
from toolcredit.cli.main import app  # noqa: E402
from toolcredit.cli.train import plan_training  # noqa: E402
from toolcredit.errors import UsageError  # noqa: E402
from toolcredit.runs import write_json  # noqa: E402
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


def test_policy_and_environment_are_those_of_the_run_to_start_from(tmp_path, capsys):
    write_json(
        tmp_path / "sft/config.json",
        {
            "agent": "sft",
            "config": {"policy": {"model": "tiny-chat", "weights": "full", "template": "compact", "dtype": "bfloat16"}},
            "env": {"id": "SGLSToolCallingReplay-v0", "kwargs": {"split": "train", "tier": "hard"}},
        },
    )
    init = {"init": str(tmp_path / "sft")}
    plan = plan_training("slca-grpo", None, {"max_turns": 3}, init)
    assert {"model": "tiny-chat", "weights": "full", "template": "compact"}.items() <= plan.config["policy"].items()
    assert plan.config["policy"].get("dtype") != "bfloat16"  # how it was computed is this run's own affair
    assert plan.config["learning_rate"] == load_preset("slca-grpo", "tiny")["config"]["learning_rate"]
    assert plan.env_id == "SGLSToolCallingReplay-v0"
    assert {"tier": "hard", "max_turns": 3}.items() <= plan.env_kwargs.items() and "split" not in plan.env_kwargs
    assert "tiny-chat" in capsys.readouterr().err

    named = plan_training("slca-grpo", "toolcredit/BFCL-v0", {}, init | {"policy.model": "smollm2"})
    assert (named.env_id, named.config["policy"]["model"], named.env_kwargs) == ("toolcredit/BFCL-v0", "smollm2", {})
    assert named.config["policy"].get("weights") != "full" and capsys.readouterr().err == ""
    assert plan_training("sft", None, {}, {}).env_id == "SGLSToolCallingReplay-v0"
    assert plan_training("fgpo", None, {}, {}).env_id == "GenomeToolSubset-v0"


def test_a_refused_run_leaves_its_folder_free(tmp_path):
    write_json(tmp_path / "other/config.json", {})
    folder = tmp_path / "run"
    arguments = ["train", "sft", *ENV, "--init", str(tmp_path / "other"), "--out", str(folder)]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, UsageError) and not folder.exists(), refused.output
    write_json(folder / "config.json", {"agent": "sft"})  # of somebody else
    assert "holds a run already" in str(CliRunner().invoke(app, arguments).exception)
    assert (folder / "config.json").exists()


@pytest.mark.parametrize("learner", ["sft", "slca-grpo", "fgpo"])
def test_a_seed_is_one_of_everything_random_the_first_weights_too(learner):
    def seeds(*arguments):
        done = CliRunner().invoke(app, ["train", learner, *arguments, "--fields", "--json"])
        assert done.exit_code == 0, done.output
        fields = {row["field"]: row["value"] for row in json.loads(done.stdout)}
        return fields["seed"], fields["policy.seed"]

    assert seeds() == (0, 0)
    assert seeds("--seed", "3") == (3, 3)
    assert seeds("--seed", "3", "--set", "policy.seed=5") == (3, 5)


def test_fields_are_listed_with_values_and_meanings(tmp_path):
    def listed(*arguments):
        done = CliRunner().invoke(app, ["train", *arguments, "--fields", "--out", str(tmp_path / "none")])
        assert done.exit_code == 0 and not (tmp_path / "none").exists(), done.output
        return done.stdout

    rows = {row["field"]: row for row in json.loads(listed("slca-grpo", *ENV, "--set", "kl=0.5", "--json"))}
    assert rows["kl"]["value"] == 0.5 and rows["policy.model"]["value"] == "tiny"
    assert rows["max_new_tokens"] == {"field": "max_new_tokens", "value": 8, "meaning": "Longest assistant turn."}
    assert all(row["meaning"] for row in rows.values())
    assert "Step size" in listed("sft", *ENV)
