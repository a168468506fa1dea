"""The suite: played by its references, scored with and without the official package, exported and read back."""

import json
import time
from collections import Counter

import pytest
from toolcredit.benchmarks.bfcl.categories import VERSIONS
from toolcredit.benchmarks.bfcl.result_files import read_results
from toolcredit.benchmarks.bfcl.suite import BFCL, disagreements
from toolcredit.benchmarks.registry import make_suite
from toolcredit.benchmarks.runner import ReferencePlayer, run_suite
from toolcredit.benchmarks.suite import Attempt, DeadlineError, Outcome, Selection, TaskContext
from toolcredit.errors import AssetError, RunError, TaskError, UnknownNameError

SINGLE = ("simple_python", "multiple", "parallel", "irrelevance", "live_relevance")


def play(suite, reference="gold", categories=None):
    selection = Selection(categories=categories)
    attempts = []
    for task in selection.pick(suite.tasks(selection)):
        context = TaskContext()
        outcome = suite.run(task, suite.reference(reference, task, context), context)
        outcome = Outcome(**json.loads(json.dumps({"output": outcome.output, "transcript": list(outcome.transcript)})))
        attempts.append(Attempt(task, 0, "completed", suite.score(task, outcome), outcome=outcome))
    return attempts


def rights(attempts):
    return Counter(attempt.task.category for attempt in attempts if attempt.success)


@pytest.mark.parametrize("mode", ["fc", "prompting"])
def test_gold_is_right_and_doing_nothing_where_nothing_fits(package, mode):
    suite = make_suite("bfcl", {"source": str(package), "mode": mode})
    assert rights(play(suite)) == dict.fromkeys(SINGLE, 2) | {"multi_turn_miss_func": 1}
    assert rights(play(suite, "nothing")) == {"irrelevance": 2}
    assert rights(play(suite, "random"))["live_relevance"] == 2


def test_the_official_verdict_counts_and_disagreements_are_listed(package):
    """The hand-written checker compares names only."""
    suite = BFCL(source=str(package))
    assert suite.scorer == "both"
    (task, *_) = suite.tasks(Selection(categories=("simple_python",)))
    function = {"name": "weather_get", "arguments": '{"city": "Paris"}'}
    outcome = Outcome({"message": {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}})
    score = suite.score(task, outcome)
    assert score.success and score.metrics == {"official": 1, "own": 0, "agree": 0, "malformed": 0}
    (listed,) = disagreements([Attempt(task, 0, "completed", score), Attempt(task, 1, "failed")])
    assert listed["official"] and not listed["own"]
    assert listed["reasons"]["own"]["error"] == "wrong_value"
    assert not BFCL(source=str(package), scorer="own").score(task, outcome).success
    assert BFCL(source=str(package), scorer="official").score(task, outcome).metrics == {"official": 1, "malformed": 0}


def test_broken_calls_are_counted_apart(package):
    suite = BFCL(source=str(package))
    (task, *_) = suite.tasks(Selection(categories=("irrelevance",)))
    function = {"name": "clock_time", "arguments": "{bad"}
    score = suite.score(task, Outcome({"message": {"role": "assistant", "tool_calls": [{"function": function}]}}))
    assert score.success and score.metrics == {"official": 1, "own": 0, "agree": 0, "malformed": 1}


def test_data_alone_are_scored_by_our_own_scorer(folder):
    suite = BFCL(source=str(folder))
    assert suite.scorer == "own" and suite.identity["checkers"] is None
    assert rights(play(suite, categories=SINGLE)) == dict.fromkeys(SINGLE, 2)
    with pytest.raises(AssetError, match="holds data only"):
        suite.tasks(Selection())
    with pytest.raises(AssetError, match="holds data only"):
        BFCL(source=str(folder), scorer="both")


def test_options_are_checked(folder):
    for options in ({"mode": "chat"}, {"scorer": "mine"}, {"version": "v2"}):
        with pytest.raises(UnknownNameError):
            BFCL(source=str(folder), **options)


def test_the_identity_tells_what_scores_depend_on(package, folder):
    identity = BFCL(source=str(package)).identity
    assert json.loads(json.dumps(identity)) == identity
    assert {len(identity[name]) for name in ("data", "checkers", "prompt")} == {64}
    assert BFCL(source=str(package), mode="prompting").identity != identity
    assert BFCL(source=str(folder)).identity["data"] == identity["data"]


def test_a_forced_stop_is_wrong(package):
    suite = BFCL(source=str(package))
    (task,) = suite.tasks(Selection(categories=("multi_turn_miss_func",)))
    gold = suite.run(task, suite.reference("gold", task, TaskContext()), TaskContext())
    assert suite.score(task, gold).success
    stopped = suite.score(task, Outcome({**gold.output, "forced_stop": True}))
    assert not stopped.success and stopped.detail["own"]["error"] == "forced_stop"


def test_the_deadline_is_looked_at_in_every_step(package):
    suite = BFCL(source=str(package))
    for task in suite.tasks(Selection()):
        with pytest.raises(DeadlineError):
            suite.run(task, suite.reference("gold", task, TaskContext()), TaskContext(deadline=time.monotonic() - 1))


def test_a_run_with_its_floor_and_ceiling(package, tmp_path):
    suite = BFCL(source=str(package))
    result = run_suite(suite, ReferencePlayer(suite, "random"), tmp_path / "run", workers=2)
    assert result["n"] == 11 and result["completed"] == 11
    assert result["references"]["gold"]["categories"] == dict.fromkeys([*SINGLE, "multi_turn_miss_func"], 1.0)
    assert result["references"]["nothing"]["aggregates"]["micro"] == pytest.approx(2 / 11)
    assert result["aggregates"]["v3_overall"] is not None and result["aggregates"]["multi_turn"] is None


