"""Playing a suite's tasks: threads, a deadline for every task, files that survive a kill, resuming, references.

Every attempt ends in one of three states: *completed* (it has an outcome and a score), *failed* (the agent gave no
outcome: its endpoint gave up after all retries, its deadline passed, its code raised) or *unresolved* (not reached yet,
or the suite's own mock, judge or simulator failed). All count; what is not completed counts as 0 and is listed. A
failed attempt is only played again on demand, an unresolved one whenever the run is continued.
"""

from __future__ import annotations

import hashlib
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..agents.base import Agent
from ..errors import ConfigError, RunError, ToolcreditError, UsageError
from ..llm.meter import METER
from ..llm.replies import Usage
from ..runs import write_json
from .held_out import versions
from .pool import LATE, Job, Played, Pool
from .records import Records, read_outcome, result_record, transcript_record
from .results import RESULT, summarise_folder
from .suite import AgentError, ChatAgent, DeadlineError, Message, Player, Selection, Suite, SuiteTask, TaskContext

DEADLINE = 600.0
#: seconds; locks cannot wait for longer, and records cannot hold infinity
LONGEST = 1e9
WORKERS = 16


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        name: who plays: the player, or a reference.
        done: attempts with a record, of earlier sessions too.
        total: attempts of the run.
        failed: attempts of this start that are not completed.
        usage: the tokens of this start by model.
    """

    name: str
    done: int
    total: int
    failed: int
    usage: Mapping[str, Mapping[str, int]]


OnProgress = Callable[[Progress], None]


def run_suite(
    suite: Suite,
    player: Player,
    folder: str | os.PathLike,
    *,
    config: Mapping[str, Any] | None = None,
    selection: Selection = Selection(),
    trials: int = 1,
    seed: int = 0,
    workers: int | None = None,
    deadline: float = DEADLINE,
    retry_failed: bool = False,
    references: Sequence[str] | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Play what is left of a run, and summarise it; a finished run is left as it is.

    Args:
        suite: the suite.
        player: who is measured.
        folder: run folder; made, or continued if it holds the same run.
        config: plain JSON that describes suite and player, part of the run's configuration.
        selection: which tasks.
        trials: attempts at each task.
        seed: of everything random: each attempt's seed is a function of it, the task's id and the trial.
        workers: attempts at once, as far as the player allows; default `WORKERS`, or what the player can do.
        deadline: seconds for one attempt.
        retry_failed: also play failed attempts again.
        references: names of references to play on the same tasks; default the suite's cheap ones.
        on_progress: called after every attempt, in the calling thread.

    Returns:
        The summary, see `results.summarise_folder`.

    Raises:
        UsageError: the arguments do not fit together, or the folder holds another run.
        InfrastructureError: too many threads are stuck.
    """
    if trials < 1 or not 0 < deadline <= LONGEST or (workers is not None and workers < 1):
        raise ConfigError(
            f"trials={trials}, deadline={deadline:g}, workers={workers}: expected at least 1, more than 0 and at most "
            f"{LONGEST:g}, at least 1"
        )
    if player.kind != suite.agent_kind:
        raise ConfigError(f"{player.name} cannot play {suite.name}: it takes agents of the kind {suite.agent_kind!r}")
    suite.check_options(is_reference=isinstance(player, ReferencePlayer))
    tasks = suite.pick(selection)
    if hasattr(player, "prepare"):
        player.prepare(suite, tasks)
    described = {
        **(config or {"suite": suite.name, "agent": player.name}),
        "trials": trials,
        "seed": seed,
        "identity": suite.identity,
    }
    with Records(folder, described, tasks) as records:
        session = _Session(suite, player, records, tasks, trials, seed)
        session.work(_workers(workers, player.concurrency), deadline, retry_failed, on_progress)
    for name in suite.beside if references is None else references:
        if name != player.name:
            run_suite(
                suite,
                ReferencePlayer(suite, name),
                Path(folder) / "references" / name,
                selection=selection,
                seed=seed,
                workers=workers,
                deadline=deadline,
                references=(),
                on_progress=on_progress,
            )
    result = summarise_folder(folder, suite)
    write_json(Path(folder) / RESULT, result)
    return result


