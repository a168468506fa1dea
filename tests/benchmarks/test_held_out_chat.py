"""Held-out episodes of conversations: every task counts, three kinds of success, references beside the agent."""

import json

import gymnasium as gym
import pytest
from toolcredit.agents.chat_baselines import GoldAgent
from toolcredit.benchmarks.held_out_chat import (
    SUCCESSES,
    ChatRecord,
    is_chat,
    measure,
    play,
    print_result,
    read_records,
    record_lines,
    summarise,
)
from toolcredit.errors import RunError, UsageError

SCORED = {"total": 2.0, "process": 1.0, "summary": 1.0}


@pytest.fixture(scope="module")
def env():
    return gym.make("SGLSToolCallingReplay-v0", split="dev", tier="easy")


def test_gold_solves_every_task_of_the_split_in_its_order(env):
    records = play(env, GoldAgent())
    assert [record.id for record in records] == env.unwrapped.task_ids
    summary = summarise(records)
    assert summary["success_process"]["rate"] == summary["success_combined"]["rate"] == 1.0
    assert summary["success_process"]["ci"][0] < 1.0
    assert summary["process"] == {"mean": 1.0, "ci": None}  # all alike: a bootstrap would claim certainty
    assert summary["turns"] == 2 and summary["calls"] == 1 and "tokens" not in summary
    assert records[0].messages[-1]["content"] == env.unwrapped.gold(records[0].id)["reply"]
    kinds = summary["kinds"]
    assert kinds["tier"] == {"easy": {"n": len(records), **dict.fromkeys(SUCCESSES[1:], 1.0), **SCORED}}
    assert list(kinds) == ["category", "tier", "domain"]
    assert sum(kind["n"] for kind in kinds["domain"].values()) == len(records)


def test_failed_and_unscored_tasks_stay_in_the_denominator():
    solved = ChatRecord("a", {"success_process": 1.0, "total": 2.0}, 2, 1, "terminated")
    unscored = ChatRecord("b", {"success_process": None, "total": None}, 2, 1, "turns", tokens=8, kinds={"tier": "x"})
    summary = summarise([solved, unscored, ChatRecord("c", error="down", kinds={"tier": "x"}), solved])
    assert summary["kinds"] == {"tier": {"x": {"n": 2, "success_process": 0.0, "total": 0.0}}}
    assert summary["tokens"] == 8
    assert summary["success_process"]["rate"] == 0.5 and summary["total"]["mean"] == 1.0
    assert summary["failed"] == 1 and summary["cut"] == 1 and summary["n"] == 4


def test_the_result_has_references_and_is_plain_json(env, tmp_path, capsys):
    file = tmp_path / "held_out.jsonl"
    with pytest.raises(RunError, match="resume"):
        read_records(file)
    said = ({"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "é\n"})
    own = [
        ChatRecord(task, {"total": 0.0, "success_process": 0.0}, 1, 0, "terminated", None, 3, {"tier": "easy"}, said)
        for task in ("a", "b")
    ]
    file.write_text(record_lines(own))
    assert read_records(file) == own
    result = measure("mine", own, "dev", env, {"updates": 3, "seconds": 1.0, "spent": {"episodes": 4}})
    json.dumps(result, allow_nan=False)
    assert result["strategies"]["gold"]["ceiling"] and not result["strategies"]["mine"]["ceiling"]
    print_result(result)
    shown = capsys.readouterr().out
    assert "gold" in shown and "ceiling" in shown and "2 tasks of the split dev" in shown


def test_only_conversations_that_name_their_tasks_can_be_measured(env, chat_envs):
    assert is_chat(env) and not is_chat(gym.make("GenomeToolSubset-v0"))
    with pytest.raises(UsageError, match="names no tasks"):
        play(chat_envs.Conversation(chat_envs.turns_of_tools(0), tasks=None), GoldAgent())
