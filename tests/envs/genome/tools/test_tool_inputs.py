"""What every built-in tool must do with any sequence."""

import pickle
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.tools import DEFAULT_TOOLS, MAX_EVIDENCE_CHARACTERS, Reference, Tool, make_tool
from toolcredit.envs.genome.tools.base import SequenceTool

REFERENCE = Reference(
    tuple(("".join(random.Random(i).choices("ACGT", k=200)), "ab"[i % 2]) for i in range(20)),
    "twenty random sequences",
    "0" * 64,
)
BUILT_IN = (
    "sequence_statistics",
    "motif_scanner",
    "splice_analyzer",
    "genomic_expert",
    "homology_search",
)
DNA = "".join(random.Random(7).choices("ACGT", k=300))
SEQUENCES = {
    "empty": "",
    "blank": " \n\t ",
    "one base": "A",
    "six bases": "ACGTAC",
    "eight bases": "ACGTACGA",
    "only N": "N" * 80,
    "N inside": DNA[:100] + "N" * 20 + DNA[100:],
    "every second N": "AN" * 60,
    "IUPAC codes": "RYSWKMBDHV" * 10 + DNA,
    "soft masked": DNA.lower(),
    "RNA": DNA.replace("T", "U"),
    "no C": "AGT" * 50,
    "no C and no G": "AAT" * 50,
    "homopolymer": "A" * 400,
    "gaps": DNA[:50] + "--..~" + DNA[50:],
    "line ends and digits": "1 " + DNA[:60] + "\r\n61 " + DNA[60:],
    "protein": "MKVLHE*",
    "FASTA": ">name\nACGT",
    "accents": "ACGTé",
    "null byte": "ACGT\x00",
    "too long": "ACGT" * 25_001,
}


@pytest.fixture(scope="module", params=BUILT_IN)
def tool(request) -> Tool:
    return make_tool(request.param, REFERENCE)


def check(tool: Tool, question: PublicQuestion) -> str:
    evidence = tool.analyse(question)
    assert evidence.tool == tool.name
    assert 0 < len(evidence.text) <= MAX_EVIDENCE_CHARACTERS
    assert "failed" not in evidence.text
    assert not re.search(r"\b(nan|inf|None)\b", evidence.text)
    return evidence.text


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_any_sequence_gives_bounded_text(tool, sequence):
    check(tool, PublicQuestion("Which?", ("a", "b"), sequence))
    check(tool, PublicQuestion("Which?", (sequence, DNA, DNA[:40])))


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="ACGTNacgtnuRY- \n1", max_size=120) | st.text(max_size=40))
def test_any_text_gives_bounded_text(sequence):
    for name in BUILT_IN:
        check(make_tool(name, REFERENCE), PublicQuestion("Which?", ("a", "b"), sequence))


def test_unusable_sequences_say_why(tool):
    for name, words in {"empty": "empty", "only N": "no base but N", "protein": "IUPAC", "too long": "100,000"}.items():
        text = check(tool, PublicQuestion("Which?", ("a", "b"), SEQUENCES[name]))
        assert "Not analysed" in text and words in text


@pytest.mark.parametrize("name", ["soft masked", "RNA", "gaps", "line ends and digits"])
def test_spelling_changes_only_the_note_at_the_end(tool, name):
    plain = check(tool, PublicQuestion("Which?", ("a", "b"), DNA)).splitlines()
    lines = check(tool, PublicQuestion("Which?", ("a", "b"), SEQUENCES[name])).splitlines()
    assert lines[:-1] == plain
    assert lines[-1].startswith("Input: ")


def test_the_longest_sequences_take_bounded_time(tool):
    sequence = "".join(random.Random(3).choices("ACGT", k=100_000))
    start = time.perf_counter()
    check(tool, PublicQuestion("Which?", ("a", "b"), sequence))
    assert time.perf_counter() - start < 20


def test_select_questions_have_a_line_per_option(tool):
    choices = tuple("".join(random.Random(i).choices("ACGT", k=60)) for i in range(26))
    lines = check(tool, PublicQuestion("Which?", choices)).splitlines()
    assert [line[:3] for line in lines[1:]] == [f"{letter}: " for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]


def test_tools_are_described_versioned_and_picklable(tool):
    assert isinstance(tool, Tool) and tool.version and tool.description.endswith(".")
    question = PublicQuestion("Which?", ("a", "b"), DNA)
    tool.analyse(question)
    copy = pickle.loads(pickle.dumps(tool))
    assert copy.analyse(question) == tool.analyse(question) and copy.version == tool.version


def test_the_four_default_tools_take_a_few_milliseconds():
    tools = [make_tool(name, REFERENCE) for name in DEFAULT_TOOLS]
    fastest = []
    for number in range(8):
        sequence = "".join(random.Random(number).choices("ACGT", k=300))
        start = time.perf_counter()
        for tool in tools:
            tool.analyse(PublicQuestion("Which?", ("a", "b"), sequence))
        fastest.append(time.perf_counter() - start)
    assert min(fastest) < 0.03  # about 4 ms on an idle core


def test_a_tool_that_breaks_becomes_evidence():
    class Broken(SequenceTool):
        name, title, description, version = "broken", "Broken", "Breaks.", "1"

        def method(self, question):
            return "A method."

        def report(self, sequence, question, brief):
            raise RuntimeError("out of order")

    text = Broken().analyse(PublicQuestion("Which?", ("a", "b"), DNA)).text
    assert text == "The tool failed: RuntimeError: out of order"


def test_the_tool_of_the_documentation_works():
    page = (Path(__file__).resolve().parents[4] / "docs" / "tools.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    namespace: dict = {}
    exec(code, namespace)
    tool = namespace["TataCounter"]()
    assert check(tool, PublicQuestion("Which?", ("a", "b"), "GGTATAGG")).endswith("TATA count: 1.")
    assert "Not analysed" in check(tool, PublicQuestion("Which?", ("a", "b"), ""))
