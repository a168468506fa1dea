"""BFCL as an environment: the same verdicts as in a run, isolation, rollouts of a model, learning from gold."""

import json
import random

import gymnasium as gym
import pytest
from toolcredit import assets
from toolcredit.agents.backends.local import LocalBackend
from toolcredit.agents.chat_baselines import DoNothingAgent, GoldAgent, RandomCallsAgent
from toolcredit.agents.check import check_agent
from toolcredit.agents.rollout import RolloutEngine
from toolcredit.agents.sft import SFTLearner
from toolcredit.agents.trajectory import Segment
from toolcredit.benchmarks.bfcl.convert import MORE_FUNCTIONS
from toolcredit.benchmarks.bfcl.suite import BFCL
from toolcredit.benchmarks.chat_agents import EnvChat
from toolcredit.benchmarks.held_out_chat import play
from toolcredit.benchmarks.suite import Selection, TaskContext
from toolcredit.errors import AssetError
from toolcredit.llm.local import load_local_model

ENV = "toolcredit/BFCL-v0"
TOUCH = '<tool_call>\n{"name": "touch", "arguments": {"file_name": "a.txt"}}\n</tool_call>'
LS = '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'


@pytest.fixture
def make(package):
    return lambda **arguments: gym.make(ENV, source=str(package), **arguments)


def totals(records):
    return {record.id: record.rewards["total"] for record in records}


@pytest.mark.parametrize("mode", ["fc", "prompting"])
def test_references_earn_what_they_get_in_a_run(make, package, mode):
    env, suite = make(mode=mode, scorer="both"), BFCL(source=str(package), mode=mode)
    tasks = suite.tasks(Selection())
    assert [task.id for task in tasks] == env.unwrapped.task_ids
    for agent in (GoldAgent(), DoNothingAgent(), RandomCallsAgent()):
        for record, task in zip(play(env, agent), tasks, strict=True):
            is_gold = isinstance(agent, GoldAgent)
            other = suite.reference("gold", task, TaskContext()) if is_gold else EnvChat(type(agent)(), 0)
            score = suite.score(task, suite.run(task, other, TaskContext()))
            assert record.rewards["total"] == float(score.success), (agent.name, task.id)
            assert record.rewards["official"] == score.metrics["official"]


def test_withheld_functions_come_in_the_users_message(make):
    env = make()
    observation, info = env.reset(seed=0, options={"task_id": "multi_turn_miss_func_0"})
    assert [tool["function"]["name"] for tool in info["tools"]] == ["ls", "remove_all"]
    observation, _, over, _, later = env.step("I cannot.")
    *functions, asked = observation[-1]["content"].split("\n")
    assert asked == MORE_FUNCTIONS and [json.loads(text)["name"] for text in functions] == ["touch"]
    assert later["tools"] == info["tools"] and not over
    for turn in (TOUCH, "Done.", LS):
        env.step(turn)
    _, reward, terminated, _, info = env.step("Done.")
    assert reward == 1.0 and terminated and info["rewards"]["own"] == 1.0


def test_a_turn_without_end_is_a_limit(make):
    env = make()
    env.reset(seed=0, options={"task_id": "multi_turn_miss_func_0"})
    for _ in range(20):
        assert not env.step(LS)[3]
    _, reward, terminated, truncated, info = env.step(LS)
    assert (reward, terminated, truncated, info["reason"]) == (0.0, False, True, "steps")
    assert info["rewards"]["total"] == 0.0 and info["detail"]["own"]["error"] == "forced_stop"


def test_rollouts_of_one_entry_do_not_see_each_others_files(make):
    one, other = make(), make()
    for env in (one, other):
        env.reset(seed=0, options={"task_id": "multi_turn_miss_func_0"})
    one.step(TOUCH)
    seen = {env: json.loads(env.step(LS)[0][-1]["content"])["files"] for env in (one, other)}
    assert seen == {one: ["old.txt", "a.txt"], other: ["old.txt"]}


def test_broken_calls_are_wrong_answers(make):
    env = make()
    env.reset(seed=0, options={"task_id": "irrelevance_0"})
    _, reward, terminated, _, info = env.step("<tool_call>{bad</tool_call>")
    assert (reward, terminated) == (0.0, True) and info["turn"]["calls"][0]["name"] == "invalid_call"
    official = make(scorer="both")
    official.reset(seed=0, options={"task_id": "irrelevance_0"})
    rewards = official.step("<tool_call>{bad</tool_call>")[-1]["rewards"]
    assert (rewards["total"], rewards["official"], rewards["own"], rewards["malformed"]) == (1.0, 1.0, 0.0, 1.0)
    env.reset(seed=0, options={"task_id": "simple_python_0"})
    assert env.step('<tool_call>{"name": "weather_get", "arguments": [1]}</tool_call>')[1] == 0.0


