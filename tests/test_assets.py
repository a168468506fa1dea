"""Installing assets with the real pip from a folder of wheels that the tests write: no network."""

import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from toolcredit import assets
from toolcredit.errors import AssetError, InfrastructureError, UnknownNameError

NAME = "sample"
PREPARE = """
import os, pathlib, time
def copy(source, target, report):
    report("copying", 0.5)
    with open(os.environ["PREPARED_LOG"], "a") as log:
        log.write("once\\n")
    time.sleep(float(os.environ.get("PREPARE_SECONDS", "0")))
    (target / "copy.txt").write_text((source / "pkg/data/a.txt").read_text())
def fail(source, target, report):
    (target / "half.txt").write_text("half")
    raise RuntimeError("broken conversion")
"""
INSTALL = """
import json, sys
from toolcredit import assets
assets.ASSETS["sample"] = assets.Asset(**json.loads(sys.argv[1]))
print(assets.install("sample"))
"""


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder of wheels that pip takes as its only source, an empty home, and a module with prepare functions."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREPARED_LOG", str(tmp_path / "prepared.log"))
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sample_prepare.py").write_text(PREPARE)
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.setenv("PYTHONPATH", str(modules))
    return folder


def write_wheel(folder, members=None):
    path = folder / "sample_asset-1.0-py3-none-any.whl"
    info = "sample_asset-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (
            members or {"pkg/data/a.txt": "content a", "pkg/data/b.txt": "b", "pkg/code.py": "1/0"}
        ).items():
            archive.writestr(name, text)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: sample-asset\nVersion: 1.0\nRequires-Dist: no-such\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sample(sha256, prepare=None, members=("pkg/data/*.txt",)):
    return {
        "name": NAME,
        "description": "for tests",
        "licence": "CC0-1.0",
        "requirement": "sample-asset==1.0",
        "sha256": sha256,
        "members": members,
        "prepare": prepare,
    }


@pytest.fixture
def register(monkeypatch):
    def add(**changes):
        asset = assets.Asset(**sample(**changes))
        monkeypatch.setitem(assets.ASSETS, NAME, asset)
        return asset

    return add


def left_behind():
    folder = assets.home() / "assets"
    return sorted(path.name for path in folder.iterdir() if path.name != f".{NAME}.lock") if folder.exists() else []


def test_an_asset_without_preparation(shelf, register, monkeypatch):
    register(sha256=write_wheel(shelf))
    assert not assets.is_installed(NAME)
    folder = assets.install(NAME, lambda step, share: None)
    assert folder == assets.path(NAME) == assets.home() / "assets" / "sample-1.0-1"
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == ["asset.json", "pkg/data/a.txt", "pkg/data/b.txt"]
    assert json.loads((folder / "asset.json").read_text())["licence"] == "CC0-1.0"
    assert left_behind() == ["sample-1.0-1"]
    assert importlib.util.find_spec("sample_asset") is None and importlib.util.find_spec("pkg") is None
    monkeypatch.setattr(subprocess, "run", None)  # a second time nothing is fetched
    assert assets.install(NAME) == folder


def test_an_asset_with_preparation_tells_its_steps(shelf, register):
    register(sha256=write_wheel(shelf), prepare="sample_prepare:copy")
    steps = []
    folder = assets.install(NAME, lambda step, share: steps.append(step))
    assert steps == ["downloading", "unpacking", "copying", "done"]
    assert (folder / "copy.txt").read_text() == "content a"
    assert not (folder / "pkg").exists()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"sha256": "0" * 64}, AssetError, "SHA-256 .* expected 0000.*nothing was installed"),
        ({"members": ("pkg/other/*",)}, AssetError, "holds no member 'pkg/other/"),
        ({"prepare": "sample_prepare:fail"}, RuntimeError, "broken conversion"),
    ],
)
def test_nothing_is_left_of_a_failed_installation(shelf, register, changes, error, message):
    register(**{"sha256": write_wheel(shelf)} | changes)
    with pytest.raises(error, match=message):
        assets.install(NAME, lambda step, share: None)
    assert left_behind() == [] and not assets.is_installed(NAME)


def test_pip_finds_nothing(shelf, register):
    register(sha256="0" * 64)
    with pytest.raises(
        InfrastructureError, match="could not download sample-asset==1.0.*ERROR: No matching distribution"
    ):
        assets.install(NAME, lambda step, share: None)
    assert left_behind() == []


