"""What a judge sees and says: the data that all judges of final replies share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

Answer = Mapping[str, Any]
"""One answered call: `tool`, `arguments` and `answer`, the JSON value that came back, errors included."""


@dataclass(frozen=True)
class Case:
    """A final reply with what it is judged by.

    Attributes:
        question: what the user said, all of it.
        answers: the answered calls of the episode, in order.
        reply: the final reply; empty if there is none.
        facts: what the task needs stated: `key`, `value`, `kind`, `variants` and `tool` (who answers it; None if
            nobody, as for a refusal). Empty if the task does not say.
        abstains: whether the right thing is to call nothing.
        asks: whether the right thing is to ask the user back.
        nonce: of the episode; tells noise of equal episodes apart.
    """

    question: str
    answers: tuple[Answer, ...]
    reply: str
    facts: tuple[Mapping[str, Any], ...] = ()
    abstains: bool = False
    asks: bool = False
    nonce: int = 0


@dataclass(frozen=True)
class Rating:
    """A judge's opinion of a reply.

    Attributes:
        points: 1 to 5; None if there is none, which is never the same as 1.
        reasons: why, in words.
    """

    points: int | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """Whether a task was solved; None if that cannot be told."""

    solved: bool | None
    reasons: tuple[str, ...] = ()


@runtime_checkable
class Judge(Protocol):
    """Rates final replies. Can be shared among threads; the same case must give the same rating where it can.

    Attributes:
        identity: what its opinions depend on (kind, model, prompt), plain JSON.
    """

    identity: dict[str, Any]

    def __call__(self, case: Case) -> Rating:
        """The rating of a reply of at least a few words; None points where it failed."""
        ...


@runtime_checkable
class Verifier(Protocol):
    """Says whether tasks were solved: the execution variant of the process reward.

    Attributes:
        identity: as of a `Judge`.
    """

    identity: dict[str, Any]

    def solved(self, case: Case) -> Verdict:
        """The verdict on an episode."""
        ...
