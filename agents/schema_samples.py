"""Random values that fit a JSON Schema, for agents that make valid calls at random.

Covers what schemas of tools use: types, enums, constants, bounds, lengths, simple patterns, dates and times, arrays,
objects, alternatives, local references. A value for a schema with anything else may not fit it. No schema makes it
raise, or makes a huge value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

_MAX_DEPTH = 8
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jade")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_TYPES = ("object", "array", "integer", "number", "boolean", "null", "string")
_CLASSES = {"d": _DIGITS, "w": _LETTERS + _LETTERS.upper() + _DIGITS + "_", "s": " "}
_MOST_REPEATS, _MOST_ITEMS, _MOST_CHARS, _MOST_PARTS = 4, 64, 4_096, 2_000
_LARGEST = 1e15


def sample(schema: Any, rng: Random) -> Any:
    """A random value that fits the schema."""
    return _Sampler(schema, rng).value(schema, 0)


class _Sampler:
    def __init__(self, root: Any, rng: Random):
        self.root, self.rng = root, rng
        self.parts = 0

    def value(self, schema: Any, depth: int) -> Any:
        self.parts += 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self.parts > _MOST_PARTS:
            return self.rng.choice(_WORDS)
        if "$ref" in schema:
            return self.value(self._resolve(str(schema["$ref"])), depth + 1)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self.rng.choice(schema["enum"])
        for keyword in ("anyOf", "oneOf"):
            if options := _mappings(schema.get(keyword)):
                return self.value({**schema, keyword: None, **self.rng.choice(options)}, depth + 1)
        if parts := _mappings(schema.get("allOf")):
            return self.value({**schema, "allOf": None, **{k: v for part in parts for k, v in part.items()}}, depth + 1)
        kind = schema.get("type")
        kind = self.rng.choice(kind) if isinstance(kind, list) and kind else kind
        if kind in _TYPES:
            return getattr(self, f"_{kind}")(schema, depth)
        return self._object(schema, depth) if "properties" in schema else self._string(schema, depth)

    def _resolve(self, reference: str) -> Any:
        found = self.root
        for part in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        required = schema.get("required")
        names = list(properties) if isinstance(properties, Mapping) else []
        wanted = required if isinstance(required, list) else []
        chosen = [name for name in names if name in wanted or self.rng.random() < 0.3]
        return {name: self.value(properties[name], depth + 1) for name in chosen}  # type: ignore[index]

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        low = min(_whole(schema.get("minItems"), 1), _MOST_ITEMS)
        high = max(low, min(_whole(schema.get("maxItems"), low + 2), low + 2))
        items: list[Any] = []
        for _ in range(self.rng.randint(low, high)):
            item = self.value(schema.get("items"), depth + 1)
            if schema.get("uniqueItems") is not True or item not in items:
                items.append(item)
        return items

    def _integer(self, schema: Mapping[str, Any], depth: int) -> int:
        low, high = _bounds(schema, 1)
        step = _whole(schema.get("multipleOf"), 1) or 1
        first, last = math.ceil(low / step), math.floor(high / step)
        return step * self.rng.randint(first, max(first, last))

    def _number(self, schema: Mapping[str, Any], depth: int) -> float | int:
        low, high = _bounds(schema, 0.01)
        if schema.get("multipleOf"):
            return self._integer({**schema, "minimum": low, "maximum": high}, depth)
        return min(high, max(low, round(self.rng.uniform(low, high), 2)))

    def _boolean(self, schema: Mapping[str, Any], depth: int) -> bool:
        return self.rng.random() < 0.5

    def _null(self, schema: Mapping[str, Any], depth: int) -> None:
        return None

    def _string(self, schema: Mapping[str, Any], depth: int) -> str:
        moment = f"{self.rng.randint(2024, 2027)}-{self.rng.randint(1, 12):02}-{self.rng.randint(1, 28):02}"
        time = f"{self.rng.randrange(24):02}:{self.rng.randrange(60):02}:00"
        known = {"date": moment, "time": f"{time}Z", "date-time": f"{moment}T{time}Z", "email": "someone@example.org",
                 "uri": "https://example.org/", "hostname": "example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
                 "uuid": "00000000-0000-4000-8000-000000000000"}  # fmt: skip
        if isinstance(schema.get("format"), str) and schema["format"] in known:
            return known[schema["format"]]
        if isinstance(schema.get("pattern"), str):
            return sample_pattern(schema["pattern"], self.rng)
        low, high = (
            _whole(schema.get(key), default) for key, default in (("minLength", 0), ("maxLength", _MOST_CHARS))
        )
        low = min(low, _MOST_CHARS)
        text = self.rng.choice(_WORDS)
        return (text * (low // len(text) + 1))[: max(low, min(len(text), high))]


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    """A finite number of sensible size, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        return None
    return value


