"""The command as a user types it: one clear line and exit code 2 for bad input, JSON where asked for."""

import gzip
import json
import signal
import subprocess
import sys
import time
import types

import pytest
from toolcredit.agents.base import Agent
from toolcredit.cli.main import app
from toolcredit.envs.genome.questions import load_questions, write_questions
from toolcredit.errors import UsageError
from typer.testing import CliRunner


def toolcredit(*arguments, cwd=None):
    command = [sys.executable, "-m", "toolcredit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    questions = [q for q in load_questions() if q.split == "test"][:4]
    write_questions(folder / "good.jsonl", questions)
    record = json.loads((folder / "good.jsonl").read_text().splitlines()[0])
    (folder / "empty.jsonl").write_text("")
    (folder / "answer.jsonl").write_text(json.dumps(record | {"answer": "Z"}) + "\n")
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress((folder / "good.jsonl").read_bytes())[:-20])
    return folder


BAD = {
    "a wrong path": (("--questions", "{files}/nothing.jsonl"), "nothing.jsonl"),
    "an unknown tool": (("--tools", "motif_scaner"), "motif_scanner"),
    "an empty file": (("--questions", "{files}/empty.jsonl"), "empty"),
    "an answer that is no option": (("--questions", "{files}/answer.jsonl"), "answer"),
    "a truncated gzip": (("--questions", "{files}/cut.jsonl.gz"), "cut.jsonl.gz"),
    "a table of other tools": (("--questions", "{files}/good.jsonl", "--table", "{files}/table.parquet"), "table"),
    "an unknown environment": (("--env", "GenomToolSubset-v0"), "GenomeToolSubset-v0"),
    "an unknown reasoner": (("--reasoner", "oracle"), "evidence"),
    "an environment argument that does not exist": (("--env-set", "parsimon=1"), "parsimony"),
    "a setting without a value": (("--env-set", "parsimony"), "KEY=VALUE"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line_and_exit_code_2(case, files):
    if not (files / "table.parquet").exists():
        built = toolcredit(
            "table", "build", "--questions", files / "good.jsonl", "--tools", "motif_scanner,splice_analyzer",
            "--out", files / "table.parquet",
        )  # fmt: skip
        assert built.returncode == 0, built.stderr
    arguments, named = BAD[case]
    result = toolcredit("eval", "none", *(a.format(files=files) for a in arguments))
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("toolcredit: ") and result.stderr.count("\n") == 1
    assert named in result.stderr


def test_eval_prints_every_reference_as_json(files):
    result = toolcredit("eval", "none", "--questions", files / "good.jsonl", "--json")
    assert result.returncode == 0, result.stderr
    parsed = json.loads(result.stdout)
    assert parsed["n"] == 4
    assert set(parsed["strategies"]) >= {"none", "all", "random", "best_fixed", "oracle"}
    assert set(parsed["strategies"]["all"]) >= {"accuracy", "ci", "reward", "tools_per_question"}


def test_eval_hands_arguments_to_the_agent(files):
    named = ("--questions", files / "good.jsonl", "--json", "--agent-set")
    result = toolcredit("eval", "fixed", *named, 'tools=["motif_scanner"]')
    assert json.loads(result.stdout)["strategies"]["fixed"]["tools_per_question"] == 1
    refused = toolcredit("eval", "fixed", *named, "tool=motif_scanner")
    assert refused.returncode == 2 and "--agent-set" in refused.stderr and refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nobody",), "fgpo"),
        (("none",), "does not learn"),
        (("fgpo", "--set", "learning_rat=1"), "learning_rate"),
        (("fgpo", "--set", "policy.model=no/such-model", "--set", "max_updates=1"), "no/such-model"),
        (("fgpo", "--resume"), "--out"),
        (("fgpo", "--resume", "--out", "nowhere", "--seed", "1"), "--resume"),
        (("fgpo", "--resume", "--out", "nowhere", "--seed", "0"), "leave the other options away"),
        (("fgpo", "--config", "missing.json"), "missing.json"),
        (("fgpo", "--preset", "huge"), "fgpo-paper"),
    ],
)
def test_train_refuses_what_it_cannot_use(arguments, named, tmp_path):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    result = toolcredit("train", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr and named in result.stderr


def test_version_help_and_no_command():
    assert toolcredit("--version").stdout.startswith("toolcredit 0.")
    assert "quickstart" in toolcredit("--help").stdout
    assert toolcredit("train", "--help").returncode == 0


def test_help_of_every_command_is_there():
    runner = CliRunner()
    for command in (["quickstart"], ["train"], ["eval"], ["table", "build"], ["table", "show"], ["data", "install"]):
        shown = runner.invoke(app, [*command, "--help"])
        assert shown.exit_code == 0 and "--help" in shown.output


def test_the_command_starts_without_torch():
    code = "import toolcredit.cli.main, sys; assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_ctrl_c_leaves_a_run_that_resumes(files, tmp_path, hear_ctrl_c):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    out = tmp_path / "run"
    fields = ("policy.model=tiny", "max_updates=400", "format_updates=0", "batch_size=4", "save_every=1")
    command = ["train", "fgpo", "--policy", "tiny", "--out", str(out), *(x for f in fields for x in ("--set", f))]
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcredit", *command],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (out / "state.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"toolcredit train fgpo --resume --out {out}" in errors and "Traceback" not in errors
    before = (out / "metrics.jsonl").read_text().splitlines()
    assert json.loads(before[-1])["update"] < 400


def test_resume_refuses_a_run_of_another_learner(tmp_path):
    stored = {"agent": "none", "config": {}, "env": {"id": "GenomeToolSubset-v0", "kwargs": {}}}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    result = CliRunner().invoke(app, ["train", "random", "--resume", "--out", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
    assert f"toolcredit train none --resume --out {tmp_path}" in str(result.exception)


class NeedsArguments(Agent):
    name = "needy"

    def __init__(self, model):
        self.model = model

    def act(self, observation, info):
        return 0


def test_an_agent_that_lacks_arguments_is_refused(monkeypatch):
    module = types.ModuleType("here")
    module.NeedsArguments = NeedsArguments
    monkeypatch.setitem(sys.modules, "here", module)
    result = CliRunner().invoke(app, ["eval", "here:NeedsArguments"])
    assert isinstance(result.exception, UsageError) and "--agent-set" in str(result.exception)
    result = CliRunner().invoke(app, ["eval", ".here:NeedsArguments"])
    assert isinstance(result.exception, UsageError) and "is no import path" in str(result.exception)


@pytest.mark.slow
def test_quickstart_from_nothing_to_a_report_and_again(tmp_path):
    pytest.importorskip("torch", reason="needs the extra 'train'")
    command = ("quickstart", "--policy", "tiny", "--max-steps", 1, "--out", tmp_path / "run", "--json")
    first = subprocess.run([sys.executable, "-m", "toolcredit", *map(str, command)], capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout)
    assert set(result["strategies"]) == {"fgpo", "grpo", "none", "all", "random", "best_fixed", "oracle"}
    assert result["training"]["fgpo"]["updates"] == result["training"]["grpo"]["updates"] == 81
    compared = {(c["strategy"], c["reference"]) for c in result["comparisons"]}
    assert ("fgpo", "grpo") in compared and ("grpo", "none") in compared
    assert "<svg" in (tmp_path / "run" / "report.html").read_text("utf-8")
    again = toolcredit(*command)
    assert again.returncode == 0 and json.loads(again.stdout) == result
    measured = toolcredit("eval", tmp_path / "run" / "grpo", "--split", "dev", "--json")
    assert measured.returncode == 0 and "grpo" in json.loads(measured.stdout)["strategies"]
    folders = [tmp_path / "run" / name for name in ("fgpo", "grpo")]
    assert toolcredit("report", *folders, "--out", tmp_path / "both").returncode == 0
    assert "Who beats whom" in (tmp_path / "both" / "report.html").read_text("utf-8")
    refused = toolcredit(*command[:4], 2, *command[5:])
    assert refused.returncode == 2 and "max_updates: was 1, now 2" in refused.stderr
