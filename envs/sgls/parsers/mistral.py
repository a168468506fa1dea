"""Mistral: `[TOOL_CALLS]` and a JSON list of calls, or `[TOOL_CALLS]name[ARGS]{…}` per call (newer models)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..parsing import Block, ParsedTurn, RawCall, join_turn, read_block, safe_json, split_reasoning
from ..tasks import Call

_TAG = "[TOOL_CALLS]"
_NAMED = re.compile(r"\s*([A-Za-z0-9_.\-]{1,128})\s*(?:\[ARGS\]\s*|(?=\{))")


class MistralParser:
    """Reads both written forms of Mistral's tool calls; writes the JSON list."""

    name = "mistral"

    def parse(self, text: str, leniency: str = "repaired") -> ParsedTurn:
        """Take a turn apart; text before the first `[TOOL_CALLS]` is the reply."""
        reasoning, outside = split_reasoning(text)
        reply, *bodies = outside.split(_TAG)
        blocks = tuple(_read(body.strip().removesuffix("</s>"), leniency) for body in bodies)
        return ParsedTurn(reasoning, reply.strip(), blocks, (len(blocks), len(blocks)))

    def render(self, calls: Sequence[Call], reply: str = "", reasoning: str = "") -> str:
        """The reply, then `[TOOL_CALLS]` and the list of all calls."""
        body = safe_json([{"name": call.name, "arguments": call.arguments} for call in calls])
        return join_turn(reasoning, reply, _TAG + body.replace(_TAG, r"\u005bTOOL_CALLS]") if calls else "")


def _read(body: str, leniency: str) -> Block:
    named = _NAMED.match(body)
    if named is None:
        return read_block(body, leniency)
    return read_block(body[named.end() :], leniency, entries=lambda value: (RawCall(named[1], value),))
