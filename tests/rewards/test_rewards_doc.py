"""docs/rewards.md and docs/sgls_data.md are true: their code runs, and their figures are those of the code."""

import json
import re
from pathlib import Path

import pytest
from toolcredit.envs.sgls.loaders import FORMATS, load_tasks
from toolcredit.envs.sgls.loaders.formats import GENERIC_FIELDS
from toolcredit.rewards.hierr import HierR
from toolcredit.rewards.process import COMPONENTS, WEIGHTS, Attempt, process_score

DOCS = Path(__file__).resolve().parents[2] / "docs"
REWARDS, DATA = ((DOCS / name).read_text("utf-8") for name in ("rewards.md", "sgls_data.md"))


def test_the_code_runs(capsys):
    blocks = re.findall(r"^```python\n(.+?)^```", REWARDS, re.M | re.S)
    namespace = {}
    for block in blocks:
        exec(compile(block, "docs/rewards.md", "exec"), namespace)  # our own documentation, not anybody's input
    assert len(blocks) == 2 and "process" in capsys.readouterr().out
    assert namespace["scorer"].identity["judge"]["name"] == "polite"


def test_every_entry_of_the_rewards_is_explained():
    table = REWARDS.split("## Components")[1].split("## The process score")[0]
    explained = {name for row in re.findall(r"^\| (`.+?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert explained == set(HierR().components)


def test_the_presets_are_the_ones_in_the_code():
    for name, weights in WEIGHTS.items():
        assert f'"{name}"' in REWARDS
        if name not in ("paper", "uniform"):
            numbers = ", ".join(f"{getattr(weights, c):.2f}".removesuffix(".00") for c in COMPONENTS)
            assert numbers.replace("0.00", "0") in " ".join(REWARDS.split())


def test_the_figures_of_the_departures():
    call, empty = {"name": "w", "arguments": {"x": 1}}, {"name": "z", "arguments": {}}
    made = Attempt(((call,),), 1, 1, True)
    assert process_score(made, [[[empty]]], mode="paper").process == pytest.approx(0.75)
    assert process_score(made, [[]], mode="paper").process == pytest.approx(0.45)
    assert round(process_score(made, [[]]).process, 2) == 0.15
    unreadable = Attempt((), 0, 1, True)
    assert process_score(unreadable, [[]], mode="paper").process == pytest.approx(0.90)
    assert process_score(unreadable, [[]]).process == 0.0


def test_the_generic_row_loads_as_shown(tmp_path):
    row = re.search(r"^```json\n(.+?)^```", DATA, re.M | re.S)[1]
    path = tmp_path / "mine.jsonl"
    path.write_text(row, "utf-8")
    loaded = load_tasks(path)
    assert not loaded.skipped and not loaded.notes and loaded.tasks[0].id == json.loads(row)["id"]
    assert set(json.loads(row)) <= set(GENERIC_FIELDS)
    fields = DATA.split("## Your own rows")[1].split("## Recorded answers")[0]
    assert all(f"`{name}`" in fields for name in GENERIC_FIELDS)


def test_the_formats_are_the_ones_in_the_code():
    table = DATA.split("| format | rows |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == set(FORMATS)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", REWARDS + DATA):
        assert (DOCS / target).is_file(), target
