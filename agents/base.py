"""The stable interface: `Agent`, `Learner`, the protocol `TextBandit`, and the registry of agents.

An agent acts; a learner also learns and persists. Both see an environment only through Gymnasium and, for
language-model policies on enumerable bandits, through `TextBandit`. Third parties add an agent with one class and one
entry point in the group `toolcredit.agents`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym

from ..errors import UnknownNameError, UsageError

ENTRY_POINT_GROUP = "toolcredit.agents"

Callback = Callable[[dict[str, Any]], None]
"""Called with each metrics record of a learner as it is written."""


class Agent(ABC):
    """Something that acts. `act` must not change the environment and must be deterministic after `reset(seed=…)`."""

    #: name in the registry and in reports
    name: str = "agent"
    #: True for a reference that uses knowledge no agent has (the answers, or the held-out rewards)
    ceiling: bool = False

    def bind(self, env: gym.Env) -> None:  # noqa: B027 - most agents need to know nothing
        """Learn what must be known of an environment before its first episode: texts of actions, tools, a reward table.

        Whoever runs an agent (`evaluate`, `check_agent`, the suites) calls this once per environment. Agents that need
        nothing leave it alone.
        """

    def reset(self, *, seed: int | None = None) -> None:  # noqa: B027 - stateless agents need nothing here
        """Forget the episode; with a seed, restart the agent's own randomness from it."""

    @abstractmethod
    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        """Return an action of the environment's action space for this observation."""


@dataclass
class TrainingReport:
    """What `Learner.learn` did.

    Attributes:
        updates: optimiser steps made in total, earlier parts of a resumed run included.
        seconds: time spent learning, likewise.
        spent: what the learning used: `reasoner_calls`, `scored_tokens`, `sampled_tokens`, …
        best: the metrics of the selected checkpoint.
        finished: False if a callback or a limit stopped the run early.
    """

    updates: int
    seconds: float
    spent: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    finished: bool = True


class Learner(Agent):
    """An agent that learns from an environment and can be saved and loaded."""

    @abstractmethod
    def learn(
        self,
        env: gym.Env,
        *,
        eval_env: gym.Env | None = None,
        callbacks: Sequence[Callback] = (),
        resume: bool = False,
    ) -> TrainingReport:
        """Learn on `env`; choose the checkpoint on `eval_env` if one is given; with `resume` go on after a kill."""

    @abstractmethod
    def save(self, path: str | os.PathLike) -> None:
        """Write everything `load` needs to the folder `path` (weights as safetensors only)."""

    @classmethod
    @abstractmethod
    def load(cls, path: str | os.PathLike, **overrides: Any) -> Learner:
        """Read what `save` wrote; `overrides` replace configuration fields."""


@runtime_checkable
class TextBandit(Protocol):
    """What a language-model policy needs from an enumerable one-step environment, beyond Gymnasium.

    The unwrapped environment has a `Discrete` action space; `reset(options={"question_id": id})` selects a context.

    Attributes:
        question_ids: every context of the environment's split, in a fixed order.
        malformed_reward: reward of a completion that is no action; one class of its own.
    """

    question_ids: Sequence[str]
    malformed_reward: float

    def policy_messages(self, observation: Any, info: dict[str, Any]) -> list[dict[str, str]]:
        """The chat messages a policy answers, for the context of `observation`."""
        ...

    def action_text(self, action: int) -> str:
        """The string that stands for an action."""
        ...

    def parse_action(self, text: str) -> int | None:
        """The action a completion stands for, or None if it is malformed."""
        ...


def text_bandit(env: gym.Env) -> TextBandit:
    """The unwrapped environment as a `TextBandit`.

    Raises:
        UsageError: it is none; the message names what is missing.
    """
    inner = env.unwrapped
    needed = ("question_ids", "malformed_reward", "policy_messages", "action_text", "parse_action")
    missing = [name for name in needed if not hasattr(inner, name)]
    if missing or not isinstance(inner.action_space, gym.spaces.Discrete):
        what = f"lacks {', '.join(missing)}" if missing else f"has the action space {inner.action_space}, not Discrete"
        raise UsageError(f"{type(inner).__name__} is no text bandit: it {what}; see docs/interface.md")
    return inner  # type: ignore[return-value]


