"""T4 `genomic_expert`: distance-weighted votes of the nearest labelled training sequences in an embedding space.

k = 15 neighbours by cosine distance d, each with a vote of 1 / d. The sequence itself, on either strand, never votes.
For a question about one sequence only the reference sequences whose label is one of the options take part, and only
if there is one for each option: votes for some of the options would mislead. For a question whose options are sequences
all of them take part, and every option reports the labels it resembles most.

The embedder is pluggable, see `embedders.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from ....errors import QuestionError
from ..questions import PublicQuestion
from ..sequence import canonical
from .base import CACHE_SIZE, Reference, SequenceTool, clean_cached, version_of
from .embedders import Embedder, KmerSpectrum, kmer_numbers

NEIGHBOURS = 15
RELIABLE_LENGTH = 500
#: Below this share of the greatest possible 3-mer entropy a sequence is of low complexity.
LOW_COMPLEXITY = 0.5
SHOWN_LABELS, SHOWN_LABELS_BRIEF = 8, 3

_CODE_VERSION = "1"
_CLOSEST = 1e-6  # distance of identical embeddings, so that a vote stays finite


class GenomicExpert(SequenceTool):
    """Votes of the most similar labelled sequences.

    Args:
        reference: the labelled sequences.
        embedder: what turns sequences into vectors; 4-mer spectra if not given.
    """

    name = "genomic_expert"
    title = "Genomic expert"
    description = (
        "Nearest-neighbour votes: which option's label the most similar sequences of a labelled reference carry."
    )

    def __init__(self, reference: Reference, embedder: Embedder | None = None):
        self._reference = reference
        self._embedder = embedder or KmerSpectrum()
        self.version = version_of(_CODE_VERSION, reference.digest, self._embedder.version)

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(vectors, labels, canonical sequences) of the usable reference sequences, embedded at first use."""
        kept = []
        for raw, label in self._reference.records:
            try:
                sequence = clean_cached(raw).sequence
            except QuestionError:
                continue
            if not low_complexity(sequence):
                kept.append((sequence, label))
        if not kept:
            return np.zeros((0, 1), np.float32), np.array([], object), np.array([], object)
        vectors = self._embedder.embed([sequence for sequence, _ in kept])
        labels = np.array([label for _, label in kept], dtype=object)
        return vectors, labels, np.array([canonical(sequence) for sequence, _ in kept], dtype=object)

    def method(self, question: PublicQuestion) -> str:
        """See `SequenceTool`."""
        return (
            f"Nearest labelled sequences: {self._embedder.name}, cosine distance, k = {NEIGHBOURS}, "
            f"votes weighted by 1/distance; reference: {self._reference.name}, version {self._reference.digest[:8]}."
        )

    def report(self, sequence: str, question: PublicQuestion, brief: bool) -> list[str]:
        """See `SequenceTool`."""
        if low_complexity(sequence):
            return ["Low complexity: not compared."]
        vectors, labels, names = self._index
        usable = names != canonical(sequence)
        if question.shape == "describe":
            usable &= np.isin(labels, question.choices)
            missing = set(question.choices) - set(labels[usable])
            if missing:
                return [f"Not compared: the reference has no other sequence for {len(missing)} of the options."]
        candidates = np.flatnonzero(usable)
        if not len(candidates):
            return ["Not compared: the reference has no other sequence."]
        distances = 1 - vectors[candidates] @ _vector(self._embedder, sequence)
        near = np.argsort(distances, kind="stable")[:NEIGHBOURS]
        shares = vote_shares(distances[near], labels[candidates[near]].tolist())
        shown = shares[: SHOWN_LABELS_BRIEF if brief else SHOWN_LABELS]
        votes = f"Vote shares of {len(near)} neighbours: {'; '.join(f'{label} {share:.2f}' for label, share in shown)}."
        if brief:
            return [votes]
        lines = [
            f"{votes} Margin {margin(shares):.2f}.",
            f"{len(candidates)} reference sequences carry one of the options; the nearest has cosine similarity "
            f"{1 - distances[near[0]]:.2f}.",
        ]
        if len(sequence) < RELIABLE_LENGTH:
            lines.append(f"Shorter than {RELIABLE_LENGTH} bp: the votes are less reliable.")
        return lines


@lru_cache(maxsize=CACHE_SIZE)
def _vector(embedder: Embedder, sequence: str) -> np.ndarray:
    return embedder.embed([sequence])[0]


def vote_shares(distances: np.ndarray, labels: Sequence[str]) -> list[tuple[str, float]]:
    """(label, share of the votes), the greatest first; a neighbour at distance d has a vote of 1 / d."""
    votes: dict[str, float] = defaultdict(float)
    for distance, label in zip(distances, labels, strict=True):
        votes[label] += 1 / max(float(distance), _CLOSEST)
    total = sum(votes.values())
    return sorted(((label, vote / total) for label, vote in votes.items()), key=lambda item: (-item[1], item[0]))


def margin(shares: Sequence[tuple[str, float]]) -> float:
    """Lead of the first label over the second."""
    return shares[0][1] - (shares[1][1] if len(shares) > 1 else 0.0)


def low_complexity(sequence: str) -> bool:
    """Whether the 3-mers of a cleaned sequence are far less varied than they could be (or there are none)."""
    words = kmer_numbers(sequence, 3)[0]
    if len(words) < 2:
        return True
    shares = np.unique(words, return_counts=True)[1] / len(words)
    return float(-(shares * np.log2(shares)).sum()) < LOW_COMPLEXITY * math.log2(min(64, len(words)))
