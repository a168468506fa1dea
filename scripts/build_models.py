"""Build the two model files of the genome tools from public packages: JASPAR matrices and splice-site models.

    python -m venv build-env && build-env/bin/pip install pyjaspar==4.0.0 pyreadr==0.5.8 numpy==2.4.6
    apt-get download r-cran-mlbench=2.1-3-1          # into a folder of its own, no installation needed
    build-env/bin/pip install -e . && build-env/bin/python scripts/build_models.py --debs FOLDER

The result is deterministic: the same packages and the same questions give the same bytes.

The splice models are trained on the UCI windows that share no 30-mer, on either strand, with any sequence of the
embedded questions: neither with those of the dev and test splits, nor with those of the train split, whose evidence
would look better than it is. So run this again after `build_questions.py` changed the questions. The model file records
a digest of the sequences that were held out, and a test compares it with the questions.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from toolcredit.envs.genome.questions import load_questions
from toolcredit.envs.genome.sequence import clean, reverse_complement

DATA = Path(__file__).resolve().parents[1] / "envs" / "genome" / "data"
MLBENCH = (
    "r-cran-mlbench_2.1-3-1_amd64.deb",
    "2f1127f7b5e7d08703b13b52ef1976a0c355a7660d6ac575e29b87b13921bc06",
)
PYJASPAR = "4.0.0"
SHARED_LENGTH = 30
FOLDS = 5


# ------------------------------------------------------------------------------------------------ motif matrices
def build_motifs() -> bytes:
    """JASPAR 2024 CORE vertebrates and the core-promoter elements (POLII, last published in JASPAR 2020), gzipped.

    One matrix is a line `>id<TAB>name<TAB>class<TAB>family` and the counts of A, C, G, T, a line each.
    """
    from pyjaspar import jaspardb

    version = importlib.metadata.version("pyjaspar")
    if version != PYJASPAR:
        raise SystemExit(f"pyjaspar {version} is installed, {PYJASPAR} is expected: pip install pyjaspar=={PYJASPAR}")
    core = jaspardb(release="JASPAR2024").fetch_motifs(collection="CORE", tax_group=["vertebrates"])
    promoter = jaspardb(release="JASPAR2020").fetch_motifs(collection="POLII")
    lines = []
    for motif in sorted(core, key=_matrix_id) + sorted(promoter, key=_matrix_id):
        if motif.collection == "POLII":
            kind, family = "core promoter element", ""
        else:
            kind, family = _joined(motif.tf_class), _joined(motif.tf_family)
        lines.append(f">{motif.matrix_id}\t{motif.name}\t{kind}\t{family}")
        lines.extend(" ".join(str(round(n)) for n in motif.counts[base]) for base in "ACGT")
    return gzip.compress(("\n".join(lines) + "\n").encode(), compresslevel=9, mtime=0)


def _matrix_id(motif) -> str:
    return motif.matrix_id


def _joined(names: Sequence[str] | None) -> str:
    """The classes of a dimer's partners, each once: `a / b`."""
    return " / ".join(dict.fromkeys(names or ()))


# ------------------------------------------------------------------------------------------------ splice models
def build_splice(debs: Path) -> bytes:
    """Order-1 Markov log2-odds models of donor 9-mers and acceptor 23-mers, with their score ranges, as JSON."""
    held_out = held_out_sequences()
    forbidden = {word for sequence in held_out for word in _words(sequence)}
    windows = [(sequence, kind) for sequence, kind in uci_windows(debs) if not forbidden & set(_words(sequence))]
    background = _pair_counts([sequence for sequence, kind in windows if kind == "n"])
    background_first = background.sum(1) / background.sum()
    background_next = background / background.sum(1, keepdims=True)

    def fit(words: Sequence[str]) -> Callable[[str], float]:
        return _Model(words, background_first, background_next)

    models = {
        "donor": _site_model(windows, "ei", slice(27, 36), 3, "GT", fit),
        "acceptor": _site_model(windows, "ie", slice(10, 33), 20, "AG", fit),
        "windows": len(windows),
        "held_out_sha256": hashlib.sha256("\n".join(held_out).encode()).hexdigest(),
    }
    return (json.dumps(models) + "\n").encode()


def held_out_sequences() -> list[str]:
    """Cleaned sequences of all embedded questions, sorted; the splice tool's test makes the same list."""
    return sorted(
        clean(sequence).sequence
        for question in load_questions("embedded")
        for _, sequence in question.public.sequences()
    )


def _words(sequence: str) -> list[str]:
    return [
        strand[start : start + SHARED_LENGTH]
        for strand in (sequence, reverse_complement(sequence))
        for start in range(len(strand) - SHARED_LENGTH + 1)
    ]


