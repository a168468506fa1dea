import json

import pytest
from toolcredit import assets
from toolcredit.cli import doctor as module
from toolcredit.cli.doctor import diagnose
from typer import Exit


def findings():
    return {finding.name: finding for finding in diagnose()}


def run(capsys):
    with pytest.raises(Exit) as stopped:
        module.doctor(as_json=True)
    return stopped.value.exit_code, json.loads(capsys.readouterr().out)


def test_everything_is_looked_at(capsys):
    code, report = run(capsys)
    names = {finding["name"] for finding in report["findings"]}
    assert {"toolcredit", "python", "gymnasium", "torch", "processors", "home folder", "asset smollm2"} <= names
    assert {"GenomeToolSubset-v0", "data questions.jsonl.gz", "agents"} <= names
    assert (code, report["ok"]) == (0, True), [f for f in report["findings"] if f["state"] == "broken"]


def test_whatever_is_not_ok_has_a_fix():
    assert all(finding.fix for finding in diagnose() if finding.state != "ok")


def test_a_home_that_cannot_be_written(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path / "file"))
    code, report = run(capsys)
    assert (code, report["ok"]) == (1, False)
    broken = [finding for finding in report["findings"] if finding["state"] == "broken"]
    assert [finding["name"] for finding in broken] == ["home folder"]
    assert "set TOOLCREDIT_HOME" in broken[0]["fix"]


def test_an_asset_that_is_not_installed_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    assert not assets.is_installed("smollm2")
    assert findings()["asset smollm2"].fix == "toolcredit data install smollm2"
    assert findings()["asset smollm2"].state == "missing"


def test_missing_packages(monkeypatch):
    def version(name):
        if name in ("peft", "rich"):
            raise module.importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(module.importlib.metadata, "version", version)
    found = findings()
    assert (found["peft"].state, found["peft"].fix) == ("missing", "pip install 'toolcredit[train]'")
    assert (found["rich"].state, found["rich"].fix) == ("broken", "pip install toolcredit")


def test_a_missing_package_of_the_server(monkeypatch):
    monkeypatch.setattr(
        module.importlib.metadata,
        "requires",
        lambda name: ['nothing-like-this>=1; extra == "serve"', 'x; extra == "sb3"'],
    )
    found = findings()
    assert found["nothing-like-this"].fix == "pip install 'toolcredit[serve]'" and "x" not in found


def test_an_agent_that_cannot_be_imported(monkeypatch):
    point = module.importlib.metadata.EntryPoint("lost", "no_such_package:Lost", "toolcredit.agents")
    monkeypatch.setattr(module.importlib.metadata, "entry_points", lambda group: [point])
    assert findings()["agent lost"].state == "broken"


def test_an_environment_that_does_not_play(monkeypatch):
    monkeypatch.setattr(module, "registered_ids", lambda: ["NoSuchEnvironment-v0"])
    assert findings()["NoSuchEnvironment-v0"].state == "broken"


def test_data_that_differs_from_the_installed_package(monkeypatch):
    class Listed(type(module.PurePosixPath())):
        hash = type("Hash", (), {"value": "AAAA"})

    listed = Listed("toolcredit/envs/genome/data/questions.jsonl.gz")
    monkeypatch.setattr(module.importlib.metadata, "files", lambda name: [listed])
    found = findings()
    assert found["data questions.jsonl.gz"].state == "broken"
    assert found["data splice_models.json"].state == "ok"


def test_a_check_that_fails_is_a_finding(monkeypatch):
    monkeypatch.setattr(module, "agent_names", lambda: 1 / 0)
    assert findings()["agents"].detail == "ZeroDivisionError: division by zero"


def test_the_table_is_printed(capsys):
    with pytest.raises(Exit):
        module.doctor(as_json=False)
    assert "GenomeToolSubset-v0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("numpy>=1.26", ("numpy", "")),
        ('torch>=2.6; extra == "train"', ("torch", "train")),
        ("ruamel.yaml~=0.1 ; python_version<'3.11' and extra=='dev'", ("ruamel.yaml", "dev")),
    ],
)
def test_requirements_are_read(line, parsed):
    assert module._parse_requirement(line) == parsed
