"""`check_agent`: to agents what Gymnasium's `check_env` is to environments. One rule a function; an error says the fix.

    check_agent(MyAgent(), gym.make("GenomeToolSubset-v0"))

Works with any Gymnasium environment. The environment is reset and stepped; a `Learner` is saved to and loaded from a
temporary folder, and trained only if `learn=True`.
"""

from __future__ import annotations

import copy
import inspect
import json
import random
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from ..errors import CheckError, InfrastructureError, UsageError
from ..runs import RunFolder
from .base import Agent, Learner, TrainingReport, is_run_folder

Decision = tuple[Any, dict[str, Any]]
"""What an agent decides on: observation and info."""

DECISIONS = 4
"""Decisions per rule: enough to see state that leaks between two of them, few enough for a language model."""

EPISODE_STEPS = 50


def check_agent(agent: Agent, env: gym.Env, *, seed: int = 0, learn: bool = False) -> None:
    """Check that `agent` keeps the rules of the stable interface on `env`.

    Args:
        agent: the agent; it is bound to `env`.
        env: any Gymnasium environment the agent is meant for. It is left open.
        seed: seed of the environment's and the agent's randomness during the check.
        learn: also train a `Learner` on `env` with its own settings; make them small.

    Raises:
        CheckError: the first rule that is broken, with the fix.
        UsageError: the agent's `bind` refuses this environment.
        InfrastructureError: an endpoint that the agent asks is down, so that it cannot be checked.
    """
    check_class(agent)
    check_signatures(agent)
    check_bind_and_reset(agent, env)
    check_plain_action(agent, env, seed)
    check_action_in_space(agent, env, seed)
    check_inputs_untouched(agent, env, seed)
    check_env_untouched(agent, env, seed)
    check_global_randomness(agent, env, seed)
    check_determinism(agent, env, seed)
    check_episode(agent, env, seed)
    if isinstance(agent, Learner):
        check_learner_signatures(agent)
        if learn:
            check_learning(agent, env)
            check_action_in_space(agent, env, seed)
        check_save_and_load(agent, env, seed)


# ------------------------------------------------------------------------------------------------------- every agent


def check_class(agent: Agent) -> None:
    """The agent is an instance of `Agent` with a name that reports and tables can show."""
    if isinstance(agent, type):
        _broken(agent, "is a class", "give an instance: check_agent(MyAgent(), env)")
    if not isinstance(agent, Agent):
        _broken(agent, "is no Agent", "derive the class from toolcredit.agents.base.Agent")
    if not isinstance(agent.name, str) or not agent.name.strip() or agent.name == Agent.name:
        _broken(agent, f"has the name {agent.name!r}", "set the class attribute `name` to its name in the registry")
    if not isinstance(agent.ceiling, bool):
        _broken(agent, f"has ceiling = {agent.ceiling!r}", "make the class attribute `ceiling` True or False")


def check_signatures(agent: Agent) -> None:
    """`bind`, `reset` and `act` can be called as the interface says."""
    _accepts(agent, "bind", "bind(self, env)", object())
    _accepts(agent, "reset", "reset(self, *, seed=None)")
    _accepts(agent, "reset", "reset(self, *, seed=None)", seed=0)
    _accepts(agent, "act", "act(self, observation, info)", object(), {})


def check_bind_and_reset(agent: Agent, env: gym.Env) -> None:
    """`bind(env)` can be repeated; `reset` works with and without a seed; all return None."""
    calls: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("bind(env)", lambda: agent.bind(env)),
        ("bind(env) a second time", lambda: agent.bind(env)),
        ("reset(seed=0)", lambda: agent.reset(seed=0)),
        ("reset()", agent.reset),
    )
    for text, call in calls:
        try:
            result: Any = call()
        except UsageError:
            raise  # the agent is not meant for this environment, and says so
        except Exception as error:
            _broken(
                agent, f"raised {error!r} in {text}", "make bind and reset callable at any time, in any order", error
            )
        if result is not None:
            _broken(agent, f"returned {result!r} from {text}", "return nothing: state belongs into the agent")


def check_plain_action(agent: Agent, env: gym.Env, seed: int = 0) -> None:
    """Actions are plain Python or numpy values, so that they can be stored and sent to any environment."""
    for action in _act_on(agent, _decisions(env, seed), seed):
        culprit = _not_plain(action)
        if culprit is not None:
            _broken(
                agent,
                f"returned an action with a {culprit.__module__}.{culprit.__qualname__} in it",
                "convert it in `act`, e.g. int(action) or action.cpu().numpy()",
            )


def check_action_in_space(agent: Agent, env: gym.Env, seed: int = 0) -> None:
    """Every action lies in the environment's action space."""
    for action in _act_on(agent, _decisions(env, seed), seed):
        if not env.action_space.contains(action):
            detail = f" (dtype {action.dtype}, shape {action.shape})" if isinstance(action, np.ndarray) else ""
            _broken(
                agent,
                f"returned {action!r}{detail}, which is not in {env.action_space}",
                "return an element of env.action_space; `bind(env)` is the place to remember it",
            )


