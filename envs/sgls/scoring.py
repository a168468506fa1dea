"""What an episode is worth: the interface between the environment and the rewards.

A scorer is a pure function of a task and a transcript, both plain JSON (see `transcripts`). It returns one number per
component, None for what it could not score, and the episode's reward as `total`. It has an attribute `components` with
the names of all its entries, `total` included.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from ...errors import ConfigError, UnknownNameError

_BUILT_IN = {"hierr": "toolcredit.rewards.hierr:HierR"}


@runtime_checkable
class Scorer(Protocol):
    """Scores whole episodes.

    Attributes:
        components: names of the entries of a score.
    """

    components: tuple[str, ...]

    def __call__(self, task: dict[str, Any], transcript: dict[str, Any]) -> dict[str, float | None]:
        """The components of the episode's score.

        Args:
            task: `Task.to_json()` of the task as it was shown.
            transcript: the record of the episode.

        Raises:
            InfrastructureError: a judge behind it failed; nothing is scored then.
        """
        ...


class NoScorer:
    """Scores nothing."""

    components: tuple[str, ...] = ("total",)
    waits = False

    def __call__(self, task: dict[str, Any], transcript: dict[str, Any]) -> dict[str, float | None]:
        """No score."""
        return {"total": None}


def make_scorer(spec: str | Mapping[str, Any] | Scorer | None) -> Scorer:
    """The scorer of a specification.

    Args:
        spec: None for no scores; `"hierr"`; an import path `package.module:Class`; a dict with one of these as `name`
            and the arguments of the class; or a scorer, returned as it is.

    Raises:
        UnknownNameError: there is no scorer of that name.
        ConfigError: it cannot be made.
    """
    if spec is None:
        return NoScorer()
    if not isinstance(spec, str | Mapping):
        if not callable(spec) or not hasattr(spec, "components"):
            raise ConfigError(f"scorer={spec!r}: expected a name, or a callable with 'components'")
        return spec
    arguments: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name: Any = arguments.pop("name", None)
    path = _BUILT_IN.get(name, name)
    if not isinstance(path, str) or ":" not in path:
        raise UnknownNameError("scorer", name, _BUILT_IN, "Or give an import path package.module:Class")
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)(**arguments)
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"scorer {name!r} cannot be made: {error}") from None
