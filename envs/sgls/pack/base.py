"""What the domains of the pack are built from: tools, recipes for tasks, hash-seeded data, identifiers, tool errors.

A back end is a plain function `(state, **arguments) -> response fields`. What it reads is drawn from a hash of the
episode's seed and the key of what is asked, so that the same thing always has the same value within an episode and
other values in others. What it writes stands in the episode's state, a plain JSON dict.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import Any, NoReturn, TypeVar

from ..tasks import ToolSpec
from .params import Param, object_schema

State = dict[str, Any]
T = TypeVar("T")
Drawer = Callable[[Random, State], dict[str, Any]]
"""Draws several values that belong together, from a generator and the initial state."""

ERROR_CODES = ("not_found", "invalid_argument", "conflict", "unavailable")
ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "enum": list(ERROR_CODES)},
                "message": {"type": "string"},
                "retry_with": {"type": "object", "description": "Arguments that would work instead."},
            },
            "required": ["code", "message"],
            "additionalProperties": False,
        }
    },
    "required": ["error"],
    "additionalProperties": False,
}


class ToolError(Exception):
    """The tool's own refusal: a part of the simulation, answered as `{"error": …}`, never seen by users of the pack."""

    def __init__(self, code: str, message: str, retry_with: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"retry_with": dict(retry_with)} if retry_with else {})


@dataclass(frozen=True)
class Node:
    """One call of a recipe. A binding is `$slot` (said by the user), `@node.path` (from an answer) or a constant."""

    key: str
    tool: str
    bindings: Mapping[str, Any]

    @property
    def sources(self) -> list[str]:
        """Keys of the nodes whose answers this call needs."""
        return [text[1:].partition(".")[0] for text in _leaves(self.bindings) if text.startswith("@")]

    @property
    def slots(self) -> list[str]:
        """Names of the slots that this call takes."""
        return [text[1:] for text in _leaves(self.bindings) if text.startswith("$")]


