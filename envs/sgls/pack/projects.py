"""Work: employees, leave, projects, tickets and hours."""

from __future__ import annotations

import datetime
from typing import Any

from .base import Dice, Domain, Ids, Named, State, day, known, refuse, table
from .params import ALL_DAYS, DATE, NAME, PERSON, array, enum, identifier, integer, name, number, text
from .words import PEOPLE, PROJECTS

WORK = Domain("projects")

STAFF = Named.of("EMP", "employee", PEOPLE)
PLANS = Named.of("PRJ", "project", PROJECTS)
TICKETS_EACH = 5
TICKETS = Ids("TKT", "ticket", len(PROJECTS) * TICKETS_EACH)
LEAVES = Ids("LVE", "leave", 0)
EMPLOYEE_ID = identifier("EMP", STAFF.ids.sample, words=("employee",))
PROJECT_ID = identifier("PRJ", PLANS.ids.sample, words=("project",))
TICKET_ID = identifier("TKT", TICKETS.sample, words=("ticket",))
PROJECT = name(PROJECTS, words=("project",))
PRIORITY = enum("low", "medium", "high", "critical", words=("priority", "urgent"))
STATUS = enum("open", "in_progress", "blocked", "done", words=("status",))
DEPARTMENTS = ("design", "engineering", "finance", "operations", "sales")
TITLES = tuple(
    f"{what} {where}"
    for what in ("fix the login on", "update the text of", "speed up", "test", "redesign")
    for where in ("the start page", "the price list", "the export", "the mobile app")
)


@WORK.tool(
    params={"employee": PERSON("Full name of the employee.")},
    returns={"employee_id": EMPLOYEE_ID, "employee": NAME, "department": enum(*DEPARTMENTS)},
    asks=(
        "What is the staff number of {employee}?",
        "In which department does {employee} work?",
        "Find the employee {employee} in the staff list.",
    ),
    reply="{employee} has the staff number {.employee_id} and works in {.department}.",
    vague=("In which department does the new employee work?",),
)
def find_employee(state: State, employee: str) -> dict[str, Any]:
    """Find an employee by full name: employee id and department."""
    employee = known(PEOPLE, employee, "employee", "employee")
    department = Dice(state, "department", employee).choice(DEPARTMENTS)
    return {"employee_id": STAFF.id(state, employee), "employee": employee, "department": department}


def _leave_left(state: State, employee_id: str) -> int:
    STAFF.ids.decode(state, employee_id)
    return Dice(state, "leave", employee_id).integer(6, 30) - table(state, "leave taken").get(employee_id, 0)


@WORK.tool(
    params={"employee_id": EMPLOYEE_ID("Id of the employee, as EMP-12345.")},
    returns={"employee_id": EMPLOYEE_ID, "days_left": integer(0, 60), "days_planned": integer(0, 60)},
    asks=(
        "How many days of leave does employee {employee_id} have left?",
        "What's the leave balance of {employee_id}?",
        "Tell me the remaining and the planned leave of employee {employee_id}.",
    ),
    reply="Employee {employee_id} has {.days_left} days of leave left and {.days_planned} planned.",
)
def get_leave_balance(state: State, employee_id: str) -> dict[str, Any]:
    """Days of leave an employee has left and has planned, by employee id."""
    left = _leave_left(state, employee_id)
    planned = Dice(state, "planned", employee_id).integer(0, 9) + table(state, "leave taken").get(employee_id, 0)
    return {"employee_id": employee_id, "days_left": left, "days_planned": planned}


