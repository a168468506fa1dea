"""Our own scorer of single-turn replies: BFCL's rules, without BFCL's package.

The rules are those of the official AST checker: the right function, every required parameter, no parameter that the
ground truth does not know, and for each one of the allowed values; `""` among them means that it may be left out.
Strings are compared without case, blanks and the signs `, . / - _ * ^`. Parallel calls may come in any order.

Where the official checker contradicts its own rules, this one keeps them; `docs/bfcl.md` lists these cases:
integers count as floats inside arrays too; truth values are no numbers; quoted elements of Java's String arrays are
read; parallel calls are assigned to the answers in the best way; a broken attempt at a call is never right.
"""

from __future__ import annotations

import re
from typing import Any

from .calls import Call, Reply, Verdict
from .convert import offered_name
from .data import Doc, Entry
from .foreign import foreign_value

_IGNORED = re.compile(r"[ ,./\-_*^]")
_PYTHON = {
    "string": str,
    "any": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
}
_JAVA = {
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": bool,
    "char": str,
    "String": str,
    "any": str,
    "Array": list,
    "ArrayList": list,
    "Queue": list,
    "Stack": list,
    "HashMap": dict,
    "Hashtable": dict,
}
_JAVASCRIPT = {
    "String": str,
    "any": str,
    "integer": int,
    "float": float,
    "Bigint": int,
    "Boolean": bool,
    "array": list,
    "dict": dict,
}
_TYPES: dict[str, dict[str, type]] = {"python": _PYTHON, "java": _JAVA, "javascript": _JAVASCRIPT}
_RIGHT = Verdict(True)


def score_reply(entry: Entry, reply: Reply, prompting: bool = False) -> Verdict:
    """Whether a single-turn reply is right.

    Args:
        entry: what was asked.
        reply: the decoded answer.
        prompting: whether functions were offered under their documented names, dots included.
    """
    if reply.malformed:
        return Verdict(False, "malformed", reply.malformed)
    kind = entry.kind.kind
    if kind == "irrelevance":
        return Verdict(False, "called", "no function fits, but one was called") if reply.calls else _RIGHT
    if kind == "relevance":
        return _RIGHT if reply.calls else Verdict(False, "not_called", "a function fits, but none was called")
    if len(reply.calls) != len(entry.answers):
        return Verdict(False, "wrong_count", f"{len(entry.answers)} calls are right, got {len(reply.calls)}")
    verdicts = [[_score_call(entry, call, answer, prompting) for call in reply.calls] for answer in entry.answers]
    unmatched = _unmatched([[verdict.valid for verdict in row] for row in verdicts])
    if unmatched is None:
        return _RIGHT
    # with several calls the nearest miss says more than the first one
    nearest = max(verdicts[unmatched], key=lambda verdict: verdict.error not in ("", "wrong_name"))
    if nearest.valid:
        return Verdict(False, "wrong_value", f"right call {unmatched} is made only once, but wanted again")
    return nearest


def _unmatched(fits: list[list[bool]]) -> int | None:
    """The first answer that is left over when answers are matched to calls in the best way; None if none is."""
    owner: dict[int, int] = {}  # of each call

    def place(answer: int, tried: set[int]) -> bool:
        for call, fit in enumerate(fits[answer]):
            if fit and call not in tried:
                tried.add(call)
                if call not in owner or place(owner[call], tried):
                    owner[call] = answer
                    return True
        return False

    return next((answer for answer in range(len(fits)) if not place(answer, set())), None)


def _score_call(entry: Entry, call: Call, answer: dict[str, dict[str, list[Any]]], prompting: bool) -> Verdict:
    ((answer_name, allowed),) = answer.items()
    doc = _documentation(entry, answer_name)
    if doc is None:
        return Verdict(False, "wrong_name", f"the ground truth calls {answer_name!r}, which is not offered")
    name = doc["name"] if prompting else offered_name(doc["name"])
    if call.name != name:
        return Verdict(False, "wrong_name", f"the right function is {name!r}, got {call.name!r}")
    schemas = doc["parameters"]["properties"]
    for parameter in doc["parameters"].get("required") or ():
        if parameter not in call.arguments:
            return Verdict(False, "missing_parameter", f"the required {parameter!r} is missing")
    for parameter, value in call.arguments.items():
        if parameter not in schemas or parameter not in allowed:
            return Verdict(False, "unexpected_parameter", f"{parameter!r} does not belong into this call")
        verdict = _score_value(parameter, value, allowed[parameter], schemas[parameter], entry.kind.language)
        if not verdict.valid:
            return verdict
    for parameter, options in allowed.items():
        if parameter not in call.arguments and "" not in options:
            return Verdict(False, "missing_parameter", f"{parameter!r} is missing and has another value by default")
    return _RIGHT


