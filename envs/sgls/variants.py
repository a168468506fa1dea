"""Adversarial variants of tools: the same task behind other names, descriptions and schemas, by seed.

An agent that learned the tools by heart fails on them, one that reads the schemas does not. Each kind changes one
thing; the gold plans are rewritten with the tools, and an agent's calls are mapped back before a back end sees them.

* `rename_tools`, `rename_parameters` (the top-level ones): synonyms, affixes, camelCase.
* `reorder`: parameters and tools in another order.
* `paraphrase`, `drop_descriptions`: other words, or none.
* `tighten`: bounds, lengths, fewer enum values, nothing extra allowed; the gold always still fits.
* `widen`: bounds, patterns and enums gone, integers become numbers, extra arguments allowed. What the tool itself would
  not take is answered by its back end with an error.
* `require`: an optional parameter with a default becomes required, and the gold states the default.

Of two opposite kinds (`tighten` and `widen`, `paraphrase` and `drop_descriptions`) chance takes one for each parameter.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ...errors import ConfigError
from .tasks import Call, Plan, Task, ToolSpec

KINDS = (
    "rename_tools",
    "rename_parameters",
    "reorder",
    "paraphrase",
    "drop_descriptions",
    "tighten",
    "widen",
    "require",
)

_VERBS = {
    "get": ("fetch", "read", "retrieve", "show"),
    "find": ("locate", "look_up", "search_for"),
    "search": ("find", "query"),
    "list": ("enumerate", "show_all"),
    "create": ("add", "make", "new"),
    "add": ("append", "put"),
    "book": ("reserve",),
    "send": ("deliver", "dispatch"),
    "convert": ("change", "translate"),
    "calculate": ("compute", "work_out"),
    "cancel": ("call_off", "revoke"),
    "update": ("change", "edit"),
    "delete": ("erase", "remove"),
    "check": ("inspect", "verify"),
    "set": ("define", "store"),
}
_AFFIXES = ("{}_v2", "{}_api", "api_{}", "{}_tool", "my_{}")
_PARAMETER_AFFIXES = ("{}_value", "the_{}", "{}_param", "in_{}", "given_{}")
_TOOL_WORDINGS = (
    "Call this tool to do the following. {}",
    "{} Use it whenever this is needed.",
    "Service endpoint. Purpose: {}",
    "What it does: {}",
)
_PARAMETER_WORDINGS = ("Value for: {}", "Here goes: {}", "Argument. {}", "Meaning: {}")
#: keywords of a schema whose parameters can be renamed without looking further
_SIMPLE = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
_MAX_NAME = 64
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
           "minItems", "maxItems", "pattern", "format", "uniqueItems")  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One varied tool.

    Attributes:
        original: the tool itself.
        names: the parameters' own names -> shown names, where they differ.
        defaults: arguments that the gold now has to state.
    """

    original: ToolSpec
    names: Mapping[str, str]
    defaults: Mapping[str, Any]


@dataclass(frozen=True)
class Variation:
    """What was changed about the tools of one task.

    Attributes:
        specs: the tools as the agent sees them.
        changes: shown name of a tool -> what is behind it.
    """

    specs: tuple[ToolSpec, ...]
    changes: Mapping[str, Change]

    def original_name(self, name: str) -> str:
        """The tool's own name behind a shown one."""
        return self.changes[name].original.name

    def restore(self, call: Call) -> Call:
        """The call of the original tool that a call of the shown tool stands for."""
        change = self.changes[call.name]
        own = {shown: name for name, shown in change.names.items()}
        return Call(change.original.name, {own.get(key, key): value for key, value in call.arguments.items()})

    def show_answer(self, name: str, answer: Any) -> Any:
        """An answer of the original tool in the shown tool's terms: `retry_with` names parameters."""
        error = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(error, dict) or not isinstance(error.get("retry_with"), dict):
            return answer
        names = self.changes[name].names
        renamed = {names.get(key, key): value for key, value in error["retry_with"].items()}
        return {**answer, "error": {**error, "retry_with": renamed}}

    def rewrite(self, call: Call) -> Call:
        """The call of the shown tool for a gold call of the original one; a tool that is not shown stays as it is."""
        for name, change in self.changes.items():
            if change.original.name == call.name:
                arguments = copy.deepcopy({**change.defaults, **call.arguments})
                return Call(name, {change.names.get(key, key): value for key, value in arguments.items()})
        return call


