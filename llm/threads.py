"""How many CPU threads torch should use here: measured, because a shared machine makes more threads slower.

On two shared cores a second OpenMP thread has made a 3.5 s training step take up to 25 s; on a machine of one's own it
halves the time. Nothing but a measurement can tell the two apart.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass

from ..errors import ConfigError

log = logging.getLogger(__name__)

OVERRIDE = "TOOLCREDIT_THREADS"

#: A doubling of the threads must save at least this share of the time to be worth it.
WORTH_IT = 0.2


@dataclass(frozen=True)
class Threads:
    """The number of threads that torch uses now, and why."""

    number: int
    reason: str


def choose_threads() -> Threads:
    """Set torch's number of CPU threads and return it with the reason.

    `$TOOLCREDIT_THREADS`, then `$OMP_NUM_THREADS`, decide if they are set; otherwise a probe of under a second does:
    the threads are doubled for as long as that pays.

    Raises:
        ConfigError: the variable is no positive whole number.
    """
    import torch

    for variable in (OVERRIDE, "OMP_NUM_THREADS"):
        if os.environ.get(variable):
            chosen = Threads(_positive(variable), f"${variable}")
            break
    else:
        chosen = _probe()
    torch.set_num_threads(chosen.number)
    log.info("%d CPU thread%s for torch (%s)", chosen.number, "s" if chosen.number > 1 else "", chosen.reason)
    return chosen


def _positive(variable: str) -> int:
    text = os.environ[variable].partition(",")[0]  # OpenMP takes one number per nesting level
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(f"{variable}={os.environ[variable]!r}: expected a positive whole number")
    return int(text)


def _probe() -> Threads:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count, best = 1, _seconds(1)
    while count * 2 <= cores:
        took = _seconds(count * 2)
        if took > best * (1 - WORTH_IT):
            return Threads(count, f"measured: {count * 2} threads take {took / best:.2f} of the time of {count}")
        count, best = count * 2, took
    return Threads(count, f"measured: the most of {cores} usable cores that pays")


def _seconds(threads: int) -> float:
    """Mean time of a small layer's work; the mean and not the best, because stalls are what is looked for."""
    import torch

    torch.set_num_threads(threads)
    x, weight = torch.ones(256, 576), torch.ones(576, 1536)
    torch.relu(x @ weight)  # starts the thread pool
    begin, rounds = time.perf_counter(), 0
    while (spent := time.perf_counter() - begin) < 0.15:
        torch.relu(x @ weight)
        rounds += 1
    return spent / rounds
