"""The rollout engine: groups of trajectories of any chat environment, sampled together.

Every episode is in one of two places: its turn is being sampled, together with those of all other such episodes; or its
environment works on the turn, in a thread of its own, while the others go on. An episode that ends makes room for the
next one at once.

What happens to a failure: an episode whose environment or server fails is dropped from its group, counted and listed.
Asked for, finished and failed always add up.

Determinism: a turn's random numbers depend on (seed, task, member, turn) only. In process, an episode comes back from
its environment a fixed number of tokens later, not when its thread happens to be ready, so that the batches too, and
with them the last bit of every log-probability, are the same in every run.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from ..errors import ConfigError, InfrastructureError, UnknownNameError, UsageError
from .backends import Backend, TurnRequest
from .chat_env import chat_env, env_maker
from .chat_template import ChatTemplate
from .episode import Episode, Start
from .trajectory import SEGMENT_RULES, Trajectory

log = logging.getLogger(__name__)

#: Above this share of clipped episodes little can be learned.
CLIPPED_WARNING = 0.5


@dataclass(frozen=True)
class Failure:
    """An episode that was dropped.

    Attributes:
        task_id: its task.
        member: its number among the episodes of that task.
        reason: what failed.
    """

    task_id: str
    member: int
    reason: str


@dataclass(frozen=True)
class Rollouts:
    """What a collection gave. Iterates over the groups.

    Attributes:
        groups: the finished trajectories of each task, by member; shorter where episodes failed.
        failures: the episodes that are missing.
        stats: `episodes`, `failed`, `turns`, `tokens`, `clipped_ratio` (share of the episodes that a length limit cut),
            `unscored` (episodes with a reward component that is None), `seconds`, `waited_seconds` (for environments
            while nothing was sampled), and the backend's counts.
    """

    groups: list[list[Trajectory]]
    failures: list[Failure]
    stats: dict[str, float]

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[list[Trajectory]]:
        return iter(self.groups)

    def __getitem__(self, index: int) -> list[Trajectory]:
        return self.groups[index]


class RolloutEngine:
    """Samples episodes of one environment with one policy.

    Args:
        backend: who samples.
        env: a chat environment or text bandit (made by `gym.make`, so that copies can be made), or a function that
            makes one.
        template: how chats are written, see `ChatTemplate`.
        max_turns: assistant turns of an episode; environments mostly have a lower limit of their own. An episode that
            reaches it, or fills the context, is ended with an empty turn, so that it is scored.
        rejoin_after: in process, how many tokens the others are given before an episode's environment must have
            answered. None: it comes back as soon as it is ready, which suits slow environments (a language model as
            mock) but makes batches depend on the clock.
        env_timeout: seconds for one reset or step; then the episode counts as failed.
        segment_rule: `content` or `position`, see `trajectory`.

    Raises:
        ConfigError: an argument is out of range.
        UnknownNameError: there is no such template or rule.
    """

    def __init__(
        self,
        backend: Backend,
        env: gym.Env | Callable[[], gym.Env],
        *,
        template: str = "auto",
        max_turns: int = 32,
        rejoin_after: int | None = 4,
        env_timeout: float = 900.0,
        segment_rule: str = "content",
    ):
        if segment_rule not in SEGMENT_RULES:
            raise UnknownNameError("segment rule", segment_rule, SEGMENT_RULES)
        if max_turns < 1 or (rejoin_after is not None and rejoin_after < 0) or not env_timeout > 0:
            raise ConfigError(
                f"max_turns={max_turns}, rejoin_after={rejoin_after}, env_timeout={env_timeout}: expected at least 1, "
                "at least 0 or None, and a positive number"
            )
        self.backend = backend
        self.template = ChatTemplate(backend.tokenizer, template, backend.stop_ids)
        self.max_turns, self.env_timeout, self.segment_rule = max_turns, env_timeout, segment_rule
        self.rejoin_after = rejoin_after if backend.in_process else None
        self._make_env = env_maker(env)
        self._idle: list[gym.Env] = []

    @property
    def task_ids(self) -> Sequence[str] | None:
        """The environment's tasks; None if it does not name them, and the seeds of its `reset` are its tasks."""
        env = self.take_env()
        self.give_back(env)
        return _task_ids(env)

    def collect(
        self,
        tasks: Sequence[str | int | Start],
        group_size: int = 1,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        max_new_tokens: int = 512,
    ) -> Rollouts:
        """Sample `group_size` episodes of every task with the policy's present weights.

        Args:
            tasks: task ids; seeds for environments that do not name tasks; or starts in the middle of an episode.
            group_size: episodes of each task.
            seed: of all random numbers.
            temperature: of the sampling; there is no top-p and no top-k. 0 decodes greedily.
            max_new_tokens: longest assistant turn. A turn that is cut there goes to the environment as it is.

        Raises:
            InfrastructureError: every single episode failed.
            UsageError: the environment breaks the contract of chat environments, or does not know a task.
        """
        if not tasks or group_size < 1 or max_new_tokens < 1 or not temperature >= 0:
            raise ConfigError(
                f"collect needs a task, group_size >= 1, max_new_tokens >= 1 and temperature >= 0, got {len(tasks)} "
                f"tasks, {group_size}, {max_new_tokens}, {temperature}"
            )
        starts = [task if isinstance(task, Start) else Start(task) for task in tasks]
        collection = _Collection(self, seed, temperature, max_new_tokens)
        return collection.run(starts, group_size)

    def take_env(self) -> gym.Env:
        """An environment that no episode uses."""
        return self._idle.pop() if self._idle else chat_env(self._make_env())

    def give_back(self, env: gym.Env) -> None:
        """The episode that used it has ended."""
        self._idle.append(env)

    def close(self) -> None:
        """Close all environments."""
        while self._idle:
            self._idle.pop().close()


