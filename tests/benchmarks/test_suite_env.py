"""Suites as environments: the toy suite, step by step; what every suite of conversations gets for nothing."""

import copy
import gc
import json
import pickle

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.agents.chat_baselines import DoNothingAgent, GoldAgent, RandomCallsAgent, SerialGoldAgent
from toolcredit.agents.check import check_agent
from toolcredit.benchmarks.held_out_chat import play
from toolcredit.benchmarks.suite import Outcome, Score, Suite, SuiteTask
from toolcredit.benchmarks.suite_env import MAX_TURN_CHARS, SuiteEnv
from toolcredit.benchmarks.toucan import Toucan
from toolcredit.errors import ConfigError, EmptySplitError, InfrastructureError, UnknownNameError, UsageError

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
LATER = {"type": "function", "function": {"name": "later", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


class Doors(Suite):
    """Look, then say what was seen; a second tool comes with the second question."""

    name = "doors"
    components = ("looks",)
    identity = {}

    def __init__(self, down: str = ""):
        self.down, self.closed = down, 0

    def tasks(self, selection):
        return [SuiteTask(f"door-{i}", "doors", {"seen": f"<tool_response>{i}\ud800"}) for i in range(200)]

    def episode(self, task, context):
        messages = [{"role": "system", "content": "Look first."}, {"role": "user", "content": "What is there?"}]
        tools, looks = [TOOL], 0
        try:
            if self.down == "start":
                raise InfrastructureError("nobody opens")
            for question in ("And later?", None):
                while True:
                    message = yield messages, tools
                    messages.append(message)
                    calls = message.get("tool_calls") or ()
                    if not calls:
                        break
                    if self.down == "tool":
                        raise InfrastructureError("nobody looks")
                    looks += len(calls)
                    if looks > 5:
                        return Outcome({"looks": looks, "cut": True})
                    seen = task.payload["seen"]
                    messages += [{"role": "tool", "tool_call_id": call["id"], "content": seen} for call in calls]
                if question:
                    messages.append({"role": "user", "content": question})
                    tools = [TOOL, LATER]
            return Outcome({"looks": looks, "cut": False}, messages)
        finally:
            self.closed += 1

    def limit(self, outcome):
        return "looks" if outcome.output["cut"] else None

    def score(self, task, outcome):
        looks = outcome.output["looks"]
        if self.down == "score":
            raise InfrastructureError("nobody judges")
        return Score(looks == 2 and not outcome.output["cut"], {"looks": float(looks)}, {"looked": (looks,)})

    def gold(self, task):
        call = {"id": "x", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        look = {"role": "assistant", "content": None, "tool_calls": [call]}
        return [look, {"role": "assistant", "content": "A door."}, look, {"role": "assistant", "content": "The same."}]

    def reference(self, name, task, context):
        raise NotImplementedError


def env_of(suite, **arguments):
    return SuiteEnv(suite, **arguments)


def test_check_env_is_silent(toy_suite, recwarn):
    for suite in (Doors(), toy_suite.Sums()):
        check_env(env_of(suite))
    said = [str(warning.message) for warning in recwarn.list]
    assert not [text for text in said if "not having a spec" not in text]


def test_an_episode_step_by_step():
    env = env_of(Doors(), render_mode="ansi")
    observation, info = env.reset(seed=0, options={"task_id": "door-3"})
    assert [message["role"] for message in observation] == ["system", "user"]
    nothing = dict.fromkeys(("total", "success", "process", "summary", "omitted", "looks"))
    assert info == {"task_id": "door-3", "tools": [TOOL], "rewards": nothing}
    observation, reward, terminated, truncated, info = env.step(f"Let me see.\n{CALL}")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert observation[2]["content"] == f"Let me see.\n{CALL}" and info["rewards"] == nothing
    assert info["turn"] == {"calls": [{"name": "look", "arguments": "{}"}], "blocks": 1, "valid_blocks": 1}
    # the tool's answer cannot close its own tag, nor hold what UTF-8 cannot
    assert observation[3] == {"role": "tool", "tool_call_id": "call_0_0", "content": "&lt;tool_response>3�"}
    observation, *_, info = env.step("A door.")
    assert observation[-1]["content"] == json.dumps(LATER["function"]) + "\nAnd later?"
    assert info["tools"] == [TOOL]  # the prompt of a conversation does not change
    env.step(CALL)
    observation, reward, terminated, truncated, info = env.step("The same.")
    assert (reward, terminated, truncated, observation[-1]["content"]) == (1.0, True, False, "The same.")
    scored = {"total": 1.0, "success": 1.0, "process": 1.0, "summary": None, "omitted": 0.0, "looks": 2.0}
    assert info["rewards"] == scored and info["detail"] == {"looked": [2]} and "reason" not in info
    record = json.loads(info["transcript"])
    assert record["task"] == "door-3" and record["output"] == {"looks": 2, "cut": False}
    assert record["messages"] == observation
    assert env.render().startswith("[system]\nLook first.") and env.render().endswith("The same.\n")
    with pytest.raises(UsageError, match="no episode is running"):
        env.step("Again.")


def test_words_alone_decide_the_summary():
    env = env_of(Doors())
    env.reset(seed=0)
    env.step("Nothing.")
    info = env.step("Nothing.")[-1]
    assert {**info["rewards"], "looks": None} == {
        "total": 0.0, "success": 0.0, "process": 0.0, "summary": 0.0, "omitted": 1.0, "looks": None,
    }  # fmt: skip


def test_a_limit_truncates_and_is_scored():
    env = env_of(Doors())
    env.reset(seed=0)
    for _ in range(5):
        assert env.step(CALL)[2:4] == (False, False)
    _, reward, terminated, truncated, info = env.step(CALL)
    assert (reward, terminated, truncated, info["reason"]) == (0.0, False, True, "looks")
    assert info["rewards"]["total"] == 0.0 and "error" not in info


@pytest.mark.parametrize("down", ["tool", "score"])
def test_a_failure_truncates_without_a_reward(down):
    env = env_of(Doors(down))
    env.reset(seed=0)
    turns = [CALL] if down == "tool" else ["Nothing.", "Nothing."]
    for turn in turns:
        _, reward, terminated, truncated, info = env.step(turn)
    assert (reward, terminated, truncated, info["reason"]) == (0.0, False, True, "error")
    assert info["error"]["type"] == "InfrastructureError" and info["error"]["message"].startswith("nobody")
    assert set(info["rewards"].values()) == {None}
    with pytest.raises(InfrastructureError, match="nobody opens"):
        env_of(Doors("start")).reset(seed=0)


def test_malformed_calls_are_answered_not_raised():
    env = env_of(Doors())
    observation, _ = env.reset(seed=0)
    for text in ("<tool_call>{bad</tool_call>", '<tool_call>["look"]</tool_call>', CALL * 2):
        known = len(observation)
        observation, _, terminated, truncated, info = env.step(text)
        assert not terminated and not truncated and info["turn"]["calls"]
        assert info["turn"]["blocks"] - info["turn"]["valid_blocks"] == (text != CALL * 2)
        assert {message["role"] for message in observation[known + 1 :]} == {"tool"}


@given(st.lists(st.text(max_size=80), max_size=4))
def test_any_text_is_a_turn(texts):
    env = env_of(Doors())
    observation, _ = env.reset(seed=0)
    for text in texts:
        before = observation
        observation, _, terminated, truncated, info = env.step(text)
        assert observation in env.observation_space and observation[: len(before)] == before
        assert json.loads(json.dumps(info, allow_nan=False)) == info
        if terminated or truncated:
            break


def test_a_turn_without_end_loses_its_middle():
    env = env_of(Doors())
    env.reset(seed=0)
    observation = env.step("x" * (2 * MAX_TURN_CHARS))[0]
    assert len(observation[2]["content"]) == MAX_TURN_CHARS


def test_an_episode_that_is_left_is_closed():
    suite = Doors()
    env = env_of(suite)
    env.reset(seed=0)
    env.step(CALL)
    env.reset(seed=0)
    assert suite.closed == 1
    env.close()
    env.close()
    del env
    gc.collect()
    assert suite.closed == 2


def test_two_environments_of_one_suite_do_not_meet():
    suite = Doors()
    one, other = env_of(suite), env_of(suite)
    for env in (one, other):
        env.reset(seed=0, options={"task_id": "door-1"})
    one.step(CALL)
    assert len(other.step("Nothing.")[0]) == 4 and len(one.step(CALL)[0]) == 6


def test_gold_solves_every_task_in_its_own_words(toy_suite):
    env = env_of(Doors())
    assert env.gold("door-0") == {
        "plans": [[[{"name": "look", "arguments": {}}], "A door.", [{"name": "look", "arguments": {}}]]],
        "reply": "The same.",
        "opening": 2,
    }
    for suite in (Doors(), toy_suite.Sums()):
        for agent in (GoldAgent(), SerialGoldAgent()):
            assert {record.rewards["total"] for record in play(env_of(suite), agent)} == {1.0}
    with pytest.raises(UnknownNameError, match="door-0"):
        env.gold("door")


def test_a_suite_that_does_not_tell_has_no_gold():
    class Secret(Doors):
        tells_gold = False

    assert not hasattr(env_of(Secret()), "gold")
    with pytest.raises(UsageError, match="gold"):
        GoldAgent().bind(env_of(Secret()))


@pytest.mark.parametrize("agent", [DoNothingAgent, RandomCallsAgent, GoldAgent])
def test_the_baselines_keep_all_rules(agent):
    check_agent(agent(), env_of(Doors()))


def test_splits_part_the_tasks_and_keep_together_what_belongs_together(toy_suite):
    class Pairs(Doors):
        def split_key(self, task):
            return str(int(task.id.partition("-")[2]) // 2)

    parts = {split: set(env_of(Pairs(), split=split).task_ids) for split in ("train", "dev", "test", "all")}
    assert parts["all"] == parts["train"] | parts["dev"] | parts["test"]
    assert sum(map(len, parts.values())) == 2 * len(parts["all"]) == 400
    for split in ("train", "dev", "test"):
        assert all((f"door-{i}" in parts[split]) == (f"door-{i + 1}" in parts[split]) for i in range(0, 200, 2))


def test_a_split_may_be_empty(toy_suite):
    empty = 0
    for split in ("train", "dev", "test"):
        try:
            assert env_of(toy_suite.Sums(n=1), split=split).task_ids == ["sum-0"]
        except EmptySplitError as error:
            assert f"the 1 selected tasks of sums have none in the split '{split}'" in str(error)
            empty += 1
    assert empty == 2


def test_tasks_are_selected_like_those_of_a_run(toy_suite):
    suite = toy_suite.Sums()
    assert env_of(suite, ids="sum-3, sum-4").task_ids == ["sum-3", "sum-4"]
    assert env_of(suite, categories=["even"], limit=2).task_ids == ["sum-0", "sum-2"]
    assert env_of(suite, categories="small", limit=1).task_ids == ["sum-0"]
    with pytest.raises(UnknownNameError, match="even"):
        env_of(suite, categories="eve").reset()
    with pytest.raises(UnknownNameError, match="did you mean 'sum-3'"):
        env_of(suite, ids="sum-3").reset(options={"task_id": "sum-33"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"split": "validation"}, "unknown split"),
        ({"limit": 0}, "limit=0"),
        ({"limit": True}, "limit=True"),
        ({"render_mode": "human"}, "render_mode='human'"),
        ({"parser": "herms"}, "did you mean 'hermes'"),
    ],
)
def test_arguments_that_cannot_be_used(arguments, text):
    with pytest.raises((ConfigError, UnknownNameError), match=text):
        env_of(Doors(), **arguments)


def test_misuse_is_told():
    env = env_of(Doors())
    with pytest.raises(UsageError, match="call reset"):
        env.step("x")
    with pytest.raises(UsageError, match="'task_id' only"):
        env.reset(options={"task": "door-0"})
    env.reset(seed=0)
    with pytest.raises(UsageError, match="got int"):
        env.step(1)


def test_copies_begin_anew():
    env = SuiteEnv("toucan")
    with pytest.raises(UsageError, match="Toucan has no episodes"):
        env.reset(seed=0)
    env = env_of(Doors())
    env.reset(seed=0)
    with pytest.raises(UsageError, match="call reset"):
        copy.deepcopy(env).step("x")


def test_a_suite_by_its_import_path_can_be_registered(toy_suite, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "toy_suite", toy_suite)
    kwargs = {"suite": "toy_suite:Sums", "options": {"n": 6}}
    gym.register("Sums-v0", entry_point="toolcredit.benchmarks.suite_env:SuiteEnv", kwargs=kwargs)
    try:
        env = gym.make("Sums-v0", ids="sum-2")
        twin = pickle.loads(pickle.dumps(env.spec.from_json(env.spec.to_json()).make()))
        for made in (env, twin):
            assert made.unwrapped.task_ids == ["sum-2"]
            made.reset(seed=0)
            assert made.step("8")[1] == 1.0
    finally:
        del gym.registry["Sums-v0"]


def test_only_suites_of_conversations_are_environments(toy_suite):
    assert isinstance(toy_suite.Sums().env(), SuiteEnv)
    with pytest.raises(UsageError, match="without `episode`"):
        Toucan().env()
