import copy
import json
import pickle
import random
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from toolcredit.agents.base import Agent, Learner, TrainingReport
from toolcredit.agents.check import check_agent
from toolcredit.errors import CheckError, EndpointError, UsageError


class Pair(gym.Env):
    """A two-step environment with text and numbers in its observation."""

    observation_space = gym.spaces.Dict({"text": gym.spaces.Text(12), "number": gym.spaces.Box(0, 1, (2,), float)})
    action_space = gym.spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 2
        return self._observation(), {"notes": ["fresh"]}

    def step(self, action):
        assert self.action_space.contains(action)
        self.left -= 1
        return self._observation(), float(action), self.left == 0, False, {"notes": ["later"]}

    def _observation(self):
        return {"text": f"left{self.left}", "number": self.np_random.random(2)}


class Sound(Agent):
    """Keeps every rule; each class below breaks exactly one."""

    name = "sound"

    def __init__(self):
        self.reset(seed=0)

    def reset(self, *, seed=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)

    def act(self, observation, info):
        return int(self.rng.integers(6))


class SoundLearner(Learner):
    name = "sound_learner"

    def __init__(self, favourite=0):
        self.favourite = favourite

    def act(self, observation, info):
        return self.favourite

    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        self.favourite = 5
        for callback in callbacks:
            callback({"update": 1, "reward": 5.0})
        return TrainingReport(updates=1, seconds=0.0)

    def save(self, path):
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / "config.json").write_text(json.dumps({"agent": self.name, "favourite": self.favourite}))

    @classmethod
    def load(cls, path, **overrides):
        return cls(json.loads((Path(path) / "config.json").read_text())["favourite"])


class NotAnAgent:
    name = "duck"

    def reset(self, *, seed=None): ...
    def act(self, observation, info):
        return 0


class Nameless(Sound):
    name = "agent"


class OddCeiling(Sound):
    ceiling = "yes"


class PositionalSeed(Sound):
    def __init__(self): ...

    def reset(self, state=None):
        pass


class NoInfo(Sound):
    def act(self, observation):
        return 0


class BindsOnce(Sound):
    bound = False

    def bind(self, env):
        if self.bound:
            raise RuntimeError("already bound")
        self.bound = True


class ResetReturns(Sound):
    def reset(self, *, seed=None):
        super().reset(seed=seed)
        return self


class ReturnsTensor(Sound):
    def act(self, observation, info):
        torch = pytest.importorskip("torch")
        return torch.tensor(1)


class ReturnsNothing(Sound):
    def act(self, observation, info):
        return None


class OutsideTheSpace(Sound):
    def act(self, observation, info):
        return 6


class FloatForInteger(Sound):
    def act(self, observation, info):
        return np.array([1.0])


class WritesObservation(Sound):
    def act(self, observation, info):
        observation["number"] *= 2
        return super().act(observation, info)


class WritesInfo(Sound):
    def act(self, observation, info):
        info["notes"].append("seen")
        return super().act(observation, info)


class KeepsTheEnv(Sound):
    def bind(self, env):
        self.env = env


class StepsTheEnv(KeepsTheEnv):
    def act(self, observation, info):
        self.env.reset()
        return super().act(observation, info)


class SamplesTheSpace(KeepsTheEnv):
    def act(self, observation, info):
        return self.env.action_space.sample()


class DrawsFromTheEnv(KeepsTheEnv):
    def act(self, observation, info):
        return int(self.env.unwrapped.np_random.integers(6))


class UsesGlobalRandom(Sound):
    def act(self, observation, info):
        return random.randrange(6)


class SeedsGlobalNumpy(Sound):
    def reset(self, *, seed=None):
        np.random.seed(seed)

    def act(self, observation, info):
        return 0


class ForgetsToReseed(Sound):
    def reset(self, *, seed=None):
        self.rng = getattr(self, "rng", np.random.default_rng(0))


class CountsForever(Sound):
    count = 0

    def act(self, observation, info):
        self.count += 1
        return self.count % 5


class FailsOnTheSecondStep(Sound):
    def act(self, observation, info):
        if info["notes"] == ["later"]:
            raise KeyError("notes")
        return super().act(observation, info)


class FailsAtLength(Sound):
    def act(self, observation, info):
        self.steps += 1
        if self.steps > 10:
            raise MemoryError
        return super().act(observation, info)

    def reset(self, *, seed=None):
        super().reset(seed=seed)
        self.steps = 0


class LearnsWithoutResume(SoundLearner):
    def learn(self, env, *, eval_env=None, callbacks=()):
        return super().learn(env, callbacks=callbacks)


class InstanceLoad(SoundLearner):
    def load(self, path, **overrides):
        return self


class LoadTakesNoOverrides(SoundLearner):
    @classmethod
    def load(cls, path):
        return super().load(path)


class SavesNoConfig(SoundLearner):
    def save(self, path):
        Path(path).mkdir()
        (Path(path) / "favourite.json").write_text(json.dumps(self.favourite))


class SavesAnotherName(SoundLearner):
    def save(self, path):
        super().save(path)
        (Path(path) / "config.json").write_text(json.dumps({"agent": "somebody", "favourite": 0}))


class SavesAPickle(SoundLearner):
    def save(self, path):
        super().save(path)
        (Path(path) / "weights").write_bytes(pickle.dumps(self.favourite))


class SavesTorch(SoundLearner):
    def save(self, path):
        super().save(path)
        pytest.importorskip("torch").save({}, Path(path) / "weights.data")


class SaveChangesIt(SoundLearner):
    def save(self, path):
        super().save(path)
        self.favourite += 1


class LoadsTheBase(SoundLearner):
    @classmethod
    def load(cls, path, **overrides):
        return SoundLearner(0)


