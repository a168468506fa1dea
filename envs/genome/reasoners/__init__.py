"""Frozen reasoners, one file each, and their registry."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

from ....errors import ConfigError, UnknownNameError, UsageError
from .base import Answer, Reasoner

__all__ = ["Answer", "Reasoner", "make_reasoner", "reasoner_names"]

_BUILT_IN = {
    "evidence": ".evidence:EvidenceReasoner",
    "chat": ".chat:ChatReasoner",
    "local": ".local:LocalReasoner",
}
_TAKES_MODEL = ("chat", "local")


def reasoner_names() -> list[str]:
    """Names of the built-in reasoners."""
    return sorted(_BUILT_IN)


def make_reasoner(spec: str | dict[str, Any] | Reasoner) -> Reasoner:
    """The reasoner behind a specification.

    Args:
        spec: `"evidence"`, `"chat:MODEL"`, `"local:MODEL"`, an import path `"package.module:Class"`, a dict with any of
            these as `name` and arguments of the class (`{"name": "chat", "model": "qwen", "base_url": "…"}`), or a
            reasoner, which is returned as it is.

    Raises:
        UnknownNameError: no such reasoner, and no import path.
        ConfigError: an argument that the reasoner does not take, or one that it needs and was not given.
        UsageError: an import path that leads nowhere or not to a reasoner.
    """
    if isinstance(spec, dict):
        arguments = dict(spec)
        name = arguments.pop("name", None)
    elif isinstance(spec, str):
        name, arguments = spec, {}
    else:
        return _checked(spec, type(spec).__name__)
    if not isinstance(name, str):
        raise ConfigError(f"a reasoner's dict needs a 'name', got {spec!r}; known names: {', '.join(_BUILT_IN)}")
    head, colon, model = name.partition(":")
    if head in _TAKES_MODEL and colon:
        name, arguments = head, {"model": model, **arguments}
    make = _find(name)
    try:
        inspect.signature(make).bind(**arguments)
    except TypeError as error:
        example = f"; for example {name}:MODEL" if name in _TAKES_MODEL and "model" not in arguments else ""
        raise ConfigError(f"reasoner {name!r}: {error}{example}") from None
    return _checked(make(**arguments), name)


def _find(name: str) -> Callable[..., Any]:
    if name not in _BUILT_IN and ":" not in name:
        raise UnknownNameError("reasoner", name, _BUILT_IN, "Or give an import path package.module:Class")
    path = _BUILT_IN.get(name, name)
    try:
        found = pkgutil.resolve_name(__name__ + path if path.startswith(".") else path)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"the reasoner {name!r} cannot be imported: {error}") from None
    if not callable(found):
        raise UsageError(f"the reasoner {name!r} is {found!r}, expected a class or a function")
    return found


def _checked(made: Any, name: str) -> Reasoner:
    # not isinstance(made, Reasoner): that would read `version`, for which a local model would have to be loaded
    held = getattr(made, "__dict__", {})
    parts = ("name", "version", "concurrency", "answer")
    missing = [part for part in parts if not (hasattr(type(made), part) or part in held)]
    if missing:
        raise UsageError(f"{name} is no reasoner: it lacks {', '.join(missing)}; see envs/genome/reasoners/base.py")
    return made
