"""Recorded conversations of a file, written as an environment would have held them: what is learnt from directly.

Calls are written in the environment's own syntax, answers of tools are cut to its length, and system messages that list
the tools are left out, because the tools are shown beside the messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import TaskError
from .json_strict import cut_middle

log = logging.getLogger(__name__)

_MOST_LOGGED = 5

Conversation = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Messages, assistant's turns as text, and the tools in OpenAI's form."""


def read_recordings(
    path: str | Path, turn_text: Callable[[Mapping[str, Any]], str], max_response_chars: int
) -> Iterator[Conversation]:
    """The usable conversations of a file; why the others are not is logged.

    Args:
        path: rows of the format `conversation`, see `loaders`.
        turn_text: writes an assistant message in OpenAI's form as a turn.
        max_response_chars: longest answer of a tool.

    Raises:
        TaskError: the file is missing or unreadable as a whole, or no row can be used.
    """
    from .loaders import Remark, load_trajectories

    used, reasons = 0, list[str]()
    for number, item in enumerate(load_trajectories(path), 1):
        if isinstance(item, Remark):
            reasons.append(f"row {item.row}: {item.text}")
            continue
        messages = [_shown(message, turn_text, max_response_chars) for message in item[0]]
        while messages and messages[-1]["role"] != "assistant":
            messages.pop()  # nobody answered it
        if len(messages) < 2 or messages[0]["role"] == "assistant":
            reasons.append(f"row {number}: no turn of an assistant after a request")
            continue
        used += 1
        yield messages, [spec.openai() for spec in item[1]]
    for reason in reasons[:_MOST_LOGGED]:
        log.warning("%s, %s", path, reason)
    if len(reasons) > _MOST_LOGGED:
        log.warning("%s: %d rows are not used", path, len(reasons))
    if not used:
        raise TaskError(f"{path} has no conversation to learn from{': ' + reasons[0] if reasons else ''}")


def _shown(message: Mapping[str, Any], turn_text: Callable[[Mapping[str, Any]], str], longest: int) -> dict[str, Any]:
    if message["role"] == "assistant":
        return {"role": "assistant", "content": turn_text(message)}
    content = str(message["content"])
    return {**message, "content": cut_middle(content, longest) if message["role"] == "tool" else content}
