"""Group normalisation: values, exact zeros, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from toolcredit.agents.advantages import group_normalised, is_dead


def test_two_members_give_plus_and_minus_one_or_its_unbiased_value():
    np.testing.assert_allclose(group_normalised(np.array([0.0, 1.0]), ddof=0, eps=0), [-1, 1])
    np.testing.assert_allclose(group_normalised(np.array([0.0, 1.0]), ddof=1, eps=0), [-0.70711, 0.70711], atol=1e-5)


def test_equal_rewards_give_exactly_zero_even_when_their_mean_is_rounded():
    rewards = np.full((3, 6), 0.1)
    assert (group_normalised(rewards, eps=1e-12) == 0).all()


def test_each_group_is_normalised_on_its_own():
    got = group_normalised(np.array([[0.0, 2.0], [5.0, 5.0]]), eps=0)
    np.testing.assert_allclose(got, [[-1, 1], [0, 0]])


@given(arrays(float, 5, elements=st.floats(-10, 10)), st.floats(0.5, 20), st.floats(-50, 50))
def test_scaling_and_shifting_rewards_changes_nothing(rewards, scale, shift):
    if rewards.std() > 1e-3:
        moved = group_normalised(rewards * scale + shift, eps=0)
        np.testing.assert_allclose(moved, group_normalised(rewards, eps=0), atol=1e-6)


def test_dead_groups_are_the_constant_ones():
    assert is_dead(np.array([[1.0, 1.0], [1.0, 0.9]])).tolist() == [True, False]


@pytest.mark.parametrize("rewards", [np.array([1.0, np.nan]), np.array([1.0, np.inf])])
def test_rewards_that_are_not_finite_are_refused(rewards):
    with pytest.raises(ValueError, match="finite"):
        group_normalised(rewards)


def test_a_group_without_a_standard_deviation_is_refused():
    with pytest.raises(ValueError, match="ddof=1"):
        group_normalised(np.array([1.0]), ddof=1)
