"""The suite's reference agents beside the ground truth: doing nothing, and calls drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from .calls import Call
from .convert import offered_name
from .data import Doc, Entry
from .gold import as_text
from .replies import to_message

Message = dict[str, Any]
_VALUES: dict[str, Any] = {
    "integer": 1,
    "long": 1,
    "short": 1,
    "byte": 1,
    "float": 1.0,
    "double": 1.0,
    "boolean": True,
    "array": [],
    "tuple": [],
    "dict": {},
}


class Nothing:
    """Never calls a function: right where no function fits."""

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """A message without calls."""
        return {"role": "assistant", "content": "I cannot help with that."}


class Random:
    """Calls one function, drawn from those on offer, with the first value that its parameters' types suggest.

    Args:
        entry: whose functions are on offer.
        prompting: calls as text.
        seed: of the draw.
    """

    def __init__(self, entry: Entry, prompting: bool, seed: int):
        self._entry, self._prompting, self._random = entry, prompting, random.Random(seed)
        self._called = False

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """A call after each user's message, then a message without calls."""
        self._called = not self._called
        if not self._called or not self._entry.functions:
            return Nothing().respond(messages, tools)
        doc = self._random.choice(self._entry.functions)
        call = Call(doc["name"], _arguments(doc, self._entry.kind.language))
        if self._prompting:
            return {"role": "assistant", "content": as_text(self._entry, [call])}
        return to_message([Call(offered_name(call.name), call.arguments)])


def _arguments(doc: Doc, language: str) -> dict[str, Any]:
    schemas = doc["parameters"]["properties"]
    needed = {name: schemas[name] for name in doc["parameters"].get("required") or () if name in schemas}
    if language != "python":
        return dict.fromkeys(needed, "1")
    return {
        name: (schema.get("enum") or [_VALUES.get(schema.get("type", ""), "text")])[0]
        for name, schema in needed.items()
    }