@WORK.tool(
    params={
        "employee_id": EMPLOYEE_ID("Id of the employee."),
        "start": DATE("First day, YYYY-MM-DD."),
        "days": integer(1, 30, words=("days", "long"))("Number of days."),
        "kind": enum("vacation", "parental", "study", words=("kind",))("Kind of leave.").optional("vacation"),
    },
    returns={"leave_id": identifier("LVE"), "start": DATE, "end": DATE, "days": integer(1, 60)},
    asks=(
        "Request {days} days of leave for employee {employee_id}, starting {start}.",
        "Employee {employee_id} needs {days} days of {kind} leave from {start}. Please file it.",
    ),
    reply="The leave {.leave_id} of {employee_id} is filed, from {.start} to {.end} ({.days} days).",
    vague=(
        "Request {days} days of leave for employee {employee_id}.",
        "File leave for employee {employee_id} from {start} on.",
    ),
    rescue=(
        "Request {days} days of leave for {employee_id} from {start}. If that is more than is left, take what is left.",
    ),
    writes=True,
)
def request_leave(state: State, employee_id: str, start: str, days: int, kind: str = "vacation") -> dict[str, Any]:
    """File leave for an employee, by employee id. Refused with the days that are left if there are too few."""
    first, left = day(start), _leave_left(state, employee_id)
    if days > left:
        message = f"Only {left} days of leave are left."
        refuse(message, "unavailable", **({"days": left} if left else {}))
    if first.year == 9999:
        refuse("Leave can be planned up to the year 9998.")
    end = (first + datetime.timedelta(days - 1)).isoformat()
    leave_id = LEAVES.fresh(state, employee_id, start, days)
    table(state, "leave")[leave_id] = {"employee_id": employee_id, "start": start, "end": end, "kind": kind}
    taken = table(state, "leave taken")
    taken[employee_id] = taken.get(employee_id, 0) + days
    return {"leave_id": leave_id, "start": start, "end": end, "days": days}


@WORK.tool(
    params={"project": PROJECT("Name of the project, as Project Apollo.")},
    returns={"project_id": PROJECT_ID, "project": NAME, "lead": NAME},
    asks=(
        "Who leads {project}?",
        "What is the id of {project}?",
        "Find {project} and its lead.",
    ),
    reply="{project} ({.project_id}) is led by {.lead}.",
)
def find_project(state: State, project: str) -> dict[str, Any]:
    """Find a project by its name: project id and lead."""
    project = known(PROJECTS, project, "project", "project")
    lead = Dice(state, "lead", project).choice(PEOPLE)
    return {"project_id": PLANS.id(state, project), "project": project, "lead": lead}


@WORK.tool(
    params={"project_id": PROJECT_ID("Id of the project, as PRJ-12345.")},
    returns={
        "project_id": PROJECT_ID,
        "percent_done": integer(0, 100),
        "budget_left": integer(-10_000_000, 10_000_000),
        "deadline": DATE,
    },
    asks=(
        "How far along is project {project_id}, and when is its deadline?",
        "How much budget does {project_id} have left?",
        "Give me the status of project {project_id}.",
    ),
    reply="Project {project_id} is {.percent_done} percent done, with {.budget_left} euros left and the deadline "
    "{.deadline}.",
)
def get_project_status(state: State, project_id: str) -> dict[str, Any]:
    """Progress, remaining budget and deadline of a project, by its id."""
    PLANS.name(state, project_id)
    dice = Dice(state, "project", project_id)
    return {
        "project_id": project_id,
        "percent_done": dice.integer(3, 97),
        "budget_left": dice.integer(1000, 250_000, 500),
        "deadline": dice.choice(ALL_DAYS),
    }


def _ticket(state: State, ticket_id: str) -> dict[str, Any]:
    changed = table(state, "tickets").get(ticket_id)
    if changed is not None:
        return changed
    index = TICKETS.decode(state, ticket_id)
    dice = Dice(state, "ticket", index)
    return {
        "ticket_id": ticket_id,
        "project": index // TICKETS_EACH,
        "title": dice.choice(TITLES),
        "status": dice.choice(("open", "in_progress", "blocked")),
        "priority": dice.choice(("low", "medium", "high")),
        "assignee": dice.choice(PEOPLE),
    }


_TICKET_FIELDS = {"ticket_id": TICKET_ID, "title": NAME, "status": STATUS, "priority": PRIORITY, "assignee": NAME}


@WORK.tool(
    params={"ticket_id": TICKET_ID("Id of the ticket, as TKT-12345.")},
    returns=_TICKET_FIELDS,
    asks=(
        "Who works on ticket {ticket_id}, and what's its status?",
        "Show me ticket {ticket_id}.",
        "What is {ticket_id} about, and who has it?",
    ),
    reply='Ticket {ticket_id}, "{.title}", is {.status}; {.assignee} has it.',
)
def get_ticket(state: State, ticket_id: str) -> dict[str, Any]:
    """Title, status, priority and assignee of a ticket, by its id."""
    ticket = _ticket(state, ticket_id)
    return {key: ticket[key] for key in _TICKET_FIELDS}


