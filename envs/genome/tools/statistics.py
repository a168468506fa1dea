"""T1 `sequence_statistics`: length, composition, CpG, skew and low complexity of a sequence.

Definitions (all over the strand as given; ambiguous bases count for the length and the N share only):

* GC and AT: share of the unambiguous bases.
* CpG observed/expected: n(CpG) · N / (n(C) · n(G)), N = unambiguous bases (Gardiner-Garden & Frommer 1987); undefined
  without C or without G. The CpG island rule is theirs too: at least 200 bp, GC above 50 %, observed/expected above
  0.6.
* GC skew: (G − C) / (G + C).
* Entropy: Shannon entropy of the base frequencies, in bits per base (2 at most).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from ..questions import PublicQuestion
from .base import CACHE_SIZE, SequenceTool, version_of

ISLAND_LENGTH, ISLAND_GC, ISLAND_RATIO = 200, 0.5, 0.6
TOP_WORDS = 5

_RUN = re.compile(r"A+|C+|G+|T+")
_CODE_VERSION = "1"


@dataclass(frozen=True)
class Statistics:
    """Composition of one sequence; None where a quotient is undefined.

    Attributes:
        length: bases, N included.
        unknown: share of N, 0 … 1.
        gc: share of G and C among the unambiguous bases, 0 … 1.
        cpg_ratio: CpG observed/expected; None without C or without G.
        gc_skew: (G − C) / (G + C), −1 … 1; None without G and C.
        entropy: bits per base, 0 … 2.
        run: longest homopolymer as (base, length, 1-based start).
        words: the most frequent 3-mers with their counts, ties in alphabetical order.
        island: whether the CpG island rule holds; None below its minimal length.
    """

    length: int
    unknown: float
    gc: float
    cpg_ratio: float | None
    gc_skew: float | None
    entropy: float
    run: tuple[str, int, int]
    words: tuple[tuple[str, int], ...]
    island: bool | None


@lru_cache(maxsize=CACHE_SIZE)
def measure(sequence: str) -> Statistics:
    """Statistics of a cleaned sequence that has at least one base other than N."""
    counts = {base: sequence.count(base) for base in "ACGT"}
    known = sum(counts.values())
    strong = counts["G"] + counts["C"]
    gc = strong / known
    pairs = counts["C"] * counts["G"]
    # "CG" cannot overlap itself, so str.count counts all of them.
    cpg_ratio = sequence.count("CG") * known / pairs if pairs else None
    island = None
    if len(sequence) >= ISLAND_LENGTH:
        island = gc > ISLAND_GC and cpg_ratio is not None and cpg_ratio > ISLAND_RATIO
    run = max(_RUN.finditer(sequence), key=lambda match: match.end() - match.start())
    return Statistics(
        length=len(sequence),
        unknown=1 - known / len(sequence),
        gc=gc,
        cpg_ratio=cpg_ratio,
        gc_skew=(counts["G"] - counts["C"]) / strong if strong else None,
        entropy=sum(-n / known * math.log2(n / known) for n in counts.values() if n),
        run=(run.group()[0], run.end() - run.start(), run.start() + 1),
        words=_frequent_words(sequence),
        island=island,
    )


def _frequent_words(sequence: str) -> tuple[tuple[str, int], ...]:
    counts = Counter(map("".join, zip(sequence, sequence[1:], sequence[2:], strict=False)))
    known = [(word, count) for word, count in counts.items() if "N" not in word]
    return tuple(sorted(known, key=lambda item: (-item[1], item[0]))[:TOP_WORDS])


class SequenceStatistics(SequenceTool):
    """Composition of the sequence in numbers."""

    name = "sequence_statistics"
    title = "Sequence statistics"
    description = (
        "Sequence composition: length, GC and AT content, CpG observed/expected, GC skew, entropy, "
        "longest homopolymer and most frequent 3-mers."
    )
    version = version_of(_CODE_VERSION)

    def method(self, question: PublicQuestion) -> str:
        """See `SequenceTool`."""
        return "Composition of the strand as given; shares refer to the unambiguous bases."

    def report(self, sequence: str, question: PublicQuestion, brief: bool) -> list[str]:
        """See `SequenceTool`."""
        found = measure(sequence)
        base, run, start = found.run
        lines = [
            f"Length {found.length} bp, GC {100 * found.gc:.1f} %, AT {100 * (1 - found.gc):.1f} %, "
            f"N {100 * found.unknown:.1f} %.",
            f"CpG observed/expected {_number(found.cpg_ratio, '.2f', 'no C or no G')}; {_island(found)}.",
        ]
        if brief:
            return lines
        return [
            *lines,
            f"GC skew (G-C)/(G+C) {_number(found.gc_skew, '+.2f', 'no G and no C')}, "
            f"entropy {found.entropy:.2f} of 2 bits per base.",
            f"Most frequent 3-mers: {', '.join(f'{word} {count}' for word, count in found.words) or 'none'}.",
            f"Longest homopolymer: {base} x {run} at {start}-{start + run - 1} (+).",
        ]


def _number(value: float | None, spec: str, reason: str) -> str:
    return f"undefined ({reason})" if value is None else format(value, spec)


def _island(found: Statistics) -> str:
    if found.island is None:
        return f"CpG island rule not applied below {ISLAND_LENGTH} bp"
    verdict = "fulfils" if found.island else "does not fulfil"
    return f"{verdict} the CpG island rule (at least {ISLAND_LENGTH} bp, GC > 50 %, observed/expected > 0.6)"
