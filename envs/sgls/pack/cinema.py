"""Cinema: films, ratings, showtimes, seats, streaming and vouchers."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Ids, Named, State, day, known, refuse, table
from .params import CITY, DATE, NAME, TIME, enum, flag, identifier, integer, name, number, year
from .words import CITIES, MOVIES, PEOPLE

CINEMA = Domain("cinema")

FILMS = Named.of("MOV", "film", MOVIES)
SHOWS = Ids("SHW", "show", len(MOVIES) * len(CITIES) * 14)
SALES = Ids("CIN", "cinema booking", 0)
FILM = name(MOVIES, words=("film", "movie", "title"))
FILM_ID = identifier("MOV", FILMS.ids.sample, words=("film", "movie"))
SHOW_ID = identifier("SHW", SHOWS.sample, words=("show",))
SERVICES = enum("Streamly", "Cinebox", "Viewhall", "Palmtree")
LANGUAGE = enum("original", "dubbed", "subtitled", words=("language", "version"))


@CINEMA.tool(
    params={"film": FILM("Title of the film.")},
    returns={"film_id": FILM_ID, "film": NAME, "director": NAME, "year": year(1900, 2030)},
    asks=(
        "Who directed the film {film}, and in which year?",
        "What is the id of the film {film}?",
        "Find the film {film} in the programme.",
    ),
    reply="{film} ({.film_id}) was directed by {.director} in {.year}.",
)
def find_film(state: State, film: str) -> dict[str, Any]:
    """Find a film by its title: film id, director and year."""
    film = known(MOVIES, film, "film", "film")
    dice = Dice(state, "film", film)
    return {
        "film_id": FILMS.id(state, film),
        "film": film,
        "director": dice.choice(PEOPLE),
        "year": dice.integer(1965, 2025),
    }


@CINEMA.tool(
    params={"film_id": FILM_ID("Id of the film, as MOV-12345.")},
    returns={
        "film_id": FILM_ID,
        "critics": integer(0, 100),
        "audience": integer(0, 100),
        "minimum_age": integer(0, 18),
    },
    asks=(
        "How do critics and audience rate film {film_id}?",
        "From which age may one see the film {film_id}, and what do critics give it?",
    ),
    reply="Film {film_id} gets {.critics} from critics and {.audience} from the audience; minimum age {.minimum_age}.",
)
def get_film_rating(state: State, film_id: str) -> dict[str, Any]:
    """Critics' and audience score out of 100 and minimum age of a film, by its id."""
    FILMS.name(state, film_id)
    dice = Dice(state, "score", film_id)
    scores = {"critics": dice.integer(21, 99), "audience": dice.integer(21, 99)}
    return {"film_id": film_id, **scores, "minimum_age": dice.choice((0, 6, 12, 16, 18))}


def _show(state: State, show_id: str) -> dict[str, Any]:
    dice = Dice(state, "show", show_id)
    hall, price = dice.integer(1, 9), dice.integer(80, 160, 5) / 10
    return {"starts": f"{dice.integer(14, 21)}:{dice.choice(('00', '15', '30', '45'))}", "hall": hall, "price": price}


@CINEMA.tool(
    params={
        "film_id": FILM_ID("Id of the film."),
        "city": CITY("City of the cinema."),
        "date": DATE("Day, YYYY-MM-DD."),
        "version": LANGUAGE("Language version.").optional("original"),
    },
    returns={"show_id": SHOW_ID, "starts": TIME, "hall": integer(1, 30), "price": number(0, 100)},
    asks=(
        "When is film {film_id} shown in {city} on {date}?",
        "I need a show of film {film_id} in {city} on {date}, {version} version.",
    ),
    reply="Film {film_id} is shown in {city} on {date} at {.starts} in hall {.hall} for {.price} euros (show "
    "{.show_id}).",
    vague=("When is film {film_id} shown in {city}?", "When is film {film_id} shown on {date}?"),
)
def find_show(state: State, film_id: str, city: str, date: str, version: str = "original") -> dict[str, Any]:
    """Find a show of a film in a city on a day, by film id. Books nothing."""
    film = FILMS.ids.decode(state, film_id)
    city = known(CITIES, city, "city", "city")
    index = ((film * len(CITIES)) + CITIES.index(city)) * 14 + (day(date).toordinal() + len(version)) % 14
    show_id = SHOWS.encode(state, index)
    return {"show_id": show_id, **_show(state, show_id)}


