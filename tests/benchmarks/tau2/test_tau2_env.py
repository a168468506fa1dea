"""τ²-bench as an environment: solo, with a scripted user, with a model as user."""

import gymnasium as gym
import pytest
from toolcredit import assets
from toolcredit.agents.chat_baselines import DoNothingAgent, GoldAgent, RandomCallsAgent
from toolcredit.agents.check import check_agent
from toolcredit.benchmarks.held_out_chat import play
from toolcredit.benchmarks.registry import make_suite
from toolcredit.errors import AssetError, ConfigError, EmptySplitError, EndpointError

pytestmark = pytest.mark.tau2

ENV = "toolcredit/Tau2-v0"
DONE = '<tool_call>\n{"name": "done", "arguments": {}}\n</tool_call>'
LOOK = '<tool_call>\n{"name": "check_status_bar", "arguments": {}}\n</tool_call>'


@pytest.fixture
def make(tau2_source):
    return lambda **arguments: gym.make(ENV, **arguments)


def solved(records):
    return sum(record.rewards["total"] for record in records), len(records)


@pytest.mark.parametrize(
    ("arguments", "gold", "nothing"),
    [
        ({"limit": 20}, (20, 20), (0, 20)),
        ({"domain": "airline", "user": "scripted"}, (50, 50), (19, 50)),
        ({"domain": "telecom", "user": "scripted"}, (114, 114), (0, 114)),
        ({"domain": "retail", "user": "scripted", "split": "test"}, (40, 40), (2, 40)),
    ],
)
def test_gold_and_nothing(make, arguments, gold, nothing):
    env = make(**arguments)
    assert solved(play(env, GoldAgent())) == gold
    assert solved(play(env, Sorry() if "user" in arguments else DoNothingAgent())) == nothing


class Sorry(DoNothingAgent):
    """An empty reply is no turn of a dialogue; this is the floor that the benchmark reports."""

    def act(self, observation, info):
        return "I cannot help with that."


def test_an_episode_in_solo_mode(make):
    env = make(limit=1)
    observation, info = env.reset(seed=0)
    assert [message["role"] for message in observation] == ["system"] and "<ticket>" in observation[0]["content"]
    assert {"done", "check_status_bar"} <= {tool["function"]["name"] for tool in info["tools"]}
    observation, reward, terminated, truncated, info = env.step(LOOK)
    assert observation[-1]["role"] == "tool" and not (terminated or truncated)
    _, reward, terminated, truncated, info = env.step(DONE)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["rewards"]["env_assertion"] == 0.0 and info["rewards"]["db"] is None
    assert info["detail"]["termination"] == "agent_stop"


def test_what_ends_a_dialogue(make):
    env = make(limit=1, max_steps=6, max_errors=2)
    for turns, reason, rewards in (
        (["Just words."], None, 0.0),
        ([LOOK] * 5, "max_steps", 0.0),
        (["<tool_call>{bad</tool_call>"] * 2, None, 0.0),
        (['<tool_call>{"name": "fly", "arguments": {}}</tool_call>'] * 2, "too_many_errors", 0.0),
    ):
        env.reset(seed=0)
        for turn in turns:
            *_, terminated, truncated, info = env.step(turn)
            if terminated or truncated:
                break
        assert (info.get("reason"), truncated, terminated) == (reason, reason is not None, reason is None)
        assert info["rewards"]["total"] == rewards


def test_a_scripted_user_tells_its_scenario_and_stops(make):
    env = make(domain="airline", user="scripted", ids="airline/0")
    observation, _ = env.reset(seed=0)
    assert [message["role"] for message in observation] == ["system", "assistant", "user"]
    assert "cancel reservation EHGLP3" in observation[-1]["content"]
    _, _, terminated, _, info = env.step("I cannot do that.")
    assert terminated and info["detail"]["termination"] == "user_stop"


@pytest.mark.parametrize("agent", [DoNothingAgent, RandomCallsAgent, GoldAgent])
def test_the_baselines_keep_all_rules(make, agent):
    check_agent(agent(), make(limit=3))
    check_agent(agent(), make(domain="mock", user="scripted"))


def test_a_model_as_user(make, chat_server, fake_chat):
    chat_server.script(fake_chat.reply("Hello, please help."), fake_chat.status(400))
    env = make(domain="mock", user="openai:m", user_base_url=chat_server.url, limit=1)
    assert not hasattr(env.unwrapped, "gold")  # nobody knows what a model will say
    observation, _ = env.reset(seed=0)
    assert observation[-1]["content"] == "Hello, please help."
    _, reward, terminated, truncated, info = env.step("What is it?")
    assert (reward, terminated, truncated, info["reason"]) == (0.0, False, True, "error")
    assert info["error"]["type"] == "EndpointError" and set(info["rewards"].values()) == {None}
    with pytest.raises(EndpointError):
        env.reset(seed=0)


def test_arguments_that_cannot_be_used(make):
    with pytest.raises(EmptySplitError, match="no split 'dev'"):
        make(split="dev")
    with pytest.raises(ConfigError, match="'scripted' for one without a model"):
        make(domain="airline").reset(seed=0)


def test_identities_tell_a_scripted_user(tau2_source):
    assert make_suite("tau2", {"domain": "mock", "user": "scripted"}).identity["user"] == {"scripted": 1}


def test_without_the_asset_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    assert not assets.is_installed("tau2")
    with pytest.raises(AssetError, match="toolcredit data install tau2"):
        gym.make(ENV, split="test").reset(seed=0)
