"""Shared databases behave like copies, cost nothing to make, and are equal exactly where copies are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from toolcredit.benchmarks.tau2.shared import Shared, digest, is_shared, share


class Entry(BaseModel):
    value: int
    tags: list[str] = []


class Database(BaseModel):
    things: dict[str, Entry]
    others: dict[str, Entry]


@pytest.fixture
def origin() -> Database:
    return Database(things={k: Entry(value=i) for i, k in enumerate("abc")}, others={"x": Entry(value=9)})


def test_changes_stay_in_the_copy(origin):
    before, one, two = origin.model_dump(), share(origin), share(origin)
    one.things["a"].tags.append("changed")
    one.things["d"] = Entry(value=4)
    one.others.get("x").value = 10
    del one.things["b"]
    assert origin.model_dump() == two.model_dump() == before
    assert one.model_dump() == {
        "things": {
            "a": {"value": 0, "tags": ["changed"]},
            "c": {"value": 2, "tags": []},
            "d": {"value": 4, "tags": []},
        },
        "others": {"x": {"value": 10, "tags": []}},
    }


def test_iterating_sees_changes_and_new_entries(origin):
    copy = share(origin)
    copy.things["a"].value = 7
    copy.things["d"] = Entry(value=8)
    assert [entry.value for entry in copy.things.values()] == [7, 1, 2, 8]
    assert {key: entry.value for key, entry in copy.things.items()} == {"a": 7, "b": 1, "c": 2, "d": 8}


def test_an_entry_is_copied_once(origin):
    copy = share(origin)
    assert copy.things["a"] is copy.things["a"] is copy.things.get("a")
    assert copy.things["a"] is not origin.things["a"]


def test_missing_keys_behave_as_in_a_dict(origin):
    copy = share(origin)
    assert copy.things.get("?") is None and copy.things.get("?", 3) == 3 and "?" not in copy.things
    with pytest.raises(KeyError):
        copy.things["?"]


def test_only_what_share_made_counts_as_shared(origin):
    assert is_shared(share(origin)) and not is_shared(origin)
    replaced = Database.model_validate(share(origin).model_dump())
    assert not is_shared(replaced)


operations = st.lists(
    st.tuples(st.sampled_from(["look", "set", "undo", "add", "delete"]), st.sampled_from("abcd"), st.integers(0, 2)),
    max_size=8,
)


def _apply(database: Database, steps: list[tuple[str, str, int]]) -> None:
    for step, key, value in steps:
        if step == "add":
            database.things[key] = Entry(value=value)
        elif key in database.things:
            if step == "delete":
                del database.things[key]
            elif step == "look":
                assert database.things[key].value is not None
            else:
                database.things[key].value = value if step == "set" else "abcd".index(key)


@given(operations, operations)
def test_digests_are_equal_exactly_where_contents_are(first, second):
    whole = Database(things={k: Entry(value=i) for i, k in enumerate("abc")}, others={})
    copies = share(whole), share(whole)
    for copy, steps in zip(copies, (first, second), strict=True):
        _apply(copy, steps)
    contents = [json.dumps(copy.model_dump(), sort_keys=True) for copy in copies]
    assert (digest(copies[0]) == digest(copies[1])) == (contents[0] == contents[1])
    assert isinstance(whole.things, dict) and not isinstance(whole.things, Shared)
    assert whole.model_dump() == {"things": {k: {"value": i, "tags": []} for i, k in enumerate("abc")}, "others": {}}
