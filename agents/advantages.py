"""Advantage estimators: pure functions of rewards. Shapes and sources stand in each docstring."""

from __future__ import annotations

import numpy as np


def group_normalised(rewards: np.ndarray, ddof: int = 0, eps: float = 1e-4, scale: bool = True) -> np.ndarray:
    """GRPO's advantage: (r − mean) / (std + eps) inside each group (arXiv 2402.03300, Sec. 4.1.2).

    Args:
        rewards: (…, group) float; the last axis is the group.
        ddof: 0 is the population standard deviation of the formula; 1 the unbiased one that verl and TRL use.
        eps: added to the standard deviation (TRL: 1e-4, verl: 1e-6).
        scale: False leaves out the division (Dr.GRPO, arXiv 2503.20783).

    Returns:
        (…, group) float64. A group whose rewards are all equal gets exactly 0, whatever rounding says: a dead group.

    Raises:
        ValueError: a reward is not finite, or the group is smaller than ddof + 1.
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    if not np.isfinite(rewards).all():
        raise ValueError("rewards must be finite; leave failed rollouts out of the group")
    if rewards.shape[-1] <= ddof:
        raise ValueError(f"a group of {rewards.shape[-1]} has no standard deviation with ddof={ddof}")
    dead = is_dead(rewards)[..., None]
    centred = rewards - rewards.mean(axis=-1, keepdims=True)
    if scale:
        spread = rewards.std(axis=-1, ddof=ddof, keepdims=True)
        centred = centred / (np.where(dead, 1.0, spread) + eps)
    return np.where(dead, 0.0, centred)


def is_dead(rewards: np.ndarray) -> np.ndarray:
    """Whether all rewards of a group are equal: (…, group) float → (…) bool. Such a group has no gradient."""
    rewards = np.asarray(rewards)
    return (rewards == rewards[..., :1]).all(axis=-1)
