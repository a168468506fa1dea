"""`toolcredit table build` and `show`, on the embedded questions and the embedded reasoner."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toolcredit.cli.table import app
from toolcredit.envs.table import RewardTable
from toolcredit.errors import ConfigError, StaleTableError, UnknownNameError
from typer.testing import CliRunner

COMMAND = [sys.executable, "-c", "from toolcredit.cli.table import app; app()"]
FAST = ["--split", "dev", "--tools", "sequence_statistics,splice_analyzer"]


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def table_bytes(path):
    return Path(path).read_bytes()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A finished table of the dev split with two tools."""
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    run("build", *FAST, "--out", path)
    return path


def test_build_again_asks_nothing(built):
    before = table_bytes(built)
    result = json.loads(run("build", *FAST, "--out", built, "--json").stdout)
    assert result["reasoner_calls"] == 0 and result["failed"] == [] and result["actions"] == 4
    assert result["questions"] == len(RewardTable.open(built)) and table_bytes(built) == before


def test_processes_give_the_same_bytes(built, tmp_path):
    result = json.loads(run("build", *FAST, "--out", tmp_path / "t.parquet", "--workers", 2, "--json").stdout)
    assert result["reasoner_calls"] == 4 * result["questions"]
    assert table_bytes(tmp_path / "t.parquet") == table_bytes(built)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks processes up in /proc")
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_9_loses_and_repeats_nothing_finished_and_leaves_no_orphans(built, tmp_path, workers):
    path, journal = tmp_path / "t.parquet", tmp_path / "t.parquet.journal"
    arguments = ["build", *FAST, "--out", str(path), "--workers", str(workers)]
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not journal.exists() or journal.read_bytes().count(b"\n") < 8:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    workers_of = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not path.exists()
    finished = [json.loads(line)["key"] for line in journal.read_text().splitlines(True)[1:] if line.endswith("\n")]
    result = json.loads(run(*arguments, "--json").stdout)
    assert result["reasoner_calls"] == 4 * (result["questions"] - len(set(finished)))
    assert len(finished) == len(set(finished)) >= 7
    assert table_bytes(path) == table_bytes(built)
    while any(map(alive, workers_of)):
        assert time.monotonic() < deadline, "the workers of a killed build go on"
        time.sleep(0.05)


def test_progress_is_plain_lines_where_there_is_no_terminal(tmp_path):
    done = subprocess.run(
        [*COMMAND, "build", *FAST, "--out", str(tmp_path / "t.parquet")], capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    total = len(RewardTable.open(tmp_path / "t.parquet"))
    assert all(line.startswith("reward table: ") for line in lines) and lines[-1].startswith(
        f"reward table: {total}/{total}"
    )
    assert 5 <= len(lines) <= 11 and "\r" not in done.stderr and "s left" in lines[3]


def test_show(built):
    text = run("show", built).stdout
    for heading in ("Subsets", "Strategies", "Best subset of each family", "oracle (ceiling)", "Informative questions"):
        assert heading in text
    result = json.loads(run("show", built, "--json", "--reward", "differential").stdout)
    assert result["reward"] == "differential" and set(result["degenerate_share"]) == {"1", "2"}
    assert [entry["subset"] for entry in result["subsets"]][:2] == [[], ["sequence_statistics"]]
    assert json.loads(run("show", built, "--json", "--split", "dev").stdout)["questions"] == result["questions"]


def test_names_from_files_are_no_markup(built, tmp_path):
    questions = tmp_path / "[red]q.jsonl"
    question = {
        "id": "x",
        "family": "[/bold] [x",
        "question": "?",
        "sequence": "ACGT",
        "choices": ["a", "b"],
        "answer": 0,
    }
    questions.write_text(json.dumps(question))
    arguments = ["--questions", questions, "--tools", "sequence_statistics", "--out", tmp_path / "[/red].parquet"]
    run("build", *arguments)
    assert "[/bold] [x (1)" in run("show", tmp_path / "[/red].parquet").stdout


def test_another_library_or_a_journal_of_one_is_refused(built, tmp_path):
    other = ["--split", "dev", "--tools", "splice_analyzer,sequence_statistics"]
    with pytest.raises(
        StaleTableError, match="tools: table 'sequence_statistics, splice_analyzer', environment 'splice"
    ):
        run("build", *other, "--out", built)
    copy = tmp_path / "t.parquet"
    copy.write_bytes(table_bytes(built))
    run("build", *other, "--out", copy, "--restart")
    assert RewardTable.open(copy).header.tools == ("splice_analyzer", "sequence_statistics")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--tools", "motif_scaner"], UnknownNameError),
        (["--env", "Genome-v9"], UnknownNameError),
        (["--env-set", "colour=red"], UnknownNameError),
        (["--env-set", "parsimony"], ConfigError),
    ],
)
def test_wrong_arguments_are_usage_errors(arguments, error, tmp_path):
    with pytest.raises(error):
        run("build", *arguments, "--out", tmp_path / "t.parquet")
