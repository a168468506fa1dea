"""Parameters and response fields: a JSON Schema together with how users name such values.

One `Param` is the single source for the schema that is validated, the values that tasks are made of, the wordings in
which a user may say a value (and a reply may state it), and the words in which an agent may ask for it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from .words import CITIES, MONTHS, NUMBER_WORDS, PEOPLE, WEEKDAYS

Sampler = Callable[[Random, dict[str, Any]], Any]
"""Draws a value as a user would give it, from a generator and the initial back-end state."""

FIRST_DAY = datetime.date(2025, 1, 1)
DAYS = 730
#: the days the pack knows about: 2025 and 2026
ALL_DAYS = tuple((FIRST_DAY + datetime.timedelta(n)).isoformat() for n in range(DAYS))


@dataclass(frozen=True)
class Param:
    """One parameter of a tool, or one field of its answer.

    Attributes:
        schema: JSON Schema of the value.
        kind: the kind of fact it makes, one of `tasks.FACT_KINDS`.
        sample: draws a value; None for response fields.
        default: value when the argument is left out; `...` for a required parameter.
        wordings: value -> texts, for enums and flags whose values users do not say literally.
        words: words one of which a question back contains.
        vocabulary: the known values of a closed vocabulary; a misspelling of one can be recovered from.
        items: the element of an array.
        fields: the fields of an object.
        template: how an object is said, e.g. `{quantity} x {product}`.
    """

    schema: dict[str, Any]
    kind: str = "text"
    sample: Sampler | None = None
    default: Any = ...
    wordings: Mapping[Any, tuple[str, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    items: Param | None = None
    fields: Mapping[str, Param] = field(default_factory=dict)
    template: str = ""

    def __call__(self, description: str) -> Param:
        """The same parameter with its description."""
        return replace(self, schema={**self.schema, "description": description})

    def optional(self, default: Any) -> Param:
        """The same parameter, left out by users who want `default`; samples never are the default."""
        draw = self.sample

        def sample(rng: Random, state: dict[str, Any]) -> Any:
            assert draw is not None
            value = default
            while value == default:
                value = draw(rng, state)
            return value

        schema = self.schema if default is None else {**self.schema, "default": default}
        return replace(self, schema=schema, default=default, sample=sample if draw else None)

    def renderings(self, value: Any) -> tuple[str, ...]:
        """Every text that states `value`, the most literal first."""
        if isinstance(value, (str, bool, int)) and value in self.wordings:
            return self.wordings[value]
        if isinstance(value, bool):
            return ("yes" if value else "no",)
        if isinstance(value, (int, float)):
            return _number_texts(value)
        if self.kind == "date" and isinstance(value, str):
            return _date_texts(value)
        if self.kind == "time" and isinstance(value, str):
            return _time_texts(value)
        return (str(value),)

    def say(self, value: Any, rng: Random) -> str:
        """One text that states `value`: a list as `a, b and c`, an object by its template."""
        if isinstance(value, list):
            assert self.items is not None
            return listing([self.items.say(item, rng) for item in value])
        if isinstance(value, dict):
            said = {name: self.fields[name].say(part, rng) for name, part in value.items()}
            return self.template.format(**said)
        return rng.choice(self.renderings(value))


def listing(texts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def _number_texts(value: int | float) -> tuple[str, ...]:
    plain = str(int(value)) if float(value).is_integer() else str(value)
    texts = [plain]
    if abs(value) >= 1000:
        texts.append(f"{int(plain):,}" if plain.lstrip("-").isdigit() else f"{float(plain):,}")
    if value in NUMBER_WORDS and value >= 2:
        texts.append(NUMBER_WORDS[int(value)])
    return tuple(texts)


def _date_texts(value: str) -> tuple[str, ...]:
    try:
        day = datetime.date.fromisoformat(value)
    except ValueError:
        return (value,)
    month = MONTHS[day.month - 1]
    return value, f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}"


def _time_texts(value: str) -> tuple[str, ...]:
    hour, minute = value.split(":")
    half = "am" if int(hour) < 12 else "pm"
    clock = (int(hour) + 11) % 12 + 1
    short = f"{clock} {half}" if minute == "00" else f"{clock}:{minute} {half}"
    return value, short


def text(choices: Sequence[str] = (), max_length: int = 80, words: Sequence[str] = ()) -> Param:
    """Free text; `choices` are what users say."""
    schema = {"type": "string", "minLength": 1, "maxLength": max_length}
    return Param(schema, sample=_choice(choices) if choices else None, words=tuple(words))


def name(vocabulary: Sequence[str] = (), words: Sequence[str] = ()) -> Param:
    """A name from a closed vocabulary that the schema does not list; in answers, any name or identifier."""
    schema = {"type": "string", "minLength": 1, "maxLength": 60}
    sample = _choice(vocabulary) if vocabulary else None
    return Param(schema, "name", sample, words=tuple(words), vocabulary=tuple(vocabulary))


def identifier(prefix: str, sample: Sampler | None = None, words: Sequence[str] = ()) -> Param:
    """An opaque identifier such as `ORD-04217`."""
    schema = {"type": "string", "pattern": f"^{prefix}-[0-9]{{5}}$"}
    return Param(schema, "name", sample, words=(*words, "id", "number"))


def enum(*values: str, say: Mapping[str, str | tuple[str, ...]] | None = None, words: Sequence[str] = ()) -> Param:
    """One of a few strings; underscores are said as spaces unless `say` gives the wording."""
    texts: dict[Any, tuple[str, ...]] = {value: (value.replace("_", " "),) for value in values}
    texts |= {value: (said,) if isinstance(said, str) else said for value, said in (say or {}).items()}
    return Param({"type": "string", "enum": list(values)}, "text", _choice(values), wordings=texts, words=tuple(words))


def flag(yes: str, no: str) -> Param:
    """A boolean, and what users say for it."""
    schema = {"type": "boolean"}
    return Param(schema, "text", _choice((True, False)), wordings={True: (yes,), False: (no,)})


def integer(
    low: int, high: int, step: int = 1, words: Sequence[str] = (), usual: tuple[int, int] | None = None
) -> Param:
    """An integer in [low, high]; users give multiples of `step` from the `usual` range, and more than one."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    first, last = usual or (low, high)
    values = range(first if first < 0 else max(first, step, 2), last + 1, step)
    return Param(schema, "number", lambda rng, state: rng.choice(values), words=tuple(words))


