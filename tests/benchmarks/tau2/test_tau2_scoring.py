"""Rewards are the official ones, whatever was played; and judges are believed only in the form they were asked for."""

from __future__ import annotations

import copy
import json

import pytest
from toolcredit.benchmarks.chat_agents import Scripted
from toolcredit.benchmarks.tau2 import references, scoring
from toolcredit.benchmarks.tau2.dialogue import Dialogue
from toolcredit.errors import EndpointError

pytestmark = pytest.mark.tau2

SWALLOWED = {"12", "13", "64", "105"}  # retail tasks with a gold write that raises


def replay(domain, task, gold, solo=False):
    """Play a task with other gold actions than its own."""
    other = copy.deepcopy(task)
    other["evaluation_criteria"]["actions"] = gold
    user = None if solo else references.reference_user("gold", other)
    agent = references.reference_agent("gold", other, solo, seed=0)
    dialogue = Dialogue(domain, task, user)
    while not dialogue.over:
        dialogue.respond(agent.respond(dialogue.messages, dialogue.tools))
    return dialogue


def variants(task):
    """The gold actions, and wrong ones of several kinds."""
    gold = task["evaluation_criteria"].get("actions") or []
    yield "gold", gold
    yield "nothing", []
    if gold:
        yield "the first only", gold[:1]
        yield "without the last", gold[:-1]
        yield "the last twice", [*gold, gold[-1]]
        wrong = {key: "wrong" if isinstance(value, str) else value for key, value in gold[-1]["arguments"].items()}
        yield "wrong arguments", [*gold[:-1], {**gold[-1], "arguments": wrong}]
        yield "backwards", gold[::-1]


@pytest.fixture
def official(domain):
    """The reward that the official function gives to a record."""

    def evaluated(name, task, played, solo):
        where = domain(name)
        simulation = where.package.simulations.SimulationRun(
            id="1",
            task_id=task["id"],
            start_time="",
            end_time="",
            duration=0,
            termination_reason=played["termination"],
            messages=scoring.read_messages(where.package, played["messages"]),
        )
        function = where.package.attribute("evaluator.evaluator:evaluate_simulation")
        kinds = where.package.attribute("evaluator.evaluator:EvaluationType")
        return function(simulation, where.parse(task), kinds.ALL, solo, name)

    return evaluated


@pytest.mark.parametrize(
    ("name", "solo", "step"),
    [("airline", False, 5), ("retail", False, 10), ("telecom", False, 10), ("telecom", True, 10), ("mock", False, 1)],
)
def test_rewards_are_combined_as_by_the_official_function(domain, official, monkeypatch, name, solo, step):
    """With our environments, since it loads and hashes whole databases otherwise; see the next test."""
    where = domain(name)
    monkeypatch.setitem(where.package.attribute("registry:registry")._domains, name, where.environment)
    found = []
    for task in where.tasks("base", solo)[::step]:
        for kind, gold in variants(task):
            played = json.loads(json.dumps(scoring.record(replay(where, task, gold, solo))))
            info, _ = scoring.evaluate(where, task, played, solo)
            try:
                theirs = official(name, task, played, solo)
            except ValueError as error:  # an assertion about a task that is not there ends the official batch
                assert name == "mock" and "not found" in str(error) and info.reward == 0
                continue
            assert info.model_dump() == theirs.model_dump(), (task["id"], kind)
            found.append(info.reward)
    assert 0 in found and 1 in found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["airline", "retail"])
def test_rewards_equal_those_on_whole_databases(domain, official, name):
    where = domain(name)
    task = next(task for task in where.tasks("base", solo=False) if len(task["evaluation_criteria"]["actions"]) > 3)
    for kind, gold in variants(task):
        if kind in ("gold", "without the last", "wrong arguments"):
            played = scoring.record(replay(where, task, gold))
            assert scoring.evaluate(where, task, played)[0] == official(name, task, played, False), kind


def test_gold_writes_that_raise_are_listed(domain):
    retail = domain("retail")
    found = set()
    for task in retail.tasks("base", solo=False):
        played = scoring.record(replay(retail, task, task["evaluation_criteria"]["actions"]))
        info, failed = scoring.evaluate(retail, task, played)
        assert info.reward == 1
        if any(not name.startswith(("get_", "find_", "list_")) for name in failed):
            found.add(task["id"])
    assert found == SWALLOWED


