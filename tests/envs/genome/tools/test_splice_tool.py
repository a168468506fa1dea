"""The splice analyzer against plain loops, and on sequences that its models have not seen."""

import hashlib
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toolcredit.envs.genome.questions import PublicQuestion, load_questions
from toolcredit.envs.genome.sequence import clean
from toolcredit.envs.genome.tools.base import data_file
from toolcredit.envs.genome.tools.splice import SpliceAnalyzer, find_sites, models

DONOR, ACCEPTOR = models()
DONOR_WORD, ACCEPTOR_WORD = "CAGGTAAGT", "TTTTTTTTTTTTTTTTTCAGGTT"


def text_of(sequence: str) -> str:
    return SpliceAnalyzer().analyse(PublicQuestion("?", ("a", "b"), sequence)).text


def plain_sites(sequence, model, ends):
    """(junction, score) by the definition."""
    length, before, found = len(model), model.before, {}
    for start in range(len(sequence) - length + 1):
        word = sequence[start : start + length]
        intron_end = word[before : before + 2] if model.kind == "donor" else word[before - 2 : before]
        if "N" in word or intron_end not in ends:
            continue
        codes = ["ACGT".index(base) for base in word]
        score = model.first[codes[0]]
        for position, (one, two) in enumerate(zip(codes, codes[1:], strict=False)):
            score += model.following[position, one, two]
        found[start + before] = score
    return found


@settings(max_examples=60, deadline=None)
@given(st.text("ACGTN", max_size=120))
def test_sites_equal_the_definition(sequence):
    for model, ends in ((DONOR, {"GT", "GC"}), (ACCEPTOR, {"AG"})):
        sites = find_sites(sequence, model)
        assert {site.after: site.score for site in sites} == pytest.approx(plain_sites(sequence, model, ends))
        assert [site.score for site in sites] == sorted((site.score for site in sites), reverse=True)


def test_consensus_sites_stand_where_they_are_and_in_the_right_case():
    sequence = "ACA" * 10 + DONOR_WORD + "ACA" * 10
    best = find_sites(sequence, DONOR)[0]
    assert (best.after, best.word, best.dinucleotide) == (33, "cagGTAAGT", "GT")
    assert best.score > DONOR.true_percentiles[1]
    sequence = "ACA" * 10 + ACCEPTOR_WORD + "ACA" * 10
    best = find_sites(sequence, ACCEPTOR)[0]
    assert (best.after, best.word, best.dinucleotide) == (50, "TTTTTTTTTTTTTTTTTCAGgtt", "AG")
    assert best.score > ACCEPTOR.true_percentiles[1]


def test_evidence_says_scale_strand_middle_and_what_was_not_scored():
    text = text_of("ACA" * 10 + "CAGGCAAGT" + "ACA" * 10)
    for words in ("not MaxEntScan's scale", "strand as given", "middle is after base 34", "GC, as in GC-AG introns"):
        assert words in text
    assert "Acceptor: not scored, needs 23 nt." in text_of(DONOR_WORD)
    assert "Donor: not scored, needs 9 nt." in text_of("ACGTACGT")
    assert "Donor: candidates 0, called 0. Best: none." in text_of("ACA" * 10)


def test_the_models_have_not_seen_any_embedded_question():
    held_out = sorted(clean(s).sequence for q in load_questions("embedded") for _, s in q.public.sequences())
    digest = hashlib.sha256("\n".join(held_out).encode()).hexdigest()
    recorded = json.loads(data_file("splice_models.json"))["held_out_sha256"]
    assert digest == recorded, "the questions have changed: run scripts/build_models.py again"


def test_true_sites_of_unseen_sequences_score_higher_than_decoys():
    scores: dict[str, list[list[float]]] = {"donor": [[], []], "acceptor": [[], []]}
    for question in load_questions("embedded"):
        public = question.public
        if question.family != "splice" or public.sequence is None:
            continue
        middle = len(public.sequence) // 2
        for model in (DONOR, ACCEPTOR):
            true = f" {model.kind} site" in public.choices[question.answer]
            central = [site.score for site in find_sites(public.sequence, model) if site.after == middle]
            scores[model.kind][true].append(central[0] if central else -99.0)
    for decoys, true in scores.values():
        assert len(true) > 30
        wins = [(t > d) + 0.5 * (t == d) for t in true for d in decoys]
        assert np.mean(wins) > 0.93  # area under the ROC curve


def test_scores_of_random_dna_resemble_decoys():
    sequence = "".join(random.Random(0).choices("ACGT", k=20_000))
    for model in (DONOR, ACCEPTOR):
        scores = [site.score for site in find_sites(sequence, model) if site.dinucleotide != "GC"]
        low, _, high = model.decoy_percentiles
        assert low - 3 < np.median(scores) < high
        assert np.mean(np.array(scores) >= model.threshold) < 0.15