@runtime_checkable
class ChatEnv(Protocol):
    """What an agent needs from a chat environment, beyond Gymnasium, to be independent of the syntax of its calls.

    An observation is a list of chat messages, an action the assistant's turn as text, `info["tools"]` the tools in
    OpenAI's form.
    """

    def turn_text(self, message: Mapping[str, Any]) -> str:
        """The action for an assistant message in OpenAI's form, with `tool_calls` or without."""
        ...

    def openai_messages(self, observation: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """An observation in OpenAI's form: the calls in the agent's turns as `tool_calls`."""
        ...


def chat_env(env: gym.Env) -> ChatEnv:
    """The unwrapped environment as a `ChatEnv`.

    Raises:
        UsageError: it is none.
    """
    inner = env.unwrapped
    if not isinstance(inner, ChatEnv):
        raise UsageError(
            f"{type(inner).__name__} is no chat environment: it needs turn_text and openai_messages; "
            "see docs/interface.md"
        )
    return inner


_BUILT_IN = {
    "fgpo": "toolcredit.agents.fgpo:FGPO",
    "grpo": "toolcredit.agents.grpo:GRPO",
    "sft": "toolcredit.agents.sft:SFTLearner",
    "group": "toolcredit.agents.group_learner:GroupLearner",
    "slca-grpo": "toolcredit.agents.group_methods:SLCAGRPO",
    "grpo-chat": "toolcredit.agents.group_methods:GRPOChat",
    "rloo": "toolcredit.agents.group_methods:RLOO",
    "dr-grpo": "toolcredit.agents.group_methods:DrGRPO",
    "dapo": "toolcredit.agents.group_methods:DAPO",
    "toolpo": "toolcredit.agents.group_methods:ToolPO",
    "mt-grpo": "toolcredit.agents.group_methods:MTGRPO",
    "rltr": "toolcredit.agents.group_methods:RLTR",
    "gigpo": "toolcredit.agents.group_methods:GiGPO",
    "slca-gigpo": "toolcredit.agents.group_methods:SLCAGiGPO",
    "slca-exact": "toolcredit.agents.group_methods:SLCAExact",
    "vineppo": "toolcredit.agents.group_methods:VinePPO",
    "spo-chain": "toolcredit.agents.group_methods:SPOChain",
    "random": "toolcredit.agents.baselines:RandomAgent",
    "none": "toolcredit.agents.baselines:NoToolsAgent",
    "all": "toolcredit.agents.baselines:AllToolsAgent",
    "fixed": "toolcredit.agents.baselines:FixedSubsetAgent",
    "best_fixed": "toolcredit.agents.baselines:BestFixedAgent",
    "oracle": "toolcredit.agents.baselines:OracleAgent",
    "prompted": "toolcredit.agents.baselines:PromptedAgent",
    "do_nothing": "toolcredit.agents.chat_baselines:DoNothingAgent",
    "random_calls": "toolcredit.agents.chat_baselines:RandomCallsAgent",
    "gold": "toolcredit.agents.chat_baselines:GoldAgent",
    "gold_serial": "toolcredit.agents.chat_baselines:SerialGoldAgent",
    "prompted_chat": "toolcredit.agents.chat_baselines:PromptedChatAgent",
}


def agent_names() -> list[str]:
    """Names of all agents: built in and installed by other packages."""
    return sorted({*_BUILT_IN, *(point.name for point in _entry_points())})


def agent_class(name: str) -> type[Agent]:
    """The class behind a registered name or an import path `package.module:Class`.

    Raises:
        UnknownNameError: neither registered nor an import path.
        UsageError: the import path does not lead to an `Agent` class.
    """
    if ":" in name:
        return _import_agent(name)
    for point in _entry_points():
        if point.name == name:
            return _import_agent(point.value)
    if name in _BUILT_IN:
        return _import_agent(_BUILT_IN[name])
    raise UnknownNameError("agent", name, agent_names(), "Or give an import path package.module:Class")


def _entry_points() -> Iterable[importlib.metadata.EntryPoint]:
    return importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)


def _import_agent(path: str) -> type[Agent]:
    found = import_object(path)
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise UsageError(f"{path} is {found!r}, expected a subclass of toolcredit.agents.base.Agent")
    return found


def import_object(path: str) -> Any:
    """The object behind `package.module:name`.

    Raises:
        UsageError: the path has no colon, or the module or the name does not exist.
    """
    module, colon, name = path.partition(":")
    if not colon or not module or not name or module.startswith("."):
        raise UsageError(f"{path!r} is no import path: expected package.module:name")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{path!r} cannot be imported: {error}") from None


def is_run_folder(path: str | os.PathLike) -> bool:
    """Whether `path` looks like something `Learner.save` or a training run wrote."""
    return (Path(path) / "config.json").is_file()
