"""What a benchmark suite is: tasks, playing one with an agent, scoring it, aggregates.

`runner` does everything else: threads, deadlines, files, resuming. A suite keeps apart what talks to a model and what
does not, so that a run can be scored again from its files:

* `run` is the only part that sees the agent; its `Outcome` is plain JSON and holds all that `score` needs;
* `score` and `aggregate` are pure.

A suite of conversations writes them as generators (`Suite.episode`): what an agent plays in a benchmark, a learner then
steps through as an environment (`suite_env.SuiteEnv`).
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import gymnasium as gym

from ..errors import InfrastructureError, ToolcreditError, UnknownNameError, UsageError
from .selection import Selection

Message = dict[str, Any]
"""A chat message in OpenAI's form."""

Turn = tuple[Sequence[Message], Sequence[dict[str, Any]]]
"""What an assistant answers: the conversation so far and the tools on offer, both in OpenAI's form."""

State = Literal["completed", "failed", "unresolved"]
AgentKind = Literal["chat", "env"]


@dataclass(frozen=True)
class SuiteTask:
    """One task of a suite.

    Attributes:
        id: unique in the suite.
        category: what results are grouped by.
        payload: all that `Suite.run` and `Suite.score` need, plain JSON; never shown to an agent as a whole.
    """

    id: str
    category: str
    payload: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    """What an agent did in one task, in plain JSON.

    Attributes:
        output: all that `Suite.score` needs.
        transcript: the conversation, for people and for `bench show`.
    """

    output: Any
    transcript: Sequence[Message] = ()


@dataclass(frozen=True)
class Score:
    """What an outcome is worth.

    Attributes:
        success: the verdict that categories are counted by.
        metrics: further figures; None for what was not scored, which is left out of means.
        detail: why, in plain JSON: what was read, which rule failed.
    """

    success: bool
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """One trial of one task, whatever became of it.

    Attributes:
        task: the task.
        trial: 0, 1, ….
        state: `completed` (scored), `failed` (the agent gave no outcome: its endpoint is down, its deadline passed, its
            code raised) or `unresolved` (not reached yet, or the suite's own mock, judge or user simulator failed).
        score: of a completed attempt, else None. Whatever is not completed counts as 0.
        error: why it is not completed.
        outcome: of a completed attempt, where it was loaded.
    """

    task: SuiteTask
    trial: int
    state: State
    score: Score | None = None
    error: str | None = None
    outcome: Outcome | None = None

    @property
    def success(self) -> bool:
        """The verdict; False unless the attempt is completed."""
        return self.score is not None and self.score.success

    def metric(self, name: str) -> float | None:
        """A metric; 0 unless the attempt is completed, None where the suite did not score it."""
        return 0.0 if self.score is None else self.score.metrics.get(name)


class DeadlineError(InfrastructureError):
    """A task took longer than it may."""


class AgentError(ToolcreditError):
    """The agent gave nothing that can be scored: the attempt has failed, and the suite is not to blame."""


