"""Two runs of one suite on the same tasks: paired tests, paired differences, and the tasks on which they differ."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

from ..errors import UsageError
from ..runs import differences
from .intervals import aggregate_intervals, aggregates
from .records import read_attempts
from .results import run_config, usable_suite
from .stats import bootstrap_mean, mcnemar
from .suite import Attempt

Pair = tuple[Attempt, Attempt]


def compare_runs(folders: Sequence[str | os.PathLike]) -> list[dict[str, Any]]:
    """Every pair of some runs, see `compare`.

    Raises:
        UsageError: fewer than two runs, runs of different suites, or runs without a common task.
    """
    if len(folders) < 2:
        raise UsageError(f"a comparison needs two runs at least, got {len(folders)}")
    return [compare(first, second) for first, second in itertools.combinations(folders, 2)]


def compare(first: str | os.PathLike, second: str | os.PathLike) -> dict[str, Any]:
    """Two runs on their common attempts; every difference is first minus second. Plain JSON.

    Returns:
        `first` and `second` (`run`, `agent`), `suite`, `n`, `left_out` (attempts of one run only), `changes` (what the
        runs were made with and is not the same), `overall` and each of `categories` with `n`, `first`, `second`,
        `difference`, `ci` (paired bootstrap over tasks), `first_only`, `second_only` and `p_value` (McNemar's exact
        test; None where tasks were played several times, since trials of a task are not independent); `aggregates`
        with `first`, `second`, `difference`, `ci`; and `attempts`, those with different verdicts.

    Raises:
        UsageError: the runs are of different suites or have no common attempt.
    """
    configs = [run_config(folder) for folder in (first, second)]
    if configs[0]["suite"] != configs[1]["suite"]:
        raise UsageError(f"{first} is a run of {configs[0]['suite']}, {second} one of {configs[1]['suite']}")
    runs = [
        {(a.task.id, a.trial): a for a in read_attempts(folder, config["trials"])}
        for folder, config in zip((first, second), configs, strict=True)
    ]
    common = [key for key in runs[0] if key in runs[1]]
    if not common:
        raise UsageError(f"{first} and {second} have no task in common")
    pairs = [(runs[0][key], runs[1][key]) for key in common]
    suite = usable_suite(configs[0])
    values = [aggregates([pair[side] for pair in pairs], suite) for side in (0, 1)]
    intervals = aggregate_intervals([[pair[side] for pair in pairs] for side in (0, 1)], suite)
    return {
        "suite": configs[0]["suite"],
        "first": {"run": str(first), "agent": configs[0]["agent"]},
        "second": {"run": str(second), "agent": configs[1]["agent"]},
        "n": len(pairs),
        "left_out": sum(len(run) - len(pairs) for run in runs),
        "changes": [
            f"{name}: {one!r} / {other!r}"
            for name, one, other in differences(configs[0]["identity"], configs[1]["identity"])
        ],
        "overall": _difference(pairs),
        "categories": {
            name: _difference([pair for pair in pairs if pair[0].task.category == name])
            for name in dict.fromkeys(pair[0].task.category for pair in pairs)
        },
        "aggregates": {
            name: _aggregate_difference(value, values[1].get(name)) | {"ci": intervals[name]}
            for name, value in values[0].items()
        },
        "attempts": [
            {
                "task": a.task.id,
                "trial": a.trial,
                "category": a.task.category,
                "first": a.success,
                "second": b.success,
                "states": [a.state, b.state],
            }
            for a, b in pairs
            if a.success != b.success
        ],
    }


def _difference(pairs: Sequence[Pair]) -> dict[str, Any]:
    one, other = [a.success for a, _ in pairs], [b.success for _, b in pairs]
    tasks = [a.task.id for a, _ in pairs]
    difference = bootstrap_mean([a - b for a, b in zip(one, other, strict=True)], tasks, draws=2_000)
    test = mcnemar(one, other)
    return {
        "n": len(pairs),
        "first": sum(one) / len(one),
        "second": sum(other) / len(other),
        "difference": difference.mean,
        "ci": difference.interval,
        "first_only": test.first_only,
        "second_only": test.second_only,
        "p_value": test.p_value if len(set(tasks)) == len(tasks) else None,
    }


def _aggregate_difference(one: float | None, other: float | None) -> dict[str, float | None]:
    return {"first": one, "second": other, "difference": None if one is None or other is None else one - other}
