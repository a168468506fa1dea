"""T5 `homology_search`: local alignments of the sequence with labelled training sequences, on both strands.

Shared 8-mers choose the reference sequences worth aligning; Biopython's Smith-Waterman (match 2, mismatch −3, gap
open −5, extend −2, N neutral) aligns them. A hit has identity >= 60 % over the aligned columns, gaps included, and
covers >= 30 % of the query. The sequence itself and anything more than 99.5 % identical to it are dropped, so that a
copy of a question does not answer it.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from Bio.Align import PairwiseAligner

from ....errors import QuestionError
from ..questions import PublicQuestion
from ..sequence import canonical, reverse_complement
from .base import CACHE_SIZE, Reference, SequenceTool, clean_cached, version_of
from .embedders import kmer_numbers

SEED = 8
ALIGNED = 3
MIN_IDENTITY, MIN_COVERAGE, MAX_IDENTITY = 0.60, 0.30, 0.995
#: Cells of the largest alignment tried, so that two long sequences do not take minutes and gigabytes.
MAX_CELLS = 4_000_000
SHOWN, SHOWN_BRIEF = 3, 1

_CODE_VERSION = "1"


class Alignment(NamedTuple):
    """A local alignment with one reference sequence.

    Attributes:
        label: the reference sequence's label.
        identity: identical bases / aligned columns, 0 … 1.
        coverage: aligned bases of the query / its length, 0 … 1.
        start: first aligned base of the query, 1-based, + strand.
        end: last aligned base of the query.
        strand: strand of the query that resembles the reference.
        score: Smith-Waterman score.
    """

    label: str
    identity: float
    coverage: float
    start: int
    end: int
    strand: str
    score: float


class HomologySearch(SequenceTool):
    """Similar sequences of the labelled reference."""

    name = "homology_search"
    title = "Homology search"
    description = "Local alignments with a labelled reference: similar sequences, their identity, coverage and label."

    def __init__(self, reference: Reference):
        self._reference = reference
        self._search = lru_cache(maxsize=CACHE_SIZE)(self.search)
        self.version = version_of(_CODE_VERSION, reference.digest)

    def __reduce__(self):
        return type(self), (self._reference,)

    @cached_property
    def _records(self) -> list[tuple[str, str]]:
        kept = []
        for raw, label in self._reference.records:
            try:
                kept.append((clean_cached(raw).sequence, label))
            except QuestionError:
                continue
        return kept

    @cached_property
    def _seeds(self) -> dict[int, np.ndarray]:
        """8-mer number -> indices of the reference sequences that contain it."""
        found = defaultdict(list)
        for index, (sequence, _) in enumerate(self._records):
            for number in np.unique(kmer_numbers(sequence, SEED)[0]).tolist():
                found[number].append(index)
        return {number: np.array(indices) for number, indices in found.items()}

    def method(self, question: PublicQuestion) -> str:
        """See `SequenceTool`."""
        return (
            f"{SEED}-mer seeds and Smith-Waterman alignment, both strands; hit: identity >= {MIN_IDENTITY:.0%} and "
            f"coverage >= {MIN_COVERAGE:.0%} of the query; identical sequences dropped; reference: "
            f"{self._reference.name}, version {self._reference.digest[:8]}."
        )

    def report(self, sequence: str, question: PublicQuestion, brief: bool) -> list[str]:
        """See `SequenceTool`."""
        hits = self._search(sequence)
        if question.shape == "describe":
            hits = [hit for hit in hits if hit.label in question.choices]
        if not hits:
            return ["No hit."]
        shown = hits[: SHOWN_BRIEF if brief else SHOWN]
        return [f"{len(hits)} hits.", *(_text(hit) for hit in shown)]

    def search(self, sequence: str) -> list[Alignment]:
        """The hits of a cleaned sequence, the highest score first."""
        own = canonical(sequence)
        hits = []
        for strand, query in (("+", sequence), ("-", reverse_complement(sequence))):
            for index in self._candidates(query):
                target, label = self._records[index]
                if canonical(target) == own or len(target) * len(query) > MAX_CELLS:
                    continue
                hit = _align(query, target, label, strand)
                if hit and MIN_IDENTITY <= hit.identity <= MAX_IDENTITY and hit.coverage >= MIN_COVERAGE:
                    hits.append(hit)
        return sorted(hits, key=lambda hit: (-hit.score, hit.label, hit.start, hit.strand))

    def _candidates(self, query: str) -> list[int]:
        """The reference sequences that share the most different seeds with the query."""
        numbers = np.unique(kmer_numbers(query, SEED)[0]).tolist()
        shared = [self._seeds[number] for number in numbers if number in self._seeds]
        if not shared:
            return []
        counts = np.bincount(np.concatenate(shared), minlength=len(self._records))
        best = np.argsort(-counts, kind="stable")[:ALIGNED]
        return [int(index) for index in best if counts[index] > 0]


@lru_cache(maxsize=1)
def _aligner() -> PairwiseAligner:
    aligner = PairwiseAligner(mode="local", match_score=2, mismatch_score=-3, wildcard="N")
    aligner.open_gap_score, aligner.extend_gap_score = -5, -2
    return aligner


def _align(query: str, target: str, label: str, strand: str) -> Alignment | None:
    alignments = _aligner().align(target, query)
    if alignments.score <= 0:
        return None
    best = alignments[0]
    identical = aligned = 0
    for (t0, t1), (q0, q1) in zip(*best.aligned, strict=True):
        identical += sum(a == b != "N" for a, b in zip(target[t0:t1], query[q0:q1], strict=True))
        aligned += int(q1 - q0)
    start, end = int(best.aligned[1][0][0]), int(best.aligned[1][-1][1])
    first, last = (start + 1, end) if strand == "+" else (len(query) - end + 1, len(query) - start)
    return Alignment(label, identical / best.length, aligned / len(query), first, last, strand, float(best.score))


def _text(hit: Alignment) -> str:
    return (
        f"{hit.label}: identity {hit.identity:.0%}, coverage {hit.coverage:.0%}, query {hit.start}-{hit.end} "
        f"({hit.strand}), score {hit.score:.0f}."
    )
