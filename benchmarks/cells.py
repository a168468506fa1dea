"""Numbers and notes of the report pages, as text and as cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import page
from .page import Html, tag

if TYPE_CHECKING:
    from .report import LearnerRun

Section = tuple[str, str, Html]
"""Anchor, title, content."""
Rows = list[tuple[str, Sequence[object]]]
"""Class of each row, and its cells."""

_SPENT_LABELS = {
    "reasoner_calls": "reasoner calls",
    "scored_tokens": "tokens scored",
    "sampled_tokens": "tokens sampled",
    "trained_tokens": "tokens trained",
    "evaluation_tokens": "tokens of evaluation",
}

SMOOTHED_OVER = 10
"""Updates in the running mean of what is observed per update."""


def noted(content: Html, note: str) -> Html:
    """Content with a small note below."""
    return Html(content + tag("p", note, class_="note muted"))


def difference(estimate: Sequence[float], spec: str) -> Html:
    """A cell with a difference and its interval, coloured where the interval excludes zero.

    An interval of no width is left out, see `stats.Estimate.interval`.
    """
    mean, low, high = estimate
    if not low < high:
        return tag("td", tag("b", f"{mean:{spec}}"))
    colour = "good" if low > 0 else "bad" if high < 0 else ""
    interval = tag("span", f" ({low:{spec}} to {high:{spec}})", class_="muted")
    return tag("td", tag("b", f"{mean:{spec}}", class_=colour), interval)


def smooth(x: list[float], y: list[float]) -> tuple[list[float], list[float]]:
    """Running mean over the last `SMOOTHED_OVER` values."""
    windows = [y[max(0, i + 1 - SMOOTHED_OVER) : i + 1] for i in range(len(y))]
    return x, [sum(window) / len(window) for window in windows]


def as_json(value: object) -> str:
    """Readable JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f}%"


def number(value: float | None, spec: str = ".3f") -> str:
    """A number, or a dash if there is none."""
    return "–" if value is None else format(value, spec)


def count(value: float | None) -> str:
    """A whole number, or a dash if there is none."""
    return "–" if value is None else f"{value:,.0f}"


def p_value(value: float | None) -> str:
    """A probability, however small, or a dash if there is none."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def spent_table(learners: Sequence[LearnerRun]) -> Html | None:
    """What learning cost: updates, seconds, and the running totals of the last record."""
    runs = [run for run in learners if run.metrics]
    keys = list(dict.fromkeys(key for run in runs for key in run.metrics[-1].get("spent", {})))
    header = ["learner", "updates", "seconds", *(_SPENT_LABELS.get(key, key.replace("_", " ")) for key in keys)]
    rows: Rows = []
    for run in runs:
        last = run.metrics[-1]
        amounts = [last.get("update"), last.get("seconds"), *(last.get("spent", {}).get(key) for key in keys)]
        rows.append(("", [run.name, *map(count, amounts)]))
    return page.table(header, rows) if rows else None


def made_with_parts(configs: Mapping[str, Any], versions: Mapping[str, str]) -> Html:
    """Configurations, folded away, and versions."""
    parts = [
        tag("details", tag("summary", f"Configuration of {name}"), tag("pre", as_json(value)))
        for name, value in configs.items()
        if value
    ]
    if versions:
        parts.append(page.table(["software", "version"], [("", list(item)) for item in versions.items()]))
    return Html("".join(parts))
