"""Checks of one question as it stands in a JSONL file: what is given in several spellings becomes plain values.

Each function checks one kind of field; every error says what was given, what was expected and what to do.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import QuestionError
from .sequence import MAX_SEQUENCE_LENGTH, clean

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SPLITS = ("train", "dev", "test")
MAX_TEXT_LENGTH = 20_000
MAX_NAME_LENGTH = 200

_FIELDS = ("id", "question", "choices", "answer", "sequence", "family", "split", "source", "licence")
_REQUIRED = _FIELDS[:4]
_ALIASES = {"options": "choices", "license": "licence"}
_LABELLED = re.compile(r"\(?([A-Z])[).:]\s*(.*)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class QuestionFields(NamedTuple):
    """One question's checked values; `answer` is the index of the right choice, `sequence` None if left out."""

    id: str
    question: str
    choices: tuple[str, ...]
    answer: int
    sequence: str | None
    family: str
    split: str
    source: str
    licence: str


def check_fields(record: object) -> QuestionFields:
    """The values of one object of the JSONL format.

    Raises:
        QuestionError: a field is missing, misspelt, of the wrong kind, or contradicts another one.
    """
    fields = _known_fields(record)
    choices = _choices(fields)
    sequence = _sequence(fields)
    if sequence is None:
        _check_selectable(choices)
    return QuestionFields(
        id=_name(fields, "id"),
        question=_text(fields, "question"),
        choices=choices,
        answer=_answer(fields, choices),
        sequence=sequence,
        family=_name(fields, "family", "custom"),
        split=_split(fields),
        source=_text(fields, "source", ""),
        licence=_text(fields, "licence", ""),
    )


def shown(value: object) -> str:
    """A short, printable form of anything for error messages."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _known_fields(record: object) -> dict[str, Any]:
    """The fields of the format under their own names; others are left out, misspelt ones refused."""
    if not isinstance(record, dict):
        raise QuestionError(f"expected a JSON object with fields, got {shown(record)}")
    fields: dict[str, Any] = {}
    for name, value in record.items():
        known = _ALIASES.get(name, name)
        if known in fields:
            raise QuestionError(f"'{known}' and its other spelling are both given: keep one")
        if known in _FIELDS:
            fields[known] = value
    for name in record:
        meant = _misspelt(name)
        if meant and _ALIASES.get(meant, meant) not in fields:
            raise QuestionError(f"unknown field {shown(name)}: did you mean {meant!r}?")
    missing = [name for name in _REQUIRED if fields.get(name) is None]
    if missing:
        raise QuestionError(f"missing field {' and '.join(map(repr, missing))}")
    return fields


@lru_cache(maxsize=1000)
def _misspelt(name: str) -> str | None:
    """The field that `name` nearly is, or None if it is one, or is like none."""
    spellings = [*_FIELDS, *_ALIASES]
    if name in spellings or len(name) > 20:
        return None
    near = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0.85)
    return near[0] if near else None


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name)
    if value is None and default is not None:
        return default
    return _checked_text(value, f"'{name}'", MAX_TEXT_LENGTH, allow_empty=default == "")


def _name(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None and default is not None:
        return default
    text = _checked_text(value, f"'{name}'", MAX_NAME_LENGTH)
    if not text.isprintable():
        raise QuestionError(f"'{name}' must be one printable line, got {shown(text)}")
    return text


def _checked_text(value: object, what: str, limit: int, allow_empty: bool = False) -> str:
    if not isinstance(value, str):
        raise QuestionError(f"{what} must be a string, got {shown(value)}")
    text = value.strip()
    if not text and not allow_empty:
        raise QuestionError(f"{what} must not be empty")
    if len(text) > limit:
        raise QuestionError(f"{what} has {len(text):,} characters, at most {limit:,} are accepted")
    control = _CONTROL.search(text)
    if control:
        raise QuestionError(f"{what} contains the control character {ascii(control[0])}: remove it")
    return text


def _split(fields: dict[str, Any]) -> str:
    split = fields.get("split")
    if split is None:
        return "test"
    if split not in SPLITS:
        raise QuestionError(f"unknown split {shown(split)}: give one of {', '.join(SPLITS)}")
    return split


def _sequence(fields: dict[str, Any]) -> str | None:
    sequence = fields.get("sequence")
    if sequence is None:
        return None
    if not _cleaned(sequence, "'sequence'"):
        raise QuestionError("'sequence' is empty: leave it out if the choices are the sequences")
    return sequence


def _cleaned(sequence: object, what: str) -> str:
    try:
        return clean(sequence).sequence  # type: ignore[arg-type]  # clean() refuses other types itself
    except QuestionError as error:
        raise QuestionError(f"{what}: {error}") from None


def _choices(fields: dict[str, Any]) -> tuple[str, ...]:
    """Options given as a list, as an object letter → text, or as one text with an option on each line."""
    value = fields["choices"]
    if isinstance(value, str):
        value = _split_lines(value)
    elif isinstance(value, dict):
        if sorted(value) != list(LETTERS[: len(value)]):
            raise QuestionError(f"'choices' as an object needs the keys A, B, C, …, got {shown(sorted(value))}")
        value = [value[letter] for letter in sorted(value)]
    elif not isinstance(value, list):
        raise QuestionError(f"'choices' must be a list, an object or a text, got {shown(value)}")
    if not 2 <= len(value) <= len(LETTERS):
        raise QuestionError(f"'choices' must have 2 to {len(LETTERS)} options, got {len(value)}")
    # Sequences are measured when they are cleaned; until then they may have line ends and numbers in them.
    limit = MAX_TEXT_LENGTH if fields.get("sequence") is not None else 2 * MAX_SEQUENCE_LENGTH
    choices = tuple(
        _checked_text(choice, f"choice {letter}", limit) for letter, choice in zip(LETTERS, value, strict=False)
    )
    _check_different(choices)
    return choices


def _split_lines(text: str) -> list[str]:
    """Lines of a text without their labels, where all lines are labelled `A)`, `B)`, … in order."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    matches = [_LABELLED.fullmatch(line) for line in lines]
    labels = [match[1] if match else "" for match in matches]
    if labels and labels == list(LETTERS[: len(labels)]):
        return [match[2] for match in matches if match]
    return lines


