import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.benchmarks.stats import (
    bootstrap_mean,
    mcnemar,
    pass_hat_k,
    t_interval,
    t_quantile,
    wilson,
)
from toolcredit.errors import UsageError


def pairs(both: int, first_only: int, second_only: int, neither: int) -> tuple[list[bool], list[bool]]:
    first = [True] * (both + first_only) + [False] * (second_only + neither)
    second = [True] * both + [False] * first_only + [True] * second_only + [False] * neither
    return first, second


# Newcombe (1998), Statistics in Medicine 17:857-872, Table I, method 3 (score without continuity correction)
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_published_values(successes, n, low, high):
    interval = wilson(successes, n)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 500), st.data())
def test_wilson_contains_the_proportion_and_mirrors(n, data):
    successes = data.draw(st.integers(0, n))
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n + 1e-12
    assert successes / n - 1e-12 <= high <= 1
    mirrored = wilson(n - successes, n)
    assert mirrored.low == pytest.approx(1 - high, abs=1e-12)
    assert wilson(successes, n, 0.5).high <= high + 1e-12


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 3), (4, 3)])
def test_wilson_refuses_impossible_counts(successes, n):
    with pytest.raises(UsageError, match=r"0 <= successes <= n"):
        wilson(successes, n)


@pytest.mark.parametrize(
    ("first_only", "second_only", "p"),
    [
        (0, 0, 1.0),
        (5, 0, 2 / 2**5),
        (1, 5, 2 * (1 + 6) / 2**6),
        (6, 6, 1.0),
        (3, 8, 2 * (1 + 11 + 55 + 165) / 2**11),
    ],
)
def test_mcnemar_by_hand(first_only, second_only, p):
    result = mcnemar(*pairs(7, first_only, second_only, 4))
    assert (result.first_only, result.second_only) == (first_only, second_only)
    assert result.p_value == pytest.approx(p, rel=1e-12)


def test_mcnemar_many_discordant_pairs():
    # 2·P[Binomial(3000, 1/2) <= 1400], normal approximation with continuity correction
    result = mcnemar(*pairs(0, 1400, 1600, 0))
    assert result.p_value == pytest.approx(math.erfc(199 / math.sqrt(3000) / math.sqrt(2)), rel=0.02)


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_symmetric(b, c):
    assert mcnemar(*pairs(3, b, c, 2)).p_value == mcnemar(*pairs(3, c, b, 2)).p_value


def test_mcnemar_refuses_unpaired_and_fractional_data():
    with pytest.raises(UsageError, match="paired data needed, got 2 and 3"):
        mcnemar([True, False], [True, True, False])
    with pytest.raises(UsageError, match="first must be"):
        mcnemar([0.5, 1.0], [True, True])


@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.3027),
        (0.975, 3, 3.1824),
        (0.975, 4, 2.7764),
        (0.995, 9, 3.2498),
        (0.95, 30, 1.6973),
        (0.025, 10, -2.2281),
        (0.5, 7, 0.0),
    ],
)
def test_t_quantile_published_values(probability, degrees, value):
    assert t_quantile(probability, degrees) == pytest.approx(value, abs=6e-5)


def test_t_interval_by_hand():
    mean, low, high = t_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(4.30265 / math.sqrt(3), abs=1e-4)
    assert mean - low == pytest.approx(high - mean)


def test_t_interval_needs_two_seeds():
    with pytest.raises(UsageError, match="at least two"):
        t_interval([0.7])


def test_bootstrap_matches_the_normal_interval():
    values = np.random.default_rng(1).normal(0.3, 1.0, 400)
    mean, low, high = bootstrap_mean(values)
    half = 1.96 * values.std() / math.sqrt(400)
    assert mean == pytest.approx(values.mean())
    assert low == pytest.approx(mean - half, abs=0.01)
    assert high == pytest.approx(mean + half, abs=0.01)


def test_bootstrap_is_a_function_of_its_seed():
    values = [1.0, 0.0, 0.0, -1.0, 1.0]
    assert bootstrap_mean(values, seed=3) == bootstrap_mean(values, seed=3)
    assert np.random.default_rng(0).integers(5) == np.random.default_rng(0).integers(5)


def test_bootstrap_in_parts_covers_all_draws(monkeypatch):
    monkeypatch.setattr("toolcredit.benchmarks.stats._INDICES_AT_ONCE", 64)
    mean, low, high = bootstrap_mean([0.0, 1.0] * 8, draws=1_001)
    assert low == pytest.approx(0.25, abs=0.07)
    assert high == pytest.approx(0.75, abs=0.07)
    assert mean == 0.5


def test_clusters_widen_the_interval():
    rng = np.random.default_rng(2)
    tasks = rng.random(40) < 0.5
    values = np.repeat(tasks, 8).astype(float)  # eight identical trials per task: forty facts, not 320
    labels = [f"task{i}" for i in range(40) for _ in range(8)]
    alone, together = bootstrap_mean(values), bootstrap_mean(values, labels)
    expected = bootstrap_mean(tasks.astype(float))
    assert together.high - together.low == pytest.approx(expected.high - expected.low, abs=0.02)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_clusters_of_unequal_size_weigh_by_their_observations():
    mean, low, high = bootstrap_mean([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"])
    assert (mean, low, high) == (0.75, 0.0, 1.0)


@pytest.mark.parametrize(("values", "clusters"), [([], None), ([1.0, math.nan], None), ([1.0, 2.0], ["a"])])
def test_bootstrap_refuses(values, clusters):
    with pytest.raises(UsageError, match="bootstrap_mean"):
        bootstrap_mean(values, clusters)


def test_pass_hat_k_by_hand():
    assert pass_hat_k(3, 4, 1) == 0.75
    assert pass_hat_k(3, 4, 2) == pytest.approx(3 / 6)
    assert pass_hat_k(3, 4, 4) == 0.0
    assert pass_hat_k(4, 4, 4) == 1.0


@given(st.integers(1, 12), st.data())
def test_pass_hat_k_falls_with_k(trials, data):
    successes = data.draw(st.integers(0, trials))
    values = [pass_hat_k(successes, trials, k) for k in range(1, trials + 1)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("c", "n", "k"), [(5, 4, 1), (1, 4, 0), (1, 4, 5), (-1, 4, 1)])
def test_pass_hat_k_refuses(c, n, k):
    with pytest.raises(UsageError, match="pass_hat_k"):
        pass_hat_k(c, n, k)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_fraction(confidence):
    with pytest.raises(UsageError, match="strictly between 0 and 1"):
        wilson(3, 5, confidence)
