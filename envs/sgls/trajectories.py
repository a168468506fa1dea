"""Real recorded trajectories as cassettes: what the tools answered then, they answer again.

Three ways of writing calls are read: OpenAI's (`tool_calls` and role `tool`), Toucan's raw rows (`function_call` and
role `function`) and its SFT rows (roles `tool_call` and `tool_response`; the content may be a Python literal).
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .cassettes import open_cassette
from .json_strict import StrictJsonError, digest, loads, shorten
from .parsing import repair
from .tasks import Call, ToolSpec

#: who answered
IDENTITY = {"mock": "recorded"}
_ANSWERING_ROLES = ("tool", "function", "tool_response")


def write_cassette(
    path: str | os.PathLike, trajectories: Iterable[tuple[Sequence[Mapping[str, Any]], Sequence[ToolSpec]]]
) -> tuple[int, list[str]]:
    """Record the answers of trajectories in a cassette for `{"name": "replay", "cassette": path}`.

    Args:
        path: the cassette; an existing one of recorded trajectories is extended.
        trajectories: messages, and the tools that were shown.

    Returns:
        The number of answers, and for every call that could not be used the reason.
    """
    cassette = open_cassette(path, IDENTITY, stateful=False, write=True)
    count, skipped = 0, []
    for number, (messages, specs) in enumerate(trajectories):
        schemas = {spec.name: digest(spec.parameters) for spec in specs}
        asked: Counter[str] = Counter()
        for call, answer in read_trajectory(messages):
            if isinstance(call, str):
                skipped.append(f"trajectory {number}: {call}")
            elif call.name not in schemas:
                skipped.append(f"trajectory {number}: {call.name} is not among its tools")
            else:
                request = {"tool": call.name, "arguments": call.arguments, "state": "", "schema": schemas[call.name]}
                key = cassette.key(request)
                cassette.put(key, asked[key], request, answer)
                asked[key] += 1
                count += 1
    return count, skipped


def read_trajectory(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Call | str, Any]]:
    """The calls of a trajectory with their answers, in order; instead of an unusable call the reason.

    An answer belongs to the call with its `tool_call_id`, otherwise to the oldest open call of its tool, otherwise to
    the oldest open call.
    """
    waiting: deque[tuple[Any, Call | str]] = deque()
    for message in messages:
        role = message.get("role")
        if role in _ANSWERING_ROLES:
            if not waiting:
                yield "an answer without a call", None
                continue
            index = _which(message, waiting)
            call = waiting[index][1]
            del waiting[index]
            yield call, _answer(message.get("content"))
        else:
            waiting.extend(_calls(message))
    for _, call in waiting:
        yield (call if isinstance(call, str) else f"{call.name} was not answered"), None


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[Any, Call | str]]:
    """Identifier (or None) and call of everything that a message asks for."""
    for tool_call in message.get("tool_calls") or ():
        yield tool_call.get("id"), _call(tool_call.get("function"))
    if message.get("function_call"):
        yield None, _call(message["function_call"])
    if message.get("role") == "tool_call":
        yield None, _call(message.get("content"))


def _call(value: Any) -> Call | str:
    try:
        value = _object(value)
        return Call(str(value["name"]), _object(value.get("arguments") or {}))
    except (StrictJsonError, KeyError) as error:
        return f"a call that cannot be read: {shorten(str(error), 120)}"


def _object(value: Any) -> dict[str, Any]:
    """An object, also when it is written as JSON or as a Python literal."""
    if isinstance(value, str):
        try:
            value = loads(value)
        except StrictJsonError:
            value = loads(repair(value))
    if not isinstance(value, Mapping):
        raise StrictJsonError(f"expected an object, got {shorten(value, 60)}")
    return dict(value)


def _which(message: Mapping[str, Any], waiting: deque[tuple[Any, Call | str]]) -> int:
    identifier, name = message.get("tool_call_id"), message.get("name")
    for index, (known, _) in enumerate(waiting):
        if identifier is not None and known == identifier:
            return index
    for index, (_, call) in enumerate(waiting):
        if isinstance(call, Call) and call.name == name:
            return index
    return 0


def _answer(content: Any) -> Any:
    """JSON as its value, other text as it is."""
    if not isinstance(content, str):
        return content
    try:
        return loads(content)
    except StrictJsonError:
        return content
