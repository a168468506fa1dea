"""Units: length, mass, temperature, volume, speed, a converter for any of them, and time zones."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from .base import Dice, Domain, State, known, refuse
from .params import CITY, NAME, TIME, Param, enum, integer, number
from .words import CITIES

UNITS = Domain("units")

LENGTHS = {"metre": 1.0, "kilometre": 1000.0, "foot": 0.3048, "mile": 1609.344, "inch": 0.0254}
MASSES = {"kilogram": 1.0, "gram": 0.001, "pound": 0.45359237, "ounce": 0.028349523125}
VOLUMES = {"litre": 1.0, "millilitre": 0.001, "us_gallon": 3.785411784, "cup": 0.2365882365}
SPEEDS = {"kilometre_per_hour": 1.0, "mile_per_hour": 1.609344, "knot": 1.852, "metre_per_second": 3.6}
QUANTITIES = {"length": LENGTHS, "mass": MASSES, "volume": VOLUMES, "speed": SPEEDS}
PLURALS = {
    "foot": "feet",
    "inch": "inches",
    "us_gallon": "US gallons",
    "kilometre_per_hour": "kilometres per hour",
    "mile_per_hour": "miles per hour",
    "metre_per_second": "metres per second",
}
_ALL = [unit for factors in QUANTITIES.values() for unit in factors]
VALUE = number(0, 1_000_000, 0.5, words=("value", "amount", "number"), usual=(1, 500))
SCALE = enum(
    "celsius",
    "fahrenheit",
    "kelvin",
    say={"celsius": "Celsius", "fahrenheit": "Fahrenheit", "kelvin": "Kelvin"},
    words=("scale", "unit"),
)
RESULT = number(-1e12, 1e12)


def _unit(names: Mapping[str, float] | list[str]) -> Param:
    return enum(*names, say={name: PLURALS.get(name, f"{name}s") for name in names}, words=("unit",))


def _convert(value: float, source: str, target: str, factors: Mapping[str, float]) -> dict[str, Any]:
    if source == target:
        refuse("Source and target are the same unit.")
    return {"result": round(value * factors[source] / factors[target], 4)}


def _like(quantity: str) -> Any:
    """The same conversion by the general converter."""
    return lambda **arguments: ("convert_unit", {"quantity": quantity, **arguments})


def _params(factors: Mapping[str, float]) -> dict[str, Param]:
    return {
        "value": VALUE("Value in the source unit."),
        "source": _unit(factors)("Unit of the value."),
        "target": _unit(factors)("Unit that is wanted."),
    }


@UNITS.tool(
    params=_params(LENGTHS),
    returns={"result": RESULT},
    asks=(
        "Convert {value} {source} to {target}.",
        "How long are {value} {source} in {target}?",
        "A path measures {value} {source}. Express that in {target}.",
    ),
    reply="{value} {source} are {.result} {target}.",
    vague=("Convert {value} {source} for me, I can't read that unit of length.",),
    instead=_like("length"),
)
def convert_length(state: State, value: float, source: str, target: str) -> dict[str, Any]:
    """Convert a length or distance between units."""
    return _convert(value, source, target, LENGTHS)


@UNITS.tool(
    params=_params(MASSES),
    returns={"result": RESULT},
    asks=(
        "Convert {value} {source} to {target}.",
        "How heavy is a parcel of {value} {source} in {target}?",
        "I weighed {value} {source} of sand. How many {target} is that?",
    ),
    reply="{value} {source} are {.result} {target}.",
    vague=("I weighed some sand in {source}. How many {target} is that?",),
    instead=_like("mass"),
)
def convert_mass(state: State, value: float, source: str, target: str) -> dict[str, Any]:
    """Convert a mass or weight between units."""
    return _convert(value, source, target, MASSES)


@UNITS.tool(
    params=_params(VOLUMES),
    returns={"result": RESULT},
    asks=(
        "Convert {value} {source} to {target}.",
        "A tank holds {value} {source}. How many {target} is that?",
        "What are {value} {source} in {target}?",
    ),
    reply="{value} {source} are {.result} {target}.",
    vague=("A tank holds {value} {source}. What is that in my favourite unit?",),
    instead=_like("volume"),
)
def convert_volume(state: State, value: float, source: str, target: str) -> dict[str, Any]:
    """Convert a volume between units."""
    return _convert(value, source, target, VOLUMES)


@UNITS.tool(
    params=_params(SPEEDS),
    returns={"result": RESULT},
    asks=(
        "Convert {value} {source} to {target}.",
        "A boat makes {value} {source}. How fast is that in {target}?",
        "How fast are {value} {source}, in {target}?",
    ),
    reply="{value} {source} are {.result} {target}.",
    vague=("A boat makes {value} {source}. How fast is that in the unit I know?",),
    instead=_like("speed"),
)
def convert_speed(state: State, value: float, source: str, target: str) -> dict[str, Any]:
    """Convert a speed between units."""
    return _convert(value, source, target, SPEEDS)


def _draw_conversion(rng: Random, state: State) -> dict[str, Any]:
    quantity = rng.choice(list(QUANTITIES))
    source, target = rng.sample(list(QUANTITIES[quantity]), 2)
    return {"quantity": quantity, "source": source, "target": target}


@UNITS.tool(
    params={
        "quantity": enum(*QUANTITIES)("What is measured."),
        "value": VALUE("Value in the source unit."),
        "source": _unit(_ALL)("Unit of the value."),
        "target": _unit(_ALL)("Unit that is wanted."),
    },
    returns={"result": RESULT},
    asks=(),
    reply="The result is {.result}.",
    draw=_draw_conversion,
)
def convert_unit(state: State, quantity: str, value: float, source: str, target: str) -> dict[str, Any]:
    """Convert a value of any quantity (length, mass, volume or speed) between two units of that quantity."""
    factors = QUANTITIES[quantity]
    if source not in factors or target not in factors:
        refuse(f"{source} and {target} are not both units of {quantity}.")
    return _convert(value, source, target, factors)


@UNITS.tool(
    params={
        "value": integer(-60, 500, words=("value", "degrees", "temperature"), usual=(-30, 300))(
            "Temperature in the source scale."
        ),
        "source": SCALE("Scale of the value."),
        "target": SCALE("Scale that is wanted."),
    },
    returns={"result": RESULT},
    asks=(
        "What are {value} degrees {source} in {target}?",
        "Convert a temperature of {value} {source} to {target}.",
        "The display says {value} {source}; I need that in {target}.",
    ),
    reply="{value} {source} are {.result} {target}.",
    vague=("What are {value} degrees {source} in the other scale that I use?",),
)
def convert_temperature(state: State, value: float, source: str, target: str) -> dict[str, Any]:
    """Convert a temperature between Celsius, Fahrenheit and Kelvin."""
    if source == target:
        refuse("Source and target are the same scale.")
    kelvin = {"celsius": value + 273.15, "fahrenheit": (value - 32) * 5 / 9 + 273.15, "kelvin": value}[source]
    if kelvin < 0:
        refuse("That is below absolute zero.")
    result = {"celsius": kelvin - 273.15, "fahrenheit": (kelvin - 273.15) * 9 / 5 + 32, "kelvin": kelvin}[target]
    return {"result": round(result, 2)}


def _offset(state: State, city: str) -> int:
    """Hours the clocks of a city are ahead of universal time."""
    return Dice(state, "time zone", city).integer(-11, 12)


@UNITS.tool(
    params={
        "time": TIME("Local time in the first city, HH:MM, 24 hours."),
        "from_city": CITY("City whose time is given."),
        "to_city": CITY("City whose time is wanted."),
    },
    returns={"time": TIME, "day": enum("same_day", "next_day", "previous_day")},
    asks=(
        "When it is {time} in {from_city}, what time is it in {to_city}?",
        "Convert {time} {from_city} time to {to_city} time.",
        "A call starts at {time} in {from_city}. What does the clock say in {to_city} then?",
    ),
    reply="It is then {.time} in {to_city}, on the {.day}.",
    vague=("When it is {time} in {from_city}, what time is it where my sister lives?",),
)
def convert_local_time(state: State, time: str, from_city: str, to_city: str) -> dict[str, Any]:
    """Convert a time of day from the time zone of one city to that of another."""
    from_city = known(CITIES, from_city, "city", "from_city")
    to_city = known(CITIES, to_city, "city", "to_city")
    hour = int(time[:2]) + _offset(state, to_city) - _offset(state, from_city)
    day = "same_day" if 0 <= hour < 24 else "next_day" if hour >= 24 else "previous_day"
    return {"time": f"{hour % 24:02}:{time[3:]}", "day": day}


@UNITS.tool(
    params={"city": CITY("City name.")},
    returns={"city": NAME, "utc_offset_hours": integer(-12, 14)},
    asks=(
        "How many hours is {city} from universal time?",
        "What's the UTC offset of {city}?",
        "In which time zone is {city}, as an offset in hours?",
    ),
    reply="The UTC offset of {city} in hours is {.utc_offset_hours}.",
    vague=("What's the UTC offset of my destination?",),
)
def get_utc_offset(state: State, city: str) -> dict[str, Any]:
    """Offset of a city's time zone from universal time, in hours."""
    city = known(CITIES, city, "city", "city")
    return {"city": city, "utc_offset_hours": _offset(state, city)}


UNITS.recipe(
    ("a", "get_utc_offset", {"city": "$city"}),
    ("b", "get_utc_offset", {"city": "$other_city"}),
    asks=(
        "Give me the UTC offsets of {city} and {other_city}.",
        "Which UTC offsets do {city} and {other_city} have?",
    ),
    reply="The UTC offset in hours is {a.utc_offset_hours} for {city} and {b.utc_offset_hours} for {other_city}.",
)
UNITS.recipe(
    ("a", "convert_local_time", {"time": "$time", "from_city": "$city", "to_city": "$second_city"}),
    ("b", "convert_local_time", {"time": "$time", "from_city": "$city", "to_city": "$third_city"}),
    asks=(
        "A broadcast starts at {time} in {city}. When is that in {second_city}, and when in {third_city}?",
        "Convert {time} {city} time to the local time of {second_city} and of {third_city}.",
    ),
    reply="That is {a.time} in {second_city} and {b.time} in {third_city}.",
)
for _name, _factors in QUANTITIES.items():
    UNITS.overlap(f"convert_{_name}", "convert_unit")
