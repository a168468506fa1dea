"""The suite toucan: metrics by hand, structured calls, rows of files, mocks and judges that fail."""

import json

import pytest
from toolcredit.agents.chat_baselines import assistant_message
from toolcredit.benchmarks.chat_agents import Scripted
from toolcredit.benchmarks.exports import export_run
from toolcredit.benchmarks.players import ObjectPlayer, make_player
from toolcredit.benchmarks.registry import make_suite
from toolcredit.benchmarks.runner import run_suite
from toolcredit.benchmarks.suite import Selection, TaskContext
from toolcredit.benchmarks.transcripts import score_files
from toolcredit.envs.sgls.generate import generate_tasks
from toolcredit.errors import ConfigError, UnknownNameError
from toolcredit.rewards.hierr import HierR
from toolcredit.runs import read_jsonl

SUCCESSES = ("success_process", "success_combined", "success_name")


@pytest.fixture(scope="module")
def embedded():
    return make_suite("toucan", {"split": "dev"})


def gold_messages(suite, task):
    reference = suite.reference("gold", task, TaskContext())
    return reference._messages


def played(suite, task, messages):
    """The score of one episode with these assistant messages."""
    outcome = suite.run(task, Scripted(messages), TaskContext())
    return suite.score(task, json.loads(json.dumps({"o": outcome.output}))["o"] and outcome)


def find(suite, category):
    return next(task for task in suite.tasks(Selection()) if task.category == category)


# ---------------------------------------------------------------------------------------------------------- metrics


def test_gold_is_right_and_doing_nothing_is_right_only_where_nothing_is_to_be_done(embedded, tmp_path):
    result = run_suite(embedded, make_player("gold", embedded), tmp_path / "run")
    assert result["n"] == 150 and all(result["aggregates"][name] == 1.0 for name in SUCCESSES)
    for name in ("process", "name_f1", "arg_match", "summary", "micro", "macro"):
        assert result["aggregates"][name] == 1.0
    floor = result["references"]["nothing"]["categories"]
    assert {name for name, score in floor.items() if score == 1.0} == {"irrelevant", "missing"}
    assert {name for name, score in floor.items() if score == 0.0} == set(floor) - {"irrelevant", "missing"}
    calls = [r["metrics"]["calls"] for r in read_jsonl(tmp_path / "run" / "results.jsonl")]
    assert result["aggregates"]["calls"] == pytest.approx(sum(calls) / 150)


def test_parallel_calls_are_one_step_only_in_one_turn(embedded):
    task = find(embedded, "parallel")
    together = gold_messages(embedded, task)
    calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in together[0]["tool_calls"]]
    assert len(calls) > 1
    serial = [assistant_message([call]) for call in calls] + together[1:]
    one, other = played(embedded, task, together), played(embedded, task, serial)
    assert (one.metrics["parallel"], one.metrics["process"], one.metrics["tool_turns"]) == (1.0, 1.0, 1.0)
    assert other.metrics["parallel"] == 0.0 and other.metrics["process"] == pytest.approx(0.7)
    assert other.metrics["published_process"] == pytest.approx(0.7)
    assert (other.metrics["tool_turns"], other.metrics["calls"]) == (len(calls), len(calls))
    assert one.success and not other.success


def test_half_of_the_values_wrong_is_a_success_by_the_threshold(embedded):
    """0.9 by the formula, 0.8999… in floats."""
    for task in embedded.tasks(Selection(categories=("single",))):
        if task.category != "single":
            continue
        messages = gold_messages(embedded, task)
        function = messages[0]["tool_calls"][0]["function"]
        arguments = json.loads(function["arguments"])
        texts = [key for key, value in arguments.items() if isinstance(value, str)]
        if len(arguments) == 2 and texts:
            break
    arguments[texts[0]] = "somewhere else entirely"
    function["arguments"] = json.dumps(arguments)
    score = played(embedded, task, messages)
    assert score.metrics["process"] == pytest.approx(0.9) and score.success


def test_malformed_calls_are_scored_as_what_they_are(embedded):
    task = find(embedded, "single")
    good = gold_messages(embedded, task)
    name = good[0]["tool_calls"][0]["function"]["name"]
    bad = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "x", "function": {"name": name, "arguments": "{"}}],
    }
    score = played(embedded, task, [bad, *good])
    assert score.metrics["format"] == pytest.approx(0.5) and score.metrics["invalid_calls"] == 1.0
    assert score.metrics["calls"] == 2.0 and score.metrics["name_f1"] < 1.0 or score.metrics["process"] < 1.0