def check_kinds(kinds: str | Iterable[str] | None) -> tuple[str, ...]:
    """The kinds of variants that are meant: none for None, all for `"all"`, or the given names of `KINDS`.

    Raises:
        ConfigError: a kind is unknown.
    """
    if kinds is None or kinds == "all":
        return KINDS if kinds else ()
    names = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for name in names:
        if name not in KINDS:
            raise ConfigError(f"variants: {name!r} is unknown, expected 'all' or some of {', '.join(KINDS)}")
    return names


def vary(task: Task, specs: Sequence[ToolSpec], kinds: Sequence[str], rng: Random) -> tuple[Task, Variation]:
    """A task and the tools shown with it, varied.

    Args:
        task: the task; tools of its plans that are not in `specs` stay as they are.
        specs: the tools, distractors included.
        kinds: some of `KINDS`.
        rng: makes all choices.

    Returns:
        The task with rewritten plans and tool names, and what was changed.
    """
    gold: dict[str, list[dict[str, Any]]] = {}
    for plan in task.plans:
        for call in plan.calls:
            gold.setdefault(call.name, []).append(call.arguments)
    taken = {spec.name for spec in specs}
    shown: list[ToolSpec] = []
    changes: dict[str, Change] = {}
    for spec in specs:
        varied, change = _vary_tool(spec, kinds, gold.get(spec.name, []), rng)
        if "rename_tools" in kinds:
            varied = replace(varied, name=_renamed_tool(spec.name, taken, rng))
            taken.add(varied.name)
        shown.append(varied)
        changes[varied.name] = change
    if "reorder" in kinds:
        rng.shuffle(shown)
    variation = Variation(tuple(shown), changes)
    plans = tuple(Plan(tuple(tuple(map(variation.rewrite, step)) for step in plan.steps)) for plan in task.plans)
    names = {change.original.name: name for name, change in changes.items()}
    return replace(task, plans=plans, tools=tuple(names.get(name, name) for name in task.tools)), variation


def _vary_tool(
    spec: ToolSpec, kinds: Sequence[str], gold: list[dict[str, Any]], rng: Random
) -> tuple[ToolSpec, Change]:
    """The tool with another schema and description, under its own name; `gold` are arguments that must still fit."""
    schema = copy.deepcopy(spec.parameters)
    properties = {name: part for name, part in (schema.get("properties") or {}).items() if isinstance(part, dict)}
    if set(properties) != set(schema.get("properties") or {}) or not set(schema) <= _SIMPLE:
        properties = {}  # names may be referred to elsewhere: only the description of such a tool is varied
    defaults = _require(schema, properties, rng) if "require" in kinds else {}
    for name, part in properties.items():
        values = [arguments[name] for arguments in gold if name in arguments]
        _vary_parameter(part, kinds, [*values, part["default"]] if "default" in part else values, rng)
    if properties and "widen" in kinds:
        schema.pop("additionalProperties", None)
    elif properties and "tighten" in kinds:
        schema["additionalProperties"] = False
    names = _renamed_parameters(properties, rng) if "rename_parameters" in kinds else {}
    if properties:
        order = list(properties)
        if "reorder" in kinds:
            rng.shuffle(order)
        schema["properties"] = {names.get(name, name): properties[name] for name in order}
        if "required" in schema:
            schema["required"] = [names.get(name, name) for name in schema["required"]]
    description = _reword(spec.description, _TOOL_WORDINGS, kinds, rng)
    return replace(spec, description=description, parameters=schema), Change(spec, names, defaults)


