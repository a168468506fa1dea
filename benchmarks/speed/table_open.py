"""How fast a large reward table opens, and what looking questions up in it costs.

    python -m toolcredit.benchmarks.speed.table_open --rows 1000000

Makes a table of random outcomes, then measures in a fresh process: seconds to open it, milliseconds per look-up of one
question, seconds for a thousand questions at once, and the MB of memory that the process then holds more than before
(where the system tells; pages of the mapped file, which it can drop at any time, do not count).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ...envs.table import Header, MemoryRows, RewardTable

LOOK_UPS = 1000


def key_of(number: int) -> str:
    """A key as long as that of a question."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def make_table(path: Path, rows: int) -> None:
    """A table of `rows` questions and four tools with random outcomes."""
    rng = np.random.default_rng(0)
    columns = {
        "key": [key_of(i) for i in range(rows)],
        "id": [f"question-{i}" for i in range(rows)],
        "family": [f"family-{i % 5}" for i in range(rows)],
        "split": ["train"] * rows,
        "gold": rng.integers(0, 4, rows),
        "values": rng.integers(-1, 4, (rows, 16)).astype(np.int8),
    }
    header = Header("outcomes", 16, ("a", "b", "c", "d"), {"tools": "a, b, c, d"})
    RewardTable(header, MemoryRows(columns)).save(path)


def measure(path: Path, rows: int) -> dict[str, float]:
    """Open the table and look questions up; to be run in a fresh process, so that nothing is cached in it."""
    import pyarrow.parquet  # noqa: F401 - importing pyarrow is no part of opening a table

    keys = [key_of(int(i)) for i in np.random.default_rng(1).integers(0, rows, LOOK_UPS)]
    memory = _held_mb()
    seconds = [time.perf_counter()]
    table = RewardTable.open(path)
    seconds.append(time.perf_counter())
    for key in keys:
        table.outcomes([key])
    seconds.append(time.perf_counter())
    table.outcomes(keys)
    seconds.append(time.perf_counter())
    opening, single, together = np.diff(seconds)
    return {
        "rows": rows,
        "file_mb": round(path.stat().st_size / 2**20, 1),
        "open_s": round(opening, 4),
        "look_up_ms": round(1000 * single / LOOK_UPS, 3),
        "thousand_at_once_s": round(together, 3),
        "grown_mb": round(_held_mb() - memory, 1),
    }


def _held_mb() -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), float("nan"))


def main() -> None:
    """Make the table, measure in another process, print JSON."""
    parser = argparse.ArgumentParser(description="Measure opening and looking up a large reward table.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.measure, arguments.rows)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        make_table(path, arguments.rows)
        command = [sys.executable, "-m", __spec__.name, "--rows", str(arguments.rows), "--measure", str(path)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
