"""`embedded`: a deterministic judge. It knows which facts a good reply states and checks the reply against the tools.

Five points, as in HierR's rubric (arXiv 2609.29050):

1. Each fact that the task needs is looked for in the answers of the tools: by its value, else (the agent asked for
   something else) by its name in an answer of the same tool. Only facts that some answer holds can be stated.
2. All of these stated: 5 points. At least three quarters: 4, half: 3, any: 2, none: 1.
3. If the answers lack some of the facts the needed ones, at most 3 points; if they hold none, at most 2.
4. One point less for a number, date, time, identifier or name that neither the user nor a tool gave, two for more.
5. One point less for each of: another language than the user's, raw data instead of a report, far too long a text.

Never less than 1. Where nothing should be called the facts are the refusal, or the detail to ask for; then the reply
must be a question. What it cannot see: values that change places, claims in ordinary words, sums of values (they count
as invented).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .claims import Claims, read_claims, word_values
from .judging import Case, Rating, Verdict
from .language import differs, language
from .matching import TOLERANCE

VERSION = "1"
_RELATIVE_ROUNDING = 0.005
_CHARS, _CHARS_PER_FACT = 600, 200
_MOST_CHARS_READ = 20_000
_ASKING = ("?", "please tell", "please give", "need to know", "let me know", "please specify", "please provide")
_NEGATIVE = ("minus", "negative", "below", "behind", "down", "loss", "lost", "fell", "less", "south", "west", "under")
_RAW = ("<tool_call>", "</tool_call>", "<tool_response>", '{"', "[{", "```json")


class EmbeddedJudge:
    """Rates replies without a model; see the module's description."""

    identity = {"judge": "embedded", "version": VERSION}
    waits = False

    def __call__(self, case: Case) -> Rating:
        """The rating, with a reason for every point that is missing. Without facts there is none."""
        if not case.facts:
            return Rating(None, ("the task does not say which facts a reply must state: use a chat judge",))
        reply, leaves = _Reply.read(case.reply), _given(case)
        wanted = [(fact, _expected(fact, leaves)) for fact in case.facts]
        held = [(fact, values) for fact, values in wanted if values]
        missing = [fact for fact, values in held if not any(reply.states(value, texts) for value, texts in values)]
        if case.asks and not any(sign in reply.text for sign in _ASKING):
            missing = [fact for fact, _ in held]
        points, reasons = _coverage(len(held), len(missing), len(wanted))
        reasons += [f"not stated: {fact['key']} ({fact['value']})" for fact in missing]
        invented = reply.unsupported(_Evidence.of(case))
        reasons += [f"neither the user nor a tool said: {claim}" for claim in invented]
        form = _form(case, len(wanted))
        return Rating(max(1, points - min(2, len(invented)) - len(form)), (*reasons, *form))

    def solved(self, case: Case) -> Verdict:
        """Whether the tools' answers hold every fact that the task needs; the reply is not looked at.

        If nothing should be called, whether nothing was.
        """
        if case.abstains:
            return Verdict(not case.answers, () if not case.answers else ("something was called",))
        if not case.facts:
            return Verdict(None, ("the task does not say which facts are needed: use a chat judge",))
        leaves = _given(case)
        lacking = [fact for fact in case.facts if fact["tool"] and not any(_same(fact, leaf) for _, _, leaf in leaves)]
        return Verdict(not lacking, tuple(f"no tool answered {fact['key']} = {fact['value']}" for fact in lacking))


def _coverage(held: int, missing: int, wanted: int) -> tuple[int, list[str]]:
    if not held:
        return 2, ["no answer of a tool holds any of the needed facts"]
    share = (held - missing) / held
    points = 5 if share == 1 else 4 if share >= 0.75 else 3 if share >= 0.5 else 2 if share else 1
    if held < wanted:
        return min(points, 3), [f"the answers of the tools hold {held} of the {wanted} needed facts only"]
    return points, []


def _form(case: Case, facts: int) -> tuple[str, ...]:
    found = []
    if differs(case.reply, case.question):
        found.append("another language than the user's")
    if any(mark in case.reply for mark in _RAW):
        found.append("raw data instead of a report")
    if len(case.reply) > _CHARS + _CHARS_PER_FACT * facts:
        found.append(f"far too long: {len(case.reply)} characters")
    return tuple(found)


Leaf = tuple[str, str, Any]
"""A plain value of an answer: the tool, the nearest name above the value, and the value."""
Expected = list[tuple[Any, tuple[str, ...]]]
"""Values any of which states a fact, each with its wordings; empty if no tool gave one."""


def _given(case: Case) -> list[Leaf]:
    """All plain values that the tools answered; refusals give none."""
    answered = [one for one in case.answers if not (isinstance(one["answer"], dict) and "error" in one["answer"])]
    return [(one["tool"], key, leaf) for one in answered for key, leaf in _leaves(one["answer"])]


def _expected(fact: Mapping[str, Any], leaves: list[Leaf]) -> Expected:
    """What must be stated for a fact."""
    gold: Expected = [(fact["value"], tuple(fact["variants"]))]
    own = [(key, leaf) for tool, key, leaf in leaves if tool == fact["tool"]]
    if fact["tool"] is None or any(_same(fact, leaf) for _, leaf in own):
        return gold
    named = [leaf for key, leaf in own if key == fact["key"] and isinstance(leaf, str | int | float)]
    if named:
        return [(value, (str(value).replace("_", " "),)) for value in named]
    return gold if any(_same(fact, leaf) for _, _, leaf in leaves) else []


