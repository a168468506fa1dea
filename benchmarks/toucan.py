"""`toucan`: multi-turn tool calling with simulated tools, scored like Toucan-Test in SLCA-GRPO (arXiv 2609.29050).

The agent plays `SGLSToolCalling-v0` with its structured calls; a parallel step is one assistant turn. Tasks are the
embedded test split, or rows of any known format (`envs.sgls.loaders`), Toucan-Test among them.

Success is *Success@0.9* of the process score; the two variants of the published code stand under their own names. What
the published formulas say of the same calls is `published_…`: they misjudge some (see `rewards.process`), but are what
published numbers were made with.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from ..agents.chat_baselines import PromptedChatAgent, assistant_message
from ..envs.sgls.env import SGLSToolCallingEnv
from ..envs.sgls.mocks import make_mock
from ..envs.sgls.tasksets import TaskSet
from ..errors import InfrastructureError, UnknownNameError
from ..rewards.hierr import OMISSION_PENALTY, HierR, is_success, make_case
from ..rewards.judging import Judge
from ..rewards.process import process_score, read_turns
from ..rewards.summary import FunctionJudge, summary_score
from ..runs import write_atomic
from .chat_agents import RandomCalls, Scripted, Silent
from .suite import Attempt, Outcome, Score, Selection, Suite, SuiteTask, TaskContext

#: components of `HierR` that are reported, under the names that the results have
_METRICS = {
    "success_process": "success_process",
    "success_combined": "success_combined",
    "success_name": "success_name",
    "process": "process",
    "name_f1": "name",
    "arg_match": "arg_match",
    "format": "format",
    "parallel": "parallel",
    "summary": "summary",
    "omitted": "omitted",
}


class Toucan(Suite):
    """Tool calling in the manner of Toucan-Test.

    Args:
        tasks: `embedded`, or a file of tasks of any format that `load_tasks` reads.
        split: of the tasks; rows of a file that name none are `test`.
        tier: of the embedded tasks: `easy`, `medium`, `hard`; None for all.
        group: what results are grouped by: `category` (single, parallel, serial, …) or `source` (the subset of a row).
        mock: who answers calls, see `envs.sgls.mocks.make_mock`; the embedded back ends know the embedded tools only.
        judge: of the final replies, see `rewards.summary.make_judge`.
        max_turns: assistant turns.
        strictness: of the validation of calls: `strict`, or the published checks with `paper`.
        distractors: further tools shown with each task.
        distractor_seed: of their choice.
    """

    name = "toucan"
    export_formats = ("sgls",)

    def __init__(
        self,
        tasks: str = "embedded",
        split: str = "test",
        tier: str | None = None,
        group: str = "category",
        mock: str | dict[str, Any] = "embedded",
        judge: str | dict[str, Any] = "embedded",
        max_turns: int = 10,
        strictness: str = "strict",
        distractors: int = 0,
        distractor_seed: int = 0,
    ):
        if group not in ("category", "source"):
            raise UnknownNameError("group", group, ("category", "source"))
        self._tasks = TaskSet(tasks, split, tier)
        self._source, self._group = tasks, group
        self._mock = make_mock(mock)
        self._scorer = HierR(judge=judge)
        self._settings: dict[str, Any] = {
            "split": split,
            "max_turns": max_turns,
            "strictness": strictness,
            "distractors": distractors,
            "seed": distractor_seed,
        }
        self._local = threading.local()
        if self._mock.live:
            self.beside = ("nothing",)  # replaying the gold would cost calls of the mock

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Tasks, mock, judge and limits."""
        digest = hashlib.sha256("".join(self._tasks[name].digest() for name in self._tasks.ids).encode()).hexdigest()
        return {
            "suite": "1",
            "tasks": digest,
            "group": self._group,
            "mock": self._mock.identity,
            "scorer": self._scorer.identity,
            **self._settings,
        }

    def tasks(self, selection: Selection) -> Sequence[SuiteTask]:
        """The tasks of the split.

        Raises:
            ConfigError: the mock does not know the tasks' tools.
        """
        self._env().reset(options={"task_id": self._tasks.ids[0]})  # refuse what cannot be played now
        chosen = [self._tasks[name] for name in self._tasks.ids]
        return [SuiteTask(t.id, t.source if self._group == "source" else t.category, {}) for t in chosen]

    def run(self, task: SuiteTask, agent: Any, context: TaskContext) -> Outcome:
        """Play one episode and ask the judge about the reply."""
        env = self._env()
        player = PromptedChatAgent(agent.respond)
        player.bind(env)
        observation, info = env.reset(seed=context.seed, options={"task_id": task.id})
        over = False
        while not over:
            context.remaining()
            observation, _, terminated, truncated, info = env.step(player.act(observation, info))
            over = terminated or truncated
        if "error" in info:
            raise InfrastructureError(f"{info['error']['type']}: {info['error']['message']}")
        episode = json.loads(info["transcript"])
        report = self._scorer.explain(episode["task"], episode)
        return Outcome({"points": report.points, "notes": list(report.notes), "episode": episode}, observation)

    def score(self, task: SuiteTask, outcome: Outcome) -> Score:
        """Everything is computed from the episode; only the judge's rating is taken as it was given."""
        episode, points = outcome.output["episode"], outcome.output["points"]
        judge = FunctionJudge(lambda case: points)
        ours = HierR(judge=judge).explain(episode["task"], episode).rewards
        turns = episode["turns"]
        metrics = {name: ours[component] for name, component in _METRICS.items()} | _published(episode, judge)
        metrics |= {
            "tool_turns": float(sum(bool(turn["calls"]) for turn in turns)),
            "calls": float(sum(len(turn["calls"]) for turn in turns)),
            "invalid_calls": float(sum(call["status"] == "invalid" for turn in turns for call in turn["calls"])),
        }
        detail = {"turns": len(turns), "ended_by": episode["ending"]["reason"], "notes": outcome.output["notes"]}
        return Score(ours["success_process"] == 1.0, metrics, detail)

    def aggregate(self, attempts: Sequence[Attempt]) -> dict[str, float | None]:
        """The mean of every metric over all tasks, and of the success over categories."""
        scored = [attempt.score for attempt in attempts if attempt.score is not None]
        names = dict.fromkeys(name for score in scored for name, value in score.metrics.items() if value is not None)
        found: dict[str, float | None] = {}
        for name in names:
            found[name] = fmean(value for attempt in attempts if (value := attempt.metric(name)) is not None)
        categories: dict[str, list[bool]] = {}
        for attempt in attempts:
            categories.setdefault(attempt.task.category, []).append(attempt.success)
        return {**found, "macro": fmean(fmean(part) for part in categories.values())}

    def reference(self, name: str, task: SuiteTask, context: TaskContext) -> Any:
        """`gold` makes the calls of the first plan, a step a turn, and gives the gold reply."""
        if name == "nothing":
            return Silent()
        if name == "random":
            return RandomCalls(context.seed)
        gold = self._env().gold(task.id)
        steps = [[(call["name"], call["arguments"]) for call in step] for step in gold["plans"][0]]
        return Scripted([*map(assistant_message, steps), assistant_message((), gold["reply"])])

    def export(self, format: str, attempts: Sequence[Attempt], folder: Path) -> list[Path]:
        """`sgls`: one transcript a line, as `toolcredit sgls score` reads them."""
        if format not in self.export_formats:
            return super().export(format, attempts, folder)
        lines = [
            json.dumps({"transcript": attempt.outcome.output["episode"]}, ensure_ascii=False) + "\n"
            for attempt in attempts
            if attempt.outcome is not None
        ]
        path = folder / "transcripts.sgls.jsonl"
        write_atomic(path, "".join(lines))
        return [path]

    def _env(self) -> SGLSToolCallingEnv:
        """The environment of this thread."""
        if not hasattr(self._local, "env"):
            self._local.env = SGLSToolCallingEnv(
                tasks=[self._tasks[name] for name in self._tasks.ids], mock=self._mock, scorer=None, **self._settings
            )
        return self._local.env


def _published(episode: dict[str, Any], judge: Judge) -> dict[str, float | None]:
    """The published formulas, but with a step for each assistant turn, since structured calls have no blocks."""
    task = episode["task"]
    attempt = read_turns(episode["turns"], episode["tools"])
    match = process_score(attempt, task["plans"], mode="paper")
    omitted = bool(task["plans"][0]) and not attempt.attempted
    summary = OMISSION_PENALTY if omitted else summary_score(make_case(task, episode), judge, "paper").score
    combined = None if summary is None else (match.process + summary) / 2
    values = {"process": match.process, "combined": combined, "name": match.name}
    successes = {name: None if value is None else float(is_success(value)) for name, value in values.items()}
    return {"published_process": match.process} | {f"published_success_{n}": s for n, s in successes.items()}
