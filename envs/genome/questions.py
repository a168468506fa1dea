"""Multiple-choice questions about DNA: the data type, the strict JSONL loader, the embedded set."""

from __future__ import annotations

from dataclasses import dataclass, field

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class PublicQuestion:
    """What tools, reasoners and policies may see: no answer, no family, no id, no source.

    Attributes:
        text: the question's wording, without sequence and options.
        choices: the options' texts, at least two, all different.
        sequence: the DNA the question is about, or None when the options are the sequences ("select" shape).
    """

    text: str
    choices: tuple[str, ...]
    sequence: str | None = None

    @property
    def shape(self) -> str:
        """`describe` (one sequence, textual options) or `select` (the options are sequences)."""
        return "select" if self.sequence is None else "describe"

    def sequences(self) -> tuple[tuple[str, str], ...]:
        """(label, sequence) pairs to analyse: `("", sequence)`, or one `("A", option)` … per option."""
        if self.sequence is not None:
            return (("", self.sequence),)
        return tuple(zip(LETTERS, self.choices, strict=False))

    def options(self) -> str:
        """The options as lines `A) …`."""
        return "\n".join(f"{letter}) {choice}" for letter, choice in zip(LETTERS, self.choices, strict=False))


@dataclass(frozen=True)
class Question:
    """One question with its answer and provenance.

    Attributes:
        id: unique in its set.
        public: what may be shown.
        answer: index of the right option.
        family: kind of task (`splice`, `taxonomy`, …); for reports, never shown to policy or reasoner.
        split: `train`, `dev` or `test`.
        source: where it comes from.
        licence: licence of that source.
    """

    id: str
    public: PublicQuestion
    answer: int
    family: str
    split: str
    source: str = field(default="", compare=False)
    licence: str = field(default="", compare=False)
