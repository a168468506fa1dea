"""The page about runs on conversations: everything is there, nothing is loaded, hostile text stays text."""

import json
import re

import pytest
from toolcredit.benchmarks import chat_curves, chat_report
from toolcredit.benchmarks.held_out_chat import ChatRecord, record_lines, summarise
from toolcredit.cli.main import app
from toolcredit.errors import RunError, UsageError
from typer.testing import CliRunner

pytest.importorskip("matplotlib")

HOSTILE = "<td></td><script>alert('x')</script>&\"$\\frac{"
SAID = ({"role": "user", "content": "Tide?"}, {"role": "assistant", "content": "tide()"},
        {"role": "tool", "name": "tide", "content": "1 m"}, {"role": "assistant", "content": "It is 1 m."})  # fmt: skip


def metrics(updates, model="judge-7b"):
    for update in range(1, updates + 1):
        record = {"update": update, "phase": "slca-grpo", "seconds": update * 2.0, "reward": update / 50}
        record |= {"reward/total": record["reward"], "reward/process": 0.5, f"reward/{model}": 0.1}
        record |= {"dead_group_rate/tool": 0.5, "dead_group_rate/summary": 0.25, "advantage/tool": 0.7}
        record |= {"kl": 0.001 * update, "entropy": 1.0, "clipped": 0.01, "loss": 0.1, "gradient_norm": 0.3}
        record |= {"turns": 2.0, "calls": 1.2, "tokens": 40.0, "clipped_ratio": 0.0, "failed": 0, "unscored": 1}
        record |= {"rollout_seconds": 1.5, "waited_seconds": 0.5, "sampler_difference": 1e-6}
        if update % 5 == 0:
            record |= {"gradient_norm/tool": 0.2, "gradient_norm/summary": 0.1, "gradient_cosine": -0.05}
            record |= {"dev_reward": 0.4, "dev_process": 0.5, "dev_success_process": 0.3, "dev_turns": 2.0}
        spent = {"sampled_tokens": 100 * update, f"endpoint/{model}/prompt_tokens": 1234 * update}
        yield record | {"spent": spent}


def episode(task, solved, text="It is 1 m.", kind="single"):
    rewards = {"success_process": float(solved), "process": 0.95 if solved else 0.4, "total": 1.0 + solved}
    said = (*SAID[:-1], {"role": "assistant", "content": text})
    kinds = {"category": kind if task < "t5" else "parallel", "tier": "easy"}
    return ChatRecord(task, rewards, 2, 1, "terminated", None, 30, kinds, said)


def write_run(folder, agent="slca-grpo", solved=6, hostile=None, finished=True, tasks=10):
    text, kind = hostile or "It is 1 m.", hostile or "single"
    folder.mkdir(parents=True)
    env = {"id": "SGLSToolCallingReplay-v0", "kwargs": {"tier": "easy"}}
    (folder / "config.json").write_text(json.dumps({"agent": agent, "config": {"seed": 7, "note": text}, "env": env}))
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in metrics(20, hostile or "judge-7b"))
    )
    if finished:
        own = [episode(f"t{i}", i < solved, text, kind) for i in range(tasks - 1)] + [ChatRecord("t9", error=text)]
        others = {"gold": summarise([episode(f"t{i}", True) for i in range(tasks)]) | {"ceiling": True}}
        strategies = {"my.module:Learner": summarise(own) | {"ceiling": False}, **others}
        training = {"my.module:Learner": {"updates": 20}}  # as the command line names it
        result = {"split": "test", "n": tasks, "strategies": strategies, "training": training}
        result["versions"] = {"torch": "2.x"}
        (folder / "result.json").write_text(json.dumps(result))
        (folder / "held_out.jsonl").write_text(record_lines(own))
    return folder


def page_of(*folders):
    return chat_report.render_chat_report(chat_report.read_runs(folders))


@pytest.fixture
def without_drawings(monkeypatch):
    """Figures take seconds, and not every test is about them."""
    monkeypatch.setattr(chat_curves, "figure", lambda name, panels, label, columns: "<svg></svg>")


TITLES = (
    "Held-out tasks", "Kinds of tasks", "Rewards while learning", "On the dev split", "Credit by segment",
    "Optimisation", "What episodes are like", "What learning spent", "Conversations", "Failed tasks", "How it was made",
)  # fmt: skip


def test_everything_is_there(tmp_path, page_reader):
    reader = page_reader(page_of(write_run(tmp_path / "a")))
    for title in TITLES:
        assert reader.text.count(title) >= 2, title  # in the list of links, and as a heading
    assert "slca-grpo solves 60.0% of the 10 tasks of the split test (95% interval 31.3% to 83.2%)" in reader.text
    for panel in (
        "Process", "Judge-7b", "Solved on dev", "Gradient by segment", "Do the segments agree?", "Dead groups",
        "Entropy", "Distance from the start", "Clipped", "Turns and calls", "Without a score",
    ):  # fmt: skip
        assert panel in reader.text, panel
    assert "24,680" in reader.text and "endpoint/judge-7b/prompt tokens" in reader.text
    assert "not solved slca-grpo, t6, single" not in reader.text and "not solved slca-grpo, t6, parallel" in reader.text
    assert "tool tide" in reader.text and '"seed": 7' in reader.text and "By category" in reader.text
    assert "By tier" not in reader.text  # there is only one
    assert "my.module" not in reader.text  # the run stands there once
    assert reader.tags.count("svg") == 5


