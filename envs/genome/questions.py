"""Multiple-choice questions about DNA: the data type, the strict JSONL loader, the embedded set.

`docs/questions.md` describes the file format for people who write one.
"""

from __future__ import annotations

import difflib
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...errors import QuestionError
from .question_fields import LETTERS, SPLITS, check_fields, shown

__all__ = ["EMBEDDED", "LETTERS", "SPLITS", "PublicQuestion", "Question", "load_questions", "write_questions"]

EMBEDDED = "embedded"
MAX_LINE_BYTES = 4_000_000
MAX_REPORTED_ERRORS = 10


@dataclass(frozen=True)
class PublicQuestion:
    """What tools, reasoners and policies may see: no answer, no family, no id, no source.

    Attributes:
        text: the question's wording, without sequence and options.
        choices: the options' texts, at least two, all different.
        sequence: the DNA the question is about, or None when the options are the sequences ("select" shape).
    """

    text: str
    choices: tuple[str, ...]
    sequence: str | None = None

    @property
    def shape(self) -> str:
        """`describe` (one sequence, textual options) or `select` (the options are sequences)."""
        return "select" if self.sequence is None else "describe"

    def sequences(self) -> tuple[tuple[str, str], ...]:
        """(label, sequence) pairs to analyse: `("", sequence)`, or one `("A", option)` … per option."""
        if self.sequence is not None:
            return (("", self.sequence),)
        return tuple(zip(LETTERS, self.choices, strict=False))

    def options(self) -> str:
        """The options as lines `A) …`."""
        return "\n".join(f"{letter}) {choice}" for letter, choice in zip(LETTERS, self.choices, strict=False))


@dataclass(frozen=True)
class Question:
    """One question with its answer and provenance.

    Attributes:
        id: unique in its set.
        public: what may be shown.
        answer: index of the right option.
        family: kind of task (`splice`, `taxonomy`, …); for reports, never shown to policy or reasoner.
        split: `train`, `dev` or `test`.
        source: where it comes from.
        licence: licence of that source.
    """

    id: str
    public: PublicQuestion
    answer: int
    family: str
    split: str
    source: str = field(default="", compare=False)
    licence: str = field(default="", compare=False)

    @classmethod
    def from_json(cls, record: object) -> Question:
        """The question that one object of the JSONL format describes (`docs/questions.md`).

        Raises:
            QuestionError: a field is missing, misspelt, of the wrong kind, or contradicts another one.
        """
        fields = check_fields(record)
        return cls(
            id=fields.id,
            public=PublicQuestion(fields.question, fields.choices, fields.sequence),
            answer=fields.answer,
            family=fields.family,
            split=fields.split,
            source=fields.source,
            licence=fields.licence,
        )

    def to_json(self) -> dict[str, Any]:
        """The question as one object of the JSONL format; the loader gives the same question back."""
        letter = LETTERS[self.answer]
        record = {
            "id": self.id,
            "family": self.family,
            "split": self.split,
            "question": self.public.text,
            "sequence": self.public.sequence,
            "choices": list(self.public.choices),
            "answer": self.answer if letter in self.public.choices else letter,
            "source": self.source,
            "licence": self.licence,
        }
        return {name: value for name, value in record.items() if value not in (None, "")}


def load_questions(source: str | Path = EMBEDDED) -> tuple[Question, ...]:
    """Questions of the embedded set, or of a `.jsonl` or `.jsonl.gz` file in the format of `docs/questions.md`.

    Args:
        source: `"embedded"`, or the path of a file. The embedded set is read once per process.

    Raises:
        QuestionError: the file cannot be read, or a question in it cannot be used. The message names the file,
            the line and the question's id, and says how many more errors were found.
    """
    return _embedded_questions() if source == EMBEDDED else _read_file(Path(source))


