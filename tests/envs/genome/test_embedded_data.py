"""The embedded question set: size, balance, labels, and that its splits do not leak."""

import json
import re
from collections import Counter, defaultdict
from importlib import resources
from pathlib import Path

import pytest
from toolcredit.envs.genome.questions import SPLITS, load_questions, write_questions
from toolcredit.envs.genome.sequence import canonical, clean, question_key

WORD = 30
MOTIF_FAMILIES = {"tf_motif", "motif_select"}  # sites are shorter than WORD: split by transcription factor
ROOT = Path(__file__).resolve().parents[3]
QUESTIONS = load_questions()


def in_family(family):
    return [question for question in QUESTIONS if question.family == family]


def answer_text(question):
    return question.public.choices[question.answer]


def sequences_by_split(questions):
    found: defaultdict[str, set[str]] = defaultdict(set)
    for question in questions:
        found[question.split].update(sequence for _, sequence in question.public.sequences())
    return found


def words(sequence):
    return {canonical(sequence[i : i + WORD]) for i in range(len(sequence) - WORD + 1)}


def test_size_families_and_options():
    assert 640 <= len(QUESTIONS) <= 720
    families = Counter(question.family for question in QUESTIONS)
    assert len(families) == 8
    assert min(families.values()) >= 40
    assert all(len(question.public.choices) >= 3 for question in QUESTIONS)
    assert {question.public.shape for question in QUESTIONS} == {"describe", "select"}


@pytest.mark.parametrize("family", sorted({question.family for question in QUESTIONS}))
def test_each_family_is_split_60_10_30(family):
    questions = in_family(family)
    shares = {split: sum(q.split == split for q in questions) / len(questions) for split in SPLITS}
    assert shares["train"] == pytest.approx(0.6, abs=0.03)
    assert shares["dev"] == pytest.approx(0.1, abs=0.03)
    assert shares["test"] == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("family", sorted({question.family for question in QUESTIONS}))
def test_the_position_of_the_right_option_says_nothing(family):
    counts = Counter(question.answer for question in in_family(family))
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize("family", ["splice", "taxonomy", "cpg_island"])
def test_labels_are_balanced_in_each_split(family):
    for split in SPLITS:
        counts = Counter(answer_text(question) for question in in_family(family) if question.split == split)
        assert len(set(counts.values())) == 1


def test_each_family_has_several_wordings_and_all_splits_share_them():
    for family in {question.family for question in QUESTIONS}:
        openings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for question in in_family(family):
            openings[question.split][re.sub(r"\d+", "#", question.public.text)[:10]] += 1
        assert set(openings["test"]) <= set(openings["train"])
        assert len(openings["train"]) >= 3


def test_sequences_are_clean_and_questions_different():
    for question in QUESTIONS:
        for _, sequence in question.public.sequences():
            assert clean(sequence) == (sequence, ())
    assert len({question_key(question.public) for question in QUESTIONS}) == len(QUESTIONS)


def test_no_sequence_of_either_strand_stands_in_two_splits():
    split_of: dict[str, str] = {}
    for split, sequences in sequences_by_split(QUESTIONS).items():
        for sequence in map(canonical, sequences):
            assert split_of.setdefault(sequence, split) == split


def test_no_30_mer_of_either_strand_stands_in_two_splits():
    # Stricter than within a family: over all families but the two whose sites are shorter.
    found = {
        split: set().union(*map(words, sequences))
        for split, sequences in sequences_by_split(q for q in QUESTIONS if q.family not in MOTIF_FAMILIES).items()
    }
    assert min(map(len, found.values())) > 10_000
    assert not found["train"] & found["test"]
    assert not found["train"] & found["dev"]
    assert not found["dev"] & found["test"]


def test_motif_families_are_split_by_transcription_factor():
    split_of: dict[str, str] = {}
    for question in QUESTIONS:
        if question.family in MOTIF_FAMILIES:
            assert all(len(sequence) < WORD for _, sequence in question.public.sequences())
            factors = [question.source.rpartition("(")[2].rstrip(")")]
            factors += question.public.choices if question.family == "tf_motif" else []
            for factor in factors:
                assert split_of.setdefault(factor.upper(), question.split) == question.split


def test_splice_labels_agree_with_the_consensus():
    sites = defaultdict(list)
    for question in in_family("splice"):
        sequence, half = question.public.sequence, len(question.public.sequence) // 2
        assert len(sequence) in (60, 400)
        sites[answer_text(question)[:9]].append((sequence[half : half + 2], sequence[half - 2 : half]))
    donors, acceptors = sites["splice do"], sites["splice ac"]
    assert sum(after == "GT" for after, _ in donors) / len(donors) > 0.95
    assert sum(before == "AG" for _, before in acceptors) / len(acceptors) > 0.95
    assert sum(after == "GT" for after, _ in acceptors) / len(acceptors) < 0.3


def test_splice_select_has_a_site_of_the_kind_asked_for():
    centres: Counter[tuple[str, str]] = Counter()
    for question in in_family("splice_select"):
        kind = "donor" if "donor" in question.public.text else "acceptor"
        assert f"splice {kind}" in question.public.text
        centres[kind, answer_text(question)[30:32] if kind == "donor" else answer_text(question)[28:30]] += 1
    assert centres["donor", "GT"] >= 19 and centres["acceptor", "AG"] >= 19


def test_cpg_labels_follow_the_published_rule():
    for question in in_family("cpg_island"):
        sequence, label = question.public.sequence, answer_text(question)
        c, g = sequence.count("C"), sequence.count("G")
        gc, ratio = (c + g) / len(sequence), sequence.count("CG") * len(sequence) / (c * g)
        assert (gc > 0.5 and ratio > 0.6) == label.startswith("CpG island")
        assert (gc > 0.5) == (not label.startswith("AT-rich"))


def test_options_name_the_right_answer_of_a_select_question_nowhere_else():
    for question in QUESTIONS:
        if question.public.shape == "select":
            assert question.id not in question.public.text
            assert answer_text(question) not in question.public.text


def test_each_question_has_a_source_and_a_licence():
    assert all(question.source for question in QUESTIONS)
    assert {question.licence for question in QUESTIONS} == {"CC BY 4.0", "INSDC, free of restrictions"}


def test_provenance_names_each_pinned_package_in_its_version():
    provenance = (resources.files("toolcredit.envs.genome.data") / "PROVENANCE.md").read_text(encoding="utf-8")
    pins = json.loads((ROOT / "scripts" / "sources.json").read_text(encoding="utf-8"))["debian"]
    for package, pin in pins.items():
        assert f"{package} {pin['version']}" in provenance
    assert f"{len(QUESTIONS)} multiple-choice questions" in provenance


def test_the_embedded_file_is_small_and_written_by_the_writer(tmp_path):
    embedded = resources.files("toolcredit.envs.genome.data") / "questions.jsonl.gz"
    assert len(embedded.read_bytes()) < 200_000
    write_questions(tmp_path / "again.jsonl.gz", QUESTIONS)
    assert load_questions(tmp_path / "again.jsonl.gz") == QUESTIONS


def test_the_documentation_counts_the_families_right():
    table = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    counts = Counter((question.family, question.split) for question in QUESTIONS)
    for family in {question.family for question in QUESTIONS}:
        (row,) = [line for line in table.splitlines() if line.startswith(f"| `{family}` |")]
        assert " / ".join(str(counts[family, split]) for split in SPLITS) in row
    chance = sum(1 / len(question.public.choices) for question in QUESTIONS) / len(QUESTIONS)
    assert f"Guessing gives {100 * chance:.1f} %" in table
