"""The overall scores that are published for BFCL, each under its own name. They differ by many points on one run.

* `v3_overall` (bfcl-eval 2025.7.17): the mean of non-live, live and multi-turn. Non-live: the mean of simple (itself
  the mean of Python, Java, JavaScript), multiple, parallel, parallel_multiple and irrelevance. Live: its six
  categories weighted by size. Multi-turn: the mean of its four.
* `v4_overall` (bfcl-eval 2026.3.23): 10 % non-live, 10 % live, both without irrelevance; 10 % the mean of both
  irrelevances; 30 % multi-turn; 40 % agentic, which is not run here and counts as 0, as in the official tables.
* `single_turn_overall`: of the SLCA-GRPO paper, by evalscope: the mean of non-live (simple group, multiple, parallel,
  parallel_multiple) and live (its four categories with calls, weighted by size), over the categories that were run;
  without irrelevance and relevance.
* `micro`: the share of right entries among all that were run.

In the two official overall scores a category that was not run counts as 0, as in the official tables; their parts have
no value then. A live category that was not run weighs with its full size, one that was run with the entries run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from .categories import Version

_SIMPLE = ("simple_python", "simple_java", "simple_javascript")
_NON_LIVE_CALLS = ("multiple", "parallel", "parallel_multiple")
_LIVE_CALLS = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
_LIVE_OTHERS = ("live_irrelevance", "live_relevance")
_MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")


def aggregates(counts: Mapping[str, tuple[int, int]], version: Version) -> dict[str, float | None]:
    """Every overall score and its parts, each from 0 to 1; parts of which a category was not run are None.

    Args:
        counts: right entries and entries run, by category (the names of either version).
        version: the release that was run; both releases' formulas are given for either.

    Raises:
        UnknownNameError: a category does not exist.
    """
    run = {version.category(name).common_name: count for name, count in counts.items() if count[1]}
    table = _Table(run, {category.common_name: category.size for category in version.categories.values()})
    simple = table.mean(_SIMPLE)
    calls = fmean([simple, *map(table.score, _NON_LIVE_CALLS)])
    irrelevance = table.mean(("irrelevance", "live_irrelevance"))
    multi_turn, live_calls = table.mean(_MULTI_TURN), table.weighted(_LIVE_CALLS)
    non_live = fmean([simple, *map(table.score, (*_NON_LIVE_CALLS, "irrelevance"))])
    live = table.weighted(_LIVE_CALLS + _LIVE_OTHERS)
    all_calls = _SIMPLE + _NON_LIVE_CALLS
    return {
        "v3_overall": fmean([non_live, live, multi_turn]),
        "v3_non_live": table.if_run(non_live, (*all_calls, "irrelevance")),
        "v3_live": table.if_run(live, _LIVE_CALLS + _LIVE_OTHERS),
        "v4_overall": 0.1 * (calls + live_calls + irrelevance) + 0.3 * multi_turn,
        "v4_non_live": table.if_run(calls, all_calls),
        "v4_live": table.if_run(live_calls, _LIVE_CALLS),
        "v4_irrelevance": table.if_run(irrelevance, ("irrelevance", "live_irrelevance")),
        "multi_turn": table.if_run(multi_turn, _MULTI_TURN),
        **_single_turn(run),
        "micro": sum(right for right, _ in run.values()) / sum(n for _, n in run.values()) if run else None,
    }


@dataclass(frozen=True)
class _Table:
    """Counts by common name, with the official rule for what was not run."""

    run: Mapping[str, tuple[int, int]]
    sizes: Mapping[str, int]

    def score(self, name: str) -> float:
        right, n = self.run.get(name, (0, 1))
        return right / n

    def mean(self, names: Sequence[str]) -> float:
        return fmean(map(self.score, names))

    def weighted(self, names: Sequence[str]) -> float:
        weights = {name: self.run[name][1] if name in self.run else self.sizes[name] for name in names}
        return sum(self.score(name) * weight for name, weight in weights.items()) / sum(weights.values())

    def if_run(self, value: float, names: Sequence[str]) -> float | None:
        return value if all(name in self.run for name in names) else None


def _single_turn(run: Mapping[str, tuple[int, int]]) -> dict[str, float | None]:
    """The paper's single-turn overall, over the categories that were run; None without any of a part."""
    simple = [right / n for name, (right, n) in run.items() if name in _SIMPLE]
    groups = [right / n for name, (right, n) in run.items() if name in _NON_LIVE_CALLS]
    groups += [fmean(simple)] if simple else []
    live = [count for name, count in run.items() if name in _LIVE_CALLS]
    non_live_score = fmean(groups) if groups else None
    live_score = sum(right for right, _ in live) / sum(n for _, n in live) if live else None
    both = None if non_live_score is None or live_score is None else (non_live_score + live_score) / 2
    return {"single_turn_overall": both, "single_turn_non_live": non_live_score, "single_turn_live": live_score}
