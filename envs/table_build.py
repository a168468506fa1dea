"""Filling a reward table: through the Gymnasium interface, in parallel, and so that a kill loses nothing finished.

Every finished question is appended to a journal beside the output. A build that is started again reads the journal (and
the table, if there is one), asks only for what is missing or failed, writes the table atomically and removes the
journal. The table does not depend on how often the build was interrupted.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ..errors import EndpointError, StaleTableError, TableError, UsageError
from ..runs import JsonLines, read_jsonl
from .table import COLUMNS, UNPARSED, Header, MemoryRows, ProgressCallback, RewardTable, record_of

#: Stop after this many questions in a row of which no outcome could be had: the endpoint is down or misconfigured.
GIVE_UP_AFTER = 5


def build_table(
    env: gym.Env,
    path: str | os.PathLike | None = None,
    *,
    workers: int | None = None,
    progress: ProgressCallback | None = None,
    resume: bool = True,
) -> RewardTable:
    """Fill the table of all questions of `env`.

    Args:
        env: an enumerable one-step environment. Its `reasoner_calls` also count the calls made in workers.
        path: Parquet file to write; without one the table stays in memory and pyarrow is not needed. Outcomes that
            failed are listed in `<path>.failed.jsonl`. A table that is there already keeps its other questions.
        workers: how many questions to fill at once: in threads if `env.concurrency` says that it waits on an endpoint
            (at most that many), else in processes. Default: that concurrency. A script that uses processes needs
            `if __name__ == "__main__":`.
        progress: called with (finished, all) questions.
        resume: go on with the journal and the table at `path`; False starts over.

    Raises:
        StaleTableError: the journal or the table at `path` was made with other tools or another reasoner.
        EndpointError: several questions in a row got no outcome at all. What is finished stays in the journal.
    """
    header = Header.of(env)
    plan = [record_of(env, id) | {"id": id} for id in env.unwrapped.question_ids]  # type: ignore[attr-defined]
    store = _Store(Path(path), header, env, resume) if path is not None else _NoStore()
    known = {record["key"]: header.empty_row() for record in plan} | store.load([record["key"] for record in plan])
    first_ids = {record["key"]: record["id"] for record in reversed(plan)}
    unknown = {key: np.flatnonzero(header.missing(row)).tolist() for key, row in known.items()}
    tasks = [_Task(first_ids[key], key, known[key], actions) for key, actions in unknown.items() if actions]
    failures: dict[str, dict[int, str]] = {}
    hopeless = 0
    if progress is not None:
        progress(len(known) - len(tasks), len(known))
    with closing(store), closing(_run(env, tasks, workers)) as results:
        for done, result in enumerate(results, 1 + len(known) - len(tasks)):
            key, question_id = result.task.key, result.task.question_id
            known[key] = result.values
            if result.failures:
                failures[question_id] = result.failures
            nothing = header.missing(result.values).all()
            hopeless = hopeless + 1 if nothing else 0
            if hopeless == GIVE_UP_AFTER:
                raise EndpointError(
                    f"no outcome of {hopeless} questions in a row could be had, the last failure being: "
                    f"{next(iter(result.failures.values()))}. Finished questions are kept: build again to go on"
                )
            if not nothing:
                store.append(key, result.values)
            if progress is not None:
                progress(done, len(known))
    columns: dict[str, Any] = {name: [record[name] for record in plan] for name in COLUMNS if name != "values"}
    columns["values"] = np.stack([known[record["key"]] for record in plan])
    return store.finish(RewardTable(header, MemoryRows(columns)), failures)


# ----------------------------------------------------------------------------------------------------- filling a row


@dataclass
class _Task:
    """One question, what is known of its row, and the actions to take."""

    question_id: str
    key: str
    values: np.ndarray
    actions: list[int]


@dataclass
class _Result:
    """A task's row after the work, messages of the actions that failed, and how often the reasoner was asked."""

    task: _Task
    values: np.ndarray
    failures: dict[int, str] = field(default_factory=dict)
    reasoner_calls: int = 0


def _fill(env: gym.Env, task: _Task) -> _Result:
    """Take the task's actions."""
    before = getattr(env.unwrapped, "reasoner_calls", 0)
    result = _Result(task, task.values.copy())
    for action in task.actions:
        env.reset(options={"question_id": task.question_id})
        try:
            _, reward, terminated, _, info = env.step(action)
        except EndpointError as error:
            result.failures[action] = str(error)
            continue
        if not terminated:
            raise UsageError(f"{type(env.unwrapped).__name__} is no one-step environment: its episode went on")
        if task.values.dtype == np.int8:
            answer = info["answer"]
            result.values[action] = UNPARSED if answer is None else ord(answer) - ord("A")
        else:
            result.values[action] = reward
    result.reasoner_calls = getattr(env.unwrapped, "reasoner_calls", 0) - before
    return result


# -------------------------------------------------------------------------------------------------------- in parallel


def _run(env: gym.Env, tasks: Sequence[_Task], workers: int | None) -> Generator[_Result, None, None]:
    """Results in the order in which they are finished."""
    concurrency = getattr(env.unwrapped, "concurrency", 1)
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise UsageError(f"workers must be an integer of at least 1, got {workers!r}")
    workers = min(workers or concurrency, concurrency if concurrency > 1 else len(tasks) or 1, len(tasks) or 1)
    if workers == 1:
        for task in tasks:
            yield _fill(env, task)
        return
    try:
        copy = pickle.dumps(env)
    except Exception as error:
        raise UsageError(f"the environment cannot be copied to {workers} workers ({error}): use workers=1") from None
    with _threads(copy, workers) if concurrency > 1 else _processes(copy, workers) as pool:
        yield from _spread(pool, env, tasks, workers)


