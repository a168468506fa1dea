"""T3 `splice_analyzer`: candidate donor and acceptor sites of the strand as given, scored by order-1 Markov models.

The geometry is MaxEntScan's (Yeo & Burge 2004): a donor is a 9-mer of 3 exon and 6 intron bases, an acceptor a 23-mer
of 20 intron and 3 exon bases. The score is log2 P(word | site) / P(word | background), both first-order Markov chains
trained on UCI splice-junction windows (`scripts/build_models.py`). **It is not MaxEntScan's scale**: the ranges of
true sites and decoys stand in the evidence. A junction "after base k" lies between the bases k and k+1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..questions import PublicQuestion
from .base import CACHE_SIZE, SequenceTool, data_file, version_of

SHOWN, SHOWN_BRIEF = 3, 2

_DATA = "splice_models.json"
_CODE_VERSION = "1"
_CODES = np.full(128, -1, dtype=np.int8)
_CODES[[ord(base) for base in "ACGT"]] = range(4)


class Site(NamedTuple):
    """A candidate site.

    Attributes:
        after: the junction lies after this base, 1-based.
        score: log2-odds in bits.
        word: the scored word, exon bases in lower case, intron bases in upper case.
        dinucleotide: the intron's end: GT or GC of a donor, AG of an acceptor.
    """

    after: int
    score: float
    word: str
    dinucleotide: str


@dataclass(frozen=True, eq=False)
class SiteModel:
    """A trained model of one kind of site.

    Attributes:
        kind: `donor` or `acceptor`.
        before: bases of the word before the junction.
        first: (4,) log2-odds of the first base.
        following: (length − 1, 4, 4) log2-odds of each base given the one before it.
        true_percentiles: 5th, 50th and 95th percentile of the scores of true sites.
        decoy_percentiles: the same of words around the same dinucleotide at other places.
        threshold: the score at which true sites are missed as often as decoys are called.
    """

    kind: str
    before: int
    first: np.ndarray
    following: np.ndarray
    true_percentiles: Sequence[float]
    decoy_percentiles: Sequence[float]
    threshold: float

    def __len__(self) -> int:
        return len(self.following) + 1

    def scores(self, starts: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Log2-odds of the words that begin at `starts` (0-based); `codes`: A, C, G, T as 0 … 3."""
        words = codes[starts[:, None] + np.arange(len(self))]
        steps = self.following[np.arange(len(self) - 1), words[:, :-1], words[:, 1:]]
        return self.first[words[:, 0]] + steps.sum(1)


@lru_cache(maxsize=1)
def models() -> tuple[SiteModel, SiteModel]:
    """The donor and the acceptor model of the package's data file."""
    content = json.loads(data_file(_DATA))
    donor, acceptor = (
        SiteModel(
            kind,
            content[kind]["before"],
            np.array(content[kind]["first"]),
            np.array(content[kind]["following"]),
            content[kind]["true_percentiles"],
            content[kind]["decoy_percentiles"],
            content[kind]["threshold"],
        )
        for kind in ("donor", "acceptor")
    )
    return donor, acceptor


def find_sites(sequence: str, model: SiteModel) -> list[Site]:
    """Every GT or GC (donor) or AG (acceptor) of a cleaned sequence, the best first; words with an N are left out."""
    codes = _CODES[np.frombuffer(sequence.encode("ascii"), dtype=np.uint8)]
    length = len(model)
    if len(codes) < length:
        return []
    unknown = np.concatenate([[0], (codes < 0).cumsum()])
    scorable = unknown[length:] == unknown[:-length]
    offset = model.before if model.kind == "donor" else model.before - 2
    span = len(codes) - length + 1
    first, second = codes[offset : offset + span], codes[offset + 1 : offset + 1 + span]
    donor, acceptor = (first == 2) & ((second == 3) | (second == 1)), (first == 0) & (second == 2)
    starts = np.flatnonzero(scorable & (donor if model.kind == "donor" else acceptor))
    scores = model.scores(starts, codes)
    best = np.lexsort((starts, -scores))
    return [_site(sequence, int(starts[i]), float(scores[i]), model) for i in best]


def _site(sequence: str, start: int, score: float, model: SiteModel) -> Site:
    before, after = sequence[start : start + model.before], sequence[start + model.before : start + len(model)]
    if model.kind == "donor":
        return Site(start + model.before, score, before.lower() + after, after[:2])
    return Site(start + model.before, score, before + after.lower(), before[-2:])


class SpliceAnalyzer(SequenceTool):
    """Candidate splice sites with their scores."""

    name = "splice_analyzer"
    title = "Splice sites"
    description = (
        "Splice donor (GT) and acceptor (AG) candidates on the given strand, "
        "scored by donor 9-mer and acceptor 23-mer models."
    )
    version = version_of(_CODE_VERSION, data_file(_DATA))

    def method(self, question: PublicQuestion) -> str:
        """See `SequenceTool`."""
        ranges = "; ".join(
            f"{model.kind}: true sites {_range(model.true_percentiles)}, decoys {_range(model.decoy_percentiles)}, "
            f"called from {model.threshold:.1f}"
            for model in models()
        )
        return (
            "Order-1 Markov log2-odds in bits, not MaxEntScan's scale, strand as given only; exon lower case, intron "
            f"upper case. Median [5-95 %] {ranges}."
        )

    def report(self, sequence: str, question: PublicQuestion, brief: bool) -> list[str]:
        """See `SequenceTool`."""
        return list(_report(sequence, brief))


def _range(percentiles: Sequence[float]) -> str:
    low, median, high = percentiles
    return f"{median:.1f} [{low:.1f}-{high:.1f}]"


@lru_cache(maxsize=CACHE_SIZE)
def _report(sequence: str, brief: bool) -> tuple[str, ...]:
    lines = [f"Length {len(sequence)} bp; the middle is after base {len(sequence) // 2}."]
    for model in models():
        if len(sequence) < len(model):
            lines.append(f"{model.kind.capitalize()}: not scored, needs {len(model)} nt.")
            continue
        sites = find_sites(sequence, model)
        called = sum(site.score >= model.threshold for site in sites)
        shown = "; ".join(_text(site) for site in sites[: SHOWN_BRIEF if brief else SHOWN])
        lines.append(f"{model.kind.capitalize()}: candidates {len(sites)}, called {called}. Best: {shown or 'none'}.")
    return tuple(lines)


def _text(site: Site) -> str:
    end = {"GT": "canonical GT", "GC": "GC, as in GC-AG introns", "AG": "canonical AG"}[site.dinucleotide]
    return f"after base {site.after}, {site.score:.1f} bits, {site.word} ({end})"
