"""Goals: one recipe with its slots filled, its calls made, its request worded and its answer reported.

A goal is made by running its calls on the back ends, so that arguments that come from answers, the facts and the reply
are right by construction. A draw that does not work out (a tool refuses, a list is empty) gives None; the caller draws
again.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

from ..pack import TOOLS, Recipe
from ..pack.base import Node
from ..pack.params import Param, listing
from ..tasks import Call, Fact


@dataclass
class Goal:
    """What a user wants, and what happens when it is done.

    Attributes:
        text: the request, one or more sentences.
        calls: in the order in which they were made; a call that failed stands before the one that corrects it.
        needs: for each call the indices of those it depends on.
        others: for each call one of another tool that does the same, or None.
        facts: `call` is an index into `calls`.
        reply: the report.
        refused: the calls that were refused and corrected.
    """

    text: str
    calls: list[Call] = field(default_factory=list)
    needs: list[list[int]] = field(default_factory=list)
    others: list[Call | None] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    reply: str = ""
    refused: list[Call] = field(default_factory=list)


@cache
def template_fields(template: str) -> tuple[str, ...]:
    """Names of the `{fields}` of a template, in order."""
    return tuple(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)


@cache
def ask_recipe(tool: str, ask: str) -> Recipe:
    """The recipe of a single call: the parameters named in the request become arguments."""
    found = TOOLS[tool]
    node = Node("", tool, {parameter: f"${parameter}" for parameter in template_fields(ask)})
    return Recipe((node,), (ask,), found.reply, draw=found.draw)


@cache
def slot_params(recipe: Recipe) -> dict[str, Param]:
    """For each slot of a recipe the parameter that its value is for."""
    found: dict[str, Param] = {}

    def visit(binding: Any, param: Param) -> None:
        if isinstance(binding, str) and binding.startswith("$"):
            found.setdefault(binding[1:], param)
        elif isinstance(binding, Mapping):
            for key, part in binding.items():
                visit(part, param.fields[key])
        elif isinstance(binding, (list, tuple)) and param.items is not None:
            for part in binding:
                visit(part, param.items)

    for node in recipe.nodes:
        for parameter, binding in node.bindings.items():
            visit(binding, TOOLS[node.tool].params[parameter])
    return found


def draw_slots(recipe: Recipe, rng: Random, state: dict[str, Any]) -> dict[str, Any] | None:
    """Values for all slots; None if two names came out the same, which no user would say."""
    drawn: dict[str, Any] = recipe.draw(rng, state) if recipe.draw else {}
    for node in recipe.nodes:
        joint = TOOLS[node.tool].draw
        if joint is not None and recipe.draw is None:
            values = joint(rng, state)
            drawn |= {
                binding[1:]: values[parameter]
                for parameter, binding in node.bindings.items()
                if parameter in values and isinstance(binding, str) and binding.startswith("$")
            }
    for slot, param in slot_params(recipe).items():
        if slot not in drawn:
            assert param.sample is not None, slot
            drawn[slot] = param.sample(rng, state)
    names = [value for value in drawn.values() if isinstance(value, str)]
    return drawn if len(set(names)) == len(names) else None


def say_request(ask: str, recipe: Recipe, slots: Mapping[str, Any], rng: Random) -> str:
    """The request in words."""
    params = slot_params(recipe)
    said = {name: params[name].say(slots[name], rng) for name in template_fields(ask)}
    text = ask.format(**said)
    return text[0].upper() + text[1:]


def misspell(name: str, rng: Random) -> str:
    """A name as someone types it in a hurry: two letters swapped, one left out or one doubled."""
    places = [at for at in range(1, len(name) - 1) if name[at - 1 : at + 2].isalpha()]
    if not places:
        return name
    at = rng.choice(places)
    kind = rng.randrange(3)
    if kind == 0:
        return name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    return name[:at] + name[at + 1 :] if kind == 1 else name[:at] + name[at] + name[at:]


def realise(recipe: Recipe, text: str, slots: Mapping[str, Any], state: dict[str, Any]) -> Goal | None:
    """Make the calls of a recipe on `state`. A refused call is corrected once if the refusal says how.

    Args:
        recipe: what to do.
        text: the request in words.
        slots: what the user says, misspellings included.
        state: changed by what the calls write.

    Returns:
        The goal, or None if a call fails for good or the reply would be empty somewhere.
    """
    goal = Goal(text)
    slots, remarks = dict(slots), []
    answers: dict[str, dict[str, Any]] = {}
    at: dict[str, int] = {}
    for node in recipe.nodes:
        arguments = {key: _resolve(binding, slots, answers) for key, binding in node.bindings.items()}
        needs = sorted({at[source] for source in node.sources} | {at[a] for a, b in recipe.after if b == node.key})
        answer = _make(goal, node.tool, arguments, needs, state)
        if "error" in answer:
            correction = answer["error"].get("retry_with")
            if not correction:
                return None
            remarks.append(_remark(node.tool, answer["error"]["message"], correction))
            arguments = {**arguments, **correction}
            slots |= {
                binding[1:]: correction[key]
                for key, binding in node.bindings.items()
                if key in correction and isinstance(binding, str) and binding.startswith("$")
            }
            goal.refused.append(goal.calls[-1])
            answer = _make(goal, node.tool, arguments, [*needs, len(goal.calls) - 1], state)
            if "error" in answer:
                return None
        answers[node.key], at[node.key] = answer, len(goal.calls) - 1
    reply = _report(goal, recipe, slots, answers, at)
    goal.reply = " ".join([*remarks, reply])
    return goal if reply else None


def _make(goal: Goal, tool: str, arguments: dict[str, Any], needs: list[int], state: dict[str, Any]) -> dict[str, Any]:
    if any(TOOLS[tool].params[key].default == value for key, value in arguments.items()):
        return {"error": {}}  # a default that comes out of an answer: left out or given would both be right
    goal.calls.append(Call(tool, arguments))
    goal.needs.append(needs)
    other = TOOLS[tool].instead
    goal.others.append(Call(*other(**arguments)) if other else None)
    return TOOLS[tool](arguments, state)


def _resolve(binding: Any, slots: Mapping[str, Any], answers: Mapping[str, Any]) -> Any:
    if isinstance(binding, (list, tuple)):
        return [_resolve(part, slots, answers) for part in binding]
    if isinstance(binding, Mapping):
        return {key: _resolve(part, slots, answers) for key, part in binding.items()}
    if isinstance(binding, str) and binding.startswith("$"):
        return slots[binding[1:]]
    if isinstance(binding, str) and binding.startswith("@"):
        key, _, path = binding[1:].partition(".")
        value = answers[key]
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return value
    return binding


def _report(
    goal: Goal, recipe: Recipe, slots: Mapping[str, Any], answers: Mapping[str, Any], at: Mapping[str, int]
) -> str:
    """Fill the reply and note its facts; empty if a list it wants to read out is empty."""
    params = slot_params(recipe)
    tools = {node.key: node.tool for node in recipe.nodes}
    said: dict[str, str] = {}
    for name in template_fields(recipe.reply):
        if "." not in name:
            said[name] = _plainly(params[name], slots[name])
            continue
        if name in said:
            continue
        key, _, path = name.partition(".")
        value, param = _at_path(answers[key], TOOLS[tools[key]].returns, path)
        leaves = value if isinstance(value, list) else [value]
        item = param.items if isinstance(value, list) and param.items else param
        if not leaves:
            return ""
        label = [part for part in path.split(".") if not part.isdigit()][-1]
        goal.facts += [_fact(label, leaf, item, at[key]) for leaf in leaves]
        said[name] = _plainly(param, value)
    pieces = string.Formatter().parse(recipe.reply)
    text = "".join(literal + (said[name] if name is not None else "") for literal, name, _, _ in pieces)
    return text if recipe.nodes[0].tool in _EASY else text[0].upper() + text[1:]


_EASY = frozenset(name for name, tool in TOOLS.items() if tool.spec.domain == "basics")


def _remark(tool: str, message: str, correction: Mapping[str, Any]) -> str:
    params = TOOLS[tool].params
    used = listing([_plainly(params[name], value) for name, value in correction.items()])
    return f"{message.split('. ')[0].rstrip('.')}. I used {used} instead."


def _plainly(param: Param, value: Any) -> str:
    if isinstance(value, list):
        assert param.items is not None
        return listing([_plainly(param.items, part) for part in value])
    if isinstance(value, dict):
        return param.template.format(**{key: _plainly(param.fields[key], part) for key, part in value.items()})
    return param.renderings(value)[0]


def _at_path(answer: Any, returns: Mapping[str, Param], path: str) -> tuple[Any, Param]:
    first, *rest = path.split(".")
    value, param = answer[first], returns[first]
    for part in rest:
        if part.isdigit():
            assert param.items is not None
            if int(part) >= len(value):
                return [], param
            value, param = value[int(part)], param.items
        else:
            value, param = value[part], param.fields[part]
    return value, param


def _fact(label: str, value: Any, param: Param, call: int) -> Fact:
    texts = dict.fromkeys((*param.renderings(value), str(value)))
    return Fact(label, value, param.kind, call, tuple(texts))


def shifted(goal: Goal, offset: int) -> Goal:
    """The goal with its calls numbered from `offset` on."""
    facts = [replace(fact, call=fact.call + offset) for fact in goal.facts if fact.call is not None]
    return replace(goal, needs=[[n + offset for n in sources] for sources in goal.needs], facts=facts)
