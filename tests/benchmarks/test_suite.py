"""The parts of the suite protocol: selections, the context of an attempt, the registry."""

import importlib.metadata
import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.benchmarks import registry
from toolcredit.benchmarks.registry import make_suite, suite_class, suite_names, suite_options
from toolcredit.benchmarks.suite import Attempt, DeadlineError, Score, Selection, SuiteTask, TaskContext
from toolcredit.errors import ConfigError, UnknownNameError, UsageError

TASKS = [SuiteTask(f"{category}{i}", category, {}) for category, n in (("a", 5), ("b", 2), ("c", 1)) for i in range(n)]


def picked(**selection):
    return [task.id for task in Selection(**selection).pick(TASKS)]


def test_a_limit_takes_tasks_in_turn_from_the_categories_and_keeps_their_order():
    assert picked(limit=4) == ["a0", "a1", "b0", "c0"]
    assert picked(limit=7) == ["a0", "a1", "a2", "a3", "b0", "b1", "c0"]
    assert picked(limit=100) == picked()


@given(st.integers(1, 10))
def test_a_larger_limit_keeps_what_a_smaller_one_took(limit):
    assert set(picked(limit=limit)) <= set(picked(limit=limit + 1))


def test_categories_and_ids_are_both_kept_to():
    assert picked(categories=("b", "c")) == ["b0", "b1", "c0"]
    assert picked(ids=("b1", "a3")) == ["a3", "b1"]
    assert picked(categories=("a",), ids=("b1", "a3")) == ["a3"]


@pytest.mark.parametrize(
    ("selection", "error", "named"),
    [
        ({"categories": ("aa",)}, UnknownNameError, "aa"),
        ({"ids": ("a9",)}, UnknownNameError, "a9"),
        ({"categories": ("a",), "ids": ("b1",)}, UsageError, "no task is left"),
    ],
)
def test_a_selection_of_nothing_is_refused(selection, error, named):
    with pytest.raises(error, match=named):
        picked(**selection)


def test_an_unknown_category_is_told_those_that_there_are_by_suites_that_read_only_the_wanted_ones(toy_suite):
    class Lazy(toy_suite.Sums):
        def tasks(self, selection):
            return [task for task in super().tasks(selection) if selection.wants(task.category)]

    assert len(Lazy().pick(Selection(("small",)))) == 10
    for wanted in (("eve",), ("odd", "eve")):
        with pytest.raises(UnknownNameError, match="'eve': did you mean 'even'.*known: even, odd, small"):
            Lazy().pick(Selection(wanted))


def test_an_unknown_id_among_thousands_is_told_in_a_line_that_can_be_read():
    with pytest.raises(UnknownNameError, match="did you mean 'a10'") as told:
        Selection(ids=("a10x",)).pick([SuiteTask(f"a{i}", "a", {}) for i in range(5000)])
    assert len(str(told.value)) < 1000 and str(told.value).endswith("and 4940 more")


def test_ids_must_be_unique():
    with pytest.raises(UsageError, match="'a0'"):
        Selection().pick([*TASKS, TASKS[0]])


def test_what_is_not_completed_counts_as_zero():
    task = TASKS[0]
    assert Attempt(task, 0, "failed").success is False
    assert Attempt(task, 0, "unresolved").metric("x") == 0.0
    scored = Attempt(task, 0, "completed", Score(True, {"x": 0.5, "y": None}))
    assert (scored.success, scored.metric("x"), scored.metric("y")) == (True, 0.5, None)


def test_usage_is_booked_from_any_thread_and_a_snapshot_stays_as_it_was():
    context = TaskContext()
    context.spend("m", 1, 2)
    snapshot = dict(context.usage)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: context.spend("m", 1, 2), range(200)))
    assert context.usage == {"m": {"calls": 201, "prompt_tokens": 201, "completion_tokens": 402}}
    assert snapshot == {"m": {"calls": 1, "prompt_tokens": 1, "completion_tokens": 2}}


def test_remaining_tells_the_deadline():
    assert TaskContext().remaining() == math.inf
    assert 4 < TaskContext(deadline=time.monotonic() + 5).remaining() <= 5
    with pytest.raises(DeadlineError):
        TaskContext(deadline=time.monotonic()).remaining()


def test_suites_are_found_by_name_by_import_path_and_by_entry_point(monkeypatch):
    assert {"genomeqa", "toucan", "bfcl", "tau2"} <= set(suite_names())
    assert suite_class("toucan") is suite_class("toolcredit.benchmarks.toucan:Toucan")
    point = importlib.metadata.EntryPoint("mine", "toolcredit.benchmarks.toucan:Toucan", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: [point])
    assert "mine" in suite_names()
    assert suite_class("mine").name == "toucan"


@pytest.mark.parametrize("name", ["tucan", "no.such.module:Class", "toolcredit.errors:UsageError"])
def test_what_is_no_suite_is_refused(name):
    with pytest.raises(UsageError):
        suite_class(name)


def test_options_are_the_arguments_of_the_class():
    assert {"tasks", "split", "mock"} <= set(suite_options("toucan"))
    with pytest.raises(UnknownNameError, match="'split'"):
        make_suite("toucan", {"spilt": "dev"})


@pytest.mark.parametrize(
    ("suite", "option", "value", "expected"),
    [
        ("toucan", "max_turns", "ten", "int"),
        ("toucan", "tasks", 3, "str"),
        ("genomeqa", "bases", 1.5, "int | None"),
        ("genomeqa", "parsimony", "little", "float"),
        ("bfcl", "mode", ["fc"], "str"),
        ("tau2", "max_steps", "abc", "int"),
        ("tau2", "max_errors", True, "int"),
        ("tau2", "solo", "perhaps", "bool"),
    ],
)
def test_options_of_another_type_are_refused_before_anything_is_read(suite, option, value, expected):
    with pytest.raises(ConfigError) as caught:
        make_suite(suite, {option: value})
    assert str(caught.value) == f"{option}={value!r}: expected {expected}"


def test_an_option_whose_type_is_declared_by_nobody_goes_through(toy_suite, monkeypatch):
    class Open(toy_suite.Sums):
        def __init__(self, anything=None, unknown: "NoSuchType" = None):  # noqa: F821
            super().__init__()
            self.anything = anything

    monkeypatch.setattr("toolcredit_fakes_toy_suite.Open", Open, raising=False)
    assert make_suite("toolcredit_fakes_toy_suite:Open", {"anything": {1}, "unknown": 2}).anything == {1}
