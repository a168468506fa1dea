"""Rows of a file, one at a time: JSON lines, a JSON list, or Parquet; what cannot be read is told, not dropped."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....errors import MissingExtraError, TaskError
from ..json_strict import StrictJsonError, loads
from ..parsers.pythonic import read_literal

MAX_ROW_CHARS = 32_000_000
MAX_TEXT_CHARS = 8_000_000
_BATCH = 256


class RowError(TaskError):
    """A row cannot be used; the message is the reason."""


def read_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any] | RowError]]:
    """The rows of a file with their numbers, counted from 1; instead of an unreadable row the reason.

    Args:
        path: `.parquet`, or JSON in any other file (`.gz` is unpacked): one object a line, or a list of objects.

    Raises:
        TaskError: the file is missing or no file of rows.
        MissingExtraError: Parquet needs pyarrow.
    """
    path = Path(path)
    if not path.is_file():
        raise TaskError(f"there is no file {str(path)!r}: expected a file of rows (Parquet, JSONL or a JSON list)")
    if path.suffix == ".parquet":
        yield from enumerate(_parquet(path), 1)
    else:
        yield from _json(path)


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "table", "reading Parquet") from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these
        raise TaskError(f"{path} is no Parquet file that can be read: {error}") from None


def _json(path: Path) -> Iterator[tuple[int, dict[str, Any] | RowError]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            lines = enumerate(file, 1)
            first = next(((number, line) for number, line in lines if line.strip()), None)
            if first is None:
                return
            if first[1].lstrip().startswith("["):
                yield from enumerate(_array(path, "".join([first[1], *(line for _, line in lines)])), 1)
                return
            for number, line in itertools.chain([first], lines):
                if line.strip():
                    yield number, _row(line)
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise TaskError(f"{path} cannot be read as UTF-8 text: {error}") from None


def _array(path: Path, text: str) -> Iterator[dict[str, Any] | RowError]:
    try:
        rows = loads(text, max_chars=len(text))
    except StrictJsonError as error:
        raise TaskError(f"{path} is neither one JSON object a line nor a JSON list of objects: {error}") from None
    for row in rows:
        yield row if isinstance(row, dict) else RowError("the row is no JSON object")


def _row(line: str) -> dict[str, Any] | RowError:
    try:
        row = loads(line, max_chars=MAX_ROW_CHARS)
    except StrictJsonError as error:
        return RowError(str(error))
    return row if isinstance(row, dict) else RowError("the row is no JSON object")


def decode(value: Any, what: str) -> Any:
    """A value that may be written as JSON, or as a Python literal, in a string.

    Args:
        value: anything; only a string is decoded.
        what: names it in the error.

    Raises:
        RowError: the string is neither.
    """
    if not isinstance(value, str):
        return value
    try:
        return loads(value, max_chars=MAX_TEXT_CHARS)
    except StrictJsonError as error:
        if len(value) <= MAX_TEXT_CHARS:
            try:
                return read_literal(value)
            except StrictJsonError:
                pass  # the message about JSON is the useful one
        raise RowError(f"{what} is neither JSON nor a Python literal: {error}") from None
