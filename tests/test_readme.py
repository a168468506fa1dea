"""The README: its code is the tested examples, its commands exist, its links lead somewhere."""

import re
from pathlib import Path

import pytest
from toolcredit.cli.main import app
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("example", ["custom_experiment.py", "my_agent.py"])
def test_its_code_is_the_example_that_the_tests_run(example):
    code = (ROOT / "examples" / example).read_text().strip()
    assert f"```python\n{code}\n```" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_named_files_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
        linked = (page.parent / target).read_text() if target else text
        assert anchor in map(anchor_of, re.findall(r"^#+ (.+)$", linked, re.M)), f"{page.name}: {target}#{anchor}"


def anchor_of(heading):
    """A heading as a link names it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_exist(page):
    """Every `toolcredit …` line names commands and options that the command line has."""
    for line in re.findall(r"(?:^|[`\n$ ])toolcredit ((?:[a-z][a-z-]* ?)[^`\n]*)", page.read_text()):
        words = line.split("#")[0].split()
        command = words[: 2 if words[0] in ("table", "data", "init", "sgls", "bench") and len(words) > 1 else 1]
        shown = CliRunner().invoke(app, [*command, "--help"])
        if shown.exit_code == 0:
            for option in (word.split("=")[0] for word in words if word.startswith("--")):
                assert option in re.sub(r"\s", "", shown.output), f"{page.name}: {option} of {' '.join(command)}"
        else:
            assert command[0] not in KNOWN, f"{page.name}: toolcredit {line}"


KNOWN = {
    "quickstart",
    "train",
    "eval",
    "report",
    "table",
    "data",
    "init",
    "check",
    "doctor",
    "sgls",
    "play",
    "bench",
    "serve",
}
