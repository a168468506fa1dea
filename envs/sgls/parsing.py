"""From an assistant's turn as text to tool calls, and back.

A turn is optional reasoning (`<think>…</think>` or `<thinking>…</thinking>`), any number of `<tool_call>` blocks, and
text. A block holds a JSON object or a list of objects `{"name": …, "arguments": {…}}` (`parameters` is the same as
`arguments`, both may be left out). A turn without a block is a final reply.

How lenient the reading had to be is a recorded level, never hidden:

* `strict`: `<tool_call>`, strict JSON, `</tool_call>`.
* `fenced`: the JSON stands in a Markdown fence inside the tags; or the turn has no tags and a fence marked `json` or
  `tool_call` holds nothing but calls, written in full.
* `repaired`: one of five repairs was needed: a trailing comma, single quotes, `True`/`False`/`None`, raw control
  characters in a string, or a missing `</tool_call>`. Nothing else is repaired, and prose never becomes a call.

A bad block or a bad entry of a list is kept with its error, and the others are read. Tags inside JSON strings are text,
and so is a `<tool_response>` that an agent writes: answers come from a mock only. Reading is linear in the text.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .json_strict import StrictJsonError, canonical, load_prefix, loads, shorten
from .tasks import Call

LEVELS = ("strict", "fenced", "repaired")

#: the name of an entry that is no call, where one is needed
INVALID_CALL = "invalid_call"

_TAG = re.compile(r"<(/?)(tool_call|think|thinking)>")
_THINK_TAG = re.compile(r"<(/?)(think|thinking)>")
_CALL_TAG = re.compile(r"</?tool_call>")
#: the opening bracket of every tag that has a meaning in a turn or an answer
OUR_TAGS = re.compile(r"<(?=/?(?:tool_call|tool_response|think|thinking)>)")
_TOKEN = re.compile(
    r'"([^"\\]*(?:\\.[^"\\]*)*)"|' + r"'([^'\\]*(?:\\.[^'\\]*)*)'|"  # strings that end
    r"([\"'].*\Z)|"  # one that does not: the rest of the text
    r"(,)(?=\s*[}\]])|([A-Za-z_]\w*)|[^\"'A-Za-z_,]+|,",
    re.DOTALL,
)
_QUOTE = re.compile(r"\\.|\"", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


@dataclass(frozen=True)
class RawCall:
    """One call as the agent wrote it, before validation.

    Attributes:
        name: the tool's name; None if the entry has no usable name.
        arguments: whatever stands for the arguments; `{}` if nothing does.
        problem: why the entry is no call, or None.
    """

    name: str | None
    arguments: Any = None
    problem: str | None = None


@dataclass(frozen=True)
class Block:
    """One call block of a turn.

    Attributes:
        level: one of `LEVELS`, or None if the block cannot be read.
        calls: its entries; a block that cannot be read has one entry, with the problem.
    """

    level: str | None
    calls: tuple[RawCall, ...]


@dataclass(frozen=True)
class ParsedTurn:
    """An assistant's turn, taken apart.

    Attributes:
        reasoning: what stood in think tags, without the tags.
        reply: the text outside reasoning and blocks.
        blocks: the call blocks in order.
        tags: number of opening and of closing call tags outside reasoning and outside JSON strings.
    """

    reasoning: str
    reply: str
    blocks: tuple[Block, ...]
    tags: tuple[int, int]

    @property
    def calls(self) -> tuple[RawCall, ...]:
        """All entries of all blocks in order."""
        return tuple(call for block in self.blocks for call in block.calls)

    @property
    def level(self) -> str | None:
        """The most lenient level that a readable block needed; None without one."""
        levels = [LEVELS.index(block.level) for block in self.blocks if block.level is not None]
        return LEVELS[max(levels)] if levels else None


class CallParser(Protocol):
    """How one family of models writes tool calls."""

    name: str

    def parse(self, text: str, leniency: str = "repaired") -> ParsedTurn:
        """Take a turn apart; levels beyond `leniency` count as unreadable. Never raises on any text."""
        ...

    def render(self, calls: Sequence[Call], reply: str = "", reasoning: str = "") -> str:
        """A turn that `parse` reads, strictly, as these calls, reply and reasoning."""
        ...


class HermesParser:
    """The default syntax: JSON in `<tool_call>` tags (Hermes, Qwen, and the SLCA-GRPO data)."""

    name = "hermes"

    def parse(self, text: str, leniency: str = "repaired") -> ParsedTurn:
        """Take a turn apart; see the module's description."""
        scan = _Scan(text, leniency)
        outside = "".join(scan.outside)
        if scan.tags == [0, 0] and leniency != "strict":
            outside, scan.blocks = _take_fenced_calls(outside)
        return ParsedTurn(scan.reasoning.strip(), outside.strip(), tuple(scan.blocks), (scan.tags[0], scan.tags[1]))

    def render(self, calls: Sequence[Call], reply: str = "", reasoning: str = "") -> str:
        """One block per call, after the reasoning and the reply."""
        blocks = [f"<tool_call>\n{call_json(call)}\n</tool_call>" for call in calls]
        return join_turn(reasoning, reply, "\n".join(blocks))


