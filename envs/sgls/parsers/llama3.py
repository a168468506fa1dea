"""Llama 3.x: the turn is JSON, `{"name": …, "parameters": {…}}`, with `<|python_tag|>` before it or not.

Several calls stand one after the other, divided by `;` or white space. Text before `<|python_tag|>` is the reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..json_strict import StrictJsonError, load_prefix
from ..parsing import Block, ParsedTurn, join_turn, read_block, read_entries, safe_json, split_reasoning
from ..tasks import Call

_TAG = "<|python_tag|>"
_END = re.compile(r"(?:\s|<\|eom_id\|>|<\|eot_id\|>)+\Z")
_LOOKS_LIKE_CALL = re.compile(r"\s*\{\s*[\"'](?:name|type)[\"']\s*:")
_DIVIDER = re.compile(r"[\s;]*")


class Llama3Parser:
    """Reads and writes the JSON tool calls of Llama 3.1 and later."""

    name = "llama3"

    def parse(self, text: str, leniency: str = "repaired") -> ParsedTurn:
        """Take a turn apart. Without `<|python_tag|>` it is calls only if it begins like one, `{"name":`."""
        reasoning, outside = split_reasoning(text)
        reply, tag, body = outside.partition(_TAG)
        if not tag:
            if not _LOOKS_LIKE_CALL.match(outside):
                return ParsedTurn(reasoning, outside.strip(), (), (0, 0))
            reply, body = "", outside
        blocks = tuple(_read_blocks(body[: _cut(body)], leniency))
        return ParsedTurn(reasoning, reply.strip(), blocks, (len(blocks), len(blocks)))

    def render(self, calls: Sequence[Call], reply: str = "", reasoning: str = "") -> str:
        """The reply, then all calls behind one `<|python_tag|>`."""
        body = "; ".join(safe_json({"name": call.name, "parameters": call.arguments}) for call in calls)
        return join_turn(reasoning, reply, _TAG + body if calls else "")


def _cut(body: str) -> int:
    """Where the end-of-turn marks and white space at the end begin."""
    tail = max(0, len(body) - 64)
    match = _END.search(body, tail)
    return match.start() if match else len(body)


def _read_blocks(body: str, leniency: str) -> list[Block]:
    """One block per JSON value; from the first unreadable one on, the rest is one block."""
    blocks: list[Block] = []
    start = 0
    while start < len(body) or not blocks:
        try:
            value, end = load_prefix(body, start)
        except StrictJsonError:
            return [*blocks, read_block(body[start:], leniency)]
        blocks.append(Block("strict", read_entries(value)))
        divider = _DIVIDER.match(body, end)
        start = divider.end() if divider else end
    return blocks
