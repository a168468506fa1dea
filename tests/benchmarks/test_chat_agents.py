"""Who can be measured: references, endpoints that misbehave, local models, run folders, classes of one's own."""

import json
import threading
import time

import pytest
from jsonschema import validate
from toolcredit.agents.base import Agent
from toolcredit.agents.chat_baselines import assistant_message
from toolcredit.benchmarks.chat_agents import (
    EnvChat,
    RandomCalls,
    Scripted,
    Silent,
    conversation_as_text,
)
from toolcredit.benchmarks.players import EndpointPlayer, ObjectPlayer, make_player
from toolcredit.benchmarks.registry import make_suite
from toolcredit.benchmarks.runner import run_suite
from toolcredit.benchmarks.suite import DeadlineError, Outcome, Score, Selection, Suite, SuiteTask, TaskContext
from toolcredit.envs.sgls.parsing import HERMES
from toolcredit.envs.sgls.transcripts import as_calls
from toolcredit.errors import ConfigError, RunError, UnknownNameError, UsageError
from toolcredit.runs import read_jsonl

TASK = SuiteTask("t", "c", {})
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
                "required": ["city"],
            },
        },
    }
]
USER = {"role": "user", "content": "Weather of Oslo?"}
CALL = assistant_message([("weather", {"city": "Oslo"})])
ANSWER = {"role": "tool", "tool_call_id": "call_0", "name": "weather", "content": '{"sky": "clear"}'}


@pytest.fixture(scope="module")
def toucan():
    return make_suite("toucan", {"split": "dev", "tier": "easy"})


@pytest.fixture
def endpoint(chat_server):
    """`endpoint(**options)` is a player at the scripted server, with short times."""

    def make(deadline=5.0, **options):
        return EndpointPlayer("fake", {"base_url": chat_server.url, "retries": 0, **options}, deadline)

    return make


# ------------------------------------------------------------------------------------------------------- references


def test_scripted_agents_give_copies_and_then_nothing():
    agent = Scripted([CALL])
    first = agent.respond([USER], TOOLS)
    first["tool_calls"].clear()
    assert CALL["tool_calls"] and agent.respond([USER], TOOLS)["content"] == ""
    assert Silent().respond([USER], TOOLS) == {"role": "assistant", "content": ""}


def test_random_calls_fit_their_tools_and_repeat_with_the_seed():
    said = [RandomCalls(seed).respond([USER], TOOLS) for seed in range(40)]
    calls = [message["tool_calls"][0]["function"] for message in said if "tool_calls" in message]
    assert 5 < len(calls) < 35
    for call in calls:
        validate(json.loads(call["arguments"]), TOOLS[0]["function"]["parameters"])
    assert said == [RandomCalls(seed).respond([USER], TOOLS) for seed in range(40)]
    assert "tool_calls" not in RandomCalls(0).respond([USER], [])


# ------------------------------------------------------------------------------------------------------- endpoints


def test_an_endpoint_gets_messages_and_tools_and_its_calls_come_through(endpoint, chat_server, fake_chat):
    chat_server.script(fake_chat.reply("", tool_calls=[("weather", '{"city": "Oslo"'), ("no such tool", {})]))
    context = TaskContext(seed=7)
    said = endpoint(params={"top_p": 0.5}).start(TASK, context).respond([USER, CALL, ANSWER], TOOLS)
    assert [call["function"]["arguments"] for call in said["tool_calls"]] == ['{"city": "Oslo"', "{}"]
    assert said["content"] == "" and len({call["id"] for call in said["tool_calls"]}) == 2
    (body,) = chat_server.bodies
    assert body["messages"] == [USER, CALL, ANSWER] and body["tools"] == TOOLS
    assert (body["temperature"], body["top_p"], "seed" in body) == (0.0, 0.5, False)


def test_no_tools_are_not_offered_and_seeds_are_sent_where_they_matter(endpoint, chat_server):
    player = endpoint(temperature=0.7, max_tokens=None)
    player.start(TASK, TaskContext(seed=7)).respond([USER], [])
    (body,) = chat_server.bodies
    assert body["seed"] == 7 and "tools" not in body and "max_tokens" not in body


