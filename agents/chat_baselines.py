"""Reference agents for chat environments with tools: floors, ceilings, and language models that are only prompted.

They know an environment by the protocol `ChatEnv` and work with any syntax of calls. The gold agents are ceilings: they
replay plans that no agent knows, which the environment gives them through `gold(task_id)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import gymnasium as gym

from ..errors import UsageError
from . import schema_samples
from .base import Agent, ChatEnv, chat_env

Messages = list[dict[str, Any]]
Model = Callable[[Messages, list[dict[str, Any]]], Mapping[str, Any]]
"""From messages and tools, both in OpenAI's form, to an assistant message."""


class _ChatAgent(Agent):
    def __init__(self) -> None:
        self._env: ChatEnv | None = None

    def bind(self, env: gym.Env) -> None:
        """Take the environment's way of writing turns.

        Raises:
            UsageError: it is no chat environment.
        """
        self._env = chat_env(env)

    def _bound(self) -> Any:
        if self._env is None:
            raise UsageError(f"{self.name} does not know the environment yet: call bind(env) first")
        return self._env

    def _turn(self, calls: Sequence[tuple[str, dict[str, Any]]], text: str = "") -> str:
        """The action that makes these calls, or says the text."""
        return self._bound().turn_text(assistant_message(calls, text))


