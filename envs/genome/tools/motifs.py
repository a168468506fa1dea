"""T2 `motif_scanner`: matches of JASPAR matrices on both strands, with exact p-values and what chance would give.

Scores are log2-odds in bits against a uniform background, with a pseudocount of 0.8 per column, shared evenly by the
four bases (Nishida et al. 2009, doi:10.1093/nar/gkn1019). Every matrix entry is rounded to 1/32 bit. That makes the set
of possible scores finite, so that the distribution of the score of a random word follows exactly from one convolution
per column, sums do not depend on their order (the reverse strand mirrors the forward one to the last bit), and a
threshold is a score that occurs.

A matrix so short that even its best word has p > threshold is a *short motif*: only its best word counts as a match,
with the p-value of that word (4^-L if it is unique).
"""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import lightmotif
import numpy as np

from ..questions import PublicQuestion
from ..sequence import reverse_complement
from .base import CACHE_SIZE, SequenceTool, data_file, version_of

THRESHOLD = 1e-4
#: In a sequence of at most this many bases so few words are tested that a weaker threshold says more.
SHORT_SEQUENCE = 40
SHORT_SEQUENCE_THRESHOLD = 1e-3
PSEUDOCOUNT = 0.8
GRID = 32
SHOWN, SHOWN_BRIEF = 10, 3

_DATA = "jaspar_motifs.txt.gz"
_CORE_PROMOTER = "POL"
_CODE_VERSION = "1"


@dataclass(frozen=True, eq=False)
class Motif:
    """A scoring matrix and the distribution of its score over random words.

    Attributes:
        id: matrix id with version, `MA0004.1`.
        name: name of the factor, `Arnt`, or of the partners, `Ahr::Arnt`.
        kind: class of the DNA-binding domain.
        family: family within the class; may be empty.
        scores: (length, 4) int, log2-odds of A, C, G, T in 1/32 bit.
        lowest: lowest possible score in 1/32 bit.
        tail: tail[i] = P(score >= lowest + i) of a random word under a uniform background.
        forward: the matrix for the + strand, in bits.
        reverse: its reverse complement, which finds words on the - strand.
    """

    id: str
    name: str
    kind: str
    family: str
    scores: np.ndarray
    lowest: int
    tail: np.ndarray
    forward: lightmotif.ScoringMatrix
    reverse: lightmotif.ScoringMatrix

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def highest(self) -> int:
        """Highest possible score in 1/32 bit."""
        return self.lowest + len(self.tail) - 1

    def p_value(self, score: int) -> float:
        """P(score of a random word >= `score`), `score` in 1/32 bit."""
        return float(self.tail[min(max(score - self.lowest, 0), len(self.tail) - 1)])

    def threshold(self, p: float) -> int:
        """The lowest score in 1/32 bit with a p-value of at most `p`, or the highest score (a short motif)."""
        return self.lowest + min(int(np.count_nonzero(self.tail > p)), len(self.tail) - 1)


class Hit(NamedTuple):
    """A match: 1-based inclusive coordinates on the + strand of the sequence, the word as read on `strand`."""

    motif: Motif
    strand: str
    start: int
    end: int
    score: float
    p_value: float
    short: bool

    @property
    def relative(self) -> float:
        """(score − lowest) / (highest − lowest) of the matrix, 0 … 1."""
        lowest, highest = self.motif.lowest / GRID, self.motif.highest / GRID
        return (self.score - lowest) / (highest - lowest)

    def order(self) -> tuple:
        """Sorting key: the least probable by chance first."""
        return (self.p_value, -self.relative, self.motif.id, self.start, self.strand)


def make_motif(identifier: str, name: str, kind: str, family: str, counts: np.ndarray) -> Motif:
    """A motif from its (length, 4) counts of A, C, G, T."""
    smoothed = counts + PSEUDOCOUNT / 4
    scores = np.rint(GRID * np.log2(smoothed / smoothed.sum(1, keepdims=True) / 0.25)).astype(int)
    columns = {base: (scores[:, i] / GRID).tolist() for i, base in enumerate("ACGT")}
    matrix = lightmotif.ScoringMatrix({**columns, "N": [float("-inf")] * len(scores)})
    lowest = int(scores.min(1).sum())
    reverse = matrix.reverse_complement()
    return Motif(identifier, name, kind, family, scores, lowest, _tail(scores), matrix, reverse)


def _tail(scores: np.ndarray) -> np.ndarray:
    """P(score >= lowest + i), by one convolution per column with the four equally likely bases."""
    density = np.ones(1)
    for column in scores - scores.min(1, keepdims=True):
        longer = np.zeros(len(density) + column.max())
        for shift in column:
            longer[shift : shift + len(density)] += 0.25 * density
        density = longer
    return density[::-1].cumsum()[::-1]


@lru_cache(maxsize=1)
def motifs() -> tuple[Motif, ...]:
    """All matrices of the package's data file."""
    lines = iter(gzip.decompress(data_file(_DATA)).decode().splitlines())
    found = []
    for head in lines:
        identifier, name, kind, family = head.removeprefix(">").split("\t")
        counts = np.array([row.split() for row in islice(lines, 4)], dtype=float).T
        found.append(make_motif(identifier, name, kind, family, counts))
    return tuple(found)


