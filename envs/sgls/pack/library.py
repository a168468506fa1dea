"""Library: catalogue, copies, members, loans and reservations."""

from __future__ import annotations

import datetime
from typing import Any

from .base import Dice, Domain, Ids, Named, State, day, known, refuse, table
from .params import ALL_DAYS, DATE, NAME, PERSON, TIME, WEEKDAY, array, enum, identifier, integer, name, year
from .words import BOOKS, PEOPLE

LIBRARY = Domain("library")

BRANCHES = ("central", "harbour", "hillside", "riverside")
BRANCH = enum(*BRANCHES, say={b: f"{b} branch" for b in BRANCHES}, words=("branch", "library", "where"))
CATALOGUE = Named.of("BOK", "book", BOOKS)
MEMBERS = Named.of("MEM", "library member", PEOPLE)
LOANS_EACH = 3
LOANS = Ids("LON", "loan", len(PEOPLE) * LOANS_EACH)
RESERVATIONS = Ids("RSV", "reservation", 0)
BOOK_ID = identifier("BOK", CATALOGUE.ids.sample, words=("book",))
MEMBER_ID = identifier("MEM", MEMBERS.ids.sample, words=("member",))
LOAN_ID = identifier("LON", LOANS.sample, words=("loan",))
_BOOK_TITLE = name(BOOKS, words=("title", "book"))


def _author(state: State, title: str) -> str:
    return Dice(state, "author", title).choice(PEOPLE[:40])


@LIBRARY.tool(
    params={"title": _BOOK_TITLE("Full title of the book.")},
    returns={"book_id": BOOK_ID, "title": NAME, "author": NAME, "year": year(1800, 2026)},
    asks=(
        "Who wrote {title}, and in which year?",
        "What is the catalogue id of the book {title}?",
        "Look up {title} in the library catalogue.",
    ),
    reply="{title} ({.book_id}) was written by {.author} in {.year}.",
)
def find_book(state: State, title: str) -> dict[str, Any]:
    """Find a book in the catalogue by its title: id, author and year. Says nothing about copies."""
    title = known(BOOKS, title, "book", "title")
    year = Dice(state, "year", title).integer(1950, 2024)
    return {"book_id": CATALOGUE.id(state, title), "title": title, "author": _author(state, title), "year": year}


@LIBRARY.tool(
    params={"book_id": BOOK_ID("Id of the book, as BOK-12345."), "branch": BRANCH("Branch of the library.")},
    returns={"book_id": BOOK_ID, "branch": BRANCH, "copies": integer(0, 99), "shelf": NAME},
    asks=(
        "How many copies of book {book_id} does the {branch} have, and on which shelf?",
        "Is {book_id} on a shelf in the {branch}? How many copies?",
        "Check the copies of {book_id} at the {branch}.",
    ),
    reply="Copies of {book_id} at the {branch}: {.copies}, on shelf {.shelf}.",
    vague=("How many copies of book {book_id} are on the shelf?",),
)
def get_copies(state: State, book_id: str, branch: str) -> dict[str, Any]:
    """Copies of a book on the shelves of a branch, by the book's id."""
    CATALOGUE.name(state, book_id)
    dice = Dice(state, "copies", book_id, branch)
    shelf = f"{dice.choice('ABCDEFGH')}{dice.integer(1, 30)}"
    return {"book_id": book_id, "branch": branch, "copies": dice.integer(1, 6), "shelf": shelf}


@LIBRARY.tool(
    params={"member": PERSON("Full name of the member.")},
    returns={"member_id": MEMBER_ID, "name": NAME, "fees_due": integer(0, 500)},
    asks=(
        "What is the library member number of {member}?",
        "Does {member} owe the library any fees?",
        "Find the library membership of {member}.",
    ),
    reply="{member} is member {.member_id} and owes {.fees_due} in fees.",
    vague=("Does that member owe the library any fees?",),
)
def find_member(state: State, member: str) -> dict[str, Any]:
    """Find a library member by full name: member id and fees due."""
    member = known(PEOPLE, member, "library member", "member")
    fees = Dice(state, "fees", member).integer(0, 40)
    return {"member_id": MEMBERS.id(state, member), "name": member, "fees_due": fees}


def _loan(state: State, index: int) -> dict[str, Any]:
    dice = Dice(state, "loan", index)
    return {"loan_id": LOANS.encode(state, index), "title": dice.choice(BOOKS), "due": dice.choice(ALL_DAYS[:600])}


