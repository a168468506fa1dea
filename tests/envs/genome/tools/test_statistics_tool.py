"""Composition against hand-made examples and Biopython."""

import math
import random

import pytest
from Bio.SeqUtils import GC_skew, gc_fraction
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.sequence import reverse_complement
from toolcredit.envs.genome.tools.statistics import SequenceStatistics, measure


def text_of(sequence: str) -> str:
    return SequenceStatistics().analyse(PublicQuestion("Which?", ("a", "b"), sequence)).text


def test_a_worked_example():
    found = measure("ACGCGNTTTT")
    assert found.length == 10
    assert found.unknown == pytest.approx(0.1)
    assert found.gc == pytest.approx(4 / 9)
    assert found.cpg_ratio == pytest.approx(2 * 9 / (2 * 2))
    assert found.gc_skew == 0
    assert found.run == ("T", 4, 7)
    assert found.words == (("TTT", 2), ("ACG", 1), ("CGC", 1), ("GCG", 1))
    assert found.island is None


@given(st.text("ACGT", min_size=1, max_size=200))
def test_agrees_with_biopython(sequence):
    found = measure(sequence)
    assert found.gc == pytest.approx(gc_fraction(sequence))
    if found.gc_skew is not None:
        assert found.gc_skew == pytest.approx(GC_skew(sequence, window=len(sequence))[0])
    assert 0 <= found.entropy <= 2
    assert found.run[0] * found.run[1] == sequence[found.run[2] - 1 : found.run[2] - 1 + found.run[1]]


@given(st.text("ACGTN", min_size=1, max_size=200).filter(lambda s: s.strip("N")))
def test_the_other_strand_mirrors(sequence):
    one, other = measure(sequence), measure(reverse_complement(sequence))
    assert other.gc == pytest.approx(one.gc) and other.entropy == pytest.approx(one.entropy)
    assert (other.cpg_ratio is None) == (one.cpg_ratio is None)
    if one.cpg_ratio is not None:
        assert other.cpg_ratio == pytest.approx(one.cpg_ratio)
    if one.gc_skew is not None:
        assert other.gc_skew == pytest.approx(-one.gc_skew)


def test_undefined_quotients_are_said_to_be_so():
    assert "CpG observed/expected undefined (no C or no G)" in text_of("AAATTTGGG")
    text = text_of("AATTATA")
    assert "GC skew (G-C)/(G+C) undefined (no G and no C)" in text and "GC 0.0 %" in text


def test_the_island_rule_needs_200_bp():
    assert measure("CG" * 99).island is None
    assert measure("CG" * 100).island is True
    assert measure("AT" * 100 + "CG" * 10).island is False
    assert "fulfils the CpG island rule" in text_of("CG" * 150)
    assert "does not fulfil" in text_of("AC" * 150)
    assert "not applied below 200 bp" in text_of("CG" * 50)


def test_random_dna_has_about_two_bits_and_as_many_cpg_as_expected():
    found = measure("".join(random.Random(0).choices("ACGT", k=50_000)))
    assert math.isclose(found.entropy, 2, abs_tol=0.01) and math.isclose(found.cpg_ratio, 1, abs_tol=0.1)
