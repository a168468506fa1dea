"""What studies with seeds share: running what is not finished, means over seeds with intervals, cells of tables."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from ..experiment import TrainingPlan, is_finished, train_side_by_side
from ..stats import t_interval


def add_seeds(parser: ArgumentParser, most: int, default: int) -> None:
    """The option `--seeds`; a single one is refused before hours of work: it has no interval."""
    shown = f"seeds per arm, at most {most}"
    parser.add_argument("--seeds", type=int, default=default, choices=range(2, most + 1), help=shown)


def run(plans: Sequence[TrainingPlan], workers: int, shown: str = "dev_reward") -> None:
    """Carry out what is not finished yet, one line per finished run.

    Args:
        plans: the runs.
        workers: training processes at once.
        shown: entry of the last metrics record that the line shows.
    """
    left = [p for p in plans if not is_finished(p)]
    totals = [p.learner().total_updates for p in left]  # type: ignore[attr-defined]

    def report(index: int, record: dict[str, Any]) -> None:
        if record["update"] == totals[index]:
            print(f"{left[index].out}: {shown} {record.get(shown, float('nan')):.3f}", flush=True)

    train_side_by_side(left, resume=True, on_record=report, workers=workers)


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean over seeds with its 95 % t interval."""
    found = t_interval(values)
    return {"mean": found.mean, "low": found.low, "high": found.high}


def cell(found: Mapping[str, float], sign: str = "+") -> str:
    """The mean and its interval, for a Markdown table."""
    return f"{found['mean']:{sign}.3f} [{found['low']:{sign}.3f}, {found['high']:{sign}.3f}]"
