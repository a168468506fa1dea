"""The ground truth written as a model would answer: the gold reference of the suite, and what the anchors replay.

Each parameter gets its first allowed value. A few ground truths contradict their own function documentation, so not
even they pass the official checker: that is where the ceiling of a category below 100 % comes from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .calls import Call
from .convert import offered_name
from .data import Doc, Entry
from .foreign import is_expression
from .pythonic import call_parts
from .replies import to_message

Message = dict[str, Any]
_DONE: Message = {"role": "assistant", "content": "Done."}


def gold_reply(entry: Entry, prompting: bool = False) -> Message:
    """The right answer of a single-turn entry. For relevance, a call of the first function; for irrelevance, none."""
    kind = entry.kind.kind
    if kind == "irrelevance":
        return {"role": "assistant", "content": "None of the functions can be used."}
    calls = [Call(entry.functions[0]["name"])] if kind == "relevance" else gold_calls(entry)
    if prompting:
        return {"role": "assistant", "content": as_text(entry, calls)}
    return to_message(Call(offered_name(call.name), call.arguments) for call in calls)


def gold_calls(entry: Entry) -> list[Call]:
    """The right calls of a single-turn entry, with documented names; Java's and JavaScript's values are text."""
    calls = []
    for answer in entry.answers:
        for name, parameters in answer.items():
            schemas = _schemas(entry, name)
            arguments = {}
            for key, options in parameters.items():
                value = _first(options)
                if value != "" and (key in schemas or "" not in options):
                    arguments[key] = _plain(value)
            if entry.kind.language != "python":
                write = _java if entry.kind.language == "java" else _javascript
                arguments = {key: write(value, schemas.get(key, {})) for key, value in arguments.items()}
            calls.append(Call(name, arguments))
    return calls


def gold_turns(entry: Entry, prompting: bool = False) -> list[list[Message]]:
    """The right answers of a multi-turn entry: for each turn one step with its calls, then one without."""
    docs = [*entry.functions, *(doc for _, held in entry.withheld for doc in held)]
    turns: list[list[Message]] = []
    for sources in entry.answers:
        calls = [_call_of(source, docs) for source in sources]
        if not calls:
            turns.append([dict(_DONE)])
        elif prompting:
            turns.append(
                [{"role": "assistant", "content": f"[{', '.join(call.source() for call in calls)}]"}, dict(_DONE)]
            )
        else:
            turns.append([to_message(calls), dict(_DONE)])
    return turns


def _call_of(source: str, docs: Sequence[Doc]) -> Call:
    """A ground-truth call, which may have positional arguments, with every argument named by the documentation."""
    name, positional, named = call_parts(source)
    order = next((list(doc["parameters"]["properties"]) for doc in docs if doc["name"] == name), [])
    return Call(name, dict(zip(order, positional, strict=False)) | named)


def _first(options: Any) -> Any:
    """The first allowed value that is not "may be left out"; `""` if there is no other."""
    if not isinstance(options, list):
        return options
    return next((option for option in options if option != ""), "")


def _plain(value: Any) -> Any:
    """The first choice where the ground truth allows several for each field of a dictionary."""
    if isinstance(value, dict):
        return {key: _first(options) for key, options in value.items() if _first(options) != "" or options == [""]}
    if isinstance(value, list):
        return [_plain(item) if isinstance(item, dict) else item for item in value]
    return value


def _schemas(entry: Entry, name: str) -> dict[str, Any]:
    return next((doc["parameters"]["properties"] for doc in entry.functions if doc["name"] == name), {})


def _java(value: Any, schema: dict[str, Any]) -> str:
    """A Java value as the official converter reads it (elements of String arrays without quotes)."""
    kind, inner = schema.get("type"), schema.get("items") or {}
    if isinstance(value, list):
        items = ", ".join(
            json.dumps(item) if isinstance(item, str) and kind == "ArrayList" else _java(item, inner) for item in value
        )
        if kind == "ArrayList":
            return f"new ArrayList<>(Arrays.asList({items}))" if value else "new ArrayList<>()"
        return f"new {inner.get('type', 'Object')}[]{{{items}}}"
    if isinstance(value, dict):
        puts = " ".join(f"put({json.dumps(key)}, {json.dumps(item)});" for key, item in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    if isinstance(value, bool):
        return str(value).lower()
    suffix = {"long": "L", "float": "f"}.get(str(kind), "") if not isinstance(value, str) else ""
    return f"{value}{suffix}"


def _javascript(value: Any, schema: dict[str, Any]) -> str:
    if isinstance(value, str):
        return value
    return f"{value}n" if schema.get("type") == "Bigint" else json.dumps(value)


def as_text(entry: Entry, calls: Sequence[Call]) -> str:
    """Calls as a model writes them in the prompting mode, in the entry's language."""
    language = entry.kind.language
    if language == "python":
        return f"[{', '.join(call.source() for call in calls)}]"
    return f"[{', '.join(_foreign_source(call, _schemas(entry, call.name)) for call in calls)}]"


def _foreign_source(call: Call, schemas: dict[str, Any]) -> str:
    """A Java or JavaScript call; what is meant as a string is quoted."""
    written = []
    for key, value in call.arguments.items():
        is_text = schemas.get(key, {}).get("type") in ("String", "any", "char") and '"' not in value
        written.append(f"{key}=" + (f'"{value}"' if is_text or not is_expression(value) else value))
    return f"{call.name}({', '.join(written)})"
