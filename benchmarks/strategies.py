"""Strategies side by side: every agent answers every question of a tool-subset bandit once, on equal terms.

Works on any environment with a `Discrete(2**n)` action space whose bits are tools, through the Gymnasium interface. The
references are calling no tool, all tools, random subsets, and two ceilings that know the rewards of the very questions
they are measured on: the best fixed subset and the best subset of each question.

What counts how:
* a question whose step or decision failed (an endpoint was down) counts as not right, is left out of the mean reward,
  and is listed with its error;
* `random` is exact when a reward table is at hand: the expectation over all subsets with equal probability. Without
  one, it draws one seeded subset a question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from ..agents.base import Agent, text_bandit
from ..agents.baselines import (
    AllToolsAgent,
    BestFixedAgent,
    NoToolsAgent,
    OracleAgent,
    RandomAgent,
    subset_tools,
)
from ..envs.table import RewardTable, record_of
from ..errors import InfrastructureError, UnknownNameError, UsageError
from .stats import bootstrap_mean, mcnemar, wilson

REFERENCES = ("none", "all", "random", "best_fixed", "oracle")


@dataclass(frozen=True)
class Record:
    """One strategy on one question.

    Attributes:
        id: the question.
        family: its family, "" if the environment names none.
        tools: names of the tools called; None for an expectation over subsets, or when no decision was made.
        n_tools: how many; a mean for an expectation.
        answer: the reasoner's answer; None if unreadable or not given, "" if the environment does not tell.
        correct: 1 or 0; for an expectation between.
        reward: of the environment; None when the step failed.
        error: why it failed, None if it did not.
    """

    id: str
    family: str
    tools: tuple[str, ...] | None
    n_tools: float
    answer: str | None
    correct: float
    reward: float | None
    error: str | None = None

    @property
    def unparsed(self) -> bool:
        """Whether the reasoner replied and named no option: wrong, and counted."""
        return self.tools is not None and self.answer is None and self.error is None


@dataclass(frozen=True)
class Example:
    """A question that the choice of tools decided, for people to look at.

    Attributes:
        kind: `rescued` (right with the chosen tools, wrong without tools) or `broken` (the other way round).
        strategy: who chose the tools.
        id: the question.
        family: its family.
        question: the text shown, options included.
        tools: names of the tools called.
        evidence: what they reported, as `{"tool", "title", "text"}`.
        answer_without: answer without tools.
        answer_with: answer with the chosen tools.
    """

    kind: str
    strategy: str
    id: str
    family: str
    question: str
    tools: tuple[str, ...]
    evidence: tuple[dict[str, str], ...]
    answer_without: str | None
    answer_with: str | None


@dataclass(frozen=True)
class Evaluation:
    """Records of every strategy on the same questions in the same order."""

    records: Mapping[str, Sequence[Record]]
    ceilings: frozenset[str]

    @property
    def n(self) -> int:
        """Number of questions."""
        return len(next(iter(self.records.values())))

    def summary(self) -> dict[str, Any]:
        """The result in plain JSON.

        `{"n", "strategies": {name: {"accuracy", "ci", "reward", "tools_per_question", "unparsed", "failed", "ceiling",
        "families": {family: {…}}}}, "comparisons": [{"strategy", "reference", …}], "failures": [{…}]}`. `ci` is
        Wilson's 95 % interval of the accuracy. `comparisons` pairs each strategy that is no reference with every other
        one, once.
        """
        strategies = {}
        for name, records in self.records.items():
            families = dict.fromkeys(record.family for record in records)
            parts = {family: [r for r in records if r.family == family] for family in families}
            strategies[name] = {
                **_summary(records),
                "ceiling": name in self.ceilings,
                "families": {f: {**_summary(part), "subsets": _subsets(part)} for f, part in parts.items()},
            }
        own = [name for name in self.records if name not in REFERENCES]
        pairs = [(a, b) for i, a in enumerate(own) for b in self.records if b not in own[: i + 1]]
        failures = [
            {"strategy": name, "id": record.id, "error": record.error}
            for name, records in self.records.items()
            for record in records
            if record.error is not None
        ]
        comparisons = [self.compare(a, b) for a, b in pairs]
        return {"n": self.n, "strategies": strategies, "comparisons": comparisons, "failures": failures}

    def compare(self, strategy: str, reference: str) -> dict[str, Any]:
        """Paired comparison of two strategies on the same questions, in plain JSON.

        Accuracy and reward differences (strategy minus reference) have paired bootstrap intervals of 95 %; `p_value` is
        McNemar's exact one, None where a side is an expectation and so not right or wrong.

        Raises:
            UnknownNameError: no such strategy in this evaluation.
        """
        for name in (strategy, reference):
            if name not in self.records:
                raise UnknownNameError("strategy", name, self.records)
        one, other = self.records[strategy], self.records[reference]
        accuracy = bootstrap_mean([a.correct - b.correct for a, b in zip(one, other, strict=True)])
        rewards = [
            a.reward - b.reward
            for a, b in zip(one, other, strict=True)
            if a.reward is not None and b.reward is not None
        ]
        reward = bootstrap_mean(rewards) if rewards else None
        result: dict[str, Any] = {
            "strategy": strategy,
            "reference": reference,
            "accuracy_difference": accuracy.mean,
            "accuracy_ci": [accuracy.low, accuracy.high],
            "reward_difference": reward and reward.mean,
            "reward_ci": reward and [reward.low, reward.high],
            "only_strategy": None,
            "only_reference": None,
            "p_value": None,
        }
        if all(record.correct in (0, 1) for record in (*one, *other)):
            test = mcnemar([r.correct for r in one], [r.correct for r in other])
            result |= {"only_strategy": test.first_only, "only_reference": test.second_only, "p_value": test.p_value}
        return result


def evaluate(
    env: gym.Env,
    agents: Mapping[str, Agent],
    *,
    table: RewardTable | None = None,
    seed: int = 0,
    on_record: Callable[[str, Record], None] | None = None,
) -> Evaluation:
    """Let every agent answer every question of `env`.

    Args:
        env: a tool-subset bandit; its `question_ids` are the questions.
        agents: strategy name to agent; each is bound to `env` and reset with `seed`.
        table: reward table of `env`, for the exact expectation of `RandomAgent`.
        seed: seed of the agents.
        on_record: called with (strategy, record) as questions are finished.

    Raises:
        UsageError: `env` is no tool-subset bandit, or an agent returns what is no action.
    """
    subset_tools(env)
    records: dict[str, list[Record]] = {}
    for name, agent in agents.items():
        records[name] = []
        answers = _answers(env, agent, seed)
        if isinstance(agent, RandomAgent) and table is not None and table.header.kind == "outcomes":
            answers = _expected(env, table)
        for record in answers:
            records[name].append(record)
            if on_record is not None:
                on_record(name, record)
    return Evaluation(records, frozenset(name for name, agent in agents.items() if agent.ceiling))


def reference_agents(table: RewardTable | None = None) -> dict[str, Agent]:
    """The references by name. The ceilings need the reward table of the environment they are measured on."""
    agents: dict[str, Agent] = {"none": NoToolsAgent(), "all": AllToolsAgent(), "random": RandomAgent()}
    if table is not None:
        agents |= {"best_fixed": BestFixedAgent(table), "oracle": OracleAgent(table)}
    return agents


def examples(env: gym.Env, evaluation: Evaluation, strategy: str, limit: int = 3) -> list[Example]:
    """A few questions that the tools of `strategy` rescued and broke, with their evidence; one of each family first.

    Args:
        env: the environment of the evaluation; one that answers from a table has no evidence to show.
        evaluation: must hold `none` too.
        strategy: whose choices to look at.
        limit: how many of each kind.
    """
    found = []
    for kind, right in (("rescued", True), ("broken", False)):
        decided = [
            (chosen, without)
            for chosen, without in zip(evaluation.records[strategy], evaluation.records["none"], strict=True)
            if chosen.correct == right != without.correct and chosen.error is None and without.error is None
        ]
        seen = Counter[str]()
        turns = []
        for number, (chosen, _) in enumerate(decided):
            turns.append((seen[chosen.family], number))
            seen[chosen.family] += 1
        found += [_example(env, kind, strategy, *decided[number]) for _, number in sorted(turns)[:limit]]
    return found


def _example(env: gym.Env, kind: str, strategy: str, chosen: Record, without: Record) -> Example:
    names = subset_tools(env)
    tools = chosen.tools or ()
    observation, _ = env.reset(options={"question_id": chosen.id})
    info = env.step(sum(1 << names.index(tool) for tool in tools))[4]
    return Example(
        kind=kind,
        strategy=strategy,
        id=chosen.id,
        family=chosen.family,
        question=str(observation),
        tools=tools,
        evidence=tuple(dict(block) for block in info.get("evidence") or ()),
        answer_without=without.answer,
        answer_with=chosen.answer,
    )


def _answers(env: gym.Env, agent: Agent, seed: int) -> Iterator[Record]:
    names = subset_tools(env)
    agent.bind(env)
    for number, question_id in enumerate(text_bandit(env).question_ids):
        agent.reset(seed=seed if number == 0 else None)
        observation, info = env.reset(options={"question_id": question_id})
        family = str(info.get("family", ""))
        action = None
        try:
            action = agent.act(observation, info)
            _, reward, _, _, info = env.step(action)
            error = info.get("error")
        except InfrastructureError as failure:
            error = str(failure) or type(failure).__name__
        tools = None if action is None else tuple(name for i, name in enumerate(names) if int(action) >> i & 1)
        size = len(tools or ())
        if error is not None:
            yield Record(question_id, family, tools, size, None, 0.0, None, str(error))
            continue
        if "correct" not in info:
            raise UsageError(
                f"{type(env.unwrapped).__name__} must put `correct` (True or False) into info after a step"
            )
        yield Record(question_id, family, tools, size, info.get("answer"), float(info["correct"]), float(reward))


def _expected(env: gym.Env, table: RewardTable) -> Iterator[Record]:
    """Means over all subsets, each as likely as the others."""
    correct, rewards = table.correct_for(env).mean(axis=1), table.rewards_for(env).mean(axis=1)
    size = len(subset_tools(env)) / 2
    for i, question_id in enumerate(text_bandit(env).question_ids):
        family = str(record_of(env, question_id)["family"])
        yield Record(question_id, family, None, size, None, float(correct[i]), float(rewards[i]))


def _summary(records: Sequence[Record]) -> dict[str, Any]:
    n, right = len(records), sum(record.correct for record in records)
    rewards = [record.reward for record in records if record.reward is not None]
    return {
        "n": n,
        "accuracy": right / n,
        "ci": list(wilson(right, n)),
        "reward": float(np.mean(rewards)) if rewards else None,
        "tools_per_question": float(np.mean([record.n_tools for record in records])),
        "unparsed": sum(record.unparsed for record in records),
        "failed": sum(record.error is not None for record in records),
    }


def _subsets(records: Sequence[Record]) -> dict[str, int]:
    """How often each subset was chosen, as `{"a + b": count}`; "none" is the empty one."""
    return dict(
        Counter(" + ".join(record.tools) or "none" for record in records if record.tools is not None).most_common()
    )
