"""Pacing requests to one endpoint: requests in flight, requests a minute, tokens a minute.

All clients of a process that talk to one endpoint share one limiter; it lives on the process's event loop (see
`transport`), so it needs no locks. Waiting is first come, first served.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, fields

from ..errors import ConfigError

#: Seconds; a name of its own so that a test need not wait for a real one.
MINUTE = 60.0


@dataclass(frozen=True)
class Limit:
    """What one endpoint may be asked to bear.

    Attributes:
        in_flight: requests at once.
        requests_per_minute: None for no limit.
        tokens_per_minute: prompt and completion together; estimated before a request, corrected by the reply's usage.
    """

    in_flight: int = 16
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            optional = field.name != "in_flight"
            if not (optional and value is None) and (type(value) is not int or value < 1):
                raise ConfigError(f"limit {field.name}={value!r}: expected a positive whole number")

    def tightest(self, other: Limit) -> Limit:
        """The smaller of both, field by field."""
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return Limit(*(min((v for v in pair if v is not None), default=None) for pair in pairs))  # type: ignore[arg-type]


class Window:
    """A budget per sliding window of time.

    Args:
        budget: the most that may be spent within `seconds`; one larger expense is let through when the window is empty.
        seconds: length of the window.
        clock: seconds, monotonic.
    """

    def __init__(self, budget: int, seconds: float, clock: Callable[[], float] = time.monotonic):
        self.budget, self.seconds, self._clock = budget, seconds, clock
        self._spent: deque[list[float]] = deque()

    def wait(self, amount: float) -> float:
        """Seconds until `amount` fits into the budget; 0 if it does now."""
        now = self._clock()
        while self._spent and self._spent[0][0] <= now - self.seconds:
            self._spent.popleft()
        excess = amount + sum(spent for _, spent in self._spent) - self.budget
        wait = 0.0
        for at, spent in self._spent:
            if excess <= 0:
                break
            excess -= spent
            wait = at + self.seconds - now
        return wait

    def spend(self, amount: float) -> list[float]:
        """Book `amount`; the returned entry's second item may be corrected later."""
        entry = [self._clock(), amount]
        self._spent.append(entry)
        return entry


class Limiter:
    """Enforces a `Limit`; `async with limiter.slot(tokens)` around one request. Lives on one event loop."""

    def __init__(self, limit: Limit):
        self._in_flight = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._pace = asyncio.Lock()
        self._requests: Window | None = None
        self._tokens: Window | None = None
        self.limit = limit
        self.tighten(limit)

    def tighten(self, limit: Limit) -> None:
        """Keep to `limit` too: of two clients of one endpoint the more careful one decides."""
        self.limit = self.limit.tightest(limit)
        self._requests = _with_budget(self._requests, self.limit.requests_per_minute)
        self._tokens = _with_budget(self._tokens, self.limit.tokens_per_minute)

    @contextlib.asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Callable[[int], None]]:
        """Wait for room, then hold it for one request.

        Args:
            tokens: estimate of what the request will use.

        Yields:
            A function to call with the number of tokens that were used.
        """
        await self._enter()
        try:
            entry = await self._wait_for_pace(tokens)
            yield lambda used: entry.__setitem__(1, used)
        finally:
            self._leave()

    async def _enter(self) -> None:
        if self._in_flight < self.limit.in_flight and not self._queue:
            self._in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # the turn came in the same moment as the cancellation
            raise

    def _leave(self) -> None:
        self._in_flight -= 1
        while self._queue and self._in_flight < self.limit.in_flight:
            turn = self._queue.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

    async def _wait_for_pace(self, tokens: int) -> list[float]:
        async with self._pace:  # one waits at a time, so that nobody is overtaken
            while wait := max(
                self._requests.wait(1) if self._requests else 0.0,
                self._tokens.wait(tokens) if self._tokens else 0.0,
            ):
                await asyncio.sleep(wait)
            if self._requests:
                self._requests.spend(1)
            return self._tokens.spend(tokens) if self._tokens else [0.0, 0.0]


def _with_budget(window: Window | None, budget: int | None) -> Window | None:
    if budget is None:
        return window
    if window is None:
        return Window(budget, MINUTE)
    window.budget = budget
    return window
