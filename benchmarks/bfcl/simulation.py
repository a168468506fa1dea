"""One rollout's simulated APIs: fresh objects of the official classes, called directly with literals.

The official executor keeps objects in module globals, where a second rollout of the same entry finds the first one's
state, and evaluates the model's text. Here each rollout owns its objects, only functions that the entry's APIs offer
can be called, and the process is left as it was: the number formats that the calculator sets are put back.
"""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

from .calls import Call
from .data import Entry
from .limits import is_endless, process_untouched
from .official import Official, public_methods
from .pythonic import call_parts


class Simulation:
    """The simulated APIs of one rollout of a multi-turn entry.

    Args:
        entry: the entry; its initial state is copied.
        package: the official classes.
    """

    def __init__(self, entry: Entry, package: Official):
        self._objects: dict[str, Any] = {}
        self._functions: dict[str, Any] = {}
        for class_name in entry.involved_classes:
            api = package.api(class_name)
            instance = api()
            if hasattr(instance, "_load_scenario"):
                state = copy.deepcopy((entry.initial_config or {}).get(class_name, {}))
                instance._load_scenario(state, long_context=entry.kind.long_context)
            self._objects[class_name] = instance
            self._functions |= {name: getattr(instance, name) for name in public_methods(api)}

    def call(self, call: Call) -> str:
        """What the function returns, as text; whatever goes wrong in it is a text too."""
        return self._run(call.name, (), call.arguments)

    def call_source(self, source: str) -> str:
        """Like `call` for a ground-truth call as Python source, which may have positional arguments."""
        return self._run(*call_parts(source))

    def difference(self, other: Simulation) -> str:
        """The first part of the state in which two rollouts of one entry differ; empty if they agree."""
        for class_name, theirs in other._objects.items():
            mine = self._objects[class_name]
            for name, value in vars(theirs).items():
                if not name.startswith("_") and getattr(mine, name, None) != value:
                    return f"{class_name}.{name}"
        return ""

    def _run(self, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> str:
        if name not in self._functions:
            return f"Error during execution: name {name!r} is not defined"
        if is_endless(self._functions[name], positional, named):
            return f"Error during execution: {name} is not simulated for numbers of this size"
        try:
            with process_untouched():
                return _as_text(self._functions[name](*copy.deepcopy(positional), **copy.deepcopy(named)))
        except Exception as error:
            return f"Error during execution: {error}"


def _as_text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        with contextlib.suppress(TypeError, ValueError):
            return json.dumps(result)
    return str(result)
