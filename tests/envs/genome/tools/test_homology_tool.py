"""Homology search on planted relatives."""

import random

import pytest
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.sequence import reverse_complement
from toolcredit.envs.genome.tools import Reference
from toolcredit.envs.genome.tools.homology import HomologySearch


def dna(seed, length=300):
    return "".join(random.Random(seed).choices("ACGT", k=length))


def mutated(sequence, share, seed=0):
    rng = random.Random(seed)
    return "".join(rng.choice("ACGT".replace(b, "")) if rng.random() < share else b for b in sequence)


def search(query, *records):
    noise = [(dna(1000 + i), "noise") for i in range(30)]
    return HomologySearch(Reference((*noise, *records), "planted", "0" * 64)).search(query)


def test_a_relative_is_found_with_its_identity_and_place():
    query = dna(1)
    target = dna(2, 50) + mutated(query[100:250], 0.1) + dna(3, 50)
    hit = search(query, (target, "relative"))[0]
    assert hit.label == "relative" and hit.strand == "+"
    assert 0.85 < hit.identity < 0.95 and 0.45 < hit.coverage < 0.6
    assert abs(hit.start - 101) <= 12 and abs(hit.end - 250) <= 12


def test_the_other_strand_is_searched_in_coordinates_of_the_query():
    query = dna(1)
    target = reverse_complement(mutated(query[:120], 0.05))
    hit = search(query, (target, "relative"))[0]
    assert hit.strand == "-" and abs(hit.start - 1) <= 10 and abs(hit.end - 120) <= 10


@pytest.mark.parametrize("spelling", [str, reverse_complement])
def test_copies_are_dropped(spelling):
    query = dna(1)
    almost = query[:150] + ("A" if query[150] != "A" else "C") + query[151:]
    assert search(query, (spelling(query), "copy"), (spelling(almost), "one mutation")) == []


def test_weak_and_short_similarity_is_no_hit():
    query = dna(1)
    assert search(query, (mutated(query, 0.5), "half")) == []
    assert search(query, (query[:60] + dna(5, 240), "a fifth")) == []


def test_n_counts_as_a_column_but_is_never_identical():
    left, right = dna(1, 150), dna(2, 150)
    query = left + "N" * 100 + right
    hit = search(query, (mutated(left, 0.02) + "N" * 100 + mutated(right, 0.02), "relative"))[0]
    assert hit.coverage > 0.95 and 0.68 < hit.identity < 0.76


def test_two_long_sequences_are_not_aligned():
    query = dna(1, 5000)
    assert search(query, (mutated(query, 0.05), "long")) == []


def test_evidence_is_about_the_options():
    query = dna(1)
    reference = Reference(((mutated(query, 0.1), "fly"), (mutated(query, 0.12, 1), "worm")), "two", "0" * 64)
    text = HomologySearch(reference).analyse(PublicQuestion("Which?", ("fly", "yeast"), query)).text
    assert "1 hits." in text and "fly: identity" in text and "worm" not in text
    select = HomologySearch(reference).analyse(PublicQuestion("Which is of a worm?", (query, dna(9)))).text
    assert "A: 2 hits." in select and "B: No hit." in select
