"""Who samples a policy's turns: this process (`local`), or a vLLM server (`vllm`).

A backend is given everything that stands before a turn as token ids and gives token ids and log-probabilities back. It
knows nothing of chats, environments or tasks. `RolloutEngine` drives it from one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import InfrastructureError
from ..trajectory import SampledTurn


@dataclass(frozen=True)
class TurnRequest:
    """A turn to be sampled.

    Attributes:
        episode: whose turn; what was computed for an episode's earlier turns is kept until it is released.
        ids: all tokens before the turn. They begin with the ids and the turn of the episode's last request.
        stop_ids: tokens that end the turn.
        max_new_tokens: length limit.
        temperature: of the sampling, without top-p or top-k; 0 decodes greedily.
        seed: of the turn's own random numbers, so that a turn depends on nothing but its seed and its ids.
        alternatives: so many of the likeliest tokens are kept at every place; backends other than `local` keep none.
    """

    episode: int
    ids: Sequence[int]
    stop_ids: frozenset[int]
    max_new_tokens: int
    temperature: float
    seed: tuple[int, ...]
    alternatives: int = 0


Outcome = tuple[int, SampledTurn | InfrastructureError]
"""An episode and its turn, or why there is none."""


class Backend(Protocol):
    """Samples turns. All calls come from one thread.

    Attributes:
        tokenizer: of the policy.
        stop_ids: tokens that the model itself ends with.
        context_length: the most tokens of a conversation.
        slots: episodes that may be open at once.
        policy_version: of the weights that sample now.
        in_process: whether `advance` is what computes; if not, results come by themselves and `wake` is called.
    """

    tokenizer: Any
    stop_ids: frozenset[int]
    context_length: int
    slots: int
    policy_version: int
    in_process: bool

    def sync(self, policy_version: int) -> dict[str, float]:
        """Sample with the policy's present weights from now on; numbers for the log."""
        ...

    def begin(self, wake: Callable[[], None]) -> None:
        """Start a collection: nothing of an earlier one is used. `wake` may be called from any thread."""
        ...

    def end(self) -> dict[str, int]:
        """Finish the collection and free its memory; what it cost, e.g. `forwarded_tokens`."""
        ...

    def submit(self, request: TurnRequest) -> None:
        """Ask for a turn."""
        ...

    def advance(self) -> list[Outcome]:
        """Go on with all turns asked for, by one token each if in process; the turns that have ended."""
        ...

    def release(self, episode: int) -> None:
        """The episode has ended."""
        ...
