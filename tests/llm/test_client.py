"""The chat client against a real HTTP server that misbehaves in every way it is scripted to."""

import concurrent.futures
import contextlib
import json
import logging
import multiprocessing
import pickle
import random
import sqlite3
import time

import pytest
from toolcredit.errors import ConfigError, EndpointError
from toolcredit.llm.client import ChatClient
from toolcredit.llm.limiter import Limit
from toolcredit.llm.retry import Backoff

KEY = "sk-secret-0123456789abcdef"
QUESTION = [{"role": "user", "content": "Which one?"}]


def make_client(server, **arguments):
    arguments.setdefault("backoff", Backoff(first=0.01, longest=0.05, jitter=random.Random(0)))
    return ChatClient("fake", base_url=server.url, **arguments)


def test_a_reply_with_everything(chat_server, fake_chat):
    chat_server.script(fake_chat.reply("B", tool_calls=[("look", {"x": 1})], usage=(12, 3), model="fake-2"))
    client = make_client(chat_server)
    reply = client.complete(QUESTION, temperature=0, max_tokens=5, top_k=1)
    assert (reply.text, reply.finish_reason, reply.model, reply.cached) == ("B", "tool_calls", "fake-2", False)
    assert [(call.name, json.loads(call.arguments)) for call in reply.tool_calls] == [("look", {"x": 1})]
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (12, 3)
    expected = {"model": "fake", "messages": QUESTION, "temperature": 0, "max_tokens": 5, "top_k": 1}
    assert chat_server.bodies == [expected]
    assert chat_server.requests[0]["path"] == "/v1/chat/completions"
    totals = client.totals
    assert (totals.calls, totals.requests, totals.prompt_tokens, totals.completion_tokens) == (1, 1, 12, 3)


@pytest.mark.parametrize(
    "failure", ["status(500)", "status(503)", "status(408)", "too_many()", "cut_off()", "no_answer()"]
)
def test_passing_failures_are_tried_again(chat_server, fake_chat, failure):
    behaviour = eval(failure, vars(fake_chat))
    chat_server.script(behaviour, behaviour, fake_chat.reply("C"))
    client = make_client(chat_server)
    assert client.complete(QUESTION).text == "C"
    assert client.totals.requests == 3 and client.totals.failures == 0


LASTING = [
    (lambda fake: fake.status(400, "context length exceeded"), "HTTP 400.*context length exceeded"),
    (lambda fake: fake.status(401), "HTTP 401"),
    (lambda fake: fake.status(404, "no such model"), "HTTP 404.*no such model"),
    (lambda fake: fake.status(302, headers={"Location": "http://127.0.0.1:9/"}), "HTTP 302"),
    (lambda fake: fake.invalid_json(), "not JSON"),
    (lambda fake: fake.wrong_content_type(), "text/html.*expected application/json"),
    (lambda fake: fake.raw("[" * 100000), "not JSON"),
    (lambda fake: fake.raw("9" * 5000), "not JSON"),
    (lambda fake: fake.raw("[]"), "no choices"),
    (lambda fake: fake.raw({"choices": []}), "no choices"),
    (lambda fake: fake.raw({"error": {"message": "overloaded"}}), "overloaded"),
    (lambda fake: fake.raw({"choices": [{}]}), "without a message"),
    (lambda fake: fake.raw({"choices": [{"message": {"content": 3}}]}), "int, expected a string"),
    (lambda fake: fake.reply(None), "NoneType, expected a string"),
    (lambda fake: fake.raw({"choices": [{"message": {"content": None, "tool_calls": {}}}]}), "dict, expected a list"),
    (
        lambda fake: fake.raw({"choices": [{"message": {"content": None, "tool_calls": [{}]}}]}),
        "without a function name",
    ),
    (lambda fake: fake.reply("x" * 2000), "larger than 1000 bytes"),
    (lambda fake: fake.endless(), "larger than 1000 bytes"),
    (lambda fake: fake.endless(400), "HTTP 400"),
]