def test_the_omission_guard_and_an_episode_without_end(embedded):
    task = find(embedded, "single")
    omitted = played(embedded, task, [{"role": "assistant", "content": "It is twelve degrees, I believe."}])
    assert (omitted.metrics["process"], omitted.metrics["omitted"], omitted.metrics["summary"]) == (0.0, 1.0, -0.5)
    call = gold_messages(embedded, task)[0]
    endless = played(embedded, task, [call] * 30)
    assert endless.detail["ended_by"] == "turns" and endless.metrics["tool_turns"] == 10.0


def test_scores_are_those_of_the_reward(embedded, tmp_path):
    run_suite(embedded, make_player("random", embedded), tmp_path / "run", selection=Selection(limit=40), references=())
    outputs = {r["task"]: r["output"]["episode"] for r in read_jsonl(tmp_path / "run" / "transcripts.jsonl")}
    for record in read_jsonl(tmp_path / "run" / "results.jsonl"):
        episode = outputs[record["task"]]
        rewards = HierR()(episode["task"], episode)
        assert record["metrics"]["name_f1"] == rewards["name"]
        assert all(record["metrics"][name] == rewards[name] for name in ("process", "summary", *SUCCESSES))
        assert record["success"] == (rewards["success_process"] == 1.0)


def test_transcripts_can_be_scored_by_the_other_command(embedded, tmp_path):
    config = {"suite": "toucan", "options": {"split": "dev"}, "agent": "gold"}
    run_suite(
        embedded,
        make_player("gold", embedded),
        tmp_path / "run",
        config=config,
        selection=Selection(limit=7),
        references=(),
    )
    (path,) = export_run(tmp_path / "run", "sgls", tmp_path / "out")
    scored = score_files([path], HierR())
    assert [one.report.rewards["process"] for one in scored] == [1.0] * 7


# ------------------------------------------------------------------------------------------- endpoints and back ends


def test_a_model_at_an_endpoint_plays_with_structured_calls(embedded, tmp_path, chat_server, fake_chat):
    task = find(embedded, "single")
    gold = gold_messages(embedded, task)
    function = gold[0]["tool_calls"][0]["function"]

    def model(body):
        if body["messages"][-1]["role"] == "tool":
            return gold[1]["content"]
        return fake_chat.completion(None, tool_calls=[(function["name"], function["arguments"])])

    chat_server.script(fake_chat.answer(model))
    player = make_player("openai:fake", embedded, {"base_url": chat_server.url})
    result = run_suite(embedded, player, tmp_path / "run", selection=Selection(ids=(task.id,)))
    assert result["aggregates"]["success_process"] == 1.0
    second = chat_server.bodies[1]["messages"]
    assert second[-1]["tool_call_id"] == second[-2]["tool_calls"][0]["id"]
    assert {tool["function"]["name"] for tool in chat_server.bodies[0]["tools"]} >= {function["name"]}


