import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.envs.spaces import SAMPLE_CHARACTERS, ChatMessages, UnicodeText
from toolcredit.errors import UsageError

SPACES = [
    UnicodeText(10),
    UnicodeText(2**22, min_length=3),
    UnicodeText(5, min_length=5, charset="ACGTé"),
    UnicodeText(0),
    ChatMessages(),
    ChatMessages(max_messages=1, max_length=2),
]
by_name = pytest.mark.parametrize("space", SPACES, ids=repr)


@by_name
def test_samples_are_elements_and_repeat_with_the_seed(space):
    space.seed(7)
    first = [space.sample() for _ in range(200)]
    assert all(sample in space for sample in first)
    space.seed(7)
    assert [space.sample() for _ in range(200)] == first


@by_name
def test_samples_survive_json(space):
    samples = [space.sample() for _ in range(20)]
    text = json.dumps(space.to_jsonable(samples), allow_nan=False)
    text.encode()
    assert space.from_jsonable(json.loads(text)) == samples


@by_name
def test_pickle_copy_and_equality(space):
    for twin in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert twin == space and hash(twin) == hash(space) and repr(twin) == repr(space)
    assert [other for other in SPACES if other == space] == [space]
    assert space != "text"


@by_name
def test_a_batch_of_the_space_is_a_tuple(space):
    batch = batch_space(space, 3)
    assert isinstance(batch, gym.spaces.Tuple)
    assert batch.sample() in batch


def test_sampling_leaves_the_global_generators_alone():
    before = np.random.get_state()
    for space in SPACES:
        space.seed(1)
        space.sample()
    assert data_equivalence(tuple(before), tuple(np.random.get_state()), exact=True)


@given(st.text())
def test_unicode_text_contains_any_encodable_text(text):
    assert text in UnicodeText(len(text))
    assert text not in UnicodeText(len(text) + 1, min_length=len(text) + 1)


@pytest.mark.parametrize("wrong", [None, 3, b"ab", ["a"], "\ud800", "abcd", ""])
def test_what_unicode_text_does_not_contain(wrong):
    assert wrong not in UnicodeText(3, min_length=1)
    assert "ACGU" not in UnicodeText(4, charset="ACGT")


def test_samples_of_a_large_space_are_short():
    assert len(max((SPACES[1].sample() for _ in range(50)), key=len)) <= SAMPLE_CHARACTERS


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": ""},
        {"role": "user", "content": "ACGT?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": "let me see", "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "not JSON", "tool_call_id": "c1", "name": "f"},
        {"role": "tool", "content": "{}"},
    ],
)
def test_chat_messages_contains(message):
    assert [message] in ChatMessages()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        "hello",
        ({"role": "user", "content": "a tuple"},),
        ["hello"],
        [{"role": "user"}],
        [{"role": ["user"], "content": ""}],
        [{"role": "narrator", "content": ""}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": "parts"}]}],
        [{"role": "user", "content": "", "time": 1}],
        [{"role": "user", "content": "\udfff"}],
        [{"role": "assistant", "content": None}],
        [{"role": "assistant", "content": None, "tool_calls": []}],
        [{"role": "assistant", "content": None, "tool_calls": CALL}],
        [{"role": "assistant", "content": None, "tool_calls": [CALL | {"type": "code"}]}],
        [{"role": "assistant", "content": None, "tool_calls": [CALL | {"function": {"name": "f", "arguments": {}}}]}],
        [{"role": "user", "content": "", "tool_calls": [CALL]}],
        [{"role": "tool", "content": "", "tool_call_id": 1}],
        [{"role": "user", "content": "too long" * 3}],
        [{"role": "user", "content": ""}] * 4,
    ],
)
def test_chat_messages_does_not_contain(wrong):
    assert wrong not in ChatMessages(max_messages=3, max_length=20)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnicodeText("9"), "max_length must be an integer of at least 0, got '9'"),
        (lambda: UnicodeText(True), "got True"),
        (lambda: UnicodeText(-1), "got -1"),
        (lambda: UnicodeText(2, min_length=3), r"min_length must be at most max_length \(2\), got 3"),
        (lambda: UnicodeText(2, charset=""), "an empty one"),
        (lambda: UnicodeText(2, charset=["ab"]), "single characters, got 'ab'"),
        (lambda: ChatMessages(max_messages=0), "max_messages must be an integer of at least 1, got 0"),
        (lambda: UnicodeText(3).sample(mask=1), "leave both out"),
    ],
)
def test_bad_arguments_are_answered_with_expected_and_actual(make, message):
    with pytest.raises(UsageError, match=message):
        make()
