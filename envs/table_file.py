"""Reward tables on disk: Parquet, sorted by key, read row group by row group.

Layout: columns `key`, `id`, `family`, `split` (strings), `gold` (int8), `values` (fixed-size list of int8 outcomes or
float64 rewards), uncompressed, so that a memory-mapped file is read without a copy. The schema's metadata entry
`toolcredit` is JSON: format number, header, and the first key of each row group. Opening reads the footer alone; a
look-up finds its row group by bisection and keeps a few of them.
"""

from __future__ import annotations

import io
import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingExtraError, TableError
from ..runs import write_atomic
from .table import COLUMNS, Header, Rows

FORMAT = 1
ROWS_PER_GROUP = 4096
_GROUPS_KEPT = 8
_METADATA = b"toolcredit"


def write_rows(path: Path, header: Header, rows: Rows) -> None:
    """Write a table file atomically; equal rows give equal bytes."""
    pyarrow, parquet = import_pyarrow()
    columns = {name: rows.column(name) for name in COLUMNS}
    arrays = {name: pyarrow.array(columns[name], pyarrow.string()) for name in ("key", "id", "family", "split")}
    arrays["gold"] = pyarrow.array(columns["gold"], pyarrow.int8())
    flat = pyarrow.array(np.ascontiguousarray(columns["values"], header.dtype).reshape(-1))
    arrays["values"] = pyarrow.FixedSizeListArray.from_arrays(flat, header.n_actions)
    about = {"format": FORMAT, **header.to_json(), "first_keys": columns["key"][::ROWS_PER_GROUP].tolist()}
    table = pyarrow.table(arrays).replace_schema_metadata({_METADATA: json.dumps(about, sort_keys=True)})
    buffer = io.BytesIO()
    parquet.write_table(
        table,
        buffer,
        row_group_size=ROWS_PER_GROUP,
        compression="NONE",
        use_dictionary=["family", "split"],
        write_statistics=False,
    )
    write_atomic(path, buffer.getvalue())


def open_rows(path: Path) -> tuple[Header, ParquetRows]:
    """The header and the rows of a table file.

    Raises:
        TableError: there is no file, or it is torn, no reward table, or of a later format.
    """
    pyarrow, parquet = import_pyarrow()
    if not path.is_file():
        raise TableError(f"there is no reward table {path}: build it with `toolcredit table build --out {path}`")
    try:
        file = parquet.ParquetFile(path, memory_map=True)
        schema = file.schema_arrow
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TableError(f"{path} cannot be read as a Parquet file ({reason}): it is torn or no reward table") from None
    try:
        about = json.loads((schema.metadata or {})[_METADATA])
        header = Header(about["kind"], about["n_actions"], tuple(about["tools"]), dict(about["versions"]))
        values = schema.field("values").type
        fits = (
            about["format"] == FORMAT
            and tuple(schema.names) == COLUMNS
            and values.list_size == header.n_actions
            and values.value_type.to_pandas_dtype() == header.dtype
            and len(about["first_keys"]) == file.metadata.num_row_groups
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        fits = False
    if not fits:
        raise TableError(
            f"{path} is a Parquet file, but no reward table of format {FORMAT}: build it with `toolcredit table build`"
        )
    length = file.metadata.num_rows
    file.close()
    return header, ParquetRows(path, header, about["first_keys"], length)


class ParquetRows:
    """Rows of a table file; see `table.Rows`.

    Args:
        path: the file.
        header: the table's header.
        first_keys: first key of each row group, ascending.
        length: number of rows.
    """

    def __init__(self, path: Path, header: Header, first_keys: list[str], length: int):
        self._path = path
        self._header = header
        self._first_keys = first_keys
        self._length = length

    def __len__(self) -> int:
        return self._length

    def column(self, name: str) -> np.ndarray:
        """See `Rows`. Reads the whole column."""
        return self._to_numpy(self._file.read(columns=[name]).column(0))

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Rows`. Reads only the row groups that may hold the keys, each once."""
        there = np.zeros(len(keys), bool)
        values = np.zeros((len(keys), self._header.n_actions), self._header.dtype)
        gold = np.zeros(len(keys), np.int8)
        groups = [bisect_right(self._first_keys, key) - 1 for key in keys]
        for position in sorted(range(len(keys)), key=groups.__getitem__):
            if groups[position] < 0:
                continue
            key, group = keys[position], self._group(groups[position])
            row = bisect_left(range(len(group["key"])), key, key=lambda row: group["key"][row].as_py())
            if row < len(group["key"]) and group["key"][row].as_py() == key:
                there[position], values[position], gold[position] = True, group["values"][row], group["gold"][row]
        return there, values, gold

    @cached_property
    def _file(self) -> Any:
        return import_pyarrow()[1].ParquetFile(self._path, memory_map=True)

    @cached_property
    def _group(self) -> Any:
        return lru_cache(_GROUPS_KEPT)(self._read_group)

    def _read_group(self, number: int) -> dict[str, Any]:
        group = self._file.read_row_group(number, columns=["key", "gold", "values"])
        arrays = {name: self._to_numpy(group.column(name)) for name in ("values", "gold")}
        return {"key": group.column("key").combine_chunks(), **arrays}

    def _to_numpy(self, column: Any) -> np.ndarray:
        pyarrow, _ = import_pyarrow()
        array = column.combine_chunks()
        if pyarrow.types.is_fixed_size_list(array.type):
            return array.flatten().to_numpy(zero_copy_only=False).reshape(-1, self._header.n_actions)
        return array.to_numpy(zero_copy_only=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_file", "_group")}


def import_pyarrow() -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`, imported only when a table file is used.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "table", "reading and writing reward tables") from None
    return pyarrow, pyarrow.parquet