def test_tokens_are_booked_under_the_model_that_answered(endpoint, chat_server, fake_chat, toy_suite, tmp_path):
    chat_server.script(fake_chat.reply("0", usage=(10, 2), model="fake-2026"))
    result = run_suite(toy_suite.Sums(n=6), endpoint(), tmp_path / "run")
    assert result["usage"] == {"fake-2026": {"calls": 6, "prompt_tokens": 60, "completion_tokens": 12}}


@pytest.mark.parametrize("number", [1, 4])
def test_requests_in_flight_are_as_many_as_asked_for(number, endpoint, chat_server, fake_chat, toy_suite, tmp_path):
    chat_server.script(fake_chat.together(chat_server, number, fake_chat.reply("0")))
    run_suite(toy_suite.Sums(n=12), endpoint(in_flight=number, deadline=20.0), tmp_path / "run", workers=16)
    assert chat_server.peak_in_flight == number


def test_a_slow_pace_limits_the_attempts_at_once(endpoint):
    assert endpoint(in_flight=64, requests_per_minute=10).concurrency == 10


def test_a_server_with_every_fault_leaves_a_complete_result(endpoint, chat_server, fake_chat, toy_suite, tmp_path):
    """Malformed calls are answers; everything else is a failure that counts, and nothing hangs past its deadline."""
    chat_server.script(
        fake_chat.reply("0"),
        fake_chat.reply(None, tool_calls=[("f", "{not json")]),
        fake_chat.status(400, "tools are not supported"),
        fake_chat.status(500),
        fake_chat.invalid_json(),
        fake_chat.wrong_content_type(),
        fake_chat.cut_off(),
        fake_chat.no_answer(),
        fake_chat.drip(),
        fake_chat.drip(where="headers"),
        fake_chat.endless(),
        fake_chat.hang(),
    )
    begin = time.monotonic()
    result = run_suite(
        toy_suite.Sums(n=14), endpoint(deadline=1.0, in_flight=4), tmp_path / "run", deadline=1.0, workers=4
    )
    assert time.monotonic() - begin < 30
    assert (result["n"], result["unresolved"]) == (14, 0)
    assert result["completed"] == 2 and result["failed"] == 12
    assert all(failure["error"] for failure in result["failures"])
    assert list(read_jsonl(tmp_path / "run" / "sessions.jsonl"))[-1]["stuck_threads"] == 0


def test_no_request_outlives_its_attempt(endpoint, chat_server, fake_chat, toy_suite, tmp_path):
    """Else the requests of attempts that have failed would take places, and time, from those that come after."""
    chat_server.script(fake_chat.hang(), fake_chat.reply("0"))
    player = endpoint(deadline=60.0, in_flight=1)
    result = run_suite(toy_suite.Sums(n=2), player, tmp_path / "run", deadline=3.0, workers=1)
    assert (result["completed"], result["failed"]) == (1, 1)
    assert result["failures"][0]["error"] == "no outcome within the deadline"
    assert list(read_jsonl(tmp_path / "run" / "sessions.jsonl"))[-1]["stuck_threads"] == 0


def test_a_server_that_dies_leaves_failures_that_can_be_played_again(
    endpoint, chat_server, fake_chat, toy_suite, tmp_path
):
    suite, player = toy_suite.Sums(n=10), endpoint(deadline=2.0)
    answered = threading.Semaphore(4)

    def until_it_dies(exchange):
        if answered.acquire(blocking=False):
            exchange.send(fake_chat.completion("0"))
        else:
            exchange.handler.close_connection = True

    chat_server.script(until_it_dies)
    result = run_suite(suite, player, tmp_path / "run", workers=2)
    assert (result["completed"], result["failed"]) == (4, 6)
    chat_server.script(fake_chat.reply("0"))
    assert run_suite(suite, player, tmp_path / "run", workers=2, retry_failed=True)["completed"] == 10


