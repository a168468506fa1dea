"""Guards around the simulated APIs: calls that would never end, and settings of the process that they change."""

from __future__ import annotations

import contextlib
import decimal
import inspect
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_MAX_DIGITS = 1000
_MAX_BITS = 10_000
_ONE_AT_A_TIME = threading.RLock()  # mpmath has one precision for the whole process


@contextlib.contextmanager
def process_untouched() -> Iterator[None]:
    """Put back what the simulators change in the process: the precisions of `decimal` and of `mpmath`."""
    with _ONE_AT_A_TIME, decimal.localcontext():
        mpmath = sys.modules.get("mpmath")
        before = mpmath.mp.dps if mpmath else None
        try:
            yield
        finally:
            if mpmath:
                mpmath.mp.dps = before


def is_endless(function: Callable[..., Any], positional: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether the calculator would work on a call for minutes: `power(9, 9**9)`, a billion digits of a root."""
    if function.__name__ not in ("power", "logarithm", "square_root", "round_number"):
        return False
    try:
        given = inspect.signature(function).bind(*positional, **named).arguments
    except TypeError:
        return False  # it fails at once
    base, exponent = given.get("base"), given.get("exponent")
    if isinstance(base, int) and isinstance(exponent, int):
        return abs(exponent) * math.log2(max(abs(base), 1)) > _MAX_BITS
    digits = given.get("precision", given.get("decimal_places"))
    return isinstance(digits, int | float) and abs(digits) > _MAX_DIGITS
