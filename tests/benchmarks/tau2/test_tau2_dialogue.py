"""Dialogues: the official protocol, and every way in which an agent can break it ends in a dialogue worth 0."""

from __future__ import annotations

import copy
import json
import random
import threading

import numpy as np
import pytest
from toolcredit.benchmarks.suite import DeadlineError
from toolcredit.benchmarks.tau2.dialogue import Dialogue
from toolcredit.benchmarks.tau2.scoring import evaluate, record
from toolcredit.errors import ConfigError, EndpointError

pytestmark = pytest.mark.tau2

CREATE = ("create_task", {"user_id": "user_1", "title": "Important Meeting"})
STOP = "###STOP###"


def reward(domain, name, task_id, dialogue, solo=False):
    return evaluate(domain(name), domain(name).all_tasks[task_id], record(dialogue), solo)[0].reward


def test_a_dialogue_as_the_agent_sees_it(domain, play, said):
    dialogue = play("mock", "create_task_1", [said(None, CREATE), "All done."], ["Please create it.", STOP])
    roles = [message["role"] for message in dialogue.messages]
    assert roles == ["system", "assistant", "user", "assistant", "tool", "assistant", "user"]
    system, greeting, opening, call, answer, *_ = dialogue.messages
    assert (
        "customer service agent" in system["content"] and domain("mock").environment().get_policy() in system["content"]
    )
    assert greeting["content"] == "Hi! How can I help you today?" and opening["content"] == "Please create it."
    assert (
        answer["tool_call_id"] == call["tool_calls"][0]["id"] and json.loads(answer["content"])["task_id"] == "task_2"
    )
    assert dialogue.termination == "user_stop" and dialogue.fault is None
    assert reward(domain, "mock", "create_task_1", dialogue) == 1


def test_messages_grow_at_their_end_only(domain, said):
    task = domain("mock").all_tasks["create_task_1"]
    seen = []

    class Agent:
        turns = [
            said(None, CREATE, ("get_users", {})),
            said("One moment.", ("get_users", {})),
            said("Done."),
            said("Bye."),
        ]

        def respond(self, messages, tools):
            seen.append(copy.deepcopy(messages))
            return self.turns[len(seen) - 1]

    class User:
        def respond(self, messages, tools):
            return said("go on" if len(seen) < 4 else STOP)

    agent, dialogue = Agent(), Dialogue(domain("mock"), task, User())
    while not dialogue.over:
        dialogue.respond(agent.respond(dialogue.messages, dialogue.tools))
    for earlier, later in zip(seen, seen[1:], strict=False):
        assert later[: len(earlier)] == earlier
    assert [message["role"] for message in seen[1][-3:]] == ["assistant", "tool", "tool"]


def test_the_user_is_asked_with_the_official_prompt_and_tools(domain, said):
    asked = []

    class User:
        def respond(self, messages, tools):
            asked.append((messages, tools))
            return said(STOP)

    telecom = domain("telecom")
    task = telecom.tasks("base", solo=False)[0]
    Dialogue(telecom, task, User())
    messages, tools = asked[0]
    assert messages[0]["role"] == "system" and "User Simulation Guidelines" in messages[0]["content"]
    assert "You have some tools" in messages[0]["content"]
    assert task["user_scenario"]["instructions"]["reason_for_call"][:40] in messages[0]["content"]
    assert messages[1:] == [{"role": "user", "content": "Hi! How can I help you today?"}]
    assert {tool["function"]["name"] for tool in tools} == {tool.name for tool in telecom.user_tools}
    asked.clear()
    Dialogue(domain("airline"), domain("airline").all_tasks["0"], User())
    assert asked[0][1] == [] and "You have some tools" not in asked[0][0][0]["content"]


def test_what_the_user_does_alone_is_not_shown_to_the_agent(domain, play, said):
    telecom = domain("telecom")
    task = next(
        t for t in telecom.tasks("base", False) if t["evaluation_criteria"]["actions"][0]["requestor"] == "user"
    )
    dialogue = play(
        "telecom",
        task["id"],
        ["Look at it.", "Bye."],
        ["Hi", said(None, ("check_status_bar", {})), "It says so.", STOP],
    )
    assert [message["content"] for message in dialogue.messages[1:]] == [
        "Hi! How can I help you today?",
        "Hi",
        "Look at it.",
        "It says so.",
        "Bye.",
        STOP,
    ]
    assert [message.role for message in dialogue.trajectory][3:6] == ["user", "tool", "user"]


