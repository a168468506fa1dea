"""Threads that play the attempts of a run, with a deadline for each; every attempt ends exactly once.

Threads cannot be killed. One that is still busy a second after its attempt's deadline is left behind: the attempt has
failed, what it may bring later is thrown away, and a new thread takes its place. Requests to endpoints end by
themselves (`llm.client` cancels them), so only code that waits for ever stays behind; it ends with the process. When
`MAX_STUCK` times as many threads as were asked for are stuck, the pool gives up. Code that never lets another thread
run (one huge computation in C) cannot be interrupted at all; suites keep such things away from what models write.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..errors import InfrastructureError
from .suite import Outcome, Score, State, SuiteTask, TaskContext

MAX_STUCK = 4
LATE = "no outcome within the deadline"
_GRACE = 1.0
#: Seconds in which ended attempts gather before they are given: to wake the taker for each would cost CPU.
_GATHER = 0.02


@dataclass(eq=False)
class Job:
    """One attempt to play; `over` once its deadline has passed."""

    task: SuiteTask
    trial: int
    context: TaskContext
    over: bool = False


@dataclass(frozen=True)
class Played:
    """What became of a job: an outcome and its score, or the state of an attempt without a score, and the error."""

    outcome: Outcome | None = None
    score: Score | None = None
    state: State = "completed"
    error: str = ""
    seconds: float = 0.0


class Pool:
    """Daemon threads that play jobs; iterating gives every job exactly once, as it ends or passes its deadline.

    Attributes:
        ended: jobs given so far.
        stuck: threads left behind that are still busy.
    """

    def __init__(self, jobs: Sequence[Job], play: Callable[[Job], Played], workers: int, deadline: float):
        self.ended = self.stuck = 0
        self._total, self._waiting = len(jobs), deque(jobs)
        self._play, self._workers, self._deadline = play, workers, deadline
        self._lock = threading.Lock()
        self._running: dict[Job, None] = {}  # in the order in which their deadlines pass
        self._finished: queue.SimpleQueue[tuple[Job, Played]] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[tuple[Job, Played]]:
        for _ in range(min(self._workers, self._total)):
            self._start_thread()
        try:
            while self.ended < self._total:
                for item in self._next():
                    self.ended += 1
                    yield item
        finally:
            with self._lock:
                self._waiting.clear()  # threads end with the task they have

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="toolcredit-bench", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                job = self._waiting.popleft()
                job.context.deadline = time.monotonic() + self._deadline
                self._running[job] = None
            played = self._play(job)
            with self._lock:
                if job.over:  # somebody else has this thread's place
                    self.stuck -= 1
                    return
                del self._running[job]
            self._finished.put((job, played))

    def _next(self) -> list[tuple[Job, Played]]:
        """The jobs that end next, or those that are late; empty if there are neither yet."""
        with self._lock:
            first = next(iter(self._running), None)
            until = first.context.deadline + _GRACE if first is not None else time.monotonic() + _GRACE
        try:
            items = [self._finished.get(timeout=max(0.0, until - time.monotonic()))]
        except queue.Empty:
            return self._abandon_late()
        time.sleep(_GATHER)
        return items + [self._finished.get() for _ in range(self._finished.qsize())]

    def _abandon_late(self) -> list[tuple[Job, Played]]:
        late = []
        with self._lock:
            now = time.monotonic()
            for job in list(self._running):
                if job.context.deadline + _GRACE > now:
                    break
                job.over = True
                del self._running[job]
                late.append((job, Played(state="failed", error=LATE)))
            self.stuck += len(late)
        if self.stuck > MAX_STUCK * self._workers:
            raise InfrastructureError(
                f"{self.stuck} tasks passed their deadline and never came back: the agent or the suite hangs. What is "
                "finished is kept; run again when that is mended"
            )
        for _ in late:
            self._start_thread()
        return late
