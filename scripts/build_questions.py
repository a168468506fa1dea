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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import question_sources as sources
from question_sources import Matrix, Packages, Sample
from toolcredit.envs.genome.questions import SPLITS, PublicQuestion, Question, write_questions
from toolcredit.envs.genome.sequence import canonical, crop_centre, reverse_complement

OUTPUT = Path(__file__).resolve().parents[1] / "envs" / "genome" / "data" / "questions.jsonl.gz"
DEAL = ("train", "test", "train", "dev", "train", "test", "train", "train", "test", "train")
SHARED_LENGTH = 30  # no word of this length may stand in two splits
CLUSTER_LENGTH = 20  # splice sites and promoters that share a word of this length belong together
CLUSTER_CORE = 80
BLOCK, SHORTEST_BLOCK = 10_000, 1_200
FRAGMENT_LENGTHS = (600, 800, 1000)
CPG_WINDOW = 600
SELECT_FRAGMENT = 400
SITE_BITS = math.log2(10_000)  # a log-odds score s is reached by chance with probability at most 2^-s

UCI = "CC BY 4.0"
INSDC = "INSDC, free of restrictions"
JASPAR = "CC BY 4.0"

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
        "Which of these {count} {length}-nt sequences has a splice {kind} exactly at its centre?",
        "Only one of these {length}-nt gene sequences has a splice {kind} in its middle. Which one?",
        "Pick the sequence whose midpoint is a splice {kind}.",
    ),
    "taxonomy_select": (
        "Which of these {count} DNA fragments comes from {organism}?",
        "Only one of these fragments was sequenced from {organism}. Which one?",
        "Pick the fragment whose genome of origin is {organism}.",
    ),
    "motif_select": (
        "Which of these {count} sites best matches the binding motif of {factor}?",
        "Only one of these sequences is a binding site of the transcription factor {factor}. Which one?",
        "Pick the site that the transcription factor {factor} would most likely bind.",
    ),
    "promoter_select": (
        "Which of these {count} {length}-bp Escherichia coli sequences is a sigma-70 promoter?",
        "Only one of these {length}-bp bacterial sequences is a promoter. Which one?",
        "Pick the sequence that is an Escherichia coli promoter.",
    ),
}


class Pool:
    """Samples of one kind by (split, label), dealt in random order, each at most once."""

    def __init__(self, samples: Iterable[Sample], split_of: Callable[[Sample], str], guard: Guard, seed: str):
        self._guard = guard
        self._left: dict[tuple[str, str], list[Sample]] = defaultdict(list)
        for sample in samples:
            self._left[split_of(sample), sample.label].append(sample)
        for key, waiting in sorted(self._left.items()):
            random.Random(f"{seed} {key}").shuffle(waiting)

    def take(self, split: str, label: str) -> Sample:
        """The next sample that shares nothing with another split."""
        waiting = self._left[split, label]
        while waiting:
            sample = waiting.pop()
            if self._guard.admit(sample.sequence, split):
                return sample
        raise SystemExit(f"no {label!r} sample is left for {split}: lower a quota")


class Guard:
    """Keeps words of `SHARED_LENGTH` (shorter sequences as a whole) from standing in two splits."""

    def __init__(self) -> None:
        self._split_of_word: dict[str, str] = {}

    def admit(self, sequence: str, split: str) -> bool:
        """Whether `sequence` may be used in `split`; if so its words belong to that split from now on."""
        words = {canonical(word) for word in _words(sequence, SHARED_LENGTH)}
        if any(self._split_of_word.get(word, split) != split for word in words):
            return False
        self._split_of_word.update(dict.fromkeys(words, split))
        return True


def _words(sequence: str, length: int) -> Iterable[str]:
    return (sequence[i : i + length] for i in range(max(1, len(sequence) - length + 1)))


def assign_splits(groups: Iterable[str], seed: str) -> dict[str, str]:
    """Group → split: of each ten groups in random order six are for training, one for dev, three for test."""
    order = sorted(set(groups))
    random.Random(seed).shuffle(order)
    return {group: DEAL[position % len(DEAL)] for position, group in enumerate(order)}