def _workers(wanted: int | None, able: int | None) -> int:
    return min(wanted or able or WORKERS, able or wanted or WORKERS)


def attempt_seed(seed: int, task_id: str, trial: int) -> int:
    """The seed of one attempt, below 2**32: a hash of the run's seed, the task's id and the trial."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{task_id}/{trial}".encode()).digest()[:4], "big")


class ReferencePlayer:
    """Plays a reference of a suite."""

    concurrency: int | None = None

    def __init__(self, suite: Suite, name: str):
        self.name, self.kind = name, suite.agent_kind
        self._suite = suite

    @property
    def identity(self) -> dict[str, Any]:
        """Its name says all."""
        return {"reference": self.name}

    def start(self, task: SuiteTask, context: TaskContext) -> Any:
        """The reference for one attempt."""
        context.reference = self.name
        return self._suite.reference(self.name, task, context)


# ------------------------------------------------------------------------------------------------------- one session


@dataclass
class _Session:
    suite: Suite
    player: Player
    records: Records
    tasks: Sequence[SuiteTask]
    trials: int
    seed: int
    failed: int = 0
    usage: dict[str, dict[str, int]] = field(default_factory=dict)

    def work(self, workers: int, deadline: float, retry_failed: bool, on_progress: OnProgress | None) -> None:
        """Score what was only played, then play what is left."""
        by_id = {task.id: task for task in self.tasks}
        for (task_id, trial), record in self.records.unscored().items():
            outcome = read_outcome(record)
            self._write(
                Job(by_id[task_id], trial, TaskContext(trial, usage=record["usage"])),
                self._score(by_id[task_id], Played(outcome)),
                new=False,
            )
        settled = self.records.settled(retry_failed)
        jobs = [self._job(task, trial) for trial in range(self.trials) for task in self.tasks]
        left = [job for job in jobs if (job.task.id, job.trial) not in settled]
        if not left:
            return
        (self.records.folder / RESULT).unlink(missing_ok=True)  # until it is true again
        self.records.append(
            "sessions",
            {
                "event": "begin",
                "agent": self._checked_identity(),
                "versions": versions(),
                "workers": workers,
                "deadline": deadline,
                "retry_failed": retry_failed,
            },
        )
        begin, done = time.monotonic(), len(jobs) - len(left)
        pool = Pool(left, self._play, workers, deadline)
        try:
            for number, (job, played) in enumerate(pool, 1):
                self._write(job, played)
                if on_progress is not None:
                    on_progress(Progress(self.player.name, done + number, len(jobs), self.failed, self.usage))
        finally:
            seconds = round(time.monotonic() - begin, 3)
            end = {"event": "end", "attempts": pool.ended, "stuck_threads": pool.stuck, "seconds": seconds}
            self.records.append("sessions", end)

    def _checked_identity(self) -> dict[str, Any]:
        identity = self.player.identity
        for session in self.records.sessions():
            if session.get("agent", identity) != identity:
                raise RunError(
                    f"{self.records.folder} was begun with another agent: {session['agent']}, now {identity}; "
                    "use another --out"
                )
        return identity

    def _job(self, task: SuiteTask, trial: int) -> Job:
        return Job(task, trial, TaskContext(trial, attempt_seed(self.seed, task.id, trial)))

    def _play(self, job: Job) -> Played:
        """Play and score one attempt; never raises."""
        begin = time.monotonic()
        METER.set(lambda model, usage: job.context.spend(model, *_tokens(usage)))
        played = self._run(job)
        if played.outcome is not None:
            played = self._score(job.task, played)
        return replace(played, seconds=time.monotonic() - begin)

    def _run(self, job: Job) -> Played:
        try:
            agent = _guarded(_blame(self.player.start, job.task, job.context))
            return Played(self.suite.run(job.task, agent, job.context))
        except DeadlineError:
            return Played(state="failed", error=LATE)
        except AgentError as error:
            return Played(state="failed", error=_described(error.__cause__) if error.__cause__ else str(error))
        except BaseException as error:  # noqa: BLE001 - whatever a suite raises, the run goes on
            return Played(state="unresolved", error=_described(error))

    def _score(self, task: SuiteTask, played: Played) -> Played:
        assert played.outcome is not None
        try:
            return replace(played, score=self.suite.score(task, played.outcome))
        except Exception as error:  # noqa: BLE001 - the outcome is kept, and scored again when the run is continued
            return replace(played, state="unresolved", error=f"it could not be scored: {_described(error)}")

    def _write(self, job: Job, played: Played, new: bool = True) -> None:
        """Record an attempt: the outcome first, then its score or why there is none."""
        task, trial, usage = job.task, job.trial, dict(job.context.usage)
        try:
            if played.outcome is not None and new:
                self.records.append(
                    "transcripts", transcript_record(task, trial, played.outcome, usage, played.seconds)
                )
                self._add_usage(usage)
            if played.score is not None:
                self.records.append("results", result_record(task, trial, played.score, usage))
                return
        except (TypeError, ValueError) as error:
            played = Played(state="unresolved", error=f"the suite gave what is no plain JSON: {error}")
        self.failed += 1
        spent = {} if played.outcome is not None else usage
        self._add_usage(spent)
        self.records.append(
            "failures",
            {
                "task": task.id,
                "trial": trial,
                "category": task.category,
                "state": played.state,
                "error": played.error,
                "usage": spent,
            },
        )

    def _add_usage(self, usage: Mapping[str, Mapping[str, int]]) -> None:
        for model, amounts in usage.items():
            total = self.usage.setdefault(model, dict.fromkeys(amounts, 0))
            for name, amount in amounts.items():
                total[name] += amount


def _tokens(usage: Usage | None) -> tuple[int, int]:
    return (0, 0) if usage is None else (usage.prompt_tokens, usage.completion_tokens)


def _described(error: BaseException) -> str:
    """An exception as one line; where it came from, if it was nobody's intention."""
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    if not isinstance(error, ToolcreditError) and error.__traceback__ is not None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text += f" ({Path(last.filename).name}, line {last.lineno})"
    return " ".join(text.split())[:500]


