"""Maps: places, distances, travel times, traffic, parking and charging."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Ids, State, known, refuse
from .params import CITY, NAME, TIME, Param, enum, flag, identifier, integer, name, number, record
from .words import CITIES, STREETS

MAPS = Domain("maps")

MODES = enum(
    "driving",
    "cycling",
    "walking",
    "transit",
    say={"driving": "car", "cycling": "bicycle", "walking": "foot", "transit": "public transport"},
    words=("mode", "means", "transport"),
)
KINDS = ("pharmacy", "bakery", "museum", "garage", "cafe", "bank", "dentist", "bookshop")
KIND = enum(*KINDS, words=("kind", "place"))
DAY_TYPE = enum("workday", "saturday", "sunday", say={"saturday": "Saturday", "sunday": "Sunday"}, words=("day",))
PLUG = enum("type_2", "ccs", say={"type_2": "Type 2", "ccs": "CCS"}, words=("plug", "connector"))
PLACES = Ids("PLC", "place", len(CITIES) * len(KINDS))
PLACE_ID = identifier("PLC", PLACES.sample, words=("place",))
STREET = name(STREETS, words=("street", "road", "where"))
_SPEED = {"driving": 75, "cycling": 17, "walking": 5, "transit": 55}


def _kilometres(state: State, origin: str, destination: str, origin_key: str = "origin") -> int:
    """Road distance, the same in both directions."""
    origin = known(CITIES, origin, "city", origin_key)
    destination = known(CITIES, destination, "city", "destination")
    if origin == destination:
        refuse("Origin and destination are the same city.")
    return Dice(state, "distance", *sorted((origin, destination))).integer(12, 640)


_ENDS: dict[str, Param] = {"origin": CITY("City to start from."), "destination": CITY("City to go to.")}


@MAPS.tool(
    params=_ENDS,
    returns={"kilometres": integer(0, 50_000)},
    asks=(
        "How far is it by road from {origin} to {destination}?",
        "What's the distance between {origin} and {destination}?",
        "How many kilometres are there from {origin} to {destination}?",
    ),
    reply="It is {.kilometres} km from {origin} to {destination}.",
    vague=("How far is it by road to {destination}?",),
    instead=lambda **arguments: ("get_route", {**arguments, "mode": "driving"}),
)
def get_distance(state: State, origin: str, destination: str) -> dict[str, Any]:
    """Road distance between two cities in kilometres. Gives no time."""
    return {"kilometres": _kilometres(state, origin, destination)}


@MAPS.tool(
    params={**_ENDS, "mode": MODES("Means of transport.")},
    returns={"minutes": integer(0, 1_000_000), "via": NAME},
    asks=(
        "How long does it take from {origin} to {destination} by {mode}?",
        "What's the travel time between {origin} and {destination} by {mode}, and via which road?",
        "I go from {origin} to {destination} by {mode}. How many minutes do I need?",
    ),
    reply="From {origin} to {destination} by {mode} it takes {.minutes} minutes via {.via}.",
    vague=("How long does it take from {origin} by {mode}?", "How long does it take from {origin} to {destination}?"),
    instead=lambda **arguments: ("get_route", arguments),
)
def get_travel_time(state: State, origin: str, destination: str, mode: str) -> dict[str, Any]:
    """Travel time in minutes and the main road between two cities, by means of transport."""
    distance = _kilometres(state, origin, destination)
    via = Dice(state, "via", *sorted((origin, destination))).choice(STREETS)
    return {"minutes": round(distance * 60 / _SPEED[mode]) + 4, "via": via}


@MAPS.tool(
    params={**_ENDS, "mode": MODES("Means of transport.")},
    returns={"kilometres": integer(0, 50_000), "minutes": integer(0, 1_000_000), "via": NAME},
    asks=(),
    reply="The route has {.kilometres} km and takes {.minutes} minutes via {.via}.",
)
def get_route(state: State, origin: str, destination: str, mode: str) -> dict[str, Any]:
    """Distance in kilometres, travel time in minutes and the main road between two cities."""
    return {
        "kilometres": _kilometres(state, origin, destination),
        **get_travel_time(state, origin, destination, mode),
    }


@MAPS.tool(
    params={
        "city": CITY("City name."),
        "kind": KIND("Kind of place."),
        "open_now": flag("open right now", "open or not")("Only open ones.").optional(False),
    },
    returns={"place_id": PLACE_ID, "kind": KIND, "street": NAME},
    asks=(
        "Find a {kind} in {city}.",
        "Where is a {kind} in {city}? I need the place id and the street.",
        "I'm in {city} and looking for a {kind}.",
        "Find a {kind} in {city} that is {open_now}.",
    ),
    reply="There is a {kind} in {city} at {.street} (place {.place_id}).",
    vague=("Find a {kind} near here.",),
)
def search_place(state: State, city: str, kind: str, open_now: bool = False) -> dict[str, Any]:
    """Search the best place of a kind in a city: its id and street. Gives no opening hours and no phone."""
    city = known(CITIES, city, "city", "city")
    place_id = PLACES.encode(state, CITIES.index(city) * len(KINDS) + KINDS.index(kind))
    return {"place_id": place_id, "kind": kind, "street": _street(state, place_id)}


def _street(state: State, place_id: str) -> str:
    return Dice(state, "street", place_id).choice(STREETS)


@MAPS.tool(
    params={"place_id": PLACE_ID("Id of the place, as PLC-12345.")},
    returns={
        "place_id": PLACE_ID,
        "phone": NAME,
        "address": record(street=NAME, number=integer(1, 999), city=NAME),
        "rating": number(0, 5),
    },
    asks=(
        "What is the phone number of place {place_id}?",
        "Give me address, phone and rating of place {place_id}.",
        "How do I reach {place_id} by phone, and where is it exactly?",
    ),
    reply="Place {place_id} is at {.address.street} {.address.number} in {.address.city}; phone {.phone}, rated "
    "{.rating}.",
)
def get_place_details(state: State, place_id: str) -> dict[str, Any]:
    """Address, phone and rating of a place, by its id."""
    city = CITIES[PLACES.decode(state, place_id) // len(KINDS)]
    dice = Dice(state, "details", place_id)
    phone = f"0{dice.integer(20, 99)}-{dice.integer(100_000, 999_999)}"
    address = {"street": _street(state, place_id), "number": dice.integer(1, 140), "city": city}
    return {"place_id": place_id, "phone": phone, "address": address, "rating": dice.number(2.5, 4.9)}


@MAPS.tool(
    params={"place_id": PLACE_ID("Id of the place."), "day_type": DAY_TYPE("Kind of day.")},
    returns={"place_id": PLACE_ID, "opens": TIME, "closes": TIME},
    asks=(
        "When is place {place_id} open on a {day_type}?",
        "Give me the {day_type} opening hours of place {place_id}.",
    ),
    reply="On a {day_type} place {place_id} is open from {.opens} to {.closes}.",
    vague=("When is place {place_id} open on that kind of day?",),
)
def get_opening_hours(state: State, place_id: str, day_type: str) -> dict[str, Any]:
    """Opening hours of a place on a workday, Saturday or Sunday, by its id."""
    PLACES.decode(state, place_id)
    dice = Dice(state, "open", place_id, day_type)
    return {
        "place_id": place_id,
        "opens": f"{dice.integer(7, 11):02}:{dice.choice(('00', '30'))}",
        "closes": f"{dice.integer(15, 21):02}:{dice.choice(('00', '30'))}",
    }


@MAPS.tool(
    params={"city": CITY("City name."), "street": STREET("Name of the street.")},
    returns={"level": enum("free", "dense", "jammed"), "delay_minutes": integer(0, 600)},
    asks=(
        "How is the traffic on {street} in {city}?",
        "Is {street} in {city} jammed, and how long is the delay?",
        "Check the traffic in {city}, on {street}.",
    ),
    reply="Traffic on {street} in {city} is {.level}, with a delay of {.delay_minutes} minutes.",
    vague=("How is the traffic on {street}?", "How is the traffic in {city} on my street?"),
)
def get_traffic(state: State, city: str, street: str) -> dict[str, Any]:
    """Traffic on a street of a city now: how dense it is and the delay in minutes."""
    city = known(CITIES, city, "city", "city")
    street = known(STREETS, street, "street", "street")
    delay = Dice(state, "traffic", city, street).integer(0, 35)
    return {"level": "free" if delay < 6 else "dense" if delay < 18 else "jammed", "delay_minutes": delay}


@MAPS.tool(
    params={"city": CITY("City name."), "hours": integer(1, 24, words=("hours", "long"))("Hours to park.")},
    returns={"garage": NAME, "free_spaces": integer(0, 10_000), "fee": number(0, 1000)},
    asks=(
        "Where can I park in {city} for {hours} hours, and what does it cost?",
        "Find a car park in {city} with the fee for {hours} hours.",
        "I have to leave my car in {city} for {hours} hours. Which garage has free spaces?",
    ),
    reply="{.garage} in {city} has {.free_spaces} free spaces; {hours} hours cost {.fee} euros.",
    vague=("What does parking in {city} cost for as long as my appointment takes?",),
)
def find_parking(state: State, city: str, hours: int) -> dict[str, Any]:
    """Car park with free spaces in a city and its fee for some hours."""
    city = known(CITIES, city, "city", "city")
    dice = Dice(state, "parking", city)
    garage = f"{dice.choice(STREETS)} car park"
    spaces, per_hour = dice.integer(2, 310), dice.integer(8, 45) / 10
    return {"garage": garage, "free_spaces": spaces, "fee": round(per_hour * hours, 2)}


@MAPS.tool(
    params={"city": CITY("City name."), "plug": PLUG("Plug of the car.")},
    returns={"street": NAME, "kilowatts": integer(1, 400), "price_per_kwh": number(0, 5)},
    asks=(
        "Where can I charge my electric car in {city}? I have a {plug} plug.",
        "Find a {plug} charging point in {city}, with its power and price.",
    ),
    reply="There is a {plug} charger at {.street} in {city}: {.kilowatts} kW at {.price_per_kwh} euros per kWh.",
    vague=("Where can I charge my electric car in {city}? It has an unusual plug.",),
)
def find_charging_point(state: State, city: str, plug: str) -> dict[str, Any]:
    """Charging point for electric cars in a city, by plug: street, power and price."""
    city = known(CITIES, city, "city", "city")
    dice = Dice(state, "charging", city, plug)
    power = dice.choice((11, 22, 50, 150, 300))
    return {"street": dice.choice(STREETS), "kilowatts": power, "price_per_kwh": dice.number(0.25, 0.89, 2)}


MAPS.recipe(
    ("s", "search_place", {"city": "$city", "kind": "$kind"}),
    ("d", "get_place_details", {"place_id": "@s.place_id"}),
    asks=(
        "What's the phone number of a {kind} in {city}?",
        "Find a {kind} in {city} and give me its full address and phone number.",
    ),
    reply="The {kind} in {city} is at {d.address.street} {d.address.number}; its phone number is {d.phone}.",
)
MAPS.recipe(
    ("s", "search_place", {"city": "$city", "kind": "$kind"}),
    ("o", "get_opening_hours", {"place_id": "@s.place_id", "day_type": "$day_type"}),
    asks=(
        "When is a {kind} in {city} open on a {day_type}?",
        "Look for a {kind} in {city} and tell me its {day_type} opening hours.",
    ),
    reply="The {kind} at {s.street} in {city} is open from {o.opens} to {o.closes} on a {day_type}.",
)
MAPS.recipe(
    ("s", "search_place", {"city": "$city", "kind": "$kind"}),
    ("t", "get_traffic", {"city": "$city", "street": "@s.street"}),
    asks=(
        "Find a {kind} in {city} and tell me how the traffic on its street is.",
        "I want to drive to a {kind} in {city}. Which street is it on, and is there a jam there?",
    ),
    reply="The {kind} is on {s.street}, where traffic is {t.level} with {t.delay_minutes} minutes of delay.",
)
MAPS.recipe(
    ("s", "search_place", {"city": "$city", "kind": "$kind"}),
    ("d", "get_place_details", {"place_id": "@s.place_id"}),
    ("o", "get_opening_hours", {"place_id": "@s.place_id", "day_type": "$day_type"}),
    ("p", "find_parking", {"city": "$city", "hours": "$hours"}),
    asks=(
        "Plan a visit to a {kind} in {city} on a {day_type}: its phone number and opening hours, and a car park for "
        "{hours} hours.",
        "I'd like to go to a {kind} in {city} on a {day_type}. Find one with phone number and opening hours, and "
        "tell me "
        "where in {city} to park for {hours} hours.",
    ),
    reply="The {kind} (phone {d.phone}) is open from {o.opens} to {o.closes}; park at {p.garage} for {p.fee} euros.",
)
MAPS.recipe(
    ("a", "get_distance", {"origin": "$origin", "destination": "$first"}),
    ("b", "get_distance", {"origin": "$origin", "destination": "$second"}),
    asks=(
        "Which is closer to {origin} by road, {first} or {second}? Give both distances.",
        "How far is it from {origin} to {first} and from {origin} to {second}?",
    ),
    reply="From {origin} it is {a.kilometres} km to {first} and {b.kilometres} km to {second}.",
)
MAPS.recipe(
    ("s", "search_place", {"city": "$city", "kind": "$kind"}),
    ("t", "search_place", {"city": "$other_city", "kind": "$kind"}),
    ("d", "get_place_details", {"place_id": "@s.place_id"}),
    ("e", "get_place_details", {"place_id": "@t.place_id"}),
    asks=(
        "Find a {kind} in {city} and one in {other_city}, and compare their ratings.",
        "Which is rated better, a {kind} in {city} or one in {other_city}? Give me the ratings of both.",
    ),
    reply="The {kind} in {city} is rated {d.rating}, the one in {other_city} {e.rating}.",
)
MAPS.resemble("get_distance", "get_travel_time", "get_traffic")
MAPS.overlap("get_distance", "get_route")
MAPS.overlap("get_travel_time", "get_route")
