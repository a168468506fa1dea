"""Who is told what completions cost. Each thread, or task of an event loop, may name one listener of its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .replies import Usage

Listener = Callable[[str, "Usage | None"], None]
"""Called with the model's name as its endpoint says it, and the tokens used; None if the endpoint does not say."""

#: the listener; whoever hands work to other threads runs it in a copy of the context
METER: ContextVar[Listener | None] = ContextVar("toolcredit_meter", default=None)

#: an endpoint says what its model is called; more than this of it is not kept
_NAME = 80


class Meter:
    """Adds up what completions cost, by model. Threads that share its context may use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._amounts: Counter[str] = Counter()

    def __call__(self, model: str, usage: Usage | None) -> None:
        """Count one completion."""
        where = f"endpoint/{model[:_NAME]}"
        with self._lock:
            self._amounts[f"{where}/completions"] += 1
            if usage is None:
                self._amounts[f"{where}/without_usage"] += 1
            else:
                self._amounts[f"{where}/prompt_tokens"] += usage.prompt_tokens
                self._amounts[f"{where}/completion_tokens"] += usage.completion_tokens

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count what is completed for this thread meanwhile."""
        token = METER.set(self)
        try:
            yield
        finally:
            METER.reset(token)

    def take(self) -> dict[str, float]:
        """What was counted since the last time: `endpoint/MODEL/completions`, `…/prompt_tokens`, …."""
        with self._lock:
            taken, self._amounts = self._amounts, Counter()
        return dict(taken)
