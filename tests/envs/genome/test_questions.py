"""The question types and the strict JSONL loader: what is accepted, and one test for each kind of refusal."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.envs.genome.questions import (
    MAX_LINE_BYTES,
    MAX_REPORTED_ERRORS,
    PublicQuestion,
    Question,
    load_questions,
    write_questions,
)
from toolcredit.errors import QuestionError

DESCRIBE = {"id": "d", "question": "Donor?", "sequence": "CAGGTAAGT", "choices": ["yes", "no"], "answer": "A"}
SELECT = {"id": "s", "question": "Which?", "choices": ["ACGT", "TTTT", "GGGG"], "answer": "C"}
MISSING = object()


def record(base=DESCRIBE, **changes):
    return {name: value for name, value in {**base, **changes}.items() if value is not MISSING}


@pytest.fixture
def file_of(tmp_path):
    """Writes records (or raw lines) to a JSONL file and gives its path."""

    def write(*records, name="questions.jsonl"):
        lines = (r if isinstance(r, bytes) else json.dumps(r).encode() for r in records)
        path = tmp_path / name
        content = b"".join(line + b"\n" for line in lines)
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


# What is accepted.


@pytest.mark.parametrize("name", ["questions.jsonl", "questions.jsonl.gz"])
def test_loads_plain_and_compressed_files(file_of, name):
    questions = load_questions(file_of(DESCRIBE, b"", b"  \r", SELECT, name=name))
    assert [question.id for question in questions] == ["d", "s"]
    assert questions[0] == Question(
        "d", PublicQuestion("Donor?", ("yes", "no"), "CAGGTAAGT"), answer=0, family="custom", split="test"
    )


def test_accepts_a_path_as_text_a_byte_order_mark_and_windows_line_ends(file_of):
    line = b"\xef\xbb\xbf" + json.dumps(DESCRIBE).encode() + b"\r"
    assert load_questions(str(file_of(line)))[0].id == "d"


def test_keeps_optional_fields_and_both_spellings_of_licence(file_of):
    first = record(family="splice", split="train", source="UCI", licence="CC BY 4.0")
    second = record(id="e", license="MIT")
    one, two = load_questions(file_of(first, second))
    assert (one.family, one.split, one.source, one.licence) == ("splice", "train", "UCI", "CC BY 4.0")
    assert (two.family, two.split, two.source, two.licence) == ("custom", "test", "", "MIT")


def test_ignores_other_fields(file_of):
    (question,) = load_questions(file_of(record(true_label="yes", metadata={"target": 0}, truth=1)))
    assert question == Question.from_json(DESCRIBE)


@pytest.mark.parametrize(
    "choices",
    [
        ["yes", "no"],
        {"A": "yes", "B": "no"},
        {"B": "no", "A": "yes"},
        "yes\nno",
        "A) yes\nB) no",
        "A. yes\r\n\r\nB. no\r\n",
        "(A) yes\n(B) no",
        "A: yes\nB: no",
    ],
)
@pytest.mark.parametrize("name", ["choices", "options"])
def test_accepts_the_options_as_list_object_or_text(choices, name):
    question = Question.from_json({**record(choices=MISSING), name: choices})
    assert question.public.choices == ("yes", "no")


def test_keeps_what_only_looks_like_labels():
    choices = Question.from_json(record(choices="E. coli\nA. thaliana", answer="A. thaliana")).public.choices
    assert choices == ("E. coli", "A. thaliana")


@pytest.mark.parametrize("answer", ["B", 1, "no", " no "])
def test_accepts_the_answer_as_letter_index_or_text(answer):
    assert Question.from_json(record(answer=answer)).answer == 1


def test_an_answer_that_is_letter_and_text_of_one_option_is_clear():
    assert Question.from_json(record(choices=["A", "C"], answer="A")).answer == 0


def test_an_integer_id_becomes_text():
    assert Question.from_json(record(id=7)).id == "7"


@pytest.mark.parametrize("sequence", ["NNNN", "acgu", "A C\nG T", "RYK", "A"])
def test_accepts_unusual_sequences_as_they_are(sequence):
    assert Question.from_json(record(sequence=sequence)).public.sequence == sequence


@pytest.mark.parametrize("base", [SELECT, {**SELECT, "sequence": None}])
def test_without_a_sequence_the_options_are_the_sequences(base):
    public = Question.from_json(base).public
    assert public.shape == "select"
    assert public.sequences() == (("A", "ACGT"), ("B", "TTTT"), ("C", "GGGG"))


def test_a_describe_question_has_one_unlabelled_sequence_and_lettered_options():
    public = Question.from_json(DESCRIBE).public
    assert public.shape == "describe"
    assert public.sequences() == (("", "CAGGTAAGT"),)
    assert public.options() == "A) yes\nB) no"


# What is refused in a question.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": MISSING}, "missing field 'id'"),
        ({"question": None, "answer": MISSING}, "missing field 'question' and 'answer'"),
        ({"choices": MISSING}, "missing field 'choices'"),
        ({"id": ""}, "'id' must not be empty"),
        ({"id": True}, "'id' must be a string, got True"),
        ({"id": "a\nb"}, "'id' must be one printable line"),
        ({"id": "x" * 201}, "'id' has 201 characters, at most 200"),
        ({"question": 3}, "'question' must be a string, got 3"),
        ({"question": " "}, "'question' must not be empty"),
        ({"question": "x" * 20_001}, "'question' has 20,001 characters"),
        ({"question": "\x1b[31m"}, r"'question' contains the control character '\\x1b'"),
        ({"question": "\ud800"}, r"'question' contains the control character '\\ud800'"),
        ({"family": ["x"]}, r"'family' must be a string, got \['x'\]"),
        ({"family": "\u202e"}, "'family' must be one printable line"),
        ({"split": "validation"}, "unknown split 'validation': give one of train, dev, test"),
        ({"split": []}, r"unknown split \[\]"),
        ({"source": 1}, "'source' must be a string"),
        ({"sequense": "A", "sequence": MISSING}, "unknown field 'sequense': did you mean 'sequence'?"),
        ({"options": ["x", "y"]}, "'choices' and its other spelling are both given"),
        ({"choices": 2}, "'choices' must be a list, an object or a text, got 2"),
        ({"choices": ["yes"]}, "'choices' must have 2 to 26 options, got 1"),
        ({"choices": []}, "2 to 26 options, got 0"),
        ({"choices": {}}, "2 to 26 options, got 0"),
        ({"choices": [str(n) for n in range(27)]}, "2 to 26 options, got 27"),
        ({"choices": ["yes", 2]}, "choice B must be a string, got 2"),
        ({"choices": ["yes", ""]}, "choice B must not be empty"),
        ({"choices": ["no", "yes", "no "]}, "choices A and C are the same: 'no'"),
        ({"choices": {"A": "yes", "C": "no"}}, "needs the keys A, B, C, …, got"),
        ({"answer": "C"}, "'answer' 'C' is not among the choices: give a letter A to B"),
        ({"answer": "a"}, "'answer' 'a' is not among the choices"),
        ({"answer": "Yes"}, "'answer' 'Yes' is not among the choices"),
        ({"answer": 2}, "'answer' 2 is no index: expected 0 to 1"),
        ({"answer": -1}, "'answer' -1 is no index"),
        ({"answer": True}, "'answer' True is not among the choices"),
        ({"answer": 1.0}, "'answer' 1.0 is not among the choices"),
        ({"answer": ["A"]}, r"'answer' \['A'\] is not among the choices"),
        ({"choices": ["T", "C", "A"], "answer": "A"}, "letter of one choice and the text of another: give an index"),
        ({"sequence": ""}, "'sequence' is empty: leave it out if the choices are the sequences"),
        ({"sequence": "--- 12"}, "'sequence' is empty"),
        ({"sequence": 5}, "'sequence': a sequence must be a string of nucleotides, got int"),
        ({"sequence": "MKVL"}, "'sequence': not a nucleotide sequence"),
        ({"sequence": ">x\nACGT"}, "'sequence': the sequence starts with '>' like FASTA"),
        ({"sequence": "A" * 100_001}, "'sequence': the sequence has 100,001 bases"),
        ({"sequence": MISSING}, "without 'sequence' the choices must be sequences: choice A: not a nucleotide"),
    ],
)
def test_refuses_an_unusable_field(changes, message):
    with pytest.raises(QuestionError, match=message):
        Question.from_json(record(**changes))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (["ACGT", "acgu", "TT"], "choices A and B are the same: 'ACGT'"),
        (["ACGT", "--", "TT"], "choice B is an empty sequence"),
        (["ACGT", "A" * 100_001, "TT"], "choice B: the sequence has 100,001 bases"),
        (["ACGT", "A" * 200_001, "TT"], "choice B has 200,001 characters"),
    ],
)
def test_refuses_unusable_sequences_as_options(choices, message):
    with pytest.raises(QuestionError, match=message):
        Question.from_json(record(SELECT, choices=choices))


@pytest.mark.parametrize("value", [[], "text", 3, None])
def test_refuses_a_record_that_is_no_object(value):
    with pytest.raises(QuestionError, match="expected a JSON object with fields"):
        Question.from_json(value)


# What is refused in a file.


def refusal(path):
    with pytest.raises(QuestionError) as caught:
        load_questions(path)
    message = str(caught.value)
    assert message.isprintable(), "one line, nothing that a terminal would interpret"
    return message


def test_an_error_names_file_line_and_question(file_of):
    path = file_of(DESCRIBE, b"", record(id="e", answer="Z"))
    assert refusal(path).startswith(f"{path}:3: question 'e': 'answer' 'Z' is not among the choices")


def test_an_error_without_an_id_names_file_and_line(file_of):
    path = file_of(DESCRIBE, record(id=MISSING))
    assert refusal(path) == f"{path}:2: missing field 'id'"


def test_further_errors_are_counted(file_of):
    path = file_of(record(answer=9), SELECT, record(id="e", answer=9), record(id="f", split="x"))
    assert refusal(path).endswith("expected 0 to 1 (+2 more)")


def test_the_loader_stops_after_some_errors(file_of):
    path = file_of(*(record(id=str(n), answer=9) for n in range(50)))
    assert refusal(path).endswith(f"(+at least {MAX_REPORTED_ERRORS - 1} more)")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"not json", "not JSON: Expecting value at column 1"),
        (b'{"id": "a"} trailing', "not JSON: Extra data"),
        (b'{"id": "a", "id": "b"}', "the key 'id' stands twice in one object"),
        (b'{"answer": NaN}', "NaN is not JSON"),
        (b'{"answer": -Infinity}', "-Infinity is not JSON"),
        (b'{"answer": ' + b"9" * 5000 + b"}", "a number has too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1, 2]", "expected a JSON object with fields, got [1, 2]"),
        (b'{"id": "\xe9"}', "not UTF-8 (byte 9 of the line): save the file as UTF-8"),
        ('{"id": "a"}'.encode("utf-16"), "not UTF-8"),
    ],
)
def test_refuses_an_unusable_line(file_of, line, message):
    path = file_of(line)
    assert message in refusal(path)
    assert refusal(path).startswith(f"{path}:1: ")


def test_refuses_a_repeated_id(file_of):
    path = file_of(DESCRIBE, SELECT, record(answer="B"))
    assert refusal(path) == f"{path}:3: question 'd': line 1 has the same id: give each question its own"


def test_an_integer_and_a_text_id_can_be_the_same(file_of):
    assert "line 1 has the same id" in refusal(file_of(record(id="1"), record(id=1)))


def test_refuses_an_overlong_line(file_of):
    assert "the line is longer than 4,000,000 bytes" in refusal(file_of(b" " * (MAX_LINE_BYTES + 1) + b"{}"))


def test_a_small_compressed_file_cannot_fill_the_memory(file_of):
    path = file_of(b"x" * 40_000_000, name="bomb.jsonl.gz")
    assert path.stat().st_size < 50_000
    assert "the line is longer than" in refusal(path)


@pytest.mark.parametrize("content", [b"", b"\n \n\r\n"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_refuses_a_file_without_questions(tmp_path, content, compress):
    path = tmp_path / "empty.jsonl"
    path.write_bytes(compress(content))
    assert refusal(path) == f"{path}: the file is empty, expected one question as a JSON object on each line"


def test_refuses_an_empty_file_named_gz(tmp_path):
    path = tmp_path / "empty.jsonl.gz"
    path.touch()
    assert "the file is empty" in refusal(path)


@pytest.mark.parametrize("kept", [5, 20, 0.5, 0.95])
def test_refuses_a_truncated_gzip_file(file_of, kept):
    path = file_of(*(record(id=str(n)) for n in range(500)), name="cut.jsonl.gz")
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    assert "the gzip file is truncated: copy or download it again" in refusal(path)


def test_refuses_a_damaged_gzip_file(file_of):
    path = file_of(*(record(id=str(n)) for n in range(500)), name="damaged.jsonl.gz")
    content = bytearray(path.read_bytes())
    content[-6] ^= 0xFF  # in the checksum
    path.write_bytes(content)
    assert "the gzip file is damaged" in refusal(path)


def test_refuses_a_plain_file_named_gz(file_of):
    path = file_of(DESCRIBE)
    renamed = path.rename(path.with_name("plain.jsonl.gz"))
    assert refusal(renamed) == f"{renamed}: named .gz but not gzip-compressed: rename or compress it"


def test_a_wrong_path_gets_the_nearest_name(file_of):
    path = file_of(DESCRIBE, name="splice_questions.jsonl")
    wrong = path.with_name("splice_question.jsonl")
    assert refusal(wrong) == f"no such question file: {wrong}: did you mean 'splice_questions.jsonl'?"


def test_a_wrong_path_without_a_near_name_says_what_to_give(tmp_path):
    assert "give a .jsonl or .jsonl.gz file, or 'embedded'" in refusal(tmp_path / "zzz")


def test_a_path_in_a_missing_folder_names_the_folder(tmp_path):
    path = tmp_path / "nowhere" / "questions.jsonl"
    assert refusal(path) == f"no such question file: {path} (there is no folder {path.parent})"


def test_a_misspelt_name_of_the_embedded_set_gets_a_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal("embeded").endswith("did you mean 'embedded'?")


def test_refuses_a_folder(tmp_path):
    assert "is a folder, expected a .jsonl or .jsonl.gz file" in refusal(tmp_path)


def test_says_why_the_system_cannot_read_a_file(tmp_path):
    path = tmp_path / ("x" * 300)
    assert refusal(path) == f"{path} cannot be read: File name too long"


# Writing.

words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=20)
texts = words.map(str.strip).filter(bool)
names = texts.filter(str.isprintable)
dna = st.text("ACGTNacgtu-", min_size=1, max_size=40).filter(lambda s: s.strip("-"))


@st.composite
def question(draw):
    select = draw(st.booleans())
    if select:
        choices = draw(st.lists(st.text("ACGT", min_size=1, max_size=20), min_size=2, max_size=26, unique=True))
    else:
        choices = draw(st.lists(texts | st.sampled_from("ABCT"), min_size=2, max_size=26, unique=True))
    return Question(
        id=draw(names),
        public=PublicQuestion(draw(texts), tuple(choices), None if select else draw(dna)),
        answer=draw(st.integers(0, len(choices) - 1)),
        family=draw(names),
        split=draw(st.sampled_from(["train", "dev", "test"])),
        source=draw(texts | st.just("")),
        licence=draw(texts | st.just("")),
    )


@given(question())
def test_a_question_survives_json(one):
    back = Question.from_json(json.loads(json.dumps(one.to_json())))
    assert back == one
    assert (back.source, back.licence) == (one.source, one.licence)


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_writing_and_reading_gives_the_same_questions_and_bytes(tmp_path, name):
    questions = (Question.from_json(record(question="Größe?")), Question.from_json(SELECT))
    first, second = tmp_path / name, tmp_path / f"again_{name}"
    write_questions(first, questions)
    write_questions(second, load_questions(first))
    assert load_questions(second) == questions
    assert first.read_bytes() == second.read_bytes()


def test_the_embedded_set_is_read_once():
    assert load_questions() is load_questions("embedded")
