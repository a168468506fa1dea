"""`toolcredit bench` as a user types it."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toolcredit.benchmarks.registry import option_meanings, suite_names, suite_options
from toolcredit.cli.main import app
from toolcredit.envs.genome.questions import load_questions
from toolcredit.errors import RunError
from typer.testing import CliRunner

FAKES = Path(__file__).resolve().parents[1] / "fakes"


@pytest.fixture(scope="module", autouse=True)
def importable():
    """The toy suite under its plain name, as a user's own module."""
    sys.path.insert(0, str(FAKES))
    yield
    sys.path.remove(str(FAKES))


def bench(*words):
    return CliRunner().invoke(app, ["bench", *map(str, words)])


def refused(*words):
    """The message of a refusal: `main` prints it as one line and exits with 2."""
    result = bench(*words)
    assert result.exit_code != 0
    return str(result.exception) if not isinstance(result.exception, SystemExit) else result.output


def run(out, *words):
    result = bench("run", "toy_suite:Sums", "--agent", "toy_suite:Adder", "--out", out, "--json", *words)
    assert result.exit_code == 0, result.output + str(result.exception)
    return json.loads(result.stdout)


# --------------------------------------------------------------------------------------------------------------- run


def test_run_show_and_go_on(tmp_path):
    result = run(tmp_path / "run", "--n", "8", "--agent-set", "wrong=4")
    assert (result["n"], result["aggregates"]["micro"]) == (8, 0.75)
    assert set(result) >= {"categories", "aggregates", "references", "failures", "usage", "versions", "config", "suite"}
    assert set(result["categories"]["even"]) == {"n", "score", "ci", "metrics"}
    shown = json.loads(bench("show", tmp_path / "run", "--json").stdout)
    assert shown == {key: value for key, value in result.items() if key != "run"}
    again = bench("run", tmp_path / "run", "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["aggregates"] == result["aggregates"]
    text = bench("show", tmp_path / "run").output
    assert re.search(r"even +│ +4 │ 0.5000", text) and re.search(r"micro +│ 0.7500", text)


def test_a_finished_run_needs_no_agent_any_more(tmp_path, chat_server, monkeypatch):
    words = ("--n", "4", "--base-url", chat_server.url, "--agent-set", "api_key_env=OWN_KEY", "--out", tmp_path / "run")
    monkeypatch.setenv("OWN_KEY", "k")
    assert bench("run", "toy_suite:Sums", "--agent", "openai:fake", *words).exit_code == 0
    monkeypatch.delenv("OWN_KEY")
    assert bench("run", "toy_suite:Sums", "--agent", "openai:fake", *words).exit_code == 0
    assert "OWN_KEY" in refused("run", "toy_suite:Sums", "--agent", "openai:fake", "--seed", "1", *words)


def test_suite_flags_reach_the_suite(tmp_path):
    result = run(tmp_path / "a", "--n=6", "--beside-too")
    assert result["config"]["options"] == {"n": 6, "beside_too": True} and set(result["references"]) == {
        "nothing",
        "gold",
    }
    assert run(tmp_path / "b", "--n", "6", "--no-beside-too")["references"] == {}
    assert run(tmp_path / "c", "--beside-too", "--no-references")["references"] == {}


def test_tasks_are_chosen(tmp_path):
    assert list(run(tmp_path / "a", "--category", "odd")["categories"]) == ["odd"]
    assert list(run(tmp_path / "b", "--category", "small")["categories"]) == ["even"]  # a group
    assert run(tmp_path / "c", "--limit", "3", "--trials", "2")["n"] == 6
    assert run(tmp_path / "d", "--ids", "sum-3,sum-5")["tasks"] == 2
    (tmp_path / "ids").write_text("sum-3\n\nsum-5\n")
    assert run(tmp_path / "e", "--ids", f"@{tmp_path / 'ids'}")["tasks"] == 2


def test_an_unresolved_attempt_is_exit_code_1_and_says_how_to_go_on(tmp_path):
    result = bench("run", "toy_suite:Sums", "--agent", "toy_suite:Adder", "--broken", "3", "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert f"toolcredit bench run {tmp_path / 'run'}" in result.output and "1 unresolved" in result.output


def test_failures_are_shown_and_played_again_on_demand(tmp_path):
    command = (
        "run",
        "toy_suite:Sums",
        "--agent",
        "toy_suite:Adder",
        "--agent-set",
        "fails=[2]",
        "--out",
        tmp_path / "run",
    )
    result = bench(*command)
    assert result.exit_code == 0 and "sum-2 (failed): RuntimeError: no answer to 2" in result.output
    assert "--retry-failed" in result.output
    assert bench(*command, "--retry-failed").exit_code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("genomqa", "--agent", "gold"), "genomeqa"),
        (("toy_suite:Sums",), "--agent"),
        (("toy_suite:Sums", "--agent", "golden"), "gold"),
        (("toy_suite:Sums", "--agent", "gold", "--brokn", "3"), "--broken"),
        (("toy_suite:Sums", "--agent", "gold", "--n"), "needs a value"),
        (("toy_suite:Sums", "--agent", "gold", "three"), "'three'"),
        (("toy_suite:Sums", "--agent", "gold", "--category", "evn"), "even"),
        (("toy_suite:Sums", "--agent", "gold", "--ids", "sum-99"), "sum-99"),
        (("toy_suite:Sums", "--agent", "gold", "--ids", "@nowhere"), "nowhere"),
        (("toy_suite:Sums", "--agent", "gold", "--price", "m"), "--price"),
        (("toy_suite:Sums", "--agent", "gold", "--price", "m=nan,1"), "--price"),
        (("toy_suite:Sums", "--agent", "gold", "--price", "m=1,-1"), "--price"),
        (("toy_suite:Sums", "--agent", "gold", "--deadline", "0"), "deadline"),
        (("toy_suite:Sums", "--agent", "gold", "--deadline", "inf"), "deadline"),
        (("toy_suite:Sums", "--agent", "gold", "--category", " , "), "--category"),
        (("genomeqa", "--agent", "gold", "--questions", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_bad_input_is_refused_by_name(words, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert named in refused("run", *words)
    assert not (tmp_path / "runs").exists()  # nothing is left behind


@pytest.mark.parametrize("name", ["nothing", "do-nothing", "do_nothing"])
def test_doing_nothing_has_three_names(name, tmp_path):
    result = bench("run", "toucan", "--agent", name, "--limit", "2", "--no-references", "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output + str(result.exception)
    assert json.loads(result.stdout)["config"]["agent"] == "nothing"


def test_a_run_folder_may_be_called_like_its_suite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("run", "genomeqa", "--agent", "gold", "--limit", "2", "--out", "genomeqa", "--json")
    begun, again, gone_on = bench(*words), bench(*words), bench("run", "genomeqa", "--json")
    for result in (begun, again, gone_on):
        assert result.exit_code == 0, result.output + str(result.exception)
        assert json.loads(result.stdout)["n"] == 2


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        assert "choose another folder" in refused("run", "toy_suite:Sums", "--agent", "gold", "--out", place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_is_not_gone_on_with_under_other_settings(tmp_path):
    run(tmp_path / "run")
    assert "own settings" in refused("run", tmp_path / "run", "--agent", "gold")
    assert "own settings" in refused("run", tmp_path / "run", "--agent-set", "wrong=3")
    assert "seed" in refused(
        "run", "toy_suite:Sums", "--agent", "toy_suite:Adder", "--seed", "2", "--out", tmp_path / "run"
    )
    assert "config.json" in refused("show", tmp_path)


def test_the_pace_may_change_and_tokens_have_a_price(tmp_path, chat_server, fake_chat):
    chat_server.script(fake_chat.status(401))
    words = ("--n", "4", "--base-url", chat_server.url, "--agent-set", "retries=0", "--out", tmp_path / "run")
    result = bench("run", "toy_suite:Sums", "--agent", "openai:fake", *words)
    assert result.exit_code == 0 and "4 failed" in result.output
    chat_server.script(fake_chat.reply("0", usage=(1_000_000, 500_000)))
    result = bench("run", tmp_path / "run", "--retry-failed", "--agent-set", "retries=3", "--price", "fake=0.5,2")
    assert result.exit_code == 0, result.output + str(result.exception)
    assert "4,000,000 prompt tokens, 2,000,000 completion tokens, cost 6.0000" in result.output


def test_ctrl_c_keeps_what_is_finished(tmp_path, hear_ctrl_c):
    command = [
        sys.executable, "-m", "toolcredit", "bench", "run", "toy_suite:Sums", "--agent", "toy_suite:Adder",
        "--agent-set", "seconds=0.2", "--workers", "2", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": f"{FAKES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c)
    give_up = time.monotonic() + 60
    while not (tmp_path / "run" / "results.jsonl").exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    process.send_signal(2)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and f"toolcredit bench run {tmp_path / 'run'}" in told
    assert "Traceback" not in told


# --------------------------------------------------------------------------------------------- the other commands


def test_compare_and_export(tmp_path):
    run(tmp_path / "a", "--agent-set", "wrong=3")
    run(tmp_path / "b")
    found = json.loads(bench("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert found[0]["overall"]["second_only"] == 7
    text = bench("compare", tmp_path / "a", tmp_path / "b").output
    assert "only the second is right" in text and "McNemar" in text
    for format, name in (
        ("json", "result.json"),
        ("csv", "attempts.csv"),
        ("markdown", "result.md"),
        ("sums", "sums.txt"),
    ):
        result = bench("export", tmp_path / "a", "--format", format, "--out", tmp_path / "out")
        assert result.exit_code == 0 and (tmp_path / "out" / name).is_file()
    assert "csv" in refused("export", tmp_path / "a", "--format", "xml", "--out", tmp_path / "out")


DAMAGES = {
    "a result without its verdict": ("results.jsonl", '{"task": "sum-0", "trial": 0}\n', ("show", "export", "compare")),
    "a foreign task": ("transcripts.jsonl", '{"task": "sum-99", "trial": 0}\n', ("run",)),
    "a transcript that is none": (
        "transcripts.jsonl",
        '{"task": "sum-0", "trial": 0, "transcript": [{"role": "user", "tool_calls": [3]}]}\n',
        ("task",),
    ),
    "a session without an event": ("sessions.jsonl", "{}\n", ("show",)),
    "a result of a reference": ("references/gold/result.json", '{"n": 1}', ("show",)),
    "another result": ("result.json", "{}", ("finished", "export finished")),
    "a list as the result": ("result.json", "[]", ("finished",)),
}


@pytest.mark.parametrize(("file", "text", "verbs"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_is_told_by_its_folder(file, text, verbs, tmp_path):
    made, other = tmp_path / "made", tmp_path / "other"
    run(made, "--n", "3")
    run(other, "--n", "3")
    if file != "result.json":
        (made / "result.json").unlink()
    (made / file).parent.mkdir(parents=True, exist_ok=True)
    with open(made / file, "w" if file.endswith(".json") else "a") as damaged:
        damaged.write(text)
    export = ("export", made, "--out", tmp_path / "out")
    commands = {
        "run": ("run", made),
        "show": ("show", made),
        "finished": ("show", made),
        "task": ("show", made, "--task", "sum-0"),
        "compare": ("compare", made, other),
        "export": (*export, "--format", "csv"),
        "export finished": (*export, "--format", "markdown"),
    }
    for verb in verbs:
        result = bench(*commands[verb])
        assert isinstance(result.exception, RunError) and str(made) in str(result.exception)


def test_one_task_is_shown_without_what_steers_a_terminal(tmp_path):
    run(tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "transcripts.jsonl").read_text().split("\n")[:-1]]
    for line in lines:
        line["transcript"][-1]["content"] += "\x1b[2J\x07\x9b2J"  # of which the terminal's library removes the first
    (tmp_path / "run" / "transcripts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = bench("show", tmp_path / "run", "--task", "sum-2").output
    assert "[user] 2+6" in text and not {"\x1b", "\x07", "\x9b"} & set(text) and '"success": true' in text
    assert json.loads(bench("show", tmp_path / "run", "--task", "sum-2", "--json").stdout)["results"][0]["success"]
    assert "sum-77" in refused("show", tmp_path / "run", "--task", "sum-77")


def test_list_shows_every_suite_and_one_in_full():
    rows = json.loads(bench("list", "--json").stdout)
    assert {row["name"] for row in rows} >= {"genomeqa", "toucan"}
    assert "--reasoner" in next(row for row in rows if row["name"] == "genomeqa")["options"]
    one = json.loads(bench("list", "genomeqa", "--json").stdout)
    assert sum(one["categories"].values()) == sum(q.split == "test" for q in load_questions())
    flags = {flag["flag"]: flag for flag in one["flags"]}
    assert flags["--mode"] == {"flag": "--mode", "default": "plain", "meaning": "plain or selector."}
    assert "--mode [default: plain]  plain or selector." in bench("list", "genomeqa").output
    assert "genomeqa" in refused("list", "genomqa")


def test_every_option_of_every_suite_is_explained():
    for name in suite_names():
        assert option_meanings(name).keys() >= suite_options(name).keys(), name
        assert all(option_meanings(name).values()), name


def test_the_help_of_run_names_every_flag_of_every_suite():
    shown = re.sub(r"\s", "", bench("run", "--help").output)
    for name in suite_names():
        for option in suite_options(name):
            assert "--" + option.replace("_", "-") in shown, (name, option)


def test_build_writes_a_set_that_the_suite_reads(tmp_path):
    import random

    rng = random.Random(0)
    table = {"sigma70_promoters": ("promoter", "negative"), "bacteria_vs_archaea": ("bacteria", "archaea"),
             "deepstarr": ("active", "inactive"), "mouse_ensembl_enhancers": ("positive", "negative")}  # fmt: skip
    words = []
    for name, labels in table.items():
        rows = [f"{''.join(rng.choices('ACGT', k=120))},{label}" for label in labels for _ in range(130)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["sequence,label", *rows]))
        words += ["--source", f"{name}={tmp_path / name}.csv"]
    out = tmp_path / "bm4.jsonl.gz"
    result = bench("build", "bm4", *words, "--out", out, "--json")
    assert result.exit_code == 0, result.output + str(result.exception)
    assert json.loads(result.stdout)["n"] == 1000
    shown = bench(
        "run", "genomeqa", "--questions", out, "--agent", "gold", "--limit", "8", "--out", tmp_path / "r", "--json"
    )
    assert json.loads(shown.stdout)["aggregates"]["micro"] == 1.0
    assert "DATASET=TEST" in refused("build", "bm4", "--source", "deepstarr", "--out", out)


def test_the_command_line_loads_no_suite_before_it_is_needed():
    code = (
        "import toolcredit.cli.main, sys; "
        "assert not [m for m in sys.modules if m in ('torch', 'peft') or m.startswith('toolcredit.benchmarks.runner')]"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
