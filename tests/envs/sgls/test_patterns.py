import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toolcredit.envs.sgls.patterns import LinearPattern, PatternError

ATOMS = st.sampled_from(
    ["a", "b", "0", ".", r"\d", r"\w", r"\s", r"\D", r"\W", "[ab]", "[^a]", "[0-9a-f_]", r"[^\d\s]", r"\.", "é", r"\b",
     r"\B", "^", "$", "", "(?:)"]
)  # fmt: skip
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}", "{,2}"])),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text(alphabet="ab01_. \né", max_size=12))
def test_verdicts_equal_those_of_re_with_json_schemas_dialect(pattern, text):
    assume(text or r"\B" not in pattern)  # before Python 3.14 \B did not match the empty text
    same = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    assert LinearPattern(pattern).search(text) == bool(same.search(text))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(a+)+$", "a" * 5000 + "!"),
        (r"^(a|a)*$", "a" * 5000 + "!"),
        (r"^(a|ab|b)*$", "ab" * 2500 + "!"),
        (r"(.*,){20}x", "," * 5000),
        (r"a*a*a*a*a*a*b", "a" * 5000),
        (r"^(\w+\s?)*$", "word " * 1000 + "!"),
        (r"([a-z]+)*@", "a" * 5000),
    ],
)
def test_catastrophic_patterns_are_matched_in_linear_time(pattern, text):
    compiled = LinearPattern(pattern)
    start = time.process_time()
    assert not compiled.search(text)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "groupref"),
        ("(?=a)b", "assert"),
        ("(?<!a)b", "assert"),
        ("(?i)a", "inline flags"),
        ("((a{1,100}){1,100}){1,100}", "too large"),
        ("x{1,99999}", "too large"),
        ("(", "no regular expression"),
        ("(" * 900, "no regular expression"),
        ("a" * 3000, "3,000 characters"),
        (r"\p{L}", "no regular expression"),
    ],
)
def test_what_cannot_be_matched_in_linear_time_is_refused(pattern, reason):
    with pytest.raises(PatternError, match=reason):
        LinearPattern(pattern)


def test_the_end_is_the_very_end():
    assert LinearPattern(r"^\d{4}$").search("2024")
    assert not LinearPattern(r"^\d{4}$").search("2024\n")
    assert not LinearPattern(r"^\d$").search("٣")


def test_effort_is_reported_while_searching():
    spent = []
    LinearPattern("x$").search("a" * 10_000, spent.append)
    assert 1_000 < sum(spent) < 2_000


def test_what_is_remembered_is_bounded():
    compiled = LinearPattern("[^x]{1,300}x{3}")
    for start in range(0x100, 0x5000, 64):
        compiled.search("".join(map(chr, range(start, start + 64))))
    assert compiled._remembered < 10_000
    assert compiled.search("abxxx")
