"""A model's reply as calls: from structured tool calls (function-calling mode) or from text (prompting mode).

Three outcomes are kept apart: calls, no attempt at a call (a refusal, a question back), and an attempt that cannot be
read. The official harness takes the last two for the same, so that broken calls count as right abstentions in the
irrelevance categories; here a broken attempt is reported as `malformed` and never right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ...envs.sgls.json_strict import StrictJsonError, loads, shorten
from .calls import MAX_CHARS, Call, NotCalls, Reply
from .categories import Language
from .foreign import foreign_calls
from .pythonic import python_calls


def read_reply(
    message: dict[str, Any], prompting: bool = False, language: Language = "python", names: Iterable[str] = ()
) -> Reply:
    """The calls of an assistant message.

    Args:
        message: an OpenAI assistant message.
        prompting: whether calls are written as text; otherwise only `tool_calls` count.
        language: the syntax of calls in text.
        names: the functions' names: a text that seems to call one of them but cannot be read is malformed.
    """
    if prompting:
        return _from_text(message.get("content") or "", language, names)
    calls = []
    for tool_call in message.get("tool_calls") or ():
        function = tool_call.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or not name:
            return Reply(malformed=f"a tool call has no name but {shorten(name, 40)}")
        try:
            value = loads(arguments, max_chars=MAX_CHARS) if isinstance(arguments, str) else arguments
        except StrictJsonError as error:
            return Reply(malformed=f"the arguments of {name} are {error}")
        if not isinstance(value, dict):
            return Reply(malformed=f"the arguments of {name} must be an object, got {shorten(value, 40)}")
        calls.append(Call(name, value))
    return Reply(tuple(calls))


def to_message(calls: Iterable[Call], content: str | None = None) -> dict[str, Any]:
    """The OpenAI assistant message with these calls; the inverse of `read_reply`."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    tool_calls = [
        {
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for index, call in enumerate(calls)
    ]
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


def _from_text(text: str, language: Language, names: Iterable[str]) -> Reply:
    try:
        return python_calls(text) if language == "python" else foreign_calls(text)
    except NotCalls as error:
        attempt = any(re.search(rf"(?<![\w.]){re.escape(name)}\s*\(", text) for name in names)
        return Reply(malformed=str(error) if attempt else None)
