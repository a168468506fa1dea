"""Fixed wordings: system message, joints, refusals, questions back, and requests that no tool serves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from ..pack.params import Param, listing
from ..pack.words import CITIES, PEOPLE, STREETS

SYSTEM = (
    "You are an assistant with tools. Call the tools that a request needs, in the same turn if they do not depend on "
    "each "
    "other, then report what they answered. If a required detail is missing, ask for it. If no tool fits, say so. If "
    "a tool "
    "refuses and says how to go on, go on that way."
)

OPENINGS = ("Hello. ", "Hi! ", "Good morning. ", "I have a request. ", "Please help me. ")
THANKS = (" Thanks!", " Thank you.", " Many thanks in advance.", " That would help me a lot.")

#: how two, three or four requests become one message
JOINS: Mapping[int, tuple[str, ...]] = {
    1: ("{}",),
    2: ("{} {}", "{} Also: {}", "Two things. {} {}", "{} Besides: {}", "{} While you are at it: {}"),
    3: ("{} {} {}", "Three things. {} {} {}", "{} Also: {} And: {}", "{} Besides: {} Another one: {}"),
}

REFUSAL = "cannot"
#: any of these says that a request cannot be served
REFUSALS = (
    "cannot", "can't", "can not", "unable", "not able", "no tool", "none of the tools", "none of my tools",
    "not possible", "don't have a tool", "do not have a tool", "no suitable tool", "no function",
)  # fmt: skip
REFUSAL_REPLIES = (
    "I am sorry, I cannot do that: none of the tools I have fits.",
    "I cannot help with this, because no tool that I have does it.",
    "None of my tools can do that, so I have to pass.",
)

#: requests that no tool of the pack serves
OFF_TOPIC = (
    "Turn the heating in the bedroom up to {count} degrees.",
    "Switch off every light on the {ordinal} floor.",
    "Call me a taxi to {street} in {city}.",
    "Print {count} copies of the page that lies on my desk.",
    "Play the latest album of {person} in the living room.",
    "Water the plants on the balcony for {count} minutes.",
    "Start the dishwasher in {count} minutes.",
    "Open the garage door at {street}.",
    "Renew my passport at the town hall of {city}.",
    "Order {count} pizzas to {street}.",
    "Make an appointment for a haircut with {person}.",
    "Record the news on television tonight and keep it for {count} days.",
    "Lock the front door and arm the alarm at {street}.",
    "Vote for {person} in the school election on my behalf.",
    "Sign me up for a pottery class in {city}.",
    "Find out who called me at home {count} minutes ago.",
    "Check the lottery numbers I played with {person}.",
    "Let the robot clean the kitchen for {count} minutes.",
    "Register my dog at the city office of {city}.",
    "Pay the parking fine I got on {street} in {city}.",
    "Change the oil of my car at the garage of {person}.",
    "Send a bunch of flowers to {person} in {city}.",
    "Turn up the radio a little and switch to channel {count}.",
    "Book a tennis court in {city} for me and {person}.",
)
OFF_TOPIC_SLOTS: Mapping[str, Callable[[Random], str]] = {
    "city": lambda rng: rng.choice(CITIES),
    "count": lambda rng: str(rng.randint(3, 60)),
    "ordinal": lambda rng: rng.choice(("first", "second", "third", "fourth")),
    "person": lambda rng: rng.choice(PEOPLE),
    "street": lambda rng: rng.choice(STREETS),
}

_QUESTIONS = (
    "Could you tell me the {}?",
    "I still need the {}. What should I use?",
    "Gladly, but one detail is missing: the {}. What is it?",
    "Which value should I take for the {}?",
)


def plain_name(param: Param) -> str:
    """What a person would call a parameter: the beginning of its description, as in `city of departure`."""
    text = re.split("[,.:]", param.schema["description"])[0]
    return text if text.startswith("DNA") else text[0].lower() + text[1:]


def question_back(params: Sequence[Param], rng: Random) -> str:
    """A question for missing parameters."""
    return rng.choice(_QUESTIONS).format(listing([plain_name(param) for param in params]))