def test_the_page_loads_nothing_and_its_links_lead_somewhere(tmp_path, page_reader):
    page = page_of(write_run(tmp_path / "a"), write_run(tmp_path / "b", "grpo-chat", 3))
    reader = page_reader(page)
    assert not {"script", "link", "iframe", "img", "object", "base"} & set(reader.tags)
    ids = [value for name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in reader.attributes:
        if name in ("href", "xlink:href", "src"):
            assert value.startswith("#") and value[1:] in ids
        assert not name.startswith("on")
    assert "default-src 'none'" in page and not re.search(r"#01010\d|#02020\d", page)


def test_hostile_text_is_text(tmp_path, page_reader):
    reader = page_reader(page_of(write_run(tmp_path / "a", hostile=HOSTILE)))
    assert "script" not in reader.tags
    # in replies, an error, the configuration, a kind of tasks, a reward and a model's name
    assert reader.text.lower().count("<script>alert('x')</script>") >= 12


def test_runs_stand_side_by_side_with_paired_differences(tmp_path, page_reader):
    folders = [write_run(tmp_path / name, solved=solved) for name, solved in (("one", 8), ("two", 2))]
    reader = page_reader(page_of(*folders))
    assert "slca-grpo (one), slca-grpo (two) on SGLSToolCallingReplay-v0" in reader.text
    assert reader.text.count("Which run is better") == 2
    row = re.search(r"McNemar pslca-grpo \(one\)slca-grpo \(two\)(.*?)Paired", reader.text)[1]
    assert row.startswith("+0.600 (") and "+60.0 (" in row and row.endswith("600.031")  # six, none, p = 1/32
    assert "Gradient by segment: tool calls" in reader.text


def test_runs_in_folders_of_one_name_are_told_apart_by_their_paths(tmp_path):
    folders = [write_run(tmp_path / seed / "slca", solved=solved) for seed, solved in (("1", 6), ("2", 3))]
    labels = [run.name for run in chat_report.read_runs([*folders, write_run(tmp_path / "third")])]
    assert labels == [*(f"slca-grpo ({folder})" for folder in folders), "slca-grpo (third)"]
    with pytest.raises(UsageError, match="given twice"):
        chat_report.read_runs([folders[0], folders[0]])


def test_nothing_is_claimed_of_differences_that_are_all_alike(tmp_path, page_reader, without_drawings):
    reader = page_reader(page_of(write_run(tmp_path / "one"), write_run(tmp_path / "two")))
    row = re.search(r"McNemar pslca-grpo \(one\)slca-grpo \(two\)(.*?)Paired", reader.text)[1]
    assert row == "+0.000+0.0001.000"  # two differences, no task of either run alone, p; no interval


def test_runs_on_other_tasks_are_not_paired(tmp_path, page_reader, without_drawings):
    folders = [write_run(tmp_path / "one"), write_run(tmp_path / "two", tasks=8)]
    reader = page_reader(page_of(*folders))
    assert "Which run is better" not in reader.text and "measured on different tasks" in reader.text


def test_a_run_that_has_not_finished_shows_its_curves(tmp_path, page_reader):
    reader = page_reader(page_of(write_run(tmp_path / "a", finished=False)))
    assert "slca-grpo has not finished: 20 updates so far." in reader.text
    assert "Credit by segment" in reader.text and "Held-out tasks" not in reader.text


def test_the_same_folders_give_the_same_bytes(tmp_path):
    folder = write_run(tmp_path / "a")
    assert page_of(folder) == page_of(folder)


def test_the_command_makes_pages_again_and_says_what_is_wrong(tmp_path, without_drawings):
    one, two = write_run(tmp_path / "one"), write_run(tmp_path / "two", "grpo-chat")
    run = CliRunner().invoke
    assert run(app, ["report", str(one)]).exit_code == 0
    assert "Held-out tasks" in (one / "report.html").read_text()
    assert run(app, ["report", str(one), str(two), "--out", str(tmp_path / "both")]).exit_code == 0
    assert "grpo-chat" in (tmp_path / "both" / "report.html").read_text()
    bandit = tmp_path / "bandit"
    bandit.mkdir()
    env = {"id": "GenomeToolSubset-v0", "kwargs": {}}
    (bandit / "config.json").write_text(json.dumps({"agent": "fgpo", "config": {}, "env": env}))
    for folders, words in (
        ([one, two], "--out"),
        ([tmp_path], "config.json"),
        ([one, bandit, "--out", tmp_path], "a page for each kind"),
        ([bandit, bandit, "--out", tmp_path], "same learner"),
    ):
        assert words in str(run(app, ["report", *map(str, folders)]).exception)


def test_a_broken_result_is_one_error(tmp_path):
    folder = write_run(tmp_path / "a")
    (folder / "result.json").write_text("{}")
    with pytest.raises(RunError, match="no result of a run on conversations"):
        chat_report.read_runs([folder])