def _spread(pool: Executor, env: gym.Env, tasks: Sequence[_Task], workers: int) -> Generator[_Result, None, None]:
    waiting: set[Future[_Result]] = set()
    remaining = iter(tasks)
    try:
        while True:
            # A short queue keeps every worker busy; all tasks at once would hold a million rows twice.
            while len(waiting) < 2 * workers and (task := next(remaining, None)) is not None:
                waiting.add(pool.submit(_fill_in_worker, task))
            if not waiting:
                return
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                result = future.result()
                if hasattr(env.unwrapped, "reasoner_calls"):
                    env.unwrapped.reasoner_calls += result.reasoner_calls
                yield result
    finally:
        for future in waiting:
            future.cancel()


_worker = threading.local()


def _threads(copy: bytes, workers: int) -> Executor:
    return ThreadPoolExecutor(workers, initializer=_start_worker, initargs=(copy,))


def _processes(copy: bytes, workers: int) -> Executor:
    import multiprocessing

    # Not fork: the parent may hold threads and locks (torch, an HTTP client) that a fork would copy half-way.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, initializer=_start_process, initargs=(copy,))


def _start_worker(copy: bytes) -> None:
    _worker.env = pickle.loads(copy)  # noqa: S301 - made by this process a moment ago, never a file


def _start_process(copy: bytes) -> None:
    import multiprocessing
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops the workers
    threading.Thread(target=_die_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    _start_worker(copy)


def _die_with(parent: Any) -> None:
    """End this process when its parent is gone: a parent that was killed cannot stop its workers."""
    parent.join()
    os._exit(1)


def _fill_in_worker(task: _Task) -> _Result:
    return _fill(_worker.env, task)


# ---------------------------------------------------------------------------------------------------------- on disk


class _NoStore:
    """Nothing on disk."""

    def load(self, keys: Sequence[str]) -> dict[str, np.ndarray]:
        return {}

    def append(self, key: str, row: np.ndarray) -> None:
        pass

    def finish(self, table: RewardTable, failures: dict[str, dict[int, str]]) -> RewardTable:
        return table

    def close(self) -> None:
        pass


class _Store:
    """The table file and the journal beside it."""

    def __init__(self, path: Path, header: Header, env: gym.Env, resume: bool):
        from .table_file import import_pyarrow

        import_pyarrow()  # to fail now rather than after the work
        if path.is_dir():
            raise TableError(f"{path} is a folder: give the name of the table file")
        self._path = path
        self._header = header
        self._failed = path.with_name(path.name + ".failed.jsonl")
        self._journal = JsonLines(path.with_name(path.name + ".journal"))
        self._table: RewardTable | None = None
        if not resume:
            self._journal.path.unlink(missing_ok=True)
        elif path.exists():
            self._table = RewardTable.open(path)
            self._table.check_versions(env)

    def load(self, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """Rows of `keys` that the table or the journal has."""
        rows: dict[str, np.ndarray] = {}
        if self._table is not None:
            there, values, _ = self._table.rows.find(keys)
            rows = {key: row for key, row, found in zip(keys, values, there, strict=True) if found}
        wanted = set(keys)
        self._journal.truncate_torn_line()
        records = read_jsonl(self._journal.path)
        first = next(records, None)
        if first is None:
            self._start_journal()
        elif first.get("header") != self._header.to_json():
            self._refuse_journal(first)
        for record in records:
            if record["key"] in wanted:
                row = [np.nan if value is None else value for value in record["values"]]
                rows[record["key"]] = np.array(row, self._header.dtype)
        return rows

    def append(self, key: str, row: np.ndarray) -> None:
        """Put a row on disk."""
        values = [None if value != value else value for value in row.tolist()]  # NaN is not JSON
        self._journal.append({"key": key, "values": values})

    def finish(self, table: RewardTable, failures: dict[str, dict[int, str]]) -> RewardTable:
        """Write the table with the rows of other questions that the file had, list what failed, remove the journal."""
        self._with_former_rows(table).save(self._path)
        self._failed.unlink(missing_ok=True)
        if failures:
            with JsonLines(self._failed) as file:
                for question_id, messages in failures.items():
                    for action, message in messages.items():
                        file.append({"id": question_id, "action": action, "error": message})
        self._journal.close()
        self._journal.path.unlink()
        return RewardTable.open(self._path)

    def close(self) -> None:
        """Close the journal and keep it."""
        self._journal.close()

    def _with_former_rows(self, table: RewardTable) -> RewardTable:
        if self._table is None:
            return table
        new = {name: table.rows.column(name) for name in COLUMNS}
        former = {name: self._table.rows.column(name) for name in COLUMNS}
        present = set(zip(new["key"], new["id"], strict=True))
        others = [i for i, pair in enumerate(zip(former["key"], former["id"], strict=True)) if pair not in present]
        joined = {name: np.concatenate([new[name], former[name][others]]) for name in COLUMNS}
        there, values, _ = table.rows.find(joined["key"].tolist())
        joined["values"][there] = values[there]  # a question that has another id here has the same outcomes
        return RewardTable(self._header, MemoryRows(joined))

    def _start_journal(self) -> None:
        try:
            self._journal.append({"header": self._header.to_json()})
        except OSError as error:
            raise TableError(f"{self._path} cannot be written ({error}): give another name") from None

    def _refuse_journal(self, first: dict[str, Any]) -> None:
        try:
            stored = first["header"]
            header = Header(stored["kind"], stored["n_actions"], tuple(stored["tools"]), stored["versions"])
            difference = header.difference(self._header)
        except (KeyError, TypeError):
            difference = "it is no journal of a reward table"
        raise StaleTableError(
            f"{self._journal.path} is of a build that does not fit ({difference}): "
            "finish it with its own settings, or start over with --restart"
        )
