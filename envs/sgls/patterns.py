r"""Regular expressions of untrusted schemas, matched in time linear in the text.

A schema may bring any `pattern`, and Python's `re` takes exponential time on some of them. Here a pattern becomes a
nondeterministic automaton whose sets of states are followed and remembered (Thompson 1968), so that no pattern can
hang the process. The dialect is JSON Schema's: unanchored search, `$` only at the very end, `\d \w \s` ASCII. What no
such automaton can do (back-references, look-around, atomic groups, inline flags) is refused when the schema is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

try:
    from re import _constants as _ops  # type: ignore[attr-defined]
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _ops
    import sre_parse as _parser

from ...errors import UsageError
from .json_strict import shorten

MAX_PATTERN_CHARS = 2_000
MAX_STATES = 10_000
#: entries of the table of one pattern; usual patterns need some dozens
_MAX_REMEMBERED = 5_000

_BEGIN, _END, _BOUNDARY = 1, 2, 4
_WORD = frozenset(range(48, 58)) | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95}
_CATEGORIES: dict[Any, tuple[frozenset[int], bool]] = {
    _ops.CATEGORY_DIGIT: (frozenset(range(48, 58)), True),
    _ops.CATEGORY_NOT_DIGIT: (frozenset(range(48, 58)), False),
    _ops.CATEGORY_WORD: (_WORD, True),
    _ops.CATEGORY_NOT_WORD: (_WORD, False),
    _ops.CATEGORY_SPACE: (frozenset(b" \t\n\r\f\v"), True),
    _ops.CATEGORY_NOT_SPACE: (frozenset(b" \t\n\r\f\v"), False),
}
#: position code -> (flag, whether the flag must be set)
_POSITIONS: dict[Any, tuple[int, bool]] = {
    _ops.AT_BEGINNING: (_BEGIN, True),
    _ops.AT_BEGINNING_STRING: (_BEGIN, True),
    _ops.AT_END: (_END, True),
    _ops.AT_END_STRING: (_END, True),
    _ops.AT_BOUNDARY: (_BOUNDARY, True),
    _ops.AT_NON_BOUNDARY: (_BOUNDARY, False),
}

Test = Callable[[int], bool]
"""Whether a code point fits."""


class PatternError(UsageError):
    """A pattern is no regular expression, or one that cannot be matched in linear time."""


class LinearPattern:
    """A compiled pattern. Safe to share between threads.

    Args:
        pattern: the regular expression.

    Raises:
        PatternError: it is broken, too large, or uses a feature that needs backtracking.
    """

    def __init__(self, pattern: str):
        self.pattern = pattern
        tree = _parse(pattern)
        #: state -> ("char", test, next), ("free", next states) or ("at", flag, wanted, next); None accepts
        self._states: list[tuple | None] = [None]
        self._start = self._sequence(tree, 0)
        self._boundaries = any(state and state[0] == "at" and state[1] == _BOUNDARY for state in self._states)
        self._table: dict[tuple[frozenset[int], str, int], frozenset[int] | None] = {}
        self._remembered = 0

    def search(self, text: str, spend: Callable[[int], None] = lambda steps: None) -> bool:
        """Whether the pattern occurs in `text`.

        Args:
            text: any string.
            spend: called with the effort since the last call: about one for eight characters, more for those whose
                states were not met before; may raise to stop the search.
        """
        current: frozenset[int] | None = frozenset()
        last = len(text)
        for position in range(last + 1):
            if position % 256 == 0:
                spend(min(256, last - position) // 8)
            char = text[position] if position < last else ""
            context = (_BEGIN if position == 0 else 0) | (_END if position == last else 0)
            if self._boundaries and _is_word(text[position - 1] if position else "") != _is_word(char):
                context |= _BOUNDARY
            key = (current or frozenset(), char, context)
            try:
                current = self._table[key]
            except KeyError:
                current = self._advance(*key, spend)
            if current is None:
                return True
        return False

    def _advance(
        self, current: frozenset[int], char: str, context: int, spend: Callable[[int], None]
    ) -> frozenset[int] | None:
        """The states after `char`, with a new attempt begun before it; None if the pattern is matched before it."""
        closed = self._closure(current, context)
        spend(len(closed))
        following: frozenset[int] | None
        if 0 in closed:
            following = None
        else:
            code = ord(char) if char else -1
            reached = (self._states[number] for number in closed)
            following = frozenset(s[2] for s in reached if s and s[0] == "char" and s[1](code))
        if self._remembered > _MAX_REMEMBERED:
            self._table, self._remembered = {}, 0
        self._table[current, char, context] = following
        self._remembered += 4 + len(following or ())
        return following

    def _closure(self, current: frozenset[int], context: int) -> set[int]:
        closed: set[int] = set()
        todo = [self._start, *current]
        while todo:
            number = todo.pop()
            if number in closed:
                continue
            closed.add(number)
            state = self._states[number]
            if state and state[0] == "free":
                todo += state[1]
            elif state and state[0] == "at" and bool(context & state[1]) == state[2]:
                todo.append(state[3])
        return closed

    # Construction: each method builds states that lead to `after`, and returns the first of them.

    def _new(self, state: tuple) -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternError(
                f"the pattern {shorten(self.pattern, 60)} is too large: its repeats expand to more than "
                f"{MAX_STATES:,} states; use maxLength for lengths"
            )
        self._states.append(state)
        return len(self._states) - 1

    def _sequence(self, items: Any, after: int) -> int:
        for operator, argument in reversed(list(items)):
            after = self._item(operator, argument, after)
        return after

    def _item(self, operator: Any, argument: Any, after: int) -> int:
        if operator in (_ops.MAX_REPEAT, _ops.MIN_REPEAT):
            low, high, inner = argument
            return self._repeat(low, high, inner, after)
        if operator is _ops.BRANCH:
            return self._new(("free", [self._sequence(branch, after) for branch in argument[1]]))
        if operator is _ops.SUBPATTERN:
            _, added, removed, inner = argument
            if added or removed:
                raise self._refusal("inline flags")
            return self._sequence(inner, after)
        if operator is _ops.AT and argument in _POSITIONS:
            return self._new(("at", *_POSITIONS[argument], after))
        test = _char_test(operator, argument)
        if test is None:
            raise self._refusal(str(operator).lower())
        return self._new(("char", test, after))

    def _repeat(self, low: int, high: Any, inner: Any, after: int) -> int:
        if high is _ops.MAXREPEAT:
            loop = self._new(("free", []))
            first = self._sequence(inner, loop)
            self._states[loop] = ("free", [first, after])
            after = loop
        else:
            end = after
            for _ in range(int(high) - low):
                after = self._new(("free", [self._sequence(inner, after), end]))
        for _ in range(low):
            before = len(self._states)
            after = self._sequence(inner, after)
            if len(self._states) == before:
                break  # nothing to repeat: an empty group
        return after

    def _refusal(self, feature: str) -> PatternError:
        return PatternError(
            f"the pattern {shorten(self.pattern, 60)} uses {feature.replace('_', ' ')}, which cannot be matched in "
            "linear time; write it without, or leave the pattern out"
        )


def _parse(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(f"a pattern has {len(pattern):,} characters, at most {MAX_PATTERN_CHARS:,} are taken")
    try:
        tree = _parser.parse(pattern, re.ASCII)
    except (re.error, RecursionError, OverflowError, ValueError) as error:
        raise PatternError(f"{shorten(pattern, 60)} is no regular expression: {shorten(str(error), 80)}") from None
    if tree.state.flags & ~(re.ASCII | re.UNICODE):
        raise PatternError(f"the pattern {shorten(pattern, 60)} sets inline flags; JSON Schema has none")
    return tree


def _char_test(operator: Any, argument: Any) -> Test | None:
    """The test of an operator that takes one character; None if it is another operator. -1 stands for no character."""
    if operator is _ops.ANY:
        return lambda code: code >= 0 and code != 10
    if operator is _ops.LITERAL:
        return lambda code: code == argument
    if operator is _ops.NOT_LITERAL:
        return lambda code: code >= 0 and code != argument
    if operator is not _ops.IN:
        return None
    negated = bool(argument) and argument[0][0] is _ops.NEGATE
    tests = [_set_test(kind, value) for kind, value in argument[negated:]]
    return lambda code: code >= 0 and any(test(code) for test in tests) != negated


def _set_test(kind: Any, value: Any) -> Test:
    if kind is _ops.LITERAL:
        return lambda code: code == value
    if kind is _ops.RANGE:
        return lambda code: value[0] <= code <= value[1]
    members, inside = _CATEGORIES[value]
    return lambda code: (code in members) == inside


def _is_word(char: str) -> bool:
    return bool(char) and ord(char) in _WORD