def _same(fact: Mapping[str, Any], leaf: Any) -> bool:
    return leaf == fact["value"] and isinstance(leaf, bool) == isinstance(fact["value"], bool)


def _leaves(value: Any, key: str = "") -> Iterable[tuple[str, Any]]:
    """The plain values in a JSON value, each with the nearest name above it."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, key)
    else:
        yield key, value


@dataclass(frozen=True)
class _Evidence:
    """What a reply may say: everything that the user, the tools and the task's wordings hold."""

    text: str
    claims: Claims
    numbers: tuple[float, ...]  # in ascending order

    @classmethod
    def of(cls, case: Case) -> _Evidence:
        parts = [case.question]
        parts += [json.dumps(answer["answer"], ensure_ascii=False) for answer in case.answers]
        parts += [text for fact in case.facts if fact["tool"] is None for text in fact["variants"]]
        text = "\n".join(parts)
        claims = read_claims(text)
        numbers = {abs(value) for value, _ in claims.numbers} | word_values(claims.words)
        numbers |= {float(date[:4]) for date in claims.dates if date[0] != "-"}
        numbers |= {float(len(part)) for answer in case.answers for part in _lists(answer["answer"])}
        return cls(text.lower(), claims, tuple(sorted(numbers)))


def _lists(value: Any) -> Iterable[list[Any]]:
    if isinstance(value, list):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(part)


@dataclass(frozen=True)
class _Reply:
    """A reply and what it claims. `text` is in lower case with single spaces and a space at each end."""

    text: str
    claims: Claims

    @classmethod
    def read(cls, reply: str) -> _Reply:
        reply = reply[:_MOST_CHARS_READ]
        return cls(f" {' '.join(reply.lower().split())} ", read_claims(reply))

    def states(self, value: Any, wordings: Iterable[str]) -> bool:
        """Whether the reply states a value, literally, in one of the wordings, or in another notation."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            sign = -1 if value < 0 and any(self._holds(word) for word in _NEGATIVE) else 1
            if any(
                _is_rounding(number, n, value, True) or _is_rounding(sign * number, n, value, True)
                for number, n in self.claims.numbers
            ):
                return True
            return any(self._holds(text) for text in wordings if not any(map(str.isdigit, text)))
        text = str(value)
        if text in self.claims.dates or _yearless(text) in self.claims.dates:
            return True
        if any(text in meanings for meanings in self.claims.times):
            return True
        return any(self._holds(wording) for wording in (*wordings, text))

    def _holds(self, wording: str) -> bool:
        """Whether the words occur, and not merely inside others."""
        wording = " ".join(wording.lower().split())
        start = self.text.find(wording) if wording else -1
        while start >= 0:
            before, after = self.text[start - 1], self.text[start + len(wording)]
            inside = (wording[0].isalnum() and before.isalnum()) or (wording[-1].isalnum() and after.isalnum())
            if not inside:
                return True
            start = self.text.find(wording, start + 1)
        return False

    def unsupported(self, evidence: _Evidence) -> list[str]:
        """The claims that nothing supports, in a fixed order."""
        own, given = self.claims, evidence.claims
        found = [f"{value:g}" for value, shown in sorted(own.numbers) if not _supported(value, shown, evidence)]
        found += sorted(
            date for date in own.dates if not any(date[4:] == known[4:] for known in given.dates if _meet(date, known))
        )
        clock = {time for meanings in given.times for time in meanings}
        found += sorted(meanings[0] for meanings in own.times if clock.isdisjoint(meanings))
        found += sorted(code for code in own.codes if sum(map(str.isdigit, code)) > 1 and code not in evidence.text)
        if language(self.text) != "German":  # which gives every noun a capital
            found += [name for name in own.names if name.lower() not in given.words]
        return found


def _supported(value: float, shown: int, evidence: _Evidence) -> bool:
    """Whether a number, or its hundredth (a percentage), is a given one or rounds one to its shown decimals."""
    half = 0.5 * 10.0**-shown + TOLERANCE
    return _any_near(evidence.numbers, abs(value), half) or _any_near(evidence.numbers, abs(value) / 100, TOLERANCE)


def _any_near(numbers: Sequence[float], value: float, distance: float) -> bool:
    start = bisect_left(numbers, value - distance)
    return start < len(numbers) and numbers[start] <= value + distance


def _is_rounding(number: float, shown: int, value: float, close: bool) -> bool:
    """Whether `number` is `value` or its rounding to `shown` decimals; if `close`, one that loses next to nothing."""
    if abs(number - value) < TOLERANCE:
        return True
    if abs(number - value) > 0.5 * 10.0**-shown + TOLERANCE:
        return False
    return not close or abs(number - value) <= _RELATIVE_ROUNDING * abs(value)


def _meet(date: str, known: str) -> bool:
    return "----" in (date[:4], known[:4]) or date[:4] == known[:4]


def _yearless(date: str) -> str:
    return f"----{date[4:]}"
