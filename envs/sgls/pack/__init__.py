"""The embedded tool pack: tools with JSON Schemas and deterministic back ends in plain Python, one file per domain.

* `TOOLS[name]` is a tool: its `spec`, its back end (`tool(arguments, state) -> answer`), how users ask for it.
* `SPECS[name]` is what an agent may see of it.
* `execute(name, arguments, state)` answers one validated call; `state` starts as `new_state(seed)` or a task's state.

No tool reads anything but its arguments and the state. Names of people, places and things are invented.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ....errors import UnknownNameError
from ..tasks import ToolSpec
from .across import ACROSS
from .base import Domain, Recipe, Tool, ToolError
from .basics import BASICS
from .calendar import CALENDAR
from .cinema import CINEMA
from .cooking import COOKING
from .files import STORE
from .finance import FINANCE
from .genomics import GENOMICS
from .health import HEALTH
from .library import LIBRARY
from .mail import MAIL
from .maps import MAPS
from .projects import WORK
from .shop import SHOP
from .sports import SPORTS
from .travel import TRAVEL
from .units import UNITS
from .weather import WEATHER

__all__ = [
    "DOMAINS", "NEAR", "OVERLAPS", "RECIPES", "SPECS", "TOOLS", "Domain", "Recipe", "Tool", "ToolError", "execute",
    "new_state",
]  # fmt: skip

DOMAINS: Mapping[str, Domain] = MappingProxyType(
    {
        domain.name: domain
        for domain in (
            BASICS, CALENDAR, CINEMA, COOKING, STORE, FINANCE, GENOMICS, HEALTH, LIBRARY, MAIL, MAPS, WORK, SHOP,
            SPORTS, TRAVEL, UNITS, WEATHER,
        )
    }
)  # fmt: skip
TOOLS: Mapping[str, Tool] = MappingProxyType(
    {name: tool for domain in DOMAINS.values() for name, tool in domain.tools.items()}
)
#: every recipe of dependent calls, those that join domains last
RECIPES: tuple[Recipe, ...] = tuple(recipe for domain in (*DOMAINS.values(), ACROSS) for recipe in domain.recipes)


def _partners(relation: str) -> Mapping[str, frozenset[str]]:
    pairs = [pair for domain in DOMAINS.values() for pair in getattr(domain, relation)]
    return {name: frozenset().union(*(pair for pair in pairs if name in pair)) - {name} for name in TOOLS}


#: tool -> the tools that could also serve some request for it
OVERLAPS: Mapping[str, frozenset[str]] = MappingProxyType(_partners("overlaps"))
#: tool -> look-alikes that an agent may try where it is missing
NEAR: Mapping[str, frozenset[str]] = MappingProxyType(_partners("near"))
SPECS: Mapping[str, ToolSpec] = MappingProxyType({name: tool.spec for name, tool in TOOLS.items()})


def execute(name: str, arguments: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Answer one call whose arguments fit the tool's schema. Writes change `state` in place.

    Returns:
        The answer, fitting `SPECS[name].response`; the tool's own refusals are `{"error": {"code", "message", …}}`.

    Raises:
        UnknownNameError: there is no such tool.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise UnknownNameError("tool", name, TOOLS)
    return tool(arguments, state)


def new_state(seed: int) -> dict[str, Any]:
    """The state of an episode in which nothing has been written yet."""
    return {"seed": seed}