def threshold_for(length: int) -> float:
    """The p-value up to which a match counts in a sequence of `length` bases."""
    return SHORT_SEQUENCE_THRESHOLD if length <= SHORT_SEQUENCE else THRESHOLD


@lru_cache(maxsize=2)
def _cutoffs(p: float) -> tuple[tuple[Motif, int, float], ...]:
    """(motif, threshold in 1/32 bit, p-value of that threshold) for every matrix."""
    cutoffs = ((motif, motif.threshold(p)) for motif in motifs())
    return tuple((motif, cutoff, motif.p_value(cutoff)) for motif, cutoff in cutoffs)


def scan(sequence: str) -> list[Hit]:
    """Every match on both strands of a cleaned sequence, the least probable first. Words with an N never match."""
    hits = []
    striped = lightmotif.stripe(sequence)
    threshold = threshold_for(len(sequence))
    for motif, cutoff, _ in _cutoffs(threshold):
        last = len(sequence) - len(motif)
        if last < 0:
            continue
        for strand, matrix in (("+", motif.forward), ("-", motif.reverse)):
            scores = matrix.calculate(striped)
            for position in scores.threshold(cutoff / GRID):
                if position <= last:  # the library also returns positions of its padding
                    score = scores[position]
                    p = motif.p_value(round(score * GRID))
                    hits.append(Hit(motif, strand, position + 1, position + len(motif), score, p, p > threshold))
    return sorted(hits, key=Hit.order)


def expected_by_chance(sequence: str) -> tuple[float, int]:
    """(matches expected in a random sequence with N at the same places, number of matrices that fit in it)."""
    known = np.array([base != "N" for base in sequence])
    before = np.concatenate([[0], known.cumsum()])
    expected, tested = 0.0, 0
    words: dict[int, int] = {}
    for motif, _, p in _cutoffs(threshold_for(len(sequence))):
        length = len(motif)
        if length > len(sequence):
            continue
        if length not in words:
            words[length] = int(np.count_nonzero(before[length:] - before[:-length] == length))
        tested += 1
        expected += 2 * words[length] * p
    return expected, tested


class MotifScanner(SequenceTool):
    """Transcription-factor motifs and core-promoter elements in the sequence."""

    name = "motif_scanner"
    title = "Motif scan"
    description = (
        "Transcription-factor binding motifs (JASPAR vertebrates) and core-promoter elements on both strands, "
        "with p-values and the number of matches expected by chance."
    )
    version = version_of(_CODE_VERSION, data_file(_DATA))

    def method(self, question: PublicQuestion) -> str:
        """See `SequenceTool`."""
        return (
            f"{len(motifs())} matrices (JASPAR 2024 CORE vertebrates, POLII core promoter), both strands, log2-odds "
            f"bits, uniform background, pseudocount {PSEUDOCOUNT}, exact p-values."
        )

    def report(self, sequence: str, question: PublicQuestion, brief: bool) -> list[str]:
        """See `SequenceTool`."""
        return list(_report(sequence, brief))


@lru_cache(maxsize=CACHE_SIZE)
def _report(sequence: str, brief: bool) -> tuple[str, ...]:
    expected, tested = expected_by_chance(sequence)
    if not tested:
        return (f"Not scanned: {len(sequence)} bp is shorter than the shortest matrix.",)
    hits = scan(sequence)
    count = Counter(hit.motif.id for hit in hits)
    best = list({hit.motif.id: hit for hit in reversed(hits)}.values())
    best.sort(key=Hit.order)
    lines = [
        f"{len(hits)} matches (p <= {threshold_for(len(sequence)):.0e}) of {len(count)} matrices in "
        f"{len(sequence)} bp; {tested} matrices fit, chance alone would give {expected:.1f} matches."
    ]
    if brief:
        shown = "; ".join(f"{hit.motif.name} {_place(hit)} p {hit.p_value:.1e}" for hit in best[:SHOWN_BRIEF])
        return (*lines, f"Best: {shown or 'none'}.")
    core = [f"{hit.motif.name} {_place(hit)}" for hit in best if hit.motif.id.startswith(_CORE_PROMOTER)]
    lines.append(f"Core-promoter elements: {', '.join(core) or 'none'}.")
    lines.extend(_line(rank, hit, sequence, count) for rank, hit in enumerate(best[:SHOWN], 1))
    return tuple(lines)


def _place(hit: Hit) -> str:
    return f"{hit.start}-{hit.end} ({hit.strand})"


def _line(rank: int, hit: Hit, sequence: str, count: Counter) -> str:
    word = sequence[hit.start - 1 : hit.end]
    if hit.strand == "-":
        word = reverse_complement(word)
    kind = f"{hit.motif.kind}; {hit.motif.family}" if hit.motif.family else hit.motif.kind
    more = f", {count[hit.motif.id]} matches" if count[hit.motif.id] > 1 else ""
    short = ", short motif" if hit.short else ""
    return (
        f"{rank}. {hit.motif.name} [{kind}] {hit.motif.id} {_place(hit)} {word}, {hit.score:.1f} bits, "
        f"relative score {hit.relative:.2f}, p {hit.p_value:.1e}{more}{short}."
    )
