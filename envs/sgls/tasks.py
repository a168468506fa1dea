"""Data types of tool-calling tasks: tools, calls, plans, facts, tasks. All frozen, and plain JSON when written.

Invariants:
* `plans` is never empty; `Plan()` (no step) as the only plan means that the right thing is to call nothing;
* the calls of one step are independent and may be made in any order, a later step may use earlier answers;
* a task's initial `state` is never changed: who runs the task works on `new_state()`.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ...errors import TaskError

CATEGORIES = ("single", "parallel", "serial", "mixed", "irrelevant", "missing", "recover")
TIERS = ("easy", "medium", "hard")
SPLITS = ("train", "dev", "test", "ood_tool", "ood_domain")
GOLD_KINDS = ("full", "names_only", "flat")
FACT_KINDS = ("number", "name", "date", "time", "text")


@dataclass(frozen=True)
class ToolSpec:
    """What an agent may know about one tool, and what its answers look like.

    Attributes:
        name: unique among the tools shown together.
        description: one or two sentences for the agent.
        parameters: JSON Schema of the arguments, an object schema.
        response: JSON Schema of an answer, tool errors included; never shown to the agent. None if unknown.
        domain: subject area, for distractors and splits.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    response: dict[str, Any] | None = None
    domain: str = ""

    def openai(self) -> dict[str, Any]:
        """The tool in the form of OpenAI's `tools` parameter, a fresh copy."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": copy.deepcopy(function)}

    def signature(self) -> str:
        """`name(required, optional?)`: the shortest useful description, for very small policies."""
        required = self.parameters.get("required", ())
        names = self.parameters.get("properties", {})
        return f"{self.name}({', '.join(p if p in required else p + '?' for p in names)})"

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ToolSpec:
        """The inverse of `to_json`."""
        return cls(**_known_fields(cls, value))


@dataclass(frozen=True)
class Call:
    """One tool call: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """`{"name": …, "arguments": …}`, a fresh copy."""
        return {"name": self.name, "arguments": copy.deepcopy(self.arguments)}


@dataclass(frozen=True)
class Plan:
    """One way to solve a task: serial steps of parallel calls. `Plan()` calls nothing."""

    steps: tuple[tuple[Call, ...], ...] = ()

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls in order of their steps."""
        return tuple(call for step in self.steps for call in step)

    def to_json(self) -> list[list[dict[str, Any]]]:
        """Nested list: steps of calls."""
        return [[call.to_json() for call in step] for step in self.steps]

    @classmethod
    def from_json(cls, value: list[list[Mapping[str, Any]]]) -> Plan:
        """The inverse of `to_json`."""
        return cls(tuple(tuple(Call(**_known_fields(Call, call)) for call in step) for step in value))


@dataclass(frozen=True)
class Fact:
    """Something that a good final reply states.

    Attributes:
        key: what it is, e.g. `temperature`; unique only within a call.
        value: the value as the tool answered it (or, without a call, the word that is expected).
        kind: `number`, `name`, `date` (value is ISO), `time` (value is HH:MM) or `text`.
        call: index in `plans[0].calls` of the call it comes from; None if from no call (question back, refusal).
        variants: wordings any of which states the fact, compared without regard to case; `str(value)` is among them.
    """

    key: str
    value: str | int | float
    kind: str = "text"
    call: int | None = None
    variants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One task of the tool-calling environment.

    Attributes:
        id: unique in its set.
        split: one of `SPLITS`.
        category: one of `CATEGORIES`. `irrelevant`: no shown tool fits. `missing`: a required detail must be asked for.
            `recover`: the first call, made as the user says, is answered by a tool error that says how to go on.
        tier: one of `TIERS`.
        domain: subject area of the (first) gold call.
        messages: system and user messages that open the episode, OpenAI dicts.
        tools: names of the tools shown, before distractors are added.
        barred: tools that would also do and are no part of any plan: never to be added as distractors.
        plans: all equivalent gold plans, the canonical one first. All have the fewest possible steps.
        facts: what a good reply states.
        state: initial back-end state, plain JSON.
        reply: a good final reply after the canonical plan.
        missing: parameters the agent must ask for (`missing` only).
        gold_kind: `full`; `names_only` (no arguments known) or `flat` (order of steps unknown) for loaded data.
        specs: tools the task brings itself (loaded data); other names are looked up in the embedded pack.
        source: where the task comes from.
    """

    id: str
    split: str
    category: str
    tier: str
    domain: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[str, ...]
    plans: tuple[Plan, ...]
    facts: tuple[Fact, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    reply: str = ""
    missing: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    gold_kind: str = "full"
    specs: tuple[ToolSpec, ...] = ()
    source: str = "embedded"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("split", self.split, SPLITS),
            ("category", self.category, CATEGORIES),
            ("tier", self.tier, TIERS),
            ("gold_kind", self.gold_kind, GOLD_KINDS),
        ):
            if value not in allowed:
                raise TaskError(f"task {self.id!r}: {name} is {value!r}, expected one of {', '.join(allowed)}")
        if not self.plans:
            raise TaskError(f"task {self.id!r} has no plan: give Plan() for a task that needs no call")

    @property
    def gold(self) -> Plan:
        """The canonical plan."""
        return self.plans[0]

    @property
    def abstains(self) -> bool:
        """Whether the right thing is to call nothing."""
        return not self.gold.steps

    @property
    def question(self) -> str:
        """The text of the last user message."""
        return next((m["content"] for m in reversed(self.messages) if m["role"] == "user"), "")

    def new_state(self) -> dict[str, Any]:
        """A fresh copy of the initial state for one episode."""
        return copy.deepcopy(self.state)

    def digest(self) -> str:
        """SHA-256 hex of the content: everything but the id, the split and the source."""
        content = {k: v for k, v in self.to_json().items() if k not in ("id", "split", "source")}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON, sharing nothing with it."""
        value = {f.name: getattr(self, f.name) for f in fields(self)}
        value["messages"] = copy.deepcopy(list(self.messages))
        value["state"] = self.new_state()
        for name in ("tools", "missing", "barred"):
            value[name] = list(value[name])
        value["plans"] = [plan.to_json() for plan in self.plans]
        value["facts"] = [{**asdict(fact), "variants": list(fact.variants)} for fact in self.facts]
        value["specs"] = [spec.to_json() for spec in self.specs]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Task:
        """The inverse of `to_json`.

        Raises:
            TaskError: a field is unknown or missing, or has a wrong shape.
        """
        known = _known_fields(cls, copy.deepcopy(dict(value)))
        try:
            for name in ("messages", "tools", "missing", "barred"):
                known[name] = tuple(known.get(name, ()))
            known["plans"] = tuple(Plan.from_json(plan) for plan in known["plans"])
            facts = (_known_fields(Fact, fact) for fact in known.get("facts", ()))
            known["facts"] = tuple(Fact(**{**fact, "variants": tuple(fact.get("variants", ()))}) for fact in facts)
            known["specs"] = tuple(ToolSpec.from_json(spec) for spec in known.get("specs", ()))
            return cls(**known)
        except (TypeError, KeyError, AttributeError) as error:
            raise TaskError(f"task {value.get('id')!r} has a missing or misshapen field: {error}") from None


def _known_fields(cls: type, value: Mapping[str, Any]) -> dict[str, Any]:
    names = [f.name for f in fields(cls)]
    if not isinstance(value, Mapping) or set(value) - set(names):
        given = ", ".join(map(str, value)) if isinstance(value, Mapping) else repr(value)
        raise TaskError(f"{cls.__name__}: expected an object with fields among {', '.join(names)}, got {given}")
    return dict(value)
