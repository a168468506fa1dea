"""What a frozen reasoner is: it reads a question and evidence blocks, greedily, and names one option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..questions import PublicQuestion
from ..tools.base import Evidence


@dataclass(frozen=True)
class Answer:
    """A reasoner's reply.

    Attributes:
        choice: index of the chosen option; None when the reply could not be parsed (wrong, and counted as unparsed).
        raw: the reply's text, for people.
    """

    choice: int | None
    raw: str = ""


@runtime_checkable
class Reasoner(Protocol):
    """A frozen, deterministic answerer. Failures of an endpoint raise `EndpointError`; they are never answers.

    Attributes:
        name: registry name.
        version: changes whenever an answer may change (rules, prompt, model).
        concurrency: how many `answer` calls may usefully run at once in threads (endpoints: more than 1).
    """

    name: str
    version: str
    concurrency: int

    def answer(self, question: PublicQuestion, evidence: Sequence[Evidence]) -> Answer:
        """Answer `question` given the blocks of the chosen tools (none for the empty subset)."""
        ...
