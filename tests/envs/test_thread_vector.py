"""ThreadVectorEnv beyond what every registered id shows: waiting in parallel, masks, errors."""

import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toolcredit.envs.spaces import ChatMessages
from toolcredit.envs.vector import ThreadVectorEnv
from toolcredit.errors import EndpointError, UsageError


class Chat(gym.Env):
    """Episodes of two or three turns whose observation grows; a turn can wait for the others, or fail."""

    action_space = gym.spaces.Discrete(5)
    observation_space = ChatMessages()

    def __init__(self, meeting=None):
        self.meeting = meeting

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = int(self.np_random.integers(2, 4))
        self.messages = [{"role": "user", "content": f"{options} {self.length}"}]
        return [dict(m) for m in self.messages], {"turn": 0}

    def step(self, action):
        if self.meeting is not None:
            self.meeting.wait(timeout=30)
        if action == 4:
            raise EndpointError("down")
        self.messages.append({"role": "user", "content": str(action)})
        turn = len(self.messages) - 1
        return [dict(m) for m in self.messages], turn / 2, turn == self.length, False, {"turn": turn}


class Point(Chat):
    """The same with a numeric observation, whose batches are arrays."""

    observation_space = gym.spaces.Box(0, 9, (2,))

    def reset(self, **kwargs):
        _, info = super().reset(**kwargs)
        return np.full(2, self.length, np.float32), info

    def step(self, action):
        messages, *rest = super().step(action)
        return np.full(2, len(messages), np.float32), *rest


def run(envs, steps=8):
    results = [envs.reset(seed=3)]
    for i in range(steps):
        if envs.autoreset_mode == AutoresetMode.DISABLED and len(results[-1]) == 5 and results[-1][2].any():
            results.append(envs.reset(options={"reset_mask": results[-1][2]}))
        results.append(envs.step(np.array([i % 4, 1, 2])))
    envs.close()
    return results


@pytest.mark.parametrize("kind", [Chat, Point])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_it_equals_the_synchronous_vector(kind, mode):
    makers = [kind] * 3
    threads, sync = (make(makers, autoreset_mode=mode) for make in (ThreadVectorEnv, SyncVectorEnv))
    assert data_equivalence(run(threads), run(sync), exact=True)


def test_all_copies_wait_at_the_same_time():
    meeting = threading.Barrier(4)
    envs = ThreadVectorEnv([lambda: Chat(meeting)] * 4)
    envs.reset(seed=0)
    envs.step(np.zeros(4, int))  # one after the other they would never meet
    envs.close()


def test_earlier_results_do_not_change():
    envs = ThreadVectorEnv([Point] * 2)
    first, _ = envs.reset(seed=0)
    kept = first.copy()
    _, rewards, *_ = envs.step(np.zeros(2, int))
    kept_rewards = rewards.copy()
    envs.step(np.zeros(2, int))
    assert (first == kept).all() and (rewards == kept_rewards).all()
    envs.close()


def test_an_error_in_one_copy_lets_the_others_finish_and_reset_starts_anew():
    envs = ThreadVectorEnv([Chat] * 3)
    envs.reset(seed=0)
    with pytest.raises(EndpointError, match="down"):
        envs.step(np.array([0, 4, 0]))
    assert [len(env.messages) for env in envs.envs] == [2, 1, 2]
    observations, _ = envs.reset()
    assert [len(messages) for messages in observations] == [1, 1, 1]
    envs.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda envs: ThreadVectorEnv([]), "at least one copy"),
        (lambda envs: envs.reset(seed=[1]), "an integer or 2 seeds"),
        (lambda envs: envs.reset(options={"reset_mask": np.zeros(2, bool)}), "2 booleans, at least one of them True"),
        (lambda envs: envs.reset(options={"reset_mask": [1, 0]}), "reset_mask must be 2 booleans"),
    ],
)
def test_misuse_is_named(call, message):
    envs = ThreadVectorEnv([Chat] * 2)
    with pytest.raises(UsageError, match=message):
        call(envs)
    envs.close()


def test_without_autoreset_an_ended_copy_must_be_reset():
    envs = ThreadVectorEnv([Chat] * 2, autoreset_mode="Disabled")
    envs.reset(seed=0)
    while not envs.step(np.zeros(2, int))[2].any():
        pass
    with pytest.raises(UsageError, match="have ended: reset them with"):
        envs.step(np.zeros(2, int))
    envs.close()


def test_seeds_and_options_reach_the_copies():
    envs = ThreadVectorEnv([Chat] * 2)
    observations, _ = envs.reset(seed=[5, 5], options={"topic": "x"})
    assert observations[0] == observations[1] and "topic" in observations[0][0]["content"]
    envs.close()
