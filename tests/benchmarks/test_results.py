"""Results of runs: figures and intervals by hand, comparisons, exports, and what is refused."""

import csv
import json

import numpy as np
import pytest
from toolcredit.benchmarks.comparison import compare, compare_runs
from toolcredit.benchmarks.exports import export_run, markdown
from toolcredit.benchmarks.intervals import aggregate_intervals, mean_with_interval
from toolcredit.benchmarks.players import ObjectPlayer
from toolcredit.benchmarks.results import load_result, summarise
from toolcredit.benchmarks.runner import run_suite
from toolcredit.benchmarks.stats import bootstrap_mean, mcnemar, wilson
from toolcredit.benchmarks.suite import Attempt, Score, SuiteTask
from toolcredit.errors import RunError, UnknownNameError, UsageError


def attempts(verdicts, trials=1, category="c"):
    """One task per entry; an entry is True, False, or None for a failed attempt; a tuple of them for trials."""
    made = []
    for i, entry in enumerate(verdicts):
        for trial, verdict in enumerate(entry if isinstance(entry, tuple) else (entry,)):
            task = SuiteTask(f"{category}{i}", category, {})
            if verdict is None:
                made.append(Attempt(task, trial, "failed", error="down"))
            else:
                score = Score(verdict, {"part": 0.5 + verdict / 2, "unscored": None})
                made.append(Attempt(task, trial, "completed", score))
    return made


@pytest.fixture
def played(toy_suite, tmp_path):
    """`played(name, **settings)` plays a run of sums through the import path of the suite and gives its folder."""

    def play(name, options=None, trials=1, **agent):
        options = options or {}
        config = {"suite": "toolcredit_fakes_toy_suite:Sums", "options": options, "agent": name}
        player = ObjectPlayer(name, toy_suite.Adder(**agent))
        run_suite(toy_suite.Sums(**options), player, tmp_path / name, config=config, trials=trials)
        return tmp_path / name

    return play


# ---------------------------------------------------------------------------------------------------------- figures


def test_a_rate_over_single_trials_has_wilsons_interval():
    assert mean_with_interval([1, 1, 0, 0], list("abcd")) == {"mean": 0.5, "ci": list(wilson(2, 4)), "n": 4}


def test_trials_of_a_task_are_resampled_together():
    values, tasks = [1, 1, 1, 0, 0, 0], ["a", "a", "a", "b", "b", "b"]
    found = mean_with_interval(values, tasks)
    expected = bootstrap_mean(values, tasks, draws=2_000)
    assert found == {"mean": 0.5, "ci": [expected.low, expected.high], "n": 6}
    assert found["ci"] == [0.0, 1.0]  # two tasks are two observations, not six
    assert mean_with_interval([1, 1, 1, 1], list("aabb")) == {"mean": 1.0, "ci": None, "n": 4}  # not: certainly 1


def test_what_is_not_completed_counts_in_every_figure(toy_suite):
    result = summarise(attempts([True, False, None, None]), toy_suite.Sums())
    part = result["categories"]["c"]
    assert (part["n"], part["score"], part["ci"]) == (4, 0.25, list(wilson(1, 4)))
    assert part["metrics"]["part"]["mean"] == (1.0 + 0.5 + 0 + 0) / 4
    assert part["metrics"]["part"]["n"] == 4
    assert "unscored" not in part["metrics"]
    assert (result["completed"], result["failed"], len(result["failures"])) == (2, 2, 2)


def test_aggregates_have_intervals_from_tasks_drawn_within_categories(toy_suite):
    suite = toy_suite.Sums()
    sure = attempts([True] * 30, category="sure")
    mixed = attempts([True, False] * 15, category="mixed")
    result = summarise([*sure, *mixed], suite)
    assert result["aggregates"] == {"per_task": 0.75, "never": None, "micro": 0.75}
    low, high = result["aggregate_ci"]["per_task"]
    # only the mixed category varies: half of a rate over 30 tasks
    assert low == pytest.approx(0.75 - 0.5 * 1.96 * np.sqrt(0.25 / 30), abs=0.03)
    assert high == pytest.approx(0.75 + 0.5 * 1.96 * np.sqrt(0.25 / 30), abs=0.03)
    assert result["aggregate_ci"]["never"] is None
    assert result["aggregate_ci"]["micro"] == list(wilson(45, 60))
    alike = summarise(sure, suite)["aggregate_ci"]
    assert alike == {"per_task": None, "never": None, "micro": list(wilson(30, 30))}


def test_a_task_that_is_drawn_twice_is_two_tasks(toy_suite):
    """`per_task` divides by the number of different ids: it would exceed 1 if copies were taken for trials."""
    _, high = aggregate_intervals([attempts([True] * 9 + [False])], toy_suite.Sums())["per_task"]
    assert high == 1.0


def test_one_task_tells_nothing_of_spread(toy_suite):
    assert aggregate_intervals([attempts([(True, False)])], toy_suite.Sums())["micro"] is None


