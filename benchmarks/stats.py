"""Statistics of comparisons: intervals, paired tests, pass^k. Pure functions of arrays; nothing is drawn unseeded.

Strategies are compared on the *same* questions, so differences are paired: `mcnemar` for correctness, `bootstrap_mean`
of per-question differences for anything else. Only the t quantile and the exact binomial tail are needed beyond the
standard library's normal distribution, so scipy is not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import UsageError

BOOTSTRAP_DRAWS = 10_000
_INDICES_AT_ONCE = 4_000_000  # resampled indices held in memory: 32 MB


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def interval(self) -> list[float] | None:
        """Both ends; None for an interval of no width: to resample what is all alike would claim certainty."""
        return [self.low, self.high] if self.low < self.high else None


class McNemar(NamedTuple):
    """A paired comparison of two strategies' correctness.

    Attributes:
        first_only: questions that only the first strategy answers right.
        second_only: questions that only the second one answers right.
        p_value: exact two-sided p-value of "both are equally good".
    """

    first_only: int
    second_only: int
    p_value: float


def wilson(successes: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion.

    `(p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)`; unlike the normal interval it stays within [0, 1] and keeps its
    coverage near the ends (Wilson 1927; Brown, Cai and DasGupta 2001).

    Args:
        successes: number of successes; a fraction (an expectation over random choices) is taken as it is.
        n: number of trials, at least 1.
        confidence: two-sided coverage, in (0, 1).
    """
    if n < 1 or not 0 <= successes <= n:
        raise UsageError(f"wilson: got {successes} successes in {n} trials, expected 0 <= successes <= n and n >= 1")
    z = NormalDist().inv_cdf(0.5 + _checked(confidence) / 2)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return Interval(max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale))


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """McNemar's exact test on paired correctness.

    Under "no difference" each discordant question falls to either side with probability ½, so the p-value is
    `min(1, 2·P[Binomial(b+c, ½) ≤ min(b, c)])`, and 1 where no question is discordant.

    Args:
        first: (n,) bool, correctness of the first strategy per question.
        second: (n,) bool, of the second one on the same questions in the same order.
    """
    a, b = _booleans(first, "first"), _booleans(second, "second")
    if a.shape != b.shape:
        raise UsageError(f"mcnemar: paired data needed, got {a.size} and {b.size} answers")
    first_only, second_only = int((a & ~b).sum()), int((~a & b).sum())
    n = first_only + second_only
    term = tail = 1  # binomial coefficients are summed as exact integers: no underflow for large n
    for k in range(min(first_only, second_only)):
        term = term * (n - k) // (k + 1)
        tail += term
    return McNemar(first_only, second_only, min(1.0, 2 * tail / 2**n))


def bootstrap_mean(
    values: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = BOOTSTRAP_DRAWS,
) -> Estimate:
    """Percentile bootstrap interval of a mean; give paired differences for a paired comparison.

    With `clusters` whole clusters are resampled and the mean is total over count: trials of one task (or questions cut
    from one gene) are not independent, and resampling them singly makes the interval too narrow.

    Args:
        values: (n,) float, one value per observation, e.g. reward of one strategy minus reward of the other.
        clusters: (n,) labels; observations with one label are drawn together. None: each stands alone.
        confidence: two-sided coverage, in (0, 1).
        seed: seed of the numpy generator, so that a report can be made again.
        draws: number of resamples.
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise UsageError(f"bootstrap_mean: expected a non-empty 1-d array of finite values, got shape {x.shape}")
    if clusters is None:
        sums, sizes = x, np.ones(x.size)
    else:
        if len(clusters) != x.size:
            raise UsageError(f"bootstrap_mean: {x.size} values but {len(clusters)} cluster labels")
        number = {label: i for i, label in enumerate(dict.fromkeys(clusters))}
        index = [number[label] for label in clusters]
        sums, sizes = np.bincount(index, weights=x), np.bincount(index).astype(float)
    rng = np.random.default_rng(seed)
    means = np.empty(draws)
    step = max(1, _INDICES_AT_ONCE // sums.size)
    for start in range(0, draws, step):
        stop = min(start + step, draws)
        chosen = rng.integers(sums.size, size=(stop - start, sums.size))
        means[start:stop] = sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    tail = (1 - _checked(confidence)) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(float(x.mean()), float(low), float(high))


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Mean over independent repetitions (seeds) with Student's t interval: `x̄ ± t_{n−1} · s/√n`, s with n−1.

    Args:
        values: (n,) float, one figure per seed, at least two: one seed has no spread.
        confidence: two-sided coverage, in (0, 1).
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or x.size < 2:
        raise UsageError(f"t_interval: expected at least two values (one per seed), got shape {x.shape}")
    half = t_quantile(0.5 + _checked(confidence) / 2, x.size - 1) * float(x.std(ddof=1)) / math.sqrt(x.size)
    mean = float(x.mean())
    return Estimate(mean, mean - half, mean + half)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t with an integer number of degrees of freedom, by bisection of its closed-form CDF.

    With θ = atan(t/√ν): `P[|T| ≤ t]` is a finite sum of powers of cos θ (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if degrees < 1:
        raise UsageError(f"t_quantile: expected at least one degree of freedom, got {degrees}")
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_mass(middle, degrees) < 2 * probability - 1 else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _t_mass(theta: float, degrees: int) -> float:
    """`P[|T| ≤ √ν·tan θ]` for ν = `degrees`."""
    cos, sin = math.cos(theta), math.sin(theta)
    odd = degrees % 2
    term, total = (cos if odd else 1.0), 0.0
    for k in range(2 if odd else 1, degrees, 2):
        total += term
        term *= cos * cos * k / (k + 1)
    return 2 / math.pi * (theta + sin * total) if odd else sin * total


def pass_hat_k(successes: int, trials: int, k: int) -> float:
    """pass^k: the probability that k trials of one task *all* succeed, `C(c, k) / C(n, k)` (arXiv 2406.12045).

    Unbiased for k ≤ n. Not pass@k, which asks for at least one success. Average it over tasks.

    Args:
        successes: successful trials c of the task.
        trials: trials n of the task.
        k: how many trials must succeed together, 1 ≤ k ≤ n.
    """
    if not 0 <= successes <= trials or not 1 <= k <= trials:
        raise UsageError(
            f"pass_hat_k: got {successes} of {trials} trials and k={k}, "
            "expected 0 <= successes <= trials and 1 <= k <= trials"
        )
    return math.comb(successes, k) / math.comb(trials, k)


def _booleans(values: ArrayLike, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or not np.isin(array, (0, 1)).all():
        raise UsageError(f"mcnemar: {name} must be a 1-d array of True/False, got {array.dtype} of shape {array.shape}")
    return array.astype(bool)


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie strictly between 0 and 1, got {confidence}")
    return confidence
