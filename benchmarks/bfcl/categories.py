"""The categories of BFCL V3 and V4: names, sizes, groups, and what is scored in each.

Both versions have the same seventeen single-turn and multi-turn categories; V4 renamed three of them and moved two
entries from relevance to irrelevance. V4's agentic categories (web search, memory) need live services and are not run
here; they count as 0 in V4's official overall score, as the official aggregation does with what was not evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...errors import UnknownNameError

Kind = Literal["simple", "multiple", "parallel", "irrelevance", "relevance", "multi_turn"]
Group = Literal["non_live", "live", "multi_turn"]
Language = Literal["python", "java", "javascript"]

_SIZES_V4 = {
    "simple_python": 400,
    "simple_java": 100,
    "simple_javascript": 50,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "irrelevance": 240,
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "live_irrelevance": 884,
    "live_relevance": 16,
    "multi_turn_base": 200,
    "multi_turn_miss_func": 200,
    "multi_turn_miss_param": 200,
    "multi_turn_long_context": 200,
}
_NAMES_V3 = {"simple_python": "simple", "simple_java": "java", "simple_javascript": "javascript"}
_SIZES_V3 = {_NAMES_V3.get(name, name): size for name, size in _SIZES_V4.items()} | {
    "live_irrelevance": 882,
    "live_relevance": 18,
}


@dataclass(frozen=True)
class Category:
    """One category of one version.

    Attributes:
        name: as its version writes it in file names and ids.
        common_name: V4's name, the same for both versions.
        size: number of entries in the released data; the weight of a category that was not run.
    """

    name: str
    common_name: str
    size: int

    @property
    def kind(self) -> Kind:
        """Which rule scores it; `multiple` has one right call among several functions."""
        for kind in ("multi_turn", "irrelevance", "relevance", "parallel", "multiple"):
            if kind in self.name:
                return kind  # type: ignore[return-value]
        return "simple"

    @property
    def group(self) -> Group:
        """The folder of its result files and the part of the overall score it belongs to."""
        if self.kind == "multi_turn":
            return "multi_turn"
        return "live" if self.name.startswith("live_") else "non_live"

    @property
    def language(self) -> Language:
        """The syntax of its functions' values."""
        if self.common_name == "simple_java":
            return "java"
        return "javascript" if self.common_name == "simple_javascript" else "python"

    @property
    def long_context(self) -> bool:
        """Whether the simulated APIs fill their states with distracting content."""
        return "long_context" in self.name


@dataclass(frozen=True)
class Version:
    """One release of the benchmark.

    Attributes:
        name: `v3` or `v4`.
        asset: the installable asset with its data, simulators and checkers.
        categories: by name, in the order of the tables.
    """

    name: str
    asset: str
    categories: dict[str, Category]

    @property
    def prefix(self) -> str:
        """How its file names begin."""
        return f"BFCL_{self.name}_"

    def category(self, name: str) -> Category:
        """The category of this name; the other version's name of it is taken too.

        Raises:
            UnknownNameError: there is none.
        """
        for category in self.categories.values():
            if name in (category.name, category.common_name, _NAMES_V3.get(category.common_name)):
                return category
        raise UnknownNameError(f"BFCL {self.name} category", name, self.categories)

    def category_of(self, entry_id: str) -> Category:
        """The category of an entry, from its id (`live_simple_3-2-1`).

        Raises:
            UnknownNameError: the id begins with no category of this version.
        """
        name = entry_id.rpartition("_")[0]
        if name not in self.categories:
            raise UnknownNameError(f"BFCL {self.name} category", name, self.categories)
        return self.categories[name]


def _version(name: str, asset: str, sizes: dict[str, int]) -> Version:
    common = dict(zip(sizes, _SIZES_V4, strict=True))
    return Version(name, asset, {key: Category(key, common[key], size) for key, size in sizes.items()})


VERSIONS = {"v3": _version("v3", "bfcl-v3", _SIZES_V3), "v4": _version("v4", "bfcl", _SIZES_V4)}


def version(name: str) -> Version:
    """The version `v3` or `v4`.

    Raises:
        UnknownNameError: there is no such version.
    """
    if name not in VERSIONS:
        raise UnknownNameError("BFCL version", name, VERSIONS)
    return VERSIONS[name]