def _leaves(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    return [value] if isinstance(value, str) else []


@dataclass(frozen=True, eq=False)
class Recipe:
    """What a task can be made of: dependent calls, wordings of the request, and the reply.

    Attributes:
        nodes: in an order in which they can run.
        asks: requests, with `{slot}` for what the user says.
        reply: with `{slot}` or `{node.path}` for what an answer gave; each of the latter is a fact.
        after: (earlier node, later node) pairs that depend on each other through the state, without passing a value.
        draw: draws slots that belong together; the others are drawn one by one.
    """

    nodes: tuple[Node, ...]
    asks: tuple[str, ...]
    reply: str
    after: tuple[tuple[str, str], ...] = ()
    draw: Drawer | None = None


@dataclass(frozen=True)
class Tool:
    """One tool of the pack: what is shown, the back end, and how users ask for it.

    Attributes:
        spec: schemas and description.
        params: the parameters.
        returns: the fields of a successful answer.
        run: the back end.
        asks: complete requests; exactly the parameters named in one become arguments.
        reply: how the answer is reported; `{.path}` is a field of the answer.
        vague: requests that lack a required parameter.
        rescue: requests that say what to do when the tool refuses at first.
        writes: whether it changes the state.
        instead: another call that does the same, as (name, arguments), from the arguments of this one.
        draw: draws arguments that belong together; the others are drawn one by one.
    """

    spec: ToolSpec
    params: Mapping[str, Param]
    returns: Mapping[str, Param]
    run: Callable[..., dict[str, Any]]
    asks: tuple[str, ...]
    reply: str
    vague: tuple[str, ...] = ()
    rescue: tuple[str, ...] = ()
    writes: bool = False
    instead: Callable[..., tuple[str, dict[str, Any]]] | None = None
    draw: Drawer | None = None

    def __call__(self, arguments: Mapping[str, Any], state: State) -> dict[str, Any]:
        """Answer one call whose arguments fit the schema; may change `state` in place."""
        try:
            return self.run(state, **{key: _integral(value) for key, value in arguments.items()})
        except ToolError as refusal:
            return {"error": refusal.error}


def _integral(value: Any) -> Any:
    """JSON Schema takes 2.0 for an integer; back ends want 2."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_integral(item) for item in value]
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    return value


@dataclass
class Domain:
    """A subject area: its tools, its recipes of dependent calls, and which tools could stand in for each other.

    Attributes:
        name: the subject.
        tools: by name.
        recipes: dependent calls.
        overlaps: pairs of tools either of which serves some request for the other.
        near: pairs of tools that an agent may try if the other one is missing: look-alikes, but no substitutes.
    """

    name: str
    tools: dict[str, Tool] = field(default_factory=dict)
    recipes: list[Recipe] = field(default_factory=list)
    overlaps: set[frozenset[str]] = field(default_factory=set)
    near: set[frozenset[str]] = field(default_factory=set)

    def tool(
        self,
        params: Mapping[str, Param],
        returns: Mapping[str, Param],
        asks: Sequence[str],
        reply: str,
        **more: Any,
    ) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., dict[str, Any]]]:
        """Register the decorated back end; its name and docstring are those of the tool. `more`: fields of `Tool`."""

        def register(run: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
            self.add(run.__name__, " ".join((run.__doc__ or "").split()), run, params, returns, asks, reply, **more)
            return run

        return register

    def add(
        self,
        name: str,
        description: str,
        run: Callable[..., dict[str, Any]],
        params: Mapping[str, Param],
        returns: Mapping[str, Param],
        asks: Sequence[str],
        reply: str,
        **more: Any,
    ) -> None:
        """Register a back end under a name."""
        response = {"anyOf": [object_schema(returns), ERROR_SCHEMA]}
        spec = ToolSpec(name, description, object_schema(params), response, self.name)
        self.tools[name] = Tool(spec, params, returns, run, tuple(asks), reply, **more)

    def recipe(
        self,
        *nodes: tuple[str, str, Mapping[str, Any]],
        asks: Sequence[str],
        reply: str,
        after: Iterable[str] = (),
        draw: Drawer | None = None,
    ) -> None:
        """Add a recipe of `(key, tool, bindings)` nodes; `after` entries read `earlier<later`."""
        order = tuple((pair.split("<")[0], pair.split("<")[1]) for pair in after)
        self.recipes.append(Recipe(tuple(Node(*node) for node in nodes), tuple(asks), reply, order, draw))

    def overlap(self, *names: str) -> None:
        """Declare that each of these tools could serve a request for another one of them."""
        self.overlaps.update(_pairs(names))

    def resemble(self, *names: str) -> None:
        """Declare that an agent may try each of these tools where another one of them is missing."""
        self.near.update(_pairs(names))


def _pairs(names: Sequence[str]) -> set[frozenset[str]]:
    return {frozenset((one, two)) for one in names for two in names if one < two}


class Dice:
    """Draws that depend only on the episode's seed and a key; at most a few dozen small draws each.

    Args:
        state: the episode's state.
        key: what is asked about; strings are compared without regard to case.
    """

    __slots__ = ("bits",)

    def __init__(self, state: State, *key: Any):
        text = f"{state.get('seed', 0)}|{'|'.join(map(str, key))}".lower()
        self.bits = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=48).digest(), "big")

    def integer(self, low: int, high: int, step: int = 1) -> int:
        """A multiple of `step` above `low`, at most `high`."""
        self.bits, rest = divmod(self.bits, (high - low) // step + 1)
        return low + rest * step

    def number(self, low: float, high: float, digits: int = 1) -> float:
        """A number in [low, high] with so many digits after the point."""
        scale = 10**digits
        return self.integer(round(low * scale), round(high * scale)) / scale

    def choice(self, values: Sequence[T]) -> T:
        """One of `values`."""
        return values[self.integer(0, len(values) - 1)]

    def pick(self, values: Sequence[T], count: int) -> list[T]:
        """`count` different ones of `values`, neighbours of a random place in steps of a random stride."""
        start, stride = self.integer(0, len(values) - 1), self.integer(1, 3)
        return [values[(start + n * stride) % len(values)] for n in range(count)] if count else []


_PRIME = 99_991


@dataclass(frozen=True)
class Ids:
    """A secret numbering: index 0 … count−1 as identifiers like `ORD-04217`, another one in each episode.

    The numbering is an affine map modulo a prime, so that it can be inverted without a table.
    """

    prefix: str
    what: str
    count: int

    def encode(self, state: State, index: int) -> str:
        """The identifier of an index."""
        scale, shift = self._key(state)
        return f"{self.prefix}-{(index * scale + shift) % _PRIME:05}"

    def decode(self, state: State, identifier: str) -> int:
        """The index of an identifier; a `not_found` tool error if there is none."""
        scale, shift = self._key(state)
        index = (int(identifier[-5:]) - shift) * pow(scale, -1, _PRIME) % _PRIME
        if index >= self.count:
            raise ToolError("not_found", f"There is no {self.what} with the id {identifier}.")
        return index

    def fresh(self, state: State, *key: Any) -> str:
        """An identifier for something that is written in this episode; no seeded thing has it."""
        index = Dice(state, "fresh", self.prefix, *key).integer(self.count, _PRIME - 1)
        return self.encode(state, index)

    def sample(self, rng: Random, state: State) -> str:
        """Any identifier that exists."""
        return self.encode(state, rng.randrange(self.count))

    def _key(self, state: State) -> tuple[int, int]:
        dice = Dice(state, "ids", self.prefix)
        return dice.integer(1, _PRIME - 1), dice.integer(0, _PRIME - 1)


@dataclass(frozen=True)
class Named:
    """Things with a name from a closed vocabulary and an identifier."""

    ids: Ids
    names: tuple[str, ...]

    @classmethod
    def of(cls, prefix: str, what: str, names: tuple[str, ...]) -> Named:
        """Number `names`."""
        return cls(Ids(prefix, what, len(names)), names)

    def id(self, state: State, name: str, parameter: str = "name") -> str:
        """The identifier of a name; a `not_found` tool error with the nearest name if there is none."""
        return self.ids.encode(state, _position(self.names)[known(self.names, name, self.ids.what, parameter)])

    def name(self, state: State, identifier: str) -> str:
        """The name behind an identifier; a `not_found` tool error if there is none."""
        return self.names[self.ids.decode(state, identifier)]


def known(vocabulary: tuple[str, ...], given: str, what: str, parameter: str) -> str:
    """The entry of `vocabulary` that `given` spells, in its own case.

    Raises:
        ToolError: there is none; with `retry_with` if one is near.
    """
    found = _by_key(vocabulary).get(" ".join(given.lower().split()))
    if found is not None:
        return found
    near = nearest(vocabulary, given)
    hint = f" Did you mean {near!r}?" if near else ""
    raise ToolError("not_found", f"There is no {what} named {given!r}.{hint}", {parameter: near} if near else None)


@lru_cache(maxsize=64)
def _by_key(vocabulary: tuple[str, ...]) -> dict[str, str]:
    return {" ".join(name.lower().split()): name for name in vocabulary}


@lru_cache(maxsize=64)
def _position(vocabulary: tuple[str, ...]) -> dict[str, int]:
    return {name: position for position, name in enumerate(vocabulary)}


@lru_cache(maxsize=4096)
def nearest(vocabulary: tuple[str, ...], given: str) -> str | None:
    """The entry that is spelt most like `given`, if any is close."""
    table = _by_key(vocabulary)
    near = difflib.get_close_matches(given.lower()[:60], table, n=1, cutoff=0.75)
    return table[near[0]] if near else None


def day(date: str) -> datetime.date:
    """The date; an `invalid_argument` tool error for one that no calendar has."""
    try:
        return datetime.date.fromisoformat(date)
    except ValueError:
        raise ToolError("invalid_argument", f"{date} is not a calendar date.") from None


def table(state: State, name: str) -> dict[str, Any]:
    """The written records of one kind, by key; part of the state."""
    return state.setdefault(name, {})


def refuse(message: str, code: str = "invalid_argument", **retry_with: Any) -> NoReturn:
    """Answer with a tool error."""
    raise ToolError(code, message, retry_with)
