"""JSON Schemas that nobody vouches for: checked and compiled once, then validated against within a bounded effort.

A schema comes from a tool server, a data file or a model, a value from an agent. So:

* the draft is the one of `$schema`, 2020-12 without it; the schema is checked against its meta-schema when loaded;
* references are local (`#…`) and resolved at load; nothing is ever fetched;
* a reference cycle that consumes no part of the value, and a schema that unfolds exponentially, are refused at load;
* patterns run in linear time (`patterns`), `uniqueItems` too, and a validation that takes more than `EFFORT` steps is
  given up with a problem that says so;
* one rule for numbers in every draft: 2.0 is an integer, `true` is no number, `"2"` is no number;
* `format` is checked for date, time, date-time, email, hostname, ipv4, ipv6, uri and uuid, and is a comment otherwise.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, lru_cache
from threading import Lock
from typing import Any
from urllib.parse import unquote

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError
from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing import Registry

from ...errors import UsageError
from .formats import FORMATS
from .json_strict import MAX_DEPTH, StrictJsonError, canonical, shorten
from .patterns import LinearPattern, PatternError
from .problems import Problem, describe

#: steps of one validation; usual ones take some dozens, and this many take well under a second
EFFORT = 50_000
MAX_SCHEMA_CHARS = 262_144
MAX_UNFOLDED = 2_000
_MAX_CACHED = 1_024
_MAX_NAMED = 10

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_INTO = ("additionalProperties", "additionalItems", "contains", "propertyNames", "items")
_INTO_LISTS = ("prefixItems", "items")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_UNSUPPORTED = {
    "$dynamicRef": "$ref",
    "$recursiveRef": "$ref",
    "unevaluatedProperties": "additionalProperties",
    "unevaluatedItems": "items",
}
_DRAFTS = {
    "json-schema.org/draft-04/schema": jsonschema.Draft4Validator,
    "json-schema.org/draft-06/schema": jsonschema.Draft6Validator,
    "json-schema.org/draft-07/schema": jsonschema.Draft7Validator,
    "json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}


class SchemaError(UsageError):
    """A schema is broken, or is one that is refused for safety; the message says where and why."""


class _GivenUp(Exception):
    """The validation took too many steps."""


class CompiledSchema:
    """A checked schema. Safe to share between threads; get one from `compile_schema`, which remembers it."""

    def __init__(self, schema: dict[str, Any] | bool):
        self.schema = schema
        draft = _bounded(_draft(schema))
        problems = _problems(draft(draft.META_SCHEMA, registry=SPECIFICATIONS), schema, 1)
        if problems:
            where = f" at {problems[0].path}" if problems[0].path else ""
            raise SchemaError(f"not a valid JSON Schema{where}: {problems[0].message}")
        _Walk(schema).check()
        self._validator = draft(schema, registry=Registry())

    def problems(self, value: Any, limit: int = 10) -> list[Problem]:
        """What is wrong with `value`, a JSON value of bounded depth; at most `limit` problems, empty if it is valid."""
        return _problems(self._validator, value, limit)

    def type_mismatches(self, value: Any) -> list[tuple[list[Any], list[str]]]:
        """Path and wanted types of each part of `value` that has another type (alternatives by type included)."""
        found = []
        for error in _errors(self._validator, value, 100)[0]:
            parts = error.context or () if error.validator == "anyOf" else (error,)
            wanted: list[str] = []
            for part in parts:
                if part.validator == "type" and part.absolute_path == error.absolute_path:
                    kinds = part.validator_value
                    wanted += [kinds] if isinstance(kinds, str) else kinds
            if wanted:
                found.append((list(error.absolute_path), wanted))
        return found


def _problems(validator: Any, value: Any, limit: int) -> list[Problem]:
    errors, finished = _errors(validator, value, limit)
    found = list(dict.fromkeys(map(describe, errors)))
    if not finished:
        found.append(Problem("too_costly", "", "too costly to check against the schema; send something smaller"))
    return found


def _errors(validator: Any, value: Any, limit: int) -> tuple[list[ValidationError], bool]:
    """The first errors, and whether the validation got that far within its effort."""
    token = _steps.set([EFFORT])
    found: list[ValidationError] = []
    try:
        for error in validator.iter_errors(value):
            found.append(error)
            if len(found) >= limit:
                break
    except (_GivenUp, RecursionError):
        return found, False
    finally:
        _steps.reset(token)
    return found, True


_cache: OrderedDict[str, CompiledSchema] = OrderedDict()
_cache_lock = Lock()


def compile_schema(schema: Mapping[str, Any] | bool) -> CompiledSchema:
    """The compiled form of a schema; the last few thousand different ones are remembered.

    Raises:
        SchemaError: it is no valid schema, has remote or dangling references, or is refused for safety.
    """
    if not isinstance(schema, Mapping | bool):
        raise SchemaError(f"a schema must be an object or a boolean, got {shorten(schema, 60)}")
    try:
        text = canonical(schema)
    except StrictJsonError as error:
        raise SchemaError(f"the schema cannot be used: {error}") from None
    if len(text) > MAX_SCHEMA_CHARS:
        raise SchemaError(f"the schema has {len(text):,} characters, at most {MAX_SCHEMA_CHARS:,} are taken")
    with _cache_lock:
        if text in _cache:
            _cache.move_to_end(text)
            return _cache[text]
    compiled = CompiledSchema(json.loads(json.dumps(schema)))  # a copy; problems follow the author's order
    with _cache_lock:
        _cache[text] = compiled
        while len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    return compiled


def _draft(schema: Any) -> Any:
    given = schema.get("$schema") if isinstance(schema, dict) else None
    if given is None:
        return jsonschema.Draft202012Validator
    name = str(given).removeprefix("https://").removeprefix("http://").rstrip("#")
    if name not in _DRAFTS:
        raise SchemaError(f"unknown $schema {shorten(given, 80)}: expected one of http://{', http://'.join(_DRAFTS)}")
    return _DRAFTS[name]


class _Walk:
    """Visits every subschema of a schema once and refuses what cannot be validated in bounded time."""

    def __init__(self, root: Any):
        self.root = root
        self._cost: dict[int, int] = {}
        self._open: set[int] = set()

    def check(self) -> None:
        """Check every subschema.

        Raises:
            SchemaError: one is refused.
        """
        todo, seen = [self.root], set()
        while todo:
            schema = todo.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            self._check_keywords(schema)
            _check_patterns(schema)
            if self._unfolded(schema, 0) > MAX_UNFOLDED:
                raise SchemaError(f"the schema unfolds to more than {MAX_UNFOLDED:,} parts; write it flatter")
            todo += [*_in_place(schema), *_into(schema)]
            if "$ref" in schema:
                todo.append(self._resolve(schema["$ref"]))

    def _check_keywords(self, schema: dict[str, Any]) -> None:
        for keyword in _UNSUPPORTED:
            if keyword in schema:
                raise SchemaError(f"{keyword} is not supported in tool schemas; use {_UNSUPPORTED[keyword]}")
        if schema is not self.root and isinstance(schema.get("$id"), str):
            raise SchemaError("an $id below the root is not supported; use $defs and local references")

    def _unfolded(self, schema: Any, depth: int) -> int:
        """How many subschemas look at one and the same value, references followed; refuses endless ones."""
        if not isinstance(schema, dict):
            return 1
        key = id(schema)
        if key in self._cost:
            return self._cost[key]
        if key in self._open:
            raise SchemaError("a chain of $ref leads back to itself without consuming any part of the value")
        if depth > MAX_DEPTH:
            raise SchemaError(f"a chain of references and combinations is longer than {MAX_DEPTH}")
        self._open.add(key)
        parts = list(_in_place(schema))
        if "$ref" in schema:
            parts.append(self._resolve(schema["$ref"]))
        cost = 1
        for part in parts:
            cost = min(cost + self._unfolded(part, depth + 1), MAX_UNFOLDED + 1)
        self._open.remove(key)
        self._cost[key] = cost
        return cost

    def _resolve(self, reference: Any) -> Any:
        """What a local reference points to."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaError(f"$ref {shorten(reference, 80)} is not local: nothing is fetched; copy it into $defs")
        if reference == "#":
            return self.root
        found = self.root
        if not reference.startswith("#/"):
            raise SchemaError(f"$ref {shorten(reference, 80)}: only JSON pointers (#/…) are supported")
        try:
            for step in reference[2:].split("/"):
                name = unquote(step).replace("~1", "/").replace("~0", "~")
                found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise SchemaError(f"$ref {shorten(reference, 80)} points to nothing in the schema") from None
        return found


