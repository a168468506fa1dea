"""`genomeqa`: multiple-choice questions about DNA, answered alone or with the evidence of chosen tools.

Two modes:

* `plain`: a model that chats answers by itself;
* `selector`: an agent chooses tools, and a frozen reasoner answers with their evidence (arXiv 2609.10221). Several
  reasoners give a transfer grid: the same choices in front of each of them, categories `REASONER/FAMILY`.

The embedded questions are the default; files are read by `genome_questions`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from statistics import fmean
from typing import Any

import gymnasium as gym

from ..agents.baselines import AllToolsAgent, BestFixedAgent, NoToolsAgent, OracleAgent, RandomAgent
from ..envs.genome.env import GenomeToolSubsetEnv, training_reference
from ..envs.genome.questions import EMBEDDED, LETTERS, SPLITS, Question
from ..envs.genome.reasoners import make_reasoner
from ..envs.genome.reasoners.base import Reasoner
from ..envs.genome.reasoners.prompt import parse_choice, prompt_digest, reasoner_messages
from ..envs.genome.tools import DEFAULT_TOOLS, make_tool
from ..envs.genome.tools.base import Tool
from ..errors import ConfigError, UnknownNameError, UsageError
from .chat_agents import Scripted, Silent
from .genome_questions import questions_digest, read_questions
from .suite import AgentError, Attempt, Outcome, Score, Selection, Suite, SuiteTask, TaskContext

MODES = ("plain", "selector")


class GenomeQA(Suite):
    """Genome questions.

    Args:
        questions: `embedded`, a file, or a folder of files.
        format: of the files: `auto`, `toolcredit`, `genomeqa`, `phagebench`, `seqqa`.
        split: `train`, `dev`, `test` or `all`; questions of released benchmarks are `test`.
        mode: `plain` or `selector`.
        bases: show only the middle bases of each sequence to whoever answers or chooses; tools see all.
        tools: in `selector`, names of the tools to choose from.
        reasoner: in `selector`, who answers: a specification, or several (separated by commas) for a transfer grid.
        parsimony: in `selector`, what a tool costs in the metric `reward` (Eq. 1).
    """

    name = "genomeqa"
    beside = ("nothing", "random", "gold")

    def __init__(
        self,
        questions: str = EMBEDDED,
        format: str = "auto",
        split: str = "test",
        mode: str = "plain",
        bases: int | None = None,
        tools: Sequence[str] | str = DEFAULT_TOOLS,
        reasoner: str | dict[str, Any] | Sequence[Any] = "evidence",
        parsimony: float = 0.1,
    ):
        for kind, value, known in (("mode", mode, MODES), ("split", split, (*SPLITS, "all"))):
            if value not in known:
                raise UnknownNameError(kind, value, known)
        if bases is not None and bases < 1:
            raise ConfigError(f"bases={bases}: expected at least 1")
        self._source, self._format, self._split = questions, format, split
        self.mode, self._bases, self._parsimony = mode, bases, parsimony
        self._tool_names = _listed(tools)
        self._specs = [reasoner] if isinstance(reasoner, dict) else _listed(reasoner)
        if not self._specs:
            raise UsageError("reasoner: expected at least one")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._ceilings: dict[tuple[str, int], Any] = {}
        if mode == "selector":
            self.agent_kind = "env"
            self.references = ("gold", "nothing", "random", "all", "best_fixed")
            # the ceilings need every subset's answer, which only costs nothing where the reasoner is a program
            self.beside = ("nothing", "random", "all", *(("gold", "best_fixed") if self._specs == ["evidence"] else ()))

    # ------------------------------------------------------------------------------------------------ what is asked

    @cached_property
    def _questions(self) -> dict[str, Question]:
        """All questions of the source by id; those of other splits are what tools compare with."""
        return {question.id: question for question in read_questions(self._source, self._format)}

    @cached_property
    def _asked(self) -> tuple[Question, ...]:
        chosen = tuple(q for q in self._questions.values() if self._split in ("all", q.split))
        if not chosen:
            present = sorted({question.split for question in self._questions.values()})
            raise UsageError(f"{self._source} has no question in the split {self._split!r}: it has {present}")
        return chosen

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Questions, mode, prompt; for a selector also the versions of tools and reasoners."""
        found: dict[str, Any] = {
            "suite": "1",
            "questions": questions_digest(self._asked),
            "split": self._split,
            "mode": self.mode,
            "bases": self._bases,
        }
        if self.mode == "plain":
            return {**found, "prompt": prompt_digest()}
        return {
            **found,
            "tools": {tool.name: tool.version for tool in self._tools},
            "reasoners": [reasoner.version for reasoner in self._reasoners],
            "parsimony": self._parsimony,
        }

    def tasks(self, selection: Selection) -> Sequence[SuiteTask]:
        """One task per question; in a transfer grid one per question and reasoner."""
        if not self._is_grid:
            return [SuiteTask(q.id, q.family, {"question": q.id, "reasoner": 0}) for q in self._asked]
        return [
            SuiteTask(f"{q.id}@{name}", f"{name}/{q.family}", {"question": q.id, "reasoner": i})
            for i, name in enumerate(self._reasoner_names)
            for q in self._asked
        ]

    @cached_property
    def groups(self) -> dict[str, list[str]]:  # type: ignore[override]
        """In a transfer grid, the categories of each reasoner by its name."""
        if not self._is_grid:
            return {}
        families = dict.fromkeys(question.family for question in self._asked)
        return {name: [f"{name}/{family}" for family in families] for name in self._reasoner_names}

    @property
    def _is_grid(self) -> bool:
        return self.mode == "selector" and len(self._specs) > 1

    # ------------------------------------------------------------------------------------------------------ playing

    def run(self, task: SuiteTask, agent: Any, context: TaskContext) -> Outcome:
        """Ask one question."""
        question = self._questions[task.payload["question"]]
        if self.mode == "plain":
            messages: list[dict[str, Any]] = list(reasoner_messages(question.public, (), self._bases))
            reply = agent.respond(messages, [])
            return Outcome({"reply": reply.get("content") or ""}, [*messages, reply])
        env = self._thread_env(task.payload["reasoner"])
        observation, info = env.reset(options={"question_id": question.id})
        agent.reset(seed=context.seed)
        action = agent.act(observation, info)
        if action not in env.action_space:
            raise AgentError(f"{action!r} is no subset of the tools: expected 0 to {env.action_space.n - 1}")
        _, reward, _, _, after = env.step(action)
        output = {"subset": after["subset"], "answer": after["answer"], "reward": float(reward)}
        transcript = [
            {"role": "user", "content": str(observation)},
            *({"role": "tool", "name": block["tool"], "content": block["text"]} for block in after["evidence"]),
            {"role": "assistant", "content": after["answer"] or ""},
        ]
        return Outcome(output, transcript)

    def score(self, task: SuiteTask, outcome: Outcome) -> Score:
        """Right or wrong; a reply that names no option is wrong and `read` is 0."""
        question = self._questions[task.payload["question"]]
        right = LETTERS[question.answer]
        if self.mode == "plain":
            choice = parse_choice(outcome.output["reply"], question.public.choices)
            said = None if choice is None else LETTERS[choice]
            return Score(said == right, {"read": float(said is not None)}, {"said": said, "right": right})
        said, subset = outcome.output["answer"], outcome.output["subset"]
        metrics = {
            "read": float(said is not None),
            "tools": float(len(subset)),
            "reward": float(outcome.output["reward"]),
        }
        return Score(said == right, metrics, {"said": said, "right": right, "subset": subset})

    def aggregate(self, attempts: Sequence[Attempt]) -> dict[str, float | None]:
        """`macro`: mean over categories. In a transfer grid also the accuracy with each reasoner, by its name."""
        found: dict[str, float | None] = {"macro": fmean(_accuracies(attempts, lambda name: name).values())}
        if self._is_grid:
            found |= _accuracies(attempts, lambda name: name.rpartition("/")[0])
        return found

    def reference(self, name: str, task: SuiteTask, context: TaskContext) -> Any:
        """`gold` knows the answer, in `selector` the best subset for each question; `best_fixed` the best for all."""
        if self.mode == "plain":
            question = self._questions[task.payload["question"]]
            if name == "nothing":
                return Silent()
            index = question.answer if name == "gold" else Random(context.seed).randrange(len(question.public.choices))
            return Scripted([{"role": "assistant", "content": LETTERS[index]}])
        if name in ("gold", "best_fixed"):
            return self._ceiling(name, task.payload["reasoner"])
        agent = {"nothing": NoToolsAgent, "all": AllToolsAgent, "random": RandomAgent}[name]()
        agent.bind(self.env())
        return agent

    # ------------------------------------------------------------------------------------------------ environments

    @cached_property
    def _tools(self) -> tuple[Tool, ...]:
        reference = training_reference(list(self._questions.values()))
        return tuple(make_tool(name, reference) for name in self._tool_names)

    @cached_property
    def _reasoners(self) -> tuple[Reasoner, ...]:
        return tuple(make_reasoner(spec) for spec in self._specs)

    @cached_property
    def _reasoner_names(self) -> list[str]:
        names = [
            spec if isinstance(spec, str) else f"{spec.get('name')}:{spec.get('model', '')}" for spec in self._specs
        ]
        twice = {name for name in names if names.count(name) > 1}
        return [f"{name} ({i})" if name in twice else name for i, name in enumerate(names)]

    @cached_property
    def _main_env(self) -> GenomeToolSubsetEnv:
        return self._make_env(0)

    def env(self) -> gym.Env:
        """The bandit of the first reasoner; all reasoners have the same questions and tools."""
        if self.mode == "plain":
            return super().env()
        with self._lock:
            return self._main_env

    def _make_env(self, reasoner: int) -> GenomeToolSubsetEnv:
        return GenomeToolSubsetEnv(
            questions=list(self._questions.values()),
            split=self._split,
            tools=self._tools,
            reasoner=self._reasoners[reasoner],
            parsimony=self._parsimony,
            prompt_bases=self._bases,
        )

    def _thread_env(self, reasoner: int) -> GenomeToolSubsetEnv:
        envs = self._local.__dict__.setdefault("envs", {})
        if reasoner not in envs:
            with self._lock:
                envs[reasoner] = self._make_env(reasoner)
        return envs[reasoner]

    def _ceiling(self, name: str, reasoner: int) -> Any:
        """Bound to all answers of one reasoner, made once."""
        with self._lock:
            if (name, reasoner) not in self._ceilings:
                agent = OracleAgent() if name == "gold" else BestFixedAgent()
                agent.bind(self._make_env(reasoner))
                self._ceilings[name, reasoner] = agent
            return self._ceilings[name, reasoner]


def _accuracies(attempts: Sequence[Attempt], group: Callable[[str], str]) -> dict[str, float]:
    """Share of right answers in each group of categories."""
    groups: dict[str, list[bool]] = {}
    for attempt in attempts:
        groups.setdefault(group(attempt.task.category), []).append(attempt.success)
    return {name: fmean(part) for name, part in groups.items()}


def _listed(value: Any) -> list[Any]:
    """A list of specifications from a list, or from a text with commas between them."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else list(value)
