"""Java and JavaScript values, which models write as text, as the plain values that ground truths hold.

A text that is no value of its parameter's type stays text: it then only equals a ground truth that names a variable.
Strings are read whole, so that commas and brackets in them divide nothing, and an element's quotes are no part of it.
The official converters split at every comma and keep the quotes in Java's String arrays: see docs/bfcl.md.
"""

from __future__ import annotations

import re
from typing import Any

from .categories import Language

_MAX_DEPTH = 32
_MAX_DIGITS = 100
_INTEGER = r"-?\d+"
_DECIMAL = r"-?\d+(?:\.\d+)?"
_EXPONENT = rf"{_DECIMAL}(?:[eE][+-]?\d+)?"
_STRING = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)

_JAVA_NUMBERS = {
    "byte": (_INTEGER, int),
    "short": (_INTEGER, int),
    "integer": (_INTEGER, int),
    "long": (rf"({_INTEGER})[lL]", int),
    "float": (rf"({_EXPONENT})[fF]", float),
    "double": (_EXPONENT, float),
}
_JAVASCRIPT_NUMBERS = {
    "integer": (_INTEGER, int),
    "float": (_DECIMAL, float),
    "Bigint": (rf"({_INTEGER})n", int),
}
_JAVA_ARRAY = re.compile(r"new\s+[\w.]+(?:<[^{}]*>)?\s*\[\s*\]\s*\{(.*)\}", re.DOTALL)
_JAVA_LIST = re.compile(r"new\s+ArrayList\s*<[^(]*>\s*\((?:\s*Arrays\.asList\s*\((.*)\)\s*)?\)", re.DOTALL)
_JAVA_FILLED_LIST = re.compile(r"new\s+ArrayList\s*<[^(]*>\s*\(\s*\)\s*\{\s*\{(.*)\}\s*\}", re.DOTALL)
_JAVA_MAP = re.compile(r"new\s+HashMap\s*<[^(]*>\s*\(\s*\)\s*(?:\{\s*\{?(.*?)\}?\s*\})?", re.DOTALL)
_JAVASCRIPT_ARRAY = re.compile(r"\[(.*)\]|new\s+Array\s*\((.*)\)", re.DOTALL)


def foreign_value(text: str, schema: dict[str, Any], language: Language) -> Any:
    """The value that a Java or JavaScript text stands for.

    Args:
        text: the value as a model wrote it.
        schema: the parameter's documentation, with the language's own type names.
        language: `java` or `javascript`.
    """
    kind, inner = schema.get("type"), schema.get("items") or {}
    return _java(text, kind, inner, 0) if language == "java" else _javascript(text, kind, inner, 0)


def _java(text: str, kind: str | None, inner: dict[str, Any], depth: int) -> Any:
    text = text.strip()
    if kind in _JAVA_NUMBERS:
        return _number(text, *_JAVA_NUMBERS[kind])
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if depth < _MAX_DEPTH and kind in ("Array", "ArrayList"):
        items = _java_items(text, kind)
        return text if items is None else [_java_item(item, inner, depth) for item in items]
    if depth < _MAX_DEPTH and kind == "HashMap" and (found := _JAVA_MAP.fullmatch(text)):
        pairs = [_split(call) for call in _calls(found[1] or "", "put")]
        return {_unquoted(pair[0]): _java_any(pair[1]) for pair in pairs if len(pair) == 2}
    return text


def _java_items(text: str, kind: str) -> list[str] | None:
    """The elements' texts; None if it is no collection of this kind."""
    if kind == "Array":
        found = _JAVA_ARRAY.fullmatch(text)
        return None if found is None else _split(found[1])
    if found := _JAVA_LIST.fullmatch(text):
        return _split(found[1] or "")
    found = _JAVA_FILLED_LIST.fullmatch(text)
    return None if found is None else _calls(found[1], "add")


def _java_item(text: str, schema: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if kind in ("String", "char"):
        return _unquoted(text)
    if kind in (None, "any"):
        return _java_any(text)
    return _java(text, kind, schema.get("items") or {}, depth + 1)


def _java_any(text: str) -> Any:
    """A value of unknown type, by its form."""
    if _STRING.fullmatch(text):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    for kind in ("integer", "long", "float", "double"):
        value = _number(text, *_JAVA_NUMBERS[kind])
        if not isinstance(value, str):
            return value
    return text


def _javascript(text: str, kind: str | None, inner: dict[str, Any], depth: int) -> Any:
    text = text.strip()
    if kind == "String":
        return _unquoted(text)
    if kind in _JAVASCRIPT_NUMBERS:
        return _number(text, *_JAVASCRIPT_NUMBERS[kind])
    if kind == "Boolean":
        return {"true": True, "false": False}.get(text, text)
    if depth < _MAX_DEPTH and kind == "array" and (found := _JAVASCRIPT_ARRAY.fullmatch(text)):
        items = _split(found[1] if found[1] is not None else found[2])
        known = inner.get("type") in ("String", "Boolean", "array", "dict", *_JAVASCRIPT_NUMBERS)
        if known:
            return [_javascript(item, inner["type"], inner.get("items") or {}, depth + 1) for item in items]
        return [_javascript_any(item, depth + 1) for item in items]
    if depth < _MAX_DEPTH and kind == "dict" and text.startswith("{") and text.endswith("}"):
        pairs = [item.partition(":") for item in _split(text[1:-1])]
        return {_unquoted(key.strip()): _javascript_any(value.strip(), depth + 1) for key, _, value in pairs}
    return text


def _javascript_any(text: str, depth: int) -> Any:
    if _STRING.fullmatch(text):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    if text.startswith(("[", "{")):
        return _javascript(text, "array" if text[0] == "[" else "dict", {}, depth)
    value = _number(text, _INTEGER, int)
    return _number(text, _EXPONENT, float) if isinstance(value, str) else value


def _number(text: str, pattern: str, convert: type) -> Any:
    found = re.fullmatch(pattern, text) if len(text) <= _MAX_DIGITS else None
    return convert(found[1] if found.re.groups else found[0]) if found else text


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if _STRING.fullmatch(text) else text


def _split(text: str) -> list[str]:
    """The parts between the commas that stand outside strings and brackets, empty ones left out."""
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        sign = text[position]
        if sign in "\"'" and (string := _STRING.match(text, position)):
            position = string.end()
            continue
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
        position += 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _calls(text: str, name: str) -> list[str]:
    """What stands in the brackets of each `name(…);`."""
    inner, position = [], 0
    opening = re.compile(rf"\s*{name}\s*\(")
    while found := opening.match(text, position):
        depth, position = 1, found.end()
        start = position
        while position < len(text) and depth:
            if text[position] in "\"'" and (string := _STRING.match(text, position)):
                position = string.end()
                continue
            depth += (text[position] in "([{") - (text[position] in ")]}")
            position += 1
        inner.append(text[start : position - 1].strip())
        position += len(re.match(r"[\s;]*", text[position:])[0])  # type: ignore[index]
    return inner
