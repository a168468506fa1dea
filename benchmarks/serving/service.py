"""All requests of a server: a bounded number of them, whose turns are sampled together by one thread.

The coroutines here run on the server's event loop. Reading and tokenising happen in a thread of their own, sampling in
the sampler's; both hand their results over to the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ...agents.backends.local import RunningTurn
from ...agents.trajectory import SampledTurn
from ...errors import InfrastructureError
from ..local_chat import LocalPlayer
from .errors import ApiError
from .jobs import Job
from .replies import Delta, Sample, TokenLogprob
from .text import TextStream

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Service:
    """Answers requests with one model.

    Args:
        player: the model, and how its chats are written.
        name: under which clients know it.
        queue: turns that may wait while all rows of the model's cache are taken; more are refused.
        timeout: seconds for one request.
    """

    def __init__(self, player: LocalPlayer, name: str, *, queue: int = 256, timeout: float = 600.0):
        self.player, self.name, self.timeout = player, name, timeout
        self.capacity = (player.concurrency or 1) + queue
        self.created = int(time.time())
        self.fingerprint = "fp_" + player.local.fingerprint()[:16]
        self._taken = 0
        self._stopped = False
        self._works: weakref.WeakSet[Work] = weakref.WeakSet()
        # One thread: text is prepared faster than it is sampled, and a huge prompt must not take all processors.
        self._reader = ThreadPoolExecutor(1, "toolcredit-reader")

    async def prepare(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of something that takes a while, computed in another thread.

        Raises:
            ApiError: 503, the server stops; 504, too much is waiting for that thread.
        """
        try:
            result = asyncio.get_running_loop().run_in_executor(self._reader, function, *arguments)
        except RuntimeError:  # which is how a closed executor refuses
            raise stopping() from None
        try:
            return await asyncio.wait_for(result, self.timeout)
        except asyncio.TimeoutError:
            raise self.too_late() from None
        except asyncio.CancelledError:
            if self._stopped:
                raise stopping() from None
            raise

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue for the time being.

        Raises:
            ApiError: 503, there is none.
        """
        self._take(1)
        try:
            yield
        finally:
            self._taken -= 1

    def begin(self, job: Job) -> Work:
        """Have the turns of a job sampled.

        Raises:
            ApiError: 503, the queue is full or the server stops; 400, so many turns will never fit.
        """
        if job.turns > self.capacity:
            raise ApiError(400, f"{job.turns} choices were asked for, the queue holds {self.capacity}", param="n")
        self._take(job.turns)
        work = Work(self, job)
        self._works.add(work)
        return work

    def turn_ended(self) -> None:
        """Give one place back."""
        self._taken -= 1

    def stop(self) -> None:
        """Tell all requests that there will be no reply; on the event loop."""
        self._stopped = True
        self._reader.shutdown(wait=False, cancel_futures=True)
        self.player.sampler.close(0)
        for work in list(self._works):
            work.put(stopping())

    def close(self, wait: float) -> bool:
        """End the sampler's thread; whether it has ended within `wait` seconds."""
        return self.player.sampler.close(wait)

    def too_late(self) -> ApiError:
        """What a request is told whose time is over."""
        return ApiError(504, f"no whole reply within {self.timeout:g} s; ask for fewer tokens", code="timeout")

    def _take(self, number: int) -> None:
        if self._taken + number > self.capacity:
            message = f"all {self.capacity} places of the server are taken; try again in a moment"
            raise ApiError(503, message, code="overloaded")
        self._taken += number


