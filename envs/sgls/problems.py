"""What is wrong with a call or a value, in words that a model can act on: where, what was expected, what was given."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from jsonschema.exceptions import ValidationError

from .formats import FORMATS
from .json_strict import shorten

_MAX_NAMES = 12
_BOUNDS = {
    "minimum": "a number of at least",
    "maximum": "a number of at most",
    "exclusiveMinimum": "a number above",
    "exclusiveMaximum": "a number below",
    "multipleOf": "a multiple of",
}
_SIZES = {
    "minLength": ("at least", "characters"),
    "maxLength": ("at most", "characters"),
    "minItems": ("at least", "items"),
    "maxItems": ("at most", "items"),
    "minProperties": ("at least", "properties"),
    "maxProperties": ("at most", "properties"),
}
_CODES = {
    "additionalProperties": "extra",
    "additionalItems": "extra",
    "required": "missing",
    "dependentRequired": "missing",
    "const": "enum",
    "None": "extra",
    **dict.fromkeys(_BOUNDS, "range"),
    **dict.fromkeys(_SIZES, "size"),
}
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        code: a stable word: `not_json`, `not_object`, `unknown_tool`, `missing`, `extra`, `type`, `enum`, `range`,
            `size`, `pattern`, `format`, `too_costly`, or the JSON Schema keyword that failed.
        path: where, like `items[0].qty`; empty for the whole.
        message: what was expected and what was given.
    """

    code: str
    path: str
    message: str

    def to_json(self) -> dict[str, str]:
        """The fields as plain JSON."""
        return asdict(self)


def describe(error: ValidationError) -> Problem:
    """The problem that a validation error of `schemas` stands for."""
    keyword = str(error.validator)
    return Problem(_CODES.get(keyword, keyword), join_path(error.absolute_path), _message(keyword, error))


def join_path(steps: Iterable[Any]) -> str:
    """`["items", 0, "qty"]` as `items[0].qty`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shorten(step, 40)}]"
    return text


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The most similar of the known names."""
    by_key = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name[:64].lower(), by_key, n=count, cutoff=0.6)
    return [by_key[key] for key in near]


def listing(names: Iterable[Any], limit: int = _MAX_NAMES) -> str:
    """`"a", "b", …` with at most `limit` of the values."""
    values = list(names)
    text = ", ".join(shorten(value, 40) for value in values[:limit])
    return text + (f", … ({len(values) - limit} more)" if len(values) > limit else "")


def _message(keyword: str, error: ValidationError) -> str:
    expected, given = error.validator_value, error.instance
    got = f"got {shorten(given, 60)}"
    if keyword == "required":
        return _missing(error.message, error.schema)
    if keyword == "additionalProperties":
        return _extra(error.message, error.schema)
    if keyword == "type":
        kinds = [expected] if isinstance(expected, str) else list(expected)
        return f"expected {' or '.join(map(_with_article, kinds))}, got {_kind(given)}{_value_of(given)}"
    if keyword == "enum":
        near = nearest(given, (v for v in expected if isinstance(v, str)), 1) if isinstance(given, str) else []
        hint = f"; did you mean {shorten(near[0], 40)}?" if near else ""
        return f"expected one of {listing(expected)}, {got}{hint}"
    if keyword == "const":
        return f"expected {shorten(expected, 60)}, {got}"
    if keyword in _BOUNDS:
        return f"expected {_BOUNDS[keyword]} {shorten(expected, 40)}, {got}"
    if keyword in _SIZES:
        bound, what = _SIZES[keyword]
        return f"expected {bound} {expected} {what}, got {len(given)}"
    if keyword == "pattern":
        return f"expected text that matches {shorten(expected, 80)}, {got}"
    if keyword == "format":
        return f"expected {FORMATS[expected].expected}, {got}"
    if keyword == "uniqueItems":
        return "expected items that all differ, got equal ones"
    if keyword in ("anyOf", "oneOf"):
        return _alternatives(keyword, error, got)
    if keyword == "not":
        return f"is a value that the schema excludes, {got}"
    if keyword == "None":
        return f"is not allowed here, {got}"
    return shorten(error.message, 160).strip('"')


def _missing(name: str, schema: Any) -> str:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    part = properties.get(name) if isinstance(properties, dict) else None
    what = f" ({_brief(part)})" if isinstance(part, dict) and _brief(part) else ""
    return f"{shorten(name, 60)} is required{what} and missing"


def _brief(schema: dict[str, Any]) -> str:
    """What a subschema wants, in a few words."""
    if isinstance(schema.get("enum"), list):
        return f"one of {listing(schema['enum'], 6)}"
    kind, text = schema.get("type"), schema.get("description")
    words = [_with_article(kind) if isinstance(kind, str) else "", shorten(text, 60).strip('"') if text else ""]
    return ": ".join(word for word in words if word)


def _extra(name: str, schema: Any) -> str:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    known = list(properties) if isinstance(properties, dict) else []
    near = nearest(name, known, 1)
    hint = f"did you mean {shorten(near[0], 60)}?" if near else f"known: {listing(known) or 'none'}"
    return f"{shorten(name, 60)} is not a known name; {hint}"


def _alternatives(keyword: str, error: ValidationError, got: str) -> str:
    if not error.context:
        return f"fits more than one of the alternatives, exactly one is expected, {got}"
    first: dict[Any, str] = {}
    for part in error.context:
        branch = part.schema_path[0] if part.schema_path else 0
        if branch not in first:
            where = join_path(part.path)
            first[branch] = f"{where + ': ' if where else ''}{_message(str(part.validator), part)}"
    reasons = list(dict.fromkeys(first.values()))
    return f"fits none of the {len(first)} alternatives: {'; or '.join(reasons[:3])}"


def _with_article(kind: str) -> str:
    return {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}.get(kind, f"a {kind}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "the boolean"
    if isinstance(value, int | float):
        return "the number"
    if isinstance(value, str):
        return "the string"
    return "an array" if isinstance(value, list) else "an object"


def _value_of(value: Any) -> str:
    return "" if value is None or isinstance(value, list | dict) else f" {shorten(value, 60)}"