def test_the_key_stands_in_no_file(endpoint, chat_server, fake_chat, toy_suite, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    chat_server.script(fake_chat.reply("0"), fake_chat.status(401, "wrong key sk-secret-123"))
    run_suite(toy_suite.Sums(n=3), endpoint(), tmp_path / "run")
    assert chat_server.requests[0]["headers"]["authorization"] == "Bearer sk-secret-123"
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or "sk-secret" not in file.read_text()


def test_an_endpoint_that_needs_a_key_is_told_at_once(monkeypatch, toy_suite):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        make_player("openai:gpt", toy_suite.Sums())


# --------------------------------------------------------------------------------------------- classes and registry


class Echo(Agent):
    name = "echo"

    def act(self, observation, info):
        if observation[-1]["role"] == "tool":
            return "The sky is clear."
        name = info["tools"][0]["function"]["name"]
        return f'I look.\n<tool_call>{{"name": "{name}", "arguments": {{"city": "Oslo"}}}}</tool_call>'


class NoText(Agent):
    name = "no_text"

    def act(self, observation, info):
        return 3


def test_an_agent_of_chat_environments_holds_any_conversation():
    chat = EnvChat(Echo(), seed=0)
    said = chat.respond([USER], TOOLS)
    assert said["content"] == "I look." and said["tool_calls"][0]["function"]["name"] == "weather"
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}
    assert chat.respond([USER, said, ANSWER], TOOLS) == {"role": "assistant", "content": "The sky is clear."}
    with pytest.raises(UsageError, match="text"):
        EnvChat(NoText(), seed=0).respond([USER], TOOLS)


