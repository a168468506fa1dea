"""Weather: current, forecast and past conditions, air, pollen, sun, and measuring stations."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Named, State, day, known
from .params import CITY, DATE, NAME, TIME, enum, identifier, integer, name, number
from .words import CITIES

WEATHER = Domain("weather")

CONDITIONS = ("clear", "cloudy", "foggy", "rainy", "snowy", "stormy", "windy")
UNITS = enum("celsius", "fahrenheit", say={"celsius": "degrees Celsius", "fahrenheit": "degrees Fahrenheit"})
PLANTS = ("alder", "birch", "grass", "hazel", "mugwort", "ragweed")
METRICS = {
    "air_pressure": (970, 1045, "hPa"),
    "humidity": (15, 100, "%"),
    "rainfall": (0, 60, "mm"),
    "wind_speed": (0, 110, "km/h"),
}
STATIONS = Named.of("WST", "weather station", CITIES)


def _temperature(celsius: int, units: str) -> int:
    return celsius if units == "celsius" else round(celsius * 9 / 5 + 32)


def _conditions(state: State, city: str, date: str) -> tuple[str, int, int]:
    """Condition, high and low in degrees Celsius: the same for the forecast and the record of a day."""
    season = abs(day(date).month - 7)
    dice = Dice(state, "weather", city, date)
    high = dice.integer(16, 34) - 4 * season
    return dice.choice(CONDITIONS[:-3] if high > 5 else CONDITIONS), high, high - dice.integer(4, 12)


@WEATHER.tool(
    params={"city": CITY("City name."), "units": UNITS("Unit of the temperature.").optional("celsius")},
    returns={"city": NAME, "condition": enum(*CONDITIONS), "temperature": integer(-60, 130), "units": UNITS},
    asks=(
        "What's the weather like in {city} right now?",
        "How warm is it in {city} at the moment, and is it wet or dry?",
        "Tell me the current conditions in {city}.",
        "What is the temperature in {city} right now, in {units}?",
    ),
    reply="It is {.condition} in {city} right now, at {.temperature} {.units}.",
    vague=("What's the temperature outside right now?", "How is the weather over there at the moment?"),
)
def get_current_weather(state: State, city: str, units: str = "celsius") -> dict[str, Any]:
    """Current condition and temperature in a city."""
    city = known(CITIES, city, "city", "city")
    dice = Dice(state, "weather now", city)
    celsius = dice.integer(-8, 34)
    return {
        "city": city,
        "condition": dice.choice(CONDITIONS[:4]),
        "temperature": _temperature(celsius, units),
        "units": units,
    }


@WEATHER.tool(
    params={
        "city": CITY("City name."),
        "date": DATE("Day of the forecast, YYYY-MM-DD."),
        "units": UNITS("Unit of the temperatures.").optional("celsius"),
    },
    returns={
        "city": NAME,
        "date": DATE,
        "condition": enum(*CONDITIONS),
        "high": integer(-80, 150),
        "low": integer(-80, 150),
    },
    asks=(
        "What will the weather be like in {city} on {date}?",
        "I'm going to be in {city} on {date}. What's the forecast?",
        "Give me the forecast for {city} on {date}, in {units} please.",
        "Look up the weather forecast: {city}, {date}.",
    ),
    reply="For {city} on {date} the forecast is {.condition}, with a high of {.high} and a low of {.low} degrees.",
    vague=("What's the weather forecast for {city}? It's for a trip on a day I've already booked off.",),
)
def get_weather_forecast(state: State, city: str, date: str, units: str = "celsius") -> dict[str, Any]:
    """Forecast for one coming day in a city: condition, highest and lowest temperature."""
    city = known(CITIES, city, "city", "city")
    condition, high, low = _conditions(state, city, date)
    return {
        "city": city,
        "date": date,
        "condition": condition,
        "high": _temperature(high, units),
        "low": _temperature(low, units),
    }


@WEATHER.tool(
    params={"city": CITY("City name."), "date": DATE("Past day, YYYY-MM-DD.")},
    returns={
        "city": NAME,
        "date": DATE,
        "condition": enum(*CONDITIONS),
        "mean_temperature": number(-60, 60),
        "rainfall_mm": number(0, 200),
    },
    asks=(
        "How much did it rain in {city} on {date}?",
        "What was the weather in {city} back on {date}?",
        "I need the recorded weather for {city} on {date}: mean temperature and rain.",
    ),
    reply="On {date} it was {.condition} in {city}: {.mean_temperature} °C on average and {.rainfall_mm} mm of rain.",
)
def get_past_weather(state: State, city: str, date: str) -> dict[str, Any]:
    """Weather recorded in a city on a past day: condition, mean temperature in °C, rainfall in mm."""
    city = known(CITIES, city, "city", "city")
    condition, high, low = _conditions(state, city, date)
    dice = Dice(state, "rain", city, date)
    wet = condition in ("rainy", "snowy", "stormy")
    return {
        "city": city,
        "date": date,
        "condition": condition,
        "mean_temperature": (high + low) / 2,
        "rainfall_mm": dice.number(0.5, 38) if wet else 0.0,
    }


@WEATHER.tool(
    params={"city": CITY("City name.")},
    returns={
        "city": NAME,
        "index": integer(0, 500),
        "level": enum("good", "moderate", "poor"),
        "main_pollutant": enum("ozone", "fine_dust", "nitrogen_dioxide"),
    },
    asks=(
        "How good is the air in {city} today?",
        "What's the air quality index of {city}?",
        "Is the air in {city} polluted, and by what?",
    ),
    reply="The air quality index in {city} is {.index} ({.level}); the main pollutant is {.main_pollutant}.",
)
def get_air_quality(state: State, city: str) -> dict[str, Any]:
    """Air quality index of a city now, its level and the main pollutant."""
    city = known(CITIES, city, "city", "city")
    dice = Dice(state, "air", city)
    index = dice.integer(8, 180)
    level = "good" if index <= 50 else "moderate" if index <= 100 else "poor"
    pollutant = dice.choice(("ozone", "fine_dust", "nitrogen_dioxide"))
    return {"city": city, "index": index, "level": level, "main_pollutant": pollutant}


@WEATHER.tool(
    params={
        "city": CITY("City name."),
        "plant": enum(*PLANTS, words=("plant", "pollen"))("Plant that makes the pollen."),
    },
    returns={
        "city": NAME,
        "plant": enum(*PLANTS),
        "grains_per_m3": integer(0, 2000),
        "burden": enum("low", "medium", "high"),
    },
    asks=(
        "How bad is the {plant} pollen in {city}?",
        "I'm allergic to {plant}. What's the pollen count in {city}?",
        "Check the {plant} pollen burden for {city}.",
    ),
    reply="The {plant} pollen burden in {city} is {.burden}, at {.grains_per_m3} grains per cubic metre.",
    vague=("How bad is the pollen in {city} for me? I'm allergic to just one plant.",),
)
def get_pollen_count(state: State, city: str, plant: str) -> dict[str, Any]:
    """Pollen of one plant in the air of a city."""
    city = known(CITIES, city, "city", "city")
    count = Dice(state, "pollen", city, plant).integer(0, 600)
    burden = "low" if count < 60 else "medium" if count < 250 else "high"
    return {"city": city, "plant": plant, "grains_per_m3": count, "burden": burden}


@WEATHER.tool(
    params={"city": CITY("City name."), "date": DATE("Day, YYYY-MM-DD.")},
    returns={"city": NAME, "date": DATE, "sunrise": TIME, "sunset": TIME},
    asks=(
        "When does the sun rise and set in {city} on {date}?",
        "Give me sunrise and sunset for {city} on {date}.",
        "I want to photograph {city} at dawn and dusk on {date}. When are sunrise and sunset?",
    ),
    reply="In {city} on {date} the sun rises at {.sunrise} and sets at {.sunset}.",
)
def get_sun_times(state: State, city: str, date: str) -> dict[str, Any]:
    """Sunrise and sunset in a city on a day, local time."""
    city = known(CITIES, city, "city", "city")
    season = abs(day(date).month - 6)
    dice = Dice(state, "sun", city, day(date).month)
    rise, fall = dice.integer(0, 40), dice.integer(0, 40)
    return {
        "city": city,
        "date": date,
        "sunrise": f"{5 + season // 2:02}:{rise:02}",
        "sunset": f"{21 - season:02}:{fall:02}",
    }


@WEATHER.tool(
    params={"city": name(CITIES, words=("city", "where", "place"))("City whose station is wanted.")},
    returns={"city": NAME, "station_id": identifier("WST"), "altitude_m": integer(0, 4000)},
    asks=(
        "Which weather station belongs to {city}? I need its id.",
        "Find the id of the measuring station in {city}, and how high up it is.",
        "What's the station id for {city}?",
    ),
    reply="The weather station of {city} is {.station_id}, {.altitude_m} m above sea level.",
)
def find_weather_station(state: State, city: str) -> dict[str, Any]:
    """Find the measuring station of a city: its id and altitude. Gives no measurements."""
    city = known(CITIES, city, "city", "city")
    return {
        "city": city,
        "station_id": STATIONS.id(state, city, "city"),
        "altitude_m": Dice(state, "altitude", city).integer(2, 1900),
    }


@WEATHER.tool(
    params={
        "station_id": identifier("WST", STATIONS.ids.sample, words=("station",))("Id of the station, as WST-12345."),
        "metric": enum(*METRICS, words=("measure", "metric", "reading"))("Metric that is wanted."),
    },
    returns={"station_id": identifier("WST"), "value": integer(0, 2000), "unit": enum("hPa", "%", "mm", "km/h")},
    asks=(
        "What {metric} does station {station_id} report?",
        "Read the {metric} from weather station {station_id}.",
        "Station {station_id}: what's the latest {metric}?",
    ),
    reply="The {metric} at station {station_id} is {.value} {.unit}.",
    vague=("Get me the latest reading from weather station {station_id}, just the one measurement.",),
)
def get_station_reading(state: State, station_id: str, metric: str) -> dict[str, Any]:
    """Latest measurement of one metric at a weather station, by the station's id."""
    STATIONS.name(state, station_id)
    low, high, unit = METRICS[metric]
    return {"station_id": station_id, "value": Dice(state, metric, station_id).integer(low, high), "unit": unit}


WEATHER.recipe(
    ("s", "find_weather_station", {"city": "$city"}),
    ("r", "get_station_reading", {"station_id": "@s.station_id", "metric": "$metric"}),
    asks=(
        "What {metric} does the weather station in {city} report?",
        "I need the latest {metric} measured by the station at {city}.",
        "Find the measuring station of {city} and read its {metric}.",
    ),
    reply="The {metric} at the station in {city} ({s.station_id}) is {r.value} {r.unit}.",
)
WEATHER.recipe(
    ("s", "find_weather_station", {"city": "$city"}),
    ("a", "get_station_reading", {"station_id": "@s.station_id", "metric": "air_pressure"}),
    ("b", "get_station_reading", {"station_id": "@s.station_id", "metric": "humidity"}),
    asks=(
        "Read both air pressure and humidity from the weather station in {city}.",
        "What air pressure and what humidity does the station of {city} measure?",
    ),
    reply="The station in {city} reports an air pressure of {a.value} hPa and a humidity of {b.value} %.",
)
WEATHER.resemble("get_current_weather", "get_weather_forecast", "get_past_weather", "get_air_quality")
