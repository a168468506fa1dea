"""Basics: tiny look-ups with one or two words as arguments, for the easy tier.

Their schemas and answers are a few tokens long, and any word is a valid argument, so that a very small policy that is
trained from scratch can learn to choose a tool, to copy words it never saw into the call, and to report the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from .base import Dice, Domain, State
from .params import Param, integer

BASICS = Domain("basics")

SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")


def _word(rng: Random, state: State) -> str:
    return rng.choice(SYLLABLES) + rng.choice(SYLLABLES)


WORD = Param({"type": "string", "minLength": 1, "maxLength": 40}, "name", _word)
AMOUNT = integer(10, 999)


def _lookup(tool: str, answer: str) -> Callable[..., dict[str, Any]]:
    """A back end whose answer is a number or a word that depends on the arguments alone."""

    def run(state: State, **arguments: str) -> dict[str, Any]:
        dice = Dice(state, tool, *arguments.values())
        if answer in _WORDS:
            return {answer: dice.choice(SYLLABLES) + dice.choice(SYLLABLES)}
        return {answer: dice.integer(10, 999)}

    return run


_WORDS = ("city", "name", "job")

#: tool, description, parameters, answer, two questions, reply
_TABLE: tuple[tuple[str, str, tuple[str, ...], str, tuple[str, str], str], ...] = (
    ("phone", "Phone number of a person.", ("person",), "number",
     ("What is the phone number of {person}?", "How can I call {person}?"), "The number of {person} is {.number}."),
    ("home", "City where a person lives.", ("person",), "city",
     ("Where does {person} live?", "In which city is {person} at home?"), "{person} lives in {.city}."),
    ("job", "Job of a person.", ("person",), "job",
     ("What is the job of {person}?", "What does {person} work as?"), "The job of {person} is {.job}."),
    ("price", "Price of a thing.", ("thing",), "price",
     ("What does the {thing} cost?", "How much is the {thing}?"), "The {thing} costs {.price}."),
    ("weight", "Weight of a thing.", ("thing",), "grams",
     ("How heavy is the {thing}?", "What does the {thing} weigh?"), "The {thing} weighs {.grams} grams."),
    ("maker", "Maker of a thing.", ("thing",), "name",
     ("Who makes the {thing}?", "Which maker built the {thing}?"), "The {thing} is made by {.name}."),
    ("capital", "Capital of a country.", ("country",), "city",
     ("What is the capital of {country}?", "Which city is the capital of {country}?"),
     "The capital of {country} is {.city}."),
    ("king", "King of a country.", ("country",), "name",
     ("Who is the king of {country}?", "Which king rules {country}?"), "The king of {country} is {.name}."),
    ("height", "Height of a mountain.", ("mountain",), "metres",
     ("How high is mount {mountain}?", "What is the height of mount {mountain}?"),
     "Mount {mountain} is {.metres} metres high."),
    ("length", "Length of a river.", ("river",), "miles",
     ("How long is the river {river}?", "What is the length of the river {river}?"),
     "The river {river} is {.miles} miles long."),
    ("road", "Length of the road between two towns.", ("start", "goal"), "miles",
     ("How long is the road from {start} to {goal}?", "How far is it from {start} to {goal} by road?"),
     "The road from {start} to {goal} is {.miles} miles long."),
    ("fare", "Bus fare between two towns.", ("start", "goal"), "price",
     ("What is the bus fare from {start} to {goal}?", "What does the bus from {start} to {goal} cost?"),
     "The bus from {start} to {goal} costs {.price}."),
    ("age", "Age of a tree.", ("tree",), "years",
     ("How old is the {tree} tree?", "What is the age of the {tree} tree?"), "The {tree} tree is {.years} years old."),
    ("depth", "Depth of a lake.", ("lake",), "feet",
     ("How deep is lake {lake}?", "What is the depth of lake {lake}?"), "Lake {lake} is {.feet} feet deep."),
    ("loan", "Who lent a thing to a person.", ("thing", "person"), "name",
     ("Who lent the {thing} to {person}?", "From whom does {person} have the {thing}?"),
     "{.name} lent the {thing} to {person}."),
)  # fmt: skip

for _tool, _description, _parameters, _answer, _asks, _reply in _TABLE:
    BASICS.add(
        _tool,
        _description,
        _lookup(_tool, _answer),
        {parameter: WORD for parameter in _parameters},
        {_answer: WORD if _answer in _WORDS else AMOUNT},
        _asks,
        _reply,
    )