def test_a_task_that_begins_in_the_middle(domain, play, said):
    update = said(None, ("update_task_status", {"task_id": "task_2", "status": "completed"}))
    name = "update_task_with_message_history"
    dialogue = play("mock", name, [update, "Done."], ["Now mark it as completed.", STOP])
    roles = [message["role"] for message in dialogue.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"] + [
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert reward(domain, "mock", name, dialogue) == 1


BROKEN = {
    "empty": {"role": "assistant", "content": ""},
    "no message": None,
    "malformed arguments": {"tool_calls": [{"function": {"name": "get_users", "arguments": '{"a": '}}]},
    "arguments that are no object": {"tool_calls": [{"function": {"name": "get_users", "arguments": "[]"}}]},
    "one call of two broken": {
        "tool_calls": [
            {"function": {"name": CREATE[0], "arguments": json.dumps(CREATE[1])}},
            {"function": {"name": "get_users", "arguments": "NaN"}},
        ]
    },
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_turn_ends_the_dialogue_and_counts_as_0(domain, play, said, broken):
    dialogue = play("mock", "create_task_1", [said(None, CREATE), broken], ["Hi", STOP])
    assert dialogue.over and dialogue.termination == "agent_error" and dialogue.fault
    assert reward(domain, "mock", "create_task_1", dialogue) == 0


def test_wrong_calls_are_answered_with_errors(domain, play, said):
    calls = [
        ("no_such_tool", {}),
        ("create_task", {}),
        ("create_task", {"user_id": "user_1", "title": "T", "surprise": 1}),
        ("create_task", {"tool_name": "get_users", "requestor": "user", "self": 1}),
        ("update_task_status", {"task_id": ["unhashable"], "status": {}}),
        ("__init__", {"db": None}),
        ("use_tool", {"tool_name": "get_users"}),
    ]
    dialogue = play("mock", "create_task_1", [said(None, *calls), "Sorry."], ["Hi", STOP])
    answers = [message["content"] for message in dialogue.messages if message["role"] == "tool"]
    assert len(answers) == len(calls) and all(answer.startswith("Error: ") for answer in answers)
    assert dialogue.termination == "user_stop"


def test_ids_of_calls_are_given_where_the_agent_gives_none(play, said):
    twice = said(None, ("get_users", {}), ("get_users", {}))
    dialogue = play("mock", "create_task_1", [twice, twice, "Bye"], ["Hi", STOP])
    ids = [call["id"] for message in dialogue.messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in dialogue.messages if message["role"] == "tool"]
    assert ids == answered and len(set(ids)) == 4 and all(ids)


def test_an_agent_cannot_end_a_dialogue_with_a_user(play):
    dialogue = play("mock", "create_task_1", [STOP, "Bye."], ["Hi", "Are you there?", STOP])
    assert dialogue.termination == "user_stop" and [m["role"] for m in dialogue.messages].count("user") == 3


@pytest.mark.parametrize(("limit", "reason"), [("max_steps", "max_steps"), ("max_errors", "too_many_errors")])
def test_limits_end_a_dialogue(domain, play, said, limit, reason):
    failing = [said(None, ("no_such_tool", {}))] * 100
    dialogue = play("mock", "create_task_1", failing, ["Hi"], **{"max_steps": 50, "max_errors": 50, limit: 6})
    assert dialogue.termination == reason and len(dialogue.trajectory) < 16
    assert reward(domain, "mock", "create_task_1", dialogue) == 0


def test_a_deadline_ends_it_between_two_steps(domain, said):
    steps = iter(range(3))

    def tick():
        if next(steps, None) is None:
            raise DeadlineError("too late")

    class Talker:
        def respond(self, messages, tools):
            return said("And then?")

    dialogue = Dialogue(domain("mock"), domain("mock").all_tasks["create_task_1"], Talker(), before_step=tick)
    with pytest.raises(DeadlineError):
        while True:
            dialogue.respond(said("Go on."))


def test_a_user_without_a_usable_reply_is_asked_again_and_then_an_error(domain, said):
    class User:
        def __init__(self, *turns):
            self.turns = list(turns)

        def respond(self, messages, tools):
            return self.turns.pop(0)

    where, task = domain("mock"), domain("mock").all_tasks["create_task_1"]
    dialogue = Dialogue(where, task, User(said(""), BROKEN["malformed arguments"], said("Hi")))
    assert dialogue.messages[-1] == {"role": "user", "content": "Hi"}
    with pytest.raises(EndpointError, match="user simulator gave no usable reply in 3 attempts"):
        Dialogue(where, task, User(said(""), said(" "), None))


# ------------------------------------------------------------------------------------------------------------- solo


@pytest.fixture
def solo_task(domain):
    return domain("telecom").tasks("base", solo=True)[0]


def test_solo_shows_ticket_and_the_users_tools(domain, solo_task):
    dialogue = Dialogue(domain("telecom"), solo_task, None)
    assert [message["role"] for message in dialogue.messages] == ["system"]
    assert solo_task["ticket"] in dialogue.messages[0]["content"]
    names = [tool["function"]["name"] for tool in dialogue.tools]
    assert len(names) == len(set(names)) == 44 and {"done", "toggle_airplane_mode", "get_customer_by_phone"} <= {*names}


def test_solo_ends_with_done_whatever_else_is_called(domain, play, said, solo_task):
    look = said(None, ("check_status_bar", {}))
    dialogue = play("telecom", solo_task["id"], [look, said("So.", ("check_status_bar", {}), ("done", {}))], None)
    assert dialogue.termination == "agent_stop" and dialogue.steps == 2
    assert reward(domain, "telecom", solo_task["id"], dialogue, solo=True) == 0


@pytest.mark.parametrize("text", ["I have solved it.", STOP])
@pytest.mark.parametrize("first", [True, False])
def test_a_text_in_solo_mode_is_the_agents_error(domain, play, said, solo_task, text, first):
    turns = [text] if first else [said(None, ("check_status_bar", {})), text]
    dialogue = play("telecom", solo_task["id"], turns, None)
    assert dialogue.termination == "agent_error" and "nobody to read it" in dialogue.fault
    assert reward(domain, "telecom", solo_task["id"], dialogue, solo=True) == 0


def test_a_stop_text_beside_calls_is_the_agents_error(domain, play, said, solo_task):
    dialogue = play("telecom", solo_task["id"], [said(STOP, ("check_status_bar", {}))], None)
    assert dialogue.termination == "agent_error"
    assert reward(domain, "telecom", solo_task["id"], dialogue, solo=True) == 0


@pytest.mark.parametrize("name", ["airline", "retail"])
def test_other_domains_have_no_solo_mode(domain, name):
    with pytest.raises(ConfigError, match="no solo mode"):
        Dialogue(domain(name), domain(name).all_tasks["0"], None)


# ----------------------------------------------------------------------------------------------- what is left alone


def test_global_generators_and_other_threads_are_left_alone(play, said):
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist(), threading.active_count()
    play("mock", "create_task_1", [said(None, CREATE), "Done."], ["Hi", STOP])
    assert (random.getstate(), np.random.get_state()[1].tolist(), threading.active_count()) == before


def test_two_dialogues_side_by_side_do_not_touch_each_other(domain, said):
    class User:
        def respond(self, messages, tools):
            return said("Hi")

    where, task = domain("mock"), domain("mock").all_tasks["create_task_1"]
    one, two = (Dialogue(where, task, User()) for _ in range(2))
    for _ in range(2):
        one.respond(said(None, CREATE))
    two.respond(said(None, CREATE))
    made = [json.loads(message["content"])["task_id"] for message in one.messages if message["role"] == "tool"]
    assert made == ["task_2", "task_3"] and json.loads(two.messages[-1]["content"])["task_id"] == "task_2"
    one.tools[0]["function"]["name"] = "changed"
    assert two.tools[0]["function"]["name"] != "changed"
