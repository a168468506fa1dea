"""What a genome tool is: something with a name that turns a question into titled evidence text."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Protocol, runtime_checkable

from ....errors import QuestionError
from .. import data
from ..questions import PublicQuestion
from ..sequence import Cleaned, clean

MAX_EVIDENCE_CHARACTERS = 4000
_SHORTENED = " … (shortened)"

#: Results kept per tool; a reward table visits each question 2**n times in a row, so a few would already do.
CACHE_SIZE = 2048


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


class SequenceTool(ABC):
    """A tool that analyses one sequence at a time: the frame that all built-in tools share.

    It cleans the sequences, names what was changed in them, turns what cannot be analysed into a sentence, reports
    the options of a "select" question one by one in short form, and keeps the evidence within its size.
    """

    name: str
    title: str
    description: str
    version: str

    @abstractmethod
    def method(self, question: PublicQuestion) -> str:
        """One line on method and conventions, which holds for every sequence of the question."""

    @abstractmethod
    def report(self, sequence: str, question: PublicQuestion, brief: bool) -> list[str]:
        """Findings in one cleaned sequence that has at least one base other than N, a line each.

        `brief` asks for a few lines without explanations: the sequence is one of several options.
        """

    def analyse(self, question: PublicQuestion) -> Evidence:
        """Evidence on every sequence of the question; never raises (see `Tool`)."""
        parts = question.sequences()
        brief = question.shape == "select"
        try:
            lines = [self.method(question)]
            room = (MAX_EVIDENCE_CHARACTERS - len(lines[0])) // max(1, len(parts)) - 1
            for label, sequence in parts:
                text = "\n".join(self._findings(sequence, question, brief))
                if brief:
                    text = f"{label}: " + text.replace("\n", " ")
                lines.append(shorten(text, room))
            text = "\n".join(lines)
        except Exception as error:  # one tool that breaks must not end an episode: the reasoner reads that it failed
            text = f"The tool failed: {type(error).__name__}: {error}"
        return Evidence(self.name, self.title, shorten(text, MAX_EVIDENCE_CHARACTERS))

    def _findings(self, raw: str, question: PublicQuestion, brief: bool) -> list[str]:
        try:
            sequence, notes = clean_cached(raw)
        except QuestionError as error:
            return [f"Not analysed: {error}."]
        if sequence.strip("N"):
            findings = self.report(sequence, question, brief)
        else:
            findings = ["Not analysed: " + ("no base but N." if sequence else "the sequence is empty.")]
        # Last, so that a reader with little attention finds the same in a sequence however it was written down.
        return [*findings, f"Input: {'; '.join(notes)}."] if notes else findings


@lru_cache(maxsize=CACHE_SIZE)
def clean_cached(raw: str) -> Cleaned:
    """`clean`, remembered, since every tool cleans the same sequence."""
    return clean(raw)


def shorten(text: str, room: int) -> str:
    """`text`, cut at a word and marked as such if it is longer than `room` characters."""
    if len(text) <= room:
        return text
    kept = text[: max(0, room - len(_SHORTENED))]
    cut = max(kept.rfind(" "), kept.rfind("\n"))
    return (kept[:cut] if cut > 0 else kept).rstrip() + _SHORTENED


def data_file(name: str) -> bytes:
    """Content of a file of the package's data folder."""
    return resources.files(data).joinpath(name).read_bytes()


def version_of(code: str, *parts: bytes | str) -> str:
    """`code-digest`: the number of the code's evidence, raised by hand, and a digest of the data it rests on."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return f"{code}-{digest.hexdigest()[:12]}"
