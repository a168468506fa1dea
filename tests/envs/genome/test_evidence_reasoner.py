"""The evidence reasoner: what it reads, what it concludes, and what more evidence does to it."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toolcredit.envs.genome.env import training_reference
from toolcredit.envs.genome.questions import PublicQuestion, load_questions
from toolcredit.envs.genome.reasoners import make_reasoner
from toolcredit.envs.genome.reasoners.base import Reasoner
from toolcredit.envs.genome.reasoners.evidence import DISTRACTION, LINES, EvidenceReasoner
from toolcredit.envs.genome.tools import DEFAULT_TOOLS, Evidence, make_tool

REASONER = EvidenceReasoner()
SPLICE = PublicQuestion(
    "What is at the centre of this 60-nt sequence?",
    ("splice donor site", "splice acceptor site", "neither a donor nor an acceptor"),
    "ACGTTGCA" * 8,
)
ORGANISM = PublicQuestion("Which organism?", ("human", "yeast", "Escherichia coli"), "ACGTTGCA" * 8)
FACTORS = PublicQuestion("Which factor binds here?", ("KLF4", "SOX2", "GATA1", "ZNF740"), "GGGTGGGG")


def block(*lines: str) -> Evidence:
    return Evidence("tool", "Title", "\n".join(lines))


def answer(question: PublicQuestion, *blocks: Evidence) -> str:
    return question.choices[REASONER.answer(question, blocks).choice]


def motif_line(rank: int, name: str) -> str:
    return f"{rank}. {name} [class; family] MA0001.1 3-10 (-) GGGTGGGG, 12.0 bits, relative score 0.95, p 1.0e-05."


def test_it_is_the_registered_reasoner():
    assert isinstance(make_reasoner("evidence"), EvidenceReasoner) and isinstance(REASONER, Reasoner)
    assert REASONER.version == EvidenceReasoner().version


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Donor: candidates 3, called 1. Best: after base 30, 9.0 bits, cagGTAAGT (canonical GT).",
            "splice donor site",
        ),
        ("Acceptor: candidates 3, called 1. Best: after base 31, 9.0 bits, x (canonical AG).", "splice acceptor site"),
        ("Donor: candidates 3, called 1. Best: after base 12, 9.0 bits, x (GT).", "neither a donor nor an acceptor"),
        ("Donor: candidates 3, called 0. Best: after base 30, 1.0 bits, x (GT).", "neither a donor nor an acceptor"),
        ("Donor: candidates 0, called 0. Best: none.", "neither a donor nor an acceptor"),
    ],
)
def test_splice_sites_count_where_the_question_asks(line, expected):
    assert answer(SPLICE, block("Length 60 bp; the middle is after base 30.", line)) == expected


def test_without_the_word_centre_any_place_counts():
    question = PublicQuestion("Is there a splice donor?", ("yes, a donor", "no"), SPLICE.sequence)
    line = "Donor: candidates 3, called 1. Best: after base 12, 9.0 bits, cagGTAAGT (canonical GT)."
    assert answer(question, block("Length 60 bp; the middle is after base 30.", line)) == "yes, a donor"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Length 600 bp, GC 41.0 %. CpG observed/expected 0.18.", "human"),
        ("Length 600 bp, GC 38.0 %. CpG observed/expected 0.85.", "yeast"),
        ("Length 600 bp, GC 51.0 %. CpG observed/expected 1.10.", "Escherichia coli"),
        ("Vote shares of 15 neighbours: yeast 0.63; human 0.37. Margin 0.26.", "yeast"),
        ("2 hits. human: identity 85%, coverage 60%, query 1-60 (+), score 90.", "human"),
        ("Prediction: Escherichia coli.", "Escherichia coli"),
    ],
)
def test_organisms(line, expected):
    assert answer(ORGANISM, block(line)) == expected


def test_motifs_name_their_factor_and_hint_at_its_family():
    assert answer(FACTORS, block(motif_line(1, "SOX2"))) == "SOX2"
    assert answer(FACTORS, block(motif_line(1, "Klf9"))) == "KLF4"
    assert answer(FACTORS, block(motif_line(1, "Klf9"), motif_line(2, "GATA1"))) == "GATA1"
    # Two zinc fingers need not bind alike: no vote, the first impression stands.
    assert answer(FACTORS, block(motif_line(1, "ZNF98"))) == answer(FACTORS)


def test_options_that_are_sequences_are_judged_by_their_own_line():
    choices = ("ACGTTGCA" * 4, "GGCATTCA" * 4, "TTGACCAG" * 4)
    question = PublicQuestion("Which of these binds GATA1?", choices)
    lines = ["A: Best: SOX2 1-8 (+) p 1e-05.", "B: Best: SP1 1-8 (+) p 1e-05; GATA1 3-9 (-) p 2e-05.", "C: Best: none."]
    assert answer(question, block("Method.", *lines)) == choices[1]
    question = PublicQuestion("Which of these is from yeast?", choices)
    lines = ["A: Vote shares of 9 neighbours: human 0.9; yeast 0.10.", "C: Vote shares of 9 neighbours: yeast 0.90."]
    assert answer(question, block("Method.", *lines)) == choices[2]


@pytest.mark.parametrize("name", DEFAULT_TOOLS)
def test_what_a_tool_says_of_its_method_is_not_evidence(name):
    tool = make_tool(name, training_reference(load_questions("embedded")))
    for number in range(10):
        for question in (SPLICE, ORGANISM, FACTORS):
            question = PublicQuestion(f"{question.text} ({number})", question.choices, question.sequence)
            assert answer(question, block(tool.method(question))) == answer(question)


def test_attention_is_shared_among_the_blocks():
    silent = block("Nothing to see.")
    decisive = block(*["Nothing to see."] * (LINES // 2 - 1), "Prediction: yeast.")
    question = next(
        q for n in range(20) if answer(q := PublicQuestion(f"Organism {n}?", ORGANISM.choices, "ACGT")) != "yeast"
    )
    assert answer(question, decisive) == "yeast"
    assert answer(question, decisive, silent) == "yeast"
    assert answer(question, decisive, silent, silent) == answer(question)


def test_irrelevant_blocks_outweigh_weak_evidence():
    question = next(
        q for n in range(20) if answer(q := PublicQuestion(f"Organism {n}?", ORGANISM.choices, "ACGT")) != "yeast"
    )
    weak = block(f"Vote shares of 15 neighbours: yeast {DISTRACTION + 0.1:.2f}.")
    silent = block("Nothing to see.")
    assert answer(question, weak, silent) == "yeast"
    assert answer(question, weak, silent, silent) == answer(question) != "yeast"


@pytest.mark.parametrize("question", [SPLICE, ORGANISM, FACTORS])
def test_the_order_of_the_options_does_not_matter(question):
    for blocks in ((), (block("Vote shares of 3 neighbours: SOX2 0.50; GATA1 0.50."),), (block("Silence."),)):
        answers = {
            answer(PublicQuestion(question.text, order, question.sequence), *blocks)
            for order in itertools.permutations(question.choices)
        }
        assert len(answers) == 1


def test_the_spelling_of_a_sequence_does_not_matter():
    for number in range(10):
        dna = f"ACGTTGCA{'ACGT'[number % 4] * number}TTACG"
        plain = PublicQuestion("Which?", ("a", "b", "c"), dna)
        masked = PublicQuestion("Which?", ("a", "b", "c"), dna.lower().replace("t", "u"))
        assert REASONER.answer(plain, ()) == REASONER.answer(masked, ())
    options = ("ACGT", "GGGT", "TTAC")
    lower = PublicQuestion("Which?", tuple(option.lower() for option in options))
    assert REASONER.answer(PublicQuestion("Which?", options), ()) == REASONER.answer(lower, ())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(max_size=200), max_size=4),
    st.lists(st.text(min_size=1, max_size=20), min_size=2, max_size=5, unique=True),
    st.none() | st.text(max_size=30),
)
def test_any_text_gets_an_answer(texts, choices, sequence):
    question = PublicQuestion("Which?", tuple(choices), sequence)
    blocks = [Evidence("t", "T", text) for text in texts]
    first = REASONER.answer(question, blocks)
    assert 0 <= first.choice < len(choices)
    assert EvidenceReasoner().answer(question, blocks) == first


@pytest.mark.parametrize(
    "line",
    [
        f"{'9' * 5000} matches, chance alone would give {'9' * 5000}",
        f"Donor: after base {'9' * 5000}, {'9' * 5000} bits",
        "human: identity 999%",
        "Vote shares of 3 neighbours: human 9.99; yeast 1.99.",
        "0 matches in 3 bp, chance alone would give 0.0 matches.",
        "A: " * 1000,
    ],
)
def test_hostile_numbers_do_no_harm(line):
    for question in (SPLICE, ORGANISM, PublicQuestion("Which is human?", ("ACGT", "GGGT"))):
        assert REASONER.answer(question, [block(line)]).choice in range(len(question.choices))


@pytest.fixture(scope="module")
def accuracy() -> dict[str, np.ndarray]:
    """Family -> (questions, 16) whether each subset of the default tools gives the right answer; embedded set."""
    questions = load_questions("embedded")
    tools = [make_tool(name, training_reference(questions)) for name in DEFAULT_TOOLS]
    rows = defaultdict(list)
    for question in questions:
        blocks = [tool.analyse(question.public) for tool in tools]
        subsets = ([b for i, b in enumerate(blocks) if action >> i & 1] for action in range(16))
        rows[question.family].append([REASONER.answer(question.public, s).choice == question.answer for s in subsets])
    return {family: np.array(row) for family, row in rows.items()}


def test_more_evidence_is_not_better_and_choosing_matters(accuracy):
    everything = np.concatenate(list(accuracy.values()))
    none, all_four = everything[:, 0].mean(), everything[:, 15].mean()
    best_fixed = everything.mean(0).max()
    best = {family: int(rows.mean(0).argmax()) for family, rows in accuracy.items()}
    routed = np.concatenate([rows[:, best[family]] for family, rows in accuracy.items()]).mean()
    assert none < 0.36
    assert none + 0.2 < all_four
    assert all_four < best_fixed + 1e-9 and best_fixed + 0.08 < routed
    assert len({best["splice"], best["tf_motif"], best["taxonomy"], best["cpg_island"]}) == 4


def test_most_questions_distinguish_subsets(accuracy):
    right = np.concatenate(list(accuracy.values())).sum(1)
    assert np.mean((right > 0) & (right < 16)) > 0.5