def test_an_environment_without_pip(shelf, register, tmp_path, monkeypatch):
    register(sha256=write_wheel(shelf))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(InfrastructureError, match="No module named pip.*ensurepip"):
        assets.install(NAME, lambda step, share: None)


def test_a_download_that_stalls(shelf, register, tmp_path, monkeypatch):
    register(sha256=write_wheel(shelf))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(assets, "DOWNLOAD_SECONDS", 0.2)
    with pytest.raises(InfrastructureError, match="took longer than 0.2 s"):
        assets.install(NAME, lambda step, share: None)
    assert left_behind() == []


def test_a_home_that_cannot_be_written(shelf, register, tmp_path, monkeypatch):
    register(sha256=write_wheel(shelf))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path / "file"))
    with pytest.raises(InfrastructureError, match="set TOOLCREDIT_HOME to a writable folder"):
        assets.install(NAME, lambda step, share: None)


def start_install(asset, **environment):
    command = [sys.executable, "-c", INSTALL, json.dumps(asset)]
    return subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(file, process):
    for _ in range(4000):
        if file.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"{file} did not appear")


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_leaves_nothing_half_installed(shelf, register, tmp_path):
    asset = sample(write_wheel(shelf), "sample_prepare:copy")
    register(sha256=asset["sha256"], prepare=asset["prepare"])
    process = start_install(asset, PREPARE_SECONDS="60")
    wait_for(tmp_path / "prepared.log", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    assert not assets.is_installed(NAME)
    assert [name.startswith(".sample.partial-") for name in left_behind()] == [True]
    assets.install(NAME, lambda step, share: None)
    assert left_behind() == ["sample-1.0-1"]


def test_two_installations_at_once_prepare_once(shelf, tmp_path):
    asset = sample(write_wheel(shelf), "sample_prepare:copy")
    processes = [start_install(asset, PREPARE_SECONDS="0.5") for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert (tmp_path / "prepared.log").read_text() == "once\n"


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "pkg/../../evil.txt", "pkg\\..\\evil.txt", "C:/evil.txt"])
def test_members_that_would_leave_the_folder(tmp_path, name):
    path = tmp_path / "wheel.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), "evil")
    with pytest.raises(AssetError, match="outside its folder"):
        assets._unpack(path, ("*",), tmp_path / "inner" / "into")
    assert list(tmp_path.rglob("evil*")) == []


def test_a_wheel_that_is_no_archive(tmp_path):
    (tmp_path / "wheel.whl").write_bytes(b"not a zip")
    with pytest.raises(AssetError, match="wheel.whl is not a readable wheel"):
        assets._unpack(tmp_path / "wheel.whl", ("*",), tmp_path / "into")


def test_names_and_messages(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    with pytest.raises(UnknownNameError, match="did you mean 'smollm2'"):
        assets.path("smolm2")
    with pytest.raises(AssetError, match="run: toolcredit data install smollm2"):
        assets.path("smollm2")


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/cache"}, "/cache/toolcredit"),
        ("linux", {}, "/home/user/.cache/toolcredit"),
        ("darwin", {}, "/home/user/Library/Caches/toolcredit"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/toolcredit"),
        ("linux", {"TOOLCREDIT_HOME": "~/models"}, "/home/user/models"),
    ],
)
def test_home_is_the_platforms_cache(monkeypatch, platform, variable, expected):
    for name in ("TOOLCREDIT_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/user")
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(assets.sys, "platform", platform)
    assert assets.home() == Path(expected)


def test_progress_lines_without_a_terminal(capsys):
    with assets.progress("thing") as report:
        for share in (0.0, 0.5, 1.0):
            report("converting", share)
    assert capsys.readouterr().err == "thing: converting\n"


def test_a_progress_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with assets.progress("thing") as report:
        report("downloading", 0.0)
        report("converting", 0.5)
    assert "thing: converting" in capsys.readouterr().err


@pytest.mark.parametrize("asset", assets.ASSETS.values(), ids=assets.ASSETS)
def test_every_registered_asset_is_pinned_and_can_be_prepared(asset):
    package, equals, version = asset.requirement.partition("==")
    assert package and equals and version and asset.licence and asset.description
    assert len(asset.sha256) == 64 and int(asset.sha256, 16)
    if asset.prepare is not None:
        module, _, function = asset.prepare.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.smollm2
def test_smollm2_is_installed_whole(smollm2_path):
    names = {path.name for path in smollm2_path.iterdir()}
    assert names >= {"asset.json", "model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"}
    assert json.loads((smollm2_path / "asset.json").read_text())["sha256"] == assets.ASSETS["smollm2"].sha256