def check_inputs_untouched(agent: Agent, env: gym.Env, seed: int = 0) -> None:
    """`act` does not change the observation or the info it is given: others read them too."""
    agent.reset(seed=seed)
    for observation, info in _decisions(env, seed):
        seen, told = copy.deepcopy(observation), copy.deepcopy(info)
        _act(agent, observation, info)
        if not data_equivalence(seen, observation, exact=True):
            _broken(agent, "changed the observation in `act`", "work on a copy: copy.deepcopy(observation)")
        if not data_equivalence(told, info, exact=True):
            _broken(agent, "changed `info` in `act`", "work on a copy, or keep notes in the agent")


def check_env_untouched(agent: Agent, env: gym.Env, seed: int = 0) -> None:
    """`act` does not step, reset or draw from the environment; trying actions out is what `learn` is for."""
    decisions = _decisions(env, seed)
    agent.reset(seed=seed)
    before = _generator_states(env)
    with _watched(env) as calls:
        for observation, info in decisions:
            _act(agent, observation, info)
    if calls:
        _broken(agent, f"called env.{calls[0]} in `act`", "decide from observation and info alone")
    if _generator_states(env) != before:
        _broken(
            agent,
            "drew from the environment's random generator in `act`",
            "draw from a generator of your own, e.g. self.rng = np.random.default_rng(seed) in `reset`",
        )


def check_global_randomness(agent: Agent, env: gym.Env, seed: int = 0) -> None:
    """`reset` and `act` leave the global generators of `random`, numpy and torch alone."""
    decisions = _decisions(env, seed)
    before = _global_states()
    _act_on(agent, decisions, seed + 1)  # another seed than before: seeding anew with the same one would not show
    for name, state in _global_states().items():
        if state != before.get(name, state):
            _broken(
                agent,
                f"used or seeded the global generator of {name}",
                "own one: np.random.default_rng(seed), random.Random(seed), torch.Generator().manual_seed(seed)",
            )


def check_determinism(agent: Agent, env: gym.Env, seed: int = 0) -> None:
    """`reset(seed=…)` makes the agent repeat its actions, whatever it did before."""
    decisions = _decisions(env, seed)
    first = _act_on(agent, decisions, seed)
    agent.reset()
    for observation, info in copy.deepcopy(decisions[:2]):
        _act(agent, observation, info)
    second = _act_on(agent, decisions, seed)
    for number, (one, other) in enumerate(zip(first, second, strict=True), 1):
        if not data_equivalence(one, other, exact=True):
            _broken(
                agent,
                f"gave {one!r} and {other!r} as decision {number} after the same reset(seed={seed})",
                "restart all randomness and forget all state in `reset(seed=seed)`",
            )


def check_episode(agent: Agent, env: gym.Env, seed: int = 0) -> None:
    """The agent plays an episode to its end, or `EPISODE_STEPS` steps of it, without an exception."""
    observation, info = env.reset(seed=seed)
    agent.reset(seed=seed)
    for _ in range(EPISODE_STEPS):
        observation, _, terminated, truncated, info = env.step(_act(agent, observation, info))
        if terminated or truncated:
            return


# ------------------------------------------------------------------------------------------------------- learners


def check_learner_signatures(agent: Learner) -> None:
    """`learn`, `save` and `load` can be called as the interface says, `learn` with `resume` too."""
    usage = "learn(self, env, *, eval_env=None, callbacks=(), resume=False)"
    _accepts(agent, "learn", usage, object(), eval_env=None, callbacks=(), resume=False)
    _accepts(agent, "save", "save(self, path)", "path")
    if not isinstance(inspect.getattr_static(type(agent), "load", None), classmethod):
        _broken(agent, "has a `load` that is no classmethod", "write @classmethod def load(cls, path, **overrides)")
    _accepts(agent, "load", "load(cls, path, **overrides)", "path", some_field=0)


def check_learning(agent: Learner, env: gym.Env) -> None:
    """`learn` returns a `TrainingReport` and tells its callbacks metrics in plain JSON, numbered by `update`."""
    records: list[dict[str, Any]] = []
    report = agent.learn(env, callbacks=(records.append,))
    if not isinstance(report, TrainingReport):
        _broken(agent, f"returned {type(report).__name__} from `learn`", "return toolcredit.agents.base.TrainingReport")
    if not records:
        _broken(agent, "called no callback in `learn`", "call each callback with a dict of metrics at least once")
    for record in records:
        try:
            json.dumps(record, allow_nan=False)
        except (TypeError, ValueError) as error:
            _broken(agent, f"gave a callback {record!r} ({error})", "send finite numbers and other plain JSON", error)
        if not isinstance(record.get("update"), int):
            _broken(
                agent, f"gave a callback {record!r} without `update`", "say how many updates were made, as an integer"
            )


