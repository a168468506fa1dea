"""The motif scanner against enumeration, simulation and Biopython."""

import gzip
import itertools
import random

import numpy as np
import pytest
from Bio import motifs as bio_motifs
from Bio.Seq import Seq
from hypothesis import given, settings
from hypothesis import strategies as st
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.sequence import reverse_complement
from toolcredit.envs.genome.tools.base import data_file
from toolcredit.envs.genome.tools.motifs import (
    GRID,
    PSEUDOCOUNT,
    SHORT_SEQUENCE,
    THRESHOLD,
    MotifScanner,
    expected_by_chance,
    make_motif,
    motifs,
    scan,
)


def dna(length: int, seed: int = 0) -> str:
    return "".join(random.Random(seed).choices("ACGT", k=length))


def text_of(sequence: str) -> str:
    return MotifScanner().analyse(PublicQuestion("?", ("a", "b"), sequence)).text


def counts_of_the_file() -> dict[str, dict[str, list[float]]]:
    """Matrix id -> base -> counts, as they stand in the data file."""
    blocks = gzip.decompress(data_file("jaspar_motifs.txt.gz")).decode().lstrip(">").split("\n>")
    rows = {block.split("\t")[0]: block.splitlines()[1:] for block in blocks}
    return {
        name: {b: [float(n) for n in row.split()] for b, row in zip("ACGT", four, strict=True)}
        for name, four in rows.items()
    }


def test_the_matrices_are_jaspar_vertebrates_and_core_promoter():
    by_id = {motif.id: motif for motif in motifs()}
    assert len(by_id) == len(motifs()) == 892
    assert by_id["MA0004.1"].name == "Arnt" and "bHLH" in by_id["MA0004.1"].kind
    assert by_id["POL012.1"].name == "TATA-Box" and by_id["POL012.1"].family == ""


@pytest.mark.parametrize("motif", [m for m in motifs() if len(m) <= 6][::9], ids=lambda m: m.id)
def test_p_values_equal_enumeration(motif):
    words = itertools.product(range(4), repeat=len(motif))
    scores = np.array([motif.scores[np.arange(len(motif)), word].sum() for word in words])
    for score in np.unique(scores)[::7]:
        assert motif.p_value(int(score)) == pytest.approx(np.mean(scores >= score))
    assert motif.lowest == scores.min() and motif.highest == scores.max()


def test_thresholds_are_the_lowest_scores_that_are_rare_enough():
    short = 0
    for motif in motifs():
        cutoff = motif.threshold(THRESHOLD)
        if motif.p_value(cutoff) > THRESHOLD:
            assert cutoff == motif.highest
            short += 1
        else:
            assert motif.p_value(cutoff - 1) > THRESHOLD or cutoff == motif.lowest
    assert 90 < short < 120


def test_hits_equal_biopython():
    sequence = dna(400, 5)
    ours = scan(sequence)
    counts = counts_of_the_file()
    for motif in motifs()[::25]:
        oracle = bio_motifs.Motif(counts=counts[motif.id])
        oracle.pseudocounts = PSEUDOCOUNT / 4
        cutoff = motif.threshold(THRESHOLD) / GRID
        rounding = 0.5 / GRID * len(motif) + 1e-3
        found = {(hit.strand, hit.start): hit.score for hit in ours if hit.motif is motif}
        for strand, matrix in (("+", oracle.pssm), ("-", oracle.pssm.reverse_complement())):
            for start, score in enumerate(matrix.calculate(Seq(sequence)), 1):
                if score > cutoff + rounding:
                    assert (strand, start) in found
                if (strand, start) in found:
                    assert found.pop((strand, start)) == pytest.approx(score, abs=rounding)
        assert not found


def test_scores_are_log_odds_of_the_counts():
    counts = np.array([[8.0, 1, 1, 0], [0, 0, 10, 0]])
    motif = make_motif("M", "m", "", "", counts)
    expected = np.log2((counts + PSEUDOCOUNT / 4) / (10 + PSEUDOCOUNT) / 0.25)
    assert np.abs(motif.scores / GRID - expected).max() <= 0.5 / GRID + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.text("ACGTN", min_size=1, max_size=150))
def test_the_other_strand_mirrors_exactly(sequence):
    def places(hits, length=None):
        return {
            (h.motif.id, h.score, h.p_value, *((h.start, h.end, h.strand) if length is None else mirrored(h, length)))
            for h in hits
        }

    def mirrored(hit, length):
        return length + 1 - hit.end, length + 1 - hit.start, "-" if hit.strand == "+" else "+"

    assert places(scan(sequence)) == places(scan(reverse_complement(sequence)), len(sequence))
    assert expected_by_chance(sequence) == pytest.approx(expected_by_chance(reverse_complement(sequence)))


def test_coordinates_are_one_based_and_inclusive():
    sequence = "A" * 30 + "CACGTG" + "A" * 30
    hits = [hit for hit in scan(sequence) if hit.motif.id == "MA0004.1"]
    assert hits and all(sequence[hit.start - 1 : hit.end] == "CACGTG" for hit in hits)
    assert {hit.strand for hit in hits} == {"+", "-"}


def test_chance_gives_about_as_many_matches_as_said():
    found = [len(scan(dna(1000, seed))) for seed in range(30)]
    expected, tested = expected_by_chance(dna(1000))
    assert tested == len(motifs())
    assert np.mean(found) == pytest.approx(expected, rel=0.15)


def test_words_with_n_neither_match_nor_count():
    sequence = dna(60, 1)
    broken = sequence[:30] + "N" + sequence[31:]
    assert not [hit for hit in scan(broken) if hit.start <= 31 <= hit.end]
    assert expected_by_chance(broken)[0] < expected_by_chance(sequence)[0]
    assert expected_by_chance("N" * 60)[0] == 0


def test_short_sequences_are_scanned_with_what_fits():
    assert "Not scanned: 4 bp is shorter than the shortest matrix." in text_of("ACGT")
    text = text_of("CACGTGAC")
    assert "matrices fit" in text and "p <= 1e-03" in text
    assert "p <= 1e-04" in text_of(dna(SHORT_SEQUENCE + 1))


def test_evidence_names_what_a_biologist_asks_for():
    text = text_of("GC" * 20 + "TATAAAAGGCGGGGG" + dna(60, 2))
    for words in ("892 matrices", "both strands", "uniform background", "pseudocount 0.8", "chance alone would give"):
        assert words in text
    assert "Core-promoter elements: TATA-Box" in text
    line = next(line for line in text.splitlines() if line.startswith("1. "))
    for part in (r" bits", "relative score", " p ", " [", "POL012.1 40-54 (+)"):
        assert part in line
    assert "short motif" in text_of("A" * 20 + "CACGTG" + "A" * 30)


def test_a_site_drawn_from_a_matrix_is_found_under_its_name():
    rng = random.Random(4)
    for motif in rng.sample([m for m in motifs() if len(m) >= 10], 20):
        best = "".join("ACGT"[i] for i in motif.scores.argmax(1))
        assert any(hit.motif is motif for hit in scan("ACGT" + best))
