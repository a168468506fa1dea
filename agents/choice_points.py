"""Choices of a tool in real rollouts: where a call's name begins, what else could stand there, what each is worth.

A choice is a place where the policy has written the beginning of a call up to the opening quote of the name, such as
`<tool_call>{"name": "`. The candidates are the names of all tools that the prompt shows, as token ids: their tokens up
to, but without, the closing quote. It is used if the ids decide it alone:

* a token ends with the opening quote in what was sampled (sampled text is never encoded again);
* each name, encoded behind the text that was written there, begins and ends with a token of its own, before a closing
  quote too, and none is the beginning of another. So the policy writes exactly one of them, or none.

Whether there is a choice depends on what stands before it only, never on what came of it. Other places, and draws that
are none of the candidates (an unknown name, an unusual spelling), keep the sampled term and are counted. Of a block
that holds a list of calls only the first one is a choice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .chat_template import ChatTemplate
from .trajectory import Segment, Trajectory

OPENING = re.compile(r'(?:<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>)\s*(?:\[\s*)?\{\s*"name"\s*:\s*"')
"""What the policy writes before a name: of the Hermes, Mistral and Llama syntaxes of calls."""

_THOUGHT = re.compile(r"<(/?)think(?:ing)?>")
_NAME = re.compile(r"[\w.:/-]+")
_AFTER = ('"', '", "arguments": {', '","arguments":{')


@dataclass(frozen=True, eq=False)
class Choice:
    """A place in a rollout where the name of a tool is written.

    Attributes:
        member: which rollout of its group.
        start: position of the name's first token in the trajectory.
        step: assistant turn.
        place: where the name begins in the text of the turn.
        names: that can be chosen.
        candidates: token ids of each.
        drawn: index of the name that was written; None if it is none of them.
    """

    member: int
    start: int
    step: int
    place: int
    names: tuple[str, ...]
    candidates: tuple[tuple[int, ...], ...]
    drawn: int | None

    def context(self, trajectory: Trajectory) -> bytes:
        """A key of all that the policy saw: members with equal keys stand at the same choice."""
        return trajectory.ids[: self.start].tobytes()

    def tokens(self) -> tuple[int, int]:
        """(start, stop) of the drawn name's tokens."""
        return self.start, self.start + (0 if self.drawn is None else len(self.candidates[self.drawn]))


class ChoiceFinder:
    """Finds the choices in rollouts of one tokenizer.

    Args:
        template: how the rollouts' chats are written.
    """

    def __init__(self, template: ChatTemplate):
        self._template, self._tokenizer = template, template.tokenizer
        self._known: dict[tuple[str, tuple[str, ...]], tuple[tuple[int, ...], ...]] = {}

    def find(self, trajectory: Trajectory, member: int = 0) -> list[Choice]:
        """The choices of a rollout in order; those that must stay sampled have no candidates, or no draw."""
        if len(trajectory.tools) < 2:
            return []
        found = []
        for step in range(len(trajectory.turns)):
            first = int((trajectory.step == step).argmax())
            if trajectory.segment[first] != Segment.TOOL:
                continue
            ids = trajectory.ids[trajectory.step == step].tolist()
            text = self._decode(ids)
            for match in OPENING.finditer(text):
                if not _in_thought(text[: match.start()]):
                    found.append(self._choice(trajectory, member, step, first, ids, text, match))
        return found

    def _choice(
        self, t: Trajectory, member: int, step: int, first: int, ids: list[int], text: str, match: re.Match[str]
    ) -> Choice:
        written = self._tokens_of(ids, text[: match.end()])
        candidates = self.candidates(match[0], t.tools) if written is not None else ()
        start = written or 0
        drawn = next((a for a, c in enumerate(candidates) if tuple(ids[start : start + len(c)]) == c), None)
        return Choice(member, first + start, step, match.end(), t.tools, candidates, drawn)

    def candidates(self, opening: str, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each name behind `opening`; empty if they do not stand apart."""
        if (opening, names) not in self._known:
            self._known[opening, names] = self._encoded(opening, names)
        return self._known[opening, names]

    def _encoded(self, opening: str, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        before = self._encode(opening)
        found = []
        for name in names:
            ids = self._encode(opening + name)
            closed = [self._encode(opening + name + after)[: len(ids)] for after in _AFTER]
            if not _NAME.fullmatch(name) or ids[: len(before)] != before or any(c != ids for c in closed):
                return ()
            found.append(tuple(ids[len(before) :]))
        ordered = sorted(found)
        apart = all(b[: len(a)] != a for a, b in zip(ordered, ordered[1:], strict=False))
        return tuple(found) if apart and all(found) else ()

    def _tokens_of(self, ids: list[int], beginning: str) -> int | None:
        """How many of the first tokens spell the beginning of their text; None if a token goes across its end."""
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if len(self._decode(ids[:middle])) < len(beginning) else (low, middle)
        return low if self._decode(ids[:low]) == beginning else None

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _in_thought(beginning: str) -> bool:
    """Whether a text ends inside think tags."""
    tags = _THOUGHT.findall(beginning)
    return bool(tags) and tags[-1] == ""
