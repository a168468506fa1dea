"""docs/benchmarks.md is true: its code runs."""

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text("utf-8")


def test_the_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.+?)^```", TEXT, re.M | re.S)
    exec(compile(block, "docs/benchmarks.md", "exec"), namespace := {})  # our own documentation
    assert namespace["result"]["completed"] == 20
    assert "'score': 1.0" in capsys.readouterr().out


def test_agent_options_and_fields_of_a_result_are_the_ones_in_the_code():
    from toolcredit.benchmarks.players import EndpointOptions, LocalOptions

    rows = {kind: row for kind in ("openai", "local") for row in TEXT.splitlines() if row.startswith(f"| `{kind}:")}
    for kind, model in (("openai", EndpointOptions), ("local", LocalOptions)):
        named = set(re.findall(r"`(?:--)?([a-z_-]+)`", rows[kind]))
        assert {name.replace("_", "-") for name in model.model_fields} <= {name.replace("_", "-") for name in named}
