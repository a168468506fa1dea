"""One collection of rollouts: the loop that moves episodes between the backend and their environments.

Several processes divide the episodes of a collection, see `distributed`; `collected.join` puts their parts together.

Every episode is in one of two places: its turn is being sampled, together with those of all other such episodes; or its
environment works on the turn, in a thread of its own, while the others go on. An episode that ends makes room for the
next one at once.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from ..errors import InfrastructureError, UsageError
from .backends import TurnRequest
from .chat_env import waits
from .collected import Failure, Part
from .distributed import Processes
from .episode import Episode, Start
from .trajectory import Trajectory
from .watching import tell

if TYPE_CHECKING:
    from .rollout import RolloutEngine

log = logging.getLogger(__name__)

#: An environment that does not end after so many empty turns is left, and what it did not score stays unscored.
EMPTY_TURNS = 64


@dataclass
class _Live:
    """An episode that is under way, and its place in the result.

    Attributes:
        place: (group, member in the group).
        stream: (seed, task, member), what its random numbers depend on.
        result: what its environment is working on; None while its turn is sampled.
        due: the token count at which it comes back.
        deadline: the time at which its environment has failed.
        empty_turns: how many it was given since the policy had no room for another turn.
    """

    key: int
    place: tuple[int, int]
    stream: tuple[int, ...]
    episode: Episode
    env: gym.Env
    opened: bool = False
    result: Future | None = None
    due: int = 0
    deadline: float = 0.0
    empty_turns: int = 0


@dataclass
class Collection:
    """One call of `RolloutEngine.collect`.

    Attributes:
        engine: whose backend, environments and limits are used.
        seed: of all random numbers.
        temperature: of the sampling.
        max_new_tokens: longest assistant turn.
        live: the episodes that are under way, by number.
        sampling: numbers of those whose turn is being sampled.
        finished: trajectories by (group, member in the group).
        failures: likewise.
        first_prompts: of each group.
        clock: tokens that were sampled so far, one after the other.
        waited: seconds in which nothing but environments worked.
        wake: set when an environment or the backend has something.
    """

    engine: RolloutEngine
    seed: int
    temperature: float
    max_new_tokens: int
    live: dict[int, _Live] = field(default_factory=dict)
    sampling: set[int] = field(default_factory=set)
    finished: dict[tuple[int, int], Trajectory] = field(default_factory=dict)
    failures: dict[tuple[int, int], Failure] = field(default_factory=dict)
    first_prompts: dict[int, list[int]] = field(default_factory=dict)
    clock: int = 0
    waited: float = 0.0
    wake: threading.Event = field(default_factory=threading.Event)

    def run(self, starts: Sequence[Start], group_size: int, processes: Processes) -> Part:
        """Sample this process's share of the episodes."""
        begin = time.perf_counter()
        backend = self.engine.backend
        waiting = list(processes.share(self._plan(starts, group_size)))
        asked, told = len(waiting), -1
        backend.begin(self.wake.set)
        try:
            while waiting or self.live:
                if (over := len(self.finished) + len(self.failures)) > told:
                    told = over
                    tell(over, asked)
                while waiting and len(self.live) < backend.slots:
                    self._start(*waiting.pop(0))
                self._receive()
                for key, outcome in backend.advance():
                    self.sampling.discard(key)
                    self._guarded(self.live[key], self._took_turn, outcome)
                self.clock += 1
        finally:
            counts = backend.end()
        tell(asked, asked)
        if len(self.finished) + len(self.failures) != asked:
            raise AssertionError(f"{asked} episodes, but {len(self.finished)} finished, {len(self.failures)} failed")
        return Part(self.finished, self.failures, counts, time.perf_counter() - begin, self.waited)

    def _plan(self, starts: Sequence[Start], group_size: int) -> list[tuple[Start, tuple[int, int], tuple[int, ...]]]:
        """Every episode: its start, its place, and its random stream. A task that comes twice has more members."""
        seen: Counter[str] = Counter()
        plan: list[tuple[Start, tuple[int, int], tuple[int, ...]]] = []
        for group, start in enumerate(starts):
            name = str(start.task_id)
            digest = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")
            for member in range(group_size):
                if start.stream is not None:
                    plan.append((start, (group, member), (self.seed, digest, *start.stream, member)))
                    continue
                plan.append((start, (group, member), (self.seed, digest, seen[name])))
                seen[name] += 1
        return plan

    def _start(self, start: Start, place: tuple[int, int], stream: tuple[int, ...]) -> None:
        engine = self.engine
        env = engine.take_env()
        seed = int(np.random.SeedSequence(stream).generate_state(1)[0]) >> 1
        options: dict[str, Any] = {"task_id": start.task_id}
        if named_tasks(env) is None:
            if not isinstance(start.task_id, int):
                raise UsageError(f"the environment names no tasks: a task is a seed, got {start.task_id!r}")
            seed, options = start.task_id, {}
        episode = Episode(start, engine.template, engine.backend.context_length, engine.max_turns)
        live = _Live(len(self.finished) + len(self.failures) + len(self.live), place, stream, episode, env)
        self.live[live.key] = live
        self._work(live, lambda: env.reset(seed=seed, options=options or None))

    def _work(self, live: _Live, call: Callable[[], Any]) -> None:
        """Let the environment work, in a thread if it may wait for something."""
        live.result = _in_thread(call, self.wake.set) if waits(live.env) else _at_once(call)
        live.due = self.clock + (self.engine.rejoin_after or 0)
        live.deadline = time.monotonic() + self.engine.env_timeout

    def _receive(self) -> None:
        """Take the results of environments that are due; wait if nobody can go on without them."""
        for live in self._due():
            result, live.result = live.result, None
            assert result is not None
            begin = time.perf_counter()
            wait([result], timeout=max(live.deadline - time.monotonic(), 0))
            self.waited += time.perf_counter() - begin
            if result.done():
                self._guarded(live, self._answered, result)
            else:
                self._fail(live, f"the environment did not answer within {self.engine.env_timeout:g} s", lost=True)

    def _due(self) -> list[_Live]:
        working = [live for live in self.live.values() if live.result is not None]
        if not working:
            if not self.engine.backend.in_process:
                self._wait(None)
            return []
        if self.engine.rejoin_after is not None:
            if not self.sampling:  # nothing else to do: the next ones are due now
                self.clock = max(self.clock, min(live.due for live in working))
            return [live for live in working if live.due <= self.clock]
        now = time.monotonic()
        due = [live for live in working if live.result.done() or live.deadline <= now]  # type: ignore[union-attr]
        if not due and not (self.sampling and self.engine.backend.in_process):
            self._wait(min(live.deadline for live in working) - now)
        return due

    def _wait(self, seconds: float | None) -> None:
        begin = time.perf_counter()
        self.wake.wait(seconds)
        self.wake.clear()
        self.waited += time.perf_counter() - begin

    def _guarded(self, live: _Live, action: Callable[[_Live, Any], None], value: Any) -> None:
        try:
            action(live, value)
        except InfrastructureError as error:
            self._fail(live, str(error))

    def _answered(self, live: _Live, result: Future) -> None:
        """The environment was reset, or answered a turn."""
        value = result.result()
        if not live.opened:
            live.opened = True
            live.episode.open(*value)
            self._same_prompt(live)
        else:
            live.episode.stepped(*value)
        if live.episode.finish_reason is None:
            self._next_turn(live)
        elif live.episode.over or live.empty_turns >= EMPTY_TURNS:
            self._finish(live)
        else:
            self._close(live)

    def _same_prompt(self, live: _Live) -> None:
        group = live.place[0]
        if self.first_prompts.setdefault(group, live.episode.ids) != live.episode.ids:
            raise UsageError(
                f"two episodes of the task {live.episode.start.task_id!r} begin differently, but a group compares "
                "rollouts of one prompt: make the first observation depend on the task only"
            )

    def _next_turn(self, live: _Live) -> None:
        episode, room = live.episode, live.episode.room()
        scripted = episode.scripted()
        if scripted is not None:
            self._step(live, episode.take(scripted))
        elif room < 1:
            self._close(live)
        else:
            longest = min(room, max(self.max_new_tokens - episode.begun, 1))
            stream = (*live.stream, episode.turn)
            request = TurnRequest(live.key, episode.ids, episode.stop_ids, longest, self.temperature, stream)
            self.sampling.add(live.key)
            self.engine.backend.submit(request)

    def _took_turn(self, live: _Live, outcome: Any) -> None:
        if isinstance(outcome, InfrastructureError):
            raise outcome
        self._step(live, live.episode.take(outcome))

    def _close(self, live: _Live) -> None:
        """The policy can say no more: let the environment come to its end without it."""
        live.empty_turns += 1
        self._step(live, live.episode.close())

    def _step(self, live: _Live, action: str) -> None:
        self._work(live, lambda: live.env.step(action))

    def _finish(self, live: _Live) -> None:
        self.finished[live.place] = live.episode.trajectory(
            self.engine.segment_rule,
            policy_version=self.engine.backend.policy_version,
            temperature=self.temperature,
            member=live.stream[-1],
        )
        self._remove(live)

    def _fail(self, live: _Live, reason: str, lost: bool = False) -> None:
        task = str(live.episode.start.task_id)
        self.failures[live.place] = Failure(task, live.stream[-1], reason)
        self.failures[live.place].tell()
        self._remove(live, lost)

    def _remove(self, live: _Live, lost: bool = False) -> None:
        del self.live[live.key]
        self.engine.backend.release(live.key)
        if not lost:  # a thread may still be inside
            self.engine.give_back(live.env)


def _in_thread(call: Callable[[], Any], wake: Callable[[], None]) -> Future:
    """Run `call` in a daemon thread: one that hangs must keep neither the others nor the process from ending."""
    future: Future = Future()
    context = copy_context()  # so that what its completions cost is counted for this thread

    def run() -> None:
        try:
            future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            future.set_exception(error)
        wake()

    threading.Thread(target=run, name="toolcredit-env", daemon=True).start()
    return future


def _at_once(call: Callable[[], Any]) -> Future:
    """Run `call` here."""
    future: Future = Future()
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(error)
    return future


def named_tasks(env: gym.Env) -> Sequence[str] | None:
    """The tasks of an environment; None if it does not name them."""
    try:
        return env.get_wrapper_attr("task_ids")
    except AttributeError:
        return None
