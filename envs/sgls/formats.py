"""The string formats that are checked. All checks are linear, and none touches the network.

Dates and times follow RFC 3339, except that the offset of a `date-time` or `time` may be missing: many tools mean local
time. Everything else called `format` in a schema is a comment, as JSON Schema has it.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)?\Z", re.ASCII)
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)*\Z")
_HOST = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\Z", re.I | re.A
)
_URI = re.compile(r"[a-z][a-z0-9+.-]*:[^\s<>\"{}|\\^`]+\Z", re.I | re.A)
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\Z", re.I)
_MAX_CHARS = 4_096


@dataclass(frozen=True)
class Format:
    """One format: how to say what is expected, and the check."""

    expected: str
    check: Callable[[str], bool]

    def accepts(self, text: str) -> bool:
        """Whether `text` has the format; longer than any sensible value it has not."""
        return len(text) <= _MAX_CHARS and self.check(text)


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.match(text) and datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    return _is_date(text[:10]) and text[10:11] in ("T", "t", " ") and bool(_TIME.match(text[11:]))


def _is_address(kind: type) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return bool(kind(text))
        except ValueError:
            return False

    return check


FORMATS: dict[str, Format] = {
    "date": Format("a date YYYY-MM-DD", _is_date),
    "date-time": Format("a date and time like 2025-01-31T16:00:00Z", _is_date_time),
    "time": Format("a time like 16:00:00Z", lambda text: bool(_TIME.match(text))),
    "email": Format("an e-mail address", lambda text: bool(_EMAIL.match(text))),
    "hostname": Format("a host name", lambda text: bool(_HOST.match(text))),
    "ipv4": Format("an IPv4 address", _is_address(ipaddress.IPv4Address)),
    "ipv6": Format("an IPv6 address", _is_address(ipaddress.IPv6Address)),
    "uri": Format("a URI with its scheme, like https://example.org/", lambda text: bool(_URI.match(text))),
    "uuid": Format("a UUID", lambda text: bool(_UUID.match(text))),
}
