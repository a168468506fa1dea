"""What the tasks of each split can be made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..pack import RECIPES, TOOLS, Recipe
from ..splits import HELD_OUT_DOMAINS, HELD_OUT_TOOLS, tool_pool
from .plans import depths


@dataclass(frozen=True)
class Catalogue:
    """The tools and recipes for a split and tier. All but `side` hold only what makes a task one of this split.

    Attributes:
        special: tools that make a task one of this split; all of its pool in train, dev and test.
        single: tools with complete requests.
        vague: tools with requests that lack something.
        rescue: tools with requests that say what to do when the tool refuses.
        fan: recipes of independent calls.
        chain: recipes of calls each of which needs the one before, by number of calls.
        mixed: recipes of any other shape, by number of calls.
        side: tools for further requests beside the main one.
    """

    special: tuple[str, ...]
    single: tuple[str, ...]
    vague: tuple[str, ...]
    rescue: tuple[str, ...]
    fan: tuple[Recipe, ...]
    chain: dict[int, tuple[Recipe, ...]]
    mixed: dict[int, tuple[Recipe, ...]]
    side: tuple[str, ...]


@cache
def catalogue(split: str, tier: str) -> Catalogue:
    """What tasks of a split and tier can be made of."""
    pool = tool_pool(split, tier)
    special = tuple(name for name in pool if _is_special(name, split))
    recipes = [recipe for recipe in RECIPES if _fits(recipe, set(pool), set(special))]
    by_shape: dict[str, dict[int, tuple[Recipe, ...]]] = {"fan": {}, "chain": {}, "mixed": {}}
    for recipe in recipes:
        sizes = by_shape[_shape(recipe)]
        sizes[len(recipe.nodes)] = (*sizes.get(len(recipe.nodes), ()), recipe)
    return Catalogue(
        special=special,
        single=tuple(name for name in special if TOOLS[name].asks),
        vague=tuple(name for name in special if TOOLS[name].vague),
        rescue=tuple(name for name in special if TOOLS[name].rescue),
        fan=tuple(recipe for size in by_shape["fan"].values() for recipe in size),
        chain=by_shape["chain"],
        mixed=by_shape["mixed"],
        side=tuple(name for name in (special if split == "ood_domain" else pool) if TOOLS[name].asks),
    )


def _is_special(tool: str, split: str) -> bool:
    if split == "ood_domain":
        return TOOLS[tool].spec.domain in HELD_OUT_DOMAINS
    return split != "ood_tool" or tool in HELD_OUT_TOOLS


def _fits(recipe: Recipe, pool: set[str], special: set[str]) -> bool:
    used = {node.tool for node in recipe.nodes}
    return used <= pool and bool(used & special)


def _shape(recipe: Recipe) -> str:
    at = {node.key: index for index, node in enumerate(recipe.nodes)}
    needs = [
        [at[source] for source in node.sources] + [at[one] for one, two in recipe.after if two == node.key]
        for node in recipe.nodes
    ]
    steps = 1 + max(depths(needs))
    return "fan" if steps == 1 else "chain" if steps == len(recipe.nodes) else "mixed"
