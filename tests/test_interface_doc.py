"""docs/interface.md is true: its code runs, and the names it calls public exist."""

import pkgutil
import re
from pathlib import Path

from toolcredit.agents.base import ENTRY_POINT_GROUP as AGENTS
from toolcredit.agents.estimators import ENTRY_POINT_GROUP as ESTIMATORS
from toolcredit.benchmarks.registry import ENTRY_POINT_GROUP as SUITES
from toolcredit.envs.genome.tools import ENTRY_POINT_GROUP as TOOLS
from toolcredit.rewards.subset import ENTRY_POINT_GROUP as REWARDS

GROUPS = (AGENTS, REWARDS, TOOLS, SUITES, ESTIMATORS)
TEXT = (Path(__file__).resolve().parents[1] / "docs" / "interface.md").read_text("utf-8")


def public_names():
    """`module: a, b; module: c` of the table's second column as module:name, and dotted names alone."""
    rows = re.findall(r"^\| [a-z ]+ \| (.+) \|$", TEXT.split("## An agent")[0], re.M)
    for quoted in (re.findall(r"`([^`]+)`(:?)", row) for row in rows):
        module = ""
        for name, colon in quoted:
            if colon:
                module = name
            elif module and re.fullmatch(r"\w+", name):
                yield f"{module}:{name}"
            elif re.fullmatch(r"toolcredit(\.\w+)+(\(\))?", name) and name not in GROUPS:
                yield name.removesuffix("()")


def test_public_names_exist():
    names = list(public_names())
    assert len(names) > 30
    for name in names:
        assert pkgutil.resolve_name(name) is not None


def test_entry_point_groups_are_the_ones_in_the_code():
    listed = re.search(r"\| entry-point groups \| (.+) \|", TEXT)
    assert re.findall(r"`([^`]+)`", listed[1]) == list(GROUPS)


def test_the_code_runs(capsys):
    blocks = re.findall(r"^```python\n(.+?)^```", TEXT, re.M | re.S)
    namespace = {}
    for block in blocks:
        exec(compile(block, "docs/interface.md", "exec"), namespace)  # our own documentation, not anybody's input
    assert len(blocks) == 3
    assert namespace["result"]["strategies"]["first_tool"]["n"] == len(namespace["env"].unwrapped.question_ids)
    assert "p_value" in capsys.readouterr().out


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (Path(__file__).resolve().parents[1] / "docs" / target).is_file(), target
