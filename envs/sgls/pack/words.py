"""Invented vocabularies: names of people, places, things. Generic words and made-up names only, no external data."""

from __future__ import annotations


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _split(
    "Adela Bruno Celia Dorian Edda Fabio Greta Hanno Ilka Jonas Kaia Lorin Mirel Nadia Orson Petra Quentin Runa Silas "
    "Tamsin Ulric Vera Wanda Yoris Zelda Anselm"
)
LAST_NAMES = _split(
    "Abrenz Brekker Calloway Dunmore Eskelin Farrow Gantry Holloway Ivarsen Jessop Kestrel Lindqvist Marlowe Norcross "
    "Okonra Pellgrin Quillan Rasmund Sorrell Tavener Umberton Varga Wexford Yarrow Zeller Ashdown"
)
PEOPLE = tuple(f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES)

CITIES = _split(
    "Aldermoor Brackenford Calvessa Dunreath Eastmarsh Farholm Glenhaven Harrowgate Iskarrow Jarlsund Kelderby "
    "Lonsdorf Merrowick Northolm Orlevic Pendrell Quarrington Ravenshoe Stellmar Thornbury Ulverden Valmora Westerby "
    "Yarmuth "
    "Zandvik Ambervale Birchwater Coldbrook Drummore Elmstead Foxcombe Greywick Hollowell Ironbridge Jarrow-on-Sea "
    "Kettmere Larkhill Millhaven Novaria-Alta Oakhaven"
)
STREETS = tuple(
    f"{name} {kind}"
    for name in _split("Alder Beacon Cedar Dover Elm Foundry Garden Harbour Juniper Linden Maple Orchard")
    for kind in ("Street", "Lane", "Avenue")
)
COMPANIES = tuple(
    f"{name} {kind}"
    for name in _split("Aurix Boreal Cindra Deltora Evergate Fennick Gravita Helion Ixora Juno Kestrix Lumeno")
    for kind in ("Systems", "Foods", "Energy", "Logistics")
)
PRODUCTS = tuple(
    f"{quality} {thing}"
    for quality in _split("walnut steel linen ceramic folding compact wireless classic")
    for thing in _split("lamp chair kettle backpack speaker desk blanket clock shelf mug")
)
BOOKS = tuple(
    f"The {quality} {thing}"
    for quality in _split("Amber Broken Distant Hidden Last Quiet Silver Winter")
    for thing in _split("Harbour Garden Letter Orchard River Station Tower Voyage")
)
MOVIES = tuple(
    f"{first} {second}"
    for first in _split("Crimson Midnight Paper Glass Northern Velvet")
    for second in _split("Horizon Echo Parade Signal Kingdom Summer Mirage")
)
DISHES = tuple(
    f"{first} {second}"
    for first in _split("lentil mushroom pumpkin tomato spinach barley chickpea salmon chicken")
    for second in _split("stew curry soup pie salad risotto")
)
INGREDIENTS = _split(
    "lentils mushrooms pumpkin tomatoes spinach barley chickpeas salmon chicken butter cream eggs flour milk honey "
    "rice potatoes onions garlic carrots walnuts yoghurt"
)
TEAMS = tuple(f"{city} {name}" for city in CITIES[:16] for name in ("Rovers", "Falcons", "United"))
PROJECTS = tuple(
    f"Project {name}"
    for name in _split(
        "Apollo Basalt Cobalt Dynamo Ember Fjord Glacier Harvest Indigo Juniper Krypton Lantern Meridian Nimbus "
        "Onyx Pioneer Quartz Redwood Saffron Tundra"
    )
)
FOLDERS = _split("archive contracts designs drafts finance invoices marketing photos reports research")
FILES = tuple(
    f"{what}_{when}.{ending}"
    for what, ending in (
        ("budget", "xlsx"), ("minutes", "docx"), ("roadmap", "pdf"), ("survey", "csv"), ("brochure", "pdf"),
        ("payroll", "xlsx"), ("inventory", "csv"), ("proposal", "docx"),
    )
    for when in ("q1", "q2", "q3", "q4", "draft", "final")
)  # fmt: skip
EVENT_TITLES = tuple(
    f"{what} {kind}"
    for what in _split("budget design hiring marketing product safety supplier team training quarterly")
    for kind in ("review", "meeting", "workshop", "briefing", "planning")
)
SUBJECTS = tuple(
    f"{what} {kind}"
    for what in _split("Contract Delivery Invoice Meeting Parking Schedule Travel Warranty")
    for kind in ("update", "question", "reminder", "approval", "change")
)
PHRASES = (
    "Please confirm by Friday",
    "The documents are ready",
    "See you at the usual place",
    "I will call you tomorrow",
    "The delivery has arrived",
    "Thanks for your help yesterday",
    "The room has changed",
    "We need two more days",
    "Everything is on track",
    "Can you send the figures",
    "The meeting starts a little later",
    "Your parcel is at the front desk",
)

MONTHS = _split("January February March April May June July August September October November December")
WEEKDAYS = _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
NUMBER_WORDS = dict(enumerate(_split("zero one two three four five six seven eight nine ten eleven twelve")))
