import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.reasoners.prompt import parse_choice, prompt_digest, reasoner_messages
from toolcredit.envs.genome.tools.base import Evidence

CHOICES = ("a donor site", "an acceptor site", "neither a donor nor an acceptor site")
QUESTION = PublicQuestion("What is in the middle?", CHOICES, "ACGTACGTAC")


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("B", 1),
        ("b", 1),
        (" B\n", 1),
        ("B.", 1),
        ("B)", 1),
        ("(B)", 1),
        ("**B**", 1),
        ("`C`", 2),
        ("an acceptor site", 1),
        ("An acceptor  site.", 1),
        ("B) an acceptor site", 1),
        ("(B) an acceptor site.", 1),
        ("B: an acceptor site", 1),
        ("Answer: B", 1),
        ("answer: (b)", 1),
        ("The answer is B.", 1),
        ("Final answer: **C**", 2),
        ("The final answer is: C", 2),
        ("Answer: B) an acceptor site", 1),
        ("The AG before the middle suggests an acceptor.\n\nAnswer: B", 1),
        ("Answer: B\nAnswer: B", 1),
        ("<think>A? No, B. Answer: A</think>\nC", 2),
        ("A? No. Answer: A</think>C", 2),
    ],
)
def test_replies_that_name_an_option(reply, index):
    assert parse_choice(reply, CHOICES) == index


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "D",
        "E)",
        "Answer: D",
        "A donor is at the middle",
        "I think it is B",
        "Based on the evidence, C seems right.",
        "A or B",
        "A, B",
        "AB",
        "1",
        "B) a donor site",
        "Answer: B) a donor site",
        "Answer: A donor site or something",
        "Answer: A\nAnswer: B",
        "Answer: A\nAnswer: D",
        "an acceptor",
        "a donor site an acceptor site",
        "<think>it must be B",
        "B<think>",
        "out of A, B and C: B",
        "Ⓑ",
        "Ａ",
    ],
)
def test_replies_that_name_none(reply):
    assert parse_choice(reply, CHOICES) is None


def test_a_letter_is_a_letter_even_where_it_is_also_an_options_text():
    assert parse_choice("C", ("T", "C", "A")) == 2
    assert parse_choice("T", ("T", "C", "A")) is None  # beyond the options as a letter


def test_options_that_are_sequences():
    choices = ("ACGT", "TTTT", "GGGG", "CCCC")
    assert parse_choice("GGGG", choices) == 2
    assert parse_choice("D) CCCC", choices) == 3


@given(st.text())
def test_any_reply_is_an_option_or_none(reply):
    assert parse_choice(reply, CHOICES) in (None, 0, 1, 2)


def test_long_hostile_replies_take_no_time():
    for reply in (
        "answer " * 50_000,
        "(" * 100_000,
        "<think>" * 50_000,
        "Answer: " + "A" * 100_000,
        "the " * 50_000 + "B",
    ):
        assert parse_choice(reply, CHOICES) is None


def test_the_prompt_without_tools_has_no_evidence():
    system, user = reasoner_messages(QUESTION, [])
    assert system["role"] == "system" and "one option" in system["content"]
    assert "Evidence" not in user["content"]
    assert "What is in the middle?" in user["content"] and "Sequence: ACGTACGTAC" in user["content"]
    assert "B) an acceptor site" in user["content"]
    assert user["content"].endswith("Reply with one letter (A, B, C).")


def test_the_prompt_with_tools_has_one_titled_block_each():
    blocks = [Evidence("t", "Splice sites", "donor 8.1 bits"), Evidence("u", "Composition", "GC 50 %")]
    _, user = reasoner_messages(QUESTION, blocks)
    assert "[Splice sites]\ndonor 8.1 bits\n\n[Composition]\nGC 50 %" in user["content"]


def test_bases_crop_what_is_shown():
    _, user = reasoner_messages(QUESTION, [], bases=4)
    assert "Sequence: TACG\n" in user["content"]


def test_the_digest_follows_the_prompt(monkeypatch):
    before = prompt_digest()
    monkeypatch.setattr("toolcredit.envs.genome.reasoners.prompt.SYSTEM", "Answer.")
    assert prompt_digest() != before
