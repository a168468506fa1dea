import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from toolcredit.agents.dead_groups import class_masses, dead_group_curve, dead_group_rate, outcome_degenerate
from toolcredit.errors import UsageError

SIZES = np.array([bin(action).count("1") for action in range(16)])
PARSIMONY = 0.1 * (1 - 2 * SIZES / 4)
UNIFORM = np.full((1, 16), 1 / 16)


@pytest.mark.parametrize(("group_size", "percent"), [(1, 100.0), (2, 27.344), (4, 2.762), (6, 0.327), (8, 0.042)])
@pytest.mark.parametrize("correctness", [-1.0, 1.0])
def test_published_values_of_a_uniform_policy(group_size, percent, correctness):
    rate = dead_group_rate(UNIFORM, [correctness + PARSIMONY], group_size)
    assert 100 * rate[0] == pytest.approx(percent, abs=5e-4)


def test_enumerated_by_brute_force():
    p, rewards, malformed = np.array([0.4, 0.3, 0.1]), np.array([1.0, -1.0, 1.0]), 0.2
    classes = [(0.4, "win"), (0.3, "lose"), (0.1, "win"), (malformed, "malformed")]
    dead = sum(
        np.prod([mass for mass, _ in group])
        for group in itertools.product(classes, repeat=3)
        if len({label for _, label in group}) == 1
    )
    assert dead_group_rate([p], [rewards], 3)[0] == pytest.approx(dead)


def test_malformed_mass_is_a_class_of_its_own():
    assert dead_group_rate([[0.0, 0.0]], [[1.0, -1.0]], 6)[0] == 1.0
    assert dead_group_rate([[0.5, 0.0]], [[1.0, -1.0]], 2)[0] == pytest.approx(0.5)


def test_rounding_does_not_split_a_class():
    rewards = [[0.1 + 0.2, 0.3, 0.3 + 1e-12]]
    assert dead_group_rate([[0.2, 0.3, 0.5]], rewards, 4)[0] == pytest.approx(1.0)


distributions = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        arrays(float, (3, n), elements=st.floats(0, 1)),
        arrays(int, (3, n), elements=st.integers(0, 3)),
        st.floats(0.5, 1.0),
    )
)


@given(distributions, st.integers(1, 8))
def test_merging_classes_never_lowers_the_rate(drawn, group_size):
    weights, rewards, valid = drawn
    p = valid * (weights + 1e-3) / (weights + 1e-3).sum(axis=1, keepdims=True)
    merged = np.minimum(rewards, 1)
    before, after = (dead_group_rate(p, r, group_size) for r in (rewards, merged))
    assert (after >= before - 1e-12).all()
    assert (before >= dead_group_rate(p, rewards, group_size + 1) - 1e-12).all()
    assert ((before >= 0) & (after <= 1 + 1e-12)).all()


@given(distributions)
def test_masses_sum_to_one(drawn):
    weights, rewards, valid = drawn
    p = valid * (weights + 1e-3) / (weights + 1e-3).sum(axis=1, keepdims=True)
    masses = class_masses(p, rewards)
    np.testing.assert_allclose(masses.sum(axis=1), 1.0)
    np.testing.assert_allclose(masses[:, -1], 1 - valid, atol=1e-12)
    np.testing.assert_allclose(dead_group_rate(p, rewards, 1), 1.0)


def test_agrees_with_sampling():
    rng = np.random.default_rng(0)
    p, rewards = np.array([0.5, 0.2, 0.2]), np.array([1.1, -1.0, 1.1])
    draws = rng.choice(4, p=[*p, 0.1], size=(200_000, 4))
    label = np.array([0, 1, 0, 2])[draws]
    observed = (label == label[:, :1]).all(axis=1).mean()
    assert dead_group_rate([p], [rewards], 4)[0] == pytest.approx(observed, abs=0.004)


def test_curve_is_the_mean_over_questions():
    p = np.vstack([UNIFORM, UNIFORM])
    rewards = np.vstack([1 + PARSIMONY, np.where(SIZES > 2, 1.0, -1.0) + PARSIMONY])
    curve = dead_group_curve(p, rewards)
    assert list(curve) == [2, 4, 6, 8]
    assert curve[6] == pytest.approx(dead_group_rate(p, rewards, 6).mean())


def test_outcome_degenerate():
    correct = [[True, True], [False, False], [True, False]]
    assert outcome_degenerate(correct).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("p", "rewards", "message"),
    [
        ([[0.5, 0.5]], [[1.0]], "of one shape"),
        ([[0.7, 0.7]], [[1.0, 0.0]], "at most 1"),
        ([[-0.1, 0.5]], [[1.0, 0.0]], "non-negative"),
        ([[np.nan, 0.5]], [[1.0, 0.0]], "non-negative"),
        ([[0.5, 0.5]], [[1.0, np.nan]], "failed outcomes"),
    ],
)
def test_refuses(p, rewards, message):
    with pytest.raises(UsageError, match=message):
        dead_group_rate(p, rewards, 2)


def test_refuses_an_empty_group():
    with pytest.raises(UsageError, match="at least 1, got 0"):
        dead_group_rate(UNIFORM, [PARSIMONY], 0)