def test_the_result_of_an_unfinished_run(played, toy_suite):
    folder = played("run", wrong=4)
    (folder / "result.json").unlink()
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines[:12]))
    result = load_result(folder)
    assert (result["n"], result["completed"], result["unresolved"]) == (20, 12, 8)
    assert result["failures"][0]["error"] == "not played yet"


@pytest.mark.parametrize("content", [None, '{"agent": "fgpo", "config": {}}', "{", "[]"])
def test_what_is_no_benchmark_run_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunError):
        load_result(tmp_path)


# ------------------------------------------------------------------------------------------------------- comparison


def test_a_comparison_is_paired(played):
    found = compare(played("one", wrong=5), played("two", wrong=2, fails=(5,)))
    one = np.array([i % 5 != 0 for i in range(20)])
    two = np.array([i % 2 != 0 and i != 5 for i in range(20)])
    overall = found["overall"]
    assert (overall["first"], overall["second"]) == (one.mean(), two.mean())
    test = mcnemar(one, two)
    assert (overall["first_only"], overall["second_only"], overall["p_value"]) == tuple(test)
    expected = bootstrap_mean(one.astype(float) - two, draws=2_000)
    assert (overall["difference"], *overall["ci"]) == pytest.approx(tuple(expected))
    assert found["categories"]["even"]["n"] == 10
    differing = {attempt["task"] for attempt in found["attempts"]}
    assert differing == {f"sum-{i}" for i in range(20) if one[i] != two[i]}
    micro = found["aggregates"]["micro"]
    assert micro["difference"] == pytest.approx(overall["difference"])
    assert micro["ci"][0] <= micro["difference"] <= micro["ci"][1]
    assert found["aggregates"]["never"]["difference"] is None
    assert found["changes"] == []


def test_the_difference_of_a_run_to_itself_is_zero_without_an_interval(played):
    found = compare(played("one", wrong=5), played("again", wrong=5))
    assert (
        found["overall"]["difference"] == 0.0 and found["overall"]["ci"] is None and found["overall"]["p_value"] == 1.0
    )
    assert found["aggregates"]["micro"]["ci"] is None and found["attempts"] == []


def test_trials_are_no_independent_pairs(played):
    found = compare(played("one", trials=2, wrong=3), played("two", trials=2))
    assert found["n"] == 40 and found["overall"]["p_value"] is None


def test_only_common_tasks_are_compared_and_changes_are_told(played):
    found = compare(played("one"), played("two", options={"n": 12}))
    assert (found["n"], found["left_out"]) == (12, 8)
    assert found["changes"] == ["n: 20 / 12"]


def test_several_runs_are_compared_in_pairs(played):
    runs = [played("a"), played("b", wrong=2), played("c", wrong=3)]
    assert [(f["first"]["agent"], f["second"]["agent"]) for f in compare_runs(runs)] == [
        ("a", "b"), ("a", "c"), ("b", "c"),
    ]  # fmt: skip


def test_runs_that_cannot_be_compared_are_refused(played):
    folder = played("one")
    with pytest.raises(UsageError, match="two runs"):
        compare_runs([folder])
    config = json.loads((folder / "config.json").read_text())
    other = played("two")
    (other / "config.json").write_text(json.dumps({**config, "suite": "toucan"}))
    with pytest.raises(UsageError, match="toucan"):
        compare(folder, other)


# ---------------------------------------------------------------------------------------------------------- exports


def test_exports_hold_every_attempt(played, tmp_path):
    folder = played("run", options={"broken": 3}, wrong=4)
    (path,) = export_run(folder, "json", tmp_path / "out")
    whole = json.loads(path.read_text())
    assert len(whole["attempts"]) == 20 and whole["n"] == 20
    (path,) = export_run(folder, "csv", tmp_path / "out")
    rows = list(csv.DictReader(path.open()))
    assert len(rows) == 20 and sum(int(row["success"]) for row in rows) == 14
    assert {row["state"] for row in rows} == {"completed", "unresolved"}
    (path,) = export_run(folder, "markdown", tmp_path / "out")
    text = path.read_text()
    assert "| even | 10 |" in text and "| micro | 0.7000 |" in text
    (path,) = export_run(folder, "sums", tmp_path / "out")
    assert len(path.read_text().splitlines()) == 19


def test_an_unknown_format_is_refused_with_the_known_ones(played, tmp_path):
    with pytest.raises(UnknownNameError, match="sums"):
        export_run(played("run"), "xlsx", tmp_path / "out")


def test_tables_escape_what_would_break_them(toy_suite):
    result = summarise(attempts([True], category="a|b"), toy_suite.Sums())
    text = markdown({**result, "suite": "s", "agent": "a", "references": {}, "versions": {}})
    assert "| a\\|b | 1 |" in text


def test_spreadsheets_get_no_formulas(played, toy_suite, tmp_path):
    folder = played("run", fails=(2,))
    lines = [json.loads(line) for line in (folder / "failures.jsonl").read_text().splitlines()]
    lines[0]["error"] = "=HYPERLINK(1)"
    (folder / "failures.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path,) = export_run(folder, "csv", tmp_path / "out")
    assert "'=HYPERLINK(1)" in path.read_text()
