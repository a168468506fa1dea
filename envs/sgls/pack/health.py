"""Health log: weight, runs, sleep, heart rate, medicines, body figures."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Ids, State, day, known, refuse, table
from .params import DATE, NAME, TIME, array, enum, identifier, integer, name, number

HEALTH = Domain("health")

MEDICINES = ("Amorex", "Bralin", "Cetrovan", "Doxamil", "Ferrotab", "Levacin", "Nordipan", "Telmizol")
MEDICINE = name(MEDICINES, words=("medicine", "drug"))
ACTIVITIES = {"running": 9.8, "cycling": 7.5, "swimming": 8.3, "hiking": 6.0, "rowing": 7.0, "yoga": 2.5}
ACTIVITY = enum(*ACTIVITIES, words=("activity", "sport"))
KILOGRAMS = number(20, 400, 0.5, words=("weight", "weigh", "heavy", "kilograms", "kg"), usual=(44, 120))
HEIGHT = integer(50, 250, words=("height", "tall", "centimetres", "cm"), usual=(150, 205))
MINUTES = integer(5, 600, 5, words=("minutes", "long"), usual=(10, 180))
ENTRIES = Ids("LOG", "entry", 0)
PLANS = Ids("MED", "medicine plan", 0)


def _weight(state: State, date: str) -> float:
    written = table(state, "weights").get(date)
    return written if written is not None else Dice(state, "weight", date[:7]).number(58, 92)


@HEALTH.tool(
    params={"date": DATE("Day of the measurement, YYYY-MM-DD."), "kilograms": KILOGRAMS("Body weight.")},
    returns={"entry_id": identifier("LOG"), "date": DATE, "kilograms": number(0, 500)},
    asks=(
        "Log my weight: {kilograms} kg on {date}.",
        "I weighed {kilograms} kilograms on {date}. Put that into the health log.",
    ),
    reply="{.kilograms} kg on {date} is logged as {.entry_id}.",
    vague=("Log my weight for {date}.", "Log my weight: {kilograms} kg."),
    writes=True,
)
def log_weight(state: State, date: str, kilograms: float) -> dict[str, Any]:
    """Write a measurement of the body weight into the log."""
    day(date)
    table(state, "weights")[date] = kilograms
    return {"entry_id": ENTRIES.fresh(state, "weight", date), "date": date, "kilograms": kilograms}


@HEALTH.tool(
    params={"date": DATE("Day, YYYY-MM-DD.")},
    returns={"date": DATE, "kilograms": number(0, 500)},
    asks=(
        "What did I weigh on {date}?",
        "Look up my logged weight of {date}.",
        "What weight does my health log have for {date}?",
    ),
    reply="On {date} you weighed {.kilograms} kg.",
    vague=("What did I weigh back then, according to my log?",),
)
def get_weight(state: State, date: str) -> dict[str, Any]:
    """Body weight that the log has for a day."""
    day(date)
    return {"date": date, "kilograms": _weight(state, date)}


@HEALTH.tool(
    params={
        "date": DATE("Day of the workout, YYYY-MM-DD."),
        "activity": ACTIVITY("What was done."),
        "minutes": MINUTES("Duration."),
        "start": TIME("Start, HH:MM.").optional(None),
    },
    returns={"entry_id": identifier("LOG"), "activity": ACTIVITY, "workouts_that_day": integer(1, 1000)},
    asks=(
        "Log {minutes} minutes of {activity} on {date}.",
        "On {date} I did {minutes} minutes of {activity}, starting at {start}. Please log the workout.",
    ),
    reply="{minutes} minutes of {.activity} on {date} are logged as {.entry_id}.",
    vague=("Log my {activity} on {date}.", "Log {minutes} minutes of {activity}."),
    writes=True,
)
def log_workout(state: State, date: str, activity: str, minutes: int, start: str | None = None) -> dict[str, Any]:
    """Write a workout into the log."""
    day(date)
    workouts = table(state, "workouts").setdefault(date, [])
    workouts.append({"activity": activity, "minutes": minutes, "start": start})
    entry_id = ENTRIES.fresh(state, activity, date, minutes, len(workouts))
    return {"entry_id": entry_id, "activity": activity, "workouts_that_day": min(len(workouts), 1000)}


@HEALTH.tool(
    params={"date": DATE("Morning after the night, YYYY-MM-DD.")},
    returns={"date": DATE, "hours": number(0, 24), "deep_sleep_percent": integer(0, 100), "fell_asleep": TIME},
    asks=(
        "How did I sleep in the night to {date}?",
        "How many hours did I sleep before {date}, and when did I fall asleep?",
        "Show my sleep record for {date}.",
    ),
    reply="In the night to {date} you slept {.hours} hours from {.fell_asleep}, {.deep_sleep_percent} percent of it "
    "deep sleep.",
    vague=("How did I sleep that night?",),
)
def get_sleep(state: State, date: str) -> dict[str, Any]:
    """Hours of sleep, share of deep sleep and time of falling asleep, for the night before a day."""
    day(date)
    dice = Dice(state, "sleep", date)
    hour = dice.choice((21, 22, 23))
    return {
        "date": date,
        "hours": dice.number(4.5, 9.4),
        "deep_sleep_percent": dice.integer(8, 31),
        "fell_asleep": f"{hour}:{dice.integer(0, 59):02}",
    }


@HEALTH.tool(
    params={
        "date": DATE("Day, YYYY-MM-DD."),
        "phase": enum("resting", "exercise", "whole_day", words=("phase", "when"))("Part of the day.").optional(
            "whole_day"
        ),
    },
    returns={"date": DATE, "mean_bpm": integer(20, 250), "max_bpm": integer(20, 250)},
    asks=(
        "What was my average heart rate on {date}?",
        "What was my {phase} heart rate on {date}?",
        "Give me mean and maximum heart rate of {date}, {phase} only.",
    ),
    reply="On {date} your heart rate was {.mean_bpm} on average and {.max_bpm} at most.",
)
def get_heart_rate(state: State, date: str, phase: str = "whole_day") -> dict[str, Any]:
    """Mean and maximum heart rate of a day or of a part of it, in beats a minute."""
    day(date)
    dice = Dice(state, "heart", date, phase)
    mean = dice.integer(0, 14) + {"resting": 52, "exercise": 128, "whole_day": 68}[phase]
    return {"date": date, "mean_bpm": mean, "max_bpm": mean + dice.integer(10, 55)}


@HEALTH.tool(
    params={
        "kilograms": KILOGRAMS("Body weight."),
        "centimetres": HEIGHT("Height."),
    },
    returns={"bmi": number(0, 2000), "category": enum("underweight", "normal", "overweight", "obese")},
    asks=(
        "What is the body mass index for {kilograms} kg and {centimetres} cm?",
        "I weigh {kilograms} kg and am {centimetres} cm tall. What's my BMI?",
    ),
    reply="The BMI is {.bmi}, which counts as {.category}.",
    vague=("I weigh {kilograms} kg. What's my BMI?", "I am {centimetres} cm tall. What's my BMI?"),
)
def compute_bmi(state: State, kilograms: float, centimetres: int) -> dict[str, Any]:
    """Body mass index and its category from weight and height."""
    bmi = round(kilograms / (centimetres / 100) ** 2, 1)
    category = "underweight" if bmi < 18.5 else "normal" if bmi < 25 else "overweight" if bmi < 30 else "obese"
    return {"bmi": bmi, "category": category}


@HEALTH.tool(
    params={
        "activity": ACTIVITY("What is done."),
        "minutes": MINUTES("Duration."),
        "kilograms": KILOGRAMS("Body weight."),
    },
    returns={"calories": integer(0, 100_000)},
    asks=(
        "How many calories does a person of {kilograms} kg burn in {minutes} minutes of {activity}?",
        "I weigh {kilograms} kg. What do {minutes} minutes of {activity} burn?",
    ),
    reply="{minutes} minutes of {activity} burn about {.calories} calories.",
    vague=("What do {minutes} minutes of {activity} burn for someone like me?",),
)
def estimate_calories(state: State, activity: str, minutes: int, kilograms: float) -> dict[str, Any]:
    """Estimate the calories burnt by an activity from its duration and the body weight. Logs nothing."""
    return {"calories": round(ACTIVITIES[activity] * kilograms * minutes / 60)}


@HEALTH.tool(
    params={
        "medicine": MEDICINE("Name of the medicine."),
        "times": array(TIME, 1, 6, 2)("Times of day, HH:MM."),
        "days": integer(1, 90, words=("days", "long"))("For how many days.").optional(7),
    },
    returns={"plan_id": identifier("MED"), "medicine": NAME, "doses": integer(1, 1000)},
    asks=(
        "Remind me to take {medicine} every day at {times}.",
        "Make a plan for {medicine}: at {times}, for {days} days.",
    ),
    reply="The plan {.plan_id} for {.medicine} has {.doses} doses.",
    vague=("Remind me to take {medicine} every day.",),
    writes=True,
)
def plan_medicine(state: State, medicine: str, times: list[str], days: int = 7) -> dict[str, Any]:
    """Make a plan with reminders for a medicine at times of day."""
    medicine = _medicine(medicine)
    plan_id = PLANS.fresh(state, medicine)
    if plan_id in table(state, "medicines"):
        refuse(f"There is a plan for {medicine} already ({plan_id}).", "conflict")
    table(state, "medicines")[plan_id] = {"medicine": medicine, "times": list(times), "days": days}
    return {"plan_id": plan_id, "medicine": medicine, "doses": len(times) * days}


def _medicine(given: str) -> str:
    return known(MEDICINES, given, "medicine", "medicine")


@HEALTH.tool(
    params={"medicine": MEDICINE("Name of the medicine.")},
    returns={"medicine": NAME, "max_mg_per_day": integer(1, 10_000), "with_food": enum("with_food", "without_food")},
    asks=(
        "How much {medicine} may I take a day?",
        "Is {medicine} taken with food, and what's the highest daily dose?",
        "Look up the dosage of {medicine}.",
    ),
    reply="At most {.max_mg_per_day} mg of {medicine} a day, {.with_food}.",
    vague=("What's the highest daily dose of the medicine I got?",),
)
def get_dosage(state: State, medicine: str) -> dict[str, Any]:
    """Highest daily dose of a medicine and whether it is taken with food."""
    medicine = _medicine(medicine)
    dice = Dice(state, "dose", medicine)
    return {
        "medicine": medicine,
        "max_mg_per_day": dice.integer(50, 2000, 50),
        "with_food": dice.choice(("with_food", "without_food")),
    }


HEALTH.recipe(
    ("w", "get_weight", {"date": "$date"}),
    ("b", "compute_bmi", {"kilograms": "@w.kilograms", "centimetres": "$centimetres"}),
    asks=(
        "What was my BMI on {date}? My weight is in the log, and I am {centimetres} cm tall.",
        "Take my logged weight of {date} and a height of {centimetres} cm, and work out the BMI.",
    ),
    reply="You weighed {w.kilograms} kg on {date}, so your BMI was {b.bmi} ({b.category}).",
)
HEALTH.recipe(
    ("w", "get_weight", {"date": "$date"}),
    ("c", "estimate_calories", {"activity": "$activity", "minutes": "$minutes", "kilograms": "@w.kilograms"}),
    asks=(
        "With my logged weight of {date}, how many calories do {minutes} minutes of {activity} burn?",
        "Look up what I weighed on {date} and estimate what {minutes} minutes of {activity} burn at that weight.",
    ),
    reply="At {w.kilograms} kg, {minutes} minutes of {activity} burn about {c.calories} calories.",
)
HEALTH.recipe(
    ("s", "get_sleep", {"date": "$date"}),
    ("h", "get_heart_rate", {"date": "$date"}),
    ("w", "get_weight", {"date": "$date"}),
    asks=(
        "Summarise my {date}: the sleep before it, the average heart rate, and my weight.",
        "For {date} I want hours slept, average heart rate and logged weight.",
    ),
    reply="On {date}: {s.hours} hours of sleep, {h.mean_bpm} beats a minute on average, {w.kilograms} kg.",
)
HEALTH.recipe(
    ("l", "log_weight", {"date": "$date", "kilograms": "$kilograms"}),
    ("w", "get_weight", {"date": "$other_date"}),
    asks=(
        "Log {kilograms} kg for {date}, and tell me what I weighed on {other_date} to compare.",
        "Put {kilograms} kg into my log for {date}. What did the log have for {other_date}?",
    ),
    reply="{l.kilograms} kg is logged for {date}; on {other_date} it was {w.kilograms} kg.",
)
HEALTH.recipe(
    ("d", "get_dosage", {"medicine": "$medicine"}),
    ("p", "plan_medicine", {"medicine": "$medicine", "times": "$times"}),
    asks=(
        "What is the highest daily dose of {medicine}? Also remind me to take it every day at {times}.",
        "Make me a plan to take {medicine} daily at {times}, and look up how it should be dosed.",
    ),
    reply="At most {d.max_mg_per_day} mg of {medicine} a day, {d.with_food}. The plan is {p.plan_id} with {p.doses} "
    "doses.",
)
HEALTH.recipe(
    ("v", "get_weight", {"date": "$date"}),
    ("w", "get_weight", {"date": "$other_date"}),
    asks=(
        "Did I lose weight between {date} and {other_date}? Give me both logged weights.",
        "Compare what I weighed on {date} and on {other_date}.",
    ),
    reply="You weighed {v.kilograms} kg on {date} and {w.kilograms} kg on {other_date}.",
)