@dataclass
class _Live:
    """An episode that is under way, and its place in the result.

    Attributes:
        place: (group, member in the group).
        stream: (seed, task, member), what its random numbers depend on.
        result: what its environment is working on; None while its turn is sampled.
        due: the token count at which it comes back.
        deadline: the time at which its environment has failed.
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


@dataclass
class _Collection:
    """One call of `collect`."""

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

    def run(self, starts: Sequence[Start], group_size: int) -> Rollouts:
        """Sample all episodes."""
        begin = time.perf_counter()
        backend = self.engine.backend
        waiting = self._plan(starts, group_size)
        asked = len(waiting)
        backend.begin(self.wake.set)
        try:
            while waiting or self.live:
                while waiting and len(self.live) < backend.slots:
                    self._start(*waiting.pop(0))
                self._receive()
                for key, outcome in backend.advance():
                    self.sampling.discard(key)
                    self._guarded(self.live[key], self._took_turn, outcome)
                self.clock += 1
        finally:
            counts = backend.end()
        if len(self.finished) + len(self.failures) != asked:
            raise AssertionError(f"{asked} episodes, but {len(self.finished)} finished, {len(self.failures)} failed")
        return self._result(len(starts), counts, time.perf_counter() - begin)

    def _plan(self, starts: Sequence[Start], group_size: int) -> list[tuple[Start, tuple[int, int], tuple[int, ...]]]:
        """Every episode: its start, its place, and its random stream. A task that comes twice has more members."""
        seen: Counter[str] = Counter()
        plan: list[tuple[Start, tuple[int, int], tuple[int, ...]]] = []
        for group, start in enumerate(starts):
            name = str(start.task_id)
            digest = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")
            for member in range(group_size):
                plan.append((start, (group, member), (self.seed, digest, seen[name])))
                seen[name] += 1
        return plan

    def _start(self, start: Start, place: tuple[int, int], stream: tuple[int, ...]) -> None:
        engine = self.engine
        env = engine.take_env()
        seed = int(np.random.SeedSequence(stream).generate_state(1)[0]) >> 1
        options: dict[str, Any] = {"task_id": start.task_id}
        if _task_ids(env) is None:
            if not isinstance(start.task_id, int):
                raise UsageError(f"the environment names no tasks: a task is a seed, got {start.task_id!r}")
            seed, options = start.task_id, {}
        episode = Episode(start, engine.template, engine.backend.context_length, engine.max_turns)
        live = _Live(len(self.finished) + len(self.failures) + len(self.live), place, stream, episode, env)
        self.live[live.key] = live
        self._work(live, lambda: env.reset(seed=seed, options=options or None))

    def _work(self, live: _Live, call: Callable[[], Any]) -> None:
        """Let the environment work in a thread."""
        live.result = _in_thread(call, self.wake.set)
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
        else:
            self._finish(live)

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
            self._step(live, episode.close())
        else:
            longest = min(room, self.max_new_tokens)
            stream = (*live.stream, episode.turn)
            request = TurnRequest(live.key, episode.ids, episode.stop_ids, longest, self.temperature, stream)
            self.sampling.add(live.key)
            self.engine.backend.submit(request)

    def _took_turn(self, live: _Live, outcome: Any) -> None:
        if isinstance(outcome, InfrastructureError):
            raise outcome
        self._step(live, live.episode.take(outcome))

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
        log.warning("task %s, member %d: dropped: %s", task, live.stream[-1], reason)
        self._remove(live, lost)

    def _remove(self, live: _Live, lost: bool = False) -> None:
        del self.live[live.key]
        self.engine.backend.release(live.key)
        if not lost:  # a thread may still be inside
            self.engine.give_back(live.env)

    def _result(self, groups: int, counts: dict[str, int], seconds: float) -> Rollouts:
        failures = [self.failures[place] for place in sorted(self.failures)]
        if not self.finished:
            raise InfrastructureError(f"all {len(failures)} episodes failed; the first one: {failures[0].reason}")
        trajectories = [self.finished[place] for place in sorted(self.finished)]
        clipped = float(np.mean([t.clipped for t in trajectories]))
        if clipped > CLIPPED_WARNING:
            log.warning(
                "%.0f %% of the episodes were cut by a length limit: raise max_new_tokens (%d) or shorten the prompts",
                100 * clipped,
                self.max_new_tokens,
            )
        stats = {
            "episodes": len(trajectories),
            "failed": len(failures),
            "turns": sum(len(t.turns) for t in trajectories),
            "tokens": sum(map(len, trajectories)),
            "clipped_ratio": clipped,
            "unscored": sum(None in t.rewards.values() for t in trajectories),
            "seconds": seconds,
            "waited_seconds": self.waited,
            **counts,
        }
        members = [[self.finished[p] for p in sorted(self.finished) if p[0] == group] for group in range(groups)]
        return Rollouts(members, failures, stats)


def _task_ids(env: gym.Env) -> Sequence[str] | None:
    try:
        return env.get_wrapper_attr("task_ids")
    except AttributeError:
        return None


def _in_thread(call: Callable[[], Any], wake: Callable[[], None]) -> Future:
    """Run `call` in a daemon thread: one that hangs must keep neither the others nor the process from ending."""
    future: Future = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            future.set_exception(error)
        wake()

    threading.Thread(target=run, name="toolcredit-env", daemon=True).start()
    return future
