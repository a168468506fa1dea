"""What FGPO and GRPO share: contexts, format warm-up, schedule, dev selection, metrics, exact resume.

A learner makes `format_updates` warm-up updates, which teach the answer strings and prefer no action, and then
`max_updates` updates of its own objective. Everything random is derived from (seed, update), so a killed and resumed
run ends with the numbers of an unbroken one.
"""

from __future__ import annotations

import math
import os
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
import torch
from pydantic import Field

from ..envs.table import RewardTable
from ..errors import RunError, UsageError
from .base import Callback, TextBandit, TrainingReport, text_bandit
from .checkpoint import Progress, update_generator
from .config import parse_config
from .configured import ConfiguredLearner, RunConfig
from .dead_groups import dead_group_rate
from .policy.policy import LoraPolicy, PolicyConfig, Scored

WARM = "warm"
"""Folder, inside a run, of the adapter after the format warm-up."""


class BanditConfig(RunConfig):
    """Fields that every bandit learner has. Defaults are the paper's (arXiv 2609.10221) where it gives one."""

    policy: PolicyConfig = Field(default_factory=PolicyConfig, description="The language-model policy.")
    init: str | None = Field(None, description="Run folder whose adapter to start from; skips the format warm-up.")
    max_updates: int = Field(500, ge=1, description="Optimiser updates of the learner's own objective.")
    batch_size: int = Field(16, ge=1, description="Questions per update.")
    learning_rate: float = Field(1e-5, gt=0, description="Peak step size of AdamW.")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="Step size over the updates.")
    gradient_clip: float = Field(1.0, gt=0, description="Largest gradient norm.")
    format_updates: int = Field(20, ge=0, description="Warm-up updates that teach the answer strings uniformly.")
    format_learning_rate: float = Field(1e-3, gt=0, description="Step size of the warm-up.")
    decoding: Literal["controlled", "free"] = Field(
        "controlled", description="How the agent acts: best candidate by mean log-probability, or greedy generation."
    )
    eval_every: int = Field(50, ge=1, description="Updates between two evaluations on the dev split.")
    save_every: int = Field(10, ge=1, description="Updates between two checkpoints.")
    cpu_threads: int = Field(1, ge=1, description="Threads of torch on the CPU; part of what makes a run repeatable.")
    telemetry_group: int = Field(6, ge=1, description="Group size G of the dead-group rate that is logged.")
    seed: int = Field(0, ge=0, description="Seed of data order, subsets, samples and adapter.")


@dataclass(frozen=True)
class Contexts:
    """The questions of one environment, ready for a policy.

    Attributes:
        ids: question ids.
        prompts: token ids of each prompt.
        rewards: (questions, actions) float64; None where the learner asked for none.
        correct: (questions, actions) bool; None where the environment knows rewards only.
        sizes: (actions,) number of tools of each action.
    """

    ids: list[str]
    prompts: list[list[int]]
    rewards: np.ndarray | None
    correct: np.ndarray | None
    sizes: np.ndarray


