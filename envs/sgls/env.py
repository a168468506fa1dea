"""`SGLSToolCalling-v0`: an agent solves tasks by calling tools whose schemas are the control plane (arXiv 2609.29050).

* Observation: the conversation so far as chat messages, a fresh copy each time. Action: the assistant's turn as text.
* A turn with calls is answered by one tool message per call, errors included, and the episode goes on. A turn without
  calls is the final reply and ends it (`terminated`).
* A limit (turns, calls in one turn, tokens) ends it as `truncated` with `info["reason"]`; calls of the turn that breaks
  the limits of calls or tokens are not made.
* Without an answer from the mock or the judge it is `truncated` with `info["error"]`, and every reward is None.
* After each step `info["rewards"]` has one entry per component, None unless it was scored, which happens at the end.

`step` raises only when it is misused (no string, no episode running), never because of what an agent wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym

from ...errors import CapabilityError, ConfigError, InfrastructureError, UsageError
from ..spaces import ChatMessages, UnicodeText
from .json_strict import cut_middle, without_surrogates
from .mocks import Mock, Scene, Session, is_error, make_mock
from .parsers import make_parser
from .parsing import INVALID_CALL, LEVELS, OUR_TAGS, CallParser, ParsedTurn, from_openai, safe_json
from .presentation import Presentation, Presenter
from .recordings import read_recordings
from .scoring import Scorer, make_scorer
from .tasks import Call, Task
from .tasksets import TaskSet
from .transcripts import as_calls, as_text, fresh, turn_record, unread_record
from .validation import Checked, Toolbox

#: longest turn that is read; longer ones break the token limit
MAX_TURN_CHARS = 131_072


class SGLSToolCallingEnv(gym.Env[list, str]):
    """Multi-turn tool calling with validated calls and simulated tools.

    Args:
        tasks: `"embedded"`, `"embedded:N"`, a JSONL file of tasks, or tasks, see `tasksets.TaskSet`.
        split: the tasks' split.
        tier: only tasks of this tier; None for all.
        mock: who answers calls, see `mocks.make_mock`.
        scorer: what an episode is worth, see `scoring.make_scorer`.
        parser: the syntax of calls: `hermes`, `llama3`, `mistral`, `pythonic`.
        leniency: how lenient calls are read at most: `strict`, `fenced`, `repaired`.
        strictness: of the validation: `strict`, or the published checks with `paper`.
        coerce: convert arguments whose meaning is plain despite a wrong type; recorded in the turn.
        max_turns: assistant turns in an episode.
        max_parallel: calls in one turn.
        max_response_chars: longest tool message; the middle of a longer one is cut out.
        max_tokens: of all messages together, the shown tools not counted.
        count_tokens: tokens of a text; None counts a quarter of its characters, rounded up.
        distractors: how many further tools each task is shown with.
        hard_distractors: take the most similar ones.
        variants: kinds of `variants.KINDS`, or `"all"`: the tools under other names and schemas.
        seed: of distractors and variants; the choice of tasks follows the seed of `reset`.
        render_mode: `"ansi"` for the transcript as text.

    Raises:
        ConfigError: an argument is out of range or unknown.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    _takes_live_mocks = True

    def __init__(
        self,
        tasks: str | Sequence[Task] = "embedded",
        split: str = "train",
        tier: str | None = None,
        mock: str | Mapping[str, Any] | Mock = "embedded",
        scorer: str | Scorer | None = "hierr",
        parser: str | CallParser = "hermes",
        leniency: str = "repaired",
        strictness: str = "strict",
        coerce: bool = False,
        max_turns: int = 10,
        max_parallel: int = 20,
        max_response_chars: int = 2_048,
        max_tokens: int = 32_768,
        count_tokens: Callable[[str], int] | None = None,
        distractors: int = 0,
        hard_distractors: bool = False,
        variants: str | Sequence[str] | None = None,
        seed: int = 0,
        render_mode: str | None = None,
    ):
        if leniency not in LEVELS:
            raise ConfigError(f"leniency={leniency!r}: expected one of {', '.join(LEVELS)}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode={render_mode!r}: expected None or 'ansi'")
        self._max_turns = _at_least("max_turns", max_turns, 1)
        self._max_parallel = _at_least("max_parallel", max_parallel, 1)
        self._max_response_chars = _at_least("max_response_chars", max_response_chars, 64)
        self._max_tokens = _at_least("max_tokens", max_tokens, 1)
        self._count = count_tokens or _quarter
        self._tasks = TaskSet(tasks, split, tier)
        self._mock, self._scorer, self._parser = make_mock(mock), make_scorer(scorer), make_parser(parser)
        if self._mock.live and not self._takes_live_mocks:
            raise ConfigError("the replay environment takes no live mock: give it a cassette and mode='replay'")
        self.waits = self._mock.live or getattr(self._scorer, "waits", True)  # see agents.chat_env.waits
        self._leniency, self._strictness = leniency, strictness
        self._presenter = Presenter(
            distractors, hard_distractors, variants, seed, strictness, coerce, pool=self._tasks.pool
        )
        self.render_mode = render_mode
        self.observation_space = ChatMessages()
        self.action_space = UnicodeText(MAX_TURN_CHARS)
        self._episode: _Episode | None = None

    @property
    def task_ids(self) -> list[str]:
        """Ids of all tasks of the split and tier."""
        return self._tasks.ids

    @property
    def task(self) -> Task:
        """The running task as it is shown: with the names and plans of the shown tools."""
        return self._running().presentation.task

    @property
    def transcript(self) -> dict[str, Any]:
        """The record of the episode so far, see `transcripts`; a fresh copy."""
        return self._running().transcript(self._mock.identity)

    def turn_text(self, message: Mapping[str, Any]) -> str:
        """The action for an assistant message in OpenAI's form, with `tool_calls` or without."""
        return from_openai(dict(message), self._parser)

    def openai_messages(self, observation: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """An observation in OpenAI's form: the calls in the agent's turns as `tool_calls`, a fresh copy."""
        return as_calls(observation, self._parser)

    def gold(self, task_id: str) -> dict[str, Any]:
        """What solves a task as it is shown, for references that know it: `plans`, `reply`, and the `opening`'s length.

        Raises:
            UnknownNameError: there is no such task in the split.
        """
        task = self._presenter.present(self._tasks[task_id]).task
        plans = [plan.to_json() for plan in task.plans]
        return {"plans": plans, "reply": task.reply, "opening": len(task.messages)}

    def call_rewards(self, task_id: str, turns: Sequence[str]) -> dict[str, float | None]:
        """The reward components that an episode's turns alone decide: no tool is run, no judge asked.

        Args:
            task_id: the task.
            turns: the assistant's turns of a whole episode, as text.

        Raises:
            CapabilityError: the scorer cannot score calls alone.
            UnknownNameError: there is no such task in the split.
        """
        score = getattr(self._scorer, "call_rewards", None)
        if score is None:
            raise CapabilityError(
                f"the scorer {type(self._scorer).__name__} cannot score calls without playing them: it has no "
                "call_rewards; use scorer='hierr'"
            )
        shown = self._presenter.present(self._tasks[task_id])
        records = [self._read(shown.toolbox, number, text)[0] for number, text in enumerate(turns)]
        return score(json.loads(shown.task_text), {"turns": records, "tools": list(shown.toolbox.specs)})

    def recordings(self, path: str) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        """Recorded conversations of a file as this environment would have held them: messages, and tools shown.

        Raises:
            TaskError: the file cannot be read, or no row can be used.
        """
        return list(read_recordings(path, self.turn_text, self._max_response_chars))

    def task_kinds(self, task_id: str) -> dict[str, str]:
        """What kinds of task it is, for results by kind: `category`, `tier` and `domain`, as far as known.

        Raises:
            UnknownNameError: there is no such task in the split.
        """
        task = self._tasks[task_id]
        kinds = {"category": task.category, "tier": task.tier, "domain": task.domain}
        return {kind: value for kind, value in kinds.items() if value}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Begin a task, drawn at random or named by `options["task_id"]`.

        Raises:
            UsageError: an option is unknown.
            UnknownNameError: no task of the split has that id.
            TaskError: the task cannot be shown (unknown tool, broken schema).
            ConfigError: the mock cannot answer the task's tools.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        task_id = options.pop("task_id", None)
        if options:
            raise UsageError(f"reset knows the option 'task_id' only, got {', '.join(map(repr, options))}")
        if task_id is None:
            ids = self._tasks.ids
            task_id = ids[int(self.np_random.integers(len(ids)))]
        shown = self._presenter.present(self._tasks[task_id])
        checked = self._strictness == "strict" and shown.variation is None
        scene = Scene(shown.toolbox.specs, shown.task.new_state(), shown.variation, checked)
        nonce = int(self.np_random.integers(2**31))
        self._episode = _Episode(shown, self._mock.start(scene), nonce)
        self._episode.tokens = sum(self._count(str(message["content"])) for message in shown.task.messages)
        return fresh(self._episode.messages), self._info(self._episode)

    def step(self, action: str) -> tuple[list[dict[str, Any]], float, bool, bool, dict[str, Any]]:
        """Take one assistant turn.

        Returns:
            The conversation, the reward (0.0 unless the episode ends and is scored), `terminated` after a final reply,
            `truncated` at a limit or a failure, and the info: `task_id`, `tools`, `rewards`, `turn` (the record of this
            turn), and at the end `transcript` (one JSON line), `reason` (`turns`, `calls`, `tokens` or `error`) and
            `error`.

        Raises:
            UsageError: the action is no string, or no episode is running.
        """
        episode = self._running()
        if episode.ending is not None:
            raise UsageError("the episode has ended: call reset() before the next step()")
        if not isinstance(action, str):
            raise UsageError(f"an action is the assistant's turn as a string, got {type(action).__name__}")
        error = self._take_turn(episode, without_surrogates(action))
        rewards: dict[str, float | None] = {}
        transcript = ""
        if episode.ending is not None:
            rewards, transcript = self._finish(episode, error)
        info = self._info(episode)
        info["rewards"] = {name: rewards.get(name) for name in self._scorer.components}
        info["turn"] = fresh(episode.turns[-1])
        if episode.ending is None:
            return fresh(episode.messages), 0.0, False, False, info
        info["transcript"] = transcript
        if episode.ending["reason"] is not None:
            info["reason"] = episode.ending["reason"]
        if episode.ending["error"] is not None:
            info["error"] = dict(episode.ending["error"])
        total = float(rewards.get("total") or 0.0)
        return fresh(episode.messages), total, episode.ending["terminated"], episode.ending["truncated"], info

    def _finish(self, episode: _Episode, error: InfrastructureError | None) -> tuple[dict[str, float | None], str]:
        """Score an ended episode, unless there was a failure; the scores and the transcript as one line."""
        if error is None:
            record = episode.transcript(self._mock.identity)
            line = json.dumps(record, ensure_ascii=False)
            try:
                return self._scorer(record["task"], record), line
            except InfrastructureError as failure:
                error = failure
        told = {"type": type(error).__name__, "message": str(error)}
        episode.ending = {"terminated": False, "truncated": True, "reason": "error", "error": told}
        return {}, json.dumps(episode.transcript(self._mock.identity), ensure_ascii=False)

    def render(self) -> str | None:
        """The conversation so far as text; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._episode is None:
            return ""
        ending = self._episode.ending
        return as_text(self._episode.messages, None if ending is None else ending["reason"] or "final reply")

    def _running(self) -> _Episode:
        if self._episode is None:
            raise UsageError("no episode is running: call reset() first")
        return self._episode

    def _info(self, episode: _Episode) -> dict[str, Any]:
        shown = episode.presentation
        return {"task_id": shown.task.id, "tools": shown.toolbox.openai()}

    def _take_turn(self, episode: _Episode, text: str) -> InfrastructureError | None:
        """Read a turn, make its calls and end the episode if it is over; the failure that stopped it, if any."""
        toolbox = episode.presentation.toolbox
        readable = len(text) <= MAX_TURN_CHARS
        episode.tokens += self._count(text) if readable else self._max_tokens + 1
        if episode.tokens > self._max_tokens:
            text = cut_middle(text, min(len(text), MAX_TURN_CHARS))
            episode.add_turn(text, unread_record(text))
            episode.end("tokens")
            return None
        record, parsed, checked = self._read(toolbox, len(episode.turns), text)
        episode.add_turn(text, record)
        if not parsed.calls:
            episode.end(None)
        elif len(parsed.calls) > self._max_parallel:
            episode.end("calls")
        else:
            try:
                self._make_calls(episode, checked)
            except InfrastructureError as error:
                episode.end("error")
                return error
            if episode.tokens > self._max_tokens:
                episode.end("tokens")
            elif len(episode.turns) >= self._max_turns:
                episode.end("turns")
        return None

    def _read(self, toolbox: Toolbox, number: int, text: str) -> tuple[dict[str, Any], ParsedTurn, list[Checked]]:
        """The record of turn `number`, the turn taken apart, and its validated calls."""
        parsed = self._parser.parse(text[:MAX_TURN_CHARS], self._leniency)
        checked = [toolbox.check(call) for call in parsed.calls[: self._max_parallel]]
        return turn_record(number, text, parsed, checked, toolbox.specs), parsed, checked

    def _make_calls(self, episode: _Episode, checked: Sequence[Checked]) -> None:
        """Run the valid calls of the last turn and add one tool message per call."""
        calls = [Call(c.name, c.arguments) for c in checked if c.name is not None and c.arguments is not None]
        answers = iter(episode.session.respond(calls, tuple(episode.past)) if calls else ())
        made = iter(calls)
        for record, result in zip(episode.turns[-1]["calls"], checked, strict=True):
            if result.arguments is None:
                content = safe_json(result.error())
            else:
                answer = next(answers)
                episode.past.append((next(made), answer))
                record["status"], record["answer"] = "error" if is_error(answer) else "ok", answer
                content = answer_text(answer)
            record["cut"] = len(content) > self._max_response_chars
            content = cut_middle(content, self._max_response_chars)
            episode.tokens += self._count(content)
            name = (result.name or INVALID_CALL)[:64]
            message = {"role": "tool", "tool_call_id": record["id"], "name": name, "content": content}
            episode.messages.append(message)


class SGLSReplayEnv(SGLSToolCallingEnv):
    """`SGLSToolCallingReplay-v0`: the same, but deterministic; live mocks are refused with a `ConfigError`."""

    _takes_live_mocks = False


class _Episode:
    """What happens between two resets."""

    def __init__(self, presentation: Presentation, session: Session, nonce: int):
        self.presentation, self.session, self.nonce = presentation, session, nonce
        self.messages: list[dict[str, Any]] = fresh(list(presentation.task.messages))
        self.turns: list[dict[str, Any]] = []
        self.past: list[tuple[Call, Any]] = []
        self.tokens = 0
        self.ending: dict[str, Any] | None = None

    def add_turn(self, text: str, record: dict[str, Any]) -> None:
        """Append an assistant turn."""
        self.messages.append({"role": "assistant", "content": text})
        self.turns.append(record)

    def end(self, reason: str | None) -> None:
        """End the episode: by a final reply (None), or for a reason that truncates it."""
        self.ending = {"terminated": reason is None, "truncated": reason is not None, "reason": reason, "error": None}

    def transcript(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """The record of the episode, sharing nothing with it."""
        shown = self.presentation
        return {
            "task": json.loads(shown.task_text),
            "tools": list(shown.toolbox.specs),
            **fresh({"messages": self.messages, "turns": self.turns, "ending": self.ending}),
            "tokens": self.tokens,
            "mock": dict(identity),
            "nonce": self.nonce,
        }


def answer_text(answer: Any) -> str:
    """An answer as the content of a tool message: JSON, or plain text as it is; its tags cannot end the message."""
    return OUR_TAGS.sub("&lt;", answer) if isinstance(answer, str) else safe_json(answer)


def _quarter(text: str) -> int:
    return -(-len(text) // 4)


def _at_least(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={value!r}: expected a whole number of at least {least}")
    return value
