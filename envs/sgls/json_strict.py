"""JSON from a model, an endpoint or a file: one strict reader, and one canonical form for keys.

`json.loads` takes more than JSON and fails in ways that are not about JSON. Here, what is not interoperable JSON is
refused with a text that a model can act on: NaN and Infinity, numbers beyond a double, integers of more than
`MAX_DIGITS` digits, duplicate keys, lone surrogates, and anything too long or nested too deep. Every refusal is a
`StrictJsonError`; nothing else leaks. The depth is checked before the parser runs, by a scan without recursion.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, NoReturn

from ...errors import UsageError

MAX_CHARS = 262_144
MAX_DEPTH = 64
#: enough for a 256-bit integer, and far below the largest double (309 digits), so that int-to-float never overflows
MAX_DIGITS = 100

# An unterminated string runs to the end: otherwise each quote in it would be tried again, in quadratic time.
_BRACKET_OR_STRING = re.compile(r'[\[{\]}]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile("[\ud800-\udfff]")


class StrictJsonError(UsageError):
    """The text is not strict JSON; the message says what is wrong and where."""


def loads(text: str, *, max_chars: int = MAX_CHARS, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON text.

    Args:
        text: one JSON value, with white space around it at most.
        max_chars: longest text taken.
        max_depth: deepest nesting of arrays and objects taken.

    Raises:
        StrictJsonError: the text is not strict JSON, or is too long or too deep.
    """
    if len(text) > max_chars:
        raise StrictJsonError(f"the JSON text has {len(text):,} characters, at most {max_chars:,} are taken; send less")
    value, end = load_prefix(text, 0, max_depth=max_depth)
    if end < len(text):
        raise StrictJsonError(f"extra text after the JSON value at character {end}: {shorten(text[end:], 40)}")
    return value


def load_prefix(text: str, start: int, *, max_depth: int = MAX_DEPTH) -> tuple[Any, int]:
    """The JSON value at `start` (after white space), and where the text goes on after it and its white space.

    Linear in the text that is left; the caller bounds its length.

    Raises:
        StrictJsonError: no strict JSON value begins there.
    """
    start = _after_space(text, start)
    _check_depth(text, start, max_depth)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        near = shorten(text[error.pos : error.pos + 24], 32)
        what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        raise StrictJsonError(f"not JSON: {what} at character {error.pos - start}, near {near}") from None
    if "\\u" in text[start:end] or not _is_utf8(text[start:end]):
        _refuse_surrogates(value)
    return value, _after_space(text, end)


def canonical(value: Any) -> str:
    """The canonical text of a JSON value: sorted keys, no white space, 2.0 written as 2. Equal values, equal text.

    Raises:
        StrictJsonError: the value holds something that is not JSON (NaN, infinity, other types), or is too deep.
    """
    try:
        return json.dumps(_plain(value, 0), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StrictJsonError(f"not a JSON value: {error}") from None


def digest(value: Any) -> str:
    """SHA-256 hex of the canonical text of a JSON value."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def shorten(value: Any, limit: int = 80) -> str:
    """A short JSON rendering of any value for messages; the middle is cut out when it is longer than `limit`."""
    if isinstance(value, str):
        value = value if len(value) <= 2 * limit else value[:limit] + "…" + value[-limit:]
    elif isinstance(value, list | dict) and len(value) > limit:
        kind = "array" if isinstance(value, list) else "object"
        return f"{kind} of {len(value)} entries"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"<{type(value).__name__}>"
    return cut_middle(text, limit)


def cut_middle(text: str, limit: int) -> str:
    """`text`, or its two ends with a mark between them, at most `limit` characters in all (`limit` ≥ 16)."""
    if len(text) <= limit:
        return text
    mark = f"…[{len(text) - limit} cut]…"
    if limit <= len(mark) + 8:
        mark = "…"
    head = (limit - len(mark) + 1) // 2
    return text[:head] + mark + text[len(text) - (limit - len(mark) - head) :]


def without_surrogates(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD, so that it can be written as UTF-8."""
    return _SURROGATE.sub("�", text)


def _plain(value: Any, depth: int) -> Any:
    """A copy in which integral floats are integers (those that are exact) and only JSON types occur."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StrictJsonError(f"not a JSON value: {value}")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value is None or isinstance(value, str | int):
        return value
    if depth >= 2 * MAX_DEPTH:
        raise StrictJsonError(f"the JSON is nested deeper than {2 * MAX_DEPTH} levels")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise StrictJsonError("not a JSON value: an object key is not a string")
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    raise StrictJsonError(f"not a JSON value: {type(value).__name__}")


def _after_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _check_depth(text: str, start: int, max_depth: int) -> None:
    if text[start : start + 1] not in ("[", "{"):
        return
    # the usual short call: too few brackets to be deep, and counting is faster than scanning
    if len(text) - start <= 4096 and text.count("[", start) + text.count("{", start) <= max_depth:
        return
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text, start):
        token = text[match.start()]
        if token in "[{":
            depth += 1
            if depth > max_depth:
                raise StrictJsonError(f"the JSON is nested deeper than {max_depth} levels; flatten it")
        elif token in "]}":
            depth -= 1
            if depth == 0:
                return


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_surrogates(value: Any) -> None:
    """Raise if a string in `value`, whose depth is bounded, holds half of a surrogate pair."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise StrictJsonError("a string holds half of a surrogate pair; write the whole character")
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_surrogates(key)
            _refuse_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_surrogates(item)


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise StrictJsonError(f"an integer has more than {MAX_DIGITS} digits: {cut_middle(text, 24)}")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise StrictJsonError(f"the number {cut_middle(text, 24)} is out of range; the largest is about 1.8e308")
    return value


def _constant(text: str) -> NoReturn:
    raise StrictJsonError(f"{text} is not JSON; use a number, or null for no value")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise StrictJsonError(f"the key {shorten(double, 40)} occurs twice in one object; give it once")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)
