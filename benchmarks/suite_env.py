"""Suites of conversations as environments, so that what is measured can be trained on: `BFCL-v0`, `Tau2-v0`, any other.

`SuiteEnv` steps through `Suite.episode`, the very generator that a benchmark run plays, and its reward is the suite's
own verdict. It is a chat environment (`docs/trajectories.md`):

* Observation: the conversation, an assistant's turn as it was written. Action: the next turn as text, calls in the
  parser's syntax; a malformed call is answered as the suite answers it.
* The tools of the first prompt are shown throughout. Those that a suite adds later stand in the user's message.
* The reward of the last step is 1 or 0. A limit of the suite ends the episode as `truncated` with `info["reason"]`; a
  failure behind it (user, judge) as `truncated` with `info["error"]`, and no reward.

Data are read at the first reset, once in a process: environments of one description share them.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from ..envs.sgls.env import MAX_TURN_CHARS
from ..envs.sgls.json_strict import cut_middle, loads, without_surrogates
from ..envs.sgls.parsers import make_parser
from ..envs.sgls.parsing import INVALID_CALL, OUR_TAGS, CallParser
from ..envs.sgls.transcripts import as_text, fresh
from ..errors import ConfigError, EmptySplitError, InfrastructureError, UnknownNameError, UsageError
from .chat_agents import Conversation, conversation_as_text, read_turn
from .registry import make_suite
from .suite import Message, Outcome, Selection, Suite, SuiteTask, TaskContext, Turn

SPLITS = ("all", "train", "dev", "test")
#: of every environment; a suite's `components` are added
COMPONENTS = ("total", "success", "process", "summary", "omitted")
_SHARES = (("train", 0.7), ("dev", 0.8), ("test", 1.0))  # where each split ends


class SuiteEnv(Conversation):
    """The tasks of a suite as a chat environment.

    Rewards at the end: `total`, `success` and `process` are the suite's verdict, 1 or 0; `summary` is, too, if nothing
    was called (words alone decided), else None; `omitted` is 1 if nothing was called and that was wrong. Then the
    suite's own components.

    Args:
        suite: a name, an import path, or a suite.
        options: of the suite, plain JSON.
        categories: only these, or groups of them; a list, or a text with commas. None for all.
        ids: only these tasks, likewise.
        limit: at most so many tasks, taken in turn from the categories.
        split: `all`, or a part for learning: `train` (70 %), `dev` (10 %), `test` (20 %), by a hash of what the suite
            keeps together (`Suite.split_key`). Taken after the other selections.
        parser: the syntax of calls: `hermes`, `llama3`, `mistral`, `pythonic`.
        render_mode: `"ansi"` for the conversation as text.

    Raises:
        ConfigError: an argument is out of range.
        UnknownNameError: there is no such split or parser.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        suite: str | Suite,
        options: Mapping[str, Any] | None = None,
        *,
        categories: str | Sequence[str] | None = None,
        ids: str | Sequence[str] | None = None,
        limit: int | None = None,
        split: str = "all",
        parser: str = "hermes",
        render_mode: str | None = None,
    ):
        super().__init__(make_parser(parser))
        if split not in SPLITS:
            raise UnknownNameError("split", split, SPLITS)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ConfigError(f"limit={limit!r}: expected a whole number of at least 1, or None")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode={render_mode!r}: expected None or 'ansi'")
        self.render_mode = render_mode
        self._given = suite
        self._options = json.dumps(options or {}, sort_keys=True)
        self._selection = Selection(_names(categories), _names(ids), limit)
        self._split = split
        self._running: _Running | None = None

    @property
    def suite(self) -> Suite:
        """The suite, made when it is first needed."""
        return self._given if isinstance(self._given, Suite) else _suite(self._given, self._options)

    @property
    def task_ids(self) -> list[str]:
        """Ids of the tasks.

        Raises:
            EmptySplitError: the split has none.
        """
        return list(self._tasks)

    def task_kinds(self, task_id: str) -> dict[str, str]:
        """The task's category, for results by kind."""
        return {"category": self._task(task_id).category}

    @property
    def gold(self) -> Callable[[str], dict[str, Any]]:
        """What solves a task, by its id; there is no such attribute where the suite does not tell.

        `plans`: one plan, a list of turns, each a list of calls or a text that is said. `reply`: what is said in the
        end. `opening`: number of messages before the first turn.
        """
        if not self.suite.tells_gold:
            raise AttributeError(f"the suite {self.suite.name!r} does not tell what solves its tasks")
        return self._gold

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no running episode: reset it first."""
        state = {**self.__dict__, "_running": None}
        state.pop("_tasks", None)
        return state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Begin a task, drawn at random or named by `options["task_id"]`.

        Raises:
            AssetError: the suite's data are not installed.
            UsageError: an option is unknown, or the suite cannot be played with these arguments.
            UnknownNameError: there is no such task.
            InfrastructureError: the user who opens the conversation gave no message.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        task_id = options.pop("task_id", None)
        if options:
            raise UsageError(f"reset knows the option 'task_id' only, got {', '.join(map(repr, options))}")
        ids = self.task_ids
        if task_id is None:
            task_id = ids[int(self.np_random.integers(len(ids)))]
        self.close()
        task = self._task(task_id)
        self.suite.check_options(is_reference=False)
        context = TaskContext(seed=int(self.np_random.integers(2**31)))
        running = _Running(task, self.suite.episode(task, context), self.parser)
        running.go_on(next(running.episode))
        self._running = running
        return fresh(running.shown), self._info(running)

    def step(self, action: str) -> tuple[list[Message], float, bool, bool, dict[str, Any]]:
        """Take one assistant turn; one over `MAX_TURN_CHARS` characters loses its middle.

        Returns:
            The conversation, the reward (0.0 unless the episode ends and is scored), `terminated`, `truncated` at a
            limit or a failure, and the info: `task_id`, `tools`, `rewards`, `turn` (its `calls`, and how many of its
            `blocks` are readable: `valid_blocks`), and at the end `detail` (why the suite scored so), `transcript` (one
            JSON line), `reason` and `error`.

        Raises:
            UsageError: the action is no string, or no episode is running.
        """
        running = self._running
        if running is None or running.over:
            raise UsageError("no episode is running: call reset() before step()")
        if not isinstance(action, str):
            raise UsageError(f"an action is the assistant's turn as a string, got {type(action).__name__}")
        message = running.read(cut_middle(without_surrogates(action), MAX_TURN_CHARS))
        ending: dict[str, Any] = {}
        try:
            running.go_on(running.episode.send(message))
        except StopIteration as end:
            running.over, ending = True, self._scored(running, end.value)
        except InfrastructureError as error:
            running.over, ending = True, _failed(error)
        info = {**self._info(running), "turn": _turn(message), **ending}
        cut = "reason" in info
        reward = float(info["rewards"]["total"] or 0.0)
        return fresh(running.shown), reward, running.over and not cut, running.over and cut, info

    def render(self) -> str | None:
        """The conversation so far as text; None without a render mode."""
        if self.render_mode is None:
            return None
        return "" if self._running is None else as_text(self._running.shown)

    def close(self) -> None:
        """Leave the running episode."""
        if self._running is not None:
            self._running.episode.close()
            self._running = None

    @functools.cached_property
    def _tasks(self) -> Mapping[str, SuiteTask]:
        if isinstance(self._given, Suite):
            return _tasks(self._given, self._selection, self._split)
        return _tasks_by_name(self._given, self._options, self._selection, self._split)

    def _task(self, task_id: str) -> SuiteTask:
        tasks = self._tasks
        if task_id not in tasks:
            raise UnknownNameError("task", task_id, tasks)
        return tasks[task_id]

    def _info(self, running: _Running) -> dict[str, Any]:
        """What stands in every info; fresh objects."""
        rewards = dict.fromkeys((*COMPONENTS, *self.suite.components))
        return {"task_id": running.task.id, "tools": fresh(running.first_tools), "rewards": rewards}

    def _scored(self, running: _Running, outcome: Outcome) -> dict[str, Any]:
        """The part of the info that says what an ended episode is worth."""
        try:
            score = self.suite.score(running.task, outcome)
        except InfrastructureError as error:
            return _failed(error)
        verdict, called = float(score.success), running.calls > 0
        rewards: dict[str, float | None] = {
            "total": verdict,
            "success": verdict,
            "process": verdict,
            "summary": None if called else verdict,
            "omitted": float(not called and not score.success),
            **{name: score.metrics.get(name) for name in self.suite.components},
        }
        record = {"suite": self.suite.name, "task": running.task.id, "output": outcome.output, "rewards": rewards}
        limit = self.suite.limit(outcome)
        return {
            "rewards": rewards,
            "detail": fresh(score.detail),
            "transcript": json.dumps({**record, "messages": running.shown}, ensure_ascii=False),
            **({} if limit is None else {"reason": limit}),
        }

    def _gold(self, task_id: str) -> dict[str, Any]:
        task = self._task(task_id)
        turns = [_calls(message, loads) or message["content"] for message in self.suite.gold(task)]
        reply = turns.pop() if turns and isinstance(turns[-1], str) else ""
        episode = self.suite.episode(task, TaskContext())
        opening = len(next(episode)[0])
        episode.close()
        return {"plans": [turns], "reply": reply, "opening": opening}


class _Running:
    """An episode: the suite's generator, and the conversation as it is observed.

    Attributes:
        shown: the conversation as it is observed.
        first_tools: the tools of the first prompt.
        calls: number of calls so far.
        over: whether it has ended.
    """

    def __init__(self, task: SuiteTask, episode: Generator[Turn, Message, Outcome], parser: CallParser):
        self.task, self.episode, self._parser = task, episode, parser
        self.shown: list[Message] = []
        self.first_tools: list[dict[str, Any]] = []
        self.calls, self.over = 0, False
        self._known = 0
        self._tools: list[dict[str, Any]] = []

    def go_on(self, turn: Turn) -> None:
        """Take over what the suite asks: the conversation, of which some is known, and the tools."""
        messages, tools = turn
        new = [_plain(message) for message in conversation_as_text(messages[self._known :], self._parser)]
        added = [tool for tool in tools if tool not in self._tools]
        if not self.shown:
            self.first_tools = fresh(added)
        elif added:
            listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in added)
            new[-1]["content"] = f"{listed}\n{new[-1]['content']}"
        self._tools += fresh(added)
        self.shown += new
        self._known = len(messages) + 1  # the assistant's turn comes next

    def read(self, text: str) -> Message:
        """Take the assistant's turn; the message that it stands for."""
        message = read_turn(text, self.shown, self._tools, self._parser)
        self.shown.append({"role": "assistant", "content": text})
        self.calls += len(_calls(message))
        return message


