"""Recipes that join tools of several domains."""

from __future__ import annotations

from .base import Domain

ACROSS = Domain("across")

_FLIGHT = {"origin": "$origin", "destination": "$destination", "date": "$date"}
_MAIL = {"subject": "$subject", "body": "$body"}

ACROSS.recipe(
    ("e", "get_event", {"event_id": "$event_id"}),
    ("w", "get_weather_forecast", {"city": "$city", "date": "@e.date"}),
    asks=(
        "What will the weather be in {city} on the day of my calendar event {event_id}?",
        "Event {event_id} in my calendar takes place in {city}. Look up its day and give me the forecast for it.",
    ),
    reply="The {e.title} is on {e.date}; the forecast for {city} is {w.condition}, {w.high} degrees at most.",
)
ACROSS.recipe(
    ("f", "search_flights", _FLIGHT),
    ("w", "get_weather_forecast", {"city": "$destination", "date": "$date"}),
    asks=(
        "I'm thinking of flying from {origin} to {destination} on {date}. What's the cheapest flight, and the weather "
        "forecast there that day?",
        "Give me the cheapest flight from {origin} to {destination} on {date} together with the forecast for "
        "{destination}.",
    ),
    reply="Flight {f.flight_id} costs {f.price} euros; in {destination} it will be {w.condition}, {w.high} degrees "
    "at most.",
)
ACROSS.recipe(
    ("f", "search_flights", _FLIGHT),
    ("c", "create_event", {"title": "$title", "date": "$date", "start": "@f.departure"}),
    asks=(
        'Find the cheapest flight from {origin} to {destination} on {date} and put "{title}" into my calendar at its '
        "departure time.",
        "When does the cheapest flight from {origin} to {destination} leave on {date}? Block that time in the "
        "calendar as "
        '"{title}".',
    ),
    reply='Flight {f.flight_id} leaves at {f.departure} on {date}; "{title}" is in your calendar then ({c.event_id}).',
)
ACROSS.recipe(
    ("f", "search_flights", _FLIGHT),
    ("t", "convert_local_time", {"time": "@f.departure", "from_city": "$origin", "to_city": "$home"}),
    asks=(
        "When does the cheapest flight from {origin} to {destination} on {date} leave, in {home} time?",
        "Look up the departure of the cheapest flight from {origin} to {destination} on {date} and convert it from "
        "local "
        "time to that of {home}.",
    ),
    reply="Flight {f.flight_id} leaves at {f.departure} local time, which is {t.time} in {home}.",
)
ACROSS.recipe(
    ("p", "find_product", {"product": "$product"}),
    ("c", "convert_currency", {"amount": "@p.price", "source": "ARN", "target": "$target"}),
    asks=(
        "What does the {product} from the shop cost in {target}, if its price is taken as ARN?",
        "Look up the shop price of the {product} and convert it from ARN to {target}.",
    ),
    reply="The {product} costs {p.price}, which is {c.converted} {target}.",
)
ACROSS.recipe(
    ("d", "get_distance", {"origin": "$origin", "destination": "$destination"}),
    ("c", "convert_length", {"value": "@d.kilometres", "source": "kilometre", "target": "mile"}),
    asks=(
        "How far is it by road from {origin} to {destination}? Convert the kilometres to miles.",
        "Give me the road distance between {origin} and {destination} in kilometres and, converted, in miles.",
    ),
    reply="It is {d.kilometres} km, or {c.result} miles, from {origin} to {destination}.",
)
ACROSS.recipe(
    ("w", "get_weight", {"date": "$date"}),
    ("c", "convert_mass", {"value": "@w.kilograms", "source": "kilogram", "target": "$target"}),
    asks=(
        "What did I weigh on {date} according to my log, converted from kilograms to {target}?",
        "Take the weight in kilograms that my log has for {date} and convert it to {target}.",
    ),
    reply="On {date} you weighed {w.kilograms} kg, which is {c.result} {target}.",
)
ACROSS.recipe(
    ("p", "find_project", {"project": "$project"}),
    ("c", "find_contact", {"contact": "@p.lead"}),
    ("e", "send_email", {"to": "@c.email", **_MAIL}),
    asks=(
        'E-mail whoever leads {project}: subject "{subject}", text "{body}".',
        'Find the lead of {project} and write to that person, subject "{subject}": "{body}".',
    ),
    reply='{p.lead} leads {project}; the e-mail "{subject}" to {e.to} is {e.status} ({e.message_id}).',
)
ACROSS.recipe(
    ("t", "get_ticket", {"ticket_id": "$ticket_id"}),
    ("c", "find_contact", {"contact": "@t.assignee"}),
    ("e", "send_email", {"to": "@c.email", **_MAIL}),
    asks=(
        'Write an e-mail to the person who has ticket {ticket_id}: subject "{subject}", text "{body}".',
        'Find out who works on ticket {ticket_id} and e-mail them "{body}" under the subject "{subject}".',
    ),
    reply="{t.assignee} has ticket {ticket_id}; the e-mail to {e.to} is {e.status} ({e.message_id}).",
)
ACROSS.recipe(
    ("f", "find_file", {"file_name": "$file_name"}),
    ("i", "get_file_info", {"file_id": "@f.file_id"}),
    ("c", "find_contact", {"contact": "@i.modified_by"}),
    ("e", "send_email", {"to": "@c.email", **_MAIL}),
    asks=(
        'Whoever changed {file_name} last should get an e-mail: subject "{subject}", text "{body}".',
        'Find out who modified {file_name} last and e-mail that person "{body}", subject "{subject}".',
    ),
    reply="{i.modified_by} changed {file_name} last, on {i.modified}; the e-mail to {e.to} is {e.status} "
    "({e.message_id}).",
)
ACROSS.recipe(
    ("s", "search_place", {"city": "$city", "kind": "$kind"}),
    ("d", "get_place_details", {"place_id": "@s.place_id"}),
    ("t", "send_sms", {"phone": "@d.phone", "body": "$body"}),
    asks=(
        'Find a {kind} in {city}, look up its phone number and text it: "{body}".',
        'Send an SMS saying "{body}" to a {kind} in {city}; its number is in the place details.',
    ),
    reply="I texted the {kind} at {s.street} in {city}, phone {d.phone} (message {t.sms_id}).",
)
ACROSS.recipe(
    ("b", "find_book", {"title": "$title"}),
    ("m", "find_member", {"member": "$member"}),
    ("r", "reserve_book", {"book_id": "@b.book_id", "member_id": "@m.member_id", "branch": "$branch"}),
    ("c", "create_event", {"title": "$event_title", "date": "@r.ready_on", "start": "$start"}),
    asks=(
        'Reserve {title} for {member} at the {branch} of the library, and put "{event_title}" into my calendar at '
        "{start} "
        "on the day the book is ready.",
        '{member} wants {title} from the {branch} of the library. Reserve it, then schedule "{event_title}" for the '
        "day it "
        "can be picked up, at {start}.",
    ),
    reply='{title} is reserved ({r.reservation_id}) and ready on {r.ready_on}; "{event_title}" is in the calendar '
    "({c.event_id}).",
)
ACROSS.recipe(
    ("f", "find_film", {"film": "$film"}),
    ("s", "find_show", {"film_id": "@f.film_id", "city": "$city", "date": "$date"}),
    ("c", "create_event", {"title": "$title", "date": "$date", "start": "@s.starts"}),
    asks=(
        'When is {film} on in {city} on {date}? Put it into my calendar at that time as "{title}".',
        'Find a show of {film} in {city} on {date} and block its starting time in my calendar, titled "{title}".',
    ),
    reply='{film} starts at {s.starts} on {date} in {city}; "{title}" is in your calendar ({c.event_id}).',
)
ACROSS.recipe(
    ("h", "search_hotels", {"city": "$city"}),
    ("p", "find_parking", {"city": "$city", "hours": "$hours"}),
    ("w", "get_weather_forecast", {"city": "$city", "date": "$date"}),
    asks=(
        "I'm driving to {city} on {date}. I need a hotel to look at, parking for {hours} hours, and the forecast.",
        "For a visit to {city} on {date}: suggest a hotel, find a car park for {hours} hours and check the weather.",
    ),
    reply="In {city} there is the {h.hotel_name} at {h.price_per_night} euros; parking at {p.garage} costs {p.fee} "
    "euros; "
    "the forecast is {w.condition}.",
)
ACROSS.recipe(
    ("e", "find_event", {"title": "$title", "date": "$date"}),
    ("t", "convert_local_time", {"time": "@e.start", "from_city": "$city", "to_city": "$other_city"}),
    asks=(
        'My "{title}" on {date} is in {city}. When does it start in {other_city} time?',
        'At what {other_city} time does my "{title}" on {date} start, if the calendar shows {city} time?',
    ),
    reply="The {title} starts at {e.start} in {city}, which is {t.time} in {other_city}.",
)
ACROSS.recipe(
    ("c", "find_customer", {"customer": "$customer"}),
    ("l", "list_orders", {"customer_id": "@c.customer_id"}),
    ("t", "track_order", {"order_id": "@l.latest_order_id"}),
    ("v", "create_event", {"title": "$title", "date": "@t.arrives_on", "start": "$start"}),
    asks=(
        'When does the latest shop order of {customer} arrive? Put "{title}" into my calendar on that day at {start}.',
        'Schedule "{title}" at {start} on the day on which the most recent order of {customer} is delivered.',
    ),
    reply='Order {l.latest_order_id} of {customer} arrives on {t.arrives_on}; "{title}" is scheduled then '
    "({v.event_id}).",
)
ACROSS.recipe(
    ("t", "find_team", {"team": "$team"}),
    ("n", "get_next_match", {"team_id": "@t.team_id"}),
    ("c", "create_event", {"title": "$title", "date": "@n.date", "start": "@n.kick_off"}),
    asks=(
        'Put the next match of {team} into my calendar as "{title}", at kick-off.',
        'When does {team} play next? Block that date and kick-off time in the calendar, titled "{title}".',
    ),
    reply='{team} plays {n.opponent} on {n.date} at {n.kick_off}; "{title}" is in your calendar ({c.event_id}).',
)
ACROSS.recipe(
    ("t", "translate_dna", {"sequence": "$sequence"}),
    ("n", "write_note", {"title": "$title", "content": "@t.protein"}),
    asks=(
        'Translate {sequence} into protein and save the protein as a note called "{title}".',
        'Which protein does {sequence} encode? Write just that into a new note "{title}".',
    ),
    reply='The protein is {t.protein}; it is saved in the note "{n.title}" ({n.note_id}).',
)
ACROSS.recipe(
    ("t", "find_ticker", {"company": "$company"}),
    ("d", "get_dividend", {"ticker": "@t.ticker"}),
    ("c", "create_event", {"title": "$title", "date": "@d.pay_date", "start": "$start"}),
    asks=(
        'When does {company} pay its next dividend? Put "{title}" into my calendar on that day at {start}.',
        'Schedule "{title}" at {start} on the day on which {company} pays its dividend.',
    ),
    reply='{company} pays {d.dividend_per_share} per share on {d.pay_date}; "{title}" is scheduled then '
    "({c.event_id}).",
)
ACROSS.recipe(
    ("f", "find_recipe", {"dish": "$dish"}),
    ("i", "get_ingredients", {"recipe_id": "@f.recipe_id"}),
    ("s", "find_substitute", {"ingredient": "@i.items.0.ingredient"}),
    asks=(
        "What can replace the first ingredient in the recipe for {dish}?",
        "I want to cook {dish} but never have its first ingredient at home. Look it up and find a substitute.",
    ),
    reply="The first ingredient of {dish} is {i.items.0.ingredient}; use {s.substitute} instead.",
)
ACROSS.recipe(
    ("h", "get_branch_hours", {"branch": "$branch", "weekday": "$weekday"}),
    ("c", "create_event", {"title": "$title", "date": "$date", "start": "@h.opens"}),
    asks=(
        'Put "{title}" into my calendar on {date} at the time when the {branch} of the library opens on a {weekday}.',
        'When does the {branch} of the library open on {weekday}? Schedule "{title}" for that time on {date}.',
    ),
    reply='The {branch} opens at {h.opens}; "{title}" is in your calendar on {date} then ({c.event_id}).',
)
ACROSS.recipe(
    ("p", "find_project", {"project": "$project"}),
    ("s", "get_project_status", {"project_id": "@p.project_id"}),
    ("c", "create_event", {"title": "$title", "date": "@s.deadline", "start": "$start"}),
    asks=(
        'When is {project} due? Put "{title}" into my calendar on that day at {start}.',
        'Schedule "{title}" at {start} on the day of the deadline of {project}.',
    ),
    reply='{project} is due on {s.deadline}; "{title}" is in your calendar at {start} then ({c.event_id}).',
)
ACROSS.recipe(
    ("s", "search_inbox", {"sender": "$sender"}),
    ("r", "read_message", {"message_id": "@s.message_id"}),
    ("n", "write_note", {"title": "$title", "content": "@r.text"}),
    asks=(
        'Save the text of the latest e-mail from {sender} as a note called "{title}".',
        'Read the newest mail of {sender} and copy its text, unchanged, into a new note "{title}".',
    ),
    reply='The latest mail of {sender} says "{r.text}"; it is saved in the note "{n.title}" ({n.note_id}).',
)
ACROSS.recipe(
    ("m", "find_contact", {"contact": "$contact"}),
    ("f", "search_flights", _FLIGHT),
    ("b", "book_flight", {"flight_id": "@f.flight_id", "passenger": "$contact"}),
    ("e", "send_email", {"to": "@m.email", **_MAIL}),
    asks=(
        "Book the cheapest flight from {origin} to {destination} on {date} for {contact}, and e-mail {contact} the "
        "subject "
        '"{subject}" with the text "{body}".',
        "{contact} flies from {origin} to {destination} on {date}: find and book the cheapest flight. Also write an "
        "e-mail to "
        '{contact}, subject "{subject}", text "{body}".',
    ),
    reply="Flight {f.flight_id} is booked for {contact} ({b.booking_id}, {b.total} euros), and the e-mail to {e.to} is "
    "{e.status}.",
)
