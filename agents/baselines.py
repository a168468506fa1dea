"""Reference agents for tool-subset bandits: random, fixed subsets, two ceilings, and a prompted language model.

A ceiling (`ceiling = True`) knows rewards that no agent knows, so it says what is possible and not what was learnt.
Bit i of an action is tool i of the environment's `tool_names`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from ..envs.table import RewardTable
from ..errors import UnknownNameError, UsageError
from ..rewards.subset import best_subsets
from .base import Agent, text_bandit


def subset_tools(env: gym.Env) -> tuple[str, ...]:
    """Names of the tools whose subsets are the environment's actions, in the order of the bits.

    Raises:
        UsageError: the environment is no tool-subset bandit.
    """
    text_bandit(env)
    names = getattr(env.unwrapped, "tool_names", None)
    if names is None or env.unwrapped.action_space.n != 2 ** len(names):  # type: ignore[attr-defined]
        raise UsageError(
            f"{type(env.unwrapped).__name__} is no tool-subset bandit: it needs `tool_names`, n of them for its "
            f"{env.unwrapped.action_space} of 2**n actions; see docs/interface.md"
        )
    return tuple(names)


class RandomAgent(Agent):
    """Draws uniformly from the action space of any environment."""

    name = "random"

    def __init__(self) -> None:
        self._space: gym.Space | None = None

    def bind(self, env: gym.Env) -> None:
        """Take a copy of the action space: drawing from the environment's own would change its state."""
        self._space = copy.deepcopy(env.action_space)
        self._space.seed(0)

    def reset(self, *, seed: int | None = None) -> None:
        """Restart the draws if a seed is given."""
        if seed is not None and self._space is not None:
            self._space.seed(seed)

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        """A uniform draw."""
        return _bound(self, self._space).sample()


class FixedSubsetAgent(Agent):
    """Calls the same tools for every question.

    Args:
        tools: their names.
    """

    name = "fixed"

    def __init__(self, tools: Sequence[str] = ()) -> None:
        self.tools = tuple(tools)
        self._action: int | None = None

    def bind(self, env: gym.Env) -> None:
        """Look the tools up.

        Raises:
            UnknownNameError: the environment has no such tool.
        """
        known = subset_tools(env)
        for tool in self.tools:
            if tool not in known:
                raise UnknownNameError("tool of this environment", tool, known)
        self._action = sum(1 << known.index(tool) for tool in set(self.tools))

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        """The fixed subset."""
        return _bound(self, self._action)


class NoToolsAgent(FixedSubsetAgent):
    """Never calls a tool."""

    name = "none"

    def __init__(self) -> None:
        super().__init__(())


class AllToolsAgent(FixedSubsetAgent):
    """Always calls every tool."""

    name = "all"

    def __init__(self) -> None:
        super().__init__(())

    def bind(self, env: gym.Env) -> None:
        """Take all tools of the environment."""
        self.tools = subset_tools(env)
        super().bind(env)


class BestFixedAgent(FixedSubsetAgent):
    """Ceiling: the one subset with the highest mean reward on the environment it is bound to; ties go to fewer tools.

    Args:
        table: reward table of that environment; without one, `bind` builds it.
    """

    name = "best_fixed"
    ceiling = True

    def __init__(self, table: RewardTable | None = None) -> None:
        super().__init__(())
        self._table = table

    def bind(self, env: gym.Env) -> None:
        """Choose the subset."""
        names = subset_tools(env)
        rewards = (self._table or RewardTable.build(env)).rewards_for(env)
        best = int(best_subsets(rewards.mean(axis=0, keepdims=True))[0])
        self.tools = tuple(name for i, name in enumerate(names) if best >> i & 1)
        super().bind(env)


