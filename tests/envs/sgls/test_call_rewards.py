"""Calls that are scored without being made get what an episode with the same turns gets."""

import random

import gymnasium as gym
import pytest
import toolcredit  # noqa: F401 - registers the environments
from toolcredit.agents.chat_baselines import GoldAgent, RandomCallsAgent
from toolcredit.errors import CapabilityError, UnknownNameError

BROKEN = ['<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>', "<tool_call>{", "I do not know.", ""]


def play(env, task, act, seed=0):
    observation, info = env.reset(seed=seed, options={"task_id": task})
    texts, over = [], False
    while not over:
        texts.append(act(observation, info))
        observation, _, terminated, truncated, info = env.step(texts[-1])
        over = terminated or truncated
    return texts, info


def acting(agent, env):
    agent.bind(env)
    agent.reset(seed=0)
    return agent.act


def broken(seed):
    rng = random.Random(seed)
    return lambda observation, info: rng.choice(BROKEN)


@pytest.mark.parametrize(
    ("scorer", "parser"), [("hierr", "hermes"), ({"name": "hierr", "mode": "paper"}, "hermes"), ("hierr", "pythonic")]
)
def test_they_are_those_of_the_episode(scorer, parser):
    env = gym.make("SGLSToolCallingReplay-v0", scorer=scorer, parser=parser, max_turns=4, disable_env_checker=True)
    inner = env.unwrapped
    scored = set()
    for number, task in enumerate(inner.task_ids[:60:6]):
        for act in (acting(GoldAgent(), env), acting(RandomCallsAgent(), env), broken(number)):
            texts, info = play(env, task, act)
            got = inner.call_rewards(task, texts)
            assert got.keys() >= {"process", "omitted", "name", "format"}
            assert got == {name: info["rewards"][name] for name in got}
            scored.add(got["process"])
    assert len(scored) > 3


def test_a_verdict_on_the_answers_cannot_be_known():
    env = gym.make("SGLSToolCallingReplay-v0", scorer={"name": "hierr", "execution": "embedded"}).unwrapped
    texts, info = play(env, env.task_ids[0], acting(GoldAgent(), env))
    assert info["rewards"]["process"] == 1.0 and env.call_rewards(env.task_ids[0], texts)["process"] is None


def test_what_cannot_be_scored_is_refused():
    env = gym.make("SGLSToolCallingReplay-v0", scorer=None).unwrapped
    with pytest.raises(CapabilityError, match="call_rewards"):
        env.call_rewards(env.task_ids[0], ["Hi."])
    env = gym.make("SGLSToolCallingReplay-v0").unwrapped
    with pytest.raises(UnknownNameError):
        env.call_rewards("no such task", ["Hi."])
