"""When to ask an endpoint again, and after how long."""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field


class AttemptError(Exception):
    """One request failed.

    Args:
        reason: for people, without secrets.
        transient: whether asking again may help (429, 5xx, a timeout, a broken connection).
        retry_after: seconds that the endpoint asked to wait, if it did.
    """

    def __init__(self, reason: str, transient: bool, retry_after: float | None = None):
        super().__init__(reason)
        self.reason, self.transient, self.retry_after = reason, transient, retry_after


@dataclass
class Backoff:
    """Exponential waits with jitter, so that clients that failed together do not come back together.

    Attributes:
        first: seconds of the first wait, doubled with each further one.
        longest: the cap on a wait, and on what a `Retry-After` is honoured up to.
        jitter: draws the random part; an own generator, so that no global state is touched.
    """

    first: float = 0.5
    longest: float = 60.0
    jitter: random.Random = field(default_factory=random.Random, repr=False)

    def wait(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the given number of failures (1, 2, …); never less than `retry_after` up to the cap."""
        full = min(self.first * 2 ** min(failures - 1, 30), self.longest)
        wait = full * self.jitter.uniform(0.5, 1.0)
        return wait if retry_after is None else max(wait, min(retry_after, self.longest))


def is_transient(status: int) -> bool:
    """Whether an HTTP status means "ask again later": 408, 429 and 5xx."""
    return status in (408, 429) or 500 <= status <= 599


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a reply's headers ask to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) / unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None
