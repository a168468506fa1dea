"""`embedded`: the pack's deterministic back ends, with a state per episode, so that what was written can be read."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ...errors import ConfigError
from .mocks import Scene
from .pack import SPECS, execute
from .schemas import compile_schema
from .tasks import Call


class EmbeddedMock:
    """Answers from the embedded pack."""

    identity = {"mock": "embedded"}
    live = False
    stateful = True

    def start(self, scene: Scene) -> EmbeddedSession:
        """Begin an episode on a copy of the scene's state.

        Raises:
            ConfigError: a tool is not one of the pack's.
        """
        shown = scene.specs if scene.variation is None else map(scene.variation.original_name, scene.specs)
        foreign = [name for name in shown if name not in SPECS]
        if foreign:
            raise ConfigError(
                f"the embedded mock has no back end for {', '.join(foreign[:5])}: choose mock='chat' or a cassette"
            )
        return EmbeddedSession(scene)


class EmbeddedSession:
    """One episode; calls of one turn are answered in order."""

    def __init__(self, scene: Scene):
        self._scene = scene
        self._state = copy.deepcopy(scene.state)

    def respond(self, calls: Sequence[Call], past: Sequence[tuple[Call, Any]]) -> list[Any]:
        """The back ends' answers. What happened before stands in the state."""
        return [self._answer(call) for call in calls]

    def _answer(self, call: Call) -> dict[str, Any]:
        variation = self._scene.variation
        original = call if variation is None else variation.restore(call)
        if not self._scene.checked:
            problems = compile_schema(SPECS[original.name].parameters).problems(original.arguments, limit=1)
            if problems:
                where = f"{problems[0].path}: " if problems[0].path else ""
                return {"error": {"code": "invalid_argument", "message": where + problems[0].message}}
        answer = execute(original.name, original.arguments, self._state)
        return answer if variation is None else variation.show_answer(call.name, answer)
