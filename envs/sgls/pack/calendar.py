"""Calendar: events of days, free time, new and moved events, reminders."""

from __future__ import annotations

from random import Random
from typing import Any

from .base import Dice, Domain, Ids, State, day, nearest, refuse, table
from .params import ALL_DAYS, DATE, NAME, PERSON, TIME, array, identifier, integer, text
from .words import EVENT_TITLES

CALENDAR = Domain("calendar")

_PER_DAY = 3
_INDEX = {date: index for index, date in enumerate(ALL_DAYS)}
IDS = Ids("EVT", "event", len(ALL_DAYS) * _PER_DAY)
EVENT_ID = identifier("EVT", IDS.sample, words=("event",))
TITLE = text(EVENT_TITLES, words=("title", "name", "called"))
LENGTH = integer(15, 240, 15, words=("long", "minutes", "duration"))


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _minutes(time: str) -> int:
    return int(time[:2]) * 60 + int(time[3:])


def _seeded(state: State, index: int) -> dict[str, Any]:
    """The event that stands in the calendar before the episode, whatever was done to it since."""
    date, slot = ALL_DAYS[index // _PER_DAY], index % _PER_DAY
    dice = Dice(state, "event", index)
    start = 9 * 60 + slot * 180 + dice.integer(0, 90, 30)
    # every title stands exactly once in a cycle of days, so that a title and a date name one event
    title = EVENT_TITLES[(index * 7 + Dice(state, "titles").integer(0, 49)) % len(EVENT_TITLES)]
    return {
        "event_id": IDS.encode(state, index),
        "title": title,
        "date": date,
        "start": _clock(start),
        "duration_minutes": dice.choice((30, 45, 60, 90)),
    }


def _events(state: State, date: str) -> list[dict[str, Any]]:
    """The events of a day in order of their start, changes of this episode included."""
    changed = table(state, "calendar")
    first = _INDEX.get(date, -1) * _PER_DAY
    seeded = [_seeded(state, index) for index in range(first, first + _PER_DAY)] if first >= 0 else []
    events = [event for event in seeded if event["event_id"] not in changed]
    events += [event for event in changed.values() if event is not None and event["date"] == date]
    return sorted(events, key=lambda event: (event["start"], event["event_id"]))


def _event(state: State, event_id: str) -> dict[str, Any]:
    changed = table(state, "calendar")
    if event_id in changed:
        return changed[event_id] or refuse(f"The event {event_id} was cancelled.", "not_found")
    return _seeded(state, IDS.decode(state, event_id))


def _require_free(state: State, date: str, start: str, length: int, ignore: str = "") -> None:
    """A `conflict` tool error with the next free start unless nothing overlaps."""
    busy = [(_minutes(e["start"]), e) for e in _events(state, date) if e["event_id"] != ignore]

    def blocker(begin: int) -> dict[str, Any] | None:
        return next((e for at, e in busy if at < begin + length and begin < at + e["duration_minutes"]), None)

    begin = _minutes(start)
    first = blocker(begin)
    if first is None:
        return
    while (event := blocker(begin)) is not None:
        begin = _minutes(event["start"]) + event["duration_minutes"]
    if begin + length > 24 * 60:
        refuse(f"{start} is taken by {first['title']!r}, and nothing later is free.", "conflict")
    free = _clock(begin)
    refuse(f"{start} is taken by {first['title']!r}. The next free start is {free}.", "conflict", start=free)


def _draw_event(rng: Random, state: State) -> dict[str, Any]:
    event = _seeded(state, rng.randrange(IDS.count))
    return {"title": event["title"], "date": event["date"]}


@CALENDAR.tool(
    params={"date": DATE("Day, YYYY-MM-DD.")},
    returns={"date": DATE, "count": integer(0, 60), "titles": array(NAME, 0, 60)},
    asks=(
        "What's on my calendar on {date}?",
        "List my appointments for {date}.",
        "Which events do I have on {date}?",
    ),
    reply="On {date} you have {.count} events: {.titles}.",
    vague=("What's on my calendar that day?",),
)
def list_events(state: State, date: str) -> dict[str, Any]:
    """Titles of all events of one day, in order of their start."""
    day(date)
    titles = [event["title"] for event in _events(state, date)][:60]
    return {"date": date, "count": len(titles), "titles": titles}


@CALENDAR.tool(
    params={"title": TITLE("Title of the event."), "date": DATE("Day it takes place, YYYY-MM-DD.")},
    returns={"event_id": EVENT_ID, "title": NAME, "date": DATE, "start": TIME, "duration_minutes": integer(1, 1440)},
    asks=(
        'What is the id of my "{title}" on {date}?',
        'When does my "{title}" on {date} start, and what is its event id?',
        'Find the event "{title}" on {date} in my calendar.',
    ),
    reply="The {.title} on {date} has the id {.event_id} and starts at {.start}.",
    draw=_draw_event,
)
def find_event(state: State, title: str, date: str) -> dict[str, Any]:
    """Find one event by its title and day: its id, start and length."""
    day(date)
    events = {event["title"]: event for event in _events(state, date)}
    for event in events.values():
        if event["title"].lower() == title.strip().lower():
            return dict(event)
    near = nearest(tuple(events), title)
    hint = f" Did you mean {near!r}?" if near else ""
    refuse(f"No event named {title!r} on {date}.{hint}", "not_found", **({"title": near} if near else {}))


@CALENDAR.tool(
    params={"event_id": EVENT_ID("Id of the event, as EVT-12345.")},
    returns={"event_id": EVENT_ID, "title": NAME, "date": DATE, "start": TIME, "duration_minutes": integer(1, 1440)},
    asks=(
        "When is event {event_id}, and how long does it take?",
        "Show me the details of calendar event {event_id}.",
        "What is {event_id} in my calendar about, and when does it start?",
    ),
    reply="{event_id} is the {.title} on {.date} at {.start}, {.duration_minutes} minutes long.",
)
def get_event(state: State, event_id: str) -> dict[str, Any]:
    """Title, day, start and length of an event, by its id."""
    return dict(_event(state, event_id))


@CALENDAR.tool(
    params={"date": DATE("Day, YYYY-MM-DD."), "duration_minutes": LENGTH("Length that is needed.")},
    returns={"date": DATE, "start": TIME, "end": TIME},
    asks=(
        "When am I free for {duration_minutes} minutes on {date}?",
        "Find a gap of {duration_minutes} minutes in my calendar on {date}.",
        "I need {duration_minutes} undisturbed minutes on {date}. From when to when would that work?",
    ),
    reply="On {date} you are free from {.start} to {.end}.",
    vague=("When am I free on {date}? I need to fit something in, it has a fixed length.",),
)
def find_free_time(state: State, date: str, duration_minutes: int) -> dict[str, Any]:
    """First free period of a given length on a day, from 08:00 on. Creates nothing."""
    day(date)
    begin = 8 * 60
    for event in _events(state, date):
        if _minutes(event["start"]) >= begin + duration_minutes:
            break
        begin = max(begin, _minutes(event["start"]) + event["duration_minutes"])
    if begin + duration_minutes >= 24 * 60:
        refuse(f"There is no gap of {duration_minutes} minutes on {date}.", "unavailable")
    return {"date": date, "start": _clock(begin), "end": _clock(begin + duration_minutes)}


@CALENDAR.tool(
    params={
        "title": TITLE("Title of the event."),
        "date": DATE("Day, YYYY-MM-DD."),
        "start": TIME("Start, HH:MM, 24 hours."),
        "duration_minutes": LENGTH("Length in minutes.").optional(60),
        "attendees": array(PERSON, 1, 10, 2)("Full names of people to invite.").optional(None),
    },
    returns={"event_id": EVENT_ID, "title": NAME, "date": DATE, "start": TIME},
    asks=(
        'Put "{title}" into my calendar on {date} at {start}.',
        'Schedule a {duration_minutes}-minute event called "{title}" for {date}, starting {start}.',
        'Create the event "{title}" on {date} at {start} and invite {attendees}.',
        'Please block {duration_minutes} minutes from {start} on {date} for "{title}", with {attendees}.',
    ),
    reply='I added "{title}" to your calendar on {date} at {start}; its id is {.event_id}.',
    vague=(
        'Put "{title}" into my calendar on {date}.',
        'Schedule "{title}" at {start}, please.',
    ),
    rescue=(
        'Put "{title}" into my calendar on {date} at {start}. If I am busy then, take the next free start.',
        'I want "{title}" on {date} at {start}, {duration_minutes} minutes; move it to the next free time if there '
        "is a clash.",
    ),
    writes=True,
)
def create_event(
    state: State,
    title: str,
    date: str,
    start: str,
    duration_minutes: int = 60,
    attendees: list[str] | None = None,
) -> dict[str, Any]:
    """Create a calendar event. Refused with the next free start if the time is taken."""
    day(date)
    _require_free(state, date, start, duration_minutes)
    event_id = IDS.fresh(state, title, date, start)
    event = {"event_id": event_id, "title": title, "date": date, "start": start, "duration_minutes": duration_minutes}
    table(state, "calendar")[event_id] = event
    return {key: event[key] for key in ("event_id", "title", "date", "start")}


@CALENDAR.tool(
    params={
        "event_id": EVENT_ID("Id of the event."),
        "date": DATE("New day, YYYY-MM-DD."),
        "start": TIME("New start, HH:MM, 24 hours."),
    },
    returns={"event_id": EVENT_ID, "title": NAME, "date": DATE, "start": TIME},
    asks=(
        "Move event {event_id} to {date} at {start}.",
        "Reschedule {event_id}: new date {date}, new start {start}.",
    ),
    reply="The {.title} ({event_id}) now takes place on {date} at {start}.",
    vague=("Move event {event_id} to {date}, not at the old time please.",),
    rescue=("Move event {event_id} to {date} at {start}, or to the next free time after that if I'm busy.",),
    writes=True,
)
def move_event(state: State, event_id: str, date: str, start: str) -> dict[str, Any]:
    """Move an existing event to another day and start. Refused with the next free start if the time is taken."""
    day(date)
    event = _event(state, event_id)
    _require_free(state, date, start, event["duration_minutes"], ignore=event_id)
    event = {**event, "date": date, "start": start}
    table(state, "calendar")[event_id] = event
    return {key: event[key] for key in ("event_id", "title", "date", "start")}


@CALENDAR.tool(
    params={"event_id": EVENT_ID("Id of the event.")},
    returns={"event_id": EVENT_ID, "title": NAME},
    asks=(
        "Cancel event {event_id}.",
        "Please delete {event_id} from my calendar.",
        "Event {event_id} is off, remove it from the calendar.",
    ),
    reply="I cancelled the {.title} ({event_id}).",
    writes=True,
)
def cancel_event(state: State, event_id: str) -> dict[str, Any]:
    """Remove an event from the calendar."""
    event = _event(state, event_id)
    table(state, "calendar")[event_id] = None
    return {"event_id": event_id, "title": event["title"]}


@CALENDAR.tool(
    params={
        "event_id": EVENT_ID("Id of the event."),
        "minutes_before": integer(5, 120, 5, words=("minutes", "early"))("Minutes before the start."),
    },
    returns={"event_id": EVENT_ID, "title": NAME, "reminder_at": TIME},
    asks=(
        "Remind me {minutes_before} minutes before event {event_id}.",
        "Set a reminder for {event_id}, {minutes_before} minutes ahead.",
    ),
    reply="I will remind you of the {.title} at {.reminder_at}.",
    vague=("Remind me of event {event_id} a bit in advance.",),
    writes=True,
)
def set_reminder(state: State, event_id: str, minutes_before: int) -> dict[str, Any]:
    """Set a reminder some minutes before an event."""
    event = _event(state, event_id)
    at = _clock((_minutes(event["start"]) - minutes_before) % (24 * 60))
    table(state, "reminders")[event_id] = at
    return {"event_id": event_id, "title": event["title"], "reminder_at": at}


CALENDAR.recipe(
    ("f", "find_free_time", {"date": "$date", "duration_minutes": "$duration_minutes"}),
    (
        "c",
        "create_event",
        {"title": "$title", "date": "$date", "start": "@f.start", "duration_minutes": "$duration_minutes"},
    ),
    asks=(
        'Find a free slot of {duration_minutes} minutes on {date} and book it for "{title}".',
        'I need {duration_minutes} minutes for "{title}" on {date}. See when I am first free and put it in there.',
    ),
    reply='You were free at {f.start} on {date}, so I booked "{title}" then ({c.event_id}).',
)
CALENDAR.recipe(
    (
        "c",
        "create_event",
        {"title": "$title", "date": "$date", "start": "$start"},
    ),
    ("r", "set_reminder", {"event_id": "@c.event_id", "minutes_before": "$minutes_before"}),
    asks=(
        'Put "{title}" into my calendar on {date} at {start}, and remind me {minutes_before} minutes before.',
        'Create "{title}" on {date} at {start} with a reminder {minutes_before} minutes ahead of it.',
    ),
    reply='"{title}" is in your calendar on {date} at {start} ({c.event_id}), with a reminder at {r.reminder_at}.',
)
CALENDAR.recipe(
    ("c", "create_event", {"title": "$title", "date": "$date", "start": "$start"}),
    ("l", "list_events", {"date": "$date"}),
    asks=(
        'Add "{title}" on {date} at {start} to my calendar, then show me everything I have on that day.',
        'Schedule "{title}" for {date}, {start}. Afterwards list all events of that date.',
    ),
    reply='"{title}" is booked for {date} at {start} ({c.event_id}). That day you have {l.count} events: {l.titles}.',
    after=("c<l",),
)
CALENDAR.recipe(
    ("f", "find_event", {"title": "$title", "date": "$date"}),
    ("c", "cancel_event", {"event_id": "@f.event_id"}),
    asks=(
        'Cancel my "{title}" on {date}.',
        'The "{title}" of {date} is off. Please take it out of my calendar.',
    ),
    reply="I cancelled the {f.title} on {date}; it would have started at {f.start}.",
)
CALENDAR.recipe(
    ("f", "find_event", {"title": "$title", "date": "$date"}),
    ("r", "set_reminder", {"event_id": "@f.event_id", "minutes_before": "$minutes_before"}),
    asks=(
        'Remind me {minutes_before} minutes before my "{title}" on {date}.',
        'Set a reminder for the "{title}" on {date}, {minutes_before} minutes early.',
    ),
    reply="You will be reminded of the {f.title} on {date} at {r.reminder_at}.",
)
CALENDAR.recipe(
    ("e", "find_event", {"title": "$title", "date": "$date"}),
    ("f", "find_free_time", {"date": "$new_date", "duration_minutes": "@e.duration_minutes"}),
    ("m", "move_event", {"event_id": "@e.event_id", "date": "$new_date", "start": "@f.start"}),
    asks=(
        'Move my "{title}" from {date} to {new_date}, into the first gap that is long enough for it.',
        'My "{title}" on {date} has to happen on {new_date} instead. Take the first free time of the same length.',
    ),
    reply="The {e.title} ({e.duration_minutes} minutes) is moved to {new_date} at {m.start}.",
)
CALENDAR.recipe(
    ("g", "get_event", {"event_id": "$event_id"}),
    ("f", "find_free_time", {"date": "@g.date", "duration_minutes": "$duration_minutes"}),
    (
        "c",
        "create_event",
        {"title": "$title", "date": "@g.date", "start": "@f.start", "duration_minutes": "$duration_minutes"},
    ),
    asks=(
        'On the day of event {event_id} I also need {duration_minutes} minutes for "{title}". '
        "Look up which day that is, find the first gap and book it.",
        'Book "{title}" ({duration_minutes} minutes) in the first free slot on the same day as event {event_id}.',
    ),
    reply='Event {event_id} is on {g.date}; I booked "{title}" that day at {c.start} ({c.event_id}).',
)
CALENDAR.recipe(
    ("g", "get_event", {"event_id": "$event_id"}),
    ("l", "list_events", {"date": "@g.date"}),
    ("f", "find_free_time", {"date": "@g.date", "duration_minutes": "$duration_minutes"}),
    asks=(
        "What else is in my calendar on the day of event {event_id}, and when am I free for {duration_minutes} "
        "minutes then?",
        "Look up the day of event {event_id}. List all events of that day and find me a gap of {duration_minutes} "
        "minutes.",
    ),
    reply="Event {event_id} is on {g.date}. That day you have {l.titles}; you are free from {f.start} to {f.end}.",
)
CALENDAR.resemble("list_events", "find_event", "get_event", "find_free_time")
