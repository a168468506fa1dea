"""docs/estimators.md says what the code computes."""

import re
from pathlib import Path

import pytest
from toolcredit.agents.estimators import ESTIMATORS, estimator
from toolcredit.agents.exact.table import tables, trap_table, variance_table

DOC = (Path(__file__).resolve().parents[2] / "docs" / "estimators.md").read_text("utf-8")


@pytest.mark.slow
def test_the_tables_are_those_that_the_command_prints():
    printed = tables()
    assert printed in DOC
    assert printed.count("\n| ") > 40


def test_the_quick_tables_are_those_of_the_document():
    assert trap_table(4) in DOC
    assert variance_table((3,)).splitlines()[-1] in DOC


def test_every_estimator_stands_in_the_document():
    listed = re.findall(r"^\| `(\w+)` \|[^|]+\|[^|]*\| [\d. ]*\|$", DOC, re.M)
    assert sorted(listed) == sorted(ESTIMATORS)


def test_every_field_that_an_estimator_needs_is_mentioned():
    words = {"segment": "segments", "anchors": "anchors", "values": "values", "choices": "choice points"}
    for name in ESTIMATORS:
        row = next(line for line in DOC.splitlines() if line.startswith(f"| `{name}` |"))
        for need in estimator(name).needs & set(words):
            assert words[need] in row, (name, need)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", DOC, re.S), ids=lambda code: code[:20])
def test_the_examples_run(code):
    exec(compile(code, "docs/estimators.md", "exec"), {"__name__": "example"})