class _Scan:
    """One pass over the tags of a turn; the attributes are the result."""

    def __init__(self, text: str, leniency: str, tags: re.Pattern[str] = _TAG):
        self.text, self.leniency = text, leniency
        self.outside: list[str] = []
        self.blocks: list[Block] = []
        self.tags = [0, 0]
        thoughts: list[str] = []
        start = 0
        while match := tags.search(text, start):
            self.outside.append(text[start : match.start()])
            closing, tag = bool(match[1]), match[2]
            if tag == "tool_call":
                self.tags[closing] += 1
                start = match.end() if closing else self._block(match.end())
            elif closing:  # the chat template wrote the opening tag: all text before was reasoning
                thoughts += self.outside
                self.outside, self.blocks, self.tags = [], [], [0, 0]
                start = match.end()
            else:
                end = text.find(f"</{tag}>", match.end())
                thoughts.append(text[match.end() : end if end >= 0 else len(text)])
                start = end + len(tag) + 3 if end >= 0 else len(text)
        self.outside.append(text[start:])
        self.reasoning = "".join(thoughts)

    def _block(self, start: int) -> int:
        """Read the block whose content begins at `start`; where the text goes on."""
        try:
            value, end = load_prefix(self.text, start)
            if self.text.startswith("</tool_call>", end):
                self.tags[1] += 1
                self.blocks.append(Block("strict", read_entries(value)))
                return end + len("</tool_call>")
        except StrictJsonError:
            pass  # read again below, with the exact extent of the block
        match = _CALL_TAG.search(self.text, start)
        end = match.start() if match else len(self.text)
        closed = match is not None and match[0] == "</tool_call>"
        self.tags[1] += closed
        self.blocks.append(read_block(self.text[start:end], self.leniency, closed))
        return end + len("</tool_call>") if closed else end


def split_reasoning(text: str) -> tuple[str, str]:
    """What stands in think tags, and the rest of the text."""
    scan = _Scan(text, "strict", _THINK_TAG)
    return scan.reasoning.strip(), "".join(scan.outside)


def _take_fenced_calls(text: str) -> tuple[str, list[Block]]:
    """The calls in marked fences of a turn without tags, and the text without those fences."""
    kept: list[str] = []
    blocks: list[Block] = []
    opened: int | None = None
    for line in text.splitlines(keepends=True):
        mark = line.strip()
        kept.append(line)
        if opened is None and mark in ("```json", "```tool_call"):
            opened = len(kept)
        elif opened is not None and mark == "```":
            if block := _fenced_call("".join(kept[opened:-1])):
                blocks.append(block)
                del kept[opened - 1 :]
            opened = None
    return "".join(kept), blocks


def _fenced_call(body: str) -> Block | None:
    """The block of a fence that holds nothing but calls, written in full."""
    try:
        value = loads(body)
    except StrictJsonError:
        return None
    entries = value if isinstance(value, list) else [value]
    return Block("fenced", read_entries(value)) if entries and all(map(_is_call_object, entries)) else None


