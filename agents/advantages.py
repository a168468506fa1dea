"""Group-relative normalisation, the primitive of the estimators: pure functions of rewards.

The estimators themselves stand in `agents.estimators`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..errors import UnknownNameError
from .dead_groups import SAME_REWARD

EPS = 1e-6
"""Added to the standard deviation (arXiv 2609.29050)."""

SIGMA_FLOOR = 1e-3
"""Least standard deviation: what rewards differ by through rounding must not become a large advantage."""

BASELINES = ("mean", "leave_one_out")


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
    """Whether all rewards of a group are equal up to 1e-9: (…, group) float → (…) bool. It has no gradient then."""
    rewards = np.asarray(rewards, dtype=np.float64)
    return rewards.max(axis=-1) - rewards.min(axis=-1) <= SAME_REWARD


def filtered_advantages(
    rewards: ArrayLike, counted: ArrayLike, *, scale: bool = True, baseline: str = "mean"
) -> np.ndarray:
    """(r_i − b_i) / (σ + ε) where only some members of the group count (arXiv 2609.29050, presence filter).

    b_i is the mean of the counted members (arXiv 2402.03300) or, for `leave_one_out`, of the other counted members
    (arXiv 2402.14740); σ is their unbiased standard deviation, at least `SIGMA_FLOOR`; ε is `EPS`.

    Args:
        rewards: (group,) float, in units of reward. What is not counted may be NaN.
        counted: (group,) bool.
        scale: divide by σ + ε; without, the advantage stays in units of reward.
        baseline: one of `BASELINES`.

    Returns:
        (group,) float64; 0 for members that do not count, for all if fewer than two count, and for all if the
        counted rewards are equal.
    """
    if baseline not in BASELINES:
        raise UnknownNameError("baseline", baseline, BASELINES)
    rewards, counted = np.asarray(rewards, dtype=np.float64), np.asarray(counted, dtype=bool)
    advantages = np.zeros(rewards.shape)
    kept = rewards[counted]
    if len(kept) < 2 or is_dead(kept):
        return advantages
    centred = kept - kept.mean()
    if baseline == "leave_one_out":
        centred *= len(kept) / (len(kept) - 1)
    advantages[counted] = centred / deviation(kept) if scale else centred
    return advantages


def deviation(rewards: np.ndarray) -> float:
    """max(σ, floor) + ε of at least two rewards, σ unbiased: what advantages are divided by."""
    return max(float(rewards.std(ddof=1)), SIGMA_FLOOR) + EPS