def _documentation(entry: Entry, name: str) -> Doc | None:
    if len(entry.functions) == 1:
        return entry.functions[0]
    return next((doc for doc in entry.functions if doc["name"] == name), None)


def _score_value(parameter: str, value: Any, options: list[Any], schema: dict[str, Any], language: str) -> Verdict:
    expected = _TYPES[language].get(schema.get("type", ""))
    if language != "python":
        if not isinstance(value, str):
            return Verdict(False, "wrong_type", f"{parameter!r} must be {language} source in a string, got {value!r}")
        value = foreign_value(value, schema, language)  # type: ignore[arg-type]
    if schema.get("type") == "tuple" and isinstance(value, tuple):
        value = list(value)
    given_as = _first_type(options)
    if _is(value, expected):
        named = given_as is not None and expected is not None and not _same_type(given_as, expected)
    elif given_as is not None and type(value) is given_as:
        named = True  # a variable of the user, or null
    else:
        wanted = schema.get("type", "any")
        return Verdict(False, "wrong_type", f"{parameter!r} must be of type {wanted}, got {value!r:.200}")
    element_type = (schema.get("items") or {}).get("type", "any")
    element = None if element_type == "any" else _TYPES[language].get(element_type)
    if named:
        right = any(type(option) is type(value) and option == value for option in options)
    else:
        right = any(_matches(value, option, element) for option in options)
    if right:
        return _RIGHT
    return Verdict(False, "wrong_value", f"{parameter!r} must be one of {options!r:.200}, got {value!r:.200}")


def _first_type(options: list[Any]) -> type | None:
    return next((type(option) for option in options if option != ""), None)


def _same_type(first: type, second: type) -> bool:
    return first is second or {first, second} == {int, float}


def _is(value: Any, expected: type | None) -> bool:
    """Whether a value has a type; an integer is a float too, a truth value is only itself."""
    return expected is None or type(value) is expected or (expected is float and type(value) is int)


def _matches(value: Any, option: Any, element: type | None) -> bool:
    """Whether a value of the documented type is the allowed one; `element` is the documented type of a list's items."""
    if isinstance(value, dict) and isinstance(option, dict):
        return _matches_fields(value, option)
    if value == [] and option == "":
        return True  # what may be left out may be empty
    if isinstance(value, list) and isinstance(option, list):
        if len(value) != len(option):
            return False
        if element is dict:
            return all(_matches(mine, theirs, None) for mine, theirs in zip(value, option, strict=True))
        usual = _first_type(option)
        typed = all(_is(item, element) or type(item) is usual for item in value)
        return typed and _equal(value, option)
    return _equal(value, option)


def _matches_fields(value: dict[str, Any], option: dict[str, Any]) -> bool:
    """Whether a dictionary's fields have allowed values; a ground truth has a list of them for each field."""
    for key, item in value.items():
        if key not in option or not any(_equal(item, allowed) for allowed in _allowed(option[key])):
            return False
    return all(key in value or "" in _allowed(allowed) for key, allowed in option.items())


def _allowed(options: Any) -> list[Any]:
    return options if isinstance(options, list) else [options]


def _equal(value: Any, option: Any) -> bool:
    """Equality of plain values: strings by letters and digits, numbers by value, truth values only to themselves."""
    if isinstance(value, str) and isinstance(option, str):
        return standardised(value) == standardised(option)
    if isinstance(value, bool) or isinstance(option, bool):
        return value is option
    if isinstance(value, list) and isinstance(option, list):
        return len(value) == len(option) and all(map(_equal, value, option))
    if isinstance(value, dict) and isinstance(option, dict):
        return value.keys() == option.keys() and all(_equal(item, option[key]) for key, item in value.items())
    return value == option


def standardised(text: str) -> str:
    """A string as BFCL compares it: "April 1, 2024" and "april 1 2024" are the same."""
    return _IGNORED.sub("", text).lower().replace("'", '"')
