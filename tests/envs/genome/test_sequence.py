"""Cleaning, strands, cropping and content keys of DNA."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.sequence import (
    MAX_SEQUENCE_LENGTH,
    canonical,
    clean,
    crop_centre,
    question_key,
    reverse_complement,
)
from toolcredit.errors import QuestionError

IUPAC = "ACGTURYSWKMBDHVN"
raw = st.text(alphabet=IUPAC + IUPAC.lower() + " \t\r\n0123456789-.~", max_size=200)
cleaned = st.text(alphabet="ACGTN", max_size=200)


@pytest.mark.parametrize(
    ("given_", "sequence", "note"),
    [
        ("acgt", "ACGT", "lower case (soft masking) read as upper case"),
        ("ACGu", "ACGT", "RNA: 1 U read as T"),
        ("AC-G.T~", "ACGT", "3 gap characters removed"),
        ("AC\r\nGT\r\n", "ACGT", "4 whitespace characters removed"),
        ("ACGT\u00a0", "ACGT", "1 whitespace character removed"),
        ("1 ACGT 11", "ACGT", "3 digits removed"),
        ("ARYT", "ANNT", "2 IUPAC ambiguity codes read as N"),
    ],
)
def test_clean_changes_and_says_so(given_, sequence, note):
    result = clean(given_)
    assert result.sequence == sequence
    assert note in result.notes


@pytest.mark.parametrize("sequence", ["ACGT", "NNNN", "ACGNT"])
def test_clean_leaves_clean_sequences_alone(sequence):
    assert clean(sequence) == (sequence, ())


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "---", "1 2 3"])
def test_clean_accepts_nothing_as_an_empty_sequence(blank):
    assert clean(blank).sequence == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("MKVLEF", "outside the IUPAC codes"),
        ("ACG*", r"1 character outside .* such as '\*'"),
        ("ACGX", "'X'"),
        ("ACG\x00", r"\\x00"),
        ("ACG\u017f", r"\\u017f"),  # LATIN SMALL LETTER LONG S, whose upper case is the code S
        ("A\u0661C", r"\\u0661"),  # an Arabic digit
        (">chr1\nACGT", "FASTA"),
        ("\n >chr1\nACGT", "FASTA"),
        (None, "must be a string .* got NoneType"),
        (b"ACGT", "got bytes"),
    ],
)
def test_clean_refuses_what_is_no_nucleotide_sequence(wrong, message):
    with pytest.raises(QuestionError, match=message):
        clean(wrong)


def test_clean_counts_the_limit_after_cleaning():
    longest = "A" * MAX_SEQUENCE_LENGTH
    assert clean(longest + "\n" * 10).sequence == longest
    with pytest.raises(QuestionError, match="100,001 bases, at most 100,000 are accepted: crop it"):
        clean(longest + "A")
    with pytest.raises(QuestionError, match="4 bases, at most 3 are accepted"):
        clean("ACGT", limit=3)


@given(raw)
def test_clean_gives_five_letters_and_is_idempotent(text):
    result = clean(text)
    assert re.fullmatch("[ACGTN]*", result.sequence)
    assert len(result.sequence) == len(re.sub(r"[\s0-9.~-]", "", text))
    assert clean(result.sequence) == (result.sequence, ())


@given(raw)
def test_clean_notes_exactly_when_something_changed(text):
    result = clean(text)
    assert bool(result.notes) == (result.sequence != text)


@given(st.text(max_size=50))
def test_clean_never_fails_otherwise_than_with_a_question_error(text):
    try:
        result = clean(text)
    except QuestionError as error:
        assert str(error).isprintable()
    else:
        assert set(result.sequence) <= set("ACGTN")


@given(cleaned)
def test_reverse_complement_undoes_itself(sequence):
    assert reverse_complement(reverse_complement(sequence)) == sequence


@given(cleaned, cleaned)
def test_reverse_complement_of_a_join_joins_in_reverse(left, right):
    assert reverse_complement(left + right) == reverse_complement(right) + reverse_complement(left)


@given(cleaned)
def test_canonical_is_the_same_for_both_strands(sequence):
    assert canonical(sequence) == canonical(reverse_complement(sequence))
    assert canonical(sequence) in (sequence, reverse_complement(sequence))


def test_reverse_complement_of_a_known_site():
    assert reverse_complement("GGTAAGTN") == "NACTTACC"


@pytest.mark.parametrize(
    ("length", "expected"), [(0, ""), (2, "CG"), (3, "ACG"), (4, "ACGT"), (5, "ACGT"), (100, "ACGT")]
)
def test_crop_centre(length, expected):
    assert crop_centre("ACGT", length) == expected


@given(cleaned, st.integers(0, 300))
def test_crop_centre_cuts_both_ends_alike(sequence, length):
    cropped = crop_centre(sequence, length)
    assert len(cropped) == min(length, len(sequence))
    start = (len(sequence) - len(cropped)) // 2
    assert sequence[start : start + len(cropped)] == cropped


def test_crop_centre_keeps_a_junction_in_the_middle():
    assert crop_centre("A" * 200 + "G" * 200, 60) == "A" * 30 + "G" * 30


def test_crop_centre_refuses_a_negative_length():
    with pytest.raises(ValueError, match="at least 0, got -1"):
        crop_centre("ACGT", -1)


def test_question_key_ignores_how_a_sequence_is_written():
    key = question_key(PublicQuestion("Which?", ("x", "y"), "ACGTN"))
    assert key == question_key(PublicQuestion("Which?", ("x", "y"), "acg\nur"))
    assert re.fullmatch("[0-9a-f]{64}", key)


def test_question_key_cleans_the_options_of_a_select_question_only():
    select = question_key(PublicQuestion("Which?", ("ACGT", "TTTT")))
    assert select == question_key(PublicQuestion("Which?", ("acgt", "UUUU")))
    describe = question_key(PublicQuestion("Which?", ("ACGT", "TTTT"), "A"))
    assert describe != question_key(PublicQuestion("Which?", ("acgt", "UUUU"), "A"))


@pytest.mark.parametrize(
    "other",
    [
        PublicQuestion("Which one?", ("x", "y"), "ACGT"),
        PublicQuestion("Which?", ("y", "x"), "ACGT"),
        PublicQuestion("Which?", ("x", "y", "z"), "ACGT"),
        PublicQuestion("Which?", ("x", "y"), "ACGA"),
        PublicQuestion("Which?", ("x,y", "z"), "ACGT"),
    ],
)
def test_question_key_tells_different_questions_apart(other):
    assert question_key(other) != question_key(PublicQuestion("Which?", ("x", "y"), "ACGT"))