class Work:
    """The turns of one request while they are sampled. Made and used on the event loop.

    Args:
        service: whose places the turns take, each until it has ended.
        job: what to sample.
    """

    def __init__(self, service: Service, job: Job):
        self.job = job
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Delta | Sample | Exception] = asyncio.Queue()
        self._abandoned = False
        self._futures: list[Future[SampledTurn]] = []
        self._head = {
            "id": f"{job.form.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": service.name,
            "system_fingerprint": service.fingerprint,
        }
        choices = [(prompt, k) for prompt in range(len(job.prompts)) for k in range(job.request.n)]
        for index, (prompt, k) in enumerate(choices):
            self._begin_turn(_Turn(self, index), prompt, k)

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the reply any more; read by the sampler's thread."""
        return self._abandoned

    def abandon(self) -> None:
        """Stop sampling: turns that wait never start, those that run end with their next token."""
        self._abandoned = True
        for future in self._futures:
            future.cancel()

    async def reply(self) -> dict[str, Any]:
        """The whole reply.

        Raises:
            ApiError: there is none.
        """
        samples = [event async for event in self._until_ended() if isinstance(event, Sample)]
        samples.sort(key=lambda sample: sample.index)
        choices = [self.job.form.choice(sample) for sample in samples]
        return {**self._head, "object": self.job.form.kind, "choices": choices, "usage": self._usage(samples)}

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """The reply as the chunks of a stream.

        Raises:
            ApiError: it cannot go on.
        """
        form, samples = self.job.form, []
        for index in range(self.job.turns):
            for choice in form.opening(index):
                yield self._chunk([choice])
        async for event in self._until_ended():
            if isinstance(event, Delta):
                yield self._chunk([form.piece(event)])
            else:
                samples.append(event)
                for choice in form.ending(event):
                    yield self._chunk([choice])
        if self.job.request.stream_options.include_usage:
            yield {**self._chunk([]), "usage": self._usage(samples)}

    def put(self, event: Delta | Sample | Exception) -> None:
        """Hand an event over; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the loop is closed: the server has stopped and nobody waits
            log.debug("an event came after the end of the server")

    # ---- parts

    def _begin_turn(self, turn: _Turn, prompt: int, stream: int) -> None:
        job, player = self.job, self._service.player
        try:
            future = player.sampler.sample(
                job.prompts[prompt],
                job.stop_ids,
                job.limits[prompt],
                job.request.temperature,
                (job.seed, stream),
                alternatives=job.alternatives,
                watch=turn.watch,
            )
        except InfrastructureError as error:
            future = Future()
            future.set_exception(error)
        self._futures.append(future)
        future.add_done_callback(turn.end)

    async def _until_ended(self) -> AsyncIterator[Delta | Sample]:
        """Events until every turn has ended."""
        deadline = time.monotonic() + self._service.timeout
        open_turns = self.job.turns
        while open_turns:
            try:
                event = await asyncio.wait_for(self._events.get(), deadline - time.monotonic())
            except asyncio.TimeoutError:
                raise self._service.too_late() from None
            if isinstance(event, Exception):
                raise event
            open_turns -= isinstance(event, Sample)
            yield event

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": self.job.form.chunk_kind, "choices": choices}

    def _usage(self, samples: list[Sample]) -> dict[str, int]:
        prompt = sum(map(len, self.job.prompts))
        completion = sum(sample.tokens for sample in samples)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def ended(self) -> None:
        """A turn has ended, however; from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._service.turn_ended)
        except RuntimeError:
            log.debug("a turn ended after the end of the server")


def stopping() -> ApiError:
    """What requests in flight are told when the server stops."""
    return ApiError(503, "the server is stopping", code="stopping")


class _Turn:
    """One turn. Its methods run in the sampler's thread (`end` also where the turn is given up before it started)."""

    def __init__(self, work: Work, index: int):
        self._work, self._job, self._index = work, work.job, index
        self._text = TextStream(self._job.form.decode, self._job.request.stop)
        self._streamed = self._job.request.stream and not self._job.form.whole_only
        self._turn: RunningTurn | None = None
        self._sent_text, self._sent_tokens = 0, 0

    def watch(self, turn: RunningTurn) -> bool:
        """Look at the turn after a token; True ends it."""
        self._turn = turn
        if self._work.abandoned:
            return True
        if self._streamed or self._job.request.stop:
            kept = self._kept(turn.ids)
            self._text.feed(turn.ids[:kept])
            if self._streamed and len(self._text.text) > self._sent_text:
                self._send(kept)
        return self._text.stopped

    def end(self, future: Future[SampledTurn]) -> None:
        """The turn has ended, or there is none."""
        self._work.ended()
        try:
            turn = future.result()
            kept = self._kept(turn.ids)
            self._text.feed(turn.ids[:kept], last=True)
            if self._streamed and (len(self._text.text) > self._sent_text or self._unsent(kept)):
                self._send(kept)
            reason = "stop" if self._text.stopped or kept < len(turn.ids) else "length"
            logprobs = self._logprobs(0, kept)
            self._work.put(Sample(self._index, self._text.text, reason, len(turn.ids), logprobs))
        except CancelledError:
            pass  # nobody waits
        except InfrastructureError:
            self._work.put(stopping())
        except Exception:  # noqa: BLE001 - the client is told that, and no more
            log.exception("a turn could not be sampled")
            self._work.put(ApiError(500, "the model failed on this request; the server's log says more"))

    def _kept(self, ids: Any) -> int:
        """How many tokens come before the one that ends the turn."""
        return len(ids) - (ids[-1] in self._job.stop_ids)

    def _unsent(self, kept: int) -> bool:
        return self._job.logprobs and kept > self._sent_tokens

    def _send(self, kept: int) -> None:
        text = self._text.text[self._sent_text :]
        self._work.put(Delta(self._index, text, self._logprobs(self._sent_tokens, kept)))
        self._sent_text, self._sent_tokens = len(self._text.text), kept

    def _logprobs(self, first: int, last: int) -> list[TokenLogprob] | None:
        if not self._job.logprobs or self._turn is None:
            return None
        turn = self._turn
        return [
            TokenLogprob(turn.ids[i], turn.logprobs[i], turn.alternatives[i] if turn.alternatives else ())
            for i in range(first, last)
        ]