def test_conversations_survive_the_way_to_text_and_back():
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        CALL,
        ANSWER,
        {"role": "assistant", "content": "Clear."},
    ]
    text = conversation_as_text(messages)
    assert text[2]["content"].startswith("<tool_call>") and "tool_calls" not in text[2]
    back = as_calls(text, HERMES)
    assert back[2]["tool_calls"][0]["id"] == "call_0"
    assert json.loads(back[2]["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}
    assert back[-1]["content"] == "Clear." and messages[2] is CALL and "tool_calls" in CALL


def test_the_forms_of_agent(toy_suite, toucan, chat_server):
    sums = toy_suite.Sums()
    assert make_player("gold", sums).identity == {"reference": "gold"}
    own = make_player("toolcredit_fakes_toy_suite:Adder", sums, {"wrong": 2})
    assert own.start(TASK, TaskContext()).respond([{"content": "1+2"}], [])["content"] == "3"
    assert make_player("openai:m", sums, {"base_url": chat_server.url}).identity["model"] == "m"
    played = make_player("do_nothing", toucan).start(TASK, TaskContext())
    assert played.respond([USER], TOOLS) == {"role": "assistant", "content": ""}


def test_an_agent_cannot_change_the_conversation_it_is_shown():
    class Vandal:
        def respond(self, messages, tools):
            messages[0]["content"] = "Something else."
            messages.append({})
            tools.clear()
            return {"content": "Done."}

    messages, tools = [dict(USER)], list(TOOLS)
    ObjectPlayer("vandal", Vandal()).start(TASK, TaskContext()).respond(messages, tools)
    assert messages == [USER] and tools == TOOLS


@pytest.mark.parametrize(
    ("spec", "options", "error", "named"),
    [
        ("golden", {}, UnknownNameError, "gold"),
        ("openai:", {}, UsageError, "openai:MODEL"),
        ("openai:m", {"base_ur": "x"}, UnknownNameError, "base_url"),
        ("openai:m", {"max_tokens": 0}, ConfigError, "max_tokens"),
        ("openai:m", {"params": {"stream": True}}, ConfigError, "stream"),
        ("no.such:Class", {}, UsageError, "no.such"),
        ("toolcredit_fakes_toy_suite:Adder", {"second": 1}, ConfigError, "second"),
        ("toolcredit.benchmarks.pool:MAX_STUCK", {}, UsageError, "expected a class"),
        ("gold", {"x": 1}, ConfigError, "no options"),
        ("local:no/such-model", {}, UsageError, "no/such-model"),
        ("local:tiny", {"template": "x"}, ConfigError, "template"),
    ],
)
def test_what_is_no_agent_is_refused(spec, options, error, named, toy_suite):
    if spec.startswith("local:"):
        pytest.importorskip("torch", reason="needs the extra 'train'")
    with pytest.raises(error, match=named):
        make_player(spec, toy_suite.Sums(), options)


def test_a_folder_that_is_no_run_is_refused(toy_suite, tmp_path):
    with pytest.raises(RunError, match=r"config\.json"):
        make_player(str(tmp_path), toy_suite.Sums())


@pytest.mark.parametrize(
    ("agent", "needed"), [("toolcredit.agents.chat_baselines:GoldAgent", "gold"), ("all", "no text bandit")]
)
def test_an_agent_that_a_conversation_is_not_enough_for_is_refused_before_the_run(agent, needed, toucan):
    """The registered gold agent wants an environment that tells its plans, `all` one with tools to choose."""
    with pytest.raises(UsageError, match=f"{agent} cannot hold the conversations.*{needed}"):
        make_player(agent, toucan)


# ----------------------------------------------------------------------------------------------------- local models


@pytest.fixture(scope="module")
def tiny(toy_suite):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    return make_player("local:tiny", toy_suite.Sums(), {"max_tokens": 8, "in_flight": 4})


def test_a_local_model_answers_several_conversations_as_it_answers_each_alone(tiny, toy_suite, tmp_path):
    suite = toy_suite.Sums(n=6)
    together = run_suite(suite, tiny, tmp_path / "together", workers=4)
    run_suite(suite, tiny, tmp_path / "alone", workers=1)
    said = [
        {r["task"]: r["output"] for r in read_jsonl(tmp_path / name / "transcripts.jsonl")}
        for name in ("together", "alone")
    ]
    assert said[0] == said[1]
    usage = together["usage"]["tiny"]
    assert usage["calls"] == 6 and 0 < usage["completion_tokens"] <= 48
    assert len(tiny.identity["fingerprint"]) == 64


def test_a_conversation_that_does_not_fit_is_a_failure(tiny, toy_suite):
    agent = tiny.start(TASK, TaskContext())
    with pytest.raises(UsageError, match="do not fit"):
        agent.respond([{"role": "user", "content": "word " * tiny.local.context_length}], [])


class Toolbox(Suite):
    """Questions beside tools whose schemas take so many words each; only names and parameters matter."""

    name = "toolbox"
    beside = ()

    def __init__(self, words):
        self.words = words

    @property
    def identity(self):
        return {"words": self.words}

    def tasks(self, selection):
        return [SuiteTask(str(i), "all", {"words": words}) for i, words in enumerate(self.words)]

    def episode(self, task, context):
        assert context.reference == "gold" or task.payload["words"] < 2_000, "nobody plays what does not fit"
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        about = "word " * task.payload["words"]
        function = {"name": "search", "description": about, "parameters": schema}
        reply = yield [{"role": "user", "content": "Hello?"}], [{"type": "function", "function": function}]
        return Outcome({"said": reply})

    def score(self, task, outcome):
        return Score(bool(outcome.output["said"]))

    def reference(self, name, task, context):
        return Scripted([])


@pytest.mark.parametrize(
    ("words", "chosen"), [((5, 5, 5), "auto"), ((5, 1_900, 1_900), "compact"), ((5, 5, 10_000), "auto")]
)
def test_chats_are_written_compactly_where_they_do_not_fit_otherwise(words, chosen, tmp_path, caplog):
    """The prompt of middle length decides; schemas of 1,900 words do not fit into the context, their names do."""
    pytest.importorskip("torch", reason="needs the extra 'train'")
    suite = Toolbox(words)
    player = make_player("local:tiny", suite, {"max_tokens": 4})
    player.prepare(suite, suite.tasks(Selection()))
    told = player.identity["template"]
    assert told.partition(",")[0] == chosen
    ids, _ = player.prompt([USER], [{"type": "function", "function": {"name": "search", "parameters": {}}}])
    assert ("<tools>" in player.local.tokenizer.decode(ids)) == (chosen == "auto")
    assert [record.getMessage() for record in caplog.records if "template" in record.getMessage()] == (
        [f"tiny: template {told}"] if chosen == "compact" else []
    )
    fixed = make_player("local:tiny", suite, {"max_tokens": 4, "template": "chatml"})
    fixed.prepare(suite, suite.tasks(Selection()))
    assert fixed.identity["template"] == "chatml"


def test_a_run_says_how_chats_were_written(tmp_path):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    suite = Toolbox((1_900,))
    result = run_suite(suite, make_player("local:tiny", suite, {"max_tokens": 4}), tmp_path / "run")
    assert result["completed"] == 1 and result["agent_identity"]["template"].startswith("compact, since prompts of ")


def test_a_turn_that_would_end_too_late_is_not_waited_for(tiny):
    agent = tiny.start(TASK, TaskContext(deadline=time.monotonic() + 0.005))
    begin = time.monotonic()
    with pytest.raises(DeadlineError):
        for _ in range(1000):
            agent.respond([USER], TOOLS)
    assert time.monotonic() - begin < 5


def test_an_adapter_changes_the_model_and_other_formats_are_not_read(toy_suite, tmp_path):
    torch = pytest.importorskip("torch", reason="needs the extra 'train'")
    from toolcredit.agents.policy.config import PolicyConfig
    from toolcredit.agents.policy.policy import LoraPolicy

    policy = LoraPolicy(PolicyConfig(model="tiny", lora_rank=2))
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.5)
    policy.save_adapter(tmp_path / "adapter")
    plain = make_player("local:tiny", toy_suite.Sums())
    adapted = make_player(f"local:tiny+{tmp_path / 'adapter'}", toy_suite.Sums())
    assert plain.identity["fingerprint"] != adapted.identity["fingerprint"]
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "adapter_model.bin").write_bytes(b"x")
    with pytest.raises(RunError, match="adapter_model.safetensors"):
        make_player(f"local:tiny+{tmp_path / 'pickled'}", toy_suite.Sums())