def rows(tmp_path, **changes):
    tools = [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Weather.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            },
        }
    ]
    truth = {
        "allowed_tools": ["weather"],
        "tool_schemas": json.dumps(tools),
        "gold_tool_calls": json.dumps([[{"name": "weather", "arguments": {"city": "Oslo"}}]]),
        "subset_name": "single-turn",
        **changes,
    }
    row = {
        "prompt": [{"role": "user", "content": "How is the weather in Oslo?"}],
        "data_source": "toucan",
        "tools": json.dumps(tools),
        "reward_model": {"ground_truth": truth},
        "extra_info": {"index": 5},
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return str(path)


def test_rows_of_toucan_test_with_a_language_model_as_back_end_and_judge(tmp_path, chat_server, fake_chat):
    def model(body):
        system = body["messages"][0]["content"]
        if "back end" in system:
            return '<tool_response>{"sky": "clear"}</tool_response>'
        if "RATING" in system:
            return "It says what the tool said.\nRATING: 5"
        if body["messages"][-1]["role"] == "tool":
            return "The sky over Oslo is clear."
        return fake_chat.completion(None, tool_calls=[("weather", {"city": "Oslo"})])

    chat_server.script(fake_chat.answer(model))
    chat = {"name": "chat", "model": "frozen", "base_url": chat_server.url}
    suite = make_suite("toucan", {"tasks": rows(tmp_path), "mock": chat, "judge": chat, "group": "source"})
    assert suite.beside == ("nothing",)  # gold would cost calls
    result = run_suite(suite, make_player("openai:fake", suite, {"base_url": chat_server.url}), tmp_path / "run")
    assert list(result["categories"]) == ["toucan/single-turn"]
    assert all(result["aggregates"][name] == 1.0 for name in (*SUCCESSES, "summary", "arg_match"))
    assert result["usage"]["fake"]["calls"] == 4  # two turns, the mock, the judge
    before = len(chat_server.bodies)
    (tmp_path / "run" / "results.jsonl").unlink()
    again = run_suite(suite, make_player("openai:fake", suite, {"base_url": chat_server.url}), tmp_path / "run")
    assert again == result and len(chat_server.bodies) == before  # scored again without a model


def test_a_judge_that_fails_is_no_zero(tmp_path, chat_server, fake_chat):
    chat_server.script(fake_chat.status(401))
    judge = {"name": "chat", "model": "m", "base_url": chat_server.url}
    suite = make_suite("toucan", {"split": "dev", "judge": judge})
    chosen = Selection(categories=("single",), limit=2)
    result = run_suite(suite, make_player("gold", suite), tmp_path / "run", selection=chosen, references=())
    assert result["completed"] == 2 and result["aggregates"]["success_process"] == 1.0
    assert "summary" not in result["aggregates"] and "success_combined" not in result["aggregates"]


def test_a_back_end_that_fails_leaves_tasks_unresolved(tmp_path, chat_server, fake_chat):
    chat_server.script(fake_chat.status(401))
    mock = {"name": "chat", "model": "m", "base_url": chat_server.url}
    suite = make_suite("toucan", {"tasks": rows(tmp_path), "mock": mock})
    result = run_suite(suite, make_player("gold", suite), tmp_path / "run", references=())
    assert result["unresolved"] == 1 and "401" in result["failures"][0]["error"]


def test_a_mock_that_does_not_know_the_tools_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError):
        make_suite("toucan", {"tasks": rows(tmp_path)}).tasks(Selection())


def test_flat_gold_is_not_scored_for_what_it_does_not_say(tmp_path):
    flat = json.dumps([{"name": "weather", "arguments": {"city": c}} for c in ("Oslo", "Rome")])
    suite = make_suite(
        "toucan", {"tasks": rows(tmp_path, gold_tool_calls=flat), "mock": "toolcredit_fakes_echo_mock:EchoMock"}
    )
    (task,) = suite.tasks(Selection())
    serial = [assistant_message([("weather", {"city": city})]) for city in ("Oslo", "Rome")]
    score = played(suite, task, [*serial, {"role": "assistant", "content": "Clear in both."}])
    assert score.metrics["parallel"] is None and score.metrics["process"] == 1.0


@pytest.fixture(autouse=True, scope="module")
def echo_mock():
    """A mock that answers every call with its arguments, under an import path."""
    import sys
    from types import ModuleType

    class EchoMock:
        identity, live, stateful = {"mock": "echo"}, False, False

        def start(self, scene):
            return self

        def respond(self, calls, past):
            return [{"got": call.arguments} for call in calls]

    module = ModuleType("toolcredit_fakes_echo_mock")
    module.EchoMock = EchoMock
    sys.modules[module.__name__] = module


def test_own_tasks_from_a_file(tmp_path):
    tasks = generate_tasks(60, seed=3, splits="test")
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task.to_json()) + "\n" for task in tasks))
    suite = make_suite("toucan", {"tasks": str(path)})
    assert [task.id for task in suite.tasks(Selection())] == [task.id for task in tasks]
    other = make_suite("toucan", {"tasks": str(path), "distractors": 3})
    assert suite.identity["tasks"] == other.identity["tasks"] and suite.identity != other.identity


def test_a_wrong_option_is_refused():
    for options in ({"group": "families"}, {"split": "val"}, {"mock": "nobody"}):
        with pytest.raises(UnknownNameError):
            make_suite("toucan", options)


def test_an_agent_that_stops_answering_fails_without_taking_the_suite_with_it(embedded, tmp_path):
    class Moody:
        def respond(self, messages, tools):
            if messages[-1]["role"] == "tool":
                raise RuntimeError("enough")
            return assistant_message([("now", {})])

    result = run_suite(
        embedded, ObjectPlayer("moody", Moody()), tmp_path / "run", selection=Selection(limit=5), references=()
    )
    assert result["failed"] == 5 and "enough" in result["failures"][0]["error"]
