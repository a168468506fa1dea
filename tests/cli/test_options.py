"""Progress: whole numbers on a narrow terminal, lines where there is no terminal."""

import re

from toolcredit.cli import options
from toolcredit.cli.options import progress_bar

NOTE = "loss 0.04  reward 0.20  dev reward 0.40"


def show():
    with progress_bar() as progress:
        progress.say("it begins")
        task = progress.add_task("train slca-grpo", total=600, note="")
        progress.update(task, completed=300, note=NOTE)


def test_a_narrow_terminal_breaks_the_note_and_no_number(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    show()
    written = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "it begins" in written and "…" not in written
    assert re.search(r"300/600 0:00:0\d [-\d]:[-\d]{2}:[-\d]{2} loss 0.04", written)


def test_lines_elsewhere(monkeypatch, capsys):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    show()
    began, line = capsys.readouterr().err.splitlines()
    assert began == "it begins" and line.startswith("train slca-grpo: 300/600") and line.endswith(NOTE)


def collect():
    with progress_bar() as progress:
        progress.add_task("train slca-grpo", total=600, note="")
        for total in (3, 64):
            for done in range(total + 1):
                progress.episodes(done, total)


def test_episodes_have_a_bar_of_their_own(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar() as progress:
        progress.episodes(0, 64)
        progress.episodes(37, 64)
        shown = [task for task in progress.tasks if task.visible]
        assert [(task.completed, task.total) for task in shown] == [(37, 64)]
        progress.episodes(64, 64)
        assert not any(task.visible for task in progress.tasks)
        progress.episodes(0, 300)
        assert [(task.completed, task.total) for task in progress.tasks] == [(0, 300)]


def test_a_log_is_told_of_episodes_only_where_it_was_silent(monkeypatch, capsys):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    collect()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(options, "_SILENCE", 0.0)
    collect()
    assert "  37 of 64 episodes" in capsys.readouterr().err.splitlines()
