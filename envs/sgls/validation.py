"""Calls are checked before any tool sees them: the schemas are the control plane (SGLS, arXiv 2609.29050).

Two degrees of strictness:

* `strict` (default): the tool is known, the arguments are an object, and they fit the tool's JSON Schema in full.
* `paper`: the published checks only: the tool is known, the arguments are an object, nothing required is missing.

Numbers: the schemas' rule is JSON Schema's (2.0 is an integer, `true` is no number, `"2"` is no number). An accepted
2.0 is handed on as 2, which is the same JSON number. With `coerce`, a string that spells the wanted number, boolean or
null is converted, and a number or boolean where a string is wanted is written as one. Every change is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError, UsageError
from .json_strict import StrictJsonError, canonical, loads, shorten
from .parsing import RawCall
from .problems import Problem, join_path, listing, nearest
from .schemas import CompiledSchema, SchemaError, compile_schema
from .tasks import ToolSpec

STRICTNESS = ("strict", "paper")


@dataclass(frozen=True)
class Checked:
    """A call after validation.

    Attributes:
        name: the tool's name as the agent wrote it; None if there is none.
        arguments: what to run the tool with; None unless the call is valid.
        problems: what is wrong; empty if the call is valid.
        changes: conversions that were made, each `{"path", "from", "to"}`.
    """

    name: str | None
    arguments: dict[str, Any] | None
    problems: tuple[Problem, ...] = ()
    changes: tuple[dict[str, Any], ...] = ()

    def error(self) -> dict[str, Any]:
        """The answer to an invalid call, all problems in one; in the form of a tool's own errors."""
        code = self.problems[0].code
        if code not in ("invalid_call", "unknown_tool"):
            code = "invalid_arguments"
        places = [
            f"{problem.path}: {problem.message}" if problem.path else problem.message for problem in self.problems
        ]
        where = f"arguments of {shorten(self.name, 80)}: " if code == "invalid_arguments" else ""
        return {"error": {"code": code, "message": where + "; ".join(places)}}


class Toolbox:
    """The tools of one episode, ready to check calls against. Safe to share between threads.

    Args:
        specs: the tools, with different names.
        strictness: `strict` or `paper`.
        coerce: convert arguments of the wrong type where the meaning is plain.

    Raises:
        UsageError: two tools have one name.
        ConfigError: the strictness is unknown.
        SchemaError: raised by `check_schemas`, not here: schemas are compiled when first needed.
    """

    def __init__(self, specs: Iterable[ToolSpec], strictness: str = "strict", coerce: bool = False):
        if strictness not in STRICTNESS:
            raise ConfigError(f"strictness is {strictness!r}, expected one of {', '.join(STRICTNESS)}")
        self.specs: dict[str, ToolSpec] = {}
        for spec in specs:
            if spec.name in self.specs:
                raise UsageError(f"two tools are named {spec.name!r}: tools shown together need different names")
            self.specs[spec.name] = spec
        self.strictness, self.coerce = strictness, coerce
        self._compiled: dict[str, CompiledSchema] = {}
        self._openai = json.dumps([spec.openai() for spec in self.specs.values()])

    def openai(self) -> list[dict[str, Any]]:
        """The tools as OpenAI's `tools` parameter, a fresh copy."""
        return json.loads(self._openai)

    def check_schemas(self) -> None:
        """Compile all schemas now.

        Raises:
            SchemaError: one cannot be used; the message names the tool.
        """
        for name, spec in self.specs.items():
            try:
                self._schema(name)
                if spec.response is not None:
                    compile_schema(spec.response)
            except SchemaError as error:
                raise SchemaError(f"tool {name!r}: {error}") from None

    def check(self, call: RawCall) -> Checked:
        """Validate one call; never raises on anything an agent wrote."""
        if call.problem is not None or call.name is None:
            return Checked(call.name, None, (Problem("invalid_call", "", call.problem or "the call has no name"),))
        if call.name not in self.specs:
            return Checked(call.name, None, (self._unknown(call.name),))
        if not isinstance(call.arguments, dict):
            return Checked(call.name, None, (_no_object(call.arguments),))
        changes: list[dict[str, Any]] = []
        arguments = _integral(call.arguments, [], changes)
        if self.strictness == "paper":
            problems = self._missing(call.name, arguments)
        else:
            schema = self._schema(call.name)
            problems = schema.problems(arguments)
            if problems and self.coerce:
                arguments, problems = _coerced(schema, arguments, problems, changes)
        if problems:
            return Checked(call.name, None, tuple(problems))
        return Checked(call.name, arguments, (), tuple(changes))

    def _schema(self, name: str) -> CompiledSchema:
        if name not in self._compiled:
            self._compiled[name] = compile_schema(self.specs[name].parameters)
        return self._compiled[name]

    def _unknown(self, name: str) -> Problem:
        near = nearest(name, self.specs)
        hint = f"did you mean {listing(near)}?" if near else f"the tools are {listing(self.specs) or 'none'}"
        return Problem("unknown_tool", "", f"there is no tool {shorten(name, 80)}; {hint}")

    def _missing(self, name: str, arguments: dict[str, Any]) -> list[Problem]:
        required = self.specs[name].parameters.get("required")
        names = required if isinstance(required, list) else []
        return [
            Problem("missing", "", f"{shorten(n, 60)} is required and missing") for n in names if n not in arguments
        ]


def _no_object(arguments: Any) -> Problem:
    message = f"arguments must be an object, got {shorten(arguments, 80)}"
    if isinstance(arguments, str):
        try:
            double = isinstance(loads(arguments), dict)
        except StrictJsonError:
            double = False
        message += "; write the object itself, not a string that holds it" if double else ""
    return Problem("not_object", "", message)


def _integral(value: Any, path: list[Any], changes: list[dict[str, Any]]) -> Any:
    """A copy of `value` in which integral floats are integers; each change is added to `changes`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        changes.append({"path": join_path(path), "from": value, "to": int(value)})
        return int(value)
    if isinstance(value, dict):
        return {key: _integral(item, [*path, key], changes) for key, item in value.items()}
    if isinstance(value, list):
        return [_integral(item, [*path, index], changes) for index, item in enumerate(value)]
    return value


def _coerced(
    schema: CompiledSchema, arguments: dict[str, Any], problems: list[Problem], changes: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments with plain conversions applied, and what is wrong with them then."""
    for path, wanted in schema.type_mismatches(arguments):
        holder: Any = arguments
        for step in path[:-1]:
            holder = holder[step]
        if path:
            converted = _convert(holder[path[-1]], wanted)
            if converted is not holder[path[-1]]:
                changes.append({"path": join_path(path), "from": holder[path[-1]], "to": converted})
                holder[path[-1]] = converted
    return arguments, schema.problems(arguments) if changes else problems


def _convert(value: Any, wanted: Sequence[str]) -> Any:
    """`value` in one of the wanted types if its meaning is plain, otherwise `value` itself."""
    if isinstance(value, str):
        try:
            read = loads(value)
        except StrictJsonError:
            return value
        kinds = {bool: ("boolean",), int: ("integer", "number"), float: ("number",), type(None): ("null",)}
        return read if any(kind in wanted for kind in kinds.get(type(read), ())) else value
    if "string" in wanted and isinstance(value, bool | int | float):
        return canonical(value)
    return value
