"""Dead groups: how often a sampled group earns one reward throughout and teaches a group-relative learner nothing.

Closed form, from the generation-induced distribution `p_gen` (what a sampler draws, not the renormalised q over
candidate strings): `P_dead(s) = Σ_v ( Σ_{a: r(s,a)=v} p_gen(a|s) )^G` (arXiv 2609.10221). The mass that `p_gen` leaves
to malformed completions is one more class, whatever its reward: its members share one among themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..errors import UsageError

SAME_REWARD = 1e-9
"""Rewards closer than this are one class: they differ by rounding only."""

_MASS_SLACK = 1e-4  # float32 probabilities of some hundred strings may sum to a little more than one


def dead_group_rate(p_gen: ArrayLike, rewards: ArrayLike, group_size: int) -> np.ndarray:
    """Probability per question that all `group_size` samples fall into one reward class; its mean is the run's figure.

    Args:
        p_gen: (questions, actions) probability of generating each action's string; a row may sum to less than one, the
            rest is malformed.
        rewards: (questions, actions) reward of each action.
        group_size: samples per question, G ≥ 1. A group of one is always dead.

    Returns:
        (questions,) float in [0, 1].
    """
    if group_size < 1:
        raise UsageError(f"group_size must be at least 1, got {group_size}")
    return (class_masses(p_gen, rewards) ** group_size).sum(axis=1)


def dead_group_curve(p_gen: ArrayLike, rewards: ArrayLike, group_sizes: ArrayLike = (2, 4, 6, 8)) -> dict[int, float]:
    """Mean dead-group rate over questions for a grid of group sizes.

    Args:
        p_gen: (questions, actions), as for `dead_group_rate`.
        rewards: (questions, actions).
        group_sizes: the values of G.
    """
    sizes = [int(size) for size in np.atleast_1d(group_sizes)]
    return {size: float(dead_group_rate(p_gen, rewards, size).mean()) for size in sizes}


def class_masses(p_gen: ArrayLike, rewards: ArrayLike) -> np.ndarray:
    """Probability of each reward class per question.

    Returns:
        (questions, actions + 1) float: classes in ascending order of reward, padded with zeros; the last column is the
        malformed mass. Rows sum to one.
    """
    p, r = np.asarray(p_gen, dtype=float), np.asarray(rewards, dtype=float)
    if p.ndim != 2 or p.shape != r.shape or p.size == 0:
        raise UsageError(f"expected two (questions, actions) arrays of one shape, got {p.shape} and {r.shape}")
    if not np.isfinite(r).all():
        raise UsageError("a reward is not finite: leave out questions with failed outcomes")
    total = p.sum(axis=1)
    if not (p >= 0).all() or not (total <= 1 + _MASS_SLACK).all():
        raise UsageError(f"p_gen must be non-negative with rows summing to at most 1, got sums up to {total.max():.6g}")
    p = p / np.maximum(total, 1.0)[:, None]
    order = np.argsort(r, axis=1, kind="stable")
    ordered = np.take_along_axis(r, order, axis=1)
    label = np.zeros(r.shape, dtype=int)
    label[:, 1:] = np.cumsum(np.diff(ordered, axis=1) > SAME_REWARD, axis=1)
    masses = np.zeros((r.shape[0], r.shape[1] + 1))
    np.add.at(masses, (np.arange(len(r))[:, None], label), np.take_along_axis(p, order, axis=1))
    masses[:, -1] = np.maximum(0.0, 1.0 - p.sum(axis=1))
    return masses


def outcome_degenerate(correct: ArrayLike) -> np.ndarray:
    """Which questions give the same correctness under every action: no choice of tools matters there.

    Args:
        correct: (questions, actions) bool.

    Returns:
        (questions,) bool.
    """
    c = np.asarray(correct, dtype=bool)
    if c.ndim != 2:
        raise UsageError(f"expected a (questions, actions) array, got shape {c.shape}")
    return np.asarray(c.all(axis=1) | ~c.any(axis=1))
