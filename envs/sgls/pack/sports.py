"""Sports: teams, tables, matches, players and tickets of an invented league."""

from __future__ import annotations

from typing import Any

from .base import Dice, Domain, Ids, Named, State, known, refuse, table
from .params import ALL_DAYS, DATE, NAME, TIME, enum, identifier, integer, name, year
from .words import PEOPLE, TEAMS

SPORTS = Domain("sports")

CLUBS = Named.of("TEA", "team", TEAMS)
MATCHES = Ids("MAT", "match", len(TEAMS) * len(TEAMS))
SEATS = Ids("SEA", "match ticket", 0)
TEAM_ID = identifier("TEA", CLUBS.ids.sample, words=("team",))
MATCH_ID = identifier("MAT", MATCHES.sample, words=("match",))
TEAM = name(TEAMS, words=("team", "club"))
PLAYERS = PEOPLE[1::5]
PLAYER = name(PLAYERS, words=("player", "who"))
SEASON = year(2015, 2025, words=("season",))
STAND = enum(
    "north",
    "south",
    "east",
    "west",
    say={s: f"{s} stand" for s in ("north", "south", "east", "west")},
    words=("stand", "where"),
)


def _teams(state: State, match_id: str) -> tuple[str, str]:
    index = MATCHES.decode(state, match_id)
    home, guest = TEAMS[index // len(TEAMS)], TEAMS[index % len(TEAMS)]
    if home == guest:
        refuse(f"There is no match with the id {match_id}.", "not_found")
    return home, guest


@SPORTS.tool(
    params={"team": TEAM("Full name of the team.")},
    returns={"team_id": TEAM_ID, "team": NAME, "coach": NAME, "founded": year(1800, 2026)},
    asks=(
        "Who coaches {team}?",
        "What's the league id of {team}, and when was the club founded?",
        "Find the team {team}.",
    ),
    reply="{team} ({.team_id}), founded in {.founded}, is coached by {.coach}.",
)
def find_team(state: State, team: str) -> dict[str, Any]:
    """Find a team by its full name: team id, coach and founding year."""
    team = known(TEAMS, team, "team", "team")
    dice = Dice(state, "team", team)
    coach, founded = dice.choice(PEOPLE), dice.integer(1880, 1990)
    return {"team_id": CLUBS.id(state, team), "team": team, "coach": coach, "founded": founded}


@SPORTS.tool(
    params={"team_id": TEAM_ID("Id of the team, as TEA-12345."), "season": SEASON("Year the season began.")},
    returns={"team_id": TEAM_ID, "rank": integer(1, 48), "points": integer(0, 150)},
    asks=(
        "Which place did team {team_id} reach in the {season} season?",
        "How many points did {team_id} have in {season}, and which rank?",
        "Look up the final standing of team {team_id} for {season}.",
    ),
    reply="In {season} team {team_id} came in at rank {.rank} with {.points} points.",
    vague=("Which place did team {team_id} reach that season?",),
)
def get_standing(state: State, team_id: str, season: int) -> dict[str, Any]:
    """Rank and points of a team in a season, by team id."""
    CLUBS.name(state, team_id)
    rank = Dice(state, "rank", team_id, season).integer(1, 20)
    return {
        "team_id": team_id,
        "rank": rank,
        "points": 92 - 4 * rank + Dice(state, "points", team_id, season).integer(0, 3),
    }


@SPORTS.tool(
    params={"team_id": TEAM_ID("Id of the team.")},
    returns={"match_id": MATCH_ID, "opponent": NAME, "date": DATE, "kick_off": TIME},
    asks=(
        "Whom does team {team_id} play next, and when?",
        "When is the next match of {team_id}?",
        "I need the id and the date of the next match of team {team_id}.",
    ),
    reply="Team {team_id} plays {.opponent} on {.date} at {.kick_off} (match {.match_id}).",
)
def get_next_match(state: State, team_id: str) -> dict[str, Any]:
    """Next match of a team: match id, opponent, day and kick-off, by team id."""
    team = CLUBS.ids.decode(state, team_id)
    dice = Dice(state, "next", team)
    other = (team + dice.integer(1, len(TEAMS) - 1)) % len(TEAMS)
    return {
        "match_id": MATCHES.encode(state, team * len(TEAMS) + other),
        "opponent": TEAMS[other],
        "date": dice.choice(ALL_DAYS),
        "kick_off": f"{dice.integer(14, 20)}:{dice.choice(('00', '15', '30'))}",
    }


@SPORTS.tool(
    params={"match_id": MATCH_ID("Id of the match, as MAT-12345.")},
    returns={
        "match_id": MATCH_ID,
        "home": NAME,
        "guest": NAME,
        "home_goals": integer(0, 30),
        "guest_goals": integer(0, 30),
    },
    asks=(
        "How did match {match_id} end?",
        "What was the score of match {match_id}, and who played?",
        "Give me the result of {match_id}.",
    ),
    reply="{.home} against {.guest} ended {.home_goals} to {.guest_goals}.",
)
def get_match_result(state: State, match_id: str) -> dict[str, Any]:
    """Teams and score of a match that is over, by match id."""
    home, guest = _teams(state, match_id)
    dice = Dice(state, "result", match_id)
    return {
        "match_id": match_id,
        "home": home,
        "guest": guest,
        "home_goals": dice.integer(0, 5),
        "guest_goals": dice.integer(0, 4),
    }


@SPORTS.tool(
    params={"player": PLAYER("Full name of the player."), "season": SEASON("Year the season began.")},
    returns={"player": NAME, "goals": integer(0, 100), "assists": integer(0, 100), "matches": integer(0, 80)},
    asks=(
        "How many goals did {player} score in the {season} season?",
        "Give me goals and assists of {player} for {season}.",
        "What were the statistics of {player} in {season}?",
    ),
    reply="In {season} {player} scored {.goals} goals and gave {.assists} assists in {.matches} matches.",
    vague=("How many goals did {player} score that season?", "How many goals did our striker score in {season}?"),
)
def get_player_stats(state: State, player: str, season: int) -> dict[str, Any]:
    """Goals, assists and matches of a player in a season."""
    player = known(PLAYERS, player, "player", "player")
    dice = Dice(state, "player", player, season)
    return {
        "player": player,
        "goals": dice.integer(0, 31),
        "assists": dice.integer(0, 19),
        "matches": dice.integer(8, 38),
    }


@SPORTS.tool(
    params={"season": SEASON("Year the season began.")},
    returns={"season": SEASON, "player": NAME, "team": NAME, "goals": integer(0, 100)},
    asks=(
        "Who was the top scorer of the {season} season?",
        "Which player scored the most goals in {season}, and how many?",
    ),
    reply="{.player} of {.team} was the top scorer of {season} with {.goals} goals.",
    vague=("Who was the top scorer that season?",),
)
def get_top_scorer(state: State, season: int) -> dict[str, Any]:
    """Player with the most goals of a season in the whole league."""
    dice = Dice(state, "scorer", season)
    return {"season": season, "player": dice.choice(PLAYERS), "team": dice.choice(TEAMS), "goals": dice.integer(32, 44)}


@SPORTS.tool(
    params={
        "match_id": MATCH_ID("Id of the match."),
        "seats": integer(1, 12, words=("many", "seats", "tickets", "people"))("Number of tickets."),
        "stand": STAND("Part of the stadium.").optional("north"),
    },
    returns={"ticket_id": identifier("SEA"), "row": integer(1, 99), "total": integer(0, 10_000)},
    asks=(
        "Buy {seats} tickets for match {match_id}.",
        "I'd like {seats} seats in the {stand} for match {match_id}.",
    ),
    reply="{seats} tickets for {match_id} are booked ({.ticket_id}), row {.row}, {.total} euros.",
    vague=("Buy tickets for match {match_id}.",),
    writes=True,
)
def buy_match_tickets(state: State, match_id: str, seats: int, stand: str = "north") -> dict[str, Any]:
    """Buy tickets for a coming match, by match id."""
    _teams(state, match_id)
    ticket_id = SEATS.fresh(state, match_id, seats, stand)
    if ticket_id in table(state, "match tickets"):
        refuse(f"You have these tickets already ({ticket_id}).", "conflict")
    table(state, "match tickets")[ticket_id] = {"match_id": match_id, "seats": seats, "stand": stand}
    dice = Dice(state, "seats", match_id, stand)
    return {"ticket_id": ticket_id, "row": dice.integer(1, 40), "total": seats * dice.integer(18, 95)}


SPORTS.recipe(
    ("t", "find_team", {"team": "$team"}),
    ("n", "get_next_match", {"team_id": "@t.team_id"}),
    asks=("When does {team} play next, and against whom?", "What is the next match of {team}?"),
    reply="{team} plays {n.opponent} on {n.date} at {n.kick_off}.",
)
SPORTS.recipe(
    ("t", "find_team", {"team": "$team"}),
    ("s", "get_standing", {"team_id": "@t.team_id", "season": "$season"}),
    asks=("Which place did {team} reach in the {season} season?", "How many points did {team} have in {season}?"),
    reply="{team} came in at rank {s.rank} with {s.points} points in {season}.",
)
SPORTS.recipe(
    ("t", "find_team", {"team": "$team"}),
    ("n", "get_next_match", {"team_id": "@t.team_id"}),
    ("b", "buy_match_tickets", {"match_id": "@n.match_id", "seats": "$seats"}),
    asks=(
        "Get me {seats} tickets for the next match of {team}.",
        "Buy {seats} seats for whatever match {team} plays next.",
    ),
    reply="You have {seats} tickets ({b.ticket_id}) for {team} against {n.opponent} on {n.date}, {b.total} euros.",
)
SPORTS.recipe(
    ("c", "get_top_scorer", {"season": "$season"}),
    ("p", "get_player_stats", {"player": "@c.player", "season": "$other_season"}),
    asks=(
        "How many goals did the top scorer of {season} score in the {other_season} season?",
        "Take the top scorer of {season} and give me that player's statistics for {other_season}.",
    ),
    reply="{c.player}, top scorer of {season} with {c.goals} goals, scored {p.goals} goals in {other_season}.",
)
SPORTS.recipe(
    ("a", "find_team", {"team": "$team"}),
    ("b", "find_team", {"team": "$rival"}),
    ("s", "get_standing", {"team_id": "@a.team_id", "season": "$season"}),
    ("t", "get_standing", {"team_id": "@b.team_id", "season": "$season"}),
    asks=(
        "Who finished the {season} season higher, {team} or {rival}? Give both ranks.",
        "Compare the {season} standings of {team} and {rival}.",
    ),
    reply="In {season} {team} came in at rank {s.rank} and {rival} at rank {t.rank}.",
)