def write_questions(path: str | Path, questions: Iterable[Question]) -> None:
    """Write questions as JSONL, compressed if `path` ends in `.gz`; equal questions give equal bytes."""
    path = Path(path)
    lines = (json.dumps(question.to_json(), ensure_ascii=False) + "\n" for question in questions)
    content = "".join(lines).encode("utf-8")
    if path.suffix == ".gz":
        buffer = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as stream:
            stream.write(content)
        content = buffer.getvalue()
    path.write_bytes(content)


@lru_cache(maxsize=1)
def _embedded_questions() -> tuple[Question, ...]:
    with resources.as_file(resources.files(__package__) / "data" / "questions.jsonl.gz") as path:
        return _read_file(path)


# Reading a file: every error says where it is.


def _read_file(path: Path) -> tuple[Question, ...]:
    questions: dict[str, Question] = {}
    first_line: dict[str, int] = {}
    errors: list[str] = []
    for number, line in _lines(path):
        place = f"{path}:{number}"
        try:
            record = _parse_line(line, number)
            if isinstance(record, dict) and isinstance(record.get("id"), str | int):
                place += f": question {shown(record['id'])}"
            question = Question.from_json(record)
            if question.id in questions:
                raise QuestionError(f"line {first_line[question.id]} has the same id: give each question its own")
        except QuestionError as error:
            errors.append(f"{place}: {error}")
            if len(errors) == MAX_REPORTED_ERRORS:
                break
        else:
            questions[question.id] = question
            first_line[question.id] = number
    if errors:
        least = "at least " if len(errors) == MAX_REPORTED_ERRORS else ""
        further = f" (+{least}{len(errors) - 1} more)" if len(errors) > 1 else ""
        raise QuestionError(errors[0] + further)
    if not questions:
        raise QuestionError(f"{path}: the file is empty, expected one question as a JSON object on each line")
    return tuple(questions.values())


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, content) of the lines that are not blank; decompresses what starts like gzip."""
    try:
        with path.open("rb") as file:
            start = file.peek(2)[:2]
            compressed = start == b"\x1f\x8b"
            if start and path.suffix == ".gz" and not compressed:
                raise QuestionError(f"{path}: named .gz but not gzip-compressed: rename or compress it")
            stream = gzip.GzipFile(fileobj=file) if compressed else file
            for number in itertools.count(1):
                # Bounded, so that a small compressed file cannot expand to one line larger than memory.
                line = stream.readline(MAX_LINE_BYTES + 1)
                if len(line) > MAX_LINE_BYTES:
                    raise QuestionError(f"{path}:{number}: the line is longer than {MAX_LINE_BYTES:,} bytes")
                if not line:
                    return
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise QuestionError(_not_found(path)) from None
    except IsADirectoryError:
        raise QuestionError(f"{path} is a folder, expected a .jsonl or .jsonl.gz file in it") from None
    except EOFError:
        raise QuestionError(f"{path}: the gzip file is truncated: copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise QuestionError(f"{path}: the gzip file is damaged ({error}): copy or download it again") from None
    except OSError as error:
        raise QuestionError(f"{path} cannot be read: {error.strerror or error}") from None


def _not_found(path: Path) -> str:
    if not path.parent.is_dir():
        return f"no such question file: {path} (there is no folder {path.parent})"
    known = [EMBEDDED, *sorted(entry.name for entry in path.parent.iterdir())]
    near = difflib.get_close_matches(path.name, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"give a .jsonl or .jsonl.gz file, or {EMBEDDED!r}"
    return f"no such question file: {path}: {hint}"


def _parse_line(line: bytes, number: int) -> object:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except QuestionError:
        raise
    except UnicodeDecodeError as error:
        raise QuestionError(f"not UTF-8 (byte {error.start + 1} of the line): save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise QuestionError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise QuestionError("not usable JSON: nested too deeply") from None
    except ValueError:
        raise QuestionError("not usable JSON: a number has too many digits") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise QuestionError(f"the key {shown(twice)} stands twice in one object: keep one")
    return record


def _no_constant(name: str) -> None:
    raise QuestionError(f"{name} is not JSON: remove it")