@WORK.tool(
    params={"project_id": PROJECT_ID("Id of the project."), "status": STATUS("Status to look for.").optional(None)},
    returns={"project_id": PROJECT_ID, "count": integer(0, 1000), "ticket_ids": array(TICKET_ID, 0, 100)},
    asks=(
        "List the tickets of project {project_id}.",
        "Which tickets of project {project_id} are {status}?",
        "Show me every {status} ticket in {project_id}.",
    ),
    reply="Number of such tickets in project {project_id}: {.count} ({.ticket_ids}).",
)
def list_tickets(state: State, project_id: str, status: str | None = None) -> dict[str, Any]:
    """Ids of the tickets of a project, optionally only those with a status."""
    project = PLANS.ids.decode(state, project_id)
    ids = [TICKETS.encode(state, project * TICKETS_EACH + number) for number in range(TICKETS_EACH)]
    ids += [key for key, ticket in table(state, "tickets").items() if ticket["project"] == project and key not in ids]
    found = [key for key in ids if status is None or _ticket(state, key)["status"] == status]
    return {"project_id": project_id, "count": len(found), "ticket_ids": found[:100]}


@WORK.tool(
    params={
        "project_id": PROJECT_ID("Id of the project."),
        "title": text(TITLES, words=("title", "about"))("Title: what has to be done."),
        "priority": PRIORITY("Priority.").optional("medium"),
        "labels": array(text(("bug", "customer", "mobile", "release")), 1, 5, 2)("Labels.").optional(None),
    },
    returns={"ticket_id": TICKET_ID, "title": NAME, "priority": PRIORITY},
    asks=(
        'Open a ticket in project {project_id}: "{title}".',
        'Create the ticket "{title}" in {project_id} with {priority} priority.',
        'File "{title}" as a {priority}-priority ticket of project {project_id}, labelled {labels}.',
    ),
    reply='The ticket "{.title}" is {.ticket_id}, with {.priority} priority.',
    vague=("Open a ticket in project {project_id} for me.", 'Open a ticket: "{title}".'),
    writes=True,
)
def create_ticket(
    state: State, project_id: str, title: str, priority: str = "medium", labels: list[str] | None = None
) -> dict[str, Any]:
    """Open a ticket in a project, by project id."""
    project = PLANS.ids.decode(state, project_id)
    ticket_id = TICKETS.fresh(state, project_id, title)
    if ticket_id in table(state, "tickets"):
        refuse(f"There is such a ticket already: {ticket_id}.", "conflict")
    table(state, "tickets")[ticket_id] = {
        "ticket_id": ticket_id,
        "project": project,
        "title": title,
        "status": "open",
        "priority": priority,
        "assignee": "nobody",
        "labels": labels or [],
    }
    return {"ticket_id": ticket_id, "title": title, "priority": priority}


@WORK.tool(
    params={"ticket_id": TICKET_ID("Id of the ticket."), "employee_id": EMPLOYEE_ID("Id of the employee.")},
    returns={"ticket_id": TICKET_ID, "assignee": NAME},
    asks=(
        "Assign ticket {ticket_id} to employee {employee_id}.",
        "Employee {employee_id} takes over ticket {ticket_id}. Please assign it.",
    ),
    reply="Ticket {ticket_id} is assigned to {.assignee}.",
    vague=("Assign ticket {ticket_id} to one of my people.",),
    writes=True,
)
def assign_ticket(state: State, ticket_id: str, employee_id: str) -> dict[str, Any]:
    """Assign a ticket to an employee, by their ids."""
    assignee = STAFF.name(state, employee_id)
    table(state, "tickets")[ticket_id] = {**_ticket(state, ticket_id), "assignee": assignee}
    return {"ticket_id": ticket_id, "assignee": assignee}


@WORK.tool(
    params={
        "employee_id": EMPLOYEE_ID("Id of the employee."),
        "project_id": PROJECT_ID("Id of the project."),
        "hours": number(0.25, 24, 0.25, words=("hours", "long"), usual=(0.25, 10))("Hours worked."),
        "date": DATE("Day of the work, YYYY-MM-DD."),
    },
    returns={"hours": number(0, 24), "total_hours": number(0, 100_000)},
    asks=(
        "Log {hours} hours of employee {employee_id} on project {project_id} for {date}.",
        "Employee {employee_id} worked {hours} hours on {project_id} on {date}. Book them.",
    ),
    reply="{.hours} hours are booked; on {project_id} employee {employee_id} has {.total_hours} hours in all.",
    vague=(
        "Log the hours of employee {employee_id} on project {project_id} for {date}.",
        "Log {hours} hours of employee {employee_id} on project {project_id}.",
    ),
    writes=True,
)
def log_hours(state: State, employee_id: str, project_id: str, hours: float, date: str) -> dict[str, Any]:
    """Book hours an employee worked on a project on a day, by their ids."""
    STAFF.name(state, employee_id)
    PLANS.name(state, project_id)
    day(date)
    booked, key = table(state, "hours"), f"{employee_id} {project_id}"
    before = booked.get(key, Dice(state, "hours", key).integer(0, 400))
    booked[key] = before + hours
    return {"hours": hours, "total_hours": min(booked[key], 100_000)}


