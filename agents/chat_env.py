"""Any environment as a chat environment, and as many copies of it as episodes run at once.

A chat environment's observation is the list of messages so far, its action an assistant's turn as text; see
`docs/trajectories.md`. A `TextBandit` becomes one of a single turn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym

from ..envs.spaces import ChatMessages, UnicodeText
from ..errors import CapabilityError, UsageError
from .base import TextBandit, text_bandit

#: Longest turn that is given to a bandit's parser.
_MAX_TURN = 2**16


@runtime_checkable
class CallScorer(Protocol):
    """What a chat environment offers if it can score calls that were never made, for counterfactual values."""

    def call_rewards(self, task_id: str, turns: Sequence[str]) -> Mapping[str, float | None]:
        """The reward components that the assistant's turns of a whole episode alone decide; nothing is run or asked."""
        ...


def call_scorer(env: gym.Env) -> CallScorer:
    """The unwrapped environment as a `CallScorer`.

    Raises:
        CapabilityError: it is none.
    """
    inner = env.unwrapped
    if not isinstance(inner, CallScorer):
        raise CapabilityError(
            f"{type(inner).__name__} cannot score calls that were not made: it has no call_rewards(task_id, turns); "
            "use choice_values=branch"
        )
    return inner


def waits(env: gym.Env) -> bool:
    """Whether steps may wait for something outside this process: an endpoint, a file system, another program.

    An environment says that it never does with an attribute `waits = False`. Its steps are then taken one by one:
    handing each to a thread and back takes longer than the step.
    """
    return bool(getattr(env.unwrapped, "waits", True))


class BanditChat(gym.Wrapper):
    """A text bandit as a conversation of one turn: the prompt, and a completion that stands for an action.

    The reward counts for the summary: the only turn of such an episode is its last one. A completion that stands for no
    action ends the episode with the bandit's `malformed_reward`.

    Args:
        env: an environment that is a `TextBandit`.

    Raises:
        UsageError: it is none.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self._bandit: TextBandit = text_bandit(env)
        self.observation_space = ChatMessages()
        self.action_space = UnicodeText(_MAX_TURN)
        self._messages: list[dict[str, Any]] = []

    @property
    def task_ids(self) -> Sequence[str]:
        """The bandit's question ids."""
        return self._bandit.question_ids

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Show `options["task_id"]`, or a question that the bandit chooses."""
        options = dict(options or {})
        if "task_id" in options:
            options["question_id"] = options.pop("task_id")
        observation, info = self.env.reset(seed=seed, options=options or None)
        self._messages = [dict(message) for message in self._bandit.policy_messages(observation, info)]
        return copy.deepcopy(self._messages), {**info, "tools": [], "rewards": {"summary": None, "total": None}}

    def step(self, action: str) -> tuple[list[dict[str, Any]], float, bool, bool, dict[str, Any]]:
        """Take the action that the completion stands for; the episode ends."""
        self._messages.append({"role": "assistant", "content": action})
        chosen = self._bandit.parse_action(action[:_MAX_TURN])
        info: dict[str, Any] = {"malformed": chosen is None}
        reward, terminated, truncated = self._bandit.malformed_reward, True, False
        if chosen is not None:
            _, given, terminated, truncated, more = self.env.step(chosen)
            reward, info = float(given), {**more, **info}
        parts = info.pop("rewards", {})
        info |= {"tools": [], "turn": {"calls": []}, "rewards": {**parts, "summary": reward, "total": reward}}
        return copy.deepcopy(self._messages), reward, terminated, truncated, info


def chat_env(env: gym.Env) -> gym.Env:
    """`env` itself if it is a chat environment, or a text bandit as one.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(env.observation_space, ChatMessages):
        return env
    try:
        return BanditChat(env)
    except UsageError as error:
        raise UsageError(
            f"{type(env.unwrapped).__name__} has no conversations: its observation space is {env.observation_space}, "
            f"expected ChatMessages; and {error}"
        ) from None


def env_maker(env: gym.Env | Callable[[], gym.Env]) -> Callable[[], gym.Env]:
    """A function that makes copies of an environment: by its spec, or as a deep copy if it was not made by `gym.make`.

    Raises:
        UsageError: later, by the function: the environment cannot be copied.
    """
    if not isinstance(env, gym.Env):
        return env
    if env.spec is not None:
        spec = env.spec
        return lambda: gym.make(spec)

    def copied() -> gym.Env:
        try:
            return copy.deepcopy(env)
        except Exception as error:  # noqa: BLE001 - any part of a foreign object may refuse
            raise UsageError(
                f"{type(env.unwrapped).__name__} cannot be copied ({error}): register it and use gym.make, or give a "
                "function that makes it"
            ) from None

    return copied
