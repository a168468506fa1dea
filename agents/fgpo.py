"""FGPO: the exact policy gradient over all tool subsets (arXiv 2609.10221).

With n tools there are 2ⁿ actions. Their rewards stand in an exhaustive table, their log-probabilities come from one
packed pass, so the expected reward is a sum, not a sample:

    ℓ(a|s) = mean_t log π(y_{a,t} | s, y_{a,<t})        q(·|s) = softmax(ℓ / temperature)
    J = E_s[ Σ_a q(a|s) r(s,a) + β H(q) ]  (+ γ log Σ_a p_gen(a|s), the mass anchor; not in the paper)

Why the anchor: q only sees ratios between candidates. Nothing in J keeps the probability of writing *any* of them, and
at large step sizes free generation forgets the format while controlled decoding looks fine.
"""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field

from .bandit_learner import BanditConfig, BanditLearner, Contexts
from .losses import exact_objective, valid_mass


class FGPOConfig(BanditConfig):
    """FGPO's own fields. Defaults are the paper's: no anchor, temperature 1, all subsets."""

    entropy: float = Field(0.03, ge=0, description="β, weight of the entropy of q.")
    temperature: float = Field(1.0, gt=0, description="Temperature of q; small models need less than 1.")
    subset_size: int | None = Field(None, ge=2, description="k: actions drawn per visit for q; None means all.")
    mass_anchor: float = Field(0.0, ge=0, description="γ, weight of log p_gen(any candidate); 0 is the paper's.")


class FGPO(BanditLearner):
    """Learner with the exact objective. See `FGPOConfig` for its fields.

    Spends 2ⁿ reasoner calls per question once, for the table, however long it trains.
    """

    name = "fgpo"
    config_class = FGPOConfig
    config: FGPOConfig

    def update(self, contexts: Contexts, batch: np.ndarray, generator: torch.Generator) -> dict[str, float]:
        """One step on −(J + anchor), averaged over the batch."""
        scored = self.policy.score([contexts.prompts[i] for i in batch], grad=True)
        self.count(scored_tokens=scored.tokens)
        assert contexts.rewards is not None
        self.spent["reasoner_calls"] = contexts.rewards.size  # the whole table, once
        rewards = torch.as_tensor(contexts.rewards[batch]).to(scored.sums)
        subset = self._draw_subset(rewards, generator)
        exact = exact_objective(scored.mean, rewards, self.config.temperature, subset)
        log_mass = valid_mass(scored.sums)
        gain = exact.expected_reward + self.config.entropy * exact.entropy + self.config.mass_anchor * log_mass
        parts = {
            "objective": gain,
            "expected_reward": exact.expected_reward,
            "entropy": exact.entropy,
            "valid_mass": log_mass.exp(),
        }
        record = {name: float(value.detach().mean()) for name, value in parts.items()}
        return record | {"gradient_norm": self.step(-gain.mean())}

    def _draw_subset(self, rewards: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
        """The k-subset dial: (questions, actions) bool with k uniformly drawn actions a row, or None for all."""
        if self.config.subset_size is None or self.config.subset_size >= rewards.shape[1]:
            return None
        order = torch.rand(rewards.shape, generator=generator).argsort(-1)
        return (order < self.config.subset_size).to(rewards.device)
