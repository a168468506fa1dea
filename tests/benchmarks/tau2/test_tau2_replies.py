"""Replies are read strictly, and every way of being wrong is a `ReplyError` that says what is wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.benchmarks.tau2.replies import Call, ReplyError, read_reply, to_openai


def call(arguments, name="f", **others):
    return {
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}, **others}]
    }


def test_text_and_calls_are_read():
    assert read_reply({"role": "assistant", "content": "Hello"}).content == "Hello"
    reply = read_reply({"content": "so", **call('{"a": 1}')})
    assert (reply.content, reply.tool_calls) == ("so", [Call("1", "f", {"a": 1})])


def test_an_empty_list_of_calls_is_none():
    reply = read_reply({"content": "Hello", "tool_calls": []})
    assert reply.tool_calls is None


def test_arguments_may_come_as_an_object_and_a_call_without_id():
    assert read_reply(call({"a": [1, None]}, id=None)).tool_calls == [Call("", "f", {"a": [1, None]})]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (None, "expected a message"),
        ("text", "expected a message"),
        ({}, "empty"),
        ({"content": " \n"}, "empty"),
        ({"content": None, "tool_calls": []}, "empty"),
        ({"content": 3}, "expected text"),
        ({"content": "x", "tool_calls": "f()"}, "expected a list"),
        ({"tool_calls": ["f"]}, "expected an object"),
        ({"tool_calls": [{"id": "1"}]}, "expected an object"),
        (call("{}", name=None), "name of a call"),
        (call("{}", name=""), "name of a call"),
        (call('{"a": 1'), "cannot be read"),
        (call("a=1"), "cannot be read"),
        (call(""), "cannot be read"),
        (call('{"a": NaN}'), "cannot be read"),
        (call('{"a": 1e999}'), "cannot be read"),
        (call('{"a": 1, "a": 2}'), "cannot be read"),
        (call('{"a": "\\ud800"}'), "cannot be read"),
        (call('{"a": %s}' % ("9" * 5000)), "cannot be read"),
        (call("[" * 100_000), "cannot be read"),
        (call({"a": float("nan")}), "cannot be read"),
        (call({"a": object()}), "cannot be read"),
        (call("[]"), "expected an object"),
        (call("null"), "expected an object"),
        (call('"{}"'), "expected an object"),
        (call(None), "expected an object"),
    ],
)
def test_whatever_is_no_reply_is_refused(message, reason):
    with pytest.raises(ReplyError, match=reason):
        read_reply(message)


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["content", "tool_calls", "function", "name", "arguments", "id"]), inner)
    ),
    max_leaves=12,
)


@given(json_like)
def test_nothing_but_a_reply_error_leaks(message):
    try:
        reply = read_reply(message)
    except ReplyError:
        return
    assert reply.content or reply.tool_calls


def test_lone_surrogates_do_not_get_through():
    assert read_reply({"content": "a\ud800b"}).content == "a�b"


def test_messages_of_the_package_become_openai_messages():
    calls = [SimpleNamespace(id="1", name="f", arguments={"é": 1})]
    assert to_openai(SimpleNamespace(role="assistant", content=None, tool_calls=calls)) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"é": 1}'}}],
    }
    assert to_openai(SimpleNamespace(role="user", content="Hi", tool_calls=None)) == {"role": "user", "content": "Hi"}
    tool = SimpleNamespace(role="tool", id="1", content="7", requestor="assistant")
    assert to_openai(tool) == {"role": "tool", "tool_call_id": "1", "content": "7"}