class BanditLearner(ConfiguredLearner):
    """Base of the learners on text bandits. A subclass adds a configuration class and `update`.

    Args:
        config: configuration object, or a dict of its fields.
        out: run folder; without it nothing is written and a run cannot be resumed.
    """

    config_class: ClassVar[type[BanditConfig]]
    config: BanditConfig
    #: whether learning needs the reward of every action, and so 2ⁿ reasoner calls per question before it begins
    needs_table: ClassVar[bool] = True

    def __init__(self, config: BanditConfig | dict[str, Any] | None = None, out: str | os.PathLike | None = None):
        super().__init__(parse_config(self.config_class, config), out)
        self._policy: LoraPolicy | None = None
        self._bandit: TextBandit | None = None
        self._actions: list[str] = []
        self._chosen: dict[tuple[int, ...], int] = {}  # decisions of the present weights, by prompt

    @property
    def policy(self) -> LoraPolicy:
        """The policy, loaded on first use."""
        if self._policy is None:
            torch.set_num_threads(self.config.cpu_threads)
            self._policy = LoraPolicy(self.config.policy)
            if self.config.init is not None:
                self._policy.load_adapter(Path(self.config.init) / "adapter")
        return self._policy

    # ------------------------------------------------------------------------------------------------ acting

    def bind(self, env: gym.Env) -> None:
        """Take the action strings of a text bandit; called by `learn` and by whoever evaluates the agent."""
        self._bandit = text_bandit(env)
        actions = [self._bandit.action_text(a) for a in range(int(env.unwrapped.action_space.n))]  # type: ignore[attr-defined]
        if actions != self._actions:
            self.policy.set_candidates(actions)
            self._actions = actions
            self._chosen.clear()

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        """The best action for a question; `decoding` says how it is chosen.

        A malformed free generation acts as the empty subset: an action is needed.
        """
        if self._bandit is None:
            raise UsageError(f"{self.name} does not know the action strings yet: call bind(env) or learn(env) first")
        prompt = self.policy.encode(self._bandit.policy_messages(observation, info))
        if self.config.decoding == "free":
            [[sample]] = self.policy.generate([prompt], 1, temperature=0)
            return self._bandit.parse_action(self.policy.decode(sample.ids)) or 0
        if tuple(prompt) not in self._chosen:
            self._score_all([prompt])
        return self._chosen[tuple(prompt)]

    # ---------------------------------------------------------------------------------------------- learning

    @abstractmethod
    def update(self, contexts: Contexts, batch: np.ndarray, generator: torch.Generator) -> dict[str, float]:
        """One update on the questions `batch` (indices into `contexts`): call `step`, return what to log."""

    def learn(
        self,
        env: gym.Env,
        *,
        eval_env: gym.Env | None = None,
        callbacks: Sequence[Callback] = (),
        resume: bool = False,
    ) -> TrainingReport:
        """Learn on `env`. With `eval_env`, the checkpoint with the best mean reward there is kept.

        Raises:
            RunError: `resume` without a run folder, or with one of another configuration.
        """
        run = self.open_run(env, resume)
        self.env = env
        self.bind(env)
        train = self.contexts(env, with_rewards=self.needs_table)
        dev = self.contexts(eval_env) if eval_env is not None else None
        visits = self.total_updates * self.config.batch_size
        if visits < len(train.ids):  # a short run computes the frozen states of the questions it will see, no others
            seen = batch_indices(len(train.ids), visits, self.config.seed, 0)
            self.policy.plan([train.prompts[i] for i in seen])
        self.optimizer = self._new_optimizer()
        progress = Progress(run, callbacks)
        if run is not None and run.resumed:
            progress.restore(self.policy.trainable_parameters(), self.optimizer)
            if progress.update > self.format_updates:
                self.warm_state = self._read_adapter(run.path / WARM)
        self.spent = progress.spent
        trackers = self.track(progress)
        started = time.monotonic() - progress.seconds
        for update in range(progress.update, self.total_updates):
            record = self._one_update(update, train, dev)
            progress.advance(record, seconds=time.monotonic() - started, weights=self.policy.trainable_parameters())
            if progress.update % self.config.save_every == 0:
                progress.save(self.policy.trainable_parameters(), self.optimizer)
        progress.save(self.policy.trainable_parameters(), self.optimizer)
        progress.take_best(self.policy.trainable_parameters())
        self._chosen.clear()
        if run is not None:
            self.save(run.path)
        trackers.close()
        return TrainingReport(progress.update, progress.seconds, dict(self.spent), dict(progress.best))

    @property
    def format_updates(self) -> int:
        """Warm-up updates of this run: none when it starts from another run's adapter."""
        return 0 if self.config.init else self.config.format_updates

    @property
    def total_updates(self) -> int:
        """Updates of a whole run: the warm-up's and the objective's own."""
        return self.format_updates + self.config.max_updates

    def _one_update(self, update: int, train: Contexts, dev: Contexts | None) -> dict[str, Any]:
        own_update = update - self.format_updates
        if own_update == 0:
            self._end_warm_up()
        batch = batch_indices(len(train.ids), self.config.batch_size, self.config.seed, update)
        self._set_step_size(own_update)
        if own_update < 0:
            record: dict[str, Any] = {"phase": "format"} | self._format_update(train, batch)
        else:
            generator = update_generator(self.config.seed, update)
            record = {"phase": self.name} | self.update(train, batch, generator)
        due = own_update + 1 == self.config.max_updates or (own_update + 1) % self.config.eval_every == 0
        if dev is not None and own_update >= -1 and due:
            record |= self.evaluate(dev)
        return record

    def _end_warm_up(self) -> None:
        """Keep the adapter that knows only the format; the optimiser's moments belonged to the warm-up's objective."""
        self.warm_state = self.policy.adapter_state()
        if self.out is not None:
            self.policy.save_adapter(self.out / WARM)
        self.optimizer = self._new_optimizer()

    def _read_adapter(self, folder: Path) -> dict[str, torch.Tensor]:
        """The weights in an adapter folder; the policy keeps its own."""
        own = self.policy.adapter_state()
        self.policy.load_adapter(folder)
        read = self.policy.adapter_state()
        self.policy.restore(own)
        return read

    def step(self, loss: torch.Tensor) -> float:
        """Back-propagate `loss`, clip the gradient, make an optimiser step; returns the gradient's norm."""
        loss.backward()
        parameters = self.policy.trainable_parameters().values()
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.gradient_clip, error_if_nonfinite=True)
        self.optimizer.step()
        self._chosen.clear()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def _format_update(self, train: Contexts, batch: np.ndarray) -> dict[str, float]:
        """Pull p_gen towards uniform over the candidate strings: minimise −mean_a log p_gen(a|s)."""
        scored = self.policy.score([train.prompts[i] for i in batch], grad=True)
        loss = -scored.sums.mean()
        self.count(scored_tokens=scored.tokens)
        mass = float(scored.valid_mass.detach().mean())
        return {"loss": float(loss.detach()), "gradient_norm": self.step(loss), "valid_mass": mass}

    def _new_optimizer(self) -> torch.optim.Optimizer:
        parameters = list(self.policy.trainable_parameters().values())
        return torch.optim.AdamW(parameters, lr=self.config.learning_rate, weight_decay=0.0, foreach=False)

    def _set_step_size(self, own_update: int) -> None:
        rate = self.config.learning_rate
        if own_update < 0:
            rate = self.config.format_learning_rate
        elif self.config.schedule == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * own_update / self.config.max_updates))
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    # -------------------------------------------------------------------------------------------- bookkeeping

    def contexts(self, env: gym.Env, with_rewards: bool = True) -> Contexts:
        """Prompts of every question of `env` and, unless declined, the rewards of every action."""
        prompts, ids = self.prompts(env), list(text_bandit(env).question_ids)
        sizes = np.array([bin(a).count("1") for a in range(int(env.unwrapped.action_space.n))])  # type: ignore[attr-defined]
        if not with_rewards:
            return Contexts(ids, prompts, None, None, sizes)
        table = RewardTable.build(env)
        correct = table.correct_for(env) if table.header.kind == "outcomes" else None
        return Contexts(ids, prompts, table.rewards_for(env), correct, sizes)

    def prompts(self, env: gym.Env) -> list[list[int]]:
        """Token ids of every prompt, in the order of `question_ids`; the policy is told that they will come."""
        bandit = text_bandit(env)
        prompts = []
        for question_id in bandit.question_ids:
            observation, info = env.reset(options={"question_id": question_id})
            prompts.append(self.policy.encode(bandit.policy_messages(observation, info)))
        self.policy.plan(prompts)
        return prompts

    def generation_probabilities(self, env: gym.Env) -> np.ndarray:
        """p_gen: (questions, actions) probability that free generation writes each action's string.

        Also decides for all questions at once, which is cheaper than one by one: `act` remembers.
        """
        self.bind(env)
        return self._score_all(self.prompts(env)).sums.double().exp().cpu().numpy()

    @torch.no_grad()
    def _score_all(self, prompts: list[list[int]]) -> Scored:
        """Scores of all candidates; the best of each prompt is remembered until the weights change."""
        scored = self.policy.score(prompts)
        self._chosen.update(zip(map(tuple, prompts), scored.mean.argmax(-1).tolist(), strict=True))
        return scored

    def evaluate(self, contexts: Contexts) -> dict[str, float]:
        """Mean reward, accuracy and tools of controlled decoding, valid mass and closed-form dead-group rate."""
        assert contexts.rewards is not None
        scored = self._score_all(contexts.prompts)
        chosen = scored.mean.argmax(-1).cpu().numpy()
        rows = np.arange(len(chosen))
        p_gen = scored.sums.double().exp().cpu().numpy()
        dead = dead_group_rate(p_gen, contexts.rewards, self.config.telemetry_group)
        record = {
            "dev_reward": float(contexts.rewards[rows, chosen].mean()),
            "dev_tools": float(contexts.sizes[chosen].mean()),
            "dev_valid_mass": float(p_gen.sum(-1).mean()),
            "dev_dead_group_rate": float(dead.mean()),
        }
        if contexts.correct is not None:
            record["dev_accuracy"] = float(contexts.correct[rows, chosen].mean())
        return record

    def save(self, path: str | os.PathLike) -> None:
        """Write `config.json` (unless a run has written its own) and the adapter to the folder `path`."""
        self.write_config(path)
        self.policy.save_adapter(Path(path) / "adapter")

    @classmethod
    def load(cls, path: str | os.PathLike, **overrides: Any) -> BanditLearner:
        """Read what `save` wrote; `overrides` replace configuration fields.

        Raises:
            RunError: no run folder, one of another agent, or one that never finished.
        """
        stored = cls.stored_config(path)
        if not (Path(path) / "adapter").is_dir():
            raise RunError(f"{path} has no adapter yet: the run did not finish; continue it with --resume")
        learner = cls(stored | overrides | {"init": None})
        learner.policy.load_adapter(Path(path) / "adapter")
        return learner


def batch_indices(n: int, size: int, seed: int, update: int) -> np.ndarray:
    """Indices of the questions of an update: consecutive pieces of one fresh permutation per pass.

    Args:
        n: number of questions.
        size: questions per update.
        seed: seed of the permutations.
        update: number of the update, from 0.
    """
    positions = np.arange(update * size, (update + 1) * size)
    orders = {epoch: np.random.default_rng([seed, epoch]).permutation(n) for epoch in np.unique(positions // n)}
    return np.array([orders[position // n][position % n] for position in positions])
