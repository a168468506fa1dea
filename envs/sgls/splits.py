"""Which tools and questions belong to which split.

* `train`, `dev` and `test` share their tools. A question belongs to one of them by its text alone, so that no question
  of one split is ever generated in another, whatever the seed and the number of tasks.
* `ood_tool` tasks need (or, if nothing is to be called, show) a tool that no train, dev or test task shows.
* `ood_domain` tasks play in domains that no other task shows.
"""

from __future__ import annotations

import zlib
from functools import cache

from .pack import SPECS

HELD_OUT_DOMAINS = ("genomics", "sports")
HELD_OUT_TOOLS = (
    "age",
    "convert_file",
    "convert_volume",
    "depth",
    "estimate_calories",
    "find_charging_point",
    "find_stream",
    "find_substitute",
    "get_baggage_allowance",
    "get_branch_hours",
    "get_dividend",
    "get_pollen_count",
    "label_message",
    "loan",
    "log_hours",
    "return_order",
    "set_reminder",
)
EASY_DOMAIN = "basics"


@cache
def tool_pool(split: str, tier: str) -> tuple[str, ...]:
    """Names of the tools that tasks of a split and tier may show, distractors included, in alphabetical order.

    The easy tier has its own short tools, which no other tier shows: they would answer some of its questions.
    """
    names = []
    for name, spec in SPECS.items():
        if (spec.domain == EASY_DOMAIN) != (tier == "easy"):
            continue
        if spec.domain in HELD_OUT_DOMAINS and split != "ood_domain":
            continue
        if name in HELD_OUT_TOOLS and split not in ("ood_tool", "ood_domain"):
            continue
        names.append(name)
    return tuple(sorted(names))


def split_of(text: str) -> str:
    """`train`, `dev` or `test`, by the text of a question (or one of its words, in the easy tier)."""
    return {0: "dev", 1: "test"}.get(zlib.crc32(text.encode()) % 10, "train")
