"""Progress: whole numbers on a narrow terminal, lines where there is no terminal."""

import re

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
