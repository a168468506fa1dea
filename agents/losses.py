"""Objectives as pure functions of tensors: the exact one of FGPO, the sampled one of GRPO, and KL estimates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ExactObjective:
    """The exact objective of a batch and its parts, each (questions,) float.

    Attributes:
        expected_reward: Σ_a q(a|s) r(s,a).
        entropy: H(q) in nats.
        q: (questions, actions) the candidate distribution.
    """

    expected_reward: Tensor
    entropy: Tensor
    q: Tensor


def candidate_distribution(mean_logprobs: Tensor, temperature: float = 1.0) -> Tensor:
    """Log q(a|s) = log softmax_a( ℓ(a|s) / temperature ), ℓ the mean token log-probability (arXiv 2609.10221).

    Args:
        mean_logprobs: (questions, actions) ℓ.
        temperature: positive; below 1 sharpens. Small models need it, their means are flat.

    Returns:
        (questions, actions) log-probabilities.
    """
    return torch.log_softmax(mean_logprobs / temperature, dim=-1)


def exact_objective(
    mean_logprobs: Tensor, rewards: Tensor, temperature: float = 1.0, subset: Tensor | None = None
) -> ExactObjective:
    """FGPO's exact objective J = Σ_a q r and the entropy of q, per question (arXiv 2609.10221).

    Its gradient in the logits z = ℓ/temperature is ∂J/∂z_a = q_a (r_a − J) and ∂H/∂z_a = −q_a (log q_a + H).

    Args:
        mean_logprobs: (questions, actions) ℓ, differentiable.
        rewards: (questions, actions).
        temperature: of the candidate distribution.
        subset: (questions, actions) bool; q is renormalised on it (the k-subset dial). None means all actions.
    """
    if subset is not None:
        mean_logprobs = mean_logprobs.masked_fill(~subset, -torch.inf)
    log_q = candidate_distribution(mean_logprobs, temperature)
    q = log_q.exp()
    # 0·(−inf) is NaN: a left-out action contributes nothing to either sum.
    log_q = log_q.masked_fill(q == 0, 0.0)
    return ExactObjective((q * rewards).sum(-1), -(q * log_q).sum(-1), q)


def valid_mass(sum_logprobs: Tensor) -> Tensor:
    """Log Σ_a p_gen(a|s): the log of the probability that free generation writes any candidate string.

    Args:
        sum_logprobs: (questions, actions) summed token log-probabilities.

    Returns:
        (questions,) float, at most 0 up to rounding.
    """
    return torch.logsumexp(sum_logprobs, dim=-1)


def ppo_terms(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, clip: float = 0.2
) -> tuple[Tensor, Tensor]:
    """Clipped surrogate min(ρA, clip(ρ, 1 ± ε) A) of each token (arXiv 1707.06347, Eq. 7), to maximise.

    Args:
        logprobs: (rollouts, tokens) of the current policy, differentiable.
        old_logprobs: (rollouts, tokens) of the policy that sampled.
        advantages: (rollouts, tokens), or (rollouts, 1) for one scalar per rollout.
        mask: (rollouts, tokens) bool, True on sampled tokens.
        clip: half-width ε of the trust region of the ratio.

    Returns:
        The surrogate and the ratio ρ, each (rollouts, tokens); outside the mask the ratio is 1.
    """
    ratio = torch.where(mask, logprobs - old_logprobs, torch.zeros_like(logprobs)).exp()
    return torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages), ratio


def ppo_clip(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, clip: float = 0.2
) -> tuple[Tensor, dict[str, float]]:
    """Clipped surrogate, averaged over the masked tokens (arXiv 1707.06347, Eq. 7; token mean as in DAPO).

    Args:
        logprobs: (rollouts, tokens) of the current policy, differentiable.
        old_logprobs: (rollouts, tokens) of the policy that sampled.
        advantages: (rollouts,), one scalar per rollout, broadcast to its tokens.
        mask: (rollouts, tokens) bool, True on sampled tokens. The same mask is numerator and denominator.
        clip: half-width of the trust region of the ratio.

    Returns:
        The loss (to minimise) and {"ratio_max", "clipped"}; an empty mask gives loss 0.
    """
    surrogate, ratio = ppo_terms(logprobs, old_logprobs, advantages[:, None], mask, clip)
    count = mask.sum().clamp(min=1)
    clipped = ((ratio - 1).abs() > clip) & mask
    stats = {"ratio_max": float(ratio.detach().max()), "clipped": float(clipped.sum() / count)}
    return -(surrogate * mask).sum() / count, stats


def kl_terms(logprobs: Tensor, reference_logprobs: Tensor, mask: Tensor) -> Tensor:
    """exp(d) − d − 1 of each token, d = log p_ref − log p; (rollouts, tokens), 0 outside the mask. See below."""
    difference = torch.where(mask, reference_logprobs - logprobs, torch.zeros_like(logprobs))
    return difference.exp() - difference - 1


def kl_low_variance(logprobs: Tensor, reference_logprobs: Tensor, mask: Tensor) -> Tensor:
    """Mean over masked tokens of exp(d) − d − 1, d = log p_ref − log p: unbiased, never negative ("k3").

    Args:
        logprobs: (rollouts, tokens) of the current policy, differentiable.
        reference_logprobs: (rollouts, tokens) of the reference policy.
        mask: (rollouts, tokens) bool.
    """
    return (kl_terms(logprobs, reference_logprobs, mask) * mask).sum() / mask.sum().clamp(min=1)