def test_groups_name_categories_that_exist(package):
    suite = BFCL(source=str(package))
    names = set(VERSIONS["v4"].categories)
    assert set(suite.groups["single_turn"]) | set(suite.groups["multi_turn"]) == names
    assert set(suite.groups["non_live"]) | set(suite.groups["live"]) == set(suite.groups["single_turn"])


# --------------------------------------------------------------------------------------------------- result files


@pytest.mark.parametrize("mode", ["fc", "prompting"])
def test_result_files_round_trip(package, tmp_path, mode):
    suite = BFCL(source=str(package), mode=mode)
    attempts = play(suite)
    files = suite.export("bfcl", attempts, tmp_path)
    model = "toolcredit-FC" if mode == "fc" else "toolcredit"
    assert tmp_path / "result" / model / "non_live" / "BFCL_v4_simple_python_result.json" in files
    assert tmp_path / "result" / model / "multi_turn" / "BFCL_v4_multi_turn_miss_func_result.json" in files
    again = suite.score_results(tmp_path / "result" / model)
    assert {a.task.id: a.score for a in again} == {a.task.id: a.score for a in attempts}


def test_the_form_of_result_files(package, tmp_path):
    suite = BFCL(source=str(package))
    attempts = play(suite)
    attempts = [Attempt(a.task, 0, "failed") if a.task.id == "parallel_1" else a for a in attempts]
    suite.export("bfcl", attempts, tmp_path)

    def lines(name):
        (file,) = tmp_path.rglob(f"BFCL_v4_{name}_result.json")
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()]

    first = lines("simple_python")[0]
    assert first["id"] == "simple_python_0" and list(first["result"][0]) == ["weather_get"]
    assert json.loads(first["result"][0]["weather_get"]) == {"city": "Rome", "days": 3, "units": "C"}
    assert lines("irrelevance")[0]["result"] == "None of the functions can be used."
    assert lines("parallel")[1] == {"id": "parallel_1", "result": "Error during inference: no answer"}
    assert lines("multi_turn_miss_func")[0]["result"] == [
        ["Done."],
        [[{"touch": '{"file_name": "a.txt"}'}], "Done."],
        [[{"ls": "{}"}], "Done."],
    ]


def test_v3_result_files_lie_in_one_folder(bfcl_files, tmp_path):
    bfcl_files.write_folder(tmp_path / "data", "v3")
    (tmp_path / "data" / "BFCL_v3_simple_python.json").unlink()
    suite = BFCL(source=str(tmp_path / "data"))
    files = suite.export("bfcl", play(suite, categories=("multiple",)), tmp_path)
    assert files == [tmp_path / "result" / "toolcredit-FC" / "BFCL_v3_multiple_result.json"]


def test_result_files_that_cannot_be_used(bfcl_files, tmp_path):
    with pytest.raises(TaskError, match="holds no result files"):
        read_results(tmp_path, VERSIONS["v4"])
    file = tmp_path / "BFCL_v4_multiple_result.json"
    for record, problem in (
        ({"id": "multiple_0"}, "no 'id' and 'result'"),
        ({"id": "unknown_0", "result": ""}, "BFCL v4 category"),
    ):
        bfcl_files.write_lines(file, [record])
        with pytest.raises((TaskError, UnknownNameError), match=problem):
            read_results(tmp_path, VERSIONS["v4"])
    bfcl_files.write_lines(file, [{"id": "multiple_0", "result": ""}] * 2)
    with pytest.raises(TaskError, match="occurs twice"):
        read_results(tmp_path, VERSIONS["v4"])
    file.write_text("not json\n")
    with pytest.raises(RunError):
        read_results(tmp_path, VERSIONS["v4"])


@pytest.mark.parametrize("result", [None, 5, {}, [], ["x"], [{}], [{"f": 5}], [[["x"]]], [[{"f": "{bad"}]], "text"])
@pytest.mark.parametrize("entry_id", ["multiple_0", "multi_turn_miss_func_0"])
def test_odd_results_are_wrong_answers(package, bfcl_files, tmp_path, entry_id, result):
    category = entry_id.rpartition("_")[0]
    bfcl_files.write_lines(tmp_path / f"BFCL_v4_{category}_result.json", [{"id": entry_id, "result": result}])
    (attempt,) = BFCL(source=str(package)).score_results(tmp_path)
    assert not attempt.success


# ---------------------------------------------------------------------------------------------------- the release


@pytest.mark.slow
@pytest.mark.bfcl
def test_saved_replies_of_every_category_are_scored_within_ten_seconds(v4):
    suite = BFCL(source=str(v4.folder))
    attempts = play(suite)
    assert len(attempts) == 4441
    begin = time.process_time()
    scores = [suite.score(attempt.task, attempt.outcome) for attempt in attempts]
    assert time.process_time() - begin < 10
    assert sum(score.success for score in scores) == 4433


@pytest.mark.bfcl
def test_the_floor_of_doing_nothing(v4):
    attempts = play(BFCL(source=str(v4.folder)), "nothing")
    assert rights(attempts) == {"irrelevance": 240, "live_irrelevance": 884}


@pytest.mark.bfcl
def test_v3_gold_misses_the_entry_with_more_truths_than_turns(v3):
    """multi_turn_base_154 has five user turns and six turns of ground truth: no run can be right."""
    attempts = play(BFCL(source=str(v3.folder)), categories=("multi_turn_base",))
    assert [attempt.task.id for attempt in attempts if not attempt.success] == ["multi_turn_base_154"]
