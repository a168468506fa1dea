"""The references: replaying the gold actions, doing nothing, calling at random; and the user that goes with each.

They need no model on either side. The gold actions of telecom are partly the user's: there the agent asks, and the user
does them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ..chat_agents import RandomCalls, Scripted
from ..suite import AgentKind, ChatAgent, Message, SuiteTask, TaskContext
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
    return Scripted(gold_messages(task, solo))


def gold_messages(task: Mapping[str, Any], solo: bool) -> list[Message]:
    """The agent's side of the gold actions, a call a message; it asks for what the user does, and says what to tell."""
    turns: list[Message] = []
    for requestor, actions in _gold_by_side(task, solo):
        if requestor == "user":
            turns.append(_text("Please do this: " + "; ".join(f"{a['name']}({a['arguments']})" for a in actions)))
        else:
            turns += [_call(action["name"], action["arguments"]) for action in actions]
    told = (task.get("evaluation_criteria") or {}).get("communicate_info") or []
    return [*turns, _call("done", {}) if solo else _text("; ".join(["All is done", *told]))]


def reference_user(name: str, task: Mapping[str, Any]) -> ChatAgent:
    """The user who talks with a reference: says hello unless the task begins later, does gold actions, and stops."""
    turns = [_text(OPENING)] if _user_opens(task) else []
    for requestor, actions in _gold_by_side(task, solo=False) if name == "gold" else ():
        if requestor == "user":
            turns += [*(_call(action["name"], action["arguments"]) for action in actions), _text("I have done that.")]
    return Scripted([*turns, _text(STOP)])


class ScriptedUsers:
    """Users without a model, for training and trials: scores with them are none of the benchmark.

    Such a user tells the whole of its scenario at once. Of its part of the gold actions it does those that the agent
    names by their tools (`toggle_data`, or in words), as often as it names them, and stops when it names none.
    """

    name = "scripted"
    kind: AgentKind = "chat"
    concurrency: int | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Its version."""
        return {"scripted": 1}

    def start(self, task: SuiteTask, context: TaskContext) -> ChatAgent:
        """The user of one task."""
        return _ScriptedUser(task.payload["task"])


class _ScriptedUser:
    def __init__(self, task: Mapping[str, Any]):
        scenario = task["user_scenario"]["instructions"]
        if not isinstance(scenario, str):
            told = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
            scenario = "\n".join(scenario[part] for part in told if scenario.get(part))
        self._next = [_text(f"I need help. My own notes:\n{scenario}")] if _user_opens(task) else []
        own = (actions for side, actions in _gold_by_side(task, solo=False) if side == "user")
        self._left = [action for actions in own for action in actions]

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        if not self._next:
            asked = self._asked_for(str(messages[-1].get("content")).lower())
            calls = [_call(action["name"], action["arguments"]) for action in asked]
            self._next = [*calls, _text("I have done that.")] if calls else [_text(STOP)]
        return self._next.pop(0)

    def _asked_for(self, said: str) -> list[Mapping[str, Any]]:
        named = {name: max(map(said.count, (name, name.replace("_", " ")))) for name in {a["name"] for a in self._left}}
        asked, left = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
        for action in self._left:
            (asked if named[action["name"]] > 0 else left).append(action)
            named[action["name"]] -= 1
        self._left = left
        return asked


def _user_opens(task: Mapping[str, Any]) -> bool:
    """Whether the user speaks first; not where the task begins after a message of theirs."""
    history = (task.get("initial_state") or {}).get("message_history") or []
    return not (history and history[-1]["role"] == "user")


def _gold_by_side(task: Mapping[str, Any], solo: bool) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    """The gold actions in order, those that one side does in a row together; in solo mode there is one side."""
    actions = (task.get("evaluation_criteria") or {}).get("actions") or []
    sides = itertools.groupby(actions, lambda action: "assistant" if solo else action.get("requestor", "assistant"))
    return [(side, list(group)) for side, group in sides]


def _text(content: str) -> Message:
    return {"role": "assistant", "content": content}


def _call(name: str, arguments: Mapping[str, Any]) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [to_tool_call("", name, arguments)]}
