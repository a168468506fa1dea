"""Recorded conversations in their various forms, as one: turns with calls, answers of tools, and the tasks in them.

Read are OpenAI's messages (`tool_calls`, role `tool`), Toucan's raw ones (`function_call`, role `function`), its SFT
form (roles `tool_call` and `tool_response`), ShareGPT (`from`, `value`), and calls and answers in `<tool_call>` and
`<tool_response>` tags inside the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..json_strict import shorten, without_surrogates
from ..parsing import HERMES
from ..tasks import Call, Plan
from .gold import read_call
from .rows import RowError, decode

_ROLES = {
    "system": "system", "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant",
    "tool": "tool", "function": "tool", "tool_response": "tool", "observation": "tool",
    "tool_call": "tool_call", "function_call": "tool_call",
}  # fmt: skip
_RESPONSE = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
#: what only a system message has that lists the tools; the environment shows them itself
_TOOL_LISTS = ("<tools>", "tool_declare", "# Tools")


@dataclass
class Message:
    """One message of a conversation.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        text: its content; of an assistant what it says beside its calls.
        calls: of an assistant, in order.
        name: of a tool's message, if it says which.
        reasoning: of an assistant, what it thought before its calls, where that is told apart from what it says.
    """

    role: str
    text: str = ""
    calls: list[Call] = field(default_factory=list)
    name: str = ""
    reasoning: str = ""


@dataclass(frozen=True)
class Exchange:
    """A user's request in a conversation, and what was done about it.

    Attributes:
        opening: the conversation up to the request.
        plan: the calls that were made, a step per turn.
        reply: what was said at the end; empty if nothing.
    """

    opening: tuple[dict[str, Any], ...]
    plan: Plan
    reply: str


def read_messages(value: Any) -> list[Message]:
    """The messages of a conversation; neighbouring ones of an assistant are one turn.

    Raises:
        RowError: a message has no known role, or one of its calls cannot be read.
    """
    value = decode(value, "the conversation")
    if not isinstance(value, list) or not value:
        raise RowError(f"the conversation is {shorten(value, 60)}, expected a list of messages")
    found: list[Message] = []
    for item in value:
        for message in _read(item):
            last = found[-1] if found else None
            if message.role == "assistant" and last is not None and last.role == "assistant":
                last.text = "\n".join(part for part in (last.text, message.text) if part)
                last.reasoning = "\n".join(part for part in (last.reasoning, message.reasoning) if part)
                last.calls += message.calls
            else:
                found.append(message)
    return found


def _read(item: Any) -> list[Message]:
    role = item.get("role", item.get("from")) if isinstance(item, Mapping) else None
    if not isinstance(role, str) or role not in _ROLES:
        raise RowError(f"a message has the role {shorten(role, 40)}, expected one of {', '.join(_ROLES)}")
    role = _ROLES[role]
    content = item.get("content", item.get("value"))
    if role == "tool_call":
        written = decode(content, "a call")
        return [Message("assistant", calls=[_call(c) for c in (written if isinstance(written, list) else [written])])]
    text = without_surrogates(content if isinstance(content, str) else "" if content is None else json.dumps(content))
    if role == "assistant":
        return [_assistant(item, text)]
    if role == "tool":
        return [Message("tool", text, name=str(item.get("name") or ""))]
    responses = _RESPONSE.findall(text) if role == "user" and "<tool_response>" in text else []
    if responses and not _RESPONSE.sub("", text).strip():
        return [Message("tool", response.strip()) for response in responses]
    return [Message(role, text)]


def _assistant(item: Mapping[str, Any], text: str) -> Message:
    written = list(item.get("tool_calls") or ())
    written += [item["function_call"]] if item.get("function_call") else []
    parsed = HERMES.parse(text)
    thought = item.get("reasoning_content")
    thought = without_surrogates(thought) if isinstance(thought, str) else ""
    if not parsed.calls:
        return Message("assistant", text.strip(), [_call(call) for call in written], reasoning=thought)
    wrong = next((call for call in parsed.calls if call.problem or not isinstance(call.arguments, dict)), None)
    if wrong is not None:
        raise RowError(f"a call in the text cannot be read: {wrong.problem or 'its arguments are no object'}")
    calls = [Call(str(call.name), call.arguments) for call in parsed.calls]
    calls += [_call(call) for call in written]
    return Message("assistant", parsed.reply, calls, reasoning=thought or parsed.reasoning)


def _call(value: Any) -> Call:
    call, known = read_call(value)
    if not known:
        raise RowError(f"a call of {call.name} has no arguments")
    return call


def exchanges(messages: Sequence[Message], keep_system: bool = False) -> Iterator[Exchange]:
    """Each request of a user with what was done about it; the earlier ones are part of the opening of the later ones.

    Args:
        messages: the conversation.
        keep_system: keep system messages that list the tools, too.
    """
    starts = [
        at
        for at, message in enumerate(messages)
        if message.role == "user" and (at + 1 == len(messages) or messages[at + 1].role != "user")
    ]
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        done = [message for message in messages[start + 1 : end] if message.role == "assistant"]
        plan = Plan(tuple(tuple(message.calls) for message in done if message.calls))
        reply = done[-1].text if done and not done[-1].calls else ""
        yield Exchange(tuple(opening(messages[: start + 1], keep_system)), plan, reply)


def opening(
    messages: Sequence[Message], keep_system: bool = False, keep_reasoning: bool = False
) -> list[dict[str, Any]]:
    """The messages in OpenAI's form, calls as `tool_calls`; system messages that list the tools are left out.

    Args:
        messages: the conversation.
        keep_system: keep system messages that list the tools, too.
        keep_reasoning: what an assistant thought stands as `reasoning_content` in its messages.
    """
    shown: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        if message.role == "system":
            if keep_system or not any(mark in message.text for mark in _TOOL_LISTS):
                shown.append({"role": "system", "content": message.text})
        elif message.role == "tool":
            answered = _answered(message, waiting)
            if answered is not None:
                shown.append({"role": "tool", "content": message.text, **answered})
        elif message.calls:
            ids = [f"prior_{number}_{index}" for index in range(len(message.calls))]
            waiting = [{"tool_call_id": i, "name": call.name} for i, call in zip(ids, message.calls, strict=True)]
            calls = [
                {"id": i, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
                for i, call in zip(ids, message.calls, strict=True)
            ]
            shown.append({"role": "assistant", "content": message.text, "tool_calls": calls})
        else:
            shown.append({"role": message.role, "content": message.text})
        if keep_reasoning and message.reasoning:
            shown[-1]["reasoning_content"] = message.reasoning
    return shown


def _answered(message: Message, waiting: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Id and name of the call that a tool's message answers: the first open one of its tool, else of any."""
    if not waiting:
        return None
    named = (index for index, call in enumerate(waiting) if call["name"] == message.name)
    return waiting.pop(next(named, 0))
