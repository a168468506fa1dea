"""How a policy reads a question and writes a tool subset: the prompt and the action strings of arXiv 2609.10221.

The prompt shows the tools as numbered slots without names or descriptions: what each is good for must be learnt. A
subset is written as its ascending indices between answer tags, `<answer>0,3</answer>`, or `<answer></answer>` for none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .questions import PublicQuestion
from .sequence import crop_centre

# Indices without leading zeros. [0-9], since \d would also match the digits of other scripts.
_ANSWER = re.compile(r"\s*<answer>((?:0|[1-9][0-9]?)(?:,(?:0|[1-9][0-9]?))*)?</answer>\s*")


def tools_of(action: int) -> Iterator[int]:
    """Indices of the tools in a subset, ascending: the bits of `action`."""
    return (i for i in range(action.bit_length()) if action >> i & 1)


def action_text(action: int) -> str:
    """The string a policy writes for a subset, e.g. `<answer>0,3</answer>` for 9."""
    return f"<answer>{','.join(map(str, tools_of(action)))}</answer>"


def parse_action(text: str, n_tools: int) -> int | None:
    """The subset that a completion names, or None if it is malformed.

    Well-formed is exactly one answer tag pair around distinct, ascending indices below `n_tools`, joined by commas.
    Whitespace may stand before and after the tags. Anything else is malformed: other text, spaces between the indices,
    a wrong order, a repeated or unknown index, a leading zero.
    """
    found = _ANSWER.fullmatch(text)
    if found is None:
        return None
    indices = [int(i) for i in (found[1] or "").split(",") if i]
    if indices != sorted(set(indices)) or (indices and indices[-1] >= n_tools):
        return None
    return sum(1 << i for i in indices)


def question_text(question: PublicQuestion, bases: int | None = None) -> str:
    """The question with sequence and options; `bases` shows only the middle of each sequence."""
    if question.sequence is None:
        if bases is not None:
            choices = tuple(crop_centre(choice, bases) for choice in question.choices)
            question = PublicQuestion(question.text, choices)
        return f"{question.text}\n\nOptions:\n{question.options()}"
    sequence = question.sequence if bases is None else crop_centre(question.sequence, bases)
    return f"{question.text}\n\nSequence: {sequence}\n\nOptions:\n{question.options()}"


def policy_messages(question: PublicQuestion, n_tools: int, bases: int | None = None) -> list[dict[str, str]]:
    """The chat messages that a policy answers with an action string."""
    slots = "\n".join(f"{i}: type{i + 1} (Letter)" for i in range(n_tools))
    system = (
        "You are an expert at selecting tools for genomic reasoning. "
        f"You have access to {n_tools} tools, indexed 0 to {n_tools - 1}."
    )
    user = (
        f"Tools:\n{slots}\n\nQuestion: {question_text(question, bases)}\n\n"
        "Which tools help to answer the question? Give a comma-separated list of their indices in <answer></answer>, "
        "empty if none."
    )
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]