def _in_place(schema: dict[str, Any]) -> Iterator[Any]:
    """The subschemas that look at the same value as `schema`."""
    for keyword in _IN_PLACE_LISTS:
        yield from _list(schema.get(keyword))
    for keyword in _IN_PLACE:
        if keyword in schema:
            yield schema[keyword]
    for keyword in _IN_PLACE_MAPS:
        yield from (part for part in _map(schema.get(keyword)).values() if not isinstance(part, list))


def _into(schema: dict[str, Any]) -> Iterator[Any]:
    """The subschemas that look at parts of the value, and the definitions."""
    for keyword in _INTO:
        if not isinstance(schema.get(keyword), list):
            yield schema.get(keyword)
    for keyword in _INTO_LISTS:
        yield from _list(schema.get(keyword))
    for keyword in _MAPS:
        yield from _map(schema.get(keyword)).values()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _check_patterns(schema: dict[str, Any]) -> None:
    patterns = list(_map(schema.get("patternProperties")))
    if isinstance(schema.get("pattern"), str):
        patterns.append(schema["pattern"])
    for pattern in patterns:
        try:
            _linear(pattern)
        except PatternError as error:
            raise SchemaError(str(error)) from None


@lru_cache(maxsize=_MAX_CACHED)
def _linear(pattern: str) -> LinearPattern:
    return LinearPattern(pattern)


