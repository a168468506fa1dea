"""Intervals of what a benchmark run measures: of means over attempts, and of aggregates by resampling tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .stats import Estimate, bootstrap_mean, wilson
from .suite import Attempt, Suite

_MEAN_DRAWS = 2_000
_AGGREGATE_DRAWS = 300

Values = dict[str, float | None]


def mean_with_interval(values: Sequence[float], tasks: Sequence[str]) -> dict[str, Any]:
    """`{"mean", "ci", "n"}`: Wilson's interval for a rate over tasks of one trial each, else a bootstrap over tasks.

    Where a bootstrap is due and all tasks came out alike, `ci` is None, see `Estimate.interval`.

    Args:
        values: (n,) float, one per attempt.
        tasks: (n,) the task of each.
    """
    n = len(values)
    if len(set(tasks)) == n and all(value in (0, 1) for value in values):
        return {"mean": sum(values) / n, "ci": list(wilson(sum(values), n)), "n": n}
    estimate = bootstrap_mean(values, tasks, draws=_MEAN_DRAWS)
    return {"mean": estimate.mean, "ci": estimate.interval, "n": n}


def aggregates(attempts: Sequence[Attempt], suite: Suite | None) -> Values:
    """The suite's aggregates, and `micro`."""
    own = {} if suite is None else suite.aggregate(attempts)
    return {**own, "micro": sum(attempt.success for attempt in attempts) / len(attempts)}


def aggregate_intervals(runs: Sequence[Sequence[Attempt]], suite: Suite | None) -> dict[str, list[float] | None]:
    """Percentile intervals of 95 % of the aggregates of a run, or of the differences of two runs, first minus second.

    Tasks are drawn with replacement within their categories; for two runs the same ones, so that the difference is
    paired. None where an aggregate is None, and where resampling tells nothing: of one task, or of tasks all alike.

    Args:
        runs: attempts of one run, or of two runs on the same tasks.
        suite: computes the aggregates.
    """
    strata = [
        _Stratum([by_task[category] for by_task in map(_by_category, runs)]) for category in _by_category(runs[0])
    ]
    names = aggregates(runs[0], suite)
    if sum(stratum.size for stratum in strata) < 2:
        return dict.fromkeys(names)
    rng = np.random.default_rng(0)
    drawn: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(_AGGREGATE_DRAWS):
        parts: list[list[Attempt]] = [[] for _ in runs]
        for stratum in strata:
            stratum.draw_into(parts, rng)
        values = [aggregates(part, suite) for part in parts]
        for name in names:
            known = [v for value in values if (v := value.get(name)) is not None]
            if len(known) == len(runs):
                drawn[name].append(known[0] - sum(known[1:]))
    return {name: _percentiles(d) if d else None for name, d in drawn.items()}


def _percentiles(values: Sequence[float]) -> list[float] | None:
    return Estimate(float(np.mean(values)), *np.quantile(values, [0.025, 0.975]).tolist()).interval


ByTask = dict[str, list[Attempt]]


def _by_category(attempts: Sequence[Attempt]) -> dict[str, ByTask]:
    found: dict[str, ByTask] = {}
    for attempt in attempts:
        found.setdefault(attempt.task.category, {}).setdefault(attempt.task.id, []).append(attempt)
    return found


class _Stratum:
    """The tasks of one category. One that is drawn again gets another id, so as not to be taken for more trials."""

    def __init__(self, runs: Sequence[Mapping[str, list[Attempt]]]):
        self._ids = list(runs[0])
        self.size = len(self._ids)
        self._copies = [[[run[task_id]] for task_id in self._ids] for run in runs]

    def draw_into(self, parts: Sequence[list[Attempt]], rng: np.random.Generator) -> None:
        """Add as many tasks as there are, drawn with replacement, to each run's part."""
        for index, count in Counter(rng.integers(self.size, size=self.size).tolist()).items():
            for part, tasks in zip(parts, self._copies, strict=True):
                copies = tasks[index]
                while len(copies) < count:
                    task = replace(copies[0][0].task, id=f"{self._ids[index]}#{len(copies)}")
                    copies.append([replace(attempt, task=task) for attempt in copies[0]])
                for copy in copies[:count]:
                    part += copy
