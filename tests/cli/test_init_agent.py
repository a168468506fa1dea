import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from toolcredit.cli.init import check_name, write_agent
from toolcredit.errors import InfrastructureError, UsageError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A fresh virtual environment with the generated package installed, on top of what this one has."""
    folder = tmp_path_factory.mktemp("init")
    venv.create(folder / "venv", with_pip=False, symlinks=os.name != "nt")
    paths = sysconfig.get_paths(vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")})
    here = sysconfig.get_paths()["purelib"]
    Path(paths["purelib"], "outer.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    python = Path(paths["scripts"]) / Path(sys.executable).name
    package = write_agent("my_agent", folder)
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-e", str(package))
    return python, package


def run(python, *arguments, cwd=None, code=0):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, *arguments], capture_output=True, text=True, cwd=cwd, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_generated_test_passes(installed):
    python, package = installed
    assert "3 passed" in run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)


@pytest.mark.slow
def test_the_agent_works_by_its_name_everywhere(installed, tmp_path):
    python, _ = installed

    def toolcredit(*arguments):
        return json.loads(run(python, "-m", "toolcredit", *arguments, "--json", cwd=tmp_path))

    assert toolcredit("check", "my_agent") == {
        "agent": "my_agent",
        "env": "GenomeToolSubset-v0",
        "ok": True,
        "broken": None,
    }
    trained = toolcredit("train", "my_agent", "--set", "max_updates=32", "--out", "runs/first")
    assert trained["training"]["my_agent"]["updates"] == 32
    measured = toolcredit("eval", "runs/first")
    assert measured["strategies"]["my_agent"] == trained["strategies"]["my_agent"]
    assert set(measured["strategies"]) == {"my_agent", "none", "all", "random", "best_fixed", "oracle"}
    assert toolcredit("check", "runs/first")["ok"]
    assert (tmp_path / "runs" / "first" / "report.html").is_file()


def test_the_generated_code_is_formatted(tmp_path):
    package = write_agent("some_agent", tmp_path)
    config = ["--isolated", "--line-length", "120"]
    for command in (["check", "--select", "E,F,I,UP,B,SIM"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, *config, "."], cwd=package, check=True)


def test_nothing_of_the_template_is_left(tmp_path):
    package = write_agent("my_agent_2", tmp_path)
    files = [path for path in package.rglob("*") if path.is_file()]
    assert sorted(str(f.relative_to(package)) for f in files) == [
        "README.md",
        "my_agent_2/__init__.py",
        "pyproject.toml",
        "tests/test_my_agent_2.py",
    ]
    assert not [file for file in files if "$" in file.read_text()]
    assert "class MyAgent2(Learner)" in (package / "my_agent_2" / "__init__.py").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("My-Agent", "such as 'my_agent'"),
        ("2fast", "such as 'my_agent'"),
        ("", "such as 'my_agent'"),
        ("../escape", "such as 'escape'"),
        ("a/b", "such as 'a_b'"),
        ("naïve", "such as 'na_ve'"),
        ("class", "word of the Python language"),
        ("match", "word of the Python language"),
        ("random", "an agent 'random' exists already"),
        ("fgpo", "an agent 'fgpo' exists already"),
        ("json", "a module 'json' can be imported already"),
        ("numpy", "a module 'numpy' can be imported already"),
        ("toolcredit", "a module 'toolcredit' can be imported already"),
    ],
)
def test_names_that_cannot_be_used(name, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        write_agent(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_good_names_are_taken():
    for name in ("my_agent", "x", "agent007"):
        check_name(name)


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "my_agent").mkdir()
    (tmp_path / "my_agent" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="exists already"):
        write_agent("my_agent", tmp_path)
    assert (tmp_path / "my_agent" / "thesis.txt").read_text() == "years of work"


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="cannot be written"):
        write_agent("my_agent", tmp_path / "file")
