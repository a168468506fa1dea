"""GRPO: the sampled baseline on the same environment, prompts and policy (arXiv 2402.03300).

Per question, G completions are sampled from the policy's own generation, scored by stepping the environment, normalised
inside the group and pushed with the clipped surrogate. Completions that are no action form one class of their own. When
all rewards of a group are equal its advantages are zero and the question teaches nothing: a dead group, logged as
`observed_dead` beside the closed form.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from pydantic import Field

from .advantages import group_normalised, is_dead
from .bandit_learner import BanditConfig, BanditLearner, Contexts
from .losses import kl_low_variance, ppo_clip
from .policy.sampling import Sample


class GRPOConfig(BanditConfig):
    """GRPO's own fields. Group size and temperature are the paper's; it does not give a KL coefficient."""

    group_size: int = Field(6, ge=2, description="G: completions per question.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature; training uses the same.")
    sampler: Literal["generate", "tree"] = Field(
        "generate",
        description="`generate` decodes freely; `tree` walks the candidate strings and stops at the first other token.",
    )
    max_new_tokens: int = Field(16, ge=1, description="Longest completion of the sampler `generate`.")
    ddof: Literal[0, 1] = Field(0, description="0: population standard deviation (paper); 1: unbiased (verl, TRL).")
    eps: float = Field(1e-4, gt=0, description="Added to the standard deviation.")
    scale: bool = Field(True, description="False leaves out the division by the standard deviation (Dr.GRPO).")
    clip: float = Field(0.2, gt=0, description="Half-width of the clipped ratio.")
    inner_epochs: int = Field(1, ge=1, description="Optimiser steps on each batch of samples.")
    kl: float = Field(0.0, ge=0, description="Weight of the KL to the adapter after the warm-up; 0 needs no reference.")


class GRPO(BanditLearner):
    """Learner with sampled groups. See `GRPOConfig` for its fields."""

    name = "grpo"
    config_class = GRPOConfig
    needs_table = False
    config: GRPOConfig

    def update(self, contexts: Contexts, batch: np.ndarray, generator: torch.Generator) -> dict[str, float]:
        """Sample a group per question, then `inner_epochs` clipped steps on it."""
        prompts = [contexts.prompts[i] for i in batch]
        samples = self._sample(prompts, generator)
        actions = [[self._action(sample) for sample in group] for group in samples]
        rewards = np.array([self._rewards(contexts.ids[i], group) for i, group in zip(batch, actions, strict=True)])
        advantages = group_normalised(rewards, self.config.ddof, self.config.eps, self.config.scale)
        record = {
            "reward": float(rewards.mean()),
            "observed_dead": float(is_dead(rewards).mean()),
            "malformed": float(np.mean([action is None for group in actions for action in group])),
            "truncated": float(np.mean([sample.truncated for group in samples for sample in group])),
        }
        self.count(sampled_tokens=sum(len(sample.ids) for group in samples for sample in group))
        reference = self._reference_logprobs(prompts, samples)
        old = None
        for _ in range(self.config.inner_epochs):
            paths = self.policy.path_logprobs(prompts, samples, temperature=self.config.temperature)
            self.count(scored_tokens=paths.tokens)
            if old is None:
                old = paths.logprobs.detach()
                # E[−log p(y)] over the policy's own samples: the entropy of its completions, in nats
                record["entropy"] = -float((old * paths.scored).sum(-1).mean())
            weights = torch.as_tensor(advantages.reshape(-1)).to(paths.logprobs)
            loss, stats = ppo_clip(paths.logprobs, old, weights, paths.scored, self.config.clip)
            if reference is not None:
                divergence = kl_low_variance(paths.logprobs, reference, paths.scored)
                loss = loss + self.config.kl * divergence
                stats["kl"] = float(divergence.detach())
            record |= {"loss": float(loss.detach()), "gradient_norm": self.step(loss)} | stats
        return record

    def _sample(self, prompts: list[list[int]], generator: torch.Generator) -> list[list[Sample]]:
        group, temperature = self.config.group_size, self.config.temperature
        if self.config.sampler == "tree":
            return self.policy.sample(prompts, group, temperature=temperature, generator=generator)
        longest = self.config.max_new_tokens
        return self.policy.generate(
            prompts, group, max_new_tokens=longest, temperature=temperature, generator=generator
        )

    def _action(self, sample: Sample) -> int | None:
        """The action of a completion. Another tokenisation of an action's text is that action all the same."""
        if sample.candidate is not None:
            return sample.candidate
        assert self._bandit is not None
        return self._bandit.parse_action(self.policy.decode(sample.ids))

    def _rewards(self, question_id: str, actions: list[int | None]) -> list[float]:
        """Rewards of a group, by stepping the environment once per well-formed completion, as a sampler does."""
        assert self._bandit is not None
        rewards = []
        for action in actions:
            if action is None:
                rewards.append(self._bandit.malformed_reward)
                continue
            self.env.reset(options={"question_id": question_id})
            rewards.append(float(self.env.step(action)[1]))
            self.count(reasoner_calls=1)
        return rewards

    def _reference_logprobs(self, prompts: list[list[int]], samples: list[list[Sample]]) -> torch.Tensor | None:
        """Log-probabilities under the adapter after the warm-up; None without a KL term."""
        if self.config.kl == 0:
            return None
        with torch.no_grad(), self.policy.using(self.warm_state):
            return self.policy.path_logprobs(prompts, samples, grad=False, temperature=self.config.temperature).logprobs
