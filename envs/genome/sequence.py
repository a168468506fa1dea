"""DNA as plain strings: cleaning what people write down, reverse complement, cropping, keys of the content.

After `clean` a sequence consists of `A C G T N` only, so that everything behind it can count and compare.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from ...errors import QuestionError

if TYPE_CHECKING:
    from .questions import PublicQuestion

MAX_SEQUENCE_LENGTH = 100_000

_REMOVED = (
    (re.compile(r"\s"), "whitespace character"),
    (re.compile(r"[0-9]"), "digit"),
    (re.compile(r"[-.~]"), "gap character"),
)
# ASCII only: str.upper() would turn letters such as "ſ" into nucleotide codes.
_NOT_NUCLEOTIDE = re.compile(r"[^ACGTURYSWKMBDHVNacgturyswkmbdhvn]")
_AMBIGUITY_CODE = re.compile(r"[RYSWKMBDHV]")
_COMPLEMENT = str.maketrans("ACGTN", "TGCAN")


class Cleaned(NamedTuple):
    """A normalised sequence.

    Attributes:
        sequence: letters `A C G T N` only; may be empty.
        notes: what was changed, one phrase per kind of change; empty when nothing was.
    """

    sequence: str
    notes: tuple[str, ...]


def clean(sequence: str, limit: int = MAX_SEQUENCE_LENGTH) -> Cleaned:
    """Normalise a nucleotide sequence and say what was changed.

    Whitespace (line ends included), digits and the gap signs `-`, `.`, `~` are removed, lower case (soft
    masking) is read as upper case, `U` as `T`, and the IUPAC ambiguity codes `R Y S W K M B D H V` as `N`.
    Cleaning twice changes nothing further. An empty or blank sequence gives an empty one.

    Args:
        sequence: DNA or RNA as written by people or programs, without a FASTA header.
        limit: longest accepted sequence in bases, counted after cleaning.

    Raises:
        QuestionError: `sequence` is no string, has a FASTA header, contains other characters than the above,
            or is longer than `limit`.
    """
    if not isinstance(sequence, str):
        raise QuestionError(f"a sequence must be a string of nucleotides, got {type(sequence).__name__}")
    if sequence.lstrip().startswith(">"):
        raise QuestionError("the sequence starts with '>' like FASTA: give the bare sequence without its header line")
    notes = []
    for pattern, what in _REMOVED:
        sequence, count = pattern.subn("", sequence)
        if count:
            notes.append(f"{_count(count, what)} removed")
    _check_letters(sequence, limit)
    upper = sequence.upper()
    if upper != sequence:
        notes.append("lower case (soft masking) read as upper case")
    if "U" in upper:
        notes.append(f"RNA: {upper.count('U')} U read as T")
    sequence, count = _AMBIGUITY_CODE.subn("N", upper.replace("U", "T"))
    if count:
        notes.append(f"{_count(count, 'IUPAC ambiguity code')} read as N")
    return Cleaned(sequence, tuple(notes))


def reverse_complement(sequence: str) -> str:
    """The other strand of a cleaned sequence, read 5' to 3'; `N` stays `N`."""
    return sequence.translate(_COMPLEMENT)[::-1]


def canonical(sequence: str) -> str:
    """One name for both strands of a cleaned sequence: whichever of the two is alphabetically first."""
    return min(sequence, reverse_complement(sequence))


def crop_centre(sequence: str, length: int) -> str:
    """The middle `length` bases, or all if there are no more; an odd base too many is cut on the right."""
    if length < 0:
        raise ValueError(f"length must be at least 0, got {length}")
    start = max(0, (len(sequence) - length) // 2)
    return sequence[start : start + length]


def question_key(question: PublicQuestion) -> str:
    """SHA-256 (hex) of what the question asks, with its sequences cleaned.

    Two questions share a key when they have the same wording, the same options in the same order and the same
    sequence after cleaning, whatever their ids, splits and sources are.
    """
    choices = question.choices
    if question.sequence is None:
        choices = tuple(clean(choice).sequence for choice in choices)
    sequence = None if question.sequence is None else clean(question.sequence).sequence
    content = json.dumps([question.text, choices, sequence], ensure_ascii=True)
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def _check_letters(sequence: str, limit: int) -> None:
    wrong = _NOT_NUCLEOTIDE.findall(sequence)
    if wrong:
        shown = " ".join(map(ascii, sorted(set(wrong))[:10]))
        raise QuestionError(
            f"not a nucleotide sequence: {_count(len(wrong), 'character')} outside the IUPAC codes "
            f"ACGTURYSWKMBDHVN, such as {shown}"
        )
    if len(sequence) > limit:
        raise QuestionError(f"the sequence has {len(sequence):,} bases, at most {limit:,} are accepted: crop it")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("s" if number != 1 else "")
