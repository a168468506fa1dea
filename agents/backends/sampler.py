"""Turns for any number of callers from one local model: all that are wanted at a time are sampled together.

One thread owns the backend. It takes turns in as rows of the cache become free, also while others are running, and
advances all of them token by token.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from ...errors import InfrastructureError
from ..trajectory import SampledTurn
from . import TurnRequest
from .local import LocalBackend, RunningTurn

log = logging.getLogger(__name__)

Watch = Callable[[RunningTurn], bool]
"""Shown a turn after each of its tokens, in the sampler's thread: be quick. True ends the turn there."""


@dataclass
class _Wanted:
    request: TurnRequest
    future: Future[SampledTurn]
    watch: Watch


class BatchedSampler:
    """Samples turns for any number of threads, in a thread of its own.

    Args:
        backend: nobody else uses it.
    """

    def __init__(self, backend: LocalBackend):
        self._backend = backend
        self._numbers = itertools.count()
        self._wanted: queue.SimpleQueue[_Wanted | None] = queue.SimpleQueue()
        self._open: dict[int, tuple[_Wanted, RunningTurn]] = {}
        self._closed = False
        self._closing = threading.Lock()
        backend.begin(lambda: None)
        self._thread = threading.Thread(target=self._work, name="toolcredit-sampler", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread inside the model when the interpreter goes would abort the process

    def sample(
        self,
        ids: Sequence[int],
        stop_ids: frozenset[int],
        length: int,
        temperature: float,
        seed: tuple[int, ...],
        *,
        alternatives: int = 0,
        watch: Watch = lambda turn: False,
    ) -> Future[SampledTurn]:
        """Ask for a turn of at most `length` tokens after `ids`.

        A turn that waits for a free row is given up with `Future.cancel`, one that runs by `watch`.

        Args:
            ids: see `TurnRequest`, as the next ones.
            stop_ids: tokens that end it.
            length: length limit.
            temperature: of the sampling.
            seed: of its random numbers.
            alternatives: likeliest tokens to keep for `watch`.
            watch: may end it early.

        Raises:
            InfrastructureError: the sampler is closed.
        """
        request = TurnRequest(next(self._numbers), ids, stop_ids, length, temperature, seed, alternatives)
        wanted = _Wanted(request, Future(), watch)
        with self._closing:
            if self._closed:
                raise InfrastructureError("the sampler is closed")
            self._wanted.put(wanted)
        return wanted.future

    def close(self, wait: float | None = None) -> bool:
        """Fail all turns that run or wait, and end the thread; whether it has ended within `wait` seconds."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._wanted.put(None)
        self._thread.join(wait)
        if self._thread.is_alive():
            return False
        atexit.unregister(self.close)
        return True

    # ---- in the sampler's thread

    def _work(self) -> None:
        while self._take_in():
            try:
                ended = dict(self._backend.advance())
            except Exception as error:  # noqa: BLE001 - whoever waits must know, and the next ones get a clean start
                log.warning("sampling failed: %s", error)
                self._fail(error)
                self._backend.begin(lambda: None)
                continue
            for episode in list(self._open):
                outcome = self._watched(episode, ended.get(episode))
                if outcome is not None:
                    self._end(episode, outcome)
        self._fail(InfrastructureError("the sampler was closed"))

    def _take_in(self) -> bool:
        """Begin turns for which there are rows, waiting only if none is running; False once the sampler is closed."""
        while len(self._open) < self._backend.slots and (not self._open or not self._wanted.empty()):
            wanted = self._wanted.get()
            if wanted is None:
                return False
            if wanted.future.set_running_or_notify_cancel():
                self._backend.submit(wanted.request)
                self._open[wanted.request.episode] = wanted, self._backend.running(wanted.request.episode)
        return not self._closed

    def _watched(
        self, episode: int, outcome: SampledTurn | InfrastructureError | None
    ) -> SampledTurn | Exception | None:
        """How a turn has ended, by itself or because it was watched; None if it goes on."""
        wanted, turn = self._open[episode]
        try:
            stop = wanted.watch(turn)
        except Exception as error:  # noqa: BLE001 - one caller's fault must not end the turns of others
            if outcome is None:
                self._backend.stop(episode)
            return error
        return self._backend.stop(episode) if stop and outcome is None else outcome

    def _end(self, episode: int, outcome: SampledTurn | Exception) -> None:
        self._backend.release(episode)
        wanted, _ = self._open.pop(episode)
        if isinstance(outcome, Exception):
            wanted.future.set_exception(outcome)
        else:
            wanted.future.set_result(outcome)

    def _fail(self, error: Exception) -> None:
        """End all turns that run with an error; once the sampler is closed, those that wait, too."""
        for episode in list(self._open):
            self._end(episode, error)
        while self._closed and not self._wanted.empty():
            wanted = self._wanted.get()
            if wanted is not None and wanted.future.set_running_or_notify_cancel():
                wanted.future.set_exception(error)