@CINEMA.tool(
    params={
        "show_id": SHOW_ID("Id of the show, as SHW-12345."),
        "seats": integer(1, 12, words=("many", "seats", "people", "tickets"))("Number of seats."),
        "back_row": flag("in the back row", "not in the back row")("Seats in the back row.").optional(None),
    },
    returns={"booking_id": identifier("CIN"), "row": integer(1, 40), "total": number(0, 2000)},
    asks=(
        "Book {seats} seats for show {show_id}.",
        "I'd like {seats} seats {back_row} for show {show_id}.",
    ),
    reply="{seats} seats for show {show_id} are booked ({.booking_id}): row {.row}, {.total} euros.",
    vague=("Book seats for show {show_id}.",),
    rescue=("Book {seats} seats for show {show_id}. If there are not that many left, take what is left.",),
    writes=True,
)
def book_seats(state: State, show_id: str, seats: int, back_row: bool | None = None) -> dict[str, Any]:
    """Book seats for a show, by show id. Refused with the number of seats left if there are too few."""
    SHOWS.decode(state, show_id)
    sold = table(state, "seats").get(show_id, 0)
    left = Dice(state, "left", show_id).integer(2, 40) - sold
    if seats > left:
        refuse(f"Only {left} seats are left.", "unavailable", **({"seats": left} if left else {}))
    table(state, "seats")[show_id] = sold + seats
    row = Dice(state, "row", show_id, back_row).integer(1, 12) if not back_row else 20
    booking_id = SALES.fresh(state, show_id, sold, seats)
    return {"booking_id": booking_id, "row": row, "total": round(seats * _show(state, show_id)["price"], 2)}


@CINEMA.tool(
    params={"film": FILM("Title of the film.")},
    returns={"film": NAME, "service": SERVICES, "rent": number(0, 50)},
    asks=(
        "Where can I stream {film}, and what does it cost to rent?",
        "Which streaming service has {film}?",
    ),
    reply="{film} is on {.service} and costs {.rent} euros to rent.",
    vague=("Which streaming service has that film my friend mentioned?",),
)
def find_stream(state: State, film: str) -> dict[str, Any]:
    """Streaming service that has a film, and the price to rent it."""
    film = known(MOVIES, film, "film", "film")
    dice = Dice(state, "stream", film)
    return {"film": film, "service": dice.choice(SERVICES.schema["enum"]), "rent": dice.number(1.5, 6.9)}


CINEMA.recipe(
    ("f", "find_film", {"film": "$film"}),
    ("r", "get_film_rating", {"film_id": "@f.film_id"}),
    asks=("How do critics rate {film}?", "From which age may one watch {film}, and does the audience like it?"),
    reply="{film} gets {r.critics} from critics and {r.audience} from the audience; minimum age {r.minimum_age}.",
)
CINEMA.recipe(
    ("f", "find_film", {"film": "$film"}),
    ("s", "find_show", {"film_id": "@f.film_id", "city": "$city", "date": "$date"}),
    asks=("When is {film} on in {city} on {date}?", "I want to see {film} in {city} on {date}. Which show is there?"),
    reply="{film} is on in {city} on {date} at {s.starts}, hall {s.hall}, for {s.price} euros.",
)
CINEMA.recipe(
    ("f", "find_film", {"film": "$film"}),
    ("s", "find_show", {"film_id": "@f.film_id", "city": "$city", "date": "$date"}),
    ("b", "book_seats", {"show_id": "@s.show_id", "seats": "$seats"}),
    asks=(
        "Book {seats} seats for {film} in {city} on {date}.",
        "We want to see {film} in {city} on {date}. Find the show and book {seats} seats.",
    ),
    reply="{seats} seats for {film} on {date} at {s.starts} are booked ({b.booking_id}), row {b.row}, {b.total} euros.",
)
CINEMA.recipe(
    ("f", "find_film", {"film": "$film"}),
    ("s", "find_show", {"film_id": "@f.film_id", "city": "$city", "date": "$date"}),
    ("r", "find_stream", {"film": "$film"}),
    asks=(
        "Is it cheaper to stream {film} or to see it in {city} on {date}? Give me both prices.",
        "Compare the price of a show of {film} in {city} on {date} with renting it from a streaming service.",
    ),
    reply="The show of {film} in {city} costs {s.price} euros; renting it on {r.service} costs {r.rent}.",
)
CINEMA.recipe(
    ("f", "find_film", {"film": "$film"}),
    ("s", "find_show", {"film_id": "@f.film_id", "city": "$city", "date": "$date"}),
    ("r", "get_film_rating", {"film_id": "@f.film_id"}),
    asks=(
        "When is {film} on in {city} on {date}, and what do critics think of it?",
        "Find a show of {film} in {city} on {date} and the minimum age for that film.",
    ),
    reply="{film} is on at {s.starts} in {city}; critics give it {r.critics}, and the minimum age is {r.minimum_age}.",
)
CINEMA.resemble("find_film", "find_stream")
