"""What every registered id must do: one set of checks, run over all of them."""

import importlib.util
import json
import pickle
import random
import resource
import statistics
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from toolcredit import assets
from toolcredit.envs.registration import register_envs, registered_ids
from toolcredit.envs.vector import ThreadVectorEnv

#: what an environment needs that is not embedded
ASSETS = {"toolcredit/BFCL-v0": ("bfcl", "mpmath"), "toolcredit/Tau2-v0": ("tau2", "addict")}


def param(env_id):
    """The id, to be skipped with the reason where something is missing."""
    asset, package = ASSETS.get(env_id, (None, "gymnasium"))
    missing = [f"the asset {asset} is not installed"] if asset and not assets.is_installed(asset) else []
    missing += [f"{package} is not installed"] if importlib.util.find_spec(package) is None else []
    return pytest.param(env_id, marks=pytest.mark.skipif(bool(missing), reason="; ".join(missing)))


every_id = pytest.mark.parametrize("env_id", [param(env_id) for env_id in registered_ids()])


def trace(env, seed, episodes=3):
    """Everything an environment returns in a few episodes of sampled actions, as a generator of steps."""
    env.action_space.seed(seed)
    for episode in range(episodes):
        yield env.reset(seed=seed if episode == 0 else None)
        ended = False
        while not ended:
            result = env.step(env.action_space.sample())
            ended = result[2] or result[3]
            yield result


def plain(value):
    """The value after a trip through strict JSON: what is no plain JSON does not come back equal."""
    return json.loads(json.dumps(value, allow_nan=False))


@every_id
def test_check_env_has_nothing_to_say(env_id, recwarn):
    check_env(gym.make(env_id).unwrapped)
    assert not [str(warning.message) for warning in recwarn.list]


@every_id
def test_the_id_also_works_with_the_module_prefix(env_id):
    assert gym.make(f"toolcredit:{env_id}").spec.id == env_id
    before = dict(gym.registry)
    register_envs()
    assert gym.registry == before


@every_id
def test_the_spec_makes_the_same_environment(env_id):
    env = gym.make(env_id)
    twin = env.spec.from_json(env.spec.to_json()).make()
    assert twin.spec == env.spec
    if not env.spec.nondeterministic:
        assert data_equivalence(list(trace(env, 3)), list(trace(twin, 3)), exact=True)


@every_id
def test_pickling(env_id):
    env = gym.make(env_id)
    before = list(trace(env, 4))
    twin = pickle.loads(pickle.dumps(env))
    if not env.spec.nondeterministic:
        assert data_equivalence(list(trace(twin, 4)), before, exact=True)
        assert data_equivalence(list(trace(pickle.loads(pickle.dumps(env.unwrapped)), 4)), before, exact=True)


@every_id
def test_info_is_plain_json(env_id):
    for result in trace(gym.make(env_id), 5):
        info = result[-1]
        assert plain(info) == info


@every_id
def test_rewards_are_finite_floats_and_the_sum_of_their_parts(env_id):
    for result in trace(gym.make(env_id), 6):
        if len(result) == 5:
            assert isinstance(result[1], (float, int)) and np.isfinite(result[1])
            assert isinstance(result[2], bool) and isinstance(result[3], bool)


@every_id
def test_interleaved_environments_do_not_disturb_each_other_or_the_global_state(env_id):
    if gym.spec(env_id).nondeterministic:
        pytest.skip("the environment says that it is nondeterministic")
    alone = list(trace(gym.make(env_id), 7))
    random.seed(1)
    np.random.seed(1)
    state = random.getstate(), np.random.get_state()
    one, other, stranger = (trace(gym.make(env_id), seed) for seed in (7, 7, 8))
    interleaved = [(a, b) for a, b, _ in zip(one, other, stranger, strict=False)]
    # Episodes of the stranger may be shorter; what is there must be equal.
    assert all(data_equivalence(a, b, exact=True) for a, b in interleaved)
    assert data_equivalence([a for a, _ in interleaved], alone[: len(interleaved)], exact=True)
    assert data_equivalence(state, (random.getstate(), np.random.get_state()), exact=True)


@every_id
def test_episode_statistics(env_id):
    env = RecordEpisodeStatistics(gym.make(env_id))
    *_, last = trace(env, 9, episodes=1)
    assert {"r", "l", "t"} <= last[-1]["episode"].keys()


# ----------------------------------------------------------------------------------------------------------- vectors


def vector_trace(envs, seed, steps=5):
    """What a vector environment returns for `steps` sampled actions."""
    envs.action_space.seed(seed)
    results = [envs.reset(seed=seed)]
    results += [envs.step(envs.action_space.sample()) for _ in range(steps)]
    envs.close()
    return comparable(results)


def comparable(value):
    """The same with NaN as a number that equals itself: Gymnasium makes NaN of None in an array of floats."""
    if isinstance(value, dict):
        return {key: comparable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(comparable, value))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.where(np.isnan(value), np.finfo(value.dtype).min, value)
    return value


@every_id
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_make_vec_gives_threads_that_equal_the_synchronous_vector(env_id, mode):
    threads = gym.make_vec(env_id, 3, autoreset_mode=mode)
    assert isinstance(threads, ThreadVectorEnv) and threads.num_envs == 3
    assert threads.metadata["autoreset_mode"] == mode
    if gym.spec(env_id).nondeterministic:
        threads.reset(seed=1)
        threads.close()
        return
    sync = SyncVectorEnv([lambda: gym.make(env_id)] * 3, autoreset_mode=mode)
    steps = 1 if mode == AutoresetMode.DISABLED else 5
    assert data_equivalence(vector_trace(threads, 1, steps), vector_trace(sync, 1, steps), exact=True)


@every_id
def test_plain_make_vec(env_id, recwarn):
    envs = gym.make_vec(env_id, 2)
    observations, _ = envs.reset(seed=0)
    assert observations in envs.observation_space
    assert len(envs.step(envs.action_space.sample())) == 5
    envs.close()
    envs.close()
    assert not [str(warning.message) for warning in recwarn.list]


@every_id
def test_processes_equal_the_synchronous_vector(env_id):
    makers = [lambda: gym.make(env_id)] * 2
    processes = AsyncVectorEnv(makers, shared_memory=False)
    if gym.spec(env_id).nondeterministic:
        processes.reset(seed=1)
        processes.close()
        return
    assert data_equivalence(vector_trace(processes, 2), vector_trace(SyncVectorEnv(makers), 2), exact=True)


# ------------------------------------------------------------------------------------------------------------- start

START = """
import sys
import gymnasium
import toolcredit
env = gymnasium.make({env_id!r})
loaded = {{"torch", "transformers", "pyarrow", "matplotlib", "pandas", "scipy"}} & set(sys.modules)
assert not loaded, loaded
"""


@every_id
def test_import_and_make_are_fast_and_load_nothing_heavy(env_id):
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([sys.executable, "-c", START.format(env_id=env_id)], check=True, timeout=60)
        seconds.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    assert statistics.median(seconds) < 1.5, seconds  # of CPU: others may use the machine, too
