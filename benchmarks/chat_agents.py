"""Agents that hold the conversations of suites: scripted references, and adapters between the two kinds of agents.

A `ChatAgent` answers OpenAI messages with one; an `agents.base.Agent` acts in an environment. `EnvChat` lets an agent
for chat environments hold any conversation, `chat_selector` lets anything that chats choose the tools of a bandit.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import gymnasium as gym

from ..agents import schema_samples
from ..agents.base import Agent
from ..agents.baselines import PromptedAgent
from ..agents.chat_baselines import assistant_message
from ..envs.sgls.env import MAX_TURN_CHARS
from ..envs.sgls.parsing import HERMES, CallParser, from_openai, to_openai
from ..envs.sgls.transcripts import as_calls
from ..envs.spaces import ChatMessages, UnicodeText
from ..errors import UsageError
from .suite import ChatAgent, Message


class Silent:
    """Says nothing and calls nothing: the floor."""

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """An empty message."""
        return {"role": "assistant", "content": ""}


class Scripted:
    """Gives the messages of a list one after the other, and then empty ones: what a gold reference is made of."""

    def __init__(self, messages: Sequence[Message]):
        self._messages = list(messages)

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """The next message, a copy."""
        return copy.deepcopy(self._messages.pop(0)) if self._messages else {"role": "assistant", "content": ""}


class RandomCalls:
    """Makes one valid call of a random tool with random arguments, or says something, each time with equal chances.

    Args:
        seed: of the draws.
    """

    def __init__(self, seed: int):
        self._rng = Random(seed)

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """A random call, or words."""
        if not tools or self._rng.random() < 0.5:
            return {"role": "assistant", "content": "That is all that I can say."}
        return assistant_message([schema_samples.arguments(tools, self._rng)])


class Conversation(gym.Env):
    """What an agent for chat environments needs to know of one: spaces, and how turns are written. It has no episodes.

    Args:
        parser: the syntax of calls.
    """

    def __init__(self, parser: CallParser = HERMES):
        self.observation_space = ChatMessages()
        self.action_space = UnicodeText(MAX_TURN_CHARS)
        self.parser = parser

    def turn_text(self, message: Mapping[str, Any]) -> str:
        """The action for an assistant message in OpenAI's form."""
        return from_openai(dict(message), self.parser)

    def openai_messages(self, observation: Sequence[Mapping[str, Any]]) -> list[Message]:
        """An observation in OpenAI's form."""
        return as_calls(observation, self.parser)


class EnvChat:
    """An agent for chat environments as the assistant of one conversation.

    Args:
        agent: fresh; it is bound to a `Conversation`.
        seed: it is reset with.
        parser: the syntax of its calls.

    Raises:
        UsageError: the agent needs more of its environment than a conversation has.
    """

    def __init__(self, agent: Agent, seed: int, parser: CallParser = HERMES):
        self._agent, self._parser = agent, parser
        agent.bind(Conversation(parser))
        agent.reset(seed=seed)

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """The agent's turn.

        Raises:
            UsageError: the agent acts with something else than text.
        """
        observation = conversation_as_text(messages, self._parser)
        text = self._agent.act(observation, {"tools": copy.deepcopy(list(tools)), "task_id": "conversation"})
        if not isinstance(text, str):
            raise UsageError(f"{self._agent.name} acted with {type(text).__name__}, expected a turn as text")
        return read_turn(text, messages, tools, self._parser)


def read_turn(
    text: str, messages: Sequence[Message], tools: Sequence[dict[str, Any]], parser: CallParser = HERMES
) -> Message:
    """The assistant message that a turn's text stands for; without tools it is text, whatever it looks like."""
    if not tools:
        return {"role": "assistant", "content": text}
    return to_openai(text, sum(message["role"] == "assistant" for message in messages), parser)


def conversation_as_text(messages: Sequence[Mapping[str, Any]], parser: CallParser = HERMES) -> list[Message]:
    """A conversation whose assistant turns are plain text, calls in the parser's syntax; a copy.

    `as_calls` of `envs.sgls.transcripts` is the inverse.
    """
    return [
        {"role": "assistant", "content": from_openai(dict(message), parser)}
        if message["role"] == "assistant"
        else {**copy.deepcopy(dict(message)), "content": message.get("content") or ""}
        for message in messages
    ]


def chat_selector(chat: ChatAgent, env: gym.Env) -> Agent:
    """Whoever chats as an agent that chooses tools: told their names and what they do, asked once per question."""
    agent = PromptedAgent(lambda messages: str(chat.respond(messages, []).get("content") or ""))
    agent.bind(env)
    return agent
