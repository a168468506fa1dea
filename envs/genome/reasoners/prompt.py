"""What language-model reasoners are shown, and how their reply is read. Shared by `chat` and `local`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ..actions import question_text
from ..questions import LETTERS, PublicQuestion
from ..tools.base import Evidence

SYSTEM = (
    "You are an expert in genomics and answer multiple-choice questions about DNA. Where evidence from analysis tools "
    "is given, use what bears on the question. Reply with the letter of one option and nothing else."
)
EVIDENCE_HEADING = "Evidence from analysis tools:"
REQUEST = "Which option is right? Reply with one letter ({letters})."

_PARSER_REVISION = "1"

_BARE = re.compile(r"\(?([A-Za-z])[).]?")
_LETTER_AND_REST = re.compile(r"\(?([A-Z])[).:]\s+(.+)", re.DOTALL)
_ANSWER_LINE = re.compile(r"(?:the |final )*answer(?: is)?\s*:?\s*\(?([A-Za-z])\)?(?:[).:]\s*(.*?))?\.?", re.IGNORECASE)


def prompt_digest() -> str:
    """SHA-256 of the prompt's fixed texts and the parser's revision: part of a reasoner's version."""
    return hashlib.sha256("\0".join((SYSTEM, EVIDENCE_HEADING, REQUEST, _PARSER_REVISION)).encode()).hexdigest()


def reasoner_messages(
    question: PublicQuestion, evidence: Sequence[Evidence], bases: int | None = None
) -> list[dict[str, str]]:
    """The chat messages: question, options, one titled block per tool (none without tools), and the request.

    Args:
        question: what is asked.
        evidence: the blocks of the chosen tools.
        bases: show only the middle bases of each sequence.
    """
    parts = [question_text(question, bases)]
    if evidence:
        parts += [EVIDENCE_HEADING, *(block.block() for block in evidence)]
    letters = ", ".join(LETTERS[: len(question.choices)])
    parts.append(REQUEST.format(letters=letters))
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def parse_choice(reply: str, choices: Sequence[str]) -> int | None:
    """The index of the option that a reply names, or None.

    What counts as naming an option, after reasoning up to `</think>` and Markdown's `*` and backquotes are dropped:

    1. nothing but a letter: `B`, `b`, `B.`, `B)`, `(B)`;
    2. nothing but an option's text, or a letter with its own option's text: `B) enhancer`;
    3. a line `Answer: B`, also `The answer is (B).` and `Final answer: B) enhancer`; all such lines must agree.

    A letter in prose is no answer, nor is a letter beyond the options or one that contradicts the text beside it.
    """
    reply = reply.rpartition("</think>")[2]
    if "<think>" in reply:
        return None  # cut off while reasoning
    reply = reply.replace("*", "").replace("`", "").strip()
    if bare := _BARE.fullmatch(reply):
        return _index(bare[1], None, choices)
    if (same := _with_text(reply, choices)) is not None:
        return same
    if (pair := _LETTER_AND_REST.fullmatch(reply)) and _with_text(pair[2], choices) is not None:
        return _index(pair[1], pair[2], choices)
    lines = [found for line in reply.splitlines() if (found := _ANSWER_LINE.fullmatch(line.strip()))]
    named = {_index(found[1], found[2], choices) for found in lines}
    return named.pop() if len(named) == 1 else None


def _index(letter: str, text: str | None, choices: Sequence[str]) -> int | None:
    index = LETTERS.index(letter.upper())
    if index >= len(choices) or (text and _with_text(text, choices) != index):
        return None
    return index


def _with_text(text: str, choices: Sequence[str]) -> int | None:
    wanted = _plain(text)
    return next((index for index, choice in enumerate(choices) if _plain(choice) == wanted), None)


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()
