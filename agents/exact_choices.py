"""Exact-action credit on real rollouts: what the names at each choice are worth, and their part of the loss.

The values of the names (`choice_values`):

* `branch`: each name that no member drew at a choice is written there, and the rollout goes on with the present policy
  in the environment. Unbiased. Members with the same tokens before the name stand at the same choice and share its
  continuations; where nobody shares, as at later calls, every other name needs a continuation for every member.
* `counterfactual`: the member's own turns are scored again with the name exchanged. Costs nothing to sample. Biased,
  since what was written after the name was written for another one, and answers of tools are not looked at.

The loss gets `choice_objective` of each choice with the weight of one token of its episode, in the same micro-batches
as the sampled tokens; one pass over the tree of contexts and names computes all log-probabilities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from ..errors import CapabilityError
from . import planning
from .branching import Branch, roll_out
from .chat_env import call_scorer
from .chat_template import ChatTemplate
from .choice_points import Choice, ChoiceFinder
from .distributed import processes
from .estimators.exact_action import branch_values, choice_objective, counterfactual_values, unvisited
from .estimators.group import ChoicePoint
from .policy.scorer import Scorer
from .rollout import RolloutEngine
from .trajectory import Trajectory

SAME_REWARD = 1e-6
"""A rollout's own turns, scored again, may differ by this much from its reward; more, and it has no such values."""

COUNTS = ("choice_points", "exact_choices", "branch_episodes", "branch_tokens", "scored_tokens")
"""What is counted."""

Context = tuple[Trajectory, int, tuple[tuple[int, ...], ...]]
"""A rollout, where in it a name begins, and the candidates."""


@dataclass(frozen=True, eq=False)
class CreditedChoice:
    """A choice as the loss needs it.

    Attributes:
        start: position of the name's first token in the trajectory.
        candidates: token ids of each name.
        old: (names,) log π_old.
        advantages: (names,) of the estimator.
    """

    start: int
    candidates: tuple[tuple[int, ...], ...]
    old: np.ndarray
    advantages: np.ndarray


