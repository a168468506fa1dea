"""Gold calls in all their written forms, and the tools of a row.

Gold is nested (steps of parallel calls), flat (which of the calls are parallel is lost), or only names; each of these
may also be JSON in a string. A flat list of one call is as good as nested: there is only one step it can be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..json_strict import StrictJsonError, canonical, shorten
from ..tasks import Call, Plan, ToolSpec
from .rows import RowError, decode

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def read_gold(value: Any) -> tuple[Plan, str]:
    """The gold plan and its kind: `full`, `flat` or `names_only`.

    Args:
        value: the gold in any of its forms; None and an empty list mean that nothing should be called.

    Raises:
        RowError: it is in none of the forms.
    """
    value = decode(value, "the gold") if value != "" else []
    if value is None:
        return Plan(), "full"
    if not isinstance(value, list):
        raise RowError(f"the gold is {shorten(value, 60)}, expected a list of calls or of steps of calls")
    nested = any(isinstance(step, list) for step in value)
    if nested and not all(isinstance(step, list) for step in value):
        raise RowError("the gold mixes calls and lists of calls: give either steps of calls, or calls")
    steps = [[read_call(call) for call in step] for step in (value if nested else [value])]
    kept = tuple(tuple(call for call, _ in step) for step in steps if step)
    if any(not known for step in steps for _, known in step):
        return Plan(kept), "names_only"
    return Plan(kept), "full" if nested or len(value) < 2 else "flat"


def read_call(value: Any) -> tuple[Call, bool]:
    """A call in any written form, and whether its arguments are known.

    Raises:
        RowError: it is no call.
    """
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return Call(value), False
    value = decode(value, "a call")
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or not value["name"]:
        raise RowError(f'{shorten(value, 60)} is no call, expected {{"name": …, "arguments": {{…}}}}')
    arguments = value.get("arguments", value.get("parameters", ...))
    if arguments is ...:
        return Call(value["name"]), False
    arguments = decode(arguments, "arguments") if arguments else {}
    if not isinstance(arguments, dict):
        raise RowError(f"the arguments of {value['name']} are {shorten(arguments, 60)}, expected an object")
    try:
        return Call(value["name"], json.loads(canonical(arguments))), True
    except StrictJsonError as error:
        raise RowError(f"the arguments of {value['name']}: {error}") from None


class ToolReader:
    """Reads tool definitions; equal ones become one object, since rows share most of their tools."""

    def __init__(self) -> None:
        self._known: dict[str, ToolSpec] = {}

    def read(self, value: Any) -> tuple[ToolSpec, ...]:
        """The tools of a row.

        Args:
            value: a list of definitions, OpenAI's `{"type": "function", "function": {…}}` or the inner object alone
                (`parameters` may be called `inputSchema`), or JSON of it in a string.

        Raises:
            RowError: there is none, one is no definition, or two different ones have one name.
        """
        value = decode(value, "the tools") if value else []
        if not isinstance(value, list):
            raise RowError(f"the tools are {shorten(value, 60)}, expected a list of definitions")
        found: dict[str, ToolSpec] = {}
        for item in value:
            spec = self._spec(decode(item, "a tool"))
            if found.setdefault(spec.name, spec) != spec:
                raise RowError(f"two different tools are named {spec.name!r}")
        if not found:
            raise RowError("the row has no tools")
        return tuple(found.values())

    def _spec(self, item: Any) -> ToolSpec:
        inner = item.get("function", item) if isinstance(item, dict) else item
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not inner["name"]:
            raise RowError(f"{shorten(item, 60)} is no tool definition: it has no name")
        parameters = next((inner[key] for key in ("parameters", "inputSchema", "input_schema") if inner.get(key)), None)
        parameters = decode(parameters, f"the parameters of {inner['name']}") or _NO_PARAMETERS
        if not isinstance(parameters, dict):
            raise RowError(f"the parameters of {inner['name']} are {shorten(parameters, 60)}, expected a JSON Schema")
        response = inner.get("response") if isinstance(inner.get("response"), dict) else None
        spec = ToolSpec(inner["name"], str(inner.get("description") or ""), parameters, response)
        try:
            return self._known.setdefault(canonical(spec.to_json()), spec)
        except StrictJsonError as error:
            raise RowError(f"the tool {spec.name}: {error}") from None
