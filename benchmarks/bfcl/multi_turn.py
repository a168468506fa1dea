"""BFCL's multi-turn loop and its checker, with the simulated APIs of the official package.

A user's turn goes on until the model makes no call that can be read; more than twenty steps in one turn fail the entry.
In a turn without a user's message, functions that were withheld are added. An entry is right if after every turn the
state is the ground truth's and everything that the ground truth's calls returned was returned to the model at some
time. The official harness plays and checks in the same way; what differs is said in `simulation`.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from ..suite import Message, Turn
from .calls import Call, Reply, Verdict
from .convert import more_functions, openai_tools, system_prompt, with_system_prompt
from .data import Entry
from .official import Official
from .replies import read_reply
from .simulation import Simulation

MAX_STEPS = 20


@dataclass
class Episode:
    """One played entry.

    Attributes:
        turns: the model's messages, of each step of each turn; the last turn that was begun is the last.
        transcript: all messages, the tools' results included.
        forced_stop: whether a turn took more than `MAX_STEPS` steps with calls.
    """

    turns: list[list[Message]] = field(default_factory=list)
    transcript: list[Message] = field(default_factory=list)
    forced_stop: bool = False


def play(entry: Entry, package: Official, prompting: bool = False) -> Generator[Turn, Message, Episode]:
    """A multi-turn entry as a conversation, see `Suite.episode`.

    Args:
        entry: the entry.
        package: the simulated APIs.
        prompting: calls as text instead of tool calls.
    """
    episode, simulation = Episode(), Simulation(entry, package)
    functions, withheld = list(entry.functions), dict(entry.withheld)
    tools = [] if prompting else openai_tools(functions)
    messages = episode.transcript
    for index, turn in enumerate(entry.turns):
        asked: Sequence[Message] = turn
        if index in withheld:
            functions += withheld[index]
            tools = [] if prompting else openai_tools(functions)
            asked = [*turn, more_functions(withheld[index], prompting)]
        if index == 0 and prompting:
            asked = with_system_prompt(turn, system_prompt(functions, version=entry.version))
        messages += copy.deepcopy(list(asked))
        episode.turns.append([])
        names = [doc["name"] for doc in functions]
        for step in range(MAX_STEPS + 1):
            message = _numbered((yield copy.deepcopy(messages), copy.deepcopy(tools)), f"{index}_{step}")
            messages.append(message)
            episode.turns[-1].append(message)
            reply = read_reply(message, prompting, names=names)
            results = [simulation.call(call) for call in reply.calls]
            messages += _observations(message, reply, results, prompting)
            if not reply.calls:
                break
        else:
            episode.forced_stop = True
            break
    return episode


def read_turns(
    entry: Entry, turns: Sequence[Sequence[Message]], prompting: bool = False
) -> tuple[list[list[tuple[Call, ...]]], int]:
    """The calls of each step with calls of each turn, and the number of attempts that cannot be read."""
    names = [doc["name"] for doc in (*entry.functions, *(doc for _, held in entry.withheld for doc in held))]
    replies = [[read_reply(message, prompting, names=names) for message in turn] for turn in turns]
    malformed = sum(reply.malformed is not None for turn in replies for reply in turn)
    return [[reply.calls for reply in turn if reply.calls] for turn in replies], malformed


def score_turns(entry: Entry, turns: Sequence[Sequence[Sequence[Call]]], package: Official) -> Verdict:
    """Whether the calls of a multi-turn episode are right.

    Args:
        entry: what was asked.
        turns: the calls of each step with calls of each turn.
        package: the simulated APIs.
    """
    if len(turns) != len(entry.answers):
        return Verdict(False, "turns", f"{len(entry.answers)} turns are to be played, {len(turns)} were")
    model, truth = Simulation(entry, package), Simulation(entry, package)
    returned: list[str] = []
    for index, (steps, answers) in enumerate(zip(turns, entry.answers, strict=True)):
        returned += [model.call(call) for step in steps for call in step]
        expected = [truth.call_source(source) for source in answers]
        if not answers:
            continue  # the user's wish cannot be met in this turn; the state is compared after a later one
        if not any(steps):
            return Verdict(False, "no_call", f"turn {index}: calls were to be made, none was")
        try:
            difference = model.difference(truth)
        except RecursionError:
            difference = "a folder that holds itself"
        if difference:
            return Verdict(False, "state", f"turn {index}: the state differs in {difference}")
        missing = _missing(expected, returned)
        if missing is not None:
            return Verdict(False, "response", f"turn {index}: no call returned {missing[:200]}")
    return Verdict(True)


def _missing(expected: list[str], returned: list[str]) -> str | None:
    """The first expected result that was not returned, each counted as often as it occurs."""
    left = list(returned)
    for result in expected:
        if result not in left:
            return result
        left.remove(result)
    return None


def _numbered(message: Message, prefix: str) -> Message:
    """What the protocol has of an assistant message, with an id for every tool call."""
    kept = {"role": "assistant", "content": message.get("content")}
    calls = message.get("tool_calls") or []
    if calls:
        kept["tool_calls"] = [
            {"type": "function", **call, "id": call.get("id") or f"call_{prefix}_{number}"}
            for number, call in enumerate(calls)
        ]
    return kept


def _observations(message: Message, reply: Reply, results: list[str], prompting: bool) -> list[Message]:
    """What a model sees after its step. Every tool call is answered, or endpoints refuse the next request."""
    if prompting:
        named = [
            {"role": "tool", "name": call.source(), "content": result}
            for call, result in zip(reply.calls, results, strict=True)
        ]
        return [{"role": "user", "content": repr(named)}] if named else []
    calls = message.get("tool_calls") or []
    texts = results or [f"Error: the calls of this message were not made, since {reply.malformed}"] * len(calls)
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in zip(calls, texts, strict=True)
    ]
