import json

import pytest
from toolcredit import assets
from toolcredit.cli.data import app
from toolcredit.errors import AssetError, UnknownNameError
from typer.testing import CliRunner

run = CliRunner().invoke


def test_list_says_what_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    rows = {row["name"]: row for row in json.loads(run(app, ["list", "--json"]).stdout)}
    assert rows.keys() == assets.ASSETS.keys()
    assert rows["smollm2"]["installed"] is False and rows["smollm2"]["path"] is None
    assert "smollm2" in run(app, ["list"]).stdout


def test_path_of_what_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    result = run(app, ["path", "smollm2"])
    assert isinstance(result.exception, AssetError) and "toolcredit data install smollm2" in str(result.exception)


def test_a_wrong_name_stops_before_the_first_download(monkeypatch):
    monkeypatch.setattr(assets, "install", lambda name: pytest.fail("started to install"))
    assert isinstance(run(app, ["install", "smollm2", "smolm3"]).exception, UnknownNameError)


@pytest.mark.smollm2
def test_path_and_install_of_what_is_installed(smollm2_path):
    assert run(app, ["path", "smollm2"]).stdout == f"{smollm2_path}\n"
    assert json.loads(run(app, ["path", "smollm2", "--json"]).stdout) == {"name": "smollm2", "path": str(smollm2_path)}
    assert run(app, ["install", "smollm2"]).stdout == f"smollm2: {smollm2_path}\n"
    shown = run(app, ["install", "smollm2", "--json"]).stdout
    assert json.loads(shown) == [{"name": "smollm2", "path": str(smollm2_path)}]