def _whole(value: Any, default: int) -> int:
    """A whole number of at least 0."""
    number = _number(value)
    return default if number is None else max(0, int(number))


def _bounds(schema: Mapping[str, Any], step: float) -> tuple[float, float]:
    """Least and greatest value; exclusive bounds moved by one step."""
    found: list[float | None] = []
    for inclusive, exclusive, move in (("minimum", "exclusiveMinimum", step), ("maximum", "exclusiveMaximum", -step)):
        bound, beyond = _number(schema.get(inclusive)), _number(schema.get(exclusive))
        if beyond is not None:
            bound = beyond + move
        elif schema.get(exclusive) is True and bound is not None:  # as draft 4 writes it
            bound += move
        found.append(bound)
    low, high = found
    if low is None:
        low = 0.0 if high is None or high >= 0 else high - 100
    return low, max(low, low + 100 if high is None else high)


def sample_pattern(pattern: str, rng: Random) -> str:
    """A text that matches a simple pattern: literals, classes, groups, alternatives, and counts.

    What is not understood stands for itself, so that the text may not match a pattern with anything else.
    """
    return _Pattern(pattern[:_MOST_CHARS], rng).alternatives(0)


class _Pattern:
    """One pass over a pattern, which makes the text while it reads."""

    def __init__(self, pattern: str, rng: Random):
        self.pattern, self.rng, self.at = pattern, rng, 0
        self.parts = 0

    def alternatives(self, depth: int) -> str:
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return self.rng.choice(options)

    def _sequence(self, depth: int) -> str:
        made = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            start = self.at
            first = self._atom(depth)
            end = self.at
            low, high = self._count()
            after = self.at
            repeats = self.rng.randint(low, max(low, min(high, low + _MOST_REPEATS)))
            made += [first] if repeats else []
            for _ in range(min(repeats, _MOST_ITEMS) - 1):  # each repetition is drawn anew
                if self.parts > _MOST_PARTS:
                    break
                self.at = start
                made.append(self._atom(depth))
                self.at = end
            self.at = after
        return "".join(made)

    def _atom(self, depth: int) -> str:
        char = self.pattern[self.at]
        self.at += 1
        self.parts += 1
        if char in "^$" or (char == "(" and depth > _MAX_DEPTH):
            return ""
        if char == "(":
            if self._take("?"):
                self._take(":")
            inner = self.alternatives(depth + 1)
            self._take(")")
            return inner
        if char == "[":
            return self.rng.choice(self._class() or "x")
        if char == "\\":
            return self.rng.choice(self._escape())
        return self.rng.choice(_LETTERS) if char == "." else char

    def _escape(self) -> str:
        """The characters that the escape here stands for."""
        char = self.pattern[self.at : self.at + 1]
        self.at += 1
        return _CLASSES.get(char, char or "\\")

    def _class(self) -> str:
        excluded = self._take("^")
        chars: list[str] = []
        while self.at < len(self.pattern) and not self._take("]"):
            char = self.pattern[self.at]
            self.at += 1
            if char == "\\":
                chars += self._escape()
            elif self.pattern[self.at : self.at + 1] == "-" and self.pattern[self.at + 1 : self.at + 2] not in (
                "]",
                "",
            ):
                last = self.pattern[self.at + 1]
                self.at += 2
                chars += map(chr, range(ord(char), min(ord(last), ord(char) + 127) + 1))
            else:
                chars.append(char)
        known = _LETTERS + _DIGITS
        return "".join(c for c in known if c not in chars) if excluded else "".join(chars)

    def _count(self) -> tuple[int, int]:
        """How often the last atom may occur, at least and at most."""
        many = 1 << 16
        for mark, counts in (("?", (0, 1)), ("*", (0, many)), ("+", (1, many))):
            if self._take(mark):
                return counts
        end = self.pattern.find("}", self.at)
        if self.pattern[self.at : self.at + 1] == "{" and end > 0:
            low, comma, high = self.pattern[self.at + 1 : end].partition(",")
            if low.isdigit() and (high.isdigit() or not high):
                self.at = end + 1
                return int(low), int(high) if high else many if comma else int(low)
        return 1, 1

    def _take(self, mark: str) -> bool:
        if self.pattern[self.at : self.at + 1] == mark:
            self.at += 1
            return True
        return False


def arguments(tools: Sequence[Mapping[str, Any]], rng: Random) -> tuple[str, dict[str, Any]]:
    """A random tool of `info["tools"]` and arguments that fit its schema."""
    function = rng.choice(tools)["function"]
    drawn = sample({"type": "object", **function.get("parameters", {})}, rng)
    return function["name"], drawn if isinstance(drawn, dict) else {}
