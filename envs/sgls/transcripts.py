"""The record of an episode, plain JSON, from which it can be scored again at any time.

    {"task": Task.to_json() of the task as it was shown, "tools": [names of the shown tools],
     "messages": [the whole conversation], "turns": [one record per assistant turn],
     "ending": {"terminated", "truncated", "reason", "error"}, "tokens": n, "mock": who answered,
     "nonce": a number drawn at the episode's start, for whatever must differ between equal episodes}

A turn's record:

    {"text", "reasoning", "reply", "level": "strict" | "fenced" | "repaired" | None, "tags": [opening, closing],
     "blocks": n, "valid_blocks": m, "calls": [
        {"id", "name", "arguments", "status", "problems": [{"code", "path", "message"}],
         "changes": [{"path", "from", "to"}], "answer", "cut"}]}

`text` is the turn as the agent wrote it and `reply` what is left of it without reasoning and calls. A block is valid if
it is readable and each entry names a shown tool and has an object as arguments. `arguments` are as the agent wrote
them, None for an entry that is no call. `status` is `ok` (answered), `error` (refused by the tool itself), `invalid`
(stopped by the validation) or `not_run` (a limit or a failure came first). `answer` is the whole answer of the mock,
None if there is none; `cut` says that the agent saw it shortened.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .parsing import Block, CallParser, ParsedTurn, RawCall, call_id, to_openai
from .validation import Checked


def turn_record(
    number: int, text: str, parsed: ParsedTurn, checked: Sequence[Checked], tools: Collection[str]
) -> dict[str, Any]:
    """The record of turn `number`, none of whose calls has run yet.

    Args:
        number: of the turn in the episode, from 0.
        text: the turn.
        parsed: the turn, taken apart.
        checked: the validated calls; fewer than parsed ones if there were too many.
        tools: names of the shown tools.
    """
    calls = zip(parsed.calls, checked, strict=False)
    return {
        "text": text,
        "reasoning": parsed.reasoning,
        "reply": parsed.reply,
        "level": parsed.level,
        "tags": list(parsed.tags),
        "blocks": len(parsed.blocks),
        "valid_blocks": sum(_is_valid(block, tools) for block in parsed.blocks),
        "calls": [_call_record(call_id(number, index), *pair) for index, pair in enumerate(calls)],
    }


def unread_record(text: str) -> dict[str, Any]:
    """The record of a turn that was too long to be read."""
    return {
        "text": text,
        "reasoning": "",
        "reply": "",
        "level": None,
        "tags": [0, 0],
        "blocks": 0,
        "valid_blocks": 0,
        "calls": [],
    }


def fresh(value: Any) -> Any:
    """A copy of a JSON value that shares nothing with it."""
    return json.loads(json.dumps(value))


def as_text(messages: Iterable[Mapping[str, Any]], end: str | None = None) -> str:
    """A conversation for people, and how it ended."""
    blocks = [f"[{m['role']}{' ' + m['name'] if 'name' in m else ''}]\n{m['content']}" for m in messages]
    return "\n\n".join([*blocks, *([] if end is None else [f"[end] {end}"])]) + "\n"


def _call_record(identifier: str, raw: RawCall, checked: Checked) -> dict[str, Any]:
    return {
        "id": identifier,
        "name": raw.name,
        "arguments": None if raw.problem else raw.arguments,
        "status": "invalid" if checked.problems else "not_run",
        "problems": [problem.to_json() for problem in checked.problems],
        "changes": list(checked.changes),
        "answer": None,
        "cut": False,
    }


def _is_valid(block: Block, tools: Collection[str]) -> bool:
    return block.level is not None and all(
        call.problem is None and call.name in tools and isinstance(call.arguments, dict) for call in block.calls
    )


def as_calls(messages: Sequence[Mapping[str, Any]], parser: CallParser) -> list[dict[str, Any]]:
    """A conversation whose assistant turns are text in OpenAI's form: calls with the ids that are answered; a copy."""
    shown: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant" or "tool_calls" in message:
            shown.append(fresh(message))
            continue
        shown.append(to_openai(str(message["content"]), number, parser))
        for call, answer in zip(shown[-1].get("tool_calls", ()), messages[number + 1 :], strict=False):
            call["id"] = answer.get("tool_call_id", call["id"])
    return shown