def test_a_run_folder_plays_as_a_chat_agent_and_as_the_learner_it_is(toucan, toy_suite, tmp_path):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    from toolcredit.agents.fgpo import FGPO

    FGPO({"policy": {"model": "tiny", "lora_rank": 2}}).save(tmp_path / "run")
    chat = make_player(str(tmp_path / "run"), toy_suite.Sums(), {"max_tokens": 4})
    assert chat.kind == "chat" and chat.name == "fgpo (run)"
    assert isinstance(chat.start(TASK, TaskContext()).respond([USER], [])["content"], str)
    selector = make_suite("genomeqa", {"mode": "selector", "split": "dev"})
    learner = make_player(str(tmp_path / "run"), selector)
    assert learner.kind == "env" and len(learner.identity["adapter"]) == 64
    result = run_suite(selector, learner, tmp_path / "bench", selection=Selection(limit=3), references=())
    assert result["completed"] == 3


def test_a_run_chats_as_it_was_trained(toucan, tmp_path):
    """Template and call syntax come from the run; measured in another way it would be another model."""
    pytest.importorskip("torch", reason="needs the extra 'train'")
    from toolcredit.agents.sft import SFTLearner

    run = tmp_path / "run"
    SFTLearner({"policy": {"model": "tiny", "weights": "full", "template": "compact"}}).save(run)
    config = json.loads((run / "config.json").read_text())
    env = {"id": "SGLSToolCallingReplay-v0", "kwargs": {"parser": "llama3"}}
    (run / "config.json").write_text(json.dumps({**config, "env": env}))
    player = make_player(str(run), toucan, {"max_tokens": 4})
    assert (player.identity["template"], player.identity["parser"]) == ("compact", "llama3")
    assert "weather(city, days?)" in player.local.tokenizer.decode(player.prompt([USER], TOOLS)[0])
    chosen = make_player(str(run), toucan, {"template": "chatml", "parser": "hermes", "dtype": "bfloat16"})
    assert (chosen.identity["template"], chosen.identity["parser"]) == ("chatml", "hermes")
    assert str(chosen.local.model.dtype) == "torch.bfloat16"
