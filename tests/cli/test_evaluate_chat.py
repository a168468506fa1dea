"""`toolcredit eval` and `play` on conversations: references by their short names, failures, runs, suites."""

import json

import gymnasium as gym
import pytest
from toolcredit.agents.base import Agent
from toolcredit.agents.chat_baselines import DoNothingAgent, GoldAgent
from toolcredit.benchmarks.held_out_chat import ChatRecord, measure, play, print_result
from toolcredit.cli.main import app
from toolcredit.errors import EndpointError
from typer.testing import CliRunner

EASY = ["--env", "SGLSToolCallingReplay-v0", "--env-set", "tier=easy", "--split", "dev", "--limit", "4"]
BFCL = ["--env", "toolcredit/BFCL-v0", "--env-set", "categories=simple_python,irrelevance", "--env-set", "limit=24"]


def toolcredit(*arguments, **more):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], **more)
    assert done.exit_code == 0, done.output
    return done.stdout


class Fragile(Agent):
    """Its model is down from the second episode on."""

    name = "fragile"

    def __init__(self, good: int = 1):
        self.left = good

    def act(self, observation, info):
        self.left -= 1
        if self.left < 0:
            raise EndpointError("the model is down")
        return ""


def test_references_by_their_short_names():
    found = {name: json.loads(toolcredit("eval", name, *EASY, "--json")) for name in ("gold", "nothing", "random")}
    for name, result in found.items():
        assert list(result["strategies"])[0] == name and len(result["strategies"]) == 3
        assert (result["n"], result["split"], result["env"], result["failures"]) == (4, "dev", EASY[1], [])
        assert result["versions"]["gymnasium"] and "training" not in result
    gold = found["gold"]["strategies"]["gold"]
    assert gold["ceiling"] and gold["success_process"]["rate"] == 1.0 and gold["success_process"]["ci"][0] > 0.3
    assert found["nothing"]["strategies"]["nothing"]["total"]["mean"] == -0.5
    assert found["gold"]["strategies"]["do_nothing"] == found["nothing"]["strategies"]["nothing"]


def test_import_paths_and_the_table():
    text = toolcredit("eval", "toolcredit.agents.chat_baselines:SerialGoldAgent", *EASY)
    assert "4 tasks of the split dev" in text and "success" in text and "[0.51,1.00]" in text


def test_what_cannot_be_measured_is_told():
    for arguments, text in (
        (["gold", "--env", "GenomeToolSubset-v0"], "GenomeToolSubsetEnv is no chat environment"),
        (["all", *EASY], "SGLSReplayEnv is no text bandit"),
        (["fixed", "--env", "GenomeToolSubset-v0", "--limit", "3"], "--limit is for conversations"),
        (["runs/nowhere", *EASY], "there is no folder runs/nowhere"),
        (["gold", *EASY[:4], "--split", "dvv"], "did you mean 'dev'"),
    ):
        done = CliRunner().invoke(app, ["eval", *arguments])
        assert done.exit_code != 0
        assert text in str(done.exception) + done.output, (arguments, done.exception)


def test_a_task_whose_model_fails_counts_as_not_solved(chat_envs, capsys):
    env = gym.make(EASY[1], tier="easy", split="dev")
    seen = []
    own = play(env, Fragile(), limit=3, on_task=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [record.error for record in own] == [None, *["EndpointError: the model is down"] * 2]
    result = measure("fragile", own, "dev", env, limit=3)
    assert json.loads(json.dumps(result)) == result
    mine = result["strategies"]["fragile"]
    assert (mine["n"], mine["failed"], mine["success_process"]["rate"]) == (3, 2, 0.0)
    assert [failure["id"] for failure in result["failures"]] == [record.id for record in own[1:]]
    print_result(result)
    assert "EndpointError: the model is down" in capsys.readouterr().out


def test_an_agent_all_of_whose_tasks_failed_has_a_zero_not_a_gap():
    env = gym.make(EASY[1], tier="easy", split="dev")
    own = [ChatRecord(task, error="down") for task in env.unwrapped.task_ids[:2]]
    mine = measure("dead", own, "dev", env, limit=2)["strategies"]["dead"]
    assert mine["success_process"]["rate"] == 0.0 and mine["total"]["mean"] == 0.0 and mine["failed"] == 2


def test_a_limit_takes_tasks_evenly():
    env = gym.make(EASY[1], split="dev")
    ids = env.unwrapped.task_ids
    assert [record.id for record in play(env, DoNothingAgent(), limit=2)] == [ids[0], ids[len(ids) // 2]]
    assert len(play(env, GoldAgent(), limit=10**6)) == len(ids)


@pytest.mark.bfcl
def test_a_suite_is_trained_on_and_measured(bfcl_path, tmp_path):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    small = ["--policy", "tiny-chat", "--max-steps", "1", "--set", "tasks_per_update=2", "--set", "group_size=2"]
    short = ["--set", "max_new_tokens=8", "--out", tmp_path / "run", "--json"]
    said = toolcredit("train", "slca-grpo", *BFCL, *small, *short)
    result = json.loads(said[said.index("{") :])
    assert {"slca-grpo", "do_nothing", "random_calls", "gold"} == set(result["strategies"])
    assert result["strategies"]["gold"]["success"]["rate"] == 1.0 and result["split"] == "test"
    elsewhere = toolcredit("eval", tmp_path / "run", "--env", "SGLSToolCallingReplay-v0", "--limit", 2, "--json")
    assert json.loads(elsewhere)["n"] == 2  # the categories that it was trained on are no argument there
    again = json.loads(toolcredit("eval", tmp_path / "run", "--json"))
    assert again["strategies"]["slca-grpo"]["success"] == result["strategies"]["slca-grpo"]["success"]
    assert again["strategies"]["gold"]["kinds"]["category"]["irrelevance"]["success"] == 1.0


@pytest.mark.bfcl
def test_a_person_plays_a_suite(bfcl_path, tmp_path):
    lines = 'calculate_triangle_area {"base": 10, "height": 5}\n\n'
    arguments = ["play", "toolcredit/BFCL-v0", "--task", "simple_python_0", "--save", tmp_path / "played.jsonl"]
    assert "total: 1\n" in toolcredit(*arguments, input=lines)
    record = json.loads((tmp_path / "played.jsonl").read_text())
    assert record["task"] == "simple_python_0" and record["rewards"]["own"] == 1.0
