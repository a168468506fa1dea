"""Java and JavaScript: the one call of an answer in the prompting mode, and values that are written as text.

A text that is no value of its parameter's type stays text: it then only equals a ground truth that names a variable.
Strings are read whole, so that commas and brackets in them divide nothing, and an element's quotes are no part of it.
The official converters split at every comma and keep the quotes in Java's String arrays: see docs/bfcl.md.
"""

from __future__ import annotations

import re
from typing import Any

from .calls import Call, NotCalls, Reply
from .categories import Language
from .pythonic import bracketed

_MAX_DEPTH = 32
_MAX_DIGITS = 100
_INTEGER = r"-?\d+"
_DECIMAL = r"-?\d+(?:\.\d+)?"
_EXPONENT = rf"{_DECIMAL}(?:[eE][+-]?\d+)?"
_STRING = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)

_NAME = re.compile(r"\s*([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)\s*\(")
_ARGUMENT = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*=(?![=>])")
_NO_EXPRESSION = re.compile(
    r"(?<![\w$.])(?!(?:new|async|function|await|typeof|void|return|const|let|var|in|of|instanceof|final|if|else|throw|case)\b)"
    r"[\w$.]+[ \t]+(?!(?:in|of|instanceof)\b)[\w$]|^[^?{]*:|[@#]|[\]}]\s*\w|[-.+*/=&|<,!~^%]$"
)
_END_OF_CALL = re.compile(r"\s*\)")

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
_JAVA_LIST = re.compile(r"new\s+ArrayList\s*<[^(]*>\s*\(")
_JAVA_AS_LIST = re.compile(r"\s*Arrays\.asList\s*\((.*)\)\s*", re.DOTALL)
_JAVA_MAP = re.compile(r"new\s+HashMap\s*<[^(]*>\s*\(\s*\)")
_SEPARATORS = re.compile(r"[\s;]*")
_JAVASCRIPT_ARRAY = re.compile(r"\[(.*)\]|new\s+Array\s*\((.*)\)", re.DOTALL)


def foreign_calls(text: str) -> Reply:
    """The one call of a Java or JavaScript answer, its values as text; none for an empty list.

    Raises:
        NotCalls: the answer is no call.
    """
    body = bracketed(text)[1:-1]
    return Reply((_call(body),) if body.strip() else ())


def _call(text: str) -> Call:
    start = _NAME.match(text)
    if start is None:
        raise NotCalls("no call at the beginning of the answer")
    arguments: dict[str, str] = {}
    position, closed = start.end(), False
    while not closed:
        name = _ARGUMENT.match(text, position)
        if name is None and not arguments and (end := _END_OF_CALL.match(text, position)):
            position = end.end()
            break
        if name is None or name[1] in arguments:
            raise NotCalls(f"an argument of {start[1]} has no name, or a name is given twice")
        end_of_value, closed = _end_of_value(text, name.end())
        arguments[name[1]] = _source_value(text[name.end() : end_of_value].strip())
        position = end_of_value + 1
    if text[position:].strip(" ;\n\t"):
        raise NotCalls("more text after the call")
    return Call(start[1], arguments)


def _end_of_value(text: str, start: int) -> tuple[int, bool]:
    """Where the argument ends whose value begins at `start`, and whether the call ends there.

    A comma ends it only where a name and `=` follow: generics like `HashMap<String, Object>` hold commas too.
    """
    depth, quote, position = 0, "", start
    while position < len(text):
        sign = text[position]
        if quote:
            position += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "\"'`":
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
            if depth < 0:
                return position, True
            if depth == 0 and sign == "," and _ARGUMENT.match(text, position + 1):
                return position, False
        position += 1
    raise NotCalls("a string or a bracket is not closed")


def _source_value(text: str) -> str:
    """A value's text without the quotes of a string."""
    if _STRING.fullmatch(text):
        return text[1:-1]
    if not is_expression(text):
        raise NotCalls(f"{text[:60]!r} is no expression; a string needs quotes")
    return text


def is_expression(text: str) -> bool:
    """Whether a text may be a Java or JavaScript expression.

    It is none if it is empty, ends in an operator, lacks one between two words, or holds a sign that none has.
    """
    return bool(text) and not _NO_EXPRESSION.search(_STRING.sub("''", text))


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
    if depth < _MAX_DEPTH and kind == "HashMap" and (found := _JAVA_MAP.match(text)):
        body = _initialiser(text[found.end() :])
        if body is not None:
            pairs = [_split(call) for call in _calls(body, "put")]
            return {_unquoted(pair[0]): _java_any(pair[1]) for pair in pairs if len(pair) == 2}
    return text


def _java_items(text: str, kind: str) -> list[str] | None:
    """The elements' texts; None if it is no collection of this kind."""
    if kind == "Array":
        found = _JAVA_ARRAY.fullmatch(text)
        return None if found is None else _split(found[1])
    found = _JAVA_LIST.match(text)
    if found is None:
        return None
    rest = text[found.end() :].lstrip()
    if not rest.startswith(")"):
        given = _JAVA_AS_LIST.fullmatch(rest[:-1]) if rest.endswith(")") else None
        return None if given is None else _split(given[1])
    body = _initialiser(rest[1:])
    return None if body is None else _calls(body, "add")


def _initialiser(text: str) -> str | None:
    """What stands in the one or two braces after a constructor; "" without braces, None if something else is there."""
    text = text.strip()
    for _ in range(2):
        if text.startswith("{") and text.endswith("}"):
            text = text[1:-1].strip()
    return text if not text or text.endswith((";", ")")) else None


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
        position = _SEPARATORS.match(text, position).end()  # type: ignore[union-attr]
    return inner
