"""Travel: flights, trains and hotels: search, details, bookings, baggage."""

from __future__ import annotations

import datetime
from typing import Any

from .base import Dice, Domain, Ids, State, day, known, refuse, table
from .params import ALL_DAYS, CITY, DATE, NAME, PERSON, TIME, enum, flag, identifier, integer, number
from .words import CITIES

TRAVEL = Domain("travel")

_DAYS, _PLACES = len(ALL_DAYS), len(CITIES)
_DATE = {date: index for index, date in enumerate(ALL_DAYS)}
_PLACE = {city: index for index, city in enumerate(CITIES)}
# An identifier carries what it stands for: kind of trip, (from, to) and a day in a fortnight.
_FORTNIGHT = 14
FLIGHTS = Ids("FLT", "flight", _PLACES * _PLACES * _FORTNIGHT)
TRAINS = Ids("TRN", "train", _PLACES * _PLACES * _FORTNIGHT)
HOTELS = Ids("HTL", "hotel", _PLACES * 4)
BOOKINGS = Ids("BKG", "booking", 0)
FLIGHT_ID = identifier("FLT", FLIGHTS.sample, words=("flight",))
HOTEL_ID = identifier("HTL", HOTELS.sample, words=("hotel",))
BOOKING_ID = identifier("BKG")
CABIN = enum("economy", "premium", "business", words=("cabin", "class"))
NIGHTS = integer(1, 28, words=("nights", "long", "stay"), usual=(2, 14))
STARS = enum("budget", "standard", "luxury", words=("category", "class"))
_HOTEL_NAMES = ("Hotel Meridian", "Linden House", "Harbour Inn", "Grand Aurora")
_HOTEL_KINDS = ("budget", "standard", "standard", "luxury")


def _trip(origin: str, destination: str) -> tuple[str, str]:
    origin = known(CITIES, origin, "city", "origin")
    destination = known(CITIES, destination, "city", "destination")
    if origin == destination:
        refuse("Origin and destination are the same city.")
    return origin, destination


def _index(origin: str, destination: str, date: str) -> int:
    return (_PLACE[origin] * _PLACES + _PLACE[destination]) * _FORTNIGHT + day(date).toordinal() % _FORTNIGHT


