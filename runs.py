"""Files that survive a kill: atomic writes, append-only JSONL, and the run folder that every long command leaves.

Invariants:
* a file written with `write_atomic` is either the old or the new content, never a part;
* a JSONL record is on disk before `append` returns; a torn last line is dropped on reading and cut off on appending;
* a run folder is resumed only with the configuration it was started with.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import RunError


def write_atomic(path: str | os.PathLike, data: str | bytes) -> None:
    """Write `data` to `path` so that a reader, or a kill, never sees half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode() if isinstance(data, str) else data
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write `value` as readable JSON, atomically. NaN and infinity are refused."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


class JsonLines:
    """An append-only JSONL file. Opening cuts off a torn last line, so that appending never glues two records.

    Args:
        path: the file; made, with its folders, by the first `append`.
        sync: also flush every record to the disk itself (survives a power cut, not only a kill).
    """

    def __init__(self, path: str | os.PathLike, sync: bool = False):
        self.path = Path(path)
        self.sync = sync
        self._file: Any = None

    def append(self, record: dict[str, Any]) -> None:
        """Add one record. NaN and infinity are refused: they are not JSON."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.truncate_torn_line()
            self._file = open(self.path, "ab")  # noqa: SIM115 - kept open between records
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        if self.sync:
            os.fsync(self._file.fileno())

    def truncate_torn_line(self) -> None:
        """Cut the file after its last complete line."""
        if not self.path.exists():
            return
        raw = self.path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        if whole < len(raw):
            with open(self.path, "r+b") as file:
                file.truncate(whole)

    def close(self) -> None:
        """Close the file; a later `append` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return read_jsonl(self.path)


def read_jsonl(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSONL file; a torn last line is left out, a broken one elsewhere is an error.

    Raises:
        RunError: a line other than the last is not a JSON object.
    """
    path = Path(path)
    if not path.exists():
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
            except ValueError as error:
                raise RunError(
                    f"{path}, line {number}: not JSON ({error}); restore the file or remove the line"
                ) from None
            if not isinstance(record, dict):
                raise RunError(f"{path}, line {number}: expected a JSON object, got {type(record).__name__}")
            yield record


def cut_jsonl(path: str | os.PathLike, is_late: Callable[[dict[str, Any]], bool]) -> None:
    """Cut a JSONL file off before the first record that is late, so that what follows can be written again.

    Args:
        path: the file; nothing happens if there is none.
        is_late: whether a record, and all after it, are to go. A torn last line goes in any case.

    Raises:
        RunError: as `read_jsonl`.
    """
    path = Path(path)
    if not path.exists():
        return
    kept = sum(1 for _ in itertools.takewhile(lambda record: not is_late(record), read_jsonl(path)))
    with open(path, "r+b") as file:
        for _ in range(kept):
            file.readline()
        file.truncate(file.tell())


@contextmanager
def reading(path: str | os.PathLike) -> Iterator[None]:
    """Around code that takes records apart: what is not as a run writes it is told of the folder, not of the code.

    Raises:
        RunError: a field is missing, or holds something else than it should.
    """
    try:
        yield
    except RunError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise RunError(
            f"{path} holds what no run writes ({type(error).__name__}: {error}): restore it from a copy, or use "
            "another folder"
        ) from None


class RunFolder:
    """The folder of one run: `config.json`, `metrics.jsonl`, `state/`, `result.json`, `report.html`.

    Args:
        path: the folder.
        config: the resolved configuration, plain JSON. Written on the first start.
        resume: go on with what the folder holds; without it a folder that holds a run is refused.

    Raises:
        RunError: the folder holds another run (no `resume`), or one with another configuration, or `config` is not
            plain JSON.
    """

    def __init__(self, path: str | os.PathLike, config: dict[str, Any], resume: bool = False):
        self.path = Path(path)
        try:
            self.config = json.loads(json.dumps(config, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise RunError(
                f"the configuration of {self.path} is not plain JSON ({error}): give names or import paths instead of "
                "objects, or train without a run folder"
            ) from None
        stored = self.load_config(self.path) if (self.path / "config.json").exists() else None
        if stored is not None and not resume:
            raise RunError(
                f"{self.path} holds a run already: continue it with --resume, or choose another folder with --out"
            )
        found = differences(stored, self.config) if stored is not None else ()
        changes = "; ".join(f"{name}: was {old!r}, now {new!r}" for name, old, new in found)
        if changes:  # a field that did not exist when the run was started, and is null now, is none
            raise RunError(
                f"{self.path} was started with another configuration ({changes}): use its own, or another --out"
            )
        self.resumed = stored is not None
        if stored is None:
            try:
                write_json(self.path / "config.json", self.config)
            except OSError as error:
                raise RunError(
                    f"{self.path} cannot be written to ({error}): choose another folder with --out"
                ) from None
        self.metrics = JsonLines(self.path / "metrics.jsonl")

    @staticmethod
    def load_config(path: str | os.PathLike) -> dict[str, Any]:
        """The configuration a run folder was started with.

        Raises:
            RunError: the folder or its `config.json` is missing or not JSON.
        """
        file = Path(path) / "config.json"
        if not file.is_file():
            raise RunError(f"{path} is not a run folder: it has no config.json")
        try:
            config = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise RunError(f"{file} is not JSON ({error})") from None
        if not isinstance(config, dict):
            raise RunError(f"{file} holds {type(config).__name__}, expected an object")
        return config


def differences(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Name, old and new value of each field that differs, nested ones by their dotted names; a missing one is None."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield name, old, new
