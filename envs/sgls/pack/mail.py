"""Mail and contacts: address book, e-mails, replies, text messages."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Ids, Named, State, known, refuse, table
from .params import ALL_DAYS, DATE, NAME, PERSON, TEXT, Param, array, enum, identifier, integer, text
from .words import PEOPLE, PHRASES, STREETS, SUBJECTS

MAIL = Domain("mail")

BOOK = Named.of("CON", "contact", PEOPLE)
INBOX = Ids("MSG", "message", len(PEOPLE))
CONTACT_ID = identifier("CON", BOOK.ids.sample, words=("contact",))
MESSAGE_ID = identifier("MSG", INBOX.sample, words=("message", "mail"))
SUBJECT = text(SUBJECTS, words=("subject", "about", "topic"))
BODY = text(PHRASES, max_length=1000, words=("text", "write", "content"))
SHORT_TEXT = text(PHRASES, 160, words=("text", "write"))
PRIORITY = enum("low", "normal", "high", words=("priority",))
LABEL = enum("work", "private", "invoices", "later", words=("label", "folder"))


def _address(state: State, person: str) -> str:
    host = Dice(state, "mail host", person).choice(("postbox", "letterly", "mailhaven"))
    return f"{person.lower().replace(' ', '.')}@{host}.example"


def _said_address(rng: Any, state: State) -> str:
    return _address(state, rng.choice(PEOPLE))


ADDRESS = Param(
    {"type": "string", "minLength": 6, "maxLength": 80, "pattern": "^[^@ ]+@[^@ ]+[.][a-z]+$"},
    "name",
    _said_address,
    words=("address", "e-mail", "email", "who", "whom", "recipient"),
)
PHONE = Param(
    {"type": "string", "pattern": "^0[0-9]{2}-[0-9]{6}$"},
    "name",
    lambda rng, state: f"0{rng.randrange(10, 99)}-{rng.randrange(100_000, 999_999)}",
    words=("phone", "number", "whom", "who"),
)


@MAIL.tool(
    params={"contact": PERSON("Full name of the contact.")},
    returns={"contact_id": CONTACT_ID, "contact": NAME, "email": ADDRESS},
    asks=(
        "What is the e-mail address of {contact}?",
        "Find {contact} in my address book.",
        "Under which address can I write to {contact}?",
    ),
    reply="{contact} ({.contact_id}) can be reached at {.email}.",
    vague=("Look up an e-mail address in my address book.",),
)
def find_contact(state: State, contact: str) -> dict[str, Any]:
    """Find a person in the address book: contact id and e-mail address. Gives no phone number."""
    contact = known(PEOPLE, contact, "contact", "contact")
    return {"contact_id": BOOK.id(state, contact), "contact": contact, "email": _address(state, contact)}


@MAIL.tool(
    params={"contact_id": CONTACT_ID("Id of the contact, as CON-12345.")},
    returns={"contact_id": CONTACT_ID, "contact": NAME, "phone": PHONE, "street": NAME, "birthday": DATE},
    asks=(
        "What's the phone number of contact {contact_id}?",
        "When is the birthday of contact {contact_id}, and what's the phone number?",
        "Show me the card of {contact_id} from the address book.",
    ),
    reply="{.contact} ({contact_id}): phone {.phone}, {.street}, birthday {.birthday}.",
)
def get_contact(state: State, contact_id: str) -> dict[str, Any]:
    """Phone number, street and birthday of a contact, by contact id."""
    contact = BOOK.name(state, contact_id)
    dice = Dice(state, "contact", contact)
    return {
        "contact_id": contact_id,
        "contact": contact,
        "phone": f"0{dice.integer(10, 99)}-{dice.integer(100_000, 999_999)}",
        "street": dice.choice(STREETS),
        "birthday": f"{dice.integer(1950, 2004)}-{dice.integer(1, 12):02}-{dice.integer(1, 28):02}",
    }


@MAIL.tool(
    params={
        "to": ADDRESS("E-mail address of the recipient."),
        "subject": SUBJECT("Subject line."),
        "body": BODY("Text of the e-mail."),
        "cc": array(ADDRESS, 1, 5, 2)("Addresses that get a copy.").optional(None),
        "priority": PRIORITY("Priority.").optional("normal"),
    },
    returns={"message_id": MESSAGE_ID, "to": ADDRESS, "status": enum("sent", "queued")},
    asks=(
        'Send an e-mail to {to} with the subject "{subject}" and the text "{body}".',
        'Write to {to}, subject "{subject}", {priority} priority: "{body}".',
        'E-mail {to} about "{subject}", text "{body}", with a copy to {cc}.',
    ),
    reply='The e-mail "{subject}" to {.to} is {.status} ({.message_id}).',
    vague=('Send an e-mail with the subject "{subject}" and the text "{body}".',),
    writes=True,
)
def send_email(
    state: State, to: str, subject: str, body: str, cc: list[str] | None = None, priority: str = "normal"
) -> dict[str, Any]:
    """Send a new e-mail to an address."""
    sent = table(state, "sent mail")
    message_id = INBOX.fresh(state, to, subject, body)
    sent[message_id] = {"to": to, "subject": subject, "body": body, "cc": cc or [], "priority": priority}
    return {"message_id": message_id, "to": to, "status": Dice(state, message_id).choice(("sent", "queued"))}


@MAIL.tool(
    params={"sender": PERSON("Full name of the sender.")},
    returns={"message_id": MESSAGE_ID, "subject": NAME, "received": DATE},
    asks=(
        "What was the latest e-mail from {sender} about?",
        "When did {sender} last write to me? I need the message id.",
        "Find the newest mail of {sender} in my inbox.",
    ),
    reply='The latest mail of {sender} is {.message_id}, "{.subject}", received on {.received}.',
    vague=("Find the newest mail of my colleague in the inbox.",),
)
def search_inbox(state: State, sender: str) -> dict[str, Any]:
    """Search the latest message of a sender in the inbox: id, subject and date. Gives no text."""
    sender = known(PEOPLE, sender, "sender", "sender")
    message_id = INBOX.encode(state, PEOPLE.index(sender))
    received = Dice(state, "received", sender).choice(ALL_DAYS)
    return {"message_id": message_id, "subject": _subject(state, message_id), "received": received}


def _subject(state: State, message_id: str) -> str:
    return Dice(state, "subject", message_id).choice(SUBJECTS)


@MAIL.tool(
    params={"message_id": MESSAGE_ID("Id of the message, as MSG-12345.")},
    returns={"message_id": MESSAGE_ID, "subject": NAME, "text": TEXT, "attachments": integer(0, 50)},
    asks=(
        "What does message {message_id} say?",
        "Read mail {message_id} to me.",
        "Open {message_id}: what is the text, and are there attachments?",
    ),
    reply='Message {message_id} ("{.subject}") says: "{.text}". Number of attachments: {.attachments}.',
)
def read_message(state: State, message_id: str) -> dict[str, Any]:
    """Subject, text and number of attachments of a received message, by its id."""
    INBOX.decode(state, message_id)
    dice = Dice(state, "text", message_id)
    said = f"{dice.choice(PHRASES)}, code {dice.integer(1000, 9999)}"
    return {
        "message_id": message_id,
        "subject": _subject(state, message_id),
        "text": said,
        "attachments": dice.integer(0, 4),
    }


@MAIL.tool(
    params={"message_id": MESSAGE_ID("Id of the message."), "body": BODY("Text of the answer.")},
    returns={"reply_id": MESSAGE_ID, "subject": NAME},
    asks=(
        'Answer message {message_id} with "{body}".',
        'Reply to mail {message_id}: "{body}".',
    ),
    reply='I answered {message_id} under "{.subject}" ({.reply_id}).',
    vague=("Answer message {message_id} for me.",),
    writes=True,
)
def reply_to_message(state: State, message_id: str, body: str) -> dict[str, Any]:
    """Answer a received message, by its id."""
    INBOX.decode(state, message_id)
    reply_id = INBOX.fresh(state, message_id, body)
    subject = f"Re: {_subject(state, message_id)}"
    table(state, "sent mail")[reply_id] = {"subject": subject, "body": body, "answers": message_id}
    return {"reply_id": reply_id, "subject": subject}


@MAIL.tool(
    params={"message_id": MESSAGE_ID("Id of the message."), "label": LABEL("Label to set.")},
    returns={"message_id": MESSAGE_ID, "labels": array(LABEL, 0, 10)},
    asks=(
        'Label message {message_id} as "{label}".',
        'Put the label "{label}" on mail {message_id}.',
    ),
    reply="Labels of message {message_id} now: {.labels}.",
    vague=("Put a label on mail {message_id}.",),
    writes=True,
)
def label_message(state: State, message_id: str, label: str) -> dict[str, Any]:
    """Put a label on a received message, by its id."""
    INBOX.decode(state, message_id)
    labels = table(state, "labels").setdefault(message_id, [])
    if label in labels:
        refuse(f"The message {message_id} has that label already.", "conflict")
    labels.append(label)
    return {"message_id": message_id, "labels": list(labels)}


@MAIL.tool(
    params={"phone": PHONE("Phone number, as 012-345678."), "body": SHORT_TEXT("Text, 160 characters at most.")},
    returns={"sms_id": identifier("SMS"), "parts": integer(1, 4)},
    asks=(
        'Text {phone}: "{body}".',
        'Send the SMS "{body}" to {phone}.',
    ),
    reply="The text message {.sms_id} to {phone} is sent.",
    vague=('Send the SMS "{body}", please.', "Send a text message to {phone}."),
    writes=True,
)
def send_sms(state: State, phone: str, body: str) -> dict[str, Any]:
    """Send a short text message to a phone number."""
    sms_id = SMS.fresh(state, phone, body)
    table(state, "sms")[sms_id] = {"phone": phone, "body": body}
    return {"sms_id": sms_id, "parts": 1}


SMS = Ids("SMS", "text message", 0)

MAIL.recipe(
    ("c", "find_contact", {"contact": "$contact"}),
    ("g", "get_contact", {"contact_id": "@c.contact_id"}),
    asks=(
        "What is the phone number of {contact}?",
        "When is {contact}'s birthday, and on which street does {contact} live?",
    ),
    reply="{contact}: phone {g.phone}, {g.street}, birthday {g.birthday}.",
)
MAIL.recipe(
    ("c", "find_contact", {"contact": "$contact"}),
    ("e", "send_email", {"to": "@c.email", "subject": "$subject", "body": "$body"}),
    asks=(
        'E-mail {contact}: subject "{subject}", text "{body}".',
        'Write an e-mail to {contact} with the subject "{subject}" saying "{body}".',
    ),
    reply='The e-mail "{subject}" to {contact} ({e.to}) is {e.status}, message {e.message_id}.',
)
MAIL.recipe(
    ("s", "search_inbox", {"sender": "$sender"}),
    ("r", "read_message", {"message_id": "@s.message_id"}),
    asks=(
        "What does the latest e-mail from {sender} say?",
        "Open the newest mail from {sender} and tell me what it says.",
    ),
    reply='The latest mail of {sender} ("{s.subject}", {s.received}) says: "{r.text}".',
)
MAIL.recipe(
    ("s", "search_inbox", {"sender": "$sender"}),
    ("r", "reply_to_message", {"message_id": "@s.message_id", "body": "$body"}),
    asks=(
        'Answer the latest e-mail of {sender} with "{body}".',
        'Reply to the newest mail from {sender}: "{body}".',
    ),
    reply='I answered {sender} under "{r.subject}" ({r.reply_id}).',
)
MAIL.recipe(
    ("c", "find_contact", {"contact": "$contact"}),
    ("g", "get_contact", {"contact_id": "@c.contact_id"}),
    ("t", "send_sms", {"phone": "@g.phone", "body": "$body"}),
    asks=(
        'Text {contact} "{body}". The number is in my address book.',
        'Send {contact} an SMS saying "{body}".',
    ),
    reply="I sent the text message {t.sms_id} to {contact} at {g.phone}.",
)
MAIL.recipe(
    ("s", "search_inbox", {"sender": "$sender"}),
    ("r", "read_message", {"message_id": "@s.message_id"}),
    ("l", "label_message", {"message_id": "@s.message_id", "label": "$label"}),
    asks=(
        'Tell me what the newest mail from {sender} says, and label that mail as "{label}".',
        'Read me the latest e-mail of {sender} and put the label "{label}" on it.',
    ),
    reply='The mail {s.message_id} of {sender} says: "{r.text}". Its labels now: {l.labels}.',
)
MAIL.recipe(
    ("c", "find_contact", {"contact": "$contact"}),
    ("d", "find_contact", {"contact": "$other_contact"}),
    ("g", "get_contact", {"contact_id": "@c.contact_id"}),
    ("h", "get_contact", {"contact_id": "@d.contact_id"}),
    asks=(
        "I need the phone numbers of {contact} and {other_contact}.",
        "How can I reach {contact} and {other_contact} by phone?",
    ),
    reply="The phone number of {contact} is {g.phone}, that of {other_contact} {h.phone}.",
)
MAIL.resemble("send_email", "send_sms", "reply_to_message")
MAIL.resemble("search_inbox", "read_message")
