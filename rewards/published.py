"""The published reading of a rollout, for `mode="paper"`: calls and tags by plain text search (arXiv 2609.29050).

It differs from the environment's parser on purpose: tags count wherever they stand, only Python's JSON is read, one bad
object voids its whole block, and a block is a step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from .process import Attempt

_THINK, _THOUGHT = re.compile(r"<think(?:ing)?>"), re.compile(r"</think(?:ing)?>")
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def read_text(text: str, tools: Collection[str]) -> Attempt:
    """What an agent did, from all that it wrote.

    Args:
        text: its turns, one after the other.
        tools: names of the tools it may call.
    """
    text = _without_thoughts(text)
    opened, closed = text.count(_OPEN), text.count(_CLOSE)
    blocks = [calls for body in _bodies(text) if (calls := _read_block(body, tools)) is not None]
    return Attempt(
        steps=tuple(tuple(calls) for calls in blocks),
        valid_blocks=len(blocks),
        blocks=max(opened, closed),
        attempted=opened > 0,
    )


def _without_thoughts(text: str) -> str:
    """The text without what stands between a think tag and the next closing one; an open thought is kept."""
    kept, start = [], 0
    while (opening := _THINK.search(text, start)) and (closing := _THOUGHT.search(text, opening.end())):
        kept.append(text[start : opening.start()])
        start = closing.end()
    return "".join(kept) + text[start:]


def _bodies(text: str) -> list[str]:
    """What stands between each opening tag and the next closing one."""
    found, start = [], text.find(_OPEN)
    while start >= 0:
        start += len(_OPEN)
        end = text.find(_CLOSE, start)
        if end < 0:
            break
        found.append(text[start:end])
        start = text.find(_OPEN, end)
    return found


def _read_block(body: str, tools: Collection[str]) -> list[dict[str, Any]] | None:
    """The calls of one block, or None if anything in it is wrong."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    entries = [value] if isinstance(value, dict) else value
    if not isinstance(entries, list):
        return None
    calls = []
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in tools:
            return None
        arguments = entry.get("arguments") or entry.get("parameters") or {}
        if not isinstance(arguments, dict):
            return None
        calls.append({"name": name, "arguments": arguments})
    return calls
