"""The exhaustive reward table of an enumerable one-step environment: what every action brings in every context.

A table has one row per question and one value per action. An environment that is an `OutcomeBandit` gets a table of
outcomes: which option was answered, kept apart from which is right, so that every reward can be derived from one table.
Any other environment with a `Discrete` action space and `question_ids` gets a table of rewards.

Rows are found by a key of the question's content, so that one table serves every set that holds the same questions.
A table knows the versions of the tools and of the reasoner it was filled with, and refuses environments with others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from ..errors import EndpointError, StaleTableError, TableError, UsageError
from ..rewards.subset import SubsetReward, subset_reward

#: Outcomes that are no option: the reply named none (wrong, and counted), or there was no reply (unknown).
UNPARSED, FAILED = -1, -2

#: Name of a table that is in no file.
IN_MEMORY = "the reward table"

#: Called with (finished questions, all questions) whenever one more is finished.
ProgressCallback = Callable[[int, int], None]


class OutcomeBandit(Protocol):
    """What an environment offers beyond Gymnasium so that its table holds outcomes.

    Its actions are subsets of tools (bit i = tool i); `info` after the step has `answer`, a letter or None.

    Attributes:
        question_ids: every context, in a fixed order; `reset(options={"question_id": id})` selects one.
        tool_names: the tools, in the order of the bits.
        versions: what the outcomes depend on besides the questions, as name and version.
    """

    question_ids: Sequence[str]
    tool_names: Sequence[str]
    versions: dict[str, str]

    def question_record(self, question_id: str) -> dict[str, Any]:
        """`key` of the content, `family`, `split`, and `gold`, the index of the right option."""
        ...

    def outcome_rewards(self, question_ids: Sequence[str], outcomes: np.ndarray) -> np.ndarray:
        """(questions, actions) int8 answered options to (questions, actions) float64 rewards."""
        ...


@dataclass(frozen=True)
class Header:
    """What all rows of a table share.

    Attributes:
        kind: `outcomes` (int8 index of the answered option, `UNPARSED` or `FAILED`) or `rewards` (float64, NaN =
            failed).
        n_actions: number of actions.
        tools: names of the tools, in the order of the bits; empty where actions are no tool subsets.
        versions: what the values depend on besides the questions.
    """

    kind: str
    n_actions: int
    tools: tuple[str, ...]
    versions: dict[str, str]

    @classmethod
    def of(cls, env: gym.Env) -> Header:
        """The header of a table of `env`.

        Raises:
            UsageError: `env` is not enumerable; the message names what is missing.
        """
        inner: Any = env.unwrapped
        if not isinstance(inner.action_space, gym.spaces.Discrete) or not hasattr(inner, "question_ids"):
            raise UsageError(
                f"{type(inner).__name__} is not enumerable: it needs `question_ids` and a Discrete action space, "
                f"it has {inner.action_space}"
            )
        n_actions = int(inner.action_space.n)
        if keeps_outcomes(env):
            return cls("outcomes", n_actions, tuple(inner.tool_names), dict(inner.versions))
        return cls("rewards", n_actions, (), dict(getattr(inner, "versions", {})))

    @property
    def dtype(self) -> type[np.generic]:
        """Type of the values."""
        return np.int8 if self.kind == "outcomes" else np.float64

    def missing(self, values: np.ndarray) -> np.ndarray:
        """Where `values` are not known: never filled, or failed."""
        return values == FAILED if self.kind == "outcomes" else np.isnan(values)

    def empty_row(self) -> np.ndarray:
        """A row of which nothing is known."""
        return np.full(self.n_actions, FAILED if self.kind == "outcomes" else np.nan, self.dtype)

    def difference(self, other: Header) -> str:
        """What differs, `self` being a table's header and `other` an environment's; empty if nothing does."""
        if self.kind != other.kind or self.n_actions != other.n_actions:
            mine, its = (f"{h.n_actions} actions with {h.kind}" for h in (self, other))
            changes = [f"table: {mine}, environment: {its}"]
        else:
            changes = []
        for name in sorted({*self.versions, *other.versions}):
            mine, its = self.versions.get(name, "absent"), other.versions.get(name, "absent")
            if mine != its:
                changes.append(f"{name}: table {mine!r}, environment {its!r}")
        return "; ".join(changes)

    def to_json(self) -> dict[str, Any]:
        """The header as plain JSON."""
        return asdict(self) | {"tools": list(self.tools)}


class Rows(Protocol):
    """Where the rows of a table are, sorted by key and id."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> np.ndarray:
        """All of `key`, `id`, `family`, `split` (object arrays of str), `gold` (int8) or `values` (2-d)."""
        ...

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each key: whether it is there (bool), its values (2-d) and its `gold`; zeros where it is not."""
        ...


class MemoryRows:
    """Rows as arrays in memory.

    Args:
        columns: the six columns of `Rows`, each with one entry per row, in any order.
    """

    def __init__(self, columns: dict[str, Any]):
        names = ("key", "id", "family", "split")
        order = sorted(range(len(columns["key"])), key=lambda i: (columns["key"][i], columns["id"][i]))
        self._columns = {name: _objects(columns[name])[order] for name in names}
        self._columns["gold"] = np.asarray(columns["gold"], np.int8)[order]
        self._columns["values"] = np.asarray(columns["values"])[order]
        # The first row of a key counts: rows of one key have the same values.
        self._index = {key: row for row, key in reversed(list(enumerate(self._columns["key"])))}

    def __len__(self) -> int:
        return len(self._columns["key"])

    def column(self, name: str) -> np.ndarray:
        """See `Rows`."""
        return self._columns[name]

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `Rows`."""
        rows = np.array([self._index.get(key, -1) for key in keys], np.int64)
        there = rows >= 0
        values = np.zeros((len(keys), self._columns["values"].shape[1]), self._columns["values"].dtype)
        gold = np.zeros(len(keys), np.int8)
        values[there], gold[there] = self._columns["values"][rows[there]], self._columns["gold"][rows[there]]
        return there, values, gold


