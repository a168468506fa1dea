"""What the `evidence` reasoner knows: how evidence text is read, and the biology it is judged by.

`NUMBERS`, `SITES`, `LABEL` and `MOTIF` find facts in a line of evidence, `RULES` says how far a fact speaks for a
claim. A claim is the text of an option, or the question itself when the options are sequences. All rules are general
knowledge that a textbook states in a sentence; none refers to a particular question set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ramp:
    """0 up to `start`, 1 from `end`, linear between; falling if `start` > `end`."""

    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The vote."""
        return min(1.0, max(0.0, (value - self.start) / (self.end - self.start)))


@dataclass(frozen=True)
class Peak:
    """1 at `centre`, 0 at a distance of `width` or more, linear between."""

    centre: float
    width: float

    def __call__(self, value: float) -> float:
        """The vote."""
        return max(0.0, 1.0 - abs(value - self.centre) / self.width)


@dataclass(frozen=True)
class Rule:
    """A fact speaks for the claims that match a pattern.

    Attributes:
        fact: name of a number of `NUMBERS`, or `enrichment`, `donor`, `acceptor`, `best_site`.
        claim: pattern of the claims.
        curve: fact → vote, 0 … 1.
        weight: greatest vote.
        context: pattern of the questions in which the rule applies.
    """

    fact: str
    claim: str
    curve: Callable[[float], float]
    weight: float = 1.0
    context: str = ""


#: Fact → pattern of its number.
NUMBERS = {
    "gc": r"\bGC (\d{1,9}(?:\.\d{1,9})?) ?%",
    "cpg": r"\bCpG observed/expected (\d{1,9}(?:\.\d{1,9})?)",
    "matches": r"\b(\d{1,9}) matches\b",
    "by_chance": r"\bchance alone would give (\d{1,9}(?:\.\d{1,9})?)",
    "middle": r"\bmiddle is after base (\d{1,9})",
}
#: The part of a line on one kind of splice site, and in it each candidate's junction and score in bits.
SITES = r"\b(Donor|Acceptor): (.*?)(?=\b(?:Donor|Acceptor): |$)"
SITE = r"after base (\d{1,9}), (-?\d{1,9}(?:\.\d{1,9})?) bits"
#: A label that a line puts forward: `neighbours: label 0.63; other label 0.37.`, `label: identity 85%`, or, for an
#: option, `anything: label.`, with its share in one of the two groups if the line gives one.
LABEL = r"(?:^|: |; |\. ){label}(?: ([01]\.\d\d)(?=[;.]|$)|: identity (\d\d?\d?)%|(?=[;.]|$))"
ANY_LABEL = r"(?:neighbours: |; |hits\. )([^;]+?)(?: ([01]\.\d\d)(?=[;.]|$)|: identity (\d\d?\d?)%)"
#: A motif that a line reports at some place.
MOTIF = r"(?:^\d+\. |[:;] )(\S+)(?: \[[^\]]*\] \S+)? \d+-\d+ \([+-]\)"
#: Factors of one family share the letters before their number (`KLF4`, `KLF9`); zinc fingers named ZNF share no more.
FAMILY_STEM = r"(?!zn?f|zscan|zbtb)[a-z]{3,4}(?=[a-z]?\d)"

_BACTERIA = r"\bcoli\b|bacteri|prokaryot|phage|archaea"
_MAMMALS = r"\bhuman|homo sapiens|\bmouse|mus musculus|mammal|vertebrate"
_SMALL_EUKARYOTES = r"drosophila|fruit fly|elegans|nematode|yeast|cerevisiae|arabidopsis|plant|fung"
_BACTERIAL = r"coli\b|bacteri|sigma"
_NOT_BACTERIAL = rf"^(?!.*({_BACTERIAL}))"

RULES = (
    # Base composition as such.
    Rule("gc", r"\bGC[- ]rich|CpG island", Ramp(44, 54)),
    Rule("gc", r"\bAT[- ]rich", Ramp(56, 46)),
    Rule("cpg", r"CpG island|as expected", Ramp(0.4, 0.7)),
    Rule("cpg", r"depleted|\bpoor in CpG", Ramp(0.7, 0.4)),
    # Genomes: their GC content, and the loss of CpG by methylation in vertebrates.
    Rule("gc", r"\bcoli\b|\bphage\b", Peak(50.5, 8)),
    Rule("gc", r"human|homo sapiens|drosophila|fruit fly|mouse", Peak(41.5, 8)),
    Rule("gc", r"cerevisiae|yeast", Peak(38.3, 6)),
    Rule("gc", r"elegans|nematode|arabidopsis", Peak(35.5, 6)),
    Rule("cpg", _MAMMALS, Ramp(0.55, 0.2)),
    Rule("cpg", f"{_BACTERIA}|{_SMALL_EUKARYOTES}", Ramp(0.4, 0.8), 0.5),
    # Regulatory DNA: promoters of mammals are rich in GC and CpG, those of bacteria in AT; motifs gather in both.
    Rule("gc", r"\bpromoter", Ramp(45, 65), 0.6, _NOT_BACTERIAL),
    Rule("cpg", r"\bpromoter", Ramp(0.2, 0.7), 0.6, _NOT_BACTERIAL),
    Rule("gc", r"\bpromoter", Ramp(55, 35), 1.0, _BACTERIAL),
    Rule("gc", r"\benhancer|\bbound|binding site", Ramp(38, 55), 0.6),
    Rule("enrichment", r"\bpromoter|\benhancer|\bbound|binding site|CpG island|regulat", Ramp(0.9, 1.8), 0.6),
    Rule("enrichment", _MAMMALS, Ramp(0.9, 1.8), 0.5),
    # Splice sites; a strong one also speaks for a genome with introns.
    Rule("donor", r"\bdonor\b|5' splice", Ramp(0, 8)),
    Rule("acceptor", r"\bacceptor\b|3' splice", Ramp(0, 8)),
    Rule("best_site", f"{_MAMMALS}|{_SMALL_EUKARYOTES}|eukaryot|intron", Ramp(5, 11), 0.4),
)

#: An option that denies what the others assert.
DENIAL = r"^(no|not|non|none|random|background)\b|\bneither\b"
#: A question about what is in the middle of the sequence.
MIDDLE = r"\b(cent(re|er)|middle|midpoint|midway)\b"
