"""Who is told how far a collection of episodes is: with a large model one may take many minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Watcher = Callable[[int, int], None]
"""Called with how many episodes are over, of how many that this process plays: first with 0, then after each."""

_WATCHER: ContextVar[Watcher | None] = ContextVar("toolcredit_watcher", default=None)


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Have `watcher` told of the collections of this thread meanwhile; None: whoever is watching already."""
    token = _WATCHER.set(watcher or _WATCHER.get())
    try:
        yield
    finally:
        _WATCHER.reset(token)


def tell(done: int, total: int) -> None:
    """Tell whoever is watching."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(done, total)