class RewardTable:
    """What every action brings in every context of an enumerable one-step environment.

    Args:
        header: what all rows share.
        rows: the rows.
        name: how messages call the table, e.g. its path.
    """

    def __init__(self, header: Header, rows: Rows, name: str = IN_MEMORY):
        self.header = header
        self.rows = rows
        self.name = name

    @classmethod
    def build(
        cls,
        env: gym.Env,
        path: str | os.PathLike | None = None,
        *,
        workers: int | None = None,
        progress: ProgressCallback | None = None,
        resume: bool = True,
    ) -> RewardTable:
        """Fill the table of all questions of `env` through the Gymnasium interface; see `table_build.build_table`."""
        from .table_build import build_table

        return build_table(env, path, workers=workers, progress=progress, resume=resume)

    @classmethod
    def open(cls, path: str | os.PathLike) -> RewardTable:
        """Open a table file. Only its footer is read; rows come when they are asked for.

        Raises:
            TableError: there is no file, or it is torn or no reward table.
            MissingExtraError: pyarrow is not installed.
        """
        from .table_file import open_rows

        header, rows = open_rows(Path(path))
        return cls(header, rows, str(path))

    def save(self, path: str | os.PathLike) -> None:
        """Write the table to a Parquet file, atomically.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        from .table_file import write_rows

        write_rows(Path(path), self.header, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ids(self) -> list[str]:
        """The questions' ids, sorted by key."""
        return self.rows.column("id").tolist()

    @property
    def n_tools(self) -> int:
        """Number of tools; 0 where actions are no tool subsets."""
        return len(self.header.tools)

    def outcomes(self, keys: Sequence[str] | None = None) -> np.ndarray:
        """The answered option of each action: (keys, actions) int8, by default of all rows.

        Raises:
            TableError: the table holds rewards, or lacks a key.
        """
        return self._outcomes_and_gold(keys)[0]

    def correct(self, keys: Sequence[str] | None = None) -> np.ndarray:
        """Whether each action led to the right answer: (keys, actions) bool. Failed outcomes are not right."""
        outcomes, gold = self._outcomes_and_gold(keys)
        return outcomes == gold[:, None]

    def rewards(
        self,
        keys: Sequence[str] | None = None,
        reward: str | Callable | SubsetReward = "eq1",
        parsimony: float = 0.1,
    ) -> np.ndarray:
        """The reward of each action: (keys, actions) float64, NaN where the outcome failed.

        Args:
            keys: content keys; all rows by default.
            reward: how to derive rewards from outcomes; not read if the table holds rewards.
            parsimony: λ of that reward.
        """
        if self.header.kind == "rewards":
            return self._find(keys)[0] if keys is not None else self.rows.column("values")
        outcomes, gold = self._outcomes_and_gold(keys)
        rewards = subset_reward(reward).rows(outcomes == gold[:, None], self.n_tools, parsimony)
        return np.where(outcomes == FAILED, np.nan, rewards)

    def rewards_for(self, env: gym.Env) -> np.ndarray:
        """The rewards of `env`'s own questions under its own reward: (questions, actions), as `env.question_ids`.

        Raises:
            StaleTableError: `env` has other tools, reasoner or questions than the table.
            TableError: an outcome failed when the table was built.
            `EndpointError` if it was built in memory: there is no file that a later build could complete.
        """
        ids, values = self._values_for(env)
        inner: Any = env.unwrapped
        return inner.outcome_rewards(ids, values) if self.header.kind == "outcomes" else values

    def correct_for(self, env: gym.Env) -> np.ndarray:
        """As `rewards_for`, but whether each action leads to the right answer: (questions, actions) bool."""
        self._must_hold_outcomes()
        ids, values = self._values_for(env)
        inner: Any = env.unwrapped
        gold = np.array([inner.question_record(id)["gold"] for id in ids], np.int8)
        return values == gold[:, None]

    def failed(self) -> list[tuple[str, int]]:
        """(question id, action) of every outcome that is not known because the endpoint failed."""
        rows, actions = np.nonzero(self.header.missing(self.rows.column("values")))
        ids = self.rows.column("id")
        return [(ids[row], int(action)) for row, action in zip(rows, actions, strict=True)]

    def select(self, split: str) -> RewardTable:
        """The rows of one split, in memory.

        Raises:
            TableError: no row is of that split.
        """
        chosen = self.rows.column("split") == split
        if not chosen.any():
            present = sorted(set(self.rows.column("split")))
            raise TableError(f"{self.name} has no row of the split {split!r}: it has {', '.join(present) or 'none'}")
        columns = {name: self.rows.column(name)[chosen] for name in COLUMNS}
        return RewardTable(self.header, MemoryRows(columns), f"{self.name} ({split})")

    def check_versions(self, env: gym.Env) -> None:
        """Refuse an environment whose outcomes may differ from the table's.

        Raises:
            StaleTableError: tools, versions or reasoner differ; the message says which.
        """
        difference = self.header.difference(Header.of(env))
        if difference:
            raise StaleTableError(
                f"{self.name} does not fit the environment ({difference}): "
                "build it again with `toolcredit table build --restart`, or use the table's own tools and reasoner"
            )

    def _values_for(self, env: gym.Env) -> tuple[list[str], np.ndarray]:
        self.check_versions(env)
        ids = list(env.unwrapped.question_ids)  # type: ignore[attr-defined]
        there, values, _ = self.rows.find([record_of(env, id)["key"] for id in ids])
        if not there.all():
            absent = [id for id, found in zip(ids, there, strict=True) if not found]
            raise StaleTableError(
                f"{self.name} lacks {len(absent)} of {len(ids)} questions, such as {absent[0]!r}: they are new or were "
                "changed since it was built; `toolcredit table build` adds them"
            )
        failed = int(self.header.missing(values).sum())
        if failed and self.name == IN_MEMORY:
            raise EndpointError(
                f"{failed} outcomes failed: the reasoner's endpoint did not answer. Fill a file with "
                "`toolcredit table build --out FILE`, which asks only for what is missing, and give it as --table"
            )
        if failed:
            raise TableError(
                f"{failed} outcomes in {self.name} failed when it was built and have no reward: "
                "run `toolcredit table build --resume` to try them again"
            )
        return ids, values

    def _outcomes_and_gold(self, keys: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
        self._must_hold_outcomes()
        return self._find(keys) if keys is not None else (self.rows.column("values"), self.rows.column("gold"))

    def _find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        there, values, gold = self.rows.find(keys)
        if not there.all():
            absent = [key for key, found in zip(keys, there, strict=True) if not found]
            raise TableError(f"{self.name} lacks {len(absent)} of {len(keys)} keys, such as {absent[0]!r}")
        return values, gold

    def _must_hold_outcomes(self) -> None:
        if self.header.kind != "outcomes":
            raise TableError(f"{self.name} holds rewards, not outcomes: its environment is no OutcomeBandit")


COLUMNS = ("key", "id", "family", "split", "gold", "values")


def keeps_outcomes(env: gym.Env) -> bool:
    """Whether the unwrapped environment is an `OutcomeBandit`."""
    return hasattr(env.unwrapped, "question_record") and hasattr(env.unwrapped, "outcome_rewards")


def record_of(env: gym.Env, question_id: str) -> dict[str, Any]:
    """`key`, `family`, `split` and `gold` of a question; of an environment without records only the id is known."""
    if keeps_outcomes(env):
        return env.unwrapped.question_record(question_id)  # type: ignore[attr-defined]
    return {"key": question_id, "family": "", "split": "", "gold": -1}


def _objects(values: Any) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array
