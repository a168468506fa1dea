import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.llm.replies import Completion, parse_reply
from toolcredit.llm.retry import AttemptError


def body(message, **rest):
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **rest}).encode()


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "application/problem+json"])
def test_content_types_of_json(kind):
    assert parse_reply(body({"content": "A"}), kind).text == "A"


@pytest.mark.parametrize("kind", ["", "text/html", "text/plain", "application/jsonp"])
def test_other_content_types(kind):
    with pytest.raises(AttemptError, match="content type"):
        parse_reply(body({"content": "A"}), kind)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        3,
        {},
        {"prompt_tokens": "1", "completion_tokens": 2},
        {"prompt_tokens": -1, "completion_tokens": 2},
        {"prompt_tokens": True, "completion_tokens": 2},
        {"prompt_tokens": 1, "completion_tokens": 10**4000},
    ],
)
def test_usage_that_is_none(usage):
    assert parse_reply(body({"content": "A"}, usage=usage), "application/json").usage is None


def test_arguments_as_an_object_become_text():
    message = {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": "é"}}}]}
    (call,) = parse_reply(body(message), "application/json").tool_calls
    assert (call.id, call.name, call.arguments) == ("", "f", '{"x": "é"}')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "usage",
                    "finish_reason",
                    "id",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_a_completion_or_an_attempt_error(value):
    for reply in (
        value,
        {"choices": [{"message": value}]},
        {"choices": [{"message": {"content": value, "tool_calls": value}}]},
    ):
        try:
            completion = parse_reply(json.dumps(reply).encode(), "application/json")
        except AttemptError as error:
            assert not error.transient
            continue
        assert isinstance(completion.text, str)
        completion.text.encode()
        assert Completion.from_dict(json.loads(json.dumps(completion.to_dict()))) == completion


@given(st.binary())
def test_any_bytes_are_a_completion_or_an_attempt_error(raw):
    with pytest.raises(AttemptError):
        parse_reply(raw, "application/json")