def _vary_parameter(part: dict[str, Any], kinds: Sequence[str], values: list[Any], rng: Random) -> None:
    """Change one parameter's schema in place; `values` must still fit."""
    bounds = [kind for kind in ("tighten", "widen") if kind in kinds]
    if bounds:
        (_tighten if rng.choice(bounds) == "tighten" else _widen)(part, values, rng)
    if "paraphrase" in kinds or "drop_descriptions" in kinds:
        text = _reword(part.get("description", ""), _PARAMETER_WORDINGS, kinds, rng)
        _drop_descriptions(part) if not text else part.update(description=text)


def _require(schema: dict[str, Any], properties: Mapping[str, Any], rng: Random) -> dict[str, Any]:
    """Make some optional parameters with a default required; their defaults."""
    required = list(schema.get("required", ()))
    optional = [name for name, part in properties.items() if name not in required and "default" in part]
    chosen = [name for name in optional if rng.random() < 0.75]
    if chosen:
        schema["required"] = [*required, *chosen]
    return {name: properties[name]["default"] for name in chosen}


def _tighten(part: dict[str, Any], values: list[Any], rng: Random) -> None:
    kind = part.get("type")
    if isinstance(part.get("enum"), list):
        others = [value for value in part["enum"] if value not in values]
        kept = rng.sample(others, max(min(2, len(others)), len(others) // 2))
        part["enum"] = [value for value in part["enum"] if value in values or value in kept]
    elif not values:
        return
    elif kind in ("integer", "number"):
        span = max(10, *(abs(math.ceil(value)) for value in values))
        low, high = math.floor(min(values)) - rng.randint(1, span), math.ceil(max(values)) + rng.randint(1, span)
        part["minimum"] = max(low, part.get("minimum", low))
        part["maximum"] = min(high, part.get("maximum", high))
        if all(isinstance(value, int) for value in values):
            part["type"] = "integer"
    elif kind == "string":
        longest = max(map(len, values)) + rng.randint(4, 20)
        part["maxLength"] = min(longest, part.get("maxLength", longest))
    elif kind == "array":
        most = max(map(len, values)) + rng.randint(1, 3)
        part["maxItems"] = min(most, part.get("maxItems", most))


def _widen(part: dict[str, Any], values: list[Any], rng: Random) -> None:
    if isinstance(part.get("enum"), list):
        if "type" not in part:
            return
        del part["enum"]
    for keyword in _LIMITS:
        part.pop(keyword, None)
    if part.get("type") == "integer":
        part["type"] = "number"


def _reword(text: str, wordings: Sequence[str], kinds: Sequence[str], rng: Random) -> str:
    ways = [kind for kind in ("paraphrase", "drop_descriptions") if kind in kinds]
    if not ways or not text:
        return text
    return rng.choice(wordings).format(text.strip()) if rng.choice(ways) == "paraphrase" else ""


def _drop_descriptions(schema: Any) -> None:
    """Remove all titles and descriptions of a schema and of its parts, in place."""
    if not isinstance(schema, dict):
        return
    schema.pop("description", None)
    schema.pop("title", None)
    _drop_descriptions(schema.get("items"))
    for part in (schema.get("properties") or {}).values():
        _drop_descriptions(part)


def _renamed_parameters(properties: Iterable[str], rng: Random) -> dict[str, str]:
    names: dict[str, str] = {}
    taken = set(properties)
    for name in properties:
        style = rng.choice((*_PARAMETER_AFFIXES, "camel"))
        shown = _camel(name) if style == "camel" else style.format(name)
        if shown not in taken and len(shown) <= _MAX_NAME:
            names[name] = shown
            taken.add(shown)
    return names


def _renamed_tool(name: str, taken: set[str], rng: Random) -> str:
    verb, _, rest = name.partition("_")
    ways = [f"{other}_{rest}" for other in _VERBS.get(verb, ()) if rest]
    ways += [_camel(name), *(affix.format(name) for affix in _AFFIXES)]
    rng.shuffle(ways)
    return next((way for way in ways if way not in taken and len(way) <= _MAX_NAME), name)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
