"""Three small tasks with half-trained policies, and a trap. Scores have the shape of HierR's."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ...rewards.hierr import OMISSION_PENALTY
from ..trajectory import Segment
from .enumeration import Decision, Enumeration, Rollout

#: process score of (name, argument), and what the tool answers
CALLS = {
    ("search", "exact"): (1.0, "found"),
    ("search", "vague"): (0.8, "partial"),
    ("lookup", "exact"): (0.4, "partial"),
    ("lookup", "vague"): (0.2, "error"),
    ("browse", "exact"): (0.1, "error"),
    ("browse", "vague"): (0.1, "error"),
}
WORDS = ("faithful", "invented")
#: summary score of a report, by what the tool answered
REPORTS = {
    "found": {"faithful": 1.0, "invented": 0.25},
    "partial": {"faithful": 0.75, "invented": 0.25},
    "error": {"faithful": 0.5, "invented": 0.0},
    "nothing": {"faithful": 0.0, "invented": 0.0},
}
LOGITS: Mapping[str, Mapping[str, float]] = {
    "name": {"search": 0.2, "lookup": 0.6, "browse": -0.4},
    "search": {"exact": 0.3, "vague": 0.0},
    "lookup": {"exact": -0.8, "vague": 0.4},
    "browse": {"exact": 0.9, "vague": 0.0},
    "found": {"faithful": 0.7, "invented": 0.0},
    "partial": {"faithful": 0.1, "invented": 0.3},
    "error": {"faithful": -0.5, "invented": 0.2},
}


def two_turn(words: Sequence[str] = WORDS) -> Enumeration:
    """Turn 1: a tool's name, its argument. Turn 2: a report on the answer. 12 rollouts; 6 with one of the words."""
    logits = {s: {a: logit for a, logit in row.items() if s not in REPORTS or a in words} for s, row in LOGITS.items()}
    return Enumeration([_called(*choice) for choice in itertools.product(CALLS, words)], logits)


def may_abstain() -> Enumeration:
    """The same, but the first token decides whether to call at all; without a call the report is all. 14 rollouts.

    `guarded` is the summary score under the omission guard.
    """
    rollouts = [_called(*choice, first=True) for choice in itertools.product(CALLS, WORDS)]
    for word, score in REPORTS["nothing"].items():
        decisions = (Decision("start", "answer", Segment.SUMMARY, 0), Decision("nothing", word, Segment.SUMMARY, 0))
        rewards = {"process": 0.0, "summary": score, "guarded": OMISSION_PENALTY, "total": OMISSION_PENALTY}
        steps = {"process": (0.0,), "total": (OMISSION_PENALTY,)}
        rollouts.append(Rollout(decisions, rewards, steps, omitted=True))
    choice = {"start": {"call": 0.4, "answer": 0.0}, "nothing": {"faithful": 0.3, "invented": 0.0}}
    return Enumeration(rollouts, {**choice, **LOGITS})


def two_steps() -> Enumeration:
    """Two tool steps and a report. The first tool fails one time in four, the second call sees its answer."""
    rollouts = []
    first_scores = {"lookup": 0.5, "guess": 0.1}
    works = {("lookup", "id"): 0.75, ("lookup", "failed"): 0.25, ("guess", "id"): 0.2, ("guess", "failed"): 0.8}
    second_scores = {("id", "book"): 0.5, ("id", "retry"): 0.2, ("failed", "book"): 0.0, ("failed", "retry"): 0.3}
    endings = {("id", "book"): "booked", ("failed", "retry"): "open"}
    logits = {
        "start": {"lookup": -0.3, "guess": 0.3},
        "id": {"book": 0.4, "retry": 0.0},
        "failed": {"book": 0.5, "retry": 0.0},
        **{end: {"faithful": 0.2, "invented": 0.1} for end in ("booked", "open", "wrong")},
    }
    worth = {"booked": (1.0, 0.5), "open": (0.5, 0.0), "wrong": (0.25, 0.0)}
    for (first, seen), second, word in itertools.product(works, ("book", "retry"), (0, 1)):
        end = endings.get((seen, second), "wrong")
        decisions = (
            Decision("start", first, Segment.TOOL, 0),
            Decision(seen, second, Segment.TOOL, 1),
            Decision(end, WORDS[word], Segment.SUMMARY, 2),
        )
        steps = (first_scores[first], second_scores[seen, second])
        rewards = {"process": sum(steps), "summary": worth[end][word], "total": sum(steps) + worth[end][word]}
        by_step = {"process": (*steps, 0.0), "total": (*steps, worth[end][word])}
        rollouts.append(Rollout(decisions, rewards, by_step, chance=works[first, seen]))
    return Enumeration(rollouts, logits)


def stop_or_continue(stop: float, first: float, second: float, logit: float = 0.3) -> Enumeration:
    """The trap: stop at once for `stop`, or go on for `first` now and `second` after a turn that leaves no choice."""
    stopped = Rollout((Decision("start", "stop", Segment.TOOL, 0),), {"total": stop}, {"total": (stop,)})
    went_on = Rollout(
        (Decision("start", "go", Segment.TOOL, 0), Decision("end", "say", Segment.SUMMARY, 1)),
        {"total": first + second},
        {"total": (first, second)},
    )
    return Enumeration([stopped, went_on], {"start": {"go": logit, "stop": 0.0}, "end": {"say": 0.0}})


def _called(call: tuple[str, str], word: str, *, first: bool = False) -> Rollout:
    (name, argument), (process, answer) = call, CALLS[call]
    decisions = [Decision("name", name, Segment.TOOL, 0), Decision(name, argument, Segment.TOOL, 0)]
    if first:
        decisions.insert(0, Decision("start", "call", Segment.TOOL, 0))
    summary = REPORTS[answer][word]
    rewards = {"process": process, "summary": summary, "guarded": summary, "total": process + summary}
    steps = {"process": (process, 0.0), "total": (process, summary)}
    return Rollout((*decisions, Decision(answer, word, Segment.SUMMARY, 1)), rewards, steps)
