"""Pythonic calls (Llama 4, Gorilla, BFCL's default): the turn is a list, `[get_weather(city="Rome"), now()]`.

Read by a small grammar of its own and never evaluated: calls of plain or dotted names with keyword arguments, whose
values are strings, numbers, `True`, `False`, `None`, lists, tuples and dictionaries. JSON's `true`, `false` and `null`
are taken too (`repaired`). Python's parser is not used: hostile text can exhaust the stack of some versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from ..json_strict import MAX_DEPTH, StrictJsonError, loads, shorten
from ..parsing import LEVELS, OUR_TAGS, Block, ParsedTurn, RawCall, join_turn, split_reasoning
from ..tasks import Call

_CALLS = re.compile(r"\[\s*[A-Za-z_][\w.]*\s*\(")
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*')"""
    r"""|(?P<number>-?\d[\d.eE+-]*)|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)|(?P<mark>\*\*|[\[\](){},:=])|\Z)""",
    re.DOTALL,
)
_NAME = re.compile(r"[^\W\d]\w*")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "\n": ""}
_JSON_WORDS = {"true": True, "false": False, "null": None}
_ALL_WORDS = {"True": True, "False": False, "None": None, **_JSON_WORDS}


class PythonicParser:
    """Reads and writes lists of Python-style calls."""

    name = "pythonic"

    def parse(self, text: str, leniency: str = "repaired") -> ParsedTurn:
        """Take a turn apart: it is calls if it begins like a list of calls, otherwise it is a reply."""
        reasoning, outside = split_reasoning(text)
        body = outside.strip()
        if not _CALLS.match(body):
            return ParsedTurn(reasoning, body, (), (0, 0))
        return ParsedTurn(reasoning, "", (_read(body, leniency),), (1, 1))

    def render(self, calls: Sequence[Call], reply: str = "", reasoning: str = "") -> str:
        """The list of calls. This syntax has no room for a reply beside calls: with calls it is left out.

        Argument names that are no identifiers go into a `**{…}`.
        """
        body = "[" + ", ".join(map(_render_call, calls)) + "]" if calls else reply
        return join_turn(reasoning, "", OUR_TAGS.sub(r"\\x3c", body) if calls else body)


def _render_call(call: Call) -> str:
    named, others = [], {}
    for key, value in call.arguments.items():
        if _NAME.fullmatch(key) and key not in _ALL_WORDS:
            named.append(f"{key}={value!r}")
        else:
            others[key] = value
    return f"{call.name}({', '.join([*named, *([f'**{others!r}'] if others else [])])})"


def _read(body: str, leniency: str) -> Block:
    try:
        reader = _Reader(body)
        calls = reader.calls()
        if reader.json_words and LEVELS.index(leniency) < LEVELS.index("repaired"):
            raise StrictJsonError("true, false and null are not Python: write True, False, None")
    except StrictJsonError as error:
        return Block(None, (RawCall(None, None, str(error)),))
    return Block("repaired" if reader.json_words else "strict", calls)


class _Reader:
    """Recursive descent over the tokens of a list of calls; the depth is bounded, the time linear."""

    def __init__(self, text: str):
        self.text, self.end = text, 0
        self.json_words = False
        self.kind: str | None = None
        self.token = ""
        self._next()

    def calls(self) -> tuple[RawCall, ...]:
        """The whole text as `[call, …]`."""
        self._take("[")
        calls = [self._call()]
        while self._more("]"):
            calls.append(self._call())
        if self.kind is not None:
            self._fail("the end of the text")
        return tuple(calls)

    def _call(self) -> RawCall:
        name = self._take_kind("name")
        self._take("(")
        arguments: dict[str, Any] = {}
        problem = None
        while not self._closes(")"):
            found = self._argument()
            if found is None:
                problem = "arguments must be given by name: name(key=value)"
            elif set(found) & set(arguments):
                problem = f"the argument {shorten(next(iter(set(found) & set(arguments))), 40)} is given twice"
            else:
                arguments |= found
            if self.kind != "mark" or self.token != ")":
                self._take(",")
        return RawCall(name, arguments, problem)

    def _argument(self) -> dict[str, Any] | None:
        """`key=value` or `**{…}` as a dictionary; None for a value without a name."""
        if self.token == "**":
            self._next()
            value = self._value(0)
            return value if isinstance(value, dict) else None
        if self.kind == "name" and self.token not in _ALL_WORDS:
            key = self.token
            self._next()
            self._take("=")
            return {key: self._value(0)}
        self._value(0)
        return None

    def _value(self, depth: int) -> Any:
        kind, token = self.kind, self.token
        if depth > MAX_DEPTH:
            raise StrictJsonError(f"a value is nested deeper than {MAX_DEPTH} levels")
        if kind == "string":
            self._next()
            text = _ESCAPE.sub(_unescape, token[1:-1])
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins escaped pairs
        if kind == "number":
            self._next()
            return loads(token)
        if kind == "name" and token in _ALL_WORDS:
            self.json_words |= token in _JSON_WORDS
            self._next()
            return _ALL_WORDS[token]
        if kind == "mark" and token in "[(":
            return self._items("]" if token == "[" else ")", depth)
        if kind == "mark" and token == "{":
            return self._dictionary(depth)
        self._fail("a literal value")

    def _items(self, closer: str, depth: int) -> list[Any]:
        self._next()
        items: list[Any] = []
        if self._closes(closer):
            return items
        items.append(self._value(depth + 1))
        while self._more(closer):
            items.append(self._value(depth + 1))
        return items

    def _dictionary(self, depth: int) -> dict[str, Any]:
        self._next()
        found: dict[str, Any] = {}
        if self._closes("}"):
            return found
        more = True
        while more:
            if self.kind != "string":
                self._fail("a string as key")
            key = self._value(depth + 1)
            self._take(":")
            if key in found:
                raise StrictJsonError(f"the key {shorten(key, 40)} occurs twice in one object; give it once")
            found[key] = self._value(depth + 1)
            more = self._more("}")
        return found

    def _closes(self, closer: str) -> bool:
        if self.kind == "mark" and self.token == closer:
            self._next()
            return True
        return False

    def _more(self, closer: str) -> bool:
        """Step over a comma or the closer; whether another item follows."""
        if self._closes(closer):
            return False
        self._take(",")
        return not self._closes(closer)

    def _take(self, mark: str) -> None:
        if self.kind != "mark" or self.token != mark:
            self._fail(repr(mark))
        self._next()

    def _take_kind(self, kind: str) -> str:
        token = self.token
        if self.kind != kind:
            self._fail(f"a {kind}")
        self._next()
        return token

    def _next(self) -> None:
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            self.kind, self.token = "mark", self.text[self.end : self.end + 1]
            self._fail("a name, a literal or a bracket")
        self.end = match.end()
        self.kind = match.lastgroup
        self.token = match[match.lastgroup] if match.lastgroup else ""

    def _fail(self, expected: str) -> NoReturn:
        got = shorten(self.token, 40) if self.kind else "the end of the text"
        raise StrictJsonError(f"not a list of calls: expected {expected} before character {self.end}, got {got}")


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _ESCAPED.get(match[4], match[0])
    return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else "\ufffd"


def read_literal(text: str) -> Any:
    """The JSON value of a Python literal, as `repr` writes it; tuples become lists. Nothing is evaluated.

    Raises:
        StrictJsonError: the text is no literal of strings, numbers, `True`, `False`, `None`, lists and dictionaries.
    """
    reader = _Reader(text)
    value = reader._value(0)
    if reader.kind is not None:
        reader._fail("the end of the text")
    return value
