import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.envs.sgls.json_strict import (
    MAX_DEPTH,
    MAX_DIGITS,
    StrictJsonError,
    canonical,
    cut_middle,
    digest,
    load_prefix,
    loads,
    shorten,
    without_surrogates,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**80), 10**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_every_json_value_is_read_as_the_standard_parser_reads_it(value):
    text = json.dumps(value)
    assert loads(text) == json.loads(text)
    assert loads(f" \n{json.dumps(value, ensure_ascii=False)}\t") == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("[1e999]", "out of range"),
        ("-1e400", "out of range"),
        ('{"a": 1, "b": 2, "a": 1}', 'key "a" occurs twice'),
        ('{"x": {"k": 1, "k": 2}}', 'key "k" occurs twice'),
        ("9" * 5000, f"more than {MAX_DIGITS} digits"),
        ("-" + "9" * (MAX_DIGITS + 1), f"more than {MAX_DIGITS} digits"),
        ("[" * 1000 + "]" * 1000, f"deeper than {MAX_DEPTH}"),
        ("[" * 100_000, f"deeper than {MAX_DEPTH}"),
        ('{"a":' * 5000, f"deeper than {MAX_DEPTH}"),
        (r'"\ud800"', "half of a surrogate pair"),
        (r'{"\udc00": 1}', "half of a surrogate pair"),
        ('"\ud800"', "half of a surrogate pair"),
        ("{} {}", "extra text after the JSON value at character 3"),
        ("", "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('"line\nbreak"', "not JSON: invalid control character"),
        ("x" * 300_000, "300,000 characters"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_the_reason(text, reason):
    with pytest.raises(StrictJsonError, match=reason):
        loads(text)


def test_limits_are_exact():
    assert loads("9" * MAX_DIGITS) == int("9" * MAX_DIGITS)
    assert loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(StrictJsonError):
        loads("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    float(loads("9" * MAX_DIGITS))  # never overflows in arithmetic with floats


def test_brackets_in_strings_are_no_nesting():
    text = json.dumps(["[" * 5000 + '"' + "{\\" * 3000])
    assert loads(text) == json.loads(text)
    assert loads(r'"\ud83d\ude00"') == "😀"


@given(st.text(alphabet='[]{}",:\\ \n01eE.-tfn\ud800a', max_size=60))
def test_no_text_raises_anything_else(text):
    try:
        value = loads(text)
    except StrictJsonError as error:
        assert str(error)
    else:
        assert value == json.loads(text)


@pytest.mark.parametrize(
    "text", ['{"a":"' + '\\"' * 100_000, '["' + "[" * 200_000, '"\\' * 100_000, "[" + '""' * 99_000]
)
def test_hostile_texts_are_refused_in_linear_time(text):
    start = time.process_time()
    with pytest.raises(StrictJsonError):
        loads(text)
    assert time.process_time() - start < 2


def test_prefix_tells_where_the_text_goes_on():
    text = 'call: {"a": [1, 2]}  rest'
    value, end = load_prefix(text, 5)
    assert value == {"a": [1, 2]}
    assert text[end:] == "rest"


@given(JSON)
def test_canonical_text_decodes_to_an_equal_value_and_ignores_key_order(value):
    assert json.loads(canonical(value)) == value
    if isinstance(value, dict):
        assert canonical(dict(reversed(value.items()))) == canonical(value)


def test_equal_numbers_have_one_canonical_form():
    assert canonical({"b": 2.0, "a": [1.5, True]}) == '{"a":[1.5,true],"b":2}'
    assert digest([2.0]) == digest([2])
    assert digest([True]) != digest([1])
    assert digest(["é"]) == digest(["\u00e9"])


@pytest.mark.parametrize("value", [math.nan, math.inf, {1: 2}, {"a": object()}, b"x"])
def test_canonical_refuses_what_is_not_json(value):
    with pytest.raises(StrictJsonError):
        canonical(value)


def test_canonical_refuses_endless_values():
    value: list = []
    value.append(value)
    with pytest.raises(StrictJsonError, match="deeper"):
        canonical(value)


@given(st.text(max_size=300), st.integers(16, 200))
def test_cutting_keeps_both_ends_and_the_limit(text, limit):
    cut = cut_middle(text, limit)
    assert len(cut) <= limit
    if len(text) <= limit:
        assert cut == text
    else:
        assert cut[0] == text[0] and cut[-1] == text[-1] and "…" in cut


def test_shorten_is_short_for_anything():
    for value in (
        "x" * 10**6,
        list(range(10**5)),
        {str(i): i for i in range(10**4)},
        math.nan,
        object(),
        [["a" * 999]],
    ):
        assert len(shorten(value, 60)) <= 60


def test_lone_surrogates_become_replacement_characters():
    assert without_surrogates("a\ud800b😀") == "a\ufffdb😀"
