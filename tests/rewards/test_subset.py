import math
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.errors import UnknownNameError, UsageError
from toolcredit.rewards.subset import (
    REWARD_NAMES,
    SubsetReward,
    best_subsets,
    differential,
    eq1,
    subset_reward,
    subset_sizes,
    vista,
)

rows = st.integers(1, 4).flatmap(lambda n: st.lists(st.booleans(), min_size=2**n, max_size=2**n))


def n_of(row):
    return int(math.log2(len(row)))


def test_eq1_by_hand():
    # n = 2, subsets {}, {0}, {1}, {0,1}
    assert eq1([True, False, True, False], [0, 1, 1, 2], 2).tolist() == [1.1, -1.0, 1.0, -1.1]


def test_differential_and_vista_by_hand():
    rescued, broken = [False, True], [True, False]
    assert differential([rescued, broken], format_weight=0).tolist() == [[0, 1], [0, -1]]
    assert differential(rescued).tolist() == pytest.approx([0.05, 1.0])
    assert vista([rescued, broken, [True, True], [False, False]]).tolist() == [[0, 1], [1, -0.5], [1, 1], [0, 0]]


@given(rows, st.floats(0, 0.99))
def test_eq1_bounds_cost_and_dominance(row, parsimony):
    n = n_of(row)
    sizes = subset_sizes(n)
    reward = eq1(row, sizes, n, parsimony)
    assert (np.abs(reward) <= 1 + parsimony + 1e-12).all()
    right, wrong = reward[np.array(row)], reward[~np.array(row)]
    assert not len(right) or not len(wrong) or right.min() > wrong.max()
    all_right = eq1([True] * len(row), sizes, n, parsimony)
    assert np.allclose(all_right[0] - all_right, 2 * parsimony * sizes / n)


@given(rows, st.integers(0, 2**32 - 1))
def test_without_parsimony_the_gradient_is_twice_the_differential_one(row, seed):
    """dJ/dz_a = q_a (r_a − Σ q r): constants cancel, so eq1 at λ=0 is 2·r_diff plus a constant."""
    n = n_of(row)
    q = np.random.default_rng(seed).dirichlet(np.ones(len(row)))

    def gradient(r):
        return q * (r - q @ r)

    twice = 2 * gradient(differential(row, format_weight=0))
    assert np.allclose(gradient(eq1(row, subset_sizes(n), n, 0.0)), twice, atol=1e-12)


@pytest.mark.parametrize("name", REWARD_NAMES)
@given(row=rows, parsimony=st.floats(0, 0.99))
def test_one_action_equals_its_entry_of_the_row_and_the_parts_sum_up(name, row, parsimony):
    reward, n = subset_reward(name), n_of(row)
    whole = reward.rows(row, n, parsimony)
    for action in range(len(row)):
        outcomes = {subset: row[subset] for subset in reward.needed(action, n)}
        assert sum(reward.one(action, outcomes, n, parsimony).values()) == whole[action]


@pytest.mark.parametrize(("name", "expected"), [("eq1", -1.1), ("differential", 0.0), ("vista", -0.5)])
def test_malformed(name, expected):
    reward = subset_reward(name)
    assert reward.malformed(4, 0.1) == pytest.approx(expected)
    if name != "differential":  # there tools that break an answer are worse, at −0.90
        every_row = np.array(np.meshgrid(*[[False, True]] * 4)).reshape(4, -1).T
        assert reward.malformed(2, 0.1) <= reward.rows(every_row, 2, 0.1).min()


def test_the_functions_equal_the_registered_rewards():
    correct = np.random.default_rng(0).random((20, 8)) < 0.5
    for function in (eq1, differential, vista):
        got = subset_reward(function.__name__).rows(correct, 3, 0.1)
        assert np.allclose(got, function(correct, subset_sizes(3), 3, 0.1))


def test_the_best_subset_is_the_smallest_of_the_highest():
    rewards = [[0, 1, 1, 1], [0, 0, 2, 2 + 1e-12], [-1, -2, -3, -0.5], [1, 1, 1, 1]]
    assert best_subsets(rewards).tolist() == [1, 2, 3, 0]
    # of four tools: 7 = three of them, 8 = one
    assert best_subsets([[float(action in (7, 8)) for action in range(16)]]).tolist() == [8]


def rank_reward(correct, sizes, n_tools, parsimony):
    return correct / np.maximum(correct.sum(-1, keepdims=True), 1) - parsimony * sizes


def test_a_function_of_ones_own_by_import_path():
    module = types.ModuleType("somebodys_rewards")
    module.rank_reward = rank_reward
    sys.modules["somebodys_rewards"] = module
    try:
        reward = subset_reward("somebodys_rewards:rank_reward")
        assert reward.needed(1, 2) == [0, 1, 2, 3]
        outcomes = dict(enumerate([True, True, False, False]))
        assert reward.one(1, outcomes, 2, 0.1) == {"reward": pytest.approx(0.4)}
        assert reward.malformed(2, 0.1) == pytest.approx(-0.2)
        module.rank_reward.malformed = -3
        assert reward.malformed(2, 0.1) == -3.0
        with pytest.raises(UsageError, match="cannot be imported"):
            subset_reward("somebodys_rewards:rank")
    finally:
        del sys.modules["somebodys_rewards"]
        rank_reward.__dict__.pop("malformed", None)


@pytest.mark.parametrize("result", [np.ones(3), np.array([1, np.nan, 1, 1])])
def test_a_function_that_returns_nonsense_is_named(result):
    reward = subset_reward(lambda *_: result)
    with pytest.raises(UsageError, match="expected finite numbers of shape"):
        reward.rows([True] * 4, 2, 0.1)


def test_unknown_names_are_answered_with_the_near_ones():
    with pytest.raises(UnknownNameError, match="did you mean 'vista'.*known: differential, eq1, vista"):
        subset_reward("vsta")
    with pytest.raises(UsageError, match="expected a function"):
        subset_reward("math:pi")
    with pytest.raises(UsageError, match="got int"):
        subset_reward(3)
    reward = subset_reward("eq1")
    assert isinstance(reward, SubsetReward) and subset_reward(reward) is reward
