"""The runner: states, deadlines, resuming after any kill, references, and what it costs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from toolcredit.benchmarks import pool
from toolcredit.benchmarks.players import ObjectPlayer
from toolcredit.benchmarks.runner import attempt_seed, run_suite
from toolcredit.benchmarks.suite import AgentError, Outcome, Score, Selection, SuiteTask
from toolcredit.errors import ConfigError, InfrastructureError, RunError
from toolcredit.runs import read_jsonl

FAKES = Path(__file__).resolve().parents[1] / "fakes"
FILES = ("results.jsonl", "failures.jsonl", "transcripts.jsonl")


@pytest.fixture
def sums(toy_suite):
    """`sums(folder, **options of Adder)` plays a run of twenty sums and gives (result, agent)."""

    def play(folder, agent=None, suite=None, **settings):
        suite = suite or toy_suite.Sums()
        own = {key: settings.pop(key) for key in ("seconds", "wrong", "fails", "hangs") if key in settings}
        agent = agent or toy_suite.Adder(**own)
        return run_suite(suite, ObjectPlayer("adder", agent), folder, **settings), agent

    return play


def content(folder):
    """What the records say, whatever their order; without the clock."""
    found = {}
    for name in FILES:
        records = [{k: v for k, v in record.items() if k != "seconds"} for record in read_jsonl(folder / name)]
        found[name] = sorted(json.dumps(record, sort_keys=True) for record in records)
    return found


# ---------------------------------------------------------------------------------------------------------- states


def test_a_clean_run(sums, tmp_path):
    result, agent = sums(tmp_path / "run", wrong=5)
    assert (result["n"], result["completed"], result["failed"], result["unresolved"]) == (20, 20, 0, 0)
    assert sorted(agent.asked) == list(range(20))
    assert result["aggregates"]["micro"] == 0.8  # 0, 5, 10 and 15 are wrong
    assert [(name, part["n"]) for name, part in result["categories"].items()] == [("even", 10), ("odd", 10)]
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    transcripts = list(read_jsonl(tmp_path / "run" / "transcripts.jsonl"))
    assert len(transcripts) == 20 and transcripts[0]["transcript"][0]["role"] == "user"


def test_failed_and_unresolved_attempts_count_as_zero_and_are_listed_apart(sums, toy_suite, tmp_path):
    suite = toy_suite.Sums(broken=4, unscorable=6)
    result, _ = sums(tmp_path / "run", suite=suite, fails=(1, 3))
    assert (result["n"], result["completed"], result["failed"], result["unresolved"]) == (20, 16, 2, 2)
    assert result["aggregates"]["micro"] == 16 / 20
    assert result["categories"]["even"]["n"] == 10
    told = {failure["task"]: (failure["state"], failure["error"]) for failure in result["failures"]}
    assert told["sum-1"][0] == "failed" and "no answer to 1" in told["sum-1"][1]
    assert told["sum-4"] == ("unresolved", "InfrastructureError: the back end is down")
    assert told["sum-6"][0] == "unresolved" and "no score" in told["sum-6"][1]
    assert len(list(read_jsonl(tmp_path / "run" / "results.jsonl"))) == 16


def test_a_suite_may_say_that_the_agent_is_to_blame(toy_suite, sums, tmp_path):
    class Strict(toy_suite.Sums):
        def run(self, task, agent, context):
            raise AgentError("no such action")

    result, _ = sums(tmp_path / "run", suite=Strict(n=2))
    assert result["failed"] == 2 and result["failures"][0]["error"] == "no such action"


@pytest.mark.parametrize(
    "message",
    [
        None,
        "text",
        {"content": 7},
        {"content": "", "tool_calls": "x"},
        {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
        {"content": "", "tool_calls": [{"function": {"arguments": "{}"}}]},
    ],
)
def test_an_agent_that_breaks_the_form_of_messages_has_failed(message, toy_suite, sums, tmp_path):
    class Broken:
        def respond(self, messages, tools):
            return message

    result, _ = sums(tmp_path / "run", agent=Broken(), suite=toy_suite.Sums(n=1))
    assert result["failed"] == 1 and "respond() gave" in result["failures"][0]["error"]


def test_an_agent_that_exits_does_not_end_the_run(toy_suite, sums, tmp_path):
    class Exits:
        def respond(self, messages, tools):
            raise SystemExit(3)

    result, _ = sums(tmp_path / "run", agent=Exits(), suite=toy_suite.Sums(n=3))
    assert result["failed"] == 3


def test_an_outcome_that_is_no_json_is_unresolved_and_surrogates_are_replaced(toy_suite, sums, tmp_path):
    class Odd(toy_suite.Sums):
        def run(self, task, agent, context):
            return Outcome({"reply": {"sum-0": {1, 2}, "sum-1": float("nan")}.get(task.id, "\ud800")})

        def score(self, task, outcome):
            return Score(True)

    result, _ = sums(tmp_path / "run", suite=Odd(n=3))
    assert (result["completed"], result["unresolved"]) == (1, 2)
    assert "no plain JSON" in result["failures"][0]["error"]
    (record,) = read_jsonl(tmp_path / "run" / "transcripts.jsonl")
    assert record["output"]["reply"] == "?"


# -------------------------------------------------------------------------------------------------------- deadlines


def test_an_attempt_that_hangs_fails_at_its_deadline_and_the_others_go_on(sums, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_GRACE", 0.1)
    begin = time.monotonic()
    result, agent = sums(tmp_path / "run", hangs=(0, 1, 2), workers=3, deadline=0.5)
    assert time.monotonic() - begin < 10
    assert (result["completed"], result["failed"]) == (17, 3)
    assert {f["task"] for f in result["failures"]} == {"sum-0", "sum-1", "sum-2"}
    assert "deadline" in result["failures"][0]["error"]
    before = content(tmp_path / "run")
    agent.free.set()  # what comes too late is thrown away
    time.sleep(0.3)
    assert content(tmp_path / "run") == before
    assert list(read_jsonl(tmp_path / "run" / "sessions.jsonl"))[-1]["stuck_threads"] == 3


def test_a_suite_that_loops_can_stop_at_the_deadline_by_itself(toy_suite, sums, tmp_path):
    class Loops(toy_suite.Sums):
        def run(self, task, agent, context):
            while True:
                context.remaining()
                time.sleep(0.02)

    result, _ = sums(tmp_path / "run", suite=Loops(n=4), deadline=0.2)
    assert result["failed"] == 4
    assert list(read_jsonl(tmp_path / "run" / "sessions.jsonl"))[-1]["stuck_threads"] == 0


def test_a_run_in_which_everything_hangs_stops(sums, toy_suite, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_GRACE", 0.05)
    suite = toy_suite.Sums(n=40)
    agent = toy_suite.Adder(hangs=range(40))
    with pytest.raises(InfrastructureError, match="hangs"):
        sums(tmp_path / "run", agent=agent, suite=suite, workers=2, deadline=0.05)
    agent.free.set()
    result, _ = sums(tmp_path / "run", suite=suite, retry_failed=True)  # and can be gone on with
    assert result["completed"] == 40


# --------------------------------------------------------------------------------------------------------- resuming


def test_a_finished_run_started_again_does_nothing(sums, tmp_path):
    first, _ = sums(tmp_path / "run", fails=(3,))
    before = {file: file.read_bytes() for file in sorted((tmp_path / "run").rglob("*")) if file.is_file()}
    second, agent = sums(tmp_path / "run")
    assert agent.asked == [] and second == first
    assert {file: file.read_bytes() for file in sorted((tmp_path / "run").rglob("*")) if file.is_file()} == before


@pytest.mark.parametrize("kept", [0, 1, 7, 19, 20])
@pytest.mark.parametrize("lost", ["results", "both", "torn"])
def test_a_run_cut_off_anywhere_ends_like_an_unbroken_one(kept, lost, sums, tmp_path):
    whole, _ = sums(tmp_path / "whole", wrong=3, fails=(2,), workers=1)
    expected = content(tmp_path / "whole")
    sums(tmp_path / "run", wrong=3, fails=(2,), workers=1)
    folder = tmp_path / "run"
    for name in ("results.jsonl", "transcripts.jsonl")[: 1 if lost == "results" else 2]:
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        torn = lines[kept][:10] if lost == "torn" and kept < len(lines) else b""
        (folder / name).write_bytes(b"".join(lines[:kept]) + torn)
    (folder / "result.json").unlink()
    result, agent = sums(folder, wrong=3, workers=1)
    assert content(folder) == expected
    assert result == whole
    # what has an outcome on disk is scored, not played again
    assert len(agent.asked) == (0 if lost == "results" else max(0, 19 - kept))


@pytest.mark.parametrize("moment", [0.3, 0.8])
def test_kill_9_and_resume(moment, tmp_path):
    def command(out):
        return [
            sys.executable, "-m", "toolcredit", "bench", "run", "toy_suite:Sums", "--n", "60",
            "--agent", "toy_suite:Adder", "--agent-set", "seconds=0.05", "--agent-set", "wrong=7",
            "--workers", "3", "--out", str(out),
        ]  # fmt: skip

    path = f"{FAKES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    env = os.environ | {"PYTHONPATH": path, "TOY_LOG": str(tmp_path / "log")}
    out = tmp_path / "run"
    process = subprocess.Popen(command(out), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + 60
    while not (out / "results.jsonl").exists() and time.monotonic() < give_up:
        time.sleep(0.01)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    recorded = {record["task"] for record in read_jsonl(out / "transcripts.jsonl")}
    assert 0 < len(recorded) < 60
    asked = (tmp_path / "log").read_text().split()
    done = subprocess.run(command(out), env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    again = (tmp_path / "log").read_text().split()[len(asked) :]
    assert not recorded & {f"sum-{a}" for a in again}
    assert len(again) == 60 - len(recorded)
    unbroken = subprocess.run(command(tmp_path / "whole"), env=env, capture_output=True, text=True, timeout=120)
    assert unbroken.returncode == 0
    assert content(out) == content(tmp_path / "whole")
    assert (out / "result.json").read_bytes() == (tmp_path / "whole" / "result.json").read_bytes()


def test_unresolved_attempts_are_played_again_failed_ones_only_on_demand(sums, toy_suite, tmp_path):
    sums(tmp_path / "run", suite=toy_suite.Sums(broken=4), fails=(1,))
    result, agent = sums(tmp_path / "run")
    assert agent.asked == [4] and (result["completed"], result["failed"]) == (19, 1)
    result, agent = sums(tmp_path / "run", retry_failed=True)
    assert agent.asked == [1] and result["completed"] == 20 and result["failures"] == []


def test_a_scoring_fault_that_was_mended_costs_no_new_play(sums, toy_suite, tmp_path):
    sums(tmp_path / "run", suite=toy_suite.Sums(unscorable=6))
    result, agent = sums(tmp_path / "run")
    assert agent.asked == [] and result["completed"] == 20


def test_a_folder_is_gone_on_with_only_by_the_same_run(sums, toy_suite, tmp_path):
    sums(tmp_path / "run")
    with pytest.raises(RunError, match="seed"):
        sums(tmp_path / "run", seed=1)
    with pytest.raises(RunError, match="identity"):
        sums(tmp_path / "run", suite=toy_suite.Sums(n=21))
    with pytest.raises(RunError, match="other tasks"):
        sums(tmp_path / "run", selection=Selection(limit=3))


def test_another_agent_under_the_same_name_is_refused(sums, toy_suite, tmp_path):
    agent = toy_suite.Adder(fails=(1,))
    agent.identity = {"weights": "a"}
    sums(tmp_path / "run", agent=agent)
    other = toy_suite.Adder()
    other.identity = {"weights": "b"}
    with pytest.raises(RunError, match="another agent"):
        sums(tmp_path / "run", agent=other, retry_failed=True)


# ---------------------------------------------------------------------------------------- trials, seeds, threads, cost


def test_trials_have_seeds_of_their_own_that_do_not_depend_on_the_order(toy_suite, tmp_path):
    class Seeds:
        def start(self, context):
            self.context = context
            said = str(context.seed)
            return type("Says", (), {"respond": lambda self, messages, tools: {"content": said}})()

    for workers in (1, 8):
        run_suite(
            toy_suite.Sums(n=6),
            ObjectPlayer("seeds", Seeds()),
            tmp_path / f"{workers}",
            trials=3,
            workers=workers,
            seed=5,
        )
    said = {(r["task"], r["trial"]): r["output"]["reply"] for r in read_jsonl(tmp_path / "1" / "transcripts.jsonl")}
    assert len(set(said.values())) == len(said) == 18
    assert said["sum-2", 1] == str(attempt_seed(5, "sum-2", 1))
    assert content(tmp_path / "1") == content(tmp_path / "8")


def test_as_many_attempts_at_once_as_asked_for_and_never_more(sums, toy_suite, tmp_path):
    _, agent = sums(tmp_path / "a", seconds=0.05, workers=5)
    assert agent.peak == 5
    agent = toy_suite.Adder(seconds=0.02)
    agent.concurrency = 2
    sums(tmp_path / "b", agent=agent, workers=5)
    assert agent.peak == 2


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"deadline": 0}, {"workers": 0}])
def test_settings_out_of_range_are_refused(wrong, sums, tmp_path):
    with pytest.raises(ConfigError):
        sums(tmp_path / "run", **wrong)


def test_an_agent_of_another_kind_is_refused(toy_suite, tmp_path):
    player = ObjectPlayer("adder", toy_suite.Adder())
    player.kind = "env"
    with pytest.raises(ConfigError, match="kind"):
        run_suite(toy_suite.Sums(), player, tmp_path / "run")


def test_references_are_played_on_the_same_tasks_and_stand_beside(sums, toy_suite, tmp_path):
    suite = toy_suite.Sums(beside_too=True)
    result, _ = sums(tmp_path / "run", suite=suite, wrong=2, selection=Selection(limit=6), trials=2)
    assert set(result["references"]) == {"nothing", "gold"}
    assert result["references"]["gold"] == {
        "n": 6,
        "categories": {"even": 1.0, "odd": 1.0},
        "aggregates": {"per_task": 1.0, "never": None, "micro": 1.0},
    }
    assert result["references"]["nothing"]["aggregates"]["micro"] == 0.0
    _, agent = sums(tmp_path / "run", suite=suite, wrong=2, selection=Selection(limit=6), trials=2)
    assert agent.asked == []


def test_progress_tells_every_attempt_once(sums, tmp_path):
    seen = []
    sums(tmp_path / "run", fails=(1,), on_progress=seen.append)
    assert [progress.done for progress in seen] == list(range(1, 21))
    assert {progress.total for progress in seen} == {20} and seen[-1].failed == 1


def test_the_runner_costs_less_than_two_milliseconds_a_task(sums, toy_suite, tmp_path):
    suite = toy_suite.Sums(n=600)
    agent = type("Instant", (), {"respond": lambda self, messages, tools: {"content": "0"}})()
    threads, begin = threading.active_count(), time.process_time()
    sums(tmp_path / "run", agent=agent, suite=suite, workers=8)
    assert (time.process_time() - begin) / 600 < 0.002
    time.sleep(0.1)
    assert threading.active_count() <= threads


def test_tasks_with_equal_ids_are_refused(toy_suite, tmp_path):
    class Twice(toy_suite.Sums):
        def tasks(self, selection):
            return [SuiteTask("x", "c", {}), SuiteTask("x", "c", {})]

    with pytest.raises(ValueError, match="unique"):
        run_suite(Twice(), ObjectPlayer("adder", toy_suite.Adder()), tmp_path / "run")