def splits_per_label(samples: Sequence[Sample], seed: str) -> dict[str, str]:
    """`assign_splits` for each label on its own, where no group has two labels."""
    split_of: dict[str, str] = {}
    for label in sorted({sample.label for sample in samples}):
        split_of |= assign_splits((s.group for s in samples if s.label == label), f"{seed} {label}")
    return split_of


def clusters(samples: Sequence[Sample]) -> dict[str, str]:
    """Group → name of its cluster; groups are joined that share a word of `CLUSTER_LENGTH` in their centres."""
    parent = {sample.group: sample.group for sample in samples}

    def root(group: str) -> str:
        while parent[group] != group:
            parent[group] = group = parent[parent[group]]
        return group

    owner: dict[str, str] = {}
    for sample in samples:
        for word in _words(crop_centre(sample.sequence, CLUSTER_CORE), CLUSTER_LENGTH):
            other = owner.setdefault(canonical(word), sample.group)
            parent[root(sample.group)] = root(other)
    return {group: root(group) for group in parent}


@dataclass
class Builder:
    """Collects questions of one family; wording and order of the options are drawn, never tied to the answer."""

    family: str
    licence: str
    questions: list[Question]

    def add(self, split: str, answer: str, others: Sequence[str], sequence: str | None, source: str, **words):
        """Append a question whose right option is the text `answer`."""
        rng = random.Random(f"{self.family} {len(self.questions)}")
        choices = [answer, *others]
        rng.shuffle(choices)
        length = len(sequence if sequence is not None else answer)
        count = ("zero", "one", "two", "three", "four")[len(choices)]
        words |= {"length": length, "half": length // 2, "next": length // 2 + 1, "count": count}
        text = rng.choice(WORDINGS[self.family]).format(**words)
        self.questions.append(
            Question(
                id=f"{self.family}-{len([q for q in self.questions if q.family == self.family]) + 1:03d}",
                public=PublicQuestion(text, tuple(choices), sequence),
                answer=choices.index(answer),
                family=self.family,
                split=split,
                source=source,
                licence=self.licence,
            )
        )


def splice(packages: Packages, guard: Guard, questions: list[Question]) -> None:
    """Donor, acceptor or neither at the centre; one of four sequences with such a site at its centre."""
    uci, human = sources.uci_splice(packages), sources.human_splice(packages)
    # Decoys say nothing about kinship: many lie in the repeats that genes share.
    cluster_of = clusters(uci + [sample for sample in human if sample.label != "neither"])
    human = [sample for sample in human if sample.group in cluster_of]
    split_of_cluster = assign_splits(cluster_of.values(), "splice")
    pools = {
        length: Pool(samples, lambda sample: split_of_cluster[cluster_of[sample.group]], guard, f"splice {length}")
        for length, samples in ((60, uci), (400, human))
    }
    builders = {60: Builder("splice", UCI, questions), 400: Builder("splice", INSDC, questions)}
    for length, species, quota in (
        (60, "primate", {"train": 24, "dev": 4, "test": 12}),
        (400, "human", {"train": 13, "dev": 2, "test": 6}),
    ):
        for split in SPLITS:
            for label in SPLICE_CHOICES:
                for _ in range(quota[split]):
                    sample = pools[length].take(split, label)
                    others = [text for name, text in SPLICE_CHOICES.items() if name != label]
                    builders[length].add(
                        split, SPLICE_CHOICES[label], others, sample.sequence, sample.source, species=species
                    )
    select = Builder("splice_select", UCI, questions)
    kinds = {"donor": "donor (exon-intron boundary)", "acceptor": "acceptor (intron-exon boundary)"}
    for split, count in (("train", 24), ("dev", 4), ("test", 12)):
        for number in range(count):
            label, other = ("donor", "acceptor") if number % 2 else ("acceptor", "donor")
            sample = pools[60].take(split, label)
            distractors = [pools[60].take(split, name).sequence for name in (other, "neither", "neither")]
            select.add(split, sample.sequence, distractors, None, sample.source, kind=kinds[label])


def taxonomy(packages: Packages, guard: Guard, questions: list[Question]) -> None:
    """The organism of a fragment; the one fragment of four that comes from an organism."""
    genomes = sources.genomes(packages)
    fragments = [f for organism, (where, text) in genomes.items() for f in _fragments(organism, where, text)]
    split_of = splits_per_label(fragments, "taxonomy")
    pool = Pool(fragments, lambda sample: split_of[sample.group], guard, "taxonomy")
    builder = Builder("taxonomy", INSDC, questions)
    rng = random.Random("taxonomy")
    for split, count in (("train", 15), ("dev", 2), ("test", 7)):
        for organism in genomes:
            for _ in range(count):
                sample = pool.take(split, organism)
                others = rng.sample([name for name in genomes if name != organism], 3)
                fragment = crop_centre(sample.sequence, rng.choice(FRAGMENT_LENGTHS))
                builder.add(split, organism, others, fragment, sample.source)
    select = Builder("taxonomy_select", INSDC, questions)
    cellular = [name for name in genomes if "phage" not in name]  # the phage lives in E. coli and looks like it
    for split, count in (("train", 24), ("dev", 4), ("test", 12)):
        for number in range(count):
            organism = cellular[number % len(cellular)]
            names = [organism, *rng.sample([name for name in cellular if name != organism], 3)]
            samples = [pool.take(split, name) for name in names]
            first, *rest = (crop_centre(sample.sequence, SELECT_FRAGMENT) for sample in samples)
            select.add(split, first, rest, None, samples[0].source, organism=organism)


def _fragments(organism: str, where: str, genome: str) -> list[Sample]:
    """One fragment from each block of a genome (a short genome has shorter blocks), either strand."""
    block = min(BLOCK, max(SHORTEST_BLOCK, len(genome) // 100))
    rng = random.Random(f"fragments {organism}")
    starts = list(range(0, len(genome) - block + 1, block))
    samples = []
    for start in sorted(rng.sample(starts, min(len(starts), 120))):
        first = start + rng.randrange(block - max(FRAGMENT_LENGTHS) + 1)
        text = genome[first : first + max(FRAGMENT_LENGTHS)]
        if set(text) <= set("ACGT"):
            strand = rng.choice("+-")
            text = text if strand == "+" else reverse_complement(text)
            source = f"{organism}, {where}, from base {first + 1}, {strand} strand"
            samples.append(Sample(text, organism, f"{organism} {start}", source))
    return samples


def cpg_island(packages: Packages, guard: Guard, questions: list[Question]) -> None:
    """Windows of human DNA that clearly are, or clearly are not, a CpG island by the rule of 1987."""
    chromosome = sources.genomes(packages)["Homo sapiens (human)"][1]
    regions = [("chromosome 22, 20-21 Mb", chromosome)]
    regions += [(f"GenBank {r.id}", str(r.seq).upper()) for r in sources.human_records(packages) if len(r) > BLOCK]
    samples = [sample for where, text in regions for sample in _cpg_windows(where, text)]
    split_of = splits_per_label(samples, "cpg_island")
    pool = Pool(samples, lambda sample: split_of[sample.group], guard, "cpg_island")
    builder = Builder("cpg_island", INSDC, questions)
    for split, count in (("train", 21), ("dev", 4), ("test", 10)):
        for label, text in CPG_CHOICES.items():
            for _ in range(count):
                sample = pool.take(split, label)
                others = [other for other in CPG_CHOICES.values() if other != text]
                builder.add(split, text, others, sample.sequence, sample.source)


def _cpg_windows(where: str, text: str) -> list[Sample]:
    """At most one window a block; windows near the rule's limits (GC 50 %, observed/expected 0.6) are left out."""
    rng = random.Random(f"cpg {where}")
    samples = []
    for start in range(0, len(text) - BLOCK + 1, BLOCK):
        found = {}
        for first in range(start, start + BLOCK - CPG_WINDOW + 1, 50):
            window = text[first : first + CPG_WINDOW]
            label = _cpg_class(window)
            if label and label not in found:
                found[label] = Sample(window, label, f"{where} {start}", f"{where}, from base {first + 1}")
        if found:
            label = "island" if "island" in found else rng.choice(sorted(found))
            samples.append(found[label])
    return samples


def _cpg_class(window: str) -> str | None:
    c, g = window.count("C"), window.count("G")
    if set(window) - set("ACGT") or not c * g:
        return None
    gc, ratio = (c + g) / len(window), window.count("CG") * len(window) / (c * g)
    if gc >= 0.55 and ratio >= 0.7:
        return "island"
    if ratio <= 0.4:
        return "gc_rich" if gc >= 0.53 else "at_rich" if gc <= 0.42 else None
    return None


def tf_motif(guard: Guard, questions: list[Question]) -> None:
    """The factor of a site; the one site of four that fits a factor. Sites are drawn from JASPAR matrices."""
    matrices = [m for m in sources.jaspar_matrices() if 8 <= len(m.counts) <= 22 and _best_score(m) > SITE_BITS + 1]
    split_of = assign_splits((m.name.upper() for m in matrices), "tf_motif")
    builder, select = Builder("tf_motif", JASPAR, questions), Builder("motif_select", JASPAR, questions)
    for split, described, selected in (("train", 72, 24), ("dev", 12, 4), ("test", 36, 12)):
        rng = random.Random(f"tf_motif {split}")
        mine = [m for m in matrices if split_of[m.name.upper()] == split]
        sites = {m.id: _site(m, split, guard, rng) for m in mine}
        mine = [m for m in mine if sites[m.id]]
        for number, matrix in enumerate(rng.sample(mine, described + selected)):
            site, others = sites[matrix.id], _unrelated(matrix, mine, rng)
            source = f"site drawn from the JASPAR 2024 matrix {matrix.id} ({matrix.name})"
            if number < described:
                builder.add(split, matrix.name, [other.name for other in others], site, source)
            else:
                select.add(split, site, [sites[m.id] for m in others], None, source, factor=matrix.name)


def _unrelated(matrix: Matrix, candidates: Sequence[Matrix], rng: random.Random) -> list[Matrix]:
    """Three matrices of other structural classes than `matrix` and one another."""
    chosen = [matrix]
    while len(chosen) < 4:
        other = rng.choice(candidates)
        if all(not other.families & known.families and other.name != known.name for known in chosen):
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


def promoter_select(packages: Packages, guard: Guard, questions: list[Question]) -> None:
    """The one of four E. coli sequences that is a promoter."""
    samples = sources.uci_promoters(packages)
    cluster_of = clusters(samples)
    samples = [replace(sample, group=cluster_of[sample.group]) for sample in samples]
    split_of = splits_per_label(samples, "promoters")
    promoters = Pool([s for s in samples if s.label == "promoter"], lambda s: split_of[s.group], guard, "promoter")
    builder = Builder("promoter_select", UCI, questions)
    for split, count in (("train", 24), ("dev", 4), ("test", 12)):
        rng = random.Random(f"promoter_select {split}")
        others = [s for s in samples if s.label == "other" and split_of[s.group] == split]
        others = [s for s in others if guard.admit(s.sequence, split)]
        for _ in range(count):
            sample = promoters.take(split, "promoter")
            distractors = [other.sequence for other in rng.sample(others, 3)]
            builder.add(split, sample.sequence, distractors, None, sample.source)


def build(packages: Packages) -> list[Question]:
    """All questions, families mixed."""
    guard, questions = Guard(), []
    splice(packages, guard, questions)
    taxonomy(packages, guard, questions)
    cpg_island(packages, guard, questions)
    promoter_select(packages, guard, questions)
    tf_motif(guard, questions)
    random.Random("order").shuffle(questions)
    return questions


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the embedded question set.")
    parser.add_argument("--debs", type=Path, required=True, help="folder for the Debian packages")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    questions = build(Packages(arguments.debs))
    write_questions(arguments.out, questions)
    counts = Counter((question.family, question.split) for question in questions)
    for family in sorted({question.family for question in questions}):
        print(family, *(f"{split} {counts[family, split]}" for split in SPLITS))
    print(f"{len(questions)} questions, {arguments.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