@pytest.mark.parametrize(("failure", "reason"), LASTING, ids=[reason for _, reason in LASTING])
def test_other_failures_end_at_once(chat_server, fake_chat, failure, reason):
    chat_server.script(failure(fake_chat))
    client = make_client(chat_server, max_reply_bytes=1000 if "1000" in reason else 1_000_000)
    with pytest.raises(EndpointError, match=reason) as caught:
        client.complete(QUESTION)
    assert len(chat_server.requests) == 1
    assert client.totals.failures == 1
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


def test_no_text_is_an_answer_where_the_reply_says_why(chat_server, fake_chat):
    chat_server.script(
        fake_chat.reply(None, finish_reason="length"),
        fake_chat.reply(None, tool_calls=[("look", {})]),
        fake_chat.reply(""),
    )
    client = make_client(chat_server)
    assert [client.complete(QUESTION).text for _ in range(3)] == ["", "", ""]


def test_it_gives_up_after_the_retries(chat_server, fake_chat):
    chat_server.script(fake_chat.status(500, "broken"))
    client = make_client(chat_server, max_retries=3)
    with pytest.raises(EndpointError, match="HTTP 500.*broken.*gave up after 4 attempts"):
        client.complete(QUESTION)
    assert len(chat_server.requests) == 4


def test_a_long_error_page_does_not_hide_the_number_of_attempts(chat_server, fake_chat):
    chat_server.script(fake_chat.raw("<html>" + "sorry " * 5000, status=502, content_type="text/html"))
    with pytest.raises(EndpointError, match="HTTP 502 <html>sorry .* …; gave up after 2 attempts") as caught:
        make_client(chat_server, max_retries=1).complete(QUESTION)
    assert len(str(caught.value)) < 600


def test_nobody_listens(chat_server, fake_chat):
    client = make_client(chat_server, max_retries=1)
    chat_server.stop()
    with pytest.raises(EndpointError, match="connection failed.*2 attempts"):
        client.complete(QUESTION)


ENDLESS = {
    "hang": lambda fake: [fake.hang()],
    "drip": lambda fake: [fake.drip(0.02)],
    "drip in the headers": lambda fake: [fake.drip(0.02, "headers")],
    "drip, then 500": lambda fake: [fake.drip(0.02), fake.status(500)],
}


@pytest.mark.parametrize("failure", ENDLESS.values(), ids=ENDLESS)
def test_no_server_can_exceed_the_time_limit(chat_server, fake_chat, failure):
    chat_server.script(*failure(fake_chat))
    client = make_client(chat_server, timeout=0.3, deadline=0.8)
    begin = time.monotonic()
    with pytest.raises(EndpointError, match="gave up after"):
        client.complete(QUESTION)
    assert time.monotonic() - begin < 10  # far from the 60 s of the hang, also on a busy machine


JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
NO_HTTP = {
    "no HTTP": b"hello\r\n\r\n",
    "no status": b"HTTP/1.1 abc OK\r\n\r\n",
    "a status line that is no Unicode": b"HTTP/1.1 400 \xff\xfe\r\nContent-Length: 0\r\n\r\n",
    "too many headers": JSON_HEAD + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n",
    "a header that is too long": JSON_HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
    "a header with a null": JSON_HEAD + b"X: a\0b\r\n\r\n",
    "a length that is none": JSON_HEAD + b"Content-Length: -5\r\n\r\n",
    "a chunk that is none": JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "a chunk that is none in an error": b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "no gzip": JSON_HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("head", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_not_even_http_is_a_failure_of_the_endpoint(chat_server, fake_chat, head):
    chat_server.script(fake_chat.no_http(head), fake_chat.reply("A"))
    assert make_client(chat_server, max_retries=1).complete(QUESTION).text == "A"
    chat_server.script(fake_chat.no_http(head))
    with pytest.raises(EndpointError, match="connection failed.*2 attempts"):
        make_client(chat_server, max_retries=1).complete(QUESTION)


def test_nobody_waits_longer_than_asked_for_and_the_place_is_free_again(chat_server, fake_chat):
    chat_server.script(fake_chat.hang(), fake_chat.hang(), fake_chat.reply("A"))
    client = make_client(chat_server, limit=Limit(1), timeout=60.0)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:  # one of them waits for the other's place only
        begin = time.monotonic()
        asked = [threads.submit(client.complete, QUESTION, within=seconds) for seconds in (0.5, 0.7)]
        for future in asked:
            with pytest.raises(EndpointError, match="no reply within the 0.[57] s"):
                future.result()
    assert client.complete(QUESTION, within=30.0).text == "A"
    assert time.monotonic() - begin < 20  # far from the 60 s of the hang, also on a busy machine
    assert client.totals.failures == 2 and "within" not in chat_server.bodies[-1]


def test_a_hang_is_tried_again_and_does_not_shift_replies(chat_server, fake_chat):
    chat_server.script(fake_chat.reply("late", after=2.5), fake_chat.reply("first"), fake_chat.reply("second"))
    client = make_client(chat_server, timeout=2.0)
    assert client.complete(QUESTION).text == "first"
    time.sleep(1.0)
    assert client.complete(QUESTION).text == "second"


def test_retry_after_is_honoured_and_capped(chat_server, fake_chat):
    chat_server.script(fake_chat.too_many("0.3"), fake_chat.too_many("3600"), fake_chat.reply("A"))
    client = make_client(chat_server, backoff=Backoff(first=0.01, longest=0.5))
    assert client.complete(QUESTION).text == "A"
    first, second, third = (request["time"] for request in chat_server.requests)
    assert second - first >= 0.3
    assert 0.5 <= third - second < 30


def test_a_wait_that_passes_the_deadline_is_not_begun(chat_server, fake_chat):
    chat_server.script(fake_chat.too_many("50"))
    client = make_client(chat_server, backoff=Backoff(), deadline=10)
    begin = time.monotonic()
    with pytest.raises(EndpointError, match="would pass the deadline"):
        client.complete(QUESTION)
    assert time.monotonic() - begin < 10


def test_peak_in_flight_is_the_limit(chat_server, fake_chat):
    echo = fake_chat.answer(lambda body: body["messages"][0]["content"], after=0.02)
    chat_server.script(echo)
    # two clients of one endpoint share the tightest limit
    clients = [make_client(chat_server, limit=Limit(in_flight=n)) for n in (8, 50)]
    for client in clients:
        client.complete([{"role": "user", "content": "connect"}])
    chat_server.wait_until_idle()
    chat_server.script(fake_chat.together(chat_server, 8, echo))

    def ask(i):
        return clients[i % 2].complete([{"role": "user", "content": f"question {i}"}]).text

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        assert list(pool.map(ask, range(64))) == [f"question {i}" for i in range(64)]
    assert chat_server.peak_in_flight == 8


def test_the_http_pool_is_no_second_limit(chat_server, fake_chat):
    chat_server.script(fake_chat.together(chat_server, 150, fake_chat.reply("A")))
    client = make_client(chat_server, limit=Limit(in_flight=150))
    with concurrent.futures.ThreadPoolExecutor(150) as pool:
        list(pool.map(lambda _: client.complete(QUESTION), range(150)))
    assert chat_server.peak_in_flight == 150


def test_failing_requests_leave_no_slot_behind(chat_server, fake_chat):
    chat_server.script(*[fake_chat.hang(), fake_chat.status(500), fake_chat.drip(0.02)] * 4, fake_chat.reply("A"))
    client = make_client(chat_server, limit=Limit(in_flight=4), timeout=1.0, max_retries=20)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert [r.text for r in pool.map(lambda _: client.complete(QUESTION), range(16))] == ["A"] * 16
    chat_server.wait_until_idle()
    chat_server.script(fake_chat.together(chat_server, 4, fake_chat.reply("B")))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert [r.text for r in pool.map(lambda _: client.complete(QUESTION), range(16))] == ["B"] * 16
    assert chat_server.peak_in_flight == 4


def test_requests_a_minute_hold_the_eleventh_back(chat_server, monkeypatch):
    monkeypatch.setattr("toolcredit.llm.limiter.MINUTE", 1.0)
    client = make_client(chat_server, limit=Limit(requests_per_minute=10))
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(11) as pool:
        list(pool.map(lambda _: client.complete(QUESTION), range(11)))
    assert chat_server.requests[10]["time"] - begin >= 1.0


def test_requests_say_what_the_openai_package_would_say(chat_server, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    make_client(chat_server).complete(QUESTION)
    sent = chat_server.requests[0]["headers"]
    assert sent["openai-organization"] == "org-1" and sent["content-type"] == "application/json"
    assert sent["user-agent"].startswith("AsyncOpenAI/Python")


def test_the_key_never_leaks(chat_server, fake_chat, monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    echo = fake_chat.status(500, f"Incorrect API key provided: {KEY}")
    chat_server.script(fake_chat.reply("A"), echo, echo, fake_chat.status(401, f"bad key {KEY}"))
    client = make_client(chat_server, cache=tmp_path / "cache.sqlite")
    client.complete(QUESTION, temperature=0)
    with pytest.raises(EndpointError) as caught:
        client.complete(QUESTION)
    assert chat_server.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"
    error = caught.value
    seen = [repr(client), str(client), repr(vars(client)), str(error), repr(error), repr(error.__cause__)]
    seen += [
        caplog.text,
        repr(client.totals),
        pickle.dumps(client).decode("latin1"),
        pickle.dumps(error).decode("latin1"),
    ]
    seen += [path.read_bytes().decode("latin1") for path in tmp_path.iterdir()]
    assert [text for text in seen if KEY in text] == []
    assert "***" in str(error)


def test_the_key_comes_from_the_named_variable(chat_server, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY + "\n")
    make_client(chat_server, api_key_env="MY_KEY").complete(QUESTION)
    assert chat_server.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"


def test_keys_that_are_missing_or_broken(chat_server, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MY_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="set the environment variable OPENAI_API_KEY"):
        ChatClient("m")
    with pytest.raises(ConfigError, match="set the environment variable MY_KEY"):
        make_client(chat_server, api_key_env="MY_KEY")
    monkeypatch.setenv("MY_KEY", "sk-abc\nX-Evil: 1")
    with pytest.raises(ConfigError) as caught:
        make_client(chat_server, api_key_env="MY_KEY")
    assert "sk-abc" not in str(caught.value)
    monkeypatch.setenv("OPENAI_BASE_URL", chat_server.url)
    assert ChatClient("m").complete(QUESTION).text == "A"


@pytest.mark.parametrize(
    "arguments",
    [
        {"base_url": "localhost:8000"},
        {"base_url": "file:///etc/passwd"},
        {"base_url": "http://user:pass@host/v1"},
        {"base_url": "user:pass@host"},
        {"base_url": "http://host/v1?key=abc"},
        {"base_url": "http://[::1/v1"},
        {"base_url": "http://host:99999/v1"},
        {"timeout": 0},
        {"deadline": float("nan")},
        {"max_retries": -1},
        {"model": " "},
    ],
)
def test_arguments_out_of_range(arguments):
    with pytest.raises(ConfigError) as caught:
        ChatClient(**{"model": "m", "base_url": "http://localhost:1/v1", **arguments})
    assert "pass" not in str(caught.value).replace("passwd", "") and "abc" not in str(caught.value)


@pytest.mark.parametrize("field", ["in_flight", "requests_per_minute", "tokens_per_minute"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8"])
def test_limits_out_of_range(field, value):
    with pytest.raises(ConfigError, match=field):
        Limit(**{field: value})


@pytest.mark.parametrize("params", [{"stream": True}, {"n": 2}, {"temperature": float("nan")}, {"tools": {1, 2}}])
def test_requests_that_cannot_be_sent(chat_server, params):
    with pytest.raises(ConfigError):
        make_client(chat_server).complete(QUESTION, **params)
    assert chat_server.requests == []


def test_text_that_is_no_unicode_goes_both_ways(chat_server, fake_chat):
    chat_server.script(fake_chat.raw(json.dumps(fake_chat.completion("bad \ud800 half"))))
    reply = make_client(chat_server).complete([{"role": "user", "content": "lone \udfff surrogate"}])
    assert reply.text == "bad ? half"
    assert chat_server.bodies[0]["messages"][0]["content"] == "lone ? surrogate"


def test_the_cache_answers_greedy_calls_only(chat_server, fake_chat, tmp_path):
    chat_server.script(
        fake_chat.reply("one", tool_calls=[("f", {"x": "é"})]), fake_chat.reply("two"), fake_chat.reply("3")
    )
    path = tmp_path / "new" / "cache.sqlite"
    client = make_client(chat_server, cache=path)
    first = client.complete(QUESTION, temperature=0)
    again = make_client(chat_server, cache=path).complete(QUESTION, temperature=0)
    assert again.cached and not first.cached
    assert (again.text, again.tool_calls, again.usage) == (first.text, first.tool_calls, first.usage)
    assert client.complete(QUESTION, temperature=0.7).text == "two"
    assert client.complete(QUESTION, temperature=0, max_tokens=1).text == "3"
    assert len(chat_server.requests) == 3
    assert client.complete(QUESTION, temperature=0).cached
    assert (client.totals.calls, client.totals.cached, client.totals.requests) == (4, 1, 3)


def test_failures_are_not_cached(chat_server, fake_chat, tmp_path):
    chat_server.script(fake_chat.status(400), fake_chat.reply("A"))
    client = make_client(chat_server, cache=tmp_path / "cache.sqlite")
    with pytest.raises(EndpointError):
        client.complete(QUESTION, temperature=0)
    assert client.complete(QUESTION, temperature=0).text == "A"


def test_the_cache_among_threads(chat_server, tmp_path):
    client = make_client(chat_server, cache=tmp_path / "cache.sqlite")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        texts = [{"role": "user", "content": str(i % 8)} for i in range(64)]
        assert {r.text for r in pool.map(lambda m: client.complete([m], temperature=0), texts)} == {"A"}
    assert client.totals.calls == 64 and client.totals.cached + client.totals.requests == 64


def test_a_file_that_is_no_cache(chat_server, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database" * 50)
    with pytest.raises(ValueError, match="notes.txt cannot be used as a response cache"):
        make_client(chat_server, cache=path).complete(QUESTION, temperature=0)
    assert path.read_text().startswith("these are my notes")


def test_a_damaged_cache_entry_says_so(chat_server, tmp_path):
    path = tmp_path / "cache.sqlite"
    client = make_client(chat_server, cache=path)
    client.complete(QUESTION, temperature=0)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE replies SET reply = '{}'")
    with pytest.raises(ValueError, match="cannot be used as a response cache"):
        client.complete(QUESTION, temperature=0)


def test_a_client_survives_pickling(chat_server, tmp_path):
    client = make_client(chat_server, cache=tmp_path / "cache.sqlite", limit=Limit(3))
    client.complete(QUESTION)
    copy = pickle.loads(pickle.dumps(client))
    assert copy.limit == Limit(3) and copy.totals.calls == 0
    assert copy.complete(QUESTION, temperature=0).text == "A"


def _ask_in_child(client, results):
    results.put(client.complete(QUESTION).text)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_survives_a_fork(chat_server):
    client = make_client(chat_server)
    client.complete(QUESTION)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_ask_in_child, args=(client, results))
    child.start()
    assert results.get(timeout=20) == "A"
    child.join(20)
    assert child.exitcode == 0
    assert client.complete(QUESTION).text == "A"
