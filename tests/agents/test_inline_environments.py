"""Environments that never wait are stepped without threads."""

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents import collection  # noqa: E402
from toolcredit.agents.backends.local import LocalBackend  # noqa: E402
from toolcredit.agents.chat_env import waits  # noqa: E402
from toolcredit.agents.rollout import RolloutEngine  # noqa: E402
from toolcredit.llm.local import load_local_model  # noqa: E402


@pytest.mark.parametrize(
    ("scorer", "expected"),
    [
        ("hierr", False),
        ({"name": "hierr", "noise": 0.5, "execution": "embedded"}, False),
        (None, False),
        ({"name": "hierr", "judge": "chat:some-model"}, True),
        ({"name": "hierr", "execution": "chat:some-model"}, True),
    ],
)
def test_what_an_environment_says_of_itself(scorer, expected, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert waits(gym.make("SGLSToolCallingReplay-v0", scorer=scorer)) is expected


def test_an_environment_that_says_nothing_may_wait():
    assert waits(gym.make("CartPole-v1"))


@pytest.mark.parametrize("slots", [3, 64])
def test_environments_that_never_wait_work_without_threads_and_give_the_same(slots, monkeypatch):
    def collect(threads):
        monkeypatch.setattr(collection, "waits", lambda env: threads)
        env = gym.make("SGLSToolCallingReplay-v0", split="dev", tier="easy")
        engine = RolloutEngine(
            LocalBackend(load_local_model("tiny"), slots=slots), env, template="compact", max_turns=3
        )
        rollouts = engine.collect(engine.task_ids[:3], 4, seed=1, max_new_tokens=6)
        engine.close()
        return [t.to_json() for group in rollouts for t in group]

    threaded, inline = collect(True), collect(False)
    assert threaded == inline

    def no_thread(*arguments, **keywords):
        raise AssertionError("a thread was started")

    monkeypatch.setattr(collection.threading, "Thread", no_thread)
    assert collect(False) == inline
    with pytest.raises(AssertionError, match="a thread was started"):
        collect(True)
