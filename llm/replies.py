"""What a chat endpoint replies: the data types, and the strict reading of a reply that may be anything.

A reply that is not what the protocol says is a failure of the endpoint, never an empty answer of the model.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, TypeGuard

from .retry import AttemptError


@dataclass(frozen=True)
class ToolCall:
    """A call that the model asks for. `arguments` is its raw text: JSON if the model wrote JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Usage:
    """Tokens that one request used, as the endpoint counts them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Completion:
    """One reply of a model.

    Attributes:
        text: the reply's content; empty when the model only called tools or was cut off before it wrote any.
        tool_calls: structured calls, in order.
        usage: None if the endpoint does not report it.
        finish_reason: `stop`, `length`, `tool_calls`, … as the endpoint says it; None if it does not.
        model: the model's name as the endpoint says it.
        cached: read from the response cache; nothing was spent.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str = ""
    cached: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without `cached`."""
        plain = asdict(self)
        del plain["cached"]
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any], cached: bool = False) -> Completion:
        """The inverse of `to_dict`."""
        calls = tuple(ToolCall(**call) for call in plain["tool_calls"])
        usage = Usage(**plain["usage"]) if plain["usage"] else None
        return cls(plain["text"], calls, usage, plain["finish_reason"], plain["model"], cached)


def parse_reply(raw: bytes, content_type: str) -> Completion:
    """Read the body of a successful chat completion.

    Args:
        raw: the body.
        content_type: the header's value; anything but JSON is refused (a proxy's login page, for example).

    Raises:
        AttemptError: not transient; the reason says what was expected and what came.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        _refuse(f"content type {kind or 'missing'!r}, expected application/json")
    try:
        reply = json.loads(raw)
    except (ValueError, RecursionError) as error:
        _refuse(f"a body that is not JSON ({type(error).__name__})")
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        said = reply.get("error") if isinstance(reply, dict) else None
        _refuse(f"no choices, but the error {json.dumps(said)[:200]}" if said else "no choices")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        _refuse("a choice without a message")
    finish_reason = choices[0].get("finish_reason")
    finish_reason = _text(finish_reason) if isinstance(finish_reason, str) else None
    calls = _tool_calls(message.get("tool_calls"))
    model = reply.get("model")
    return Completion(
        text=_content(message, calls, finish_reason),
        tool_calls=calls,
        usage=_usage(reply.get("usage")),
        finish_reason=finish_reason,
        model=_text(model) if isinstance(model, str) else "",
    )


def _refuse(what: str) -> NoReturn:
    raise AttemptError(f"the endpoint replied with {what}", transient=False)


def _text(value: str) -> str:
    """Without lone surrogates, which JSON can hold but no file or terminal can."""
    return value.encode("utf-8", "replace").decode()


def _content(message: dict[str, Any], calls: tuple[ToolCall, ...], finish_reason: str | None) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return _text(content)
    # null means that the model wrote nothing, which is an answer only where the reply says why
    explained = calls or message.get("refusal") or message.get("reasoning_content") or message.get("reasoning")
    if content is None and (explained or finish_reason in ("length", "content_filter")):
        return ""
    _refuse(f"content of type {type(content).__name__}, expected a string")


def _tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list):
        _refuse(f"tool_calls of type {type(calls).__name__}, expected a list")
    read = []
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            _refuse("a tool call without a function name")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send the object itself
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not isinstance(arguments, str):
            _refuse(f"tool call arguments of type {type(arguments).__name__}, expected a string")
        identity = call.get("id")
        identity = _text(identity) if isinstance(identity, str) else ""
        read.append(ToolCall(identity, _text(function["name"]), _text(arguments)))
    return tuple(read)


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (_is_count(prompt) and _is_count(completion)):
        return None
    return Usage(prompt, completion)


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether it can be a number of tokens; a sum of numbers with thousands of digits could not be written any more."""
    return type(value) is int and 0 <= value < 2**53
