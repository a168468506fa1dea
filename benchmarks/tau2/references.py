"""The references: replaying the gold actions, doing nothing, calling at random; and the user that goes with each.

They need no model on either side. The gold actions of telecom are partly the user's: there the agent asks, and the user
does them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ..chat_agents import RandomCalls, Scripted
from ..suite import ChatAgent, Message
from .replies import to_tool_call

OPENING = "Hi, I need help."
STOP = "###STOP###"


def reference_agent(name: str, task: Mapping[str, Any], solo: bool, seed: int) -> ChatAgent:
    """The agent of `gold`, `nothing` or `random`.

    Args:
        name: of the reference.
        task: as its file has it.
        solo: whether there is no user.
        seed: of what is random.
    """
    if name == "random":
        return RandomCalls(seed)
    if name == "nothing":
        return Scripted([_call("done", {})] if solo else [_text("I cannot help with that.")])
    turns: list[Message] = []
    for requestor, actions in _gold_by_side(task, solo):
        if requestor == "user":
            turns.append(_text("Please do this: " + "; ".join(f"{a['name']}({a['arguments']})" for a in actions)))
        else:
            turns += [_call(action["name"], action["arguments"]) for action in actions]
    told = (task.get("evaluation_criteria") or {}).get("communicate_info") or []
    turns.append(_call("done", {}) if solo else _text("; ".join(["All is done", *told])))
    return Scripted(turns)


def reference_user(name: str, task: Mapping[str, Any]) -> ChatAgent:
    """The user who talks with a reference: says hello unless the task begins later, does gold actions, and stops."""
    history = (task.get("initial_state") or {}).get("message_history") or []
    turns = [] if history and history[-1]["role"] == "user" else [_text(OPENING)]
    for requestor, actions in _gold_by_side(task, solo=False) if name == "gold" else ():
        if requestor == "user":
            turns += [*(_call(action["name"], action["arguments"]) for action in actions), _text("I have done that.")]
    return Scripted([*turns, _text(STOP)])


def _gold_by_side(task: Mapping[str, Any], solo: bool) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    """The gold actions in order, those that one side does in a row together; in solo mode there is one side."""
    actions = (task.get("evaluation_criteria") or {}).get("actions") or []
    sides = itertools.groupby(actions, lambda action: "assistant" if solo else action.get("requestor", "assistant"))
    return [(side, list(group)) for side, group in sides]


def _text(content: str) -> Message:
    return {"role": "assistant", "content": content}


def _call(name: str, arguments: Mapping[str, Any]) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [to_tool_call("", name, arguments)]}