class OracleAgent(Agent):
    """Ceiling: for each question the subset with the highest reward; ties go to fewer tools.

    Lucky guesses count: with few options it is far above what any policy can reach.

    Args:
        table: reward table of the environment it is bound to; without one, `bind` builds it.
    """

    name = "oracle"
    ceiling = True

    def __init__(self, table: RewardTable | None = None) -> None:
        self._table = table
        self._actions: dict[str, int] | None = None

    def bind(self, env: gym.Env) -> None:
        """Look up the best subset of every question."""
        subset_tools(env)
        best = best_subsets((self._table or RewardTable.build(env)).rewards_for(env))
        self._actions = dict(zip(text_bandit(env).question_ids, best.tolist(), strict=True))

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        """The best subset of the question `info["id"]`."""
        return _bound(self, self._actions)[info["id"]]


Messages = list[dict[str, str]]


class PromptedAgent(Agent):
    """A language model that is told the tools' real names and what they do, and asked once. Nothing is learnt.

    The last action string in the reply counts. A reply without one is counted in `malformed` and acts as the empty
    subset.

    Args:
        model: `local:MODEL` (`smollm2`, a folder, a hub name), `chat:MODEL` at the OpenAI-compatible endpoint of
            `$OPENAI_BASE_URL`, or a function from chat messages to the reply's text.
    """

    name = "prompted"

    def __init__(self, model: str | Callable[[Messages], str] = "local:smollm2") -> None:
        self.malformed = 0
        self._model = model
        self._reply: Callable[[Messages], str] | None = None
        self._texts: list[str] = []
        self._system = ""

    def bind(self, env: gym.Env) -> None:
        """Write down the tools, and load the model the first time.

        Raises:
            UsageError: the environment does not describe its tools, or `model` is no model.
        """
        subset_tools(env)
        describe = getattr(env.unwrapped, "tool_descriptions", None)
        if describe is None:
            raise UsageError(
                f"{type(env.unwrapped).__name__} does not describe its tools: the prompted agent needs "
                "`tool_descriptions() -> dict[str, str]`; see docs/interface.md"
            )
        tools = "\n".join(f"{i}: {name}: {text}" for i, (name, text) in enumerate(describe().items()))
        self._system = (
            "You decide which analysis tools are run before a multiple-choice question is answered. Their reports are "
            "given to whoever answers. More tools cost more, and reports that do not matter distract.\n\n"
            f"Tools:\n{tools}"
        )
        self._texts = [text_bandit(env).action_text(action) for action in range(2 ** len(subset_tools(env)))]
        if self._reply is None:
            self._reply = _replier(self._model) if isinstance(self._model, str) else self._model

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        """The subset that the model names.

        Raises:
            EndpointError: the endpoint gave no reply.
        """
        none, first = _bound(self, self._texts or None)[:2]
        examples = f"{first} for tool 0, {none} for none"
        user = f"{observation}\n\nWhich tools should be run? Reply with their numbers only, like {examples}."
        messages = [{"role": "system", "content": self._system}, {"role": "user", "content": user}]
        action = self._last_action(_bound(self, self._reply)(messages))
        if action is None:
            self.malformed += 1
        return action or 0

    def _last_action(self, reply: str) -> int | None:
        """The action string that stands last in a reply: models that were not trained here talk around it."""
        found = [(reply.rfind(text), action) for action, text in enumerate(self._texts) if text in reply]
        return max(found)[1] if found else None


def _replier(spec: str) -> Callable[[Messages], str]:
    """The function behind `local:MODEL` or `chat:MODEL`; both decode greedily."""
    kind, _, name = spec.partition(":")
    if kind == "local" and name:
        from ..llm.local import load_local_model

        local = load_local_model(name)
        return lambda messages: local.reply(messages, max_tokens=64)
    if kind == "chat" and name:
        from ..llm.client import ChatClient

        client = ChatClient(name)
        return lambda messages: client.complete(messages, temperature=0, max_tokens=1024).text
    raise UsageError(f"{spec!r} is no model: expected local:MODEL, chat:MODEL, or a function of chat messages")


def _bound(agent: Agent, value: Any) -> Any:
    if value is None:
        raise UsageError(f"{agent.name} does not know the environment yet: call bind(env) first")
    return value
