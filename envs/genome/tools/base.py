"""What a genome tool is: something with a name that turns a question into titled evidence text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..questions import PublicQuestion


@dataclass(frozen=True)
class Evidence:
    """One tool's block of evidence.

    Attributes:
        tool: the tool's name.
        title: heading of the block, as shown to the reasoner.
        text: the evidence; at most `MAX_EVIDENCE_CHARACTERS`.
    """

    tool: str
    title: str
    text: str

    def block(self) -> str:
        """The block as the reasoner reads it."""
        return f"[{self.title}]\n{self.text}"


MAX_EVIDENCE_CHARACTERS = 4000


@runtime_checkable
class Tool(Protocol):
    """A genome analysis tool. `analyse` never raises for a loadable question: what fails becomes evidence text.

    Attributes:
        name: registry name, `snake_case`.
        description: one sentence for prompts that name the tools.
        version: changes whenever the evidence for some sequence may change (code, data or reference).
    """

    name: str
    description: str
    version: str

    def analyse(self, question: PublicQuestion) -> Evidence:
        """Evidence for the question's sequence, or one part per option of a "select" question."""
        ...


@dataclass(frozen=True)
class Reference:
    """Labelled training sequences for tools that compare (`genomic_expert`, `homology_search`).

    Attributes:
        records: (sequence, label) of the training split of the questions in use; label = text of the right option.
        name: shown in evidence, e.g. `embedded train split (384 sequences)`.
        digest: SHA-256 of the records; part of the tool's version.
    """

    records: tuple[tuple[str, str], ...]
    name: str
    digest: str
