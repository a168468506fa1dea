"""`gym.make` with errors for people, and one environment per split."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from ..errors import ConfigError, UnknownNameError
from .registration import REGISTRATIONS


def make_env(env_id: str, **arguments: Any) -> gym.Env:
    """The environment `env_id`.

    Raises:
        UnknownNameError: no such id, or no such argument; the nearest names are given.
        ConfigError: the environment cannot be imported.
    """
    unknown = sorted(set(arguments) - set(known := env_parameters(env_id)))
    if unknown:
        raise UnknownNameError(f"argument of {env_id}", unknown[0], known)
    return gym.make(env_id, **arguments)


def make_split(env_id: str, split: str, **arguments: Any) -> gym.Env:
    """The environment on one split; one that knows no splits is the same for all of them."""
    if "split" in env_parameters(env_id):
        arguments["split"] = split
    return make_env(env_id, **arguments)


def env_parameters(env_id: str) -> list[str]:
    """Names of the keyword arguments that an environment takes.

    Raises:
        UnknownNameError: no such id.
        ConfigError: its entry point cannot be imported.
    """
    try:
        spec = gym.spec(env_id)
    except gym.error.Error:
        hint = "Or import the package that registers it"
        raise UnknownNameError("environment", env_id, REGISTRATIONS, hint) from None
    try:
        creator = spec.entry_point if callable(spec.entry_point) else load_env_creator(str(spec.entry_point))
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{env_id} cannot be made: {error}") from None
    return [name for name in inspect.signature(creator).parameters if name != "self"]
