"""The guard of `calculate`: what would never end is refused, everything else is left to the tool."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toolcredit.benchmarks.tau2.arithmetic import MAX_CHARS, check_expression

BOMBS = [
    "9**9**9",
    "9**9**9**9",
    "(9**9)**(9**9)",
    "-9**9**9",
    "2**(3*10**8)",
    "(99999999*99999999)**99999999",
    "0 + (1 + 7**(7**(7**7))) * 2",
    "9 ** -(9**9)",
    "9**9**9 / 0",
    "1.5 + 9**9**9",
]


@pytest.mark.parametrize("expression", BOMBS)
def test_what_would_never_end_is_refused_at_once(expression):
    begin = time.process_time()
    with pytest.raises(ValueError, match="too large"):
        check_expression(expression)
    assert time.process_time() - begin < 0.5


def test_a_text_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="too long"):
        check_expression("1+" * MAX_CHARS + "1")


@pytest.mark.parametrize(
    "expression",
    ["2 + 2", "(450.5 - 3*120) / 2", "1.05**12", "2**10", "9**9", "10**300", "7//2", "-3", "+3", " 1 ", "9.0**9.0"],
)
def test_sums_that_a_customer_asks_for_pass(expression):
    check_expression(expression)
    eval(expression.strip(), {"__builtins__": None}, {})  # noqa: S307 - the test's own text: it ends


@pytest.mark.parametrize(
    "expression", ["", "1/0", "(1", "9.0**999", "1..2", "()", "(" * 300, "(-8)**0.5 * 1 // 1", "1 2"]
)
def test_what_fails_by_itself_is_left_to_the_tool(expression):
    check_expression(expression)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=300, deadline=None)
@given(st.text("0123456789+-*/(). ", max_size=60))
def test_whatever_passes_is_evaluated_in_no_time(expression):
    try:
        check_expression(expression)
    except ValueError:
        return
    begin = time.process_time()
    with contextlib.suppress(Exception):
        eval(expression.strip(), {"__builtins__": None}, {})  # noqa: S307
    assert time.process_time() - begin < 0.5