def _flight(state: State, flight_id: str) -> dict[str, Any]:
    pair = FLIGHTS.decode(state, flight_id) // _FORTNIGHT
    dice = Dice(state, "flight", flight_id)
    hour, minute = dice.integer(5, 19), dice.integer(0, 55, 5)
    return {
        "origin": CITIES[pair // _PLACES],
        "destination": CITIES[pair % _PLACES],
        "gate": dice.choice("ABCD") + str(dice.integer(1, 40)),
        "departure": f"{hour:02}:{minute:02}",
        "arrival": f"{hour + dice.integer(1, 4):02}:{dice.integer(0, 55, 5):02}",
        "price": dice.integer(59, 640),
        "status": dice.choice(("on_time", "delayed", "boarding")),
        "baggage_kg": dice.choice((15, 20, 23, 30)),
    }


@TRAVEL.tool(
    params={
        "origin": CITY("City of departure."),
        "destination": CITY("City of arrival."),
        "date": DATE("Day of departure, YYYY-MM-DD."),
    },
    returns={"flight_id": FLIGHT_ID, "departure": TIME, "arrival": TIME, "price": integer(1, 5000)},
    asks=(
        "Find the cheapest flight from {origin} to {destination} on {date}.",
        "What does the cheapest flight from {origin} to {destination} cost on {date}, and when does it leave?",
        "I want to fly from {origin} to {destination} on {date} as cheaply as possible. Which flight is that?",
    ),
    reply="The cheapest flight from {origin} to {destination} on {date} is {.flight_id}: it leaves at {.departure}, "
    "arrives at {.arrival} and costs {.price} euros.",
    vague=(
        "Find me the cheapest flight to {destination} on {date}.",
        "Which is the cheapest flight from {origin} to {destination}?",
    ),
)
def search_flights(state: State, origin: str, destination: str, date: str) -> dict[str, Any]:
    """Search the cheapest flight between two cities on a day. Books nothing."""
    origin, destination = _trip(origin, destination)
    flight_id = FLIGHTS.encode(state, _index(origin, destination, date))
    flight = _flight(state, flight_id)
    return {"flight_id": flight_id, **{key: flight[key] for key in ("departure", "arrival", "price")}}


@TRAVEL.tool(
    params={"flight_id": FLIGHT_ID("Id of the flight, as FLT-12345.")},
    returns={"flight_id": FLIGHT_ID, "status": enum("on_time", "delayed", "boarding"), "gate": NAME, "departure": TIME},
    asks=(
        "Is flight {flight_id} on time, and from which gate does it go?",
        "What's the status of flight {flight_id}?",
        "Check the gate and status of {flight_id} for me.",
    ),
    reply="Flight {flight_id} is {.status}; it leaves from gate {.gate} at {.departure}.",
    vague=("Is my flight on time, and from which gate does it go?",),
)
def get_flight_status(state: State, flight_id: str) -> dict[str, Any]:
    """Status, gate and departure time of a flight, by its id."""
    flight = _flight(state, flight_id)
    return {"flight_id": flight_id, **{key: flight[key] for key in ("status", "gate", "departure")}}


@TRAVEL.tool(
    params={"flight_id": FLIGHT_ID("Id of the flight."), "cabin": CABIN("Cabin class.").optional("economy")},
    returns={"flight_id": FLIGHT_ID, "free_kg": integer(0, 100), "fee_per_extra_kg": number(0, 100)},
    asks=(
        "How many kilos of baggage are free on flight {flight_id}?",
        "What's the baggage allowance on {flight_id} in {cabin}?",
        "I'm flying {cabin} on {flight_id}. How heavy may my bag be and what does each extra kilo cost?",
    ),
    reply="On flight {flight_id} {.free_kg} kg are free; each extra kilo costs {.fee_per_extra_kg} euros.",
)
def get_baggage_allowance(state: State, flight_id: str, cabin: str = "economy") -> dict[str, Any]:
    """Free baggage and fee for each extra kilo on a flight, by cabin."""
    free = _flight(state, flight_id)["baggage_kg"] + {"economy": 0, "premium": 8, "business": 17}[cabin]
    return {"flight_id": flight_id, "free_kg": free, "fee_per_extra_kg": Dice(state, "fee", flight_id).number(4, 15)}


@TRAVEL.tool(
    params={
        "flight_id": FLIGHT_ID("Id of the flight."),
        "passenger": PERSON("Full name of the passenger."),
        "cabin": CABIN("Cabin class.").optional("economy"),
        "window_seat": flag("a window seat", "an aisle seat")("Window rather than aisle.").optional(None),
    },
    returns={"booking_id": BOOKING_ID, "flight_id": FLIGHT_ID, "seat": NAME, "total": integer(1, 20000)},
    asks=(
        "Book flight {flight_id} for {passenger}.",
        "Reserve a {cabin} seat on {flight_id} in the name of {passenger}.",
        "{passenger} wants to take flight {flight_id}, with {window_seat}. Please book it.",
        "Book {passenger} on {flight_id}, {cabin} class, with {window_seat}.",
    ),
    reply="Flight {flight_id} is booked for {passenger}, seat {.seat}, for {.total} euros. The booking is "
    "{.booking_id}.",
    vague=("Book a seat on flight {flight_id}, it's a present for a friend.",),
    writes=True,
)
def book_flight(
    state: State, flight_id: str, passenger: str, cabin: str = "economy", window_seat: bool | None = None
) -> dict[str, Any]:
    """Book a seat on a flight for one passenger, by the flight's id."""
    price = _flight(state, flight_id)["price"]
    row = Dice(state, "seat", flight_id, passenger).integer(1, 34)
    seat = f"{row}{'A' if window_seat or window_seat is None else 'C'}"
    total = round(price * {"economy": 1, "premium": 1.5, "business": 3}[cabin])
    return _book(
        state, {"what": flight_id, "name": passenger, "seat": seat, "total": total}, flight_id=flight_id, seat=seat
    )


def _book(state: State, booking: dict[str, Any], **shown: Any) -> dict[str, Any]:
    booking_id = BOOKINGS.fresh(state, booking["what"], booking["name"])
    if booking_id in table(state, "bookings"):
        refuse(f"{booking['name']} has booked {booking['what']} already ({booking_id}).", "conflict")
    table(state, "bookings")[booking_id] = booking
    return {"booking_id": booking_id, **shown, "total": booking["total"]}


@TRAVEL.tool(
    params={
        "origin": CITY("City of departure."),
        "destination": CITY("City of arrival."),
        "date": DATE("Day of departure, YYYY-MM-DD."),
        "after": TIME("Earliest departure, HH:MM.").optional(None),
    },
    returns={"train_id": identifier("TRN"), "departure": TIME, "changes": integer(0, 9), "price": number(0, 1000)},
    asks=(
        "Which train goes from {origin} to {destination} on {date}?",
        "Find me a train from {origin} to {destination} on {date}, leaving after {after}.",
        "What does the train from {origin} to {destination} cost on {date}?",
    ),
    reply="Train {.train_id} leaves {origin} for {destination} on {date} at {.departure}, with {.changes} changes, for "
    "{.price} euros.",
    vague=("Which train goes to {destination} on {date}?",),
)
def search_trains(state: State, origin: str, destination: str, date: str, after: str = "06:00") -> dict[str, Any]:
    """Search the next train between two cities on a day. Books nothing."""
    origin, destination = _trip(origin, destination)
    dice = Dice(state, "train", origin, destination, date, after)
    minutes = min(int(after[:2]) * 60 + int(after[3:]) + dice.integer(4, 74), 24 * 60 - 1)
    return {
        "train_id": TRAINS.encode(state, _index(origin, destination, date)),
        "departure": f"{minutes // 60:02}:{minutes % 60:02}",
        "changes": dice.integer(0, 3),
        "price": dice.number(14, 160),
    }


@TRAVEL.tool(
    params={"city": CITY("City of the hotel."), "category": STARS("Price category.").optional("standard")},
    returns={"hotel_id": HOTEL_ID, "hotel_name": NAME, "price_per_night": integer(1, 5000), "rating": number(0, 10)},
    asks=(
        "Find a hotel in {city}.",
        "Which {category} hotel in {city} would you recommend? I need its id and price.",
        "I'm looking for a {category} hotel in {city}.",
        "What does a hotel in {city} cost per night?",
    ),
    reply="In {city} there is the {.hotel_name} ({.hotel_id}), rated {.rating}, at {.price_per_night} euros a night.",
    vague=("Find me a {category} hotel for my trip.",),
)
def search_hotels(state: State, city: str, category: str = "standard") -> dict[str, Any]:
    """Search the best rated hotel of a price category in a city: id, price for a night, rating. Books nothing."""
    city = known(CITIES, city, "city", "city")
    slot = _HOTEL_KINDS.index(category) + (category == "standard" and Dice(state, "hotel", city).integer(0, 1))
    hotel_id = HOTELS.encode(state, _PLACE[city] * 4 + slot)
    price = _hotel(state, hotel_id)[1]
    rating = Dice(state, "rating", hotel_id).number(6.5, 9.8)
    return {"hotel_id": hotel_id, "hotel_name": _HOTEL_NAMES[slot], "price_per_night": price, "rating": rating}


def _hotel(state: State, hotel_id: str) -> tuple[str, int]:
    slot = HOTELS.decode(state, hotel_id) % 4
    price = Dice(state, "price", hotel_id).integer(0, 60) + (55, 100, 110, 240)[slot]
    return _HOTEL_NAMES[slot], price


def _full(state: State, hotel_id: str, date: str) -> bool:
    return Dice(state, "full", hotel_id, date).integer(0, 3) == 0


@TRAVEL.tool(
    params={
        "hotel_id": HOTEL_ID("Id of the hotel, as HTL-12345."),
        "guest": PERSON("Full name of the guest."),
        "check_in": DATE("Day of arrival, YYYY-MM-DD."),
        "nights": NIGHTS("Number of nights."),
        "breakfast": flag("with breakfast", "without breakfast")("Include breakfast.").optional(False),
    },
    returns={
        "booking_id": BOOKING_ID,
        "hotel_name": NAME,
        "check_in": DATE,
        "check_out": DATE,
        "total": integer(1, 200_000),
    },
    asks=(
        "Book {nights} nights in hotel {hotel_id} for {guest}, arriving {check_in}.",
        "Reserve hotel {hotel_id} from {check_in} for {nights} nights in the name of {guest}.",
        "{guest} needs a room in hotel {hotel_id} on {check_in}, {nights} nights, {breakfast}. Please book it.",
    ),
    reply="The {.hotel_name} is booked for {guest} from {.check_in} to {.check_out} for {.total} euros; the booking is "
    "{.booking_id}.",
    vague=("Book a room in hotel {hotel_id} for {guest}, {nights} nights.",),
    rescue=(
        "Book {nights} nights in hotel {hotel_id} for {guest} from {check_in}. If they are full, take the next day "
        "they have.",
        "Reserve hotel {hotel_id} for {guest}, {nights} nights from {check_in} or from the next date that is "
        "available.",
    ),
    writes=True,
)
def book_hotel(
    state: State, hotel_id: str, guest: str, check_in: str, nights: int, breakfast: bool = False
) -> dict[str, Any]:
    """Book a room in a hotel by the hotel's id. Refused with the next possible day if the hotel is full."""
    start = day(check_in)
    hotel_name, price = _hotel(state, hotel_id)
    if _full(state, hotel_id, check_in):
        later = ((start + datetime.timedelta(n)).isoformat() for n in range(1, 60) if start.year < 9999)
        free = next((date for date in later if not _full(state, hotel_id, date)), None)
        more = {"check_in": free} if free else {}
        hint = f" The next possible day is {free}." if free else ""
        refuse(f"The {hotel_name} is full on {check_in}.{hint}", "unavailable", **more)
    if start.year == 9999:
        refuse("Bookings are possible up to the year 9998.")
    check_out = (start + datetime.timedelta(nights)).isoformat()
    booking = {"what": f"{hotel_id} on {check_in}", "name": guest, "total": nights * (price + 14 * breakfast)}
    return _book(state, booking, hotel_name=hotel_name, check_in=check_in, check_out=check_out)


TRAVEL.recipe(
    ("s", "search_flights", {"origin": "$origin", "destination": "$destination", "date": "$date"}),
    ("b", "book_flight", {"flight_id": "@s.flight_id", "passenger": "$passenger"}),
    asks=(
        "Book the cheapest flight from {origin} to {destination} on {date} for {passenger}.",
        "{passenger} has to fly from {origin} to {destination} on {date}. Find the cheapest flight and book it.",
    ),
    reply="I booked flight {s.flight_id} for {passenger}: it leaves at {s.departure} on {date}, seat {b.seat}, "
    "{b.total} euros, booking {b.booking_id}.",
)
TRAVEL.recipe(
    ("s", "search_flights", {"origin": "$origin", "destination": "$destination", "date": "$date"}),
    ("a", "get_baggage_allowance", {"flight_id": "@s.flight_id"}),
    asks=(
        "How many kilos may I take on the cheapest flight from {origin} to {destination} on {date}?",
        "Look up the cheapest flight from {origin} to {destination} on {date} and tell me its baggage allowance.",
    ),
    reply="The cheapest flight is {s.flight_id} for {s.price} euros; {a.free_kg} kg of baggage are free on it.",
)
TRAVEL.recipe(
    ("h", "search_hotels", {"city": "$city", "category": "$category"}),
    ("b", "book_hotel", {"hotel_id": "@h.hotel_id", "guest": "$guest", "check_in": "$check_in", "nights": "$nights"}),
    asks=(
        "Find a {category} hotel in {city} and book it for {guest}, {nights} nights from {check_in}.",
        "Book {guest} into the best {category} hotel of {city} for {nights} nights, arriving on {check_in}.",
    ),
    reply="I booked the {h.hotel_name} in {city} for {guest}, from {b.check_in} to {b.check_out}, for {b.total} euros "
    "({b.booking_id}).",
)
TRAVEL.recipe(
    ("s", "search_flights", {"origin": "$origin", "destination": "$destination", "date": "$date"}),
    ("h", "search_hotels", {"city": "$destination"}),
    ("b", "book_flight", {"flight_id": "@s.flight_id", "passenger": "$guest"}),
    ("r", "book_hotel", {"hotel_id": "@h.hotel_id", "guest": "$guest", "check_in": "$date", "nights": "$nights"}),
    asks=(
        "{guest} travels from {origin} to {destination} on {date} and stays {nights} nights. Book the cheapest "
        "flight and "
        "a hotel there, from the same day.",
        "Arrange a trip for {guest}: cheapest flight from {origin} to {destination} on {date}, and a hotel in "
        "{destination} for {nights} nights from that day. Book both.",
    ),
    reply="{guest} flies with {s.flight_id} at {s.departure} (booking {b.booking_id}, {b.total} euros) and stays at "
    "the "
    "{h.hotel_name} until {r.check_out} (booking {r.booking_id}, {r.total} euros).",
)
TRAVEL.recipe(
    ("f", "search_flights", {"origin": "$origin", "destination": "$destination", "date": "$date"}),
    ("t", "search_trains", {"origin": "$origin", "destination": "$destination", "date": "$date"}),
    asks=(
        "Compare the cheapest flight and the train from {origin} to {destination} on {date}.",
        "Should I take the plane or the train from {origin} to {destination} on {date}? Give me the price of both.",
    ),
    reply="From {origin} to {destination} on {date} the cheapest flight costs {f.price} euros and the train {t.price}.",
)
TRAVEL.recipe(
    ("a", "search_hotels", {"city": "$city"}),
    ("b", "search_hotels", {"city": "$other_city"}),
    asks=(
        "Where are hotels cheaper, in {city} or in {other_city}? Give me a price for each.",
        "What does a night in a hotel cost in {city}, and what in {other_city}?",
    ),
    reply="The {a.hotel_name} in {city} costs {a.price_per_night} euros a night, the {b.hotel_name} in {other_city} "
    "{b.price_per_night}.",
)
TRAVEL.resemble("search_flights", "search_trains")