@LIBRARY.tool(
    params={"member_id": MEMBER_ID("Id of the member, as MEM-12345.")},
    returns={
        "member_id": MEMBER_ID,
        "titles": array(NAME, 0, LOANS_EACH),
        "next_due_loan_id": LOAN_ID,
        "next_due": DATE,
    },
    asks=(
        "Which books does member {member_id} have at home?",
        "List the loans of library member {member_id}. Which is due next?",
        "What has {member_id} borrowed from the library?",
    ),
    reply="Member {member_id} has borrowed {.titles}; the next one, {.next_due_loan_id}, is due on {.next_due}.",
    vague=("Which library books does the member have at home?",),
)
def list_loans(state: State, member_id: str) -> dict[str, Any]:
    """Books a member has borrowed, and the loan that is due next, by member id."""
    member = MEMBERS.ids.decode(state, member_id)
    loans = [_loan(state, member * LOANS_EACH + number) for number in range(LOANS_EACH)]
    renewed = table(state, "renewed loans")
    for loan in loans:
        loan["due"] = renewed.get(loan["loan_id"], loan["due"])
    first = min(loans, key=lambda loan: loan["due"])
    return {
        "member_id": member_id,
        "titles": [loan["title"] for loan in loans],
        "next_due_loan_id": first["loan_id"],
        "next_due": first["due"],
    }


@LIBRARY.tool(
    params={
        "loan_id": LOAN_ID("Id of the loan, as LON-12345."),
        "weeks": integer(1, 6, words=("weeks", "long"))("Weeks to add."),
    },
    returns={"loan_id": LOAN_ID, "title": NAME, "due": DATE},
    asks=(
        "Renew loan {loan_id} for {weeks} weeks.",
        "I need the book of loan {loan_id} longer, please add {weeks} weeks.",
    ),
    reply="Loan {loan_id}, {.title}, is now due on {.due}.",
    vague=("Renew loan {loan_id} for me.",),
    writes=True,
)
def renew_loan(state: State, loan_id: str, weeks: int) -> dict[str, Any]:
    """Renew one loan by some weeks, by the loan's id."""
    loan = _loan(state, LOANS.decode(state, loan_id))
    renewed = table(state, "renewed loans")
    if loan_id in renewed:
        refuse(f"The loan {loan_id} has been renewed already.", "conflict")
    renewed[loan_id] = (day(loan["due"]) + datetime.timedelta(weeks=weeks)).isoformat()
    return {"loan_id": loan_id, "title": loan["title"], "due": renewed[loan_id]}


def _lent(state: State, book_id: str, branch: str) -> bool:
    return Dice(state, "lent", book_id, branch).integer(0, 2) == 0


@LIBRARY.tool(
    params={
        "book_id": BOOK_ID("Id of the book."),
        "member_id": MEMBER_ID("Id of the member."),
        "branch": BRANCH("Branch to pick it up."),
    },
    returns={"reservation_id": identifier("RSV"), "title": NAME, "branch": BRANCH, "ready_on": DATE},
    asks=(
        "Reserve book {book_id} for member {member_id} at the {branch}.",
        "Member {member_id} wants to pick up {book_id} at the {branch}. Reserve it.",
    ),
    reply="{.title} is reserved ({.reservation_id}) and can be picked up at the {.branch} from {.ready_on}.",
    vague=("Reserve book {book_id} for member {member_id}, to be picked up at a branch.",),
    rescue=(
        "Reserve book {book_id} for member {member_id} at the {branch}, or at whichever branch they offer instead.",
        "Member {member_id} would like {book_id} from the {branch}. If it can't be had there, use the branch they "
        "suggest.",
    ),
    writes=True,
)
def reserve_book(state: State, book_id: str, member_id: str, branch: str) -> dict[str, Any]:
    """Reserve a book for a member at a branch, by their ids. Refused with another branch if all copies are lent."""
    title = CATALOGUE.name(state, book_id)
    MEMBERS.name(state, member_id)
    if _lent(state, book_id, branch):
        other = next((b for b in BRANCHES if not _lent(state, book_id, b)), None)
        hint = f" The {other} branch has one." if other else ""
        refuse(
            f"All copies at the {branch} branch are lent.{hint}", "unavailable", **({"branch": other} if other else {})
        )
    reservation_id = RESERVATIONS.fresh(state, book_id, member_id)
    held = table(state, "reservations")
    if reservation_id in held:
        refuse(f"The book {book_id} is reserved for {member_id} already ({reservation_id}).", "conflict")
    held[reservation_id] = {"book_id": book_id, "member_id": member_id, "branch": branch}
    ready = Dice(state, "ready", book_id, branch).choice(ALL_DAYS)
    return {"reservation_id": reservation_id, "title": title, "branch": branch, "ready_on": ready}


