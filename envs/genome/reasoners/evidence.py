"""`evidence`: a deterministic reasoner that reads evidence text with a bounded attention. Nothing to install.

It stands for a language model that answers from evidence, small enough to fill a reward table in seconds. It sees what
any reasoner sees (wording, options, evidence text), never the answer, the family or an id. Its rules:

1. **Attention.** It reads `LINES` lines in all, the same number from the top of each block. The more blocks there are,
   the less far each is read.
2. **Claims.** For a question about one sequence the claims are the options. When the options are sequences there is
   one claim, the question, and a line of evidence is about the option whose letter begins it.
3. **Votes.** Every line that is read votes, and all lines are trusted alike. The numbers in it are judged by the rules
   of `evidence_rules.py`; a label or motif in it that is an option, or that the question asks for, counts its share,
   or 1.
4. **Denials** ("neither …", "not a promoter") gain as far as a line does not bear out what the other options claim.
5. **First impression.** Without evidence it guesses, by a hash of the question's content. A block without a line that
   bears on any claim confirms that guess with a vote of `DISTRACTION`: irrelevant context is not harmless to a language
   model either (arXiv:2302.00093). Ties go to the greater hash.

Neither the order of the options nor the way a sequence is written down (case, U for T, gaps) changes an answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import lru_cache

from ....errors import QuestionError
from ..questions import LETTERS, PublicQuestion
from ..tools.base import CACHE_SIZE, Evidence, clean_cached, version_of
from .base import Answer
from .evidence_rules import (
    ANY_LABEL,
    DENIAL,
    FAMILY_STEM,
    LABEL,
    MIDDLE,
    MOTIF,
    NUMBERS,
    RULES,
    SITE,
    SITES,
    Rule,
)

#: Lines read in all, shared evenly among the blocks.
LINES = 16
#: What a block that says nothing about any claim adds to the first impression.
DISTRACTION = 0.5
#: The most that a denial gains from one line.
DENIAL_WEIGHT = 0.5
#: What a factor of the same family counts for an option, as a share of the factor itself.
RELATED = 0.4
#: Bases by which a central splice site may lie beside the middle.
CENTRAL = 1

_CODE_VERSION = "1"
_OPTION_LINE = re.compile(r"^([A-Z]): ")
_WORD = re.compile(r"[a-z0-9']+")
#: Words that do not tell labels apart.
_COMMON = {"a", "an", "and", "at", "in", "of", "or", "region", "sequence", "site", "the"}
_ABSENT = -99.0


class EvidenceReasoner:
    """See the module's text for the rules."""

    name = "evidence"
    version = version_of(
        _CODE_VERSION,
        repr((RULES, NUMBERS, SITES, SITE, LABEL, ANY_LABEL, MOTIF, FAMILY_STEM, DENIAL, MIDDLE)),
        repr((LINES, DISTRACTION, DENIAL_WEIGHT, RELATED, CENTRAL)),
    )
    concurrency = 1

    def answer(self, question: PublicQuestion, evidence: Sequence[Evidence]) -> Answer:
        """The option with the most votes (see `Reasoner`)."""
        lots = _lots(question)
        votes = [0.0] * len(lots)
        for block in evidence:
            heard = _block_votes(question, block.text.splitlines()[: LINES // len(evidence)])
            for index, vote in (heard or {lots.index(max(lots)): DISTRACTION}).items():
                votes[index] += vote
        best = max(range(len(lots)), key=lambda index: (round(votes[index], 6), lots[index]))
        return Answer(best, LETTERS[best])


def _block_votes(question: PublicQuestion, lines: Sequence[str]) -> dict[int, float]:
    """{option: vote} of the lines read of one block; empty if none bears on any claim."""
    votes: dict[int, float] = {}
    middle: float | None = None
    for line in lines:
        middle = read_numbers(line).get("middle", middle)
        for index, vote in _line_votes(question, line, middle).items():
            votes[index] = votes.get(index, 0.0) + vote
    return votes


@lru_cache(maxsize=CACHE_SIZE)
def _line_votes(question: PublicQuestion, line: str, middle: float | None) -> dict[int, float]:
    """{option: vote} of one line; remembered, since the subsets of the tools share their lines."""
    central = _any_case(MIDDLE).search(question.text) is not None
    facts = read_numbers(line) | read_sites(line, middle if central else None)
    return (_select_votes if question.shape == "select" else _describe_votes)(question, line, facts)


def _describe_votes(question: PublicQuestion, line: str, facts: dict[str, float]) -> dict[int, float]:
    """{option: vote} of a line about the one sequence."""
    denials = [index for index, choice in enumerate(question.choices) if _any_case(DENIAL).search(choice)]
    votes: dict[int, float] = {}
    for index, choice in enumerate(question.choices):
        vote = None if index in denials else judge(choice, question.text, facts)
        if vote is not None:
            votes[index] = vote
    if votes:
        borne_out = min(1.0, max(votes.values()))
        votes |= dict.fromkeys(denials, DENIAL_WEIGHT * (1 - borne_out))
    for index, choice in enumerate(question.choices):
        named = max([label_share(line, choice), *(_likeness(choice, motif) for motif in read_motifs(line))])
        if named:
            votes[index] = votes.get(index, 0.0) + named
    return votes


def _select_votes(question: PublicQuestion, line: str, facts: dict[str, float]) -> dict[int, float]:
    """{option: vote} of a line about one option's sequence."""
    start = _OPTION_LINE.match(line)
    if not start or start[1] not in LETTERS[: len(question.choices)]:
        return {}
    vote = judge(question.text, question.text, facts)
    names = read_labels(line) | dict.fromkeys(read_motifs(line), 1.0)
    named = sum(share for name, share in names.items() if _is_asked_for(name, question.text))
    return {} if vote is None and not named else {LETTERS.index(start[1]): (vote or 0.0) + named}


def judge(claim: str, context: str, facts: dict[str, float]) -> float | None:
    """How far facts speak for a claim in a question worded `context`; None if no rule connects them."""
    votes = [rule.weight * rule.curve(facts[rule.fact]) for rule in _rules_for(claim, context) if rule.fact in facts]
    return sum(votes) if votes else None


@lru_cache(maxsize=CACHE_SIZE)
def _rules_for(claim: str, context: str) -> tuple[Rule, ...]:
    return tuple(
        rule for rule in RULES if _any_case(rule.claim).search(claim) and _any_case(rule.context).search(context)
    )


@lru_cache(maxsize=CACHE_SIZE)
def read_numbers(line: str) -> dict[str, float]:
    """The numbers of a line that `NUMBERS` names, and the enrichment of motifs over chance."""
    found = ((name, re.search(pattern, line)) for name, pattern in NUMBERS.items())
    facts = {name: float(match[1]) for name, match in found if match}
    if "matches" in facts and facts.get("by_chance"):
        facts["enrichment"] = facts["matches"] / facts["by_chance"]
    return facts


def read_sites(line: str, middle: float | None) -> dict[str, float]:
    """Best score of each kind of splice site that a line reports, near `middle` if given; and of all of them."""
    facts: dict[str, float] = {}
    for kind, text in re.findall(SITES, line):
        sites = [(int(after), float(score)) for after, score in re.findall(SITE, text)]
        near = [score for after, score in sites if middle is None or abs(after - middle) <= CENTRAL]
        facts[kind.lower()] = max(near, default=_ABSENT)
        facts["best_site"] = max([facts.get("best_site", _ABSENT), *(score for _, score in sites)])
    return facts


def label_share(line: str, label: str) -> float:
    """The share, 0 … 1, with which a line puts a label forward; 1 if it names it without a share, 0 if not at all."""
    match = _any_case(LABEL.format(label=re.escape(label))).search(line)
    return _share(match[1], match[2]) if match else 0.0


def read_labels(line: str) -> dict[str, float]:
    """All labels that a line puts forward with their shares, 0 … 1."""
    return {label: _share(share, percent) for label, share, percent in re.findall(ANY_LABEL, line)}


def _share(share: str | None, percent: str | None) -> float:
    return min(1.0, float(share or float(percent or 100) / 100))


def read_motifs(line: str) -> list[str]:
    """The names of the motifs that a line reports."""
    return re.findall(MOTIF, line)


def _likeness(choice: str, motif: str) -> float:
    """1 if a motif is the option's, `RELATED` if both belong to one family of factors, else 0."""
    choice, motif = choice.casefold(), motif.casefold()
    if choice == motif:
        return 1.0
    stems = re.match(FAMILY_STEM, choice), re.match(FAMILY_STEM, motif)
    return RELATED if stems[0] and stems[1] and stems[0][0] == stems[1][0] else 0.0


def _is_asked_for(name: str, question: str) -> bool:
    """Whether all telling words of a name stand in the question."""
    words = set(_WORD.findall(name.casefold())) - _COMMON
    return bool(words) and words <= set(_WORD.findall(question.casefold()))


@lru_cache(maxsize=CACHE_SIZE)
def _any_case(pattern: str) -> re.Pattern[str]:
    """Compiled without regard to case; `re` itself keeps fewer patterns than a question set has options."""
    return re.compile(pattern, re.I)


@lru_cache(maxsize=CACHE_SIZE)
def _lots(question: PublicQuestion) -> list[str]:
    """A pseudo-random hex number per option that depends on the content of question and option alone."""
    sequence = question.sequence if question.sequence is None else _cleaned(question.sequence)
    choices = question.choices if question.sequence is not None else [_cleaned(c) for c in question.choices]
    return [hashlib.sha256(json.dumps([question.text, sequence, choice]).encode()).hexdigest() for choice in choices]


def _cleaned(sequence: str) -> str:
    try:
        return clean_cached(sequence).sequence
    except QuestionError:
        return sequence