def uci_windows(debs: Path) -> list[tuple[str, str]]:
    """(60-mer, class) of the UCI splice-junction set; class `ei` is a donor and `ie` an acceptor after base 30."""
    import pyreadr

    name, digest = MLBENCH
    package = debs / name
    found = hashlib.sha256(package.read_bytes()).hexdigest()
    if found != digest:
        raise SystemExit(f"{package} has SHA-256 {found}, expected {digest}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", str(package), folder], check=True)
        frame = pyreadr.read_r(f"{folder}/usr/lib/R/site-library/mlbench/data/DNA.rda")["DNA"]
    # Three bits a base: A=100, C=010, G=001, T=000.
    bits = frame.drop(columns="Class").astype(int).to_numpy().reshape(len(frame), 60, 3)
    letters = np.array(list("TACxG"))[bits @ np.array([1, 2, 4])]
    return list(zip(("".join(row) for row in letters), frame["Class"].astype(str), strict=True))


def _pair_counts(sequences: Sequence[str]) -> np.ndarray:
    counts = np.ones((4, 4))
    for sequence in sequences:
        codes = _codes(sequence)
        np.add.at(counts, (codes[:-1], codes[1:]), 1)
    return counts


def _codes(sequence: str) -> np.ndarray:
    return np.array(["ACGT".index(base) for base in sequence])


class _Model:
    """log2 P(word | site) / P(word | background), both order-1 Markov chains; pseudocount 1."""

    def __init__(self, words: Sequence[str], background_first: np.ndarray, background_next: np.ndarray):
        codes = np.array([_codes(word) for word in words])
        first = np.bincount(codes[:, 0], minlength=4) + 1.0
        following = np.ones((codes.shape[1] - 1, 4, 4))
        for position, table in enumerate(following):
            np.add.at(table, (codes[:, position], codes[:, position + 1]), 1)
        following /= following.sum(2, keepdims=True)
        self.first = np.log2(first / first.sum() / background_first).round(3)
        self.following = np.log2(following / background_next).round(3)

    def __call__(self, word: str) -> float:
        codes = _codes(word)
        steps = self.following[np.arange(len(word) - 1), codes[:-1], codes[1:]]
        return float(self.first[codes[0]] + steps.sum())


def _site_model(windows, kind: str, site: slice, exon_side: int, dinucleotide: str, fit) -> dict:
    """The model of one kind of site, and the scores of unseen true sites and of decoys (5-fold cross-validation)."""
    words = [sequence[site] for sequence, label in windows if label == kind]
    true: list[float] = []
    decoys: list[float] = []
    others = [sequence for sequence, label in windows if label == "n"]
    for fold in range(FOLDS):
        model = fit([word for index, word in enumerate(words) if index % FOLDS != fold])
        true += [model(word) for word in words[fold::FOLDS]]
        for sequence in others[fold::FOLDS]:
            decoys += [model(word) for word in _decoys(sequence, exon_side, site.stop - site.start, dinucleotide)]
    final = fit(words)
    return {
        "length": site.stop - site.start,
        "before": exon_side,
        "trained_on": len(words),
        "first": final.first.tolist(),
        "following": final.following.tolist(),
        "true_percentiles": np.percentile(true, [5, 50, 95]).round(1).tolist(),
        "decoy_percentiles": np.percentile(decoys, [5, 50, 95]).round(1).tolist(),
        "threshold": _equal_error(np.array(true), np.array(decoys)),
    }


def _decoys(sequence: str, before: int, length: int, dinucleotide: str) -> list[str]:
    """Words around every dinucleotide of a window without a junction: GT right after, AG right before it."""
    offset = before if dinucleotide == "GT" else before - 2
    return [
        sequence[start : start + length]
        for start in range(len(sequence) - length + 1)
        if sequence[start + offset : start + offset + 2] == dinucleotide
    ]


def _equal_error(true: np.ndarray, decoys: np.ndarray) -> float:
    """The score (0.1 bits) at which as large a share of true sites is missed as of decoys is called."""
    grid = np.arange(-10, 20, 0.1)
    gap = [abs(np.mean(true < score) - np.mean(decoys >= score)) for score in grid]
    return round(float(grid[int(np.argmin(gap))]), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--debs", type=Path, required=True, help=f"folder with {MLBENCH[0]}")
    arguments = parser.parse_args()
    for name, content in (
        ("jaspar_motifs.txt.gz", build_motifs()),
        ("splice_models.json", build_splice(arguments.debs)),
    ):
        (DATA / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