WORK.recipe(
    ("e", "find_employee", {"employee": "$employee"}),
    ("b", "get_leave_balance", {"employee_id": "@e.employee_id"}),
    asks=(
        "How many days of leave does {employee} have left?",
        "What's the leave balance of {employee}?",
    ),
    reply="{employee} ({e.department}) has {b.days_left} days of leave left and {b.days_planned} planned.",
)
WORK.recipe(
    ("e", "find_employee", {"employee": "$employee"}),
    ("l", "request_leave", {"employee_id": "@e.employee_id", "start": "$start", "days": "$days"}),
    asks=(
        "{employee} takes {days} days off from {start}. Please file the leave.",
        "Request leave for {employee}: {days} days, starting on {start}.",
    ),
    reply="{employee}'s leave {l.leave_id} runs from {l.start} to {l.end}.",
)
WORK.recipe(
    ("p", "find_project", {"project": "$project"}),
    ("s", "get_project_status", {"project_id": "@p.project_id"}),
    asks=(
        "How much budget does {project} have left, and when is it due?",
        "What's the progress of {project}?",
    ),
    reply="{project} is {s.percent_done} percent done, has {s.budget_left} euros left and is due on {s.deadline}.",
)
WORK.recipe(
    ("p", "find_project", {"project": "$project"}),
    ("c", "create_ticket", {"project_id": "@p.project_id", "title": "$title", "priority": "$priority"}),
    asks=(
        'Open a {priority}-priority ticket in {project}: "{title}".',
        '{project} needs a new ticket "{title}", priority {priority}.',
    ),
    reply='The ticket {c.ticket_id}, "{c.title}", is open in {project} with {c.priority} priority.',
)
WORK.recipe(
    ("p", "find_project", {"project": "$project"}),
    ("e", "find_employee", {"employee": "$employee"}),
    ("c", "create_ticket", {"project_id": "@p.project_id", "title": "$title"}),
    ("a", "assign_ticket", {"ticket_id": "@c.ticket_id", "employee_id": "@e.employee_id"}),
    asks=(
        'Create the ticket "{title}" in {project} and assign it to {employee}.',
        '{employee} should do this in {project}: "{title}". Open a ticket and assign it.',
    ),
    reply='The ticket {c.ticket_id}, "{c.title}", in {project} is assigned to {a.assignee}.',
)
WORK.recipe(
    ("e", "find_employee", {"employee": "$employee"}),
    ("p", "find_project", {"project": "$project"}),
    (
        "l",
        "log_hours",
        {"employee_id": "@e.employee_id", "project_id": "@p.project_id", "hours": "$hours", "date": "$date"},
    ),
    asks=(
        "Log {hours} hours of {employee} on {project} for {date}.",
        "{employee} worked {hours} hours on {project} on {date}. Please book that.",
    ),
    reply="{l.hours} hours of {employee} are booked on {project}; that makes {l.total_hours} in all.",
)
WORK.recipe(
    ("p", "find_project", {"project": "$project"}),
    ("e", "find_employee", {"employee": "@p.lead"}),
    ("b", "get_leave_balance", {"employee_id": "@e.employee_id"}),
    asks=(
        "How many days of leave does the lead of {project} have left?",
        "Find out who leads {project} and what that person's leave balance is.",
    ),
    reply="{project} is led by {p.lead}, who has {b.days_left} days of leave left.",
)
WORK.recipe(
    ("p", "find_project", {"project": "$project"}),
    ("q", "find_project", {"project": "$other_project"}),
    ("s", "get_project_status", {"project_id": "@p.project_id"}),
    ("t", "get_project_status", {"project_id": "@q.project_id"}),
    asks=(
        "Which has more budget left, {project} or {other_project}? Tell me both amounts.",
        "Compare the progress and the remaining budget of {project} and {other_project}.",
    ),
    reply="{project} is {s.percent_done} percent done with {s.budget_left} euros left; {other_project} is "
    "{t.percent_done} percent done with {t.budget_left} euros left.",
)
