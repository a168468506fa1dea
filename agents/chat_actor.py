"""Acting in a chat environment, turn by turn, for `Agent.act`: token-exact like a rollout, one episode at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ..errors import InfrastructureError, UsageError
from .backends import Backend, TurnRequest
from .chat_template import ChatTemplate
from .episode import Episode, Start


class ChatActor:
    """A policy's turns in one conversation after the other.

    An observation that continues the last one after the turn that was given continues its tokens: what was sampled is
    not encoded again. Any other observation begins a new conversation.

    Args:
        backend: who samples. Nobody else may use it meanwhile.
        template: how chats are written, the one of the training.
        temperature: 0 decodes greedily.
        max_new_tokens: longest turn.
    """

    def __init__(
        self, backend: Backend, template: ChatTemplate, *, temperature: float = 0.0, max_new_tokens: int = 512
    ):
        self.backend, self.template = backend, template
        self.temperature, self.max_new_tokens = temperature, max_new_tokens
        self._wake = threading.Event()
        self.reset()

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the conversation; the next one begins with the policy's present weights."""
        self._seed = seed or 0
        self._episode: Episode | None = None
        self._seen: list[dict[str, Any]] = []
        self._said: str | None = None

    def act(self, observation: list[dict[str, Any]], info: Mapping[str, Any]) -> str:
        """The turn that follows `observation`, the same if it is asked for again; empty if there is no room for one.

        Raises:
            InfrastructureError: the backend failed.
            UsageError: the observation is no conversation.
        """
        if self._said is not None and observation == self._seen:
            return self._said
        episode = self._continued(observation, info)
        self._seen = list(observation)
        self._said = episode.take(self._sample(episode)) if episode.room() else ""
        return self._said

    def _continued(self, observation: list[dict[str, Any]], info: Mapping[str, Any]) -> Episode:
        known = len(self._seen)
        goes_on = (
            self._episode is not None
            and bool(self._said)
            and observation[:known] == self._seen
            and len(observation) > known + 1
            and observation[known] == {"role": "assistant", "content": self._said}
        )
        if goes_on and self._episode is not None:
            try:
                self._episode.stepped(observation, 0.0, False, False, info)
                return self._episode
            except UsageError:  # other tools than before, for example: a new prompt can show them
                pass
        self.backend.begin(self._wake.set)
        self._episode = Episode(Start(0), self.template, self.backend.context_length, max_turns=1 << 30)
        self._episode.open(observation, info)
        return self._episode

    def _sample(self, episode: Episode) -> Any:
        longest = min(self.max_new_tokens, episode.room())
        stream = (self._seed, episode.turn)
        self.backend.submit(TurnRequest(0, episode.ids, episode.stop_ids, longest, self.temperature, stream))
        while True:
            for _, outcome in self.backend.advance():
                if isinstance(outcome, InfrastructureError):
                    raise outcome
                return outcome
            if not self.backend.in_process:
                self._wake.wait()
                self._wake.clear()
