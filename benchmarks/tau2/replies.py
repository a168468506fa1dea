"""What an agent, a user simulator or a judge replies, read strictly; and the package's messages in OpenAI's form.

The official code lets unreadable arguments of a call end the whole batch. Here such a reply is a `ReplyError`: of an
agent it ends the dialogue, which counts as 0; a user simulator or judge is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...envs.sgls.json_strict import StrictJsonError, loads, shorten, without_surrogates
from ..suite import Message


class ReplyError(ValueError):
    """A reply is none; the message says why."""


@dataclass(frozen=True)
class Call:
    """A call with readable arguments."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A reply with the attributes that the package reads from what its own `generate` returns.

    Attributes:
        content: the text; None for none.
        tool_calls: None for none, never empty.
        cost, usage, raw_data: not kept here.
    """

    content: str | None
    tool_calls: list[Call] | None = None
    cost: float | None = None
    usage: dict[str, int] | None = None
    raw_data: dict[str, Any] | None = None


def read_reply(message: Any) -> Reply:
    """An assistant message in OpenAI's form, read.

    Raises:
        ReplyError: it is empty, or no such message, or a call cannot be read.
    """
    if not isinstance(message, Mapping):
        raise ReplyError(f"the reply is {type(message).__name__}, expected a message")
    content, calls = message.get("content"), message.get("tool_calls") or []
    if not isinstance(content, str | None):
        raise ReplyError(f"the content is {type(content).__name__}, expected text")
    if not isinstance(calls, list):
        raise ReplyError(f"tool_calls is {type(calls).__name__}, expected a list")
    if not calls and not (content or "").strip():
        raise ReplyError("the reply is empty: neither text nor a call")
    read = [_read_call(call) for call in calls]
    return Reply(without_surrogates(content) if content else None, read or None)


def _read_call(call: Any) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise ReplyError(f"a call is {shorten(call, 40)}, expected an object with a function")
    name, arguments, identity = function.get("name"), function.get("arguments"), call.get("id")
    if not isinstance(name, str) or not name:
        raise ReplyError(f"the name of a call is {shorten(name, 40)}, expected text")
    try:
        value = loads(arguments if isinstance(arguments, str) else json.dumps(arguments))
    except (StrictJsonError, TypeError, ValueError) as error:
        raise ReplyError(f"the arguments of {shorten(name, 40)} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ReplyError(f"the arguments of {shorten(name, 40)} are {shorten(value, 40)}, expected an object")
    return Call(identity if isinstance(identity, str) else "", without_surrogates(name), value)


def to_openai(message: Any) -> Message:
    """One of the package's messages in OpenAI's form."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.id, "content": message.content or ""}
    plain: Message = {"role": message.role, "content": message.content}
    if getattr(message, "tool_calls", None):
        plain["tool_calls"] = [to_tool_call(call.id, call.name, call.arguments) for call in message.tool_calls]
    return plain


def to_tool_call(identity: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A call in OpenAI's form."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": identity, "type": "function", "function": function}