@dataclass
class TaskContext:
    """What a suite and an agent may know of the attempt that is running, and what they tell about it.

    Attributes:
        trial: 0, 1, ….
        seed: of this attempt alone: a function of the run's seed, the task and the trial.
        deadline: on the clock of `time.monotonic`; work that can stop by itself should do so then.
        usage: model name to `calls`, `prompt_tokens`, `completion_tokens`.
        reference: which of `Suite.references` plays, None for anybody else. A suite whose tasks have another side
            (a user who talks with the agent) scripts that, too, for references.
    """

    trial: int = 0
    seed: int = 0
    deadline: float = math.inf
    usage: dict[str, dict[str, int]] = field(default_factory=dict)
    reference: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def remaining(self) -> float:
        """Seconds until the deadline.

        Raises:
            DeadlineError: it has passed. A suite that loops calls this once a step.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise DeadlineError("the deadline of the task has passed")
        return left

    def spend(self, model: str, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Book one call of a model: of the agent, a judge, a user simulator. Those of `llm.client` are booked already.

        Call it from any thread.
        """
        with self._lock:
            so_far = self.usage.get(model, {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0})
            spent = {"calls": 1, "prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
            # a new dict, so that what the runner has already taken over does not change any more
            self.usage[model] = {name: amount + spent[name] for name, amount in so_far.items()}


@runtime_checkable
class ChatAgent(Protocol):
    """The assistant of one conversation."""

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """The assistant's next message, `tool_calls` included.

        Arguments of calls are the model's own text: JSON only if it wrote JSON.

        Args:
            messages: the conversation in OpenAI's form; not to be changed.
            tools: the tools in OpenAI's form; may be empty.

        Raises:
            InfrastructureError: there is no answer.
        """
        ...


class Player(Protocol):
    """Who is measured: it gives every attempt an agent of its own. `start` is called from several threads at once.

    Optional: `prepare(suite, tasks)`, called before anything else is asked of it.

    Attributes:
        name: for tables.
        kind: of the agents it starts, see `Suite.agent_kind`.
        concurrency: how many attempts it can usefully play at once; None for any number.
    """

    name: str
    kind: AgentKind
    concurrency: int | None

    @property
    def identity(self) -> dict[str, Any]:
        """What its answers depend on, plain JSON: model, parameters, hash of the weights. May load the model."""
        ...

    def start(self, task: SuiteTask, context: TaskContext) -> Any:
        """An agent for one attempt."""
        ...


Result = TypeVar("Result")


def converse(episode: Generator[Turn, Message, Result], respond: Callable[..., Message]) -> Result:
    """Play a conversation to its end with somebody who answers messages and tools; what the generator returns."""
    message: Any = None  # what a generator is sent first
    while True:
        try:
            turn = episode.send(message)
        except StopIteration as end:
            return end.value
        message = respond(*turn)


class Suite(ABC):
    """A benchmark. Its constructor takes keyword options of plain JSON, which become flags of `toolcredit bench run`.

    A suite of conversations has `episode`, any other one its own `run`; both are called from several threads at once.

    Attributes:
        name: in the registry and in results.
        agent_kind: `chat` for suites whose `run` gets a `ChatAgent`; `env` for those that get an `agents.base.Agent`
            that is bound to the environment `env()`.
        references: names that `reference` knows.
        beside: those cheap enough to be played along with every agent and shown beside it.
        groups: names that `--category` takes for several categories.
        components: metrics of its scores that environments show among the rewards.
        aggregate_notes: what must be known to read an aggregate, printed below the table.
        export_formats: formats of `export` besides the general ones.
    """

    name: str
    agent_kind: AgentKind = "chat"
    references: tuple[str, ...] = ("gold", "nothing", "random")
    beside: tuple[str, ...] = ("nothing", "gold")
    groups: Mapping[str, Sequence[str]] = {}
    components: tuple[str, ...] = ()
    aggregate_notes: Mapping[str, str] = {}
    export_formats: tuple[str, ...] = ()

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What scores depend on besides the agent, in plain JSON: versions, hashes of data and prompts, options.

        A run is resumed only under the same identity, and `compare` says where two runs differ.
        """

    def check_options(self, is_reference: bool) -> None:  # noqa: B027 - most suites have nothing to refuse
        """Called before a run, to refuse early what could not be played.

        Args:
            is_reference: whether one of `references` is going to play.

        Raises:
            UsageError: an option is missing without which others cannot play.
        """

    @abstractmethod
    def tasks(self, selection: Selection) -> Sequence[SuiteTask]:
        """The suite's tasks. Those that `selection` does not want may be among them: the runner picks."""

    def pick(self, selection: Selection) -> tuple[SuiteTask, ...]:
        """The wanted tasks; among the categories may be names of groups.

        Raises:
            UnknownNameError: a category or an id is not there.
            UsageError: nothing is left.
        """
        if selection.categories is None:
            return selection.pick(self.tasks(selection))
        names = [name for given in selection.categories for name in self.groups.get(given, (given,))]
        selection = replace(selection, categories=tuple(dict.fromkeys(names)))
        tasks = tuple(self.tasks(selection))
        missing = set(names) - {task.category for task in tasks}
        if missing:  # a suite reads only what is wanted: the names that there are stand among all tasks
            known = {task.category for task in self.tasks(replace(selection, categories=None))} | set(self.groups)
            for name in sorted(missing - known):
                raise UnknownNameError("category", name, known)
        return selection.pick(tasks)

    def episode(self, task: SuiteTask, context: TaskContext) -> Generator[Turn, Message, Outcome]:
        """One task as a conversation that is played from outside, written as a generator.

        It yields the conversation so far and the tools on offer, is sent the assistant's message, and returns the
        outcome. Each conversation is the one before, the assistant's message, and what is new. What the assistant
        says, however wrong, is part of the outcome. It may be left at any point.

        Raises:
            InfrastructureError: the suite's own back end (mock, judge, simulator) failed.
        """
        raise UsageError(f"{type(self).__name__} has no episodes: give it `episode`, or a `run` of its own")

    def run(self, task: SuiteTask, agent: Any, context: TaskContext) -> Outcome:
        """Play one task with a fresh agent; an exception of the agent is passed on.

        Raises:
            AgentError: the agent did what leaves nothing to score.
            InfrastructureError: the suite's own back end failed.
        """

        def respond(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
            context.remaining()
            return agent.respond(messages, tools)

        return converse(self.episode(task, context), respond)

    @abstractmethod
    def score(self, task: SuiteTask, outcome: Outcome) -> Score:
        """The worth of an outcome, as `run` returned it or read back from JSON."""

    def limit(self, outcome: Outcome) -> str | None:
        """Which limit cut an episode off (`steps`, …); None if it came to its own end."""
        return None

    def split_key(self, task: SuiteTask) -> str:
        """What keeps tasks together when an environment splits them for training: those of one key are not parted."""
        return task.id

    @property
    def tells_gold(self) -> bool:
        """Whether `gold` knows what solves a task."""
        return type(self).gold is not Suite.gold

    def gold(self, task: SuiteTask) -> list[Message]:
        """The assistant's messages that solve a task.

        Raises:
            UsageError: the suite does not know them.
        """
        raise UsageError(f"the suite {self.name!r} does not tell what solves its tasks")

    @abstractmethod
    def reference(self, name: str, task: SuiteTask, context: TaskContext) -> Any:
        """A fresh agent of the suite's kind that plays one of `references`."""

    def aggregate(self, attempts: Sequence[Attempt]) -> dict[str, float | None]:
        """Named summary figures over all attempts; None where a part that the name promises was not run.

        For intervals it is also called with resampled tasks, some more than once: their ids have a suffix then, and
        payloads may be empty. `micro`, the share of successes over all attempts, is always added.
        """
        return {}

    def env(self) -> gym.Env:
        """The suite's tasks as an environment: its conversations, or what agents of the kind `env` are bound to.

        Raises:
            UsageError: the suite has none.
        """
        if type(self).episode is Suite.episode:
            raise UsageError(f"the suite {self.name!r} has no environment: it plays its tasks without `episode`")
        from .suite_env import SuiteEnv

        return SuiteEnv(self)

    def export(self, format: str, attempts: Sequence[Attempt], folder: Path) -> list[Path]:
        """Write a run in one of `export_formats` below `folder`; the paths written. Outcomes are loaded."""
        raise UnknownNameError(f"export format of {self.name}", format, self.export_formats)
