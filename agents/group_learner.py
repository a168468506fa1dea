"""Reinforcement learning on groups of episodes, with any estimator of credit (`agents.estimators`).

One update: sample G episodes of each of some tasks with the present weights; let the estimator give every sampled token
an advantage; make PPO-clip steps on mini-batches of these episodes, perhaps several times over. With ρ_t = π/π_old,

    loss = −Σ_t w_t min(ρ_t A_t, clip(ρ_t, 1 ± ε) A_t) + kl · Σ_t w_t (e^{d_t} − d_t − 1),   d_t = log π_ref − log π

where the aggregation chooses the weights w_t of a mini-batch's sampled tokens: `token_mean` 1/(all tokens),
`sequence_mean` 1/(episodes · tokens of the episode), `constant` 1/(episodes · `constant_length`). The weights do not
depend on advantages, and every sampled token counts, also those whose advantage is 0.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from ..errors import ConfigError, UsageError
from ..runs import JsonLines
from . import planning
from .backends import Backend
from .backends.vllm import VLLMBackend
from .bandit_learner import batch_indices
from .chat_learner import ChatLearner, log, task_ids
from .chat_policy import Reference
from .checkpoint import TRAJECTORIES
from .collected import Rollouts
from .distributed import processes
from .episode_metrics import SEGMENTS, describe_rollouts, mean_advantages
from .estimators import Advantages, Group, estimator, summarise
from .exact_choices import CreditedChoice
from .group_config import GroupConfig
from .losses import kl_terms, ppo_terms
from .rollout import RolloutEngine
from .sequence_logprobs import Batch, pad_batch
from .supplements import SUPPLIED, Supplements
from .trajectory import Segment, Trajectory

#: What rollouts offer to estimators, whatever the environment scores.
OFFERED = ("trainable", "step", "segment", "logprobs", "anchors", "step_reward:total", *SUPPLIED)

#: What of a supplement's counts adds to what learning has spent.
COSTS = ("branch_episodes", "branch_tokens", "scored_tokens")

#: After so many updates in a row without any advantage there is a warning.
STILL = 5

#: Mean |log π − log π_old| of tokens that the very same weights sampled; more means that others sampled them.
SAME_POLICY = 0.1


@dataclass(frozen=True)
class Credited:
    """An episode, the advantages of its tokens, and what the policies said about them.

    Attributes:
        trajectory: the episode, T tokens.
        advantages: (T,) float.
        old: (T,) log π_old.
        reference: (T,) log π_ref; None without a KL term.
        cap: (T,) weights that correct for a sampler that differs from the trainer; 1 where it does not.
        choices: names that are credited in expectation instead of the drawn one.
    """

    trajectory: Trajectory
    advantages: np.ndarray
    old: np.ndarray
    reference: np.ndarray | None
    cap: np.ndarray
    choices: tuple[CreditedChoice, ...] = ()


class GroupLearner(ChatLearner):
    """Group-relative policy optimisation of conversations. See `GroupConfig` for its fields."""

    name = "group"
    config_class = GroupConfig
    config: GroupConfig

    @property
    def backend(self) -> Backend:
        """Who samples: this process, or the vLLM server of the configuration."""
        if self._backend is None and self.config.backend == "vllm":
            self._backend = self._server()
        return super().backend

    def _server(self) -> VLLMBackend:
        vllm, folder = self.config.vllm, self.config.vllm.folder or (self.out and self.out / "adapters")
        if vllm.url is None or folder is None or self.config.policy.weights != "lora":
            raise ConfigError(
                f"backend=vllm with vllm.url={vllm.url!r}, vllm.folder={vllm.folder!r}, run folder {self.out}, "
                f"policy.weights={self.config.policy.weights!r}: it needs the server's URL, a folder for adapters or a "
                "run folder, and policy.weights=lora, since adapters are what a server can be sent"
            )
        options = vllm.model_dump(include={"tolerance", "timeout", "api_key_env"})
        return VLLMBackend(self.policy, vllm.url, folder, slots=self.config.slots, **options)

    @classmethod
    def load(cls, path: str | os.PathLike, **overrides: Any) -> ChatLearner:
        """Read what `save` wrote, to sample in this process; `overrides` replace configuration fields."""
        return super().load(path, **{"backend": "local", **overrides})

    def prepare(self, env: gym.Env) -> None:
        """Make the rollout engine and the reference, and refuse an estimator that the rollouts cannot serve."""
        config = self.config
        self.estimator = estimator(config.estimator, **config.options)
        needs = self.estimator.needs
        scores = {need for need in needs if need.startswith("reward:") or need == "omitted"}  # the environment's, later
        self.estimator.check({*OFFERED, *(f"step_reward:{name}" for name in config.at_end), *scores})
        self.rollouts: RolloutEngine = self.engine(env)
        self.tasks = task_ids(self.rollouts)
        self.supplements = Supplements(self.rollouts, self.policy.model, self.estimator, config)
        self.reference: Reference | None = self.policy.reference() if config.kl > 0 else None
        kind = "none, the KL term is off" if self.reference is None else self.reference.kind
        log.info("%s: KL reference: %s", self.name, kind)
        self._still = 0
        self._record = None
        if self.out is not None and config.keep_trajectories and processes().is_main:
            self._record = JsonLines(self.out / TRAJECTORIES)

    # ---------------------------------------------------------------------------------------------- an update

    def update(self, number: int) -> dict[str, Any]:
        """Sample, give credit, learn."""
        progress = number / self.total_updates
        collected, credit = self._collect(number, progress)
        groups = [group for rollouts in collected for group in rollouts if len(group) > 1]
        self._notice_stillness(credit)
        record = {
            "phase": self.name,
            **describe_rollouts(collected),
            **mean_advantages(groups, credit),
            **summarise(credit),
            **self._supplied(),
        }
        kept = [
            (trajectory, tokens)
            for group, own in zip(groups, credit, strict=True)
            if own.keep
            for trajectory, tokens in zip(group, own.tokens, strict=True)
        ]
        if not kept:
            return record | {"steps": 0}
        return record | self._learn(self._credited(kept), number)

    def _collect(self, number: int, progress: float) -> tuple[list[Rollouts], list[Advantages]]:
        """Groups of the update's tasks; of further ones for groups that the estimator does not keep."""
        config = self.config
        order = batch_indices(len(self.tasks), config.tasks_per_update, config.seed, number)
        tasks = [self.tasks[i] for i in order]
        drawn = set(tasks)
        collected: list[Rollouts] = []
        credit: list[Advantages] = []
        self.supplements.forget()
        for draw in range(config.redraws + 1):
            seed, further_seed = np.random.SeedSequence([config.seed, number, draw]).generate_state(2).tolist()
            rollouts = self.rollouts.collect(
                tasks,
                config.group_size,
                seed=seed,
                temperature=config.temperature,
                max_new_tokens=config.max_new_tokens,
            )
            if f"reward:{planning.COMPONENT}" in self.estimator.needs:
                rollouts = replace(rollouts, groups=[planning.with_planning(group) for group in rollouts])
            collected.append(rollouts)
            groups = [group for group in rollouts if len(group) > 1]
            credit += self.supplements.credit(groups, partial(self.estimate, progress=progress), further_seed)
            missing = config.tasks_per_update - sum(own.keep for own in credit)
            if missing < 1:
                break
            further = np.random.default_rng([config.seed, number, draw + 1])
            others = [task for task in self.tasks if task not in drawn] or self.tasks
            tasks = [others[i] for i in further.choice(len(others), min(missing, len(others)), False)]
            drawn |= set(tasks)
        for rollouts in collected:
            self._check_version(rollouts, number)
            self.count(episodes=rollouts.stats["episodes"], sampled_tokens=rollouts.stats.get("sampled_tokens", 0))
            if self._record is not None:
                for t in (t for group in rollouts for t in group):
                    self._record.append({"update": number + 1, **t.to_json()})
        return collected, credit

    def _notice_stillness(self, credit: Sequence[Advantages]) -> None:
        """Warn where nothing has been learned for a while: alone, the numbers of the log look like a calm run."""
        moved = any(array.any() for own in credit for array in (*own.tokens, *own.choices))
        self._still = 0 if moved else self._still + 1
        if self._still == STILL:
            log.warning(
                "no episode of the last %d updates had an advantage, so nothing but the KL is learned: all members of "
                "each group earn alike. Are episodes cut before they are scored (max_new_tokens, max_turns)? Else "
                "raise the temperature or group_size, or start from an `init` that earns something",
                STILL,
            )

    def _supplied(self) -> dict[str, float]:
        """What supplements of an update were like; what they cost is added to what was spent."""
        counts = self.supplements.take_counts()
        self.count(**{name: amount for name, amount in counts.items() if name in COSTS})
        return {name: amount for name, amount in counts.items() if not name.endswith("_tokens")}

    def _check_version(self, rollouts: Rollouts, number: int) -> None:
        versions = {t.policy_version for group in rollouts for t in group}
        if not versions <= {number}:
            raise UsageError(f"rollouts of the policy versions {sorted(versions)} for update {number}: not on-policy")

    def estimate(self, trajectories: Sequence[Trajectory], progress: float = 0.0, **further: Any) -> Advantages:
        """Advantages of one group; `further` are fields of `Group` that the trajectories alone do not give.

        Raises:
            CapabilityError: the estimator needs what rollouts do not have.
        """
        anchors = [[_anchor(t, step) for step in range(len(t.turns))] for t in trajectories]
        group = Group.from_trajectories(trajectories, anchors=anchors, **further)
        for component, where in self.config.at_end.items():
            group = group.at_last_step(component, SEGMENTS.get(where))
        return self.estimator(group, progress=progress)

    def _credited(self, kept: Sequence[tuple[Trajectory, np.ndarray]]) -> list[Credited]:
        """Add what the policy that sampled and the reference say."""
        trajectories = [t for t, _ in kept]
        references: Sequence[np.ndarray | None] = [None] * len(kept)
        if self.reference is not None:
            with self.reference.active():
                references = self._scores(trajectories)
        if self.config.old_logprobs == "sampled":
            old = [t.logprobs for t in trajectories]
            caps = [np.ones(len(t), np.float32) for t in trajectories]
        else:
            old = self._scores(trajectories)
            ratios = [np.exp(own - t.logprobs) for own, t in zip(old, trajectories, strict=True)]
            caps = [np.minimum(ratio, self.config.ratio_cap) for ratio in ratios]
        columns = zip(kept, old, references, caps, strict=True)
        return [
            Credited(t, advantages, own, other, cap, self.supplements.choices_of(t))
            for (t, advantages), own, other, cap in columns
        ]

    def _scores(self, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
        """Log-probabilities of the sampled tokens under the active weights."""
        parts = processes().gather(lambda: self._own_scores(processes().share(trajectories)))
        self.count(scored_tokens=sum(tokens for _, tokens in parts))
        return [row for rows, _ in parts for row in rows]

    @torch.no_grad()
    def _own_scores(self, trajectories: Sequence[Trajectory]) -> tuple[list[np.ndarray], int]:
        """The same of this process's share, and how many tokens went through the model."""
        found: list[np.ndarray] = []
        tokens = 0
        size = self.config.micro_batch
        for first in range(0, len(trajectories), size):
            batch = pad_batch(trajectories[first : first + size], self.policy.local.device)
            scores = self.policy.score(batch, chunk=self.config.chunk)
            tokens += scores.tokens
            rows = scores.logprobs.float().cpu().numpy()
            found += [row[:length] for row, length in zip(rows, batch.lengths.tolist(), strict=True)]
        return found, tokens

    def _learn(self, episodes: list[Credited], number: int) -> dict[str, Any]:
        """Optimiser steps on mini-batches; the means of what they report."""
        config = self.config
        size = config.mini_batch or len(episodes)
        order = np.random.default_rng([config.seed, number, 2**31])
        reports: list[dict[str, float]] = []
        record: dict[str, Any] = {}
        for epoch in range(config.epochs):
            # Members of a group begin alike and stay neighbours in the one mini-batch that holds all.
            permutation = order.permutation(len(episodes)) if size < len(episodes) else np.arange(len(episodes))
            for first in range(0, len(episodes), size):
                chosen = [episodes[i] for i in permutation[first : first + size]]
                if not reports and config.probe_every and number % config.probe_every == 0:
                    record |= self.probe(chosen)
                report = self.accumulate(chosen)
                if not reports:
                    self._check_same_policy(report["sampler_difference"])
                    record["sampler_difference"] = report["sampler_difference"]
                report["gradient_norm"] = self.step()
                reports.append(report | {"epoch": epoch})
        means = {
            name: float(np.mean([report[name] for report in reports]))
            for name in ("loss", "clipped", "ratio_mean", "entropy", "gradient_norm", *(["kl"] if config.kl else []))
        }
        record["ratio_max"] = max(report["ratio_max"] for report in reports)
        return {**means, **record, "steps": len(reports)}

    def _check_same_policy(self, difference: float) -> None:
        """The canary: the weights that are trained are those that sampled (fault 14 of such toolkits)."""
        if difference > SAME_POLICY and self.config.old_logprobs == "sampled":
            raise UsageError(
                f"the trained weights give sampled tokens log-probabilities that differ by {difference:.3g} on average "
                "from those they were sampled with: another policy sampled, or in another precision; set dtype=float32 "
                "or old_logprobs=recomputed"
            )

    def accumulate(self, episodes: Sequence[Credited], segment: Segment | None = None) -> dict[str, float]:
        """Add the gradient of a mini-batch's loss, of this process's share of it, to the weights' gradients.

        Args:
            episodes: the mini-batch.
            segment: only the policy-gradient terms of this segment's tokens, for probes; weights as in the whole loss.

        Returns:
            `loss`, `kl`, `entropy` (means over tokens), `ratio_mean`, `ratio_max`, `clipped` (share of tokens), and
            `sampler_difference`, the mean |log π − log π_sampled|; all of the whole mini-batch.
        """
        config = self.config
        tokens = sum(int(e.trajectory.trainable.sum()) for e in episodes)
        names = ("loss", "kl", "entropy", "ratio_mean", "clipped", "sampler_difference", "trained_tokens")
        sums = dict.fromkeys(names, 0.0)
        largest = 0.0
        own_episodes = processes().share(episodes)
        for first in range(0, len(own_episodes), config.micro_batch):
            part = own_episodes[first : first + config.micro_batch]
            batch = pad_batch([e.trajectory for e in part], self.policy.local.device)
            scores = self.policy.score(batch, chunk=config.chunk)
            sums["trained_tokens"] += scores.tokens
            weights = self._weights(batch, tokens, len(episodes))
            if segment is not None:
                weights = weights * (batch.segment == segment)
            old = batch.padded([e.old for e in part])
            advantages = batch.padded([e.advantages * e.cap for e in part])
            surrogate, ratio = ppo_terms(scores.logprobs, old, advantages, batch.trainable, config.clip)
            loss = -(surrogate * weights).sum()
            if segment in (None, Segment.TOOL):
                own_choices = [(e.trajectory, e.choices) for e in part]
                gain, more = self.supplements.objective(own_choices, weights, config.clip)
                loss = loss - gain
                sums["trained_tokens"] += more
            if segment is None and config.kl:
                reference = batch.padded([e.reference for e in part if e.reference is not None])
                kl = kl_terms(scores.logprobs, reference, batch.trainable)
                loss = loss + config.kl * (kl * weights).sum()
                sums["kl"] += float(kl.detach().sum()) / tokens
            loss.backward()
            own = ratio.detach()[batch.trainable]
            moved = scores.logprobs.detach()[batch.trainable] - batch.logprobs[batch.trainable]
            sums["loss"] += float(loss.detach())
            sums["entropy"] += float(scores.entropy.sum()) / tokens
            sums["ratio_mean"] += float(own.sum()) / tokens
            sums["clipped"] += float(((own - 1).abs() > config.clip).sum()) / tokens
            sums["sampler_difference"] += float(moved.abs().sum()) / tokens
            largest = max(largest, float(own.max()))
        report = processes().sums(sums)
        self.count(trained_tokens=int(report.pop("trained_tokens")))
        return report | {"ratio_max": max(processes().gather(lambda: largest))}

    def _weights(self, batch: Batch, tokens: int, episodes: int) -> torch.Tensor:
        """(B, T) weights of the tokens in the loss; 0 on what was not sampled."""
        mask = batch.trainable.float()
        if self.config.aggregation == "token_mean":
            return mask / tokens
        if self.config.aggregation == "constant":
            return mask / (episodes * self.config.constant_length)
        return mask / (episodes * mask.sum(-1, keepdim=True))

    # ------------------------------------------------------------------------------------------- telemetry

    def probe(self, episodes: Sequence[Credited]) -> dict[str, float]:
        """Gradient norm of each segment's policy-gradient terms, and their cosine; the weights' gradients stay empty.

        The paper's question (arXiv 2609.29050): do the two segments pull the shared weights apart? A segment without
        gradient has norm 0 and no cosine.
        """
        gradients = {name: self.segment_gradient(episodes, segment) for name, segment in SEGMENTS.items()}
        norms = {name: float(gradient.norm()) for name, gradient in gradients.items()}
        record = {f"gradient_norm/{name}": norm for name, norm in norms.items()}
        if all(norms.values()):
            dot = float(gradients["tool"] @ gradients["summary"])
            record["gradient_cosine"] = dot / (norms["tool"] * norms["summary"])
        return record

    def segment_gradient(self, episodes: Sequence[Credited], segment: Segment) -> torch.Tensor:
        """(weights,) gradient of the loss's policy-gradient terms on the tokens of one segment."""
        self.accumulate(episodes, segment)
        parameters = self.policy.trainable_parameters().values()
        processes().sum_gradients(parameters)
        gradient = torch.cat(
            [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
        )
        self.optimizer.zero_grad(set_to_none=True)
        return gradient


def _anchor(trajectory: Trajectory, step: int) -> bytes:
    """A key of all that the policy saw before a step: equal keys, equal states."""
    return trajectory.ids[: int((trajectory.step == step).argmax())].tobytes()
