"""Settings of the tool-calling environment: refused at once where wrong, kept by copies; seeds; vectors."""

import pickle
import random

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from toolcredit.envs.sgls.env import SGLSToolCallingEnv
from toolcredit.errors import ConfigError, UnknownNameError


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_turns": 0}, ConfigError, "max_turns=0"),
        ({"max_parallel": True}, ConfigError, "max_parallel=True"),
        ({"max_tokens": "many"}, ConfigError, "max_tokens"),
        ({"max_response_chars": 5}, ConfigError, "at least 64"),
        ({"leniency": "lenient"}, ConfigError, "strict, fenced, repaired"),
        ({"strictness": "loose"}, ConfigError, "strict, paper"),
        ({"parser": "xml"}, UnknownNameError, "hermes"),
        ({"mock": "chatt"}, UnknownNameError, "chat"),
        ({"scorer": "hier"}, UnknownNameError, "hierr"),
        ({"split": "validation"}, UnknownNameError, "train"),
        ({"tier": "harder"}, UnknownNameError, "hard"),
        ({"variants": "twisted"}, ConfigError, "rename_tools"),
        ({"distractors": 1.5}, ConfigError, "distractors=1.5"),
        ({"render_mode": "human"}, ConfigError, "ansi"),
    ],
)
def test_wrong_settings_are_told_at_once(arguments, error, message):
    with pytest.raises(error, match=message):
        SGLSToolCallingEnv(**arguments)


def test_the_deterministic_id_refuses_live_mocks():
    chat = {"name": "chat", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    with pytest.raises(ConfigError, match="takes no live mock"):
        gym.make("SGLSToolCallingReplay-v0", mock=chat)
    assert gym.make("SGLSToolCalling-v0", mock=chat).spec.nondeterministic
    assert not gym.spec("SGLSToolCallingReplay-v0").nondeterministic


def test_splits_and_tiers_are_kept_apart():
    train = set(SGLSToolCallingEnv(scorer=None).task_ids)
    easy = SGLSToolCallingEnv(split="test", tier="easy", scorer=None)
    assert train and easy.task_ids and not train & set(easy.task_ids)
    for _ in range(5):
        _, info = easy.reset()
        assert (easy.task.tier, easy.task.split) == ("easy", "test") and info["task_id"] in easy.task_ids


def test_a_seed_fixes_the_tasks_and_global_randomness_is_left_alone():
    random.seed(5)
    np.random.seed(5)
    state = random.getstate(), np.random.get_state()[1].tolist()

    def drawn(env):
        first = env.reset(seed=11)[1]["task_id"]
        return [first, *(env.reset()[1]["task_id"] for _ in range(5))]

    one, other = SGLSToolCallingEnv(scorer=None, distractors=3), SGLSToolCallingEnv(scorer=None, variants="all")
    assert drawn(one) == drawn(other) and len(set(drawn(one))) > 3
    assert state == (random.getstate(), np.random.get_state()[1].tolist())


def test_settings_survive_the_spec_and_pickling():
    arguments = {"tier": "easy", "distractors": 2, "variants": ["rename_tools"], "seed": 4, "scorer": None}
    env = gym.make("SGLSToolCallingReplay-v0", **arguments)
    twin = env.spec.from_json(env.spec.to_json()).make()
    loaded = pickle.loads(pickle.dumps(env))
    seen = [e.reset(seed=2) for e in (env, twin, loaded)]
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize(
    "arguments", [{}, {"distractors": 4, "variants": "all", "tier": "hard"}, {"strictness": "paper"}]
)
def test_check_env(arguments, recwarn):
    check_env(gym.make("SGLSToolCallingReplay-v0", render_mode="ansi", **arguments).unwrapped)
    assert not [str(warning.message) for warning in recwarn.list]


@pytest.mark.parametrize("make", ["sync", "threads"])
def test_vectors_with_many_distractors_and_mixed_endings(make):
    makers = [lambda: gym.make("SGLSToolCallingReplay-v0", tier="easy", max_turns=2)] * 3
    envs = (
        gym.vector.SyncVectorEnv(makers) if make == "sync" else gym.make_vec("SGLSToolCallingReplay-v0", 3, max_turns=2)
    )
    envs.reset(seed=0)
    bad = '<tool_call>{"name": "nope"}</tool_call>'
    for actions in ((bad, "bye", bad), (bad, bad, "bye"), ("bye", bad, bad), (bad, bad, bad)):
        observations, _, _, _, infos = envs.step(actions)
        assert len(observations) == 3 and len(infos["task_id"]) == 3
    envs.close()
