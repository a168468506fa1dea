"""Estimators that give all tokens of a rollout one advantage: GRPO, RLOO, Dr.GRPO, DAPO's dynamic sampling.

They need nothing but a reward. Units: standard deviations of the group's reward, or the reward's own without scaling.
"""

from __future__ import annotations

from dataclasses import replace

from .group import Advantages, Group, normalise


def grpo(group: Group, *, reward: str = "total", scale: bool = True, baseline: str = "mean") -> Advantages:
    """GRPO: Â_i = (R_i − mean R) / (σ + ε) on all policy tokens (arXiv 2402.03300, Sec. 4.1.2).

    Biased: σ is computed from the same rewards that it divides.

    Args:
        group: G rollouts.
        reward: component.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
    """
    scalars, channel = normalise(group, group.reward(reward), scale=scale, baseline=baseline)
    return Advantages(group.spread(scalars), {"episode": channel})


def rloo(group: Group, *, reward: str = "total") -> Advantages:
    """RLOO: Â_i = R_i − mean_{j≠i} R_j on all policy tokens (arXiv 2402.14740). Unbiased for E[R].

    Args:
        group: G rollouts.
        reward: component.
    """
    return grpo(group, reward=reward, scale=False, baseline="leave_one_out")


def dr_grpo(group: Group, *, reward: str = "total") -> Advantages:
    """Dr.GRPO: Â_i = R_i − mean R on all policy tokens (arXiv 2503.20783).

    (1 − 1/G) times the unbiased gradient, if the loss also divides by a constant instead of lengths.

    Args:
        group: G rollouts.
        reward: component.
    """
    return grpo(group, reward=reward, scale=False)


def dapo(group: Group, *, reward: str = "total", scale: bool = True, baseline: str = "mean") -> Advantages:
    """DAPO's dynamic sampling: GRPO that keeps no group whose rewards are all equal (arXiv 2503.14476).

    The learner draws other tasks in its place. A group that is not kept has no KL term either.

    Args:
        group: G rollouts.
        reward: component.
        scale: divide by σ, unbiased, ε = 1e-6.
        baseline: `mean` or `leave_one_out`.
    """
    advantages = grpo(group, reward=reward, scale=scale, baseline=baseline)
    return replace(advantages, keep=not advantages.channels["episode"].dead)