class ExactChoices:
    """Choice points of groups of rollouts.

    Args:
        engine: samples the continuations, in the environment of the rollouts.
        model: the policy that is trained.
        mode: `branch` or `counterfactual`.
        reward: component that scores the calls.
        guard: a continuation that omits the calls is worth 0, as under the omission guard.
        max_new_tokens: longest assistant turn.

    Raises:
        CapabilityError: counterfactual values, where the environment cannot score calls that were not made.
    """

    def __init__(self, engine: RolloutEngine, model: Any, *, mode: str, reward: str, guard: bool, max_new_tokens: int):
        self._engine, self._mode, self._reward, self._guard = engine, mode, reward, guard
        self._max_new_tokens = max_new_tokens
        self._finder = ChoiceFinder(engine.template)
        self._scorer, self._proven = Scorer(model), False
        self._counts = dict.fromkeys(COUNTS, 0.0)
        if mode == "counterfactual":
            if reward == planning.COMPONENT:
                raise CapabilityError(f"{reward!r} of calls that were not made is not known: use choice_values=branch")
            self._with_env(call_scorer)

    def find(self, groups: Sequence[Sequence[Trajectory]], seed: int) -> list[list[tuple[Choice, ChoicePoint]]]:
        """The choices of every group and what the estimator is told about them.

        Args:
            groups: rollouts of one update, sampled by the present weights.
            seed: of the continuations.
        """
        found = [[c for i, t in enumerate(group) for c in self._finder.find(t, i)] for group in groups]
        logprobs = self._when_sampled(groups, found)
        values = (self._branched if self._mode == "branch" else self._exchanged)(groups, found, seed)
        pairs = [[(c, _point(c, logprobs.get(c), values.get(c))) for c in own] for own in found]
        self._counts["choice_points"] += sum(map(len, found))
        self._counts["exact_choices"] += len(values)
        return pairs

    def credited(
        self,
        group: Sequence[Trajectory],
        pairs: Sequence[tuple[Choice, ChoicePoint]],
        advantages: Sequence[np.ndarray],
    ) -> dict[Trajectory, tuple[CreditedChoice, ...]]:
        """What the loss needs, by rollout; choices whose advantages are all 0 are left out."""
        found: dict[Trajectory, list[CreditedChoice]] = defaultdict(list)
        for (choice, point), own in zip(pairs, advantages, strict=True):
            if own.any():
                credited = CreditedChoice(choice.start, choice.candidates, point.logprobs, own)
                found[group[choice.member]].append(credited)
        return {t: tuple(own) for t, own in found.items()}

    def objective(
        self,
        episodes: Sequence[tuple[Trajectory, Sequence[CreditedChoice]]],
        weights: torch.Tensor,
        clip: float | None,
    ) -> tuple[torch.Tensor, int]:
        """Σ weight · `choice_objective` over the choices of some episodes, to be maximised.

        Args:
            episodes: rows of a batch, with their choices.
            weights: (B, T) of the tokens in the loss.
            clip: half-width of the trust region.

        Returns:
            a scalar, differentiable, and the tokens that went through the model.
        """
        places = [(row, t, c) for row, (t, own) in enumerate(episodes) for c in own]
        if not places:
            return weights.new_zeros(()), 0
        contexts = [(t, c.start, c.candidates) for _, t, c in places]
        logprobs, tokens = self._logprobs(contexts, grad=True)
        total = weights.new_zeros(())
        for (row, _, choice), own in zip(places, logprobs, strict=True):
            old, advantages = (torch.as_tensor(a).to(own) for a in (choice.old, choice.advantages))
            total = total + weights[row, choice.start] * choice_objective(own, old, advantages, clip)[0]
        return total, tokens

    def take_counts(self) -> dict[str, float]:
        """What was done since this was last asked.

        Returns:
            `choice_points`, `exact_choices` (those with a value for every name), `branch_episodes`, `branch_tokens`
            sampled, `scored_tokens` through the model.
        """
        counts, self._counts = self._counts, dict.fromkeys(COUNTS, 0.0)
        return counts

    # ---- log-probabilities

    def _when_sampled(
        self, groups: Sequence[Sequence[Trajectory]], found: Sequence[Sequence[Choice]]
    ) -> dict[Choice, np.ndarray]:
        """(names,) log-probabilities of each usable choice's names under the weights that sampled it."""
        places = [(c, groups[g][c.member]) for g, own in enumerate(found) for c in own if c.drawn is not None]
        distinct = {_context(t, c.start): (t, c.start, c.candidates) for c, t in places}
        parts = processes().gather(lambda: self._own_logprobs(processes().share(list(distinct.values()))))
        self._counts["scored_tokens"] += sum(tokens for _, tokens in parts)
        known = dict(zip(distinct, (row for rows, _ in parts for row in rows), strict=True))
        return {c: known[_context(t, c.start)] for c, t in places}

    def _own_logprobs(self, contexts: Sequence[Context]) -> tuple[list[np.ndarray], int]:
        """The log-probabilities of this process's share of the contexts, and the tokens that took."""
        if not contexts:
            return [], 0
        logprobs, tokens = self._logprobs(contexts)
        return [own.double().cpu().numpy() for own in logprobs], tokens

    def _logprobs(self, contexts: Sequence[Context], grad: bool = False) -> tuple[list[torch.Tensor], int]:
        """(names,) log-probabilities for each context, and the tokens that took; equal contexts are computed once."""
        rows = [_context(t, start) for t, start, _ in contexts]
        distinct = dict(zip(rows, (candidates for _, _, candidates in contexts), strict=True))
        prompts, own = list(distinct), list(distinct.values())
        if not self._proven:
            self._scorer.prove(prompts[0], own[0])
            self._proven = True
        paths = self._scorer.paths(prompts, own, temperature=contexts[0][0].temperature, grad=grad)
        split = dict(zip(prompts, paths.sums.split([len(names) for names in own]), strict=True))
        return [split[row] for row in rows], paths.tokens

    # ---- values

    def _branched(
        self, groups: Sequence[Sequence[Trajectory]], found: Sequence[Sequence[Choice]], seed: int
    ) -> dict[Choice, np.ndarray]:
        """(names,) mean reward of all continuations of each name: those of the members, and one of each other name."""
        shared: list[tuple[Sequence[Trajectory], list[Choice]]] = []
        for group, own in zip(groups, found, strict=True):
            standing: dict[bytes, list[Choice]] = defaultdict(list)
            for choice in own:
                if choice.drawn is not None:
                    standing[choice.context(group[choice.member])].append(choice)
            shared += [(group, choices) for choices in standing.values()]
        branches, owners = [], []
        for number, (group, choices) in enumerate(shared):
            first = choices[0]
            drawn = [drawn for drawn, _ in self._drawn(group, choices)]
            for name in unvisited(drawn, len(first.names)):
                key = (first.member, first.step, first.start, name)
                branches.append(Branch(group[first.member], first.start, first.candidates[name], key))
                owners.append((number, name))
        further: dict[int, dict[int, list[float]]] = defaultdict(dict)
        for (number, name), worths in zip(owners, self._continued(branches, seed), strict=True):
            if worths:
                further[number][name] = worths
        values: dict[Choice, np.ndarray] = {}
        for number, (group, choices) in enumerate(shared):
            scored, names = self._drawn(group, choices), len(choices[0].names)
            drawn, returns = [name for name, _ in scored], [worth for _, worth in scored]
            if not set(unvisited(drawn, names)) - further[number].keys():
                values |= dict.fromkeys(choices, branch_values(drawn, returns, further[number], names))
        return values

    def _drawn(self, group: Sequence[Trajectory], choices: Sequence[Choice]) -> list[tuple[int, float]]:
        """The name that each scored rollout drew, and its reward."""
        pairs = [(c.drawn, self._worth(group[c.member])) for c in choices]
        return [(drawn, worth) for drawn, worth in pairs if drawn is not None and worth is not None]

    def _continued(self, branches: Sequence[Branch], seed: int) -> list[list[float]]:
        """What the continuations of each branch were worth; nothing for those that failed or were not scored."""
        if not branches:
            return []
        rollouts = roll_out(
            self._engine,
            branches,
            seed=seed,
            temperature=branches[0].trajectory.temperature,
            max_new_tokens=self._max_new_tokens,
        )
        self._counts["branch_episodes"] += rollouts.stats["episodes"]
        self._counts["branch_tokens"] += rollouts.stats.get("sampled_tokens", 0)
        return [[worth for t in group if (worth := self._worth(t)) is not None] for group in rollouts]

    def _worth(self, trajectory: Trajectory) -> float | None:
        if self._guard and trajectory.rewards.get("omitted"):
            return 0.0
        return planning.reward_of(trajectory, self._reward)

    def _exchanged(
        self, groups: Sequence[Sequence[Trajectory]], found: Sequence[Sequence[Choice]], seed: int
    ) -> dict[Choice, np.ndarray]:
        """(names,) reward of each rollout's own turns with the name exchanged."""
        places = [(c, groups[g][c.member]) for g, own in enumerate(found) for c in own if c.drawn is not None]
        worths = processes().divide(lambda own: self._with_env(lambda env: self._exchanged_in(env, own)), places)
        values: dict[Choice, np.ndarray] = {}
        for (choice, t), worth in zip(places, worths, strict=True):
            known = self._worth(t)
            if known is not None and abs(worth[choice.drawn] - known) <= SAME_REWARD and np.isfinite(worth).all():
                values[choice] = worth
        return values

    def _exchanged_in(self, env: gym.Env, places: Sequence[tuple[Choice, Trajectory]]) -> list[np.ndarray]:
        scorer, template = call_scorer(env), self._engine.template
        return [_exchanged_worth(scorer, template, self._reward, t, choice) for choice, t in places]

    def _with_env(self, use: Any) -> Any:
        env = self._engine.take_env()
        try:
            return use(env)
        finally:
            self._engine.give_back(env)