class LoadsAnother(SoundLearner):
    @classmethod
    def load(cls, path, **overrides):
        return cls(3)


class ReportsNothing(SoundLearner):
    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        super().learn(env, callbacks=callbacks)


class SilentLearner(SoundLearner):
    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        return super().learn(env)


class LogsArrays(SoundLearner):
    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        for callback in callbacks:
            callback({"update": 1, "loss": np.zeros(2)})
        return super().learn(env)


class LogsNaN(SoundLearner):
    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        for callback in callbacks:
            callback({"update": 1, "loss": float("nan")})
        return super().learn(env)


class LogsWithoutNumber(SoundLearner):
    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        for callback in callbacks:
            callback({"loss": 1.0})
        return super().learn(env)


class LearnsNonsense(SoundLearner):
    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        report = super().learn(env, callbacks=callbacks)
        self.favourite = 99
        return report


BROKEN = {
    NotAnAgent: "is no Agent",
    Nameless: "has the name 'agent'",
    OddCeiling: "has ceiling = 'yes'",
    PositionalSeed: r"cannot be called as reset\(self, \*, seed=None\)",
    NoInfo: r"cannot be called as act\(self, observation, info\)",
    BindsOnce: r"raised RuntimeError.*in bind\(env\) a second time",
    ResetReturns: r"returned .* from reset",
    ReturnsTensor: "torch.Tensor in it",
    ReturnsNothing: "NoneType in it",
    OutsideTheSpace: r"returned 6, which is not in Discrete\(6\)",
    FloatForInteger: r"dtype float64, shape \(1,\)",
    WritesObservation: "changed the observation",
    WritesInfo: "changed `info`",
    StepsTheEnv: r"called env\.reset in `act`",
    SamplesTheSpace: "drew from the environment's random generator",
    DrawsFromTheEnv: "drew from the environment's random generator",
    UsesGlobalRandom: "used or seeded the global generator of random",
    SeedsGlobalNumpy: "used or seeded the global generator of numpy",
    ForgetsToReseed: r"after the same reset\(seed=0\)",
    CountsForever: r"after the same reset\(seed=0\)",
    FailsOnTheSecondStep: "raised KeyError.*in `act`",
    LearnsWithoutResume: "cannot be called as learn.*resume",
    InstanceLoad: "no classmethod",
    LoadTakesNoOverrides: "cannot be called as load.*overrides",
    SavesNoConfig: "saved no config.json",
    SavesAnotherName: "saved no config.json",
    SavesAPickle: "saved weights, a pickle",
    SavesTorch: "saved weights.data, a pickle",
    SaveChangesIt: "acts differently after `save`",
    LoadsTheBase: "loaded a SoundLearner",
    LoadsAnother: "acts differently after save and load",
    ReportsNothing: "returned NoneType from `learn`",
    SilentLearner: "called no callback",
    LogsArrays: "gave a callback",
    LogsNaN: "gave a callback",
    LogsWithoutNumber: "without `update`",
    LearnsNonsense: "returned 99, which is not in",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda c: c.__name__)
def test_each_rule_catches_its_agent_and_says_the_fix(broken):
    with pytest.raises(CheckError, match=f"(?s){broken.__name__} .*{BROKEN[broken]}.*Fix: "):
        check_agent(broken(), Pair(), learn=True)


@pytest.mark.parametrize("agent", [Sound, KeepsTheEnv, SoundLearner], ids=lambda c: c.__name__)
@pytest.mark.parametrize("learn", [False, True])
def test_sound_agents_pass(agent, learn):
    check_agent(agent(), Pair(), learn=learn)


def test_a_class_is_not_an_agent():
    with pytest.raises(CheckError, match="Sound is a class. Fix: give an instance"):
        check_agent(Sound, Pair())


def test_learn_is_only_called_when_asked():
    agent = SoundLearner()
    check_agent(agent, Pair())
    assert agent.favourite == 0
    check_agent(agent, Pair(), learn=True)
    assert agent.favourite == 5


def test_the_environment_is_usable_afterwards():
    env = Pair()
    check_agent(Sound(), env)
    assert "step" not in vars(env)
    assert "reset" not in vars(env)
    env.reset(seed=1)
    assert env.step(2)[1] == 2.0


def test_any_gymnasium_environment():
    class Push(Sound):
        def act(self, observation, info):
            return int(observation[2] > 0)

    env = gym.make("CartPole-v1")
    check_agent(Push(), env)
    with pytest.raises(CheckError, match=r"not in Discrete\(2\)"):
        check_agent(OutsideTheSpace(), env)


def test_an_agent_may_refuse_an_environment():
    class Picky(Sound):
        def bind(self, env):
            raise UsageError("I play chess only")

    with pytest.raises(UsageError, match="chess"):
        check_agent(Picky(), Pair())


def test_long_episodes_are_played():
    class Long(Pair):
        def step(self, action):
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, False, truncated, info

    with pytest.raises(CheckError, match="raised MemoryError"):
        check_agent(FailsAtLength(), Long())


def test_dictionary_actions():
    class Both(Pair):
        action_space = gym.spaces.Dict({"a": gym.spaces.Discrete(2), "b": gym.spaces.Text(4)})

        def step(self, action):
            return self._observation(), 0.0, True, False, {}

    class Replies(Sound):
        def act(self, observation, info):
            return {"a": 1, "b": copy.copy(observation["text"])[:4]}

    check_agent(Replies(), Both())


def test_an_endpoint_that_is_down_is_no_broken_rule():
    class Asks(Sound):
        def act(self, observation, info):
            raise EndpointError("nobody answers")

    with pytest.raises(EndpointError, match="nobody answers"):
        check_agent(Asks(), Pair())