@LIBRARY.tool(
    params={"branch": BRANCH("Branch of the library."), "weekday": WEEKDAY("Day of the week.")},
    returns={"branch": BRANCH, "weekday": WEEKDAY, "opens": TIME, "closes": TIME},
    asks=(
        "When is the {branch} of the library open on a {weekday}?",
        "What are the {weekday} opening hours of the library's {branch}?",
        "Until when can I return books at the {branch} on {weekday}?",
    ),
    reply="On {weekday} the {branch} is open from {.opens} to {.closes}.",
    vague=("When is the {branch} of the library open that day?", "When does the library open on {weekday}?"),
)
def get_branch_hours(state: State, branch: str, weekday: str) -> dict[str, Any]:
    """Opening hours of a branch of the library on a day of the week."""
    dice = Dice(state, "hours", branch, weekday)
    opens, closes = dice.integer(8, 11), dice.integer(16, 20)
    return {"branch": branch, "weekday": weekday, "opens": f"{opens:02}:00", "closes": f"{closes:02}:30"}


LIBRARY.recipe(
    ("b", "find_book", {"title": "$title"}),
    ("c", "get_copies", {"book_id": "@b.book_id", "branch": "$branch"}),
    asks=(
        "How many copies of {title} does the {branch} have?",
        "On which shelf of the {branch} do I find {title}?",
        "Is {title} on the shelves of the {branch}?",
    ),
    reply="Copies of {title} by {b.author} at the {branch}: {c.copies}, on shelf {c.shelf}.",
)
LIBRARY.recipe(
    ("m", "find_member", {"member": "$member"}),
    ("l", "list_loans", {"member_id": "@m.member_id"}),
    asks=(
        "Which library books does {member} have at home?",
        "When is {member}'s next library book due, and what has {member} borrowed?",
    ),
    reply="{member} has borrowed {l.titles}; the next one is due on {l.next_due}.",
)
LIBRARY.recipe(
    ("m", "find_member", {"member": "$member"}),
    ("l", "list_loans", {"member_id": "@m.member_id"}),
    ("r", "renew_loan", {"loan_id": "@l.next_due_loan_id", "weeks": "$weeks"}),
    asks=(
        "Renew the library loan of {member} that is due next by {weeks} weeks.",
        "{member} needs {weeks} more weeks for whichever library book is due first. Please renew it.",
    ),
    reply="{member}'s loan of {r.title} was due on {l.next_due} and now runs until {r.due}.",
)
LIBRARY.recipe(
    ("b", "find_book", {"title": "$title"}),
    ("m", "find_member", {"member": "$member"}),
    ("r", "reserve_book", {"book_id": "@b.book_id", "member_id": "@m.member_id", "branch": "$branch"}),
    asks=(
        "Reserve {title} for {member} at the {branch}.",
        "{member} would like to pick up {title} at the library's {branch}. Please reserve it.",
    ),
    reply="{r.title} is reserved for {member} ({r.reservation_id}), ready at the {branch} from {r.ready_on}.",
)
LIBRARY.recipe(
    ("b", "find_book", {"title": "$title"}),
    ("c", "find_book", {"title": "$other_title"}),
    asks=(
        "Who wrote {title}, and who wrote {other_title}?",
        "Give me authors and years of the books {title} and {other_title}.",
    ),
    reply="{title} is by {b.author} ({b.year}); {other_title} is by {c.author} ({c.year}).",
)
LIBRARY.recipe(
    ("b", "find_book", {"title": "$title"}),
    ("c", "get_copies", {"book_id": "@b.book_id", "branch": "$branch"}),
    ("d", "get_copies", {"book_id": "@b.book_id", "branch": "$other_branch"}),
    asks=(
        "Where are more copies of {title}, at the {branch} or at the {other_branch}? Give me both numbers.",
        "Compare the copies of {title} at the {branch} and at the {other_branch}.",
    ),
    reply="Copies of {title} at the {branch}: {c.copies}, at the {other_branch}: {d.copies}.",
)