def _context(trajectory: Trajectory, start: int) -> tuple[int, ...]:
    """All tokens before a name."""
    return tuple(trajectory.ids[:start].tolist())


def _exchanged_worth(
    scorer: Any, template: ChatTemplate, reward: str, trajectory: Trajectory, choice: Choice
) -> np.ndarray:
    """(names,) the reward of a rollout's turns with each name in the place of the drawn one; NaN if not scored."""
    tools: Any = trajectory.tools
    turns = [template.turn_text(trajectory.sampled(k).ids, tools) for k in range(len(trajectory.turns))]
    assert choice.drawn is not None
    drawn, text = choice.names[choice.drawn], turns[choice.step]
    before, after = text[: choice.place], text[choice.place + len(drawn) :]

    def score(calls: Sequence[Mapping[str, Any]]) -> float:
        exchanged = before + calls[0]["name"] + after
        value = scorer.call_rewards(trajectory.task_id, [*turns[: choice.step], exchanged, *turns[choice.step + 1 :]])
        found = value.get(reward)
        return np.nan if found is None else float(found)

    return counterfactual_values(score, [{"name": drawn}], 0, choice.names)


def _point(choice: Choice, logprobs: np.ndarray | None, values: np.ndarray | None) -> ChoicePoint:
    if choice.drawn is None or logprobs is None:
        return ChoicePoint(choice.member, choice.tokens(), np.zeros(2), np.full(2, np.nan), None)
    if values is None:
        values = np.full(len(choice.names), np.nan)
    return ChoicePoint(choice.member, choice.tokens(), logprobs, values, choice.drawn)