# --- keywords within a bounded effort; the message of a missing or an extra property is its name

_steps: ContextVar[list[int]] = ContextVar("steps")


def _spend(steps: int) -> None:
    left = _steps.get()
    left[0] -= steps
    if left[0] < 0:
        raise _GivenUp


def _counted(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        size = len(value) if isinstance(value, list | dict) else 0
        _spend(1 + size)
        return keyword(validator, value, instance, schema)

    return run


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _linear(pattern).search(instance, _spend):
        yield ValidationError("does not match")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            for key, value in instance.items():
                if _linear(pattern).search(key, _spend):
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = _map(schema.get("properties")), _map(schema.get("patternProperties"))
    extra = [key for key in instance if key not in known]
    extra = [key for key in extra if not any(_linear(pattern).search(key, _spend) for pattern in patterns)]
    if allowed is False:
        yield from map(ValidationError, extra[:_MAX_NAMED])
    else:
        for key in extra:
            yield from validator.descend(instance[key], allowed, path=key)


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict) and isinstance(names, list):
        missing = [name for name in names if name not in instance]
        yield from map(ValidationError, missing[:_MAX_NAMED])


def _unique_items(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if unique and isinstance(instance, list):
        _spend(len(instance))
        if len({canonical(item) for item in instance}) < len(instance):
            yield ValidationError("has equal items")


def _multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # exact: as binary floats, 0.3 would be no multiple of 0.1
    if validator.is_type(instance, "number") and (Fraction(str(instance)) / Fraction(str(step))).denominator != 1:
        yield ValidationError("is no multiple")


def _format(validator: Any, name: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and name in FORMATS and not FORMATS[name].accepts(instance):
        yield ValidationError("has another format")


_OWN_KEYWORDS: dict[str, Callable[..., Any]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "required": _required,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "format": _format,
}


def _is_number(checker: Any, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(checker: Any, value: Any) -> bool:
    return _is_number(checker, value) and (isinstance(value, int) or value.is_integer())


@cache
def _bounded(draft: Any) -> Any:
    """The validator class of a draft with counted keywords and the one rule for numbers."""
    keywords = {name: _counted(_OWN_KEYWORDS.get(name, keyword)) for name, keyword in draft.VALIDATORS.items()}
    types = draft.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    return validators.extend(draft, keywords, type_checker=types)
