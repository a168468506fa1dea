"""What a text claims that can be checked: numbers, dates, times, identifiers and names.

Used by the embedded judge to find facts in a reply, and claims in it that nothing supports. Every reading is linear in
the text and deterministic.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any

MAX_CHARS = 200_000
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_NUMBER_WORDS = {word: float(value) for value, word in enumerate(_SMALL)}
_NUMBER_WORDS |= {
    word: 10.0 * tens
    for tens, word in enumerate(("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred"), 3)
}

_MONTH = "|".join(f"{name.title()}|{name.title()[:3]}" for name in MONTHS)
_ISO_DATE = re.compile(r"(?<![\w-])(\d{4})-(\d{2})-(\d{2})(?![\d-])")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b\.?(?:,?\s+(\d{{4}})\b)?")
_MONTH_DAY = re.compile(rf"\b({_MONTH})\b\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}})\b)?")
_TIME = re.compile(r"(?<![\w:])(\d{1,2}):(\d{2})(?::\d{2})?(?!\d)\s*([ap]\.?m\b\.?)?", re.I)
_HOUR = re.compile(r"(?<![\w:.,])(\d{1,2})\s*([ap]\.?m\b\.?)", re.I)
#: a token of letters and digits, or of many digits with hyphens: PRD-76955, q3.docx, 063-334930
_CODE = re.compile(r"(?<![\w./-])(?=[\w./-]*\d)(?:[A-Za-z_]\w*|\d{3,}-\d\w*|\d+[A-Za-z_]+\d\w*)(?:[-./]\w+)*", re.ASCII)
_NUMBER = re.compile(r"(?<![\w.])([-−]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?!\d)(\s?%)?")
_LIST_MARK = re.compile(r"^[ \t*_-]*\(?\d{1,2}[.)](?=\s)", re.M)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
#: where a capital letter says nothing: after the beginning of a line, a sentence, a quotation or a bracket
_BEGINNING = re.compile(r"(?:^|[.!?:;]|[\"“”'‘(\[*_#>|•–—-])[\s*_#>\"“'‘(]*\Z")
_NO_NAMES = frozenset(("i", "i'm", "i've", "i'll", "i’m", "i’ve", "i’ll", "euro", "euros", *MONTHS, *_WEEKDAYS))
_LONGEST_ACRONYM = 5


@dataclass(frozen=True)
class Claims:
    """The checkable parts of a text.

    Attributes:
        numbers: values, with the number of decimals shown.
        dates: ISO dates; `-----05-31` for one without a year.
        times: for each time what it may mean, `HH:MM`: both halves of the day if it does not say am or pm.
        codes: identifiers and other tokens of letters and digits, in lower case.
        names: capitalised words in places where ordinary words have none.
        words: all words in lower case.
    """

    numbers: frozenset[tuple[float, int]]
    dates: frozenset[str]
    times: frozenset[tuple[str, ...]]
    codes: frozenset[str]
    names: tuple[str, ...]
    words: frozenset[str]


def read_claims(text: str) -> Claims:
    """The checkable parts of a text; what lies beyond `MAX_CHARS` is not read."""
    text = text[:MAX_CHARS]
    names = _names(text)
    words = frozenset(match[0].lower() for match in _WORD.finditer(text))
    dates: set[str] = set()
    times: set[tuple[str, ...]] = set()
    text = _ISO_DATE.sub(lambda m: _take(dates, _date(m[1], m[2], m[3]), m), text)
    text = _DAY_MONTH.sub(lambda m: _take(dates, _date(m[3], m[2], m[1]), m), text)
    text = _MONTH_DAY.sub(lambda m: _take(dates, _date(m[3], m[1], m[2]), m), text)
    text = _TIME.sub(lambda m: _take(times, _time(m[1], m[2], m[3]), m), text)
    text = _HOUR.sub(lambda m: _take(times, _time(m[1], "00", m[2]), m), text)
    codes: set[str] = set()
    text = _CODE.sub(lambda m: _take(codes, m[0].lower(), m), text)
    numbers = {_number(match) for match in _NUMBER.finditer(_LIST_MARK.sub("", text))}
    return Claims(frozenset(numbers), frozenset(dates), frozenset(times), frozenset(codes), names, words)


def word_values(words: frozenset[str]) -> set[float]:
    """The numbers that some of the words name, from zero to ninety."""
    return {_NUMBER_WORDS[word] for word in words & _NUMBER_WORDS.keys()}


def _take(found: set[Any], value: Any, match: re.Match[str]) -> str:
    """Note a value and blank it out; what is no value stays."""
    if value is None:
        return match[0]
    found.add(value)
    return " "


def _date(year: str | None, month: str, day: str) -> str | None:
    number = int(month) if month.isdigit() else [name[:3] for name in MONTHS].index(month[:3].lower()) + 1
    try:
        date = datetime.date(int(year) if year else 2000, number, int(day))
    except ValueError:
        return None
    return date.isoformat() if year else f"----{date.isoformat()[4:]}"


def _time(hour: str, minute: str, half: str | None) -> tuple[str, ...] | None:
    number = int(hour)
    if number > (12 if half else 23) or int(minute) > 59:
        return None
    if half:
        return (f"{number % 12 + (12 if half[0].lower() == 'p' else 0):02}:{minute}",)
    halves = (number, (number + 12) % 24) if 1 <= number <= 12 else (number,)
    return tuple(f"{one:02}:{minute}" for one in halves)


def _number(match: re.Match[str]) -> tuple[float, int]:
    sign, whole, decimals, percent = match.groups()
    value = float(f"{'-' if sign else ''}{whole.replace(',', '')}{decimals or ''}")
    return value, len(decimals or ".") - 1


def _names(text: str) -> tuple[str, ...]:
    """Capitalised words that do not stand where any word is capitalised; lines that are headings hold none."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        bare = line.strip().strip("*_ ")
        if line.lstrip().startswith("#") or bare.endswith(":"):
            continue
        for match in _WORD.finditer(line):
            word = match[0].removesuffix("'s").removesuffix("’s")
            if _may_be_name(word):
                before = line[max(0, match.start() - 8) : match.start()]
                if (match.start() > 8 or before.strip()) and not _BEGINNING.search(before):
                    found[word] = None
    return tuple(found)


def _may_be_name(word: str) -> bool:
    if not word[0].isupper() or word.lower() in _NO_NAMES or any(map(str.isdigit, word)):
        return False
    return len(word) > 1 and not (word.isupper() and len(word) <= _LONGEST_ACRONYM)
