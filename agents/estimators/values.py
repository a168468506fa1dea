"""Estimators that need values of states: VinePPO, CARL, SPO-chain. They compare a rollout with its own prefix.

A value is the expected reward of the *whole* episode, given what happened so far. So it holds what was earned already,
and r_k + V(s_{k+1}) − V(s_k), V being the return from a state on, is the plain difference v_{k+1} − v_k.

Units: those of the reward; there is no group statistic. A member without a score, or with a value that is none, gets 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...errors import UsageError
from .group import Advantages, Channel, Group
from .requirements import requires


@requires("step", "values", components=("reward",))
def vineppo(group: Group, *, reward: str = "total") -> Advantages:
    """VinePPO: A_k = r_k + V(s_{k+1}) − V(s_k) on the tokens of step k; the last step R − V(s_K) (arXiv 2410.01679).

    The values are means over fresh rollouts from each state, nine in the paper (`monte_carlo_values`). Unbiased for
    E[R] with exact values and with Monte Carlo values that are independent of the rollout.

    Args:
        group: G rollouts; `values` holds the value before each step.
        reward: component.
    """
    return _differences(group, reward)


@requires("step", "values", components=("reward",))
def carl(group: Group, *, reward: str = "total") -> Advantages:
    """CARL's differences: A_k = v_{k+1} − v_k on the tokens of step k; the last step R − v_K (arXiv 2512.04949).

    The same differences with a critic's values: an error of the critic after a step is a bias of that step. The choice
    of critical actions in that paper is not part of it.

    Args:
        group: G rollouts; `values` holds the critic's value before each step.
        reward: component.
    """
    return _differences(group, reward)


@requires("logprobs", "cut_values", components=("reward",))
def spo_chain(group: Group, *, reward: str = "total", every: int = 5, threshold: float = 0.9) -> Advantages:
    """SPO-chain: V(next cut) − V(cut) on the tokens between two cuts, R − V(cut) after the last (arXiv 2505.23564).

    Only uncertain tokens, those with a probability below `threshold`, get it. Biased: whether a cut stands before a
    token depends on that token's own probability, so the value there is no function of the past alone.

    Args:
        group: G rollouts; `cut_values` holds the value before each of `cut_points`.
        reward: component.
        every: uncertain tokens between two cuts.
        threshold: probability below which a token is uncertain.
    """
    whole, logprobs = group.reward(reward), group.given("logprobs")
    tokens = []
    for i, (mask, given) in enumerate(zip(group.trainable, group.given("cut_values"), strict=True)):
        values = np.asarray(given, np.float64)
        cuts = cut_points(logprobs[i], mask, every, threshold)
        if len(cuts) != len(values):
            raise UsageError(f"member {i} has {len(values)} cut_values for {len(cuts)} cut points")
        chunk = np.searchsorted(cuts, np.arange(len(mask)), side="right") - 1
        uncertain = mask & (np.exp(logprobs[i]) < threshold)
        tokens.append(np.where(uncertain, _gains(values, whole[i])[chunk], 0.0))
    return Advantages(tokens, {"episode": _channel(whole, group.given("cut_values"), tokens)})


def cut_points(logprobs: np.ndarray, trainable: np.ndarray, every: int = 5, threshold: float = 0.9) -> np.ndarray:
    """Where SPO-chain needs a value: before the first token, and before every `every`-th uncertain one.

    Args:
        logprobs: (T,) log-probabilities when sampled.
        trainable: (T,) bool.
        every: uncertain tokens between two cuts.
        threshold: probability below which a token is uncertain.

    Returns:
        (cuts,) int positions, ascending; the first is the first trainable token.
    """
    uncertain = np.flatnonzero(np.asarray(trainable, bool) & (np.exp(logprobs) < threshold))
    first = int(np.argmax(trainable))
    later = uncertain[every::every]
    return np.concatenate([[first], later]).astype(int)


def monte_carlo_values(returns: ArrayLike) -> np.ndarray:
    """Mean whole-episode reward of fresh rollouts from each state (arXiv 2410.01679): (states, rollouts) → (states,).

    Rollouts that were not scored (NaN) are left out.

    Raises:
        UsageError: no rollout of a state was scored.
    """
    returns = np.asarray(returns, np.float64)
    scored = np.isfinite(returns)
    if not scored.any(axis=1).all():
        raise UsageError(f"no rollout from state {int(np.argmin(scored.any(axis=1)))} was scored: roll out again")
    return np.where(scored, returns, 0.0).sum(axis=1) / scored.sum(axis=1)


def _differences(group: Group, reward: str) -> Advantages:
    """v_{k+1} − v_k on the tokens of step k, R − v_K on those of the last."""
    whole = group.reward(reward)
    by_step = [_gains(values, whole[i]) for i, values in enumerate(group.given("values"))]
    tokens = group.spread_steps(by_step)
    return Advantages(tokens, {"episode": _channel(whole, group.given("values"), tokens)})


def _gains(values: ArrayLike, reward: float) -> np.ndarray:
    """v_{k+1} − v_k, and R − v_K at the end; 0 if one of them is not known."""
    values = np.asarray(values, np.float64)
    gains = np.append(values[1:], reward) - values
    return gains if np.isfinite(gains).all() else np.zeros(len(values))


def _channel(rewards: np.ndarray, values: Sequence[ArrayLike], tokens: list[np.ndarray]) -> Channel:
    unknown = [i for i, own in enumerate(values) if not np.isfinite([rewards[i], *np.asarray(own, np.float64)]).all()]
    return Channel(not any(t.any() for t in tokens), tuple(unknown))