def _plain(message: Message) -> Message:
    """A suite's message as it is observed: the keys of the space, and no tag of a tool's that could end a message."""
    kept: Message = {key: message[key] for key in ("role", "content", "tool_call_id", "name") if key in message}
    kept["content"] = without_surrogates(kept["content"])
    if kept["role"] == "tool":
        kept["content"] = OUR_TAGS.sub("&lt;", kept["content"])
    return kept


def _calls(message: Message, read: Callable[[str], Any] = str) -> list[dict[str, Any]]:
    """The calls of an assistant's message by name and arguments."""
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return [{"name": f["name"], "arguments": read(f["arguments"])} for f in functions]


def _turn(message: Message) -> dict[str, Any]:
    """What is told of a turn."""
    calls = _calls(message)
    readable = sum(call["name"] != INVALID_CALL for call in calls)
    return {"calls": calls, "blocks": len(calls), "valid_blocks": readable}


def _failed(error: InfrastructureError) -> dict[str, Any]:
    return {"reason": "error", "error": {"type": type(error).__name__, "message": str(error)}}


def _names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """A list, or a text with commas, as a tuple."""
    if given is None:
        return None
    return tuple(part.strip() for part in given.split(",") if part.strip()) if isinstance(given, str) else tuple(given)


@functools.lru_cache(maxsize=16)
def _suite(name: str, options: str) -> Suite:
    return make_suite(name, json.loads(options))


@functools.lru_cache(maxsize=16)
def _tasks_by_name(name: str, options: str, selection: Selection, split: str) -> Mapping[str, SuiteTask]:
    return _tasks(_suite(name, options), selection, split)


def _tasks(suite: Suite, selection: Selection, split: str) -> Mapping[str, SuiteTask]:
    picked = suite.pick(selection)
    tasks = {task.id: task for task in picked if split in ("all", _split_of(suite.split_key(task)))}
    if not tasks:
        raise EmptySplitError(f"the {len(picked)} selected tasks of {suite.name} have none in the split {split!r}")
    return tasks


def _split_of(key: str) -> str:
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32
    return next(name for name, end in _SHARES if place < end)
