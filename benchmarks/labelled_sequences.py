"""Labelled sequences in the files that genomics data sets come in: class folders, tables, FASTA."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..envs.sgls.loaders.rows import RowError, read_rows
from ..errors import QuestionError, TaskError

_SEQUENCE_COLUMNS, _LABEL_COLUMNS = ("sequence", "seq", "dna", "text"), ("label", "class", "target", "labels")


def read_labelled(path: str | Path) -> Iterator[tuple[str, str]]:
    """(sequence, label) of every entry.

    Args:
        path: a folder with a folder of sequence files for each class, as Genomic Benchmarks has them; a CSV or TSV
            file with a header; JSONL, a JSON list or Parquet with such fields; or FASTA with `|LABEL` at the end of
            headers. Columns are `sequence` (`seq`, `dna`, `text`) and `label` (`class`, `target`). `.gz` is unpacked.

    Raises:
        QuestionError: it cannot be read, or has no such columns.
    """
    path = Path(path)
    try:
        if path.is_dir():
            yield from _class_folders(path)
            return
        kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
        if kind in ("csv", "tsv"):
            with _open(path) as file:
                rows: Iterable[Any] = csv.DictReader(file, delimiter="\t" if kind == "tsv" else ",")
                yield from _columns(path, rows)
        elif kind in ("fa", "fasta", "fna"):
            for name, sequence in _fasta(path):
                if "|" not in name:
                    raise QuestionError(f"{path}: the header {name[:60]!r} does not end with |LABEL")
                yield sequence, name.rpartition("|")[2].strip()
        else:
            yield from _columns(path, (row for _, row in read_rows(path)))
    except (OSError, UnicodeDecodeError, csv.Error, TaskError) as error:
        raise QuestionError(f"{path} cannot be read as labelled sequences: {error}") from None


def _open(path: Path) -> Any:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8", newline="")


def _columns(path: Path, rows: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for number, row in enumerate(rows, 1):
        if isinstance(row, RowError):
            raise QuestionError(f"{path}, row {number}: {row}")
        lower = {str(key).lower(): value for key, value in row.items()}
        sequence = next((lower[name] for name in _SEQUENCE_COLUMNS if name in lower), None)
        label = next((lower[name] for name in _LABEL_COLUMNS if name in lower), None)
        if not isinstance(sequence, str) or label is None:
            raise QuestionError(f"{path}, row {number}: expected the columns sequence and label, got {list(row)[:8]}")
        yield sequence, str(label).strip()


def _class_folders(path: Path) -> Iterator[tuple[str, str]]:
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir())
    if not folders:
        raise QuestionError(f"{path} has no folder for each class")
    for folder in folders:
        for file in sorted(folder.iterdir()):
            if file.is_file():
                parts = [sequence for _, sequence in _fasta(file)] or [file.read_text("utf-8")]
                yield from ((sequence, folder.name) for sequence in parts)


def _fasta(path: Path) -> Iterator[tuple[str, str]]:
    name: str | None = None
    parts: list[str] = []
    with _open(path) as file:
        for line in file:
            if line.startswith(">"):
                if name is not None:
                    yield name, "".join(parts)
                name, parts = line[1:].strip(), []
            elif name is not None:
                parts.append(line.strip())
    if name is not None:
        yield name, "".join(parts)