@pytest.mark.parametrize("name", ["airline", "retail"])
def test_playing_every_task_leaves_the_shared_originals_as_they_were(domain, name):
    where = domain(name)
    kind = type(where.environment().tools.db)
    fields = kind.model_fields
    for task in where.tasks("base", solo=False):
        for _, gold in variants(task):
            replay(where, task, gold)
    originals = {field: dict(getattr(where.environment().tools.db, field)) for field in fields}
    loaded = kind.load(where.source.folder / "data" / "tau2" / "domains" / name / "db.json")
    assert kind.model_construct(**originals).model_dump() == loaded.model_dump()


def test_a_dialogue_with_a_new_bill_can_be_scored(domain):
    """The official code numbers new bills at random, and then refuses to score a dialogue that shows one."""
    telecom = domain("telecom")
    task = telecom.tasks("base", solo=True)[0]
    calls = [
        {"name": "refuel_data", "arguments": {"customer_id": "C1002", "line_id": "L1004", "gb_amount": 1.0}},
        {"name": "get_customer_by_id", "arguments": {"customer_id": "C1002"}},
    ]
    dialogue = replay(telecom, task, calls, solo=True)
    assert not any(getattr(message, "error", False) for message in dialogue.trajectory)
    assert scoring.evaluate(telecom, task, scoring.record(dialogue), solo=True)[0].reward == 0


def test_a_dialogue_that_did_not_end_properly_is_worth_0(domain):
    mock = domain("mock")
    task = mock.all_tasks["create_task_1"]
    played = scoring.record(replay(mock, task, task["evaluation_criteria"]["actions"]))
    assert scoring.evaluate(mock, task, played)[0].reward == 1
    for reason in ("max_steps", "too_many_errors", "agent_error", "user_error"):
        assert scoring.evaluate(mock, task, {**played, "termination": reason})[0].reward == 0


# ------------------------------------------------------------------------------------------------------- the judge


@pytest.fixture
def judged(domain, said):
    """Judge a dialogue of the mock domain with a scripted judge."""
    mock = domain("mock")
    task = mock.all_tasks["create_task_1_nl_eval"]

    def judge(*replies, asked=None):
        class Judge(Scripted):
            def respond(self, messages, tools):
                if asked is not None:
                    asked.append(messages)
                return super().respond(messages, tools)

        return scoring.judge(mock, task, replay(mock, task, []), Judge([said(reply) for reply in replies]))

    return judge


def verdicts(*met):
    results = [{"expectedOutcome": f"{i}", "reasoning": "so", "metExpectation": value} for i, value in enumerate(met)]
    return json.dumps({"results": results})


def test_the_judge_is_asked_with_the_official_prompt(judged):
    asked = []
    checks = judged(verdicts(True, False), asked=asked)
    assert [check["met"] for check in checks] == [True, False]
    system, user = asked[0]
    assert "evaluate whether the agent satisfies each" in system["content"]
    assert (
        "The user is complimented" in user["content"] and "assistant: Hi! How can I help you today?" in user["content"]
    )


def test_a_fenced_answer_is_read(judged):
    assert [check["met"] for check in judged(f"```json\n{verdicts(True, True)}\n```")] == [True, True]


@pytest.mark.parametrize(
    "answer",
    [
        "Both are met.",
        '{"results": []}',
        verdicts(True),
        verdicts(True, True, True),
        verdicts(True, "false"),
        verdicts(True, 1),
        verdicts(True, True) + " I am sure.",
        '{"results": [{"metExpectation": true}, {"metExpectation": true}]}',
        "[]",
        "",
    ],
)
def test_any_other_answer_is_asked_for_again(judged, answer):
    assert [check["met"] for check in judged(answer, answer, verdicts(False, True))] == [False, True]
    with pytest.raises(EndpointError, match="the judge gave no usable reply"):
        judged(answer, answer, answer)


def test_there_is_nothing_to_judge_without_assertions(domain):
    mock = domain("mock")
    task = mock.all_tasks["update_task_with_initialization_data"]
    assert scoring.judge(mock, task, replay(mock, task, []), Scripted([])) is None


def test_a_reward_that_depends_on_the_judge(domain):
    mock = domain("mock")
    task = copy.deepcopy(mock.all_tasks["create_task_1_nl_eval"])
    task["evaluation_criteria"]["reward_basis"] = ["NL_ASSERTION"]
    dialogue = replay(mock, task, [])
    check = {"nl_assertion": "a", "met": True, "justification": "so"}
    for met in (True, False):
        played = scoring.record(dialogue, [check, {**check, "met": met}])
        assert scoring.evaluate(mock, task, played)[0].reward == float(met)
    with pytest.raises(ValueError, match="nobody judged"):
        scoring.evaluate(mock, task, scoring.record(dialogue))
