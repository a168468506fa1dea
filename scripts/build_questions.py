"""Build the embedded question set `envs/genome/data/questions.jsonl.gz` from public packages.

    python -m venv build-env
    build-env/bin/pip install -e . pyjaspar==4.0.0 pyreadr==0.5.8 pandas
    build-env/bin/python scripts/build_questions.py --debs FOLDER

FOLDER keeps the Debian packages of `sources.json`; what is missing there is fetched with `apt-get download`.
The result is deterministic. Splits are made by gene, genomic block or matrix before any question is drawn, and a
sequence that shares a 30-mer, on either strand, with one of another split is left out.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import question_sources as sources
from question_sources import INSDC, Matrix, Packages, Sample
from question_splits import CLUSTER_LENGTH, Guard, Pool, assign_splits, clusters, splits_per_label, words
from toolcredit.envs.genome.questions import SPLITS, PublicQuestion, Question, write_questions
from toolcredit.envs.genome.sequence import crop_centre, reverse_complement

OUTPUT = Path(__file__).resolve().parents[1] / "envs" / "genome" / "data" / "questions.jsonl.gz"
BLOCK, SHORTEST_BLOCK = 10_000, 1_200
FRAGMENT_LENGTHS = (600, 800, 1000)
CPG_WINDOW = 600
SELECT_FRAGMENT = 400
SELECT_QUOTA = {"train": 24, "dev": 4, "test": 12}
SITE_BITS = math.log2(10_000)  # chance gives a log-odds score of s bits with a probability of at most 2^-s

SPLICE_CHOICES = {
    "donor": "splice donor site (exon-intron boundary)",
    "acceptor": "splice acceptor site (intron-exon boundary)",
    "neither": "neither a donor nor an acceptor",
}
CPG_CHOICES = {
    "island": "CpG island: GC-rich, CpG about as frequent as expected",
    "gc_rich": "GC-rich but depleted of CpG",
    "at_rich": "AT-rich and depleted of CpG",
}
WORDINGS = {
    "splice": (
        "What is at the centre of this {length}-nt {species} gene sequence, between bases {half} and {next}?",
        "Does the middle of this {length}-nt {species} sequence hold a splice donor, a splice acceptor, or neither?",
        "Classify the exon-intron structure at the midpoint of this {length}-nt {species} DNA sequence.",
        "Which kind of splice site, if any, lies exactly in the middle of this {length}-nt {species} sequence?",
    ),
    "taxonomy": (
        "Which organism does this {length}-bp DNA fragment most likely come from?",
        "From which of these genomes was this {length}-bp sequence taken?",
        "Identify the species of origin of this {length}-bp genomic fragment.",
        "A sequencing run gave this {length}-bp fragment. Which organism was sequenced?",
    ),
    "tf_motif": (
        "Which transcription factor does this {length}-bp binding site best match?",
        "Which factor's binding motif fits this {length}-bp DNA site best?",
        "Which of these transcription factors would most likely bind this {length}-bp site?",
        "This {length}-bp sequence is a binding site of one transcription factor. Which one?",
    ),
    "cpg_island": (
        "Which description fits the GC and CpG content of this {length}-bp window of human DNA?",
        "How would you classify this {length}-bp human sequence by its base composition?",
        "Is this {length}-bp stretch of the human genome a CpG island? Choose the best description.",
    ),
    "splice_select": (
        "Which of these four {length}-nt sequences has a splice {kind} exactly at its centre?",
        "Only one of these {length}-nt gene sequences has a splice {kind} in its middle. Which one?",
        "Pick the sequence whose midpoint is a splice {kind}.",
    ),
    "taxonomy_select": (
        "Which of these four DNA fragments comes from {organism}?",
        "Only one of these fragments was sequenced from {organism}. Which one?",
        "Pick the fragment whose genome of origin is {organism}.",
    ),
    "motif_select": (
        "Which of these four sites best matches the binding motif of {factor}?",
        "Only one of these sequences is a binding site of the transcription factor {factor}. Which one?",
        "Pick the site that the transcription factor {factor} would most likely bind.",
    ),
    "promoter_select": (
        "Which of these four {length}-bp Escherichia coli sequences is a sigma-70 promoter?",
        "Only one of these {length}-bp bacterial sequences is a promoter. Which one?",
        "Pick the sequence that is an Escherichia coli promoter.",
    ),
}


class Family:
    """Questions of one family. Wording and order of the options are drawn, so that neither tells the answer."""

    def __init__(self, name: str):
        self.name = name
        self.questions: list[Question] = []
        self._rng = random.Random(f"family {name}")
        self._positions: list[int] = []

    def add(
        self, split: str, answer: str, others: Sequence[str], sequence: str | None, source: Sample | Matrix, **details
    ) -> None:
        """Append a question whose right option is the text `answer`; `details` fill the wording's blanks."""
        if not self._positions:
            self._positions = self._rng.sample(range(len(others) + 1), len(others) + 1)
        position = self._positions.pop()
        choices = self._rng.sample(list(others), len(others))
        choices.insert(position, answer)
        length = len(answer if sequence is None else sequence)
        details |= {"length": length, "half": length // 2, "next": length // 2 + 1}
        self.questions.append(
            Question(
                id=f"{self.name}-{len(self.questions) + 1:03d}",
                public=PublicQuestion(
                    self._rng.choice(WORDINGS[self.name]).format(**details), tuple(choices), sequence
                ),
                answer=position,
                family=self.name,
                split=split,
                source=source.source,
                licence=source.licence,
            )
        )


def splice(packages: Packages, guard: Guard) -> list[Question]:
    """Donor, acceptor or neither at the centre; one of four sequences with such a site at its centre."""
    uci, human = sources.uci_splice(packages), sources.human_splice(packages)
    # Decoys say nothing about kinship: many lie in the repeats that genes share.
    cluster_of = clusters(uci + [sample for sample in human if sample.label != "neither"])
    human = [sample for sample in human if sample.group in cluster_of]
    split_of_cluster = assign_splits(cluster_of.values(), "splice")

    def split_of(sample: Sample) -> str:
        return split_of_cluster[cluster_of[sample.group]]

    short, long = Pool(uci, split_of, guard, "uci"), Pool(human, split_of, guard, "human")
    describe, select = Family("splice"), Family("splice_select")
    for pool, species, quota in (
        (short, "primate", {"train": 20, "dev": 4, "test": 10}),
        (long, "human", {"train": 12, "dev": 2, "test": 6}),
    ):
        for split in SPLITS:
            for label, text in SPLICE_CHOICES.items():
                others = [other for other in SPLICE_CHOICES.values() if other != text]
                for _ in range(quota[split]):
                    sample = pool.take(split, label)
                    describe.add(split, text, others, sample.sequence, sample, species=species)
    kinds = {"donor": "donor (exon-intron boundary)", "acceptor": "acceptor (intron-exon boundary)"}
    for split, count in SELECT_QUOTA.items():
        for number in range(count):
            label, opposite = ("donor", "acceptor") if number % 2 else ("acceptor", "donor")
            sample = short.take(split, label)
            others = [short.take(split, name).sequence for name in (opposite, "neither", "neither")]
            select.add(split, sample.sequence, others, None, sample, kind=kinds[label])
    return describe.questions + select.questions


def taxonomy(packages: Packages, guard: Guard) -> list[Question]:
    """The organism of a fragment; the one fragment of four that comes from an organism."""
    genomes = sources.genomes(packages)
    fragments = [f for organism, (where, text) in genomes.items() for f in _fragments(organism, where, text)]
    splits = splits_per_label(fragments, "taxonomy")
    pool = Pool(fragments, lambda sample: splits[sample.group], guard, "taxonomy")
    describe, select = Family("taxonomy"), Family("taxonomy_select")
    rng = random.Random("taxonomy")
    for split, count in (("train", 20), ("dev", 3), ("test", 9)):
        for organism in genomes:
            for _ in range(count):
                sample = pool.take(split, organism)
                others = rng.sample([name for name in genomes if name != organism], 3)
                fragment = crop_centre(sample.sequence, rng.choice(FRAGMENT_LENGTHS))
                describe.add(split, organism, others, fragment, sample)
    cellular = [name for name in genomes if "phage" not in name]  # the phage lives in E. coli and looks like it
    for split, count in SELECT_QUOTA.items():
        for number in range(count):
            organism = cellular[number % len(cellular)]
            names = rng.sample([name for name in cellular if name != organism], 3)
            sample, *others = (pool.take(split, name) for name in [organism, *names])
            first, *rest = (crop_centre(s.sequence, SELECT_FRAGMENT) for s in (sample, *others))
            select.add(split, first, rest, None, sample, organism=organism)
    return describe.questions + select.questions


def _fragments(organism: str, where: str, genome: str) -> list[Sample]:
    """One fragment from each of up to 120 blocks of a genome (a short one has shorter blocks), either strand."""
    block = min(BLOCK, max(SHORTEST_BLOCK, len(genome) // 100))
    length = max(FRAGMENT_LENGTHS)
    rng = random.Random(f"fragments {organism}")
    starts = range(0, len(genome) - block + 1, block)
    samples = []
    for start in rng.sample(starts, min(len(starts), 120)):
        first = start + rng.randrange(block - length + 1)
        text = genome[first : first + length]
        if set(text) <= set("ACGT"):
            strand = rng.choice("+-")
            text = text if strand == "+" else reverse_complement(text)
            source = f"{organism}, {where}, {strand} strand of {length} bp from base {first + 1}"
            samples.append(Sample(text, organism, f"{organism} {start}", source, INSDC))
    return samples


def cpg_island(packages: Packages, guard: Guard) -> list[Question]:
    """Windows of human DNA that clearly are, or clearly are not, a CpG island by Gardiner-Garden and Frommer."""
    where, chromosome = sources.genomes(packages)["Homo sapiens (human)"]
    longest = max(sources.human_records(packages), key=len)
    samples = _cpg_windows(where, chromosome)
    samples += _cpg_windows(f"GenBank {longest.id}", str(longest.seq).upper())
    splits = splits_per_label(samples, "cpg_island")
    pool = Pool(samples, lambda sample: splits[sample.group], guard, "cpg_island")
    family = Family("cpg_island")
    for split, count in (("train", 18), ("dev", 3), ("test", 9)):
        for label, text in CPG_CHOICES.items():
            others = [other for other in CPG_CHOICES.values() if other != text]
            for _ in range(count):
                sample = pool.take(split, label)
                family.add(split, text, others, sample.sequence, sample)
    return family.questions


def _cpg_windows(where: str, text: str) -> list[Sample]:
    """At most one window a block, an island where the block has one."""
    rng = random.Random(f"cpg {where}")
    samples = []
    for start in range(0, len(text) - BLOCK + 1, BLOCK):
        found: dict[str, Sample] = {}
        for first in range(start, start + BLOCK - CPG_WINDOW + 1, 50):
            window = text[first : first + CPG_WINDOW]
            label = _cpg_class(window)
            if label and label not in found:
                source = f"Homo sapiens (human), {where}, {CPG_WINDOW} bp from base {first + 1}"
                found[label] = Sample(window, label, f"{where} {start}", source, INSDC)
        if found:
            samples.append(found["island"] if "island" in found else found[rng.choice(sorted(found))])
    return samples


def _cpg_class(window: str) -> str | None:
    """Class of a window that is not near the rule's limits: GC over 50 %, CpG observed/expected over 0.6."""
    c, g = window.count("C"), window.count("G")
    if set(window) - set("ACGT") or not c * g:
        return None
    gc, ratio = (c + g) / len(window), window.count("CG") * len(window) / (c * g)
    if gc >= 0.55 and ratio >= 0.7:
        return "island"
    if ratio <= 0.4:
        return "gc_rich" if gc >= 0.53 else "at_rich" if gc <= 0.42 else None
    return None


def promoter_select(packages: Packages, guard: Guard) -> list[Question]:
    """The one of four E. coli sequences that is a promoter."""
    samples = sources.uci_promoters(packages)
    cluster_of = clusters(samples)
    samples = [replace(sample, group=cluster_of[sample.group]) for sample in samples]
    splits = splits_per_label(samples, "promoters")
    promoters = [sample for sample in samples if sample.label == "promoter"]
    pool = Pool(promoters, lambda sample: splits[sample.group], guard, "promoters")
    family = Family("promoter_select")
    for split, count in SELECT_QUOTA.items():
        rng = random.Random(f"promoter_select {split}")
        others = [s.sequence for s in samples if s.label == "other" and splits[s.group] == split]
        others = [sequence for sequence in others if guard.admit(sequence, split)]
        for _ in range(count):
            sample = pool.take(split, "promoter")
            family.add(split, sample.sequence, _apart(others, rng), None, sample)
    return family.questions


def _apart(sequences: Sequence[str], rng: random.Random) -> list[str]:
    """Three sequences that do not overlap: the negatives of this source are windows of 1.5 kb."""
    while True:
        chosen = rng.sample(sequences, 3)
        found = [set(words(sequence, CLUSTER_LENGTH)) for sequence in chosen]
        if len(set.union(*found)) == sum(map(len, found)):
            return chosen


def tf_motif(guard: Guard) -> list[Question]:
    """The factor of a site; the one site of four that fits a factor. Sites are drawn from JASPAR matrices."""
    matrices = [m for m in sources.jaspar_matrices() if 8 <= len(m.counts) <= 22 and _best_score(m) > SITE_BITS + 1]
    splits = assign_splits((matrix.name.upper() for matrix in matrices), "tf_motif")
    describe, select = Family("tf_motif"), Family("motif_select")
    for split, described in (("train", 60), ("dev", 10), ("test", 30)):
        rng = random.Random(f"tf_motif {split}")
        mine = [matrix for matrix in matrices if splits[matrix.name.upper()] == split]
        sites = {matrix.id: _site(matrix, split, guard, rng) for matrix in mine}
        mine = [matrix for matrix in mine if sites[matrix.id]]
        for number, matrix in enumerate(rng.sample(mine, described + SELECT_QUOTA[split])):
            site, others = sites[matrix.id], _unrelated(matrix, mine, rng)
            if number < described:
                describe.add(split, matrix.name, [other.name for other in others], site, matrix)
            else:
                select.add(split, site, [sites[m.id] for m in others], None, matrix, factor=matrix.name)
    return describe.questions + select.questions


def _unrelated(matrix: Matrix, candidates: Sequence[Matrix], rng: random.Random) -> list[Matrix]:
    """Three matrices of other structural classes than `matrix` and one another."""
    chosen = [matrix]
    while len(chosen) < 4:
        other = rng.choice(candidates)
        if not any(other.classes & known.classes for known in chosen):
            chosen.append(other)
    return chosen[1:]


def _log_odds(matrix: Matrix) -> list[list[float]]:
    """Score in bits of A, C, G, T at each position, pseudocount 0.8, uniform background."""
    return [[math.log2((n + 0.2) / (sum(column) + 0.8) / 0.25) for n in column] for column in matrix.counts]


def _best_score(matrix: Matrix) -> float:
    return sum(map(max, _log_odds(matrix)))


def _site(matrix: Matrix, split: str, guard: Guard, rng: random.Random) -> str:
    """A site of either strand that scores at least `SITE_BITS`; empty if none was found that no other split has."""
    scores = _log_odds(matrix)
    for _ in range(200):
        drawn = [rng.choices(range(4), weights=column)[0] for column in matrix.counts]
        if sum(row[base] for row, base in zip(scores, drawn, strict=True)) >= SITE_BITS:
            site = "".join("ACGT"[base] for base in drawn)
            if guard.admit(site, split):
                return site if rng.random() < 0.5 else reverse_complement(site)
    return ""


def build(packages: Packages) -> list[Question]:
    """All questions, families and splits mixed."""
    guard = Guard()
    questions = splice(packages, guard) + taxonomy(packages, guard) + cpg_island(packages, guard)
    questions += promoter_select(packages, guard) + tf_motif(guard)
    random.Random("order").shuffle(questions)
    return questions


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the embedded question set.")
    parser.add_argument("--debs", type=Path, required=True, help="folder that keeps the Debian packages")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="file to write (default: %(default)s)")
    arguments = parser.parse_args()
    questions = build(Packages(arguments.debs))
    write_questions(arguments.out, questions)
    counts = Counter((question.family, question.split) for question in questions)
    for family in sorted({question.family for question in questions}):
        print(family, *(f"{split} {counts[family, split]}" for split in SPLITS))
    print(f"{len(questions)} questions, {arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
