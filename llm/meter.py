"""Who is told what completions cost. Each thread, or task of an event loop, may name one listener of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from .replies import Usage

Listener = Callable[[str, "Usage | None"], None]
"""Called with the model's name as its endpoint says it, and the tokens used; None if the endpoint does not say."""

#: the listener; whoever hands work to other threads runs it in a copy of the context
METER: ContextVar[Listener | None] = ContextVar("toolcredit_meter", default=None)
