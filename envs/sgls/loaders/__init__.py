"""Tool-calling data from files as tasks: SLCA-GRPO, Toucan, BFCL, and one's own.

    loaded = load_tasks("rows.parquet", split="test")
    env = gym.make("SGLSToolCalling-v0", tasks=loaded.tasks, split="test", mock=…)

Rows that cannot be used are listed with the reason. `load_trajectories` gives recorded conversations for
`trajectories.write_cassette` and `fidelity`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import TaskError, UnknownNameError
from ..tasks import SPLITS, Task, ToolSpec
from .formats import FORMATS, Source, conversation, misfits
from .rows import RowError, read_rows

__all__ = ["FORMATS", "Loaded", "Remark", "RowError", "iter_tasks", "load_tasks", "load_trajectories"]


@dataclass(frozen=True)
class Remark:
    """Something about a row.

    Attributes:
        row: its number in the file, from 1.
        text: what is wrong with it.
        used: whether it became a task all the same.
    """

    row: int
    text: str
    used: bool = False


@dataclass(frozen=True)
class Loaded:
    """The content of a file.

    Attributes:
        tasks: in the order of the file.
        skipped: rows that could not be used, with reasons.
        notes: what is odd about rows that were used.
    """

    tasks: tuple[Task, ...]
    skipped: tuple[Remark, ...]
    notes: tuple[Remark, ...]


def load_tasks(
    path: str | Path,
    format: str = "auto",
    split: str = "train",
    limit: int | None = None,
    keep_system: bool = False,
) -> Loaded:
    """The tasks of a file; see `iter_tasks`.

    Raises:
        TaskError: the file is missing or unreadable as a whole, or has no usable row.
    """
    tasks: list[Task] = []
    remarks: list[Remark] = []
    for item in iter_tasks(path, format, split, keep_system):
        if isinstance(item, Remark):
            remarks.append(item)
        else:
            tasks.append(item)
            if limit is not None and len(tasks) >= limit:
                break
    if not tasks:
        first = f"; the first of them, row {remarks[0].row}: {remarks[0].text}" if remarks else ""
        raise TaskError(f"{path} has no usable row among {len(remarks)}{first}")
    skipped = tuple(remark for remark in remarks if not remark.used)
    return Loaded(tuple(tasks), skipped, tuple(remark for remark in remarks if remark.used))


def iter_tasks(
    path: str | Path, format: str = "auto", split: str = "train", keep_system: bool = False
) -> Iterator[Task | Remark]:
    """The tasks of a file one by one, and remarks on rows, so that a large file need not fit in memory.

    Args:
        path: see `rows.read_rows`.
        format: a name of `FORMATS`; `auto` decides for each row by its fields.
        split: of tasks whose rows name none.
        keep_system: keep system messages that list the tools. They are left out, because the environment shows its
            tools itself, with distractors and variants.

    Raises:
        UnknownNameError: there is no such format or split.
        TaskError: the file is missing or unreadable as a whole.
    """
    for kind, name, known in (("format", format, ["auto", *FORMATS]), ("split", split, SPLITS)):
        if name not in known:
            raise UnknownNameError(kind, name, known)
    source = Source(Path(path), split, keep_system)
    seen: set[str] = set()
    for number, row in read_rows(path):
        try:
            if isinstance(row, RowError):
                raise row
            for task in FORMATS[_format(row, format)].read(row, number, source):
                if task.id in seen:
                    raise RowError(f"a second task with the id {task.id!r}")
                seen.add(task.id)
                yield from (Remark(number, text, used=True) for text in misfits(task))
                yield task
        except TaskError as error:
            yield Remark(number, str(error))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            yield Remark(number, f"a field is missing or misshapen ({type(error).__name__}: {error})")


def load_trajectories(
    path: str | Path, limit: int | None = None
) -> Iterator[tuple[list[dict[str, Any]], tuple[ToolSpec, ...]] | Remark]:
    """The recorded conversations of a file in OpenAI's form with the tools that were shown, and remarks on rows.

    Args:
        path: a file of the format `conversation`.
        limit: at most so many rows are read.

    Raises:
        TaskError: the file is missing or unreadable as a whole.
    """
    from .conversations import opening

    source = Source(Path(path))
    for number, row in itertools.islice(read_rows(path), limit):
        try:
            if isinstance(row, RowError):
                raise row
            messages, specs = conversation(row, source.tools)
            yield opening(messages, keep_reasoning=True), specs
        except TaskError as error:
            yield Remark(number, str(error))


def _format(row: dict[str, Any], wanted: str) -> str:
    if wanted != "auto":
        return wanted
    found = next((name for name, known in FORMATS.items() if known.fits(row)), None)
    if found is None:
        fields = ", ".join(sorted(map(str, row))[:10])
        raise RowError(f"the row is of no known format (fields: {fields}): give one of {', '.join(FORMATS)}")
    return found