def year(low: int, high: int, words: Sequence[str] = ()) -> Param:
    """A year, never said with a thousands separator."""
    texts = {value: (str(value),) for value in range(low, high + 1)}
    return replace(integer(low, high, words=("year", *words)), wordings=texts)


def number(
    low: float,
    high: float,
    step: float = 1,
    words: Sequence[str] = (),
    usual: tuple[float, float] | None = None,
) -> Param:
    """A number in [low, high]; users give multiples of `step` from the `usual` range."""
    schema = {"type": "number", "minimum": low, "maximum": high}
    first, last = usual or (low, high)
    steps = range(1, int((last - first) / step) + 1)
    return Param(
        schema, "number", lambda rng, state: _plain(round(first + step * rng.choice(steps), 3)), words=tuple(words)
    )


def array(items: Param, low: int = 1, high: int = 4, most: int = 3) -> Param:
    """`low` to `high` different items; users give at most `most`."""
    schema = {"type": "array", "items": items.schema, "minItems": low, "maxItems": high}

    def sample(rng: Random, state: dict[str, Any]) -> list[Any]:
        assert items.sample is not None
        drawn: list[Any] = []
        wanted = rng.randint(max(low, 1), most)
        while len(drawn) < wanted:
            item = items.sample(rng, state)
            if item not in drawn:
                drawn.append(item)
        return drawn

    return Param(schema, items.kind, sample if items.sample else None, words=items.words, items=items)


def record(template: str = "", **parts: Param) -> Param:
    """An object with exactly these fields, said by `template`."""

    def sample(rng: Random, state: dict[str, Any]) -> dict[str, Any]:
        return {key: part.sample(rng, state) for key, part in parts.items() if part.sample is not None}

    samplable = bool(template) and all(part.sample for part in parts.values())
    return Param(object_schema(parts), sample=sample if samplable else None, fields=parts, template=template)


def object_schema(params: Mapping[str, Param]) -> dict[str, Any]:
    """The object schema of named parameters; those without a default are required, others are refused."""
    return {
        "type": "object",
        "properties": {key: param.schema for key, param in params.items()},
        "required": [key for key, param in params.items() if param.default is ...],
        "additionalProperties": False,
    }


def _choice(values: Sequence[Any]) -> Sampler:
    return lambda rng, state: rng.choice(values)


def _plain(value: float) -> int | float:
    return int(value) if value.is_integer() else value


CITY = name(CITIES, words=("city", "town", "where", "place"))
PERSON = name(PEOPLE, words=("who", "name", "person"))
DATE = Param(
    {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
    "date",
    _choice(ALL_DAYS),
    words=("date", "day", "when"),
)
TIME = Param(
    {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
    "time",
    _choice(tuple(f"{hour:02}:{minute:02}" for hour in range(8, 19) for minute in (0, 15, 30, 45))),
    words=("time", "when", "hour", "o'clock"),
)
WEEKDAY = enum(*(day.lower() for day in WEEKDAYS), say={day.lower(): day for day in WEEKDAYS}, words=("day", "when"))
#: response fields
NAME = name()
TEXT = text(max_length=400)