def _is_call_object(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    return set(entry) in ({"name", "arguments"}, {"name", "parameters"})


def read_entries(value: Any) -> tuple[RawCall, ...]:
    """The calls of a block's JSON value: an object, or a list of objects."""
    entries = value if isinstance(value, list) else [value]
    if not entries:
        return (RawCall(None, None, "the list holds no call; write at least one object, or a reply without tags"),)
    return tuple(_read_entry(entry) for entry in entries)


def _read_entry(entry: Any) -> RawCall:
    if not isinstance(entry, dict):
        return RawCall(None, None, f"expected an object with name and arguments, got {shorten(entry, 60)}")
    arguments = entry.get("arguments", entry.get("parameters", {}))
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        got = "no name" if "name" not in entry else f"the name {shorten(name, 60)}"
        return RawCall(None, arguments, f'expected {{"name": "<tool>", "arguments": {{…}}}}, got {got}')
    return RawCall(name, arguments)


def read_block(
    inner: str,
    leniency: str = "repaired",
    closed: bool = True,
    entries: Callable[[Any], tuple[RawCall, ...]] = read_entries,
) -> Block:
    """The block with the content `inner`, by the first level that can read it, up to `leniency`.

    Args:
        inner: the text between the marks of the block.
        leniency: the last level to try.
        closed: whether the closing mark is there.
        entries: makes the calls from the block's JSON value.
    """
    try:
        value = loads(inner)
        if closed:
            return Block("strict", entries(value))
        error = "the closing tag </tool_call> is missing"
    except StrictJsonError as failure:
        error = str(failure)
    body, fenced = _without_fence(inner)
    allowed = LEVELS.index(leniency)
    if fenced and closed and allowed >= 1:
        try:
            return Block("fenced", entries(loads(body)))
        except StrictJsonError as failure:
            error = str(failure)
    if allowed >= 2:
        try:
            return Block("repaired", entries(loads(repair(body))))
        except StrictJsonError:
            pass  # the strict reader's message is about the agent's own text
    return Block(None, (RawCall(None, None, error),))


def _without_fence(inner: str) -> tuple[str, bool]:
    """What a Markdown fence around the whole of `inner` holds, and whether there is one."""
    text = inner.strip()
    first, newline, rest = text.partition("\n")
    if newline and first.strip() in ("```", "```json", "```tool_call") and rest.endswith("```"):
        return rest[:-3], True
    return inner, False


def repair(text: str) -> str:
    """The text with the repairs of level `repaired` applied to its tokens; whether it is JSON then is not checked."""
    return _TOKEN.sub(_repair_token, text)


def _repair_token(match: re.Match[str]) -> str:
    double, single, _, trailing_comma, word = match.groups()
    if double is not None:
        return f'"{_escape_control(double)}"'
    if single is not None:
        return f'"{_escape_control(_QUOTE.sub(_requote, single))}"'
    if trailing_comma:
        return ""
    return _PYTHON_WORDS.get(word, word) if word else match[0]


def _requote(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])


def _escape_control(body: str) -> str:
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], body)


def call_json(call: Call) -> str:
    """The JSON object of a call. Tags in its strings are written with an escape: a plain-text search finds none."""
    return safe_json({"name": call.name, "arguments": call.arguments})


def safe_json(value: Any) -> str:
    """JSON in which no string holds a literal tag of this syntax; it decodes to the same value."""
    return OUR_TAGS.sub(r"\\u003c", json.dumps(value, ensure_ascii=False, allow_nan=False))


def join_turn(reasoning: str, reply: str, blocks: str) -> str:
    """A turn's parts in the usual order, empty ones left out."""
    parts = [f"<think>\n{reasoning}\n</think>" if reasoning else "", reply, blocks]
    return "\n".join(part for part in parts if part)


def from_openai(message: dict[str, Any], parser: CallParser | None = None) -> str:
    """The turn text of an OpenAI assistant message with structured `tool_calls`.

    Arguments that are no JSON stay visible as a string, so that validation answers them instead of an exception here.
    """
    calls = []
    for tool_call in message.get("tool_calls") or ():
        function = tool_call.get("function") or {}
        arguments: Any = function.get("arguments") or {}
        if isinstance(arguments, str):
            with contextlib.suppress(StrictJsonError):
                arguments = loads(arguments)
        calls.append(Call(str(function.get("name") or ""), arguments))
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return (parser or HERMES).render(calls, _content_text(message.get("content")), reasoning)


def _content_text(content: Any) -> str:
    """The text of a message's content, which may be a list of typed parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content or ""


def to_openai(text: str, turn: int = 0, parser: CallParser | None = None) -> dict[str, Any]:
    """The OpenAI assistant message of a turn text: calls as `tool_calls` with the ids that the environment answers to.

    Args:
        text: the turn.
        turn: its number in the episode, from 0; part of the ids.
        parser: the syntax; default Hermes.

    An entry that is no call becomes a call of `INVALID_CALL`, since the environment answers it by a tool message.
    Reasoning is left out, as endpoints want it.
    """
    parsed = (parser or HERMES).parse(text)
    message: dict[str, Any] = {"role": "assistant", "content": parsed.reply}
    if parsed.calls:
        message["tool_calls"] = [
            {
                "id": call_id(turn, index),
                "type": "function",
                "function": {"name": call.name or INVALID_CALL, "arguments": canonical(call.arguments)},
            }
            for index, call in enumerate(parsed.calls)
        ]
    return message


def call_id(turn: int, index: int) -> str:
    """The id of the call `index` of the assistant turn `turn`, unique in an episode."""
    return f"call_{turn}_{index}"


HERMES = HermesParser()
