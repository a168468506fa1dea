"""Entries of the Berkeley Function-Calling Leaderboard as tasks: tools as JSON Schemas, allowed values as plans.

Names lose their dots, types get JSON Schema's names. The first allowed value of each parameter, other than null, makes
the canonical plan; every other allowed value, and leaving out what may be left out, makes one more plan that differs
there alone, up to `MAX_PLANS`. Java and JavaScript entries become plain JSON tools. Multi-turn entries need simulated
services, and relevance entries have no gold calls: both are refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..json_strict import shorten
from ..tasks import Call, Plan
from .rows import RowError, decode, read_rows

MAX_PLANS = 16
_TYPES = {
    "dict": "object", "hashmap": "object", "hashtable": "object", "map": "object", "object": "object",
    "float": "number", "double": "number", "number": "number",
    "integer": "integer", "int": "integer", "long": "integer", "short": "integer", "byte": "integer",
    "bigint": "integer",
    "array": "array", "arraylist": "array", "tuple": "array", "list": "array", "set": "array",
    "string": "string", "char": "string", "boolean": "boolean", "bool": "boolean",
}  # fmt: skip
_SUBSCHEMAS = ("items", "additionalProperties")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def convert_name(name: str) -> str:
    """A function's name as a tool's name."""
    return _NOT_IN_NAMES.sub("_", name)


def convert_tools(functions: Any) -> list[dict[str, Any]]:
    """The functions of an entry as tool definitions.

    Raises:
        RowError: there is none, or one has no name.
    """
    functions = decode(functions, "the functions")
    functions = [functions] if isinstance(functions, Mapping) else functions
    if not isinstance(functions, list) or not all(isinstance(f, Mapping) and f.get("name") for f in functions):
        raise RowError(f"the functions are {shorten(functions, 60)}, expected a list of objects with a name")
    return [
        {
            "name": convert_name(str(function["name"])),
            "description": str(function.get("description") or ""),
            "parameters": convert_schema(function.get("parameters") or {"type": "dict", "properties": {}}),
        }
        for function in functions
    ]


def convert_schema(schema: Any) -> Any:
    """A parameter description as JSON Schema; a type that JSON does not know, such as `any`, allows everything."""
    if not isinstance(schema, Mapping):
        return schema
    found = {key: value for key, value in schema.items() if key not in ("type", "optional")}
    kind = _TYPES.get(str(schema.get("type", "")).lower())
    if kind:
        found["type"] = kind
    if isinstance(found.get("properties"), Mapping):
        found["properties"] = {name: convert_schema(part) for name, part in found["properties"].items()}
    for key in _SUBSCHEMAS:
        if key in found:
            found[key] = convert_schema(found[key])
    return found


def read_answers(path: Path) -> dict[str, Any]:
    """The ground truth for a file of entries, by id; empty if there is none beside it."""
    answers = path.parent / "possible_answer" / path.name
    if not answers.is_file():
        return {}
    return {str(row["id"]): row["ground_truth"] for _, row in read_rows(answers) if isinstance(row, dict)}


def read_plans(row: Mapping[str, Any], answers: Mapping[str, Any]) -> tuple[Plan, ...]:
    """The equivalent gold plans of an entry.

    Raises:
        RowError: it has none, or is of a kind that is no single-turn task.
    """
    own = str(row.get("id", ""))
    question = decode(row["question"], "the question")
    if not isinstance(question, list) or len(question) != 1 or not isinstance(question[0], list):
        raise RowError("a multi-turn entry: it needs BFCL's simulated services, see `toolcredit bench run bfcl`")
    if "irrelevance" in own:
        return (Plan(),)
    if "relevance" in own:
        raise RowError("a relevance entry: it only asks for some call, there are no gold calls")
    truth = row.get("ground_truth", answers.get(own))
    if not isinstance(truth, list) or not truth:
        raise RowError("no ground truth: the file with the answers belongs in possible_answer/ under the same name")
    allowed = [_allowed(call) for call in truth]
    return tuple(Plan((step,)) for step in _steps(allowed))


def _allowed(call: Any) -> tuple[str, dict[str, list[Any]]]:
    if not isinstance(call, Mapping) or len(call) != 1:
        raise RowError(f"{shorten(call, 60)} is no ground truth, expected one name with its parameters")
    ((name, parameters),) = call.items()
    if not isinstance(parameters, Mapping) or not all(isinstance(v, list) and v for v in parameters.values()):
        raise RowError(f"the ground truth of {name} has a parameter without allowed values")
    return convert_name(name), dict(parameters)


def _steps(allowed: Sequence[tuple[str, Mapping[str, list[Any]]]]) -> Iterator[tuple[Call, ...]]:
    """The canonical step, and those that differ from it in one parameter."""
    chosen = [{key: _first(values) for key, values in parameters.items()} for _, parameters in allowed]

    def step(index: int = -1, key: str = "", value: Any = "") -> tuple[Call, ...]:
        picks = [{**pick, key: value} if at == index else pick for at, pick in enumerate(chosen)]
        return tuple(
            Call(name, {k: _instance(v) for k, v in pick.items() if v != ""})
            for (name, _), pick in zip(allowed, picks, strict=True)
        )

    yield step()
    made = 1
    for index, (_, parameters) in enumerate(allowed):
        for key, values in parameters.items():
            for value in values:
                if value != chosen[index][key] or type(value) is not type(chosen[index][key]):
                    if made == MAX_PLANS:
                        return
                    made += 1
                    yield step(index, key, value)


def _instance(value: Any) -> Any:
    """A value in which each list of allowed values inside an object is replaced by its first."""
    if isinstance(value, Mapping):
        first = {key: _first(part) if isinstance(part, list) and part else part for key, part in value.items()}
        return {key: _instance(part) for key, part in first.items() if part != ""}
    return [_instance(part) for part in value] if isinstance(value, list) else value


def _first(allowed: Sequence[Any]) -> Any:
    """The first allowed value that says something, else "" (left out) if that is allowed, else null."""
    return next((value for value in allowed if value not in ("", None)), "" if "" in allowed else None)