def assistant_message(calls: Sequence[tuple[str, dict[str, Any]]], text: str = "") -> dict[str, Any]:
    """An assistant message in OpenAI's form from (name, arguments) pairs."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(calls)
        ]
    return message


class DoNothingAgent(_ChatAgent):
    """Calls nothing and says nothing: the floor."""

    name = "do_nothing"

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        """An empty reply."""
        self._bound()
        return ""


class RandomCallsAgent(_ChatAgent):
    """Makes valid calls of random tools with random arguments, and ends with a reply that says nothing.

    Args:
        most_calls: most calls in one turn.
        stop: probability of ending the episode at each turn.
    """

    name = "random_calls"

    def __init__(self, most_calls: int = 3, stop: float = 0.4) -> None:
        super().__init__()
        if most_calls < 1 or not 0 < stop <= 1:
            raise UsageError(f"most_calls={most_calls!r}, stop={stop!r}: expected at least 1, and above 0 up to 1")
        self._most_calls, self._stop = most_calls, stop
        self._rng = Random(0)

    def reset(self, *, seed: int | None = None) -> None:
        """Restart the draws if a seed is given."""
        if seed is not None:
            self._rng = Random(seed)

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        """Random calls, or the reply."""
        if not info["tools"] or self._rng.random() < self._stop:
            return self._turn((), "That is all that I can say.")
        count = self._rng.randint(1, self._most_calls)
        return self._turn([schema_samples.arguments(info["tools"], self._rng) for _ in range(count)])


class GoldAgent(_ChatAgent):
    """Ceiling: replays the gold plan of the task, all calls of a step in one turn, and gives the gold reply.

    Args:
        plan: which of the equivalent plans; the last one if there are fewer.
    """

    name = "gold"
    ceiling = True
    serial = False

    def __init__(self, plan: int = 0) -> None:
        super().__init__()
        self._plan = plan

    def bind(self, env: gym.Env) -> None:
        """Take the environment.

        Raises:
            UsageError: it does not tell its gold plans.
        """
        super().bind(env)
        if not hasattr(env.unwrapped, "gold"):
            raise UsageError(f"{type(env.unwrapped).__name__} does not tell its gold plans: it needs gold(task_id)")

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        """The step that follows the turns taken so far, or the reply."""
        gold = self._bound().gold(info["task_id"])
        plan = gold["plans"][min(self._plan, len(gold["plans"]) - 1)]
        steps = [part for step in plan for part in _one_by_one(step)] if self.serial else plan
        taken = sum(message["role"] == "assistant" for message in observation[gold["opening"] :])
        step = steps[taken] if taken < len(steps) else gold["reply"]
        if isinstance(step, str):
            return self._turn((), step)
        return self._turn([(call["name"], call["arguments"]) for call in step])


def _one_by_one(step: str | Sequence[Mapping[str, Any]]) -> list[Any]:
    """The calls of a step, each as a step of its own; what is only said stays as it is."""
    return [step] if isinstance(step, str) else [[call] for call in step]


class SerialGoldAgent(GoldAgent):
    """The same with one call a turn."""

    name = "gold_serial"
    serial = True


class PromptedChatAgent(_ChatAgent):
    """A language model that is shown the tools and the conversation. Nothing is learnt.

    With `chat:` the endpoint gets the tools as `tools` and answers with structured calls. With `local:`, and for
    endpoints without tools (`native_tools=False`), the tools and the syntax of calls stand in the system message, and
    the model's text is the turn. A prompt that does not fit into a local model's context is answered with an empty
    reply and counted in `overflows`.

    Args:
        model: `chat:MODEL`, `local:MODEL` (`smollm2`, a folder, a hub name), or a `Model` function.
        native_tools: False to describe the tools in words to a `chat:` model.
        max_tokens: longest turn.
        temperature: of a `chat:` model.
        **client: further arguments of `llm.client.ChatClient`: `base_url`, `timeout`, ….
    """

    name = "prompted_chat"

    def __init__(
        self,
        model: str | Model = "local:smollm2",
        native_tools: bool = True,
        max_tokens: int = 512,
        temperature: float = 0.0,
        **client: Any,
    ) -> None:
        super().__init__()
        self.overflows = 0
        self._spec, self._max_tokens, self._temperature, self._client = model, max_tokens, temperature, client
        self._native = native_tools and not (isinstance(model, str) and model.startswith("local:"))
        self._model: Model | None = None if isinstance(model, str) else model

    def bind(self, env: gym.Env) -> None:
        """Take the environment, and load the model the first time.

        Raises:
            UsageError: it is no chat environment, or `model` is no model.
        """
        super().bind(env)
        if self._model is None:
            self._model = self._load(str(self._spec))

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        """The model's turn.

        Raises:
            EndpointError: the endpoint gave none.
        """
        env = self._bound()
        assert self._model is not None
        if self._native:
            return env.turn_text(self._model(env.openai_messages(observation), info["tools"]))
        example = env.turn_text(assistant_message([("tool_name", {"parameter": "value"})]))
        said = self._model(worded_messages(observation, info["tools"], example), [])
        return str(said.get("content") or "")

    def _load(self, spec: str) -> Model:
        kind, _, name = spec.partition(":")
        if kind == "chat" and name:
            return self._load_chat(name)
        if kind == "local" and name:
            return self._load_local(name)
        raise UsageError(f"{spec!r} is no model: expected chat:MODEL, local:MODEL, or a function of messages and tools")

    def _load_chat(self, name: str) -> Model:
        from ..llm.client import ChatClient

        client = ChatClient(name, **self._client)
        params = {"temperature": self._temperature, "max_tokens": self._max_tokens}

        def reply(messages: Messages, tools: list[dict[str, Any]]) -> dict[str, Any]:
            offered: dict[str, Any] = {"tools": tools} if tools else {}
            said = client.complete(messages, **params, **offered)
            calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in said.tool_calls]
            return {"role": "assistant", "content": said.text, "tool_calls": calls}

        return reply

    def _load_local(self, name: str) -> Model:
        from ..llm.local import load_local_model

        local = load_local_model(name)

        def reply(messages: Messages, tools: list[dict[str, Any]]) -> dict[str, Any]:
            if len(local.render(messages)) + self._max_tokens > local.context_length:
                self.overflows += 1
                return {"content": ""}
            return {"content": local.reply(messages, max_tokens=self._max_tokens)}

        return reply


def worded_messages(observation: Sequence[Mapping[str, Any]], tools: Sequence[Any], example: str) -> Messages:
    """The conversation for models without tools of their own: tools in the system message, answers as user messages.

    Args:
        observation: the conversation.
        tools: in OpenAI's form.
        example: a turn with a call, in the environment's syntax.
    """
    listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools) or "none"
    system = [str(message["content"]) for message in observation if message["role"] == "system"]
    system.append(
        f"You may call these tools, each described by a JSON Schema:\n{listed}\n\nTo call tools, answer only with one "
        f"such block for each call:\n{example}\nThe answers come in the next message. When you have all you need, "
        "answer in plain words without a call."
    )
    messages: Messages = [{"role": "system", "content": "\n\n".join(system)}]
    for message in observation:
        if message["role"] == "tool":
            content = f"<tool_response>\n{message['content']}\n</tool_response>"
            if messages[-1]["role"] == "user" and messages[-1]["content"].startswith("<tool_response>"):
                messages[-1]["content"] += f"\n{content}"
            else:
                messages.append({"role": "user", "content": content})
        elif message["role"] != "system":
            messages.append({"role": message["role"], "content": str(message["content"] or "")})
    return messages
