"""`toolcredit doctor`: is everything here that is needed, and if not, what to do."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.resources
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

import gymnasium as gym
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import __version__, assets
from ..agents.base import ENTRY_POINT_GROUP, agent_class, agent_names
from ..envs.registration import registered_ids
from ..errors import AssetError, MissingExtraError
from . import options

MINIMUM_PYTHON = (3, 10)
#: the extras that are looked at, and what they are for
EXTRAS = {"train": "to train", "serve": "for `toolcredit serve`"}
#: What training a language model on two cores takes, with its asset, states of frozen layers and run folders.
DISK_NEEDED_GB = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what it is.
        state: `ok`, `missing` (works without; something optional is not there) or `broken`.
        detail: what was found.
        fix: what to do, empty if nothing.
    """

    name: str
    state: str
    detail: str
    fix: str = ""


def doctor(as_json: bool = options.JSON) -> None:
    """Look at Python, packages, processors, assets, folders and environments; exit code 1 if something is broken."""
    findings = diagnose()
    broken = any(finding.state == "broken" for finding in findings)
    if as_json:
        options.print_json({"ok": not broken, "findings": [asdict(finding) for finding in findings]})
    else:
        table = Table("", "what", "found", "what to do", box=None)
        marks = {"ok": "[green]ok[/]", "missing": "[yellow]missing[/]", "broken": "[red]broken[/]"}
        for f in findings:
            table.add_row(marks[f.state], escape(f.name), escape(f.detail), escape(f.fix))
        Console().print(table)
    raise typer.Exit(1 if broken else 0)


def diagnose() -> list[Finding]:
    """Everything that is looked at. A check that fails in an unforeseen way is a finding too, not a traceback."""
    findings: list[Finding] = []
    for check in (
        _python,
        _packages,
        _processors,
        _accelerator,
        _home,
        _assets,
        _embedded_data,
        _environments,
        _agents,
    ):
        findings += _guarded(check)
    return findings


def _guarded(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:
        name = check.__name__.strip("_")
        return [Finding(name, "broken", f"{type(error).__name__}: {error}", "report this with the whole output")]


def _python() -> Iterator[Finding]:
    enough = sys.version_info >= MINIMUM_PYTHON
    fix = "" if enough else "use Python 3.10 or later"
    yield Finding("toolcredit", "ok", __version__)
    yield Finding("python", "ok" if enough else "broken", f"{platform.python_version()}, {platform.platform()}", fix)


def _packages() -> Iterator[Finding]:
    for requirement in importlib.metadata.requires("toolcredit") or []:
        name, extra = _parse_requirement(requirement)
        if extra and extra not in EXTRAS:
            continue
        try:
            yield Finding(name, "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            target = f"'toolcredit[{extra}]'" if extra else "toolcredit"
            needed = f"not installed; needed {EXTRAS[extra]}" if extra else "not installed"
            yield Finding(name, "missing" if extra else "broken", needed, f"pip install {target}")


def _parse_requirement(requirement: str) -> tuple[str, str]:
    """Name and extra (or "") of a line like `torch>=2.6; extra == "train"`."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", requirement)
    return name[0] if name else requirement, extra[1] if extra else ""


def _processors() -> Iterator[Finding]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = os.environ.get("OMP_NUM_THREADS")
    detail = f"{usable} usable, OMP_NUM_THREADS={chosen or 'unset'}"
    crowded = chosen is None and usable <= 2
    # Side by side, two learners with two threads each fight for two cores: a step can take several times as long.
    fix = "set OMP_NUM_THREADS=1 when several learners train side by side" if crowded else ""
    yield Finding("processors", "ok", detail, fix)


def _accelerator() -> Iterator[Finding]:
    try:
        import torch
    except ImportError:
        return
    threads = f"torch uses {torch.get_num_threads()} CPU threads"
    if not torch.cuda.is_available():
        yield Finding("accelerator", "ok", f"no CUDA device: models run on the CPU; {threads}")
        return
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield Finding("accelerator", "ok", f"{', '.join(names)} (CUDA {torch.version.cuda}); {threads}")


def _home() -> Iterator[Finding]:
    home = assets.home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        yield Finding("home folder", "broken", f"{home}: {error.strerror}", "set TOOLCREDIT_HOME to a writable folder")
        return
    free = shutil.disk_usage(home).free / 1e9
    tight = free < DISK_NEEDED_GB
    fix = f"free {DISK_NEEDED_GB} GB, or set TOOLCREDIT_HOME to another disk" if tight else ""
    yield Finding("home folder", "missing" if tight else "ok", f"{home}, writable, {free:.0f} GB free", fix)


def _assets() -> Iterator[Finding]:
    for name, asset in assets.ASSETS.items():
        if assets.is_installed(name):
            yield Finding(f"asset {name}", "ok", f"version {asset.version}")
        else:
            yield Finding(f"asset {name}", "missing", "not installed", f"toolcredit data install {name}")


def _environments() -> Iterator[Finding]:
    """Each environment plays one step: that reads its data and runs its default parts."""
    for env_id in registered_ids():
        try:
            with gym.make(env_id) as env:
                env.reset(seed=0)
                env.action_space.seed(0)
                env.step(env.action_space.sample())
            yield Finding(env_id, "ok", "plays a step with its default data")
        except (AssetError, MissingExtraError) as error:
            yield Finding(env_id, "missing", "its data or a package are not installed", str(error))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            yield Finding(env_id, "broken", text, "reinstall: pip install --force-reinstall toolcredit")


def _embedded_data() -> Iterator[Finding]:
    """Files shipped in the package: their SHA-256, compared with the installed wheel's own list if there is one."""
    recorded = {
        PurePosixPath(str(file)).name: file.hash.value
        for file in importlib.metadata.files("toolcredit") or []
        if file.hash is not None and "data" in file.parts
    }
    for file in sorted(importlib.resources.files("toolcredit.envs.genome.data").iterdir(), key=lambda item: item.name):
        if not file.name.endswith((".gz", ".json", ".npz")):
            continue
        digest = hashlib.sha256(file.read_bytes()).digest()
        found = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        intact = recorded.get(file.name, found) == found
        fix = "" if intact else "reinstall: pip install --force-reinstall toolcredit"
        yield Finding(f"data {file.name}", "ok" if intact else "broken", f"SHA-256 {digest.hex()[:16]}…", fix)


def _agents() -> Iterator[Finding]:
    """Agents of other packages can be imported; the built-in ones are covered by the packages above."""
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        try:
            agent_class(point.value)
        except Exception as error:
            yield Finding(f"agent {point.name}", "broken", str(error), "repair or uninstall the package that brings it")
    yield Finding("agents", "ok", ", ".join(agent_names()))