class _GuardedChat:
    def __init__(self, agent: ChatAgent):
        self._agent = agent

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        return _blame(lambda: checked_message(self._agent.respond(messages, tools)))


class _GuardedEnv(Agent):
    def __init__(self, agent: Agent):
        self.name, self.ceiling = agent.name, agent.ceiling
        self._agent = agent

    def reset(self, *, seed: int | None = None) -> None:
        _blame(self._agent.reset, seed=seed)

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        return _blame(self._agent.act, observation, info)


def checked_message(message: Any) -> Message:
    """An agent's message, if it has the form that suites rely on.

    Raises:
        UsageError: it has not.
    """
    calls = message.get("tool_calls") or [] if isinstance(message, dict) else None
    if not isinstance(calls, list) or not isinstance(message.get("content") or "", str):
        raise UsageError(f"respond() gave {str(message)[:100]!r}: expected a message with text as content")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        parts = [function.get(key) for key in ("name", "arguments")] if isinstance(function, dict) else [None]
        if not all(isinstance(part, str) for part in parts):
            raise UsageError(f"respond() gave the call {str(call)[:100]!r}: expected name and arguments as text")
    return message


def _guarded(agent: Any) -> Any:
    """The agent, whose exceptions are told from the suite's own."""
    return _GuardedEnv(agent) if isinstance(agent, Agent) else _GuardedChat(agent)


def _blame(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    try:
        return function(*arguments, **keywords)
    except DeadlineError:
        raise
    except BaseException as error:
        raise AgentError from error
