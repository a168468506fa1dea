"""Who is told how far a collection of episodes is: with a large model one may take many minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Watcher = Callable[[int, int], None]
"""Called with how many episodes are over, of how many that this process plays: first with 0, then after each."""

WATCHER: ContextVar[Watcher | None] = ContextVar("toolcredit_watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Have `watcher` told of the collections of this thread meanwhile."""
    token = WATCHER.set(watcher)
    try:
        yield
    finally:
        WATCHER.reset(token)
