"""Genome questions in the files that benchmarks release, as `Question`s: GenomeQA, PhageBench, LAB-Bench SeqQA.

What a prompt may show is a whitelist: id, wording, sequence, options, answer, kind of task. Everything else in a record
stays unread, because released files carry the answer in their metadata (`true_label`, `truth`, `target`, …).

| format | record | what is special |
|---|---|---|
| `toolcredit` | the format of `docs/questions.md` | read by `load_questions` |
| `genomeqa` | `id`, `question`, `options` or `choices`, `answer` | sequence in the wording; ids repeat across files |
| `phagebench` | `id`, `task`, `question`, `sequence`, `choices` (one text), `answer` | |
| `seqqa` | `id`, `question`, `ideal`, `distractors` | the options' order is drawn by id |
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from ..envs.genome.question_fields import LETTERS
from ..envs.genome.questions import EMBEDDED, PublicQuestion, Question, load_questions
from ..envs.genome.sequence import MAX_SEQUENCE_LENGTH, clean
from ..envs.sgls.loaders.rows import RowError, read_rows
from ..errors import QuestionError, TaskError, UnknownNameError

FORMATS = ("toolcredit", "genomeqa", "phagebench", "seqqa")
_RUN = re.compile(r"(?<![A-Za-z])(?:[ACGTUN]{6,}|[acgtun]{12,})(?![A-Za-z])")
_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")
_PLACE = "[sequence]"


def read_questions(source: str | Path = EMBEDDED, format: str = "auto") -> tuple[Question, ...]:
    """The questions of the embedded set, of a file, or of all `.jsonl` files of a folder.

    Args:
        source: `"embedded"`, a file, or a folder; questions of a folder have `FILE/ID` as their id.
        format: one of `FORMATS`; `auto` decides by the fields of each file's first record.

    Raises:
        UnknownNameError: there is no such format.
        QuestionError: a file or a question in it cannot be used; the message says where.
    """
    if format not in ("auto", *FORMATS):
        raise UnknownNameError("question format", format, ("auto", *FORMATS))
    if source == EMBEDDED:
        return load_questions()
    path = Path(source)
    if not path.is_dir():
        return tuple(_read_file(path, format, prefix=""))
    files = sorted(file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.gz")))
    if not files:
        raise QuestionError(f"{path} holds no .jsonl file")
    return tuple(question for file in files for question in _read_file(file, format, prefix=f"{_stem(file)}/"))


def questions_digest(questions: tuple[Question, ...]) -> str:
    """SHA-256 (hex) over the content of questions: what a score belongs to."""
    digest = hashlib.sha256()
    for question in questions:
        digest.update(json.dumps(question.to_json(), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _read_file(path: Path, format: str, prefix: str) -> Iterator[Question]:
    if format == "auto":
        format = _detect(next(_records(path))[1])
    if format == "toolcredit":
        for question in load_questions(path):
            yield _renamed(question, prefix)
        return
    seen: set[str] = set()
    for number, record in _records(path):
        place = f"{path}:{number}: question {str(record.get('id', '(no id)'))[:60]!r}"
        try:
            question = _renamed(_READERS[format](record, _stem(path)), prefix)
        except QuestionError as error:
            raise QuestionError(f"{place}: {error}") from None
        if question.id in seen:
            raise QuestionError(f"{place}: an earlier question has the same id: give each its own")
        seen.add(question.id)
        yield question


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        rows = list(read_rows(path))
    except TaskError as error:
        raise QuestionError(str(error)) from None
    if not rows:
        raise QuestionError(f"{path}: the file is empty, expected one question as a JSON object on each line")
    for number, row in rows:
        if isinstance(row, RowError):
            raise QuestionError(f"{path}:{number}: {row}")
        yield number, row


def _detect(record: Mapping[str, Any]) -> str:
    if {"ideal", "distractors"} <= record.keys():
        return "seqqa"
    if "task" in record and isinstance(record.get("choices"), str) and "sequence" in record:
        return "phagebench"
    for format, read in (("toolcredit", Question.from_json), ("genomeqa", lambda record: _genomeqa(record, "x"))):
        try:
            read(record)
            return format
        except QuestionError:
            continue
    return "toolcredit" if "sequence" in record else "genomeqa"  # for the errors of their readers


def _renamed(question: Question, prefix: str) -> Question:
    if not prefix:
        return question
    return Question(
        prefix + question.id,
        question.public,
        question.answer,
        question.family,
        question.split,
        question.source,
        question.licence,
    )


def _genomeqa(record: Mapping[str, Any], stem: str) -> Question:
    fields = {name: record[name] for name in ("id", "question", "options", "choices", "answer") if name in record}
    fields |= {"family": stem, "answer": _answer(record.get("answer")), "source": "GenomeQA"}
    if record.get("sequence"):
        return Question.from_json({**fields, "sequence": record["sequence"]})
    try:
        return Question.from_json(fields)  # "select": the options are the sequences
    except QuestionError as error:
        found = _sequence_in(fields.get("question"))
        if found is None:
            raise error
    sequence, wording = found
    return Question.from_json({**fields, "question": wording, "sequence": sequence})


def _phagebench(record: Mapping[str, Any], stem: str) -> Question:
    fields = {name: record[name] for name in ("id", "question", "sequence", "choices") if name in record}
    family = str(record.get("task") or stem)
    return Question.from_json(
        {**fields, "family": family, "answer": _answer(record.get("answer")), "source": "PhageBench"}
    )


def _seqqa(record: Mapping[str, Any], stem: str) -> Question:
    """The sequence is taken from the wording where there is one; some questions are about something else."""
    name, wording, ideal, others = (record.get(key) for key in ("id", "question", "ideal", "distractors"))
    texts = [ideal, *others] if isinstance(others, list) else []
    if not isinstance(wording, str) or not wording.strip() or not isinstance(name, str | int):
        raise QuestionError("'id' and 'question' must be there")
    if not 2 <= len(texts) <= len(LETTERS) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise QuestionError("'ideal' must be a text and 'distractors' a list of 1 to 25 texts")
    choices = [text.strip() for text in texts]
    if len(set(choices)) < len(choices):
        raise QuestionError("two options are the same")
    Random(str(name)).shuffle(choices)
    sequence, shown = _sequence_in(wording, least=20) or (None, wording.strip())
    public = PublicQuestion(shown, tuple(choices), sequence)
    family = str(record.get("subtask") or stem)
    answer = choices.index(str(ideal).strip())
    return Question(str(name), public, answer, family, "test", "LAB-Bench SeqQA", "CC BY-SA 4.0")


_READERS: dict[str, Callable[[Mapping[str, Any], str], Question]] = {
    "genomeqa": _genomeqa,
    "phagebench": _phagebench,
    "seqqa": _seqqa,
}


def _answer(value: Any) -> Any:
    """`b`, `(B)` and `B.` are the letter B."""
    found = _LETTER.fullmatch(value.strip()) if isinstance(value, str) else None
    return found[1].upper() if found else value


def _sequence_in(wording: Any, least: int = 6) -> tuple[str, str] | None:
    """The longest sequence in a question's wording, and the wording with a place holder for it."""
    runs = [run for run in _RUN.finditer(wording if isinstance(wording, str) else "") if len(run[0]) >= least]
    if not runs:
        return None
    longest = max(runs, key=lambda run: len(run[0]))
    sequence = clean(longest[0], MAX_SEQUENCE_LENGTH).sequence
    return sequence, (wording[: longest.start()] + _PLACE + wording[longest.end() :]).strip()