def test_other_syntaxes(make):
    env = make(parser="pythonic")
    env.reset(seed=0, options={"task_id": "simple_python_1"})
    assert env.step("[weather_get(city='Rome', days=3)]")[1] == 1.0


@pytest.mark.parametrize("agent", [DoNothingAgent, RandomCallsAgent, GoldAgent])
def test_the_baselines_keep_all_rules(make, agent):
    check_agent(agent(), make())


def test_a_model_rolls_out_and_calls_count_as_tool_tokens(make, scripted_backend):
    tokenizer = load_local_model("tiny-chat").tokenizer
    answers = {0: ["I cannot.", TOUCH, "Done.", LS, "Done."], 1: ["Nothing.", "Nothing.", "Nothing."]}
    backend = scripted_backend.ScriptedBackend(tokenizer, lambda episode, turn: answers[episode][turn])
    engine = RolloutEngine(backend, make(), template="compact")
    right, wrong = engine.collect(["multi_turn_miss_func_0"], group_size=2)[0]
    engine.close()
    assert (right.rewards["total"], wrong.rewards["total"]) == (1.0, 0.0)
    assert [turn.calls for turn in right.turns] == [False, True, False, True, False]
    assert {Segment.TOOL, Segment.SUMMARY} <= set(right.segment.tolist())
    assert Segment.TOOL not in wrong.segment or len(wrong.turns) > 1
    assert (right.rewards["summary"], wrong.rewards["summary"], wrong.rewards["omitted"]) == (None, 0.0, 1.0)


def test_an_episode_that_fills_the_context_is_scored(make, scripted_backend):
    """What is left of the conversation is answered with nothing, as an agent without room would."""
    tokenizer = load_local_model("tiny-chat").tokenizer
    backend = scripted_backend.ScriptedBackend(tokenizer, lambda episode, turn: LS)
    engine = RolloutEngine(backend, make(), template="compact", max_turns=2)
    (played,) = engine.collect(["multi_turn_miss_func_0"])[0]
    engine.close()
    assert played.finish_reason == "max_turns" and len(played.turns) == 2
    assert played.rewards["total"] == 0.0 and played.messages[-1] == {"role": "assistant", "content": ""}


def test_the_tiny_model_collects_reproducibly(make):
    rollouts = []
    for _ in range(2):
        engine = RolloutEngine(LocalBackend(load_local_model("tiny-chat"), slots=4), make(), template="compact")
        rollouts.append(engine.collect(engine.task_ids[:4], group_size=2, seed=3, max_new_tokens=8))
        engine.close()
    first, second = ([t.to_json() for group in found for t in group] for found in rollouts)
    assert first == second and len(first) == 8 and not rollouts[0].failures


def test_gold_can_be_learned_from(make):
    config = {"policy": {"model": "tiny-chat", "weights": "full", "template": "compact"}, "max_updates": 2}
    learner = SFTLearner({**config, "batch_size": 4, "eval_every": 2})
    report = learner.learn(make())
    assert report.updates == 2 and len(learner.demonstrations) == 11
    tool = sum(int((t.segment == Segment.TOOL).sum()) for t in learner.demonstrations)
    assert tool > sum(int((t.segment == Segment.SUMMARY).sum()) for t in learner.demonstrations) > 0


def test_without_the_asset_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    assert not assets.is_installed("bfcl")
    env = gym.make(ENV, categories="parallel", version="v4", mode="prompting", limit=3)
    with pytest.raises(AssetError, match="toolcredit data install bfcl"):
        env.reset(seed=0)


# ---------------------------------------------------------------------------------------------------- the release


@pytest.mark.bfcl
def test_gold_on_released_entries_of_every_category(v4):
    env = gym.make(ENV, source=str(v4.folder), limit=170)
    missed = {record.id for record in play(env, GoldAgent()) if record.rewards["total"] != 1.0}
    assert len(env.unwrapped.task_ids) == 170 and missed <= {"simple_java_5", "simple_java_8"}


@pytest.mark.bfcl
def test_splits_keep_the_four_versions_of_a_scenario_together(v4):
    parts = {s: set(gym.make(ENV, source=str(v4.folder), split=s).unwrapped.task_ids) for s in ("train", "dev", "test")}
    shares = {split: len(ids) / 4441 for split, ids in parts.items()}
    assert sum(shares.values()) == pytest.approx(1) and 0.6 < shares["train"] < 0.8 and shares["dev"] > 0.05
    for number in random.Random(0).sample(range(200), 40):
        versions = [f"multi_turn_{kind}_{number}" for kind in ("base", "miss_func", "miss_param", "long_context")]
        assert sum(set(versions) <= ids for ids in parts.values()) == 1
