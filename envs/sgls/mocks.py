"""Who answers validated calls: the protocol of mocks, and mocks by name.

A mock answers a call with a JSON value. A tool's own refusal is an answer, `{"error": {"code", "message", …}}`. When
there is no answer (an endpoint is down, a model never writes a valid one, a cassette has none) a mock raises an
`InfrastructureError`: that is never turned into an answer, and never scored.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ...errors import ConfigError, UnknownNameError
from .tasks import Call, ToolSpec
from .variants import Variation


@dataclass(frozen=True)
class Scene:
    """What a mock may know of an episode.

    Attributes:
        specs: the tools by the names that the agent sees.
        state: the task's initial state, a copy of the mock's own.
        variation: what was changed about the tools; None if nothing was.
        checked: whether the calls were validated in full against the tools' own schemas.
    """

    specs: Mapping[str, ToolSpec]
    state: dict[str, Any] = field(default_factory=dict)
    variation: Variation | None = None
    checked: bool = True


class Session(Protocol):
    """One episode of a mock."""

    def respond(self, calls: Sequence[Call], past: Sequence[tuple[Call, Any]]) -> list[Any]:
        """The answers to the valid calls of one turn, in order; each a JSON value of its own.

        Args:
            calls: calls of tools of the scene, with validated arguments.
            past: the calls and answers of the episode's earlier turns.

        Raises:
            InfrastructureError: there is no answer to one of them.
        """
        ...


@runtime_checkable
class Mock(Protocol):
    """A simulated back end of tools. It can be pickled and shared among threads.

    Attributes:
        identity: what its answers depend on besides the episode (model, prompt, …), plain JSON; part of cassette keys.
        live: whether the same call may be answered differently another time.
        stateful: whether an answer may depend on the earlier calls of the episode.
    """

    identity: dict[str, Any]
    live: bool
    stateful: bool

    def start(self, scene: Scene) -> Session:
        """Begin an episode.

        Raises:
            UsageError: the mock cannot play this scene.
        """
        ...


_BUILT_IN = {
    "embedded": ".mock_embedded:EmbeddedMock",
    "chat": ".mock_chat:ChatMock",
    "replay": ".cassettes:ReplayMock",
}


def make_mock(spec: str | Mapping[str, Any] | Mock) -> Mock:
    """The mock of a specification.

    Args:
        spec: `"embedded"`; a dict with a `name` (`embedded`, `chat`, `replay`, or an import path
            `package.module:Class`) and the arguments of that class, where `cassette` (a file) and `mode` (`live`,
            `record`, `replay`) put a cassette in between; or a mock, returned as it is.

    Raises:
        UnknownNameError: there is no mock of that name.
        ConfigError: an argument is missing, unknown or out of range.
    """
    if not isinstance(spec, str | Mapping):
        if not isinstance(spec, Mock):
            raise ConfigError(f"mock={spec!r}: expected a name, a dict with a name, or an object with start(scene)")
        return spec
    arguments: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = arguments.pop("name", None)
    cassette, mode = arguments.pop("cassette", None), arguments.pop("mode", None)
    if name == "replay":
        arguments["cassette"], cassette = cassette, None
    try:
        mock = _mock_class(name)(**arguments)
    except TypeError as error:
        raise ConfigError(f"mock {name!r}: {error}") from None
    if cassette is None:
        if mode not in (None, "live"):
            raise ConfigError(f"mock mode {mode!r} needs a cassette: give the file as 'cassette'")
        return mock
    from .cassettes import CassetteMock

    return CassetteMock(mock, cassette, mode or "record")


def is_error(answer: Any) -> bool:
    """Whether an answer is a tool's own refusal."""
    return isinstance(answer, dict) and "error" in answer


def _mock_class(name: Any) -> Any:
    path = _BUILT_IN.get(name, name)
    if not isinstance(path, str) or ":" not in path:
        raise UnknownNameError("mock", name, _BUILT_IN, "Or give an import path package.module:Class")
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module, __package__), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"mock {name!r} cannot be imported: {error}") from None
    if not isinstance(found, type):
        raise ConfigError(f"mock {name!r} is {found!r}, expected a class")
    return found