def _check_different(choices: tuple[str, ...]) -> None:
    first: dict[str, str] = {}
    for letter, choice in zip(LETTERS, choices, strict=False):
        if choice in first:
            raise QuestionError(f"choices {first[choice]} and {letter} are the same: {shown(choice)}")
        first[choice] = letter


def _check_selectable(choices: tuple[str, ...]) -> None:
    sequences = []
    for letter, choice in zip(LETTERS, choices, strict=False):
        try:
            sequences.append(_cleaned(choice, f"choice {letter}"))
        except QuestionError as error:
            raise QuestionError(f"without 'sequence' the choices must be sequences: {error}") from None
    if not all(sequences):
        raise QuestionError(f"choice {LETTERS[sequences.index('')]} is an empty sequence")
    _check_different(tuple(sequences))


def _answer(fields: dict[str, Any], choices: tuple[str, ...]) -> int:
    """Index of the right option, given as that index (from 0), as its letter, or as its exact text."""
    value = fields["answer"]
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < len(choices):
            return value
        raise QuestionError(f"'answer' {value} is no index: expected 0 to {len(choices) - 1}")
    text = value.strip() if isinstance(value, str) else value
    letters = LETTERS[: len(choices)]
    found = {choices.index(text)} if text in choices else set()
    if isinstance(text, str) and len(text) == 1 and text in letters:
        found.add(letters.index(text))
    if len(found) == 2:
        raise QuestionError(f"'answer' {text!r} is the letter of one choice and the text of another: give an index")
    if not found:
        raise QuestionError(
            f"'answer' {shown(value)} is not among the choices: give a letter A to {letters[-1]}, "
            "the index from 0, or the exact text"
        )
    return found.pop()