def check_save_and_load(agent: Learner, env: gym.Env, seed: int = 0) -> None:
    """A saved learner can be found, holds no pickle, and acts after `load` as before `save`."""
    decisions = _decisions(env, seed)
    before = _act_on(agent, decisions, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        agent.save(path)
        if not is_run_folder(path) or RunFolder.load_config(path).get("agent") != agent.name:
            _broken(
                agent,
                'saved no config.json with {"agent": its name}',
                f'write config.json with {{"agent": {agent.name!r}, …}} in `save`, so that others know what to load',
            )
        pickles = [file.name for file in sorted(path.rglob("*")) if file.is_file() and _is_pickle(file)]
        if pickles:
            _broken(agent, f"saved {pickles[0]}, a pickle: loading it can run code", "save JSON, .npz or .safetensors")
        if not _same_actions(before, _act_on(agent, decisions, seed)):
            _broken(agent, "acts differently after `save`", "let `save` write and change nothing")
        loaded = type(agent).load(path)
        if type(loaded) is not type(agent):
            _broken(agent, f"loaded a {type(loaded).__name__}", f"return a {type(agent).__name__} from `load`: use cls")
        loaded.bind(env)
        if not _same_actions(before, _act_on(loaded, decisions, seed)):
            _broken(agent, "acts differently after save and load", "save everything that `act` depends on")


# ------------------------------------------------------------------------------------------------------- helpers


def _broken(agent: object, problem: str, fix: str, cause: BaseException | None = None) -> NoReturn:
    name = agent.__name__ if isinstance(agent, type) else type(agent).__name__
    raise CheckError(f"{name} {problem}. Fix: {fix}") from cause


def _accepts(agent: Agent, method: str, usage: str, *args: Any, **kwargs: Any) -> None:
    try:
        inspect.signature(getattr(agent, method)).bind(*args, **kwargs)
    except TypeError as error:
        _broken(agent, f"cannot be called as {usage} ({error})", f"give `{method}` that signature", error)


def _decisions(env: gym.Env, seed: int) -> list[Decision]:
    """The first `DECISIONS` decisions of seeded episodes under random actions, as copies."""
    found: list[Decision] = []
    space = copy.deepcopy(env.action_space)
    space.seed(seed)
    observation, info = env.reset(seed=seed)
    while True:
        found.append(copy.deepcopy((observation, info)))
        if len(found) == DECISIONS:
            return found
        observation, _, terminated, truncated, info = env.step(space.sample())
        if terminated or truncated:
            observation, info = env.reset()


def _act_on(agent: Agent, decisions: list[Decision], seed: int) -> list[Any]:
    agent.reset(seed=seed)
    return [_act(agent, observation, info) for observation, info in copy.deepcopy(decisions)]


def _act(agent: Agent, observation: Any, info: dict[str, Any]) -> Any:
    try:
        return agent.act(observation, info)
    except InfrastructureError:
        raise  # an endpoint that is down says nothing about the agent
    except Exception as error:
        _broken(agent, f"raised {error!r} in `act`", "answer every observation of an episode with an action", error)


def _same_actions(one: list[Any], other: list[Any]) -> bool:
    return all(data_equivalence(a, b, exact=True) for a, b in zip(one, other, strict=True))


def _not_plain(value: Any) -> type | None:
    """The type of the first part of `value` that is neither plain Python nor numpy."""
    if isinstance(value, (dict, list, tuple)):
        parts = value.values() if isinstance(value, dict) else value
        return next((culprit for part in parts if (culprit := _not_plain(part)) is not None), None)
    plain = isinstance(value, (bool, int, float, str, bytes, np.generic, np.ndarray))
    return None if plain else type(value)


@contextmanager
def _watched(env: gym.Env) -> Iterator[list[str]]:
    """Names of `step` and `reset` as they are called on the innermost environment."""
    inner, calls = env.unwrapped, list[str]()
    originals = {name: getattr(inner, name) for name in ("step", "reset")}

    def watch(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return originals[name](*args, **kwargs)

        return call

    own = {name: vars(inner)[name] for name in originals if name in vars(inner)}
    for name in originals:
        setattr(inner, name, watch(name))
    try:
        yield calls
    finally:
        for name in originals:
            delattr(inner, name)
        vars(inner).update(own)


def _generator_states(env: gym.Env) -> str:
    """The states of the environment's and its action space's generators, as text to compare."""
    generators = (env.unwrapped.np_random, env.action_space.np_random)
    return repr([generator.bit_generator.state for generator in generators])


def _global_states() -> dict[str, Any]:
    numpy_state: Any = np.random.get_state()
    states = {"random": random.getstate(), "numpy": (numpy_state[1].tobytes(), *numpy_state[2:])}
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return states


def _is_pickle(file: Path) -> bool:
    """By its first bytes (pickle protocol 2 and later), by its name, or a zip of pickles as torch.save writes it."""
    if zipfile.is_zipfile(file):
        return any(name.endswith(".pkl") for name in zipfile.ZipFile(file).namelist())
    with open(file, "rb") as stream:
        head = stream.read(2)
    return file.suffix in (".pkl", ".pickle") or (head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05")
