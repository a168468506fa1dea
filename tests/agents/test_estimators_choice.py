"""Exact-action SLCA: exact over names, unbiased with branches, biased without, and what its variance is."""

from dataclasses import replace

import numpy as np
import pytest
from toolcredit.agents.estimators import ChoicePoint, Group, estimator
from toolcredit.agents.estimators.exact_action import branch_values, choice_objective, counterfactual_values, unvisited
from toolcredit.agents.exact import moments
from toolcredit.agents.exact.moments import Choices
from toolcredit.agents.exact.table import UNSCALED, exact_variances, slca_variances, tool_parameters
from toolcredit.agents.exact.tasks import may_abstain, two_turn
from toolcredit.agents.trajectory import Segment
from toolcredit.errors import UnknownNameError, UsageError

TASK = two_turn()
EXACT = estimator("slca_exact", **UNSCALED)
LOGPROBS = np.log([0.5, 0.3, 0.2])


def group(process=(1.0, 0.0, 0.4), points=None, **fields):
    """Members with the tokens prompt, name, argument, answer, summary."""
    segment = [np.array([0, 1, 1, 0, 2])] * len(process)
    rewards = {"process": process, "summary": np.linspace(0, 1, len(process))}
    if points is None:
        points = [ChoicePoint(i, (1, 2), LOGPROBS, [1.0, 0.2, 0.0], drawn=i % 3) for i in range(len(process))]
    none = np.zeros(len(process), bool)
    return Group(rewards, [s != 0 for s in segment], segment=segment, choices=points, omitted=none, **fields)


# -- values ------------------------------------------------------------------------------------------------------


def test_a_name_is_worth_exactly_its_difference_to_the_expectation():
    got = EXACT(group())
    mean = 0.5 * 1.0 + 0.3 * 0.2
    for by_name in got.choices:
        np.testing.assert_allclose(by_name, np.array([1.0, 0.2, 0.0]) - mean)
        assert np.exp(LOGPROBS) @ by_name == pytest.approx(0, abs=1e-12)


def test_the_drawn_names_tokens_leave_the_sampled_term_and_nothing_else_does():
    exact, sampled = EXACT(group()), estimator("slca", **UNSCALED)(group())
    for mine, plain in zip(exact.tokens, sampled.tokens, strict=True):
        assert mine[1] == 0 != plain[1]
        np.testing.assert_array_equal(mine[2:], plain[2:])


def test_scaling_divides_all_tool_tokens_and_names_by_one_deviation():
    """σ of everything that was scored: three members, and two undrawn names at each of their choice points."""
    raw, scaled = EXACT(group()), estimator("slca_exact", baseline="leave_one_out")(group())
    scored = [1.0, 0.0, 0.4, 0.2, 0.0, 1.0, 0.0, 1.0, 0.2]
    sigma = np.std(scored, ddof=1) + 1e-6
    np.testing.assert_allclose(scaled.choices[0], raw.choices[0] / sigma)
    np.testing.assert_allclose(scaled.tokens[0][2], raw.tokens[0][2] / sigma)


def test_a_group_that_always_drew_the_same_name_is_not_dead():
    points = [ChoicePoint(i, (1, 2), LOGPROBS, [0.4, 1.0, 0.0], drawn=0) for i in range(3)]
    got = estimator("slca_exact")(group(process=(0.4, 0.4, 0.4), points=points))
    assert got.channels["tool"].dead and not got.channels["choices"].dead
    assert got.choices[0][1] > 0 > got.choices[0][2]


def test_lambda_weighs_names_too():
    got = estimator("slca_exact", lambda_tool=0.0)(group())
    assert not any(by_name.any() for by_name in got.choices)


def test_choices_without_a_value_or_a_listed_draw_keep_the_sampled_term_and_are_counted():
    points = [
        ChoicePoint(0, (1, 2), LOGPROBS, [1.0, np.nan, 0.0], drawn=0),
        ChoicePoint(1, (1, 2), LOGPROBS, [1.0, 0.2, 0.0], drawn=None),
        ChoicePoint(2, (1, 2), LOGPROBS, [1.0, 0.2, 0.4], drawn=2),
    ]
    got, sampled = EXACT(group(points=points)), estimator("slca", **UNSCALED)(group())
    assert [not a.any() for a in got.choices] == [True, True, False]
    np.testing.assert_array_equal(got.tokens[0], sampled.tokens[0])
    np.testing.assert_array_equal(got.tokens[1], sampled.tokens[1])
    assert got.channels["choices"].excluded == (0,) and got.channels["choices"].absent == (1,)


def test_a_group_without_any_choice_point_is_slca():
    g = group(points=[])
    for mine, plain in zip(EXACT(g).tokens, estimator("slca", **UNSCALED)(g).tokens, strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_branches_are_averaged_with_the_rollouts_that_drew_the_name():
    drawn, returns = [0, 2, 0], [1.0, 0.4, 0.5]
    assert unvisited(drawn, 4) == [1, 3]
    np.testing.assert_allclose(branch_values(drawn, returns, {1: [0.2], 3: [0.0, 1.0]}, 4), [0.75, 0.2, 0.4, 0.5])
    with pytest.raises(UsageError, match=r"names \[3\] have no continuation"):
        branch_values(drawn, returns, {1: [0.2]}, 4)


def test_counterfactual_values_exchange_one_name_and_change_nothing():
    calls = [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {"x": 2}}]
    seen = []

    def score(calls):
        seen.append([(c["name"], c["arguments"]["x"]) for c in calls])
        return float(calls[1]["name"] == "c")

    assert counterfactual_values(score, calls, 1, ["b", "c"]).tolist() == [0, 1]
    assert seen == [[("a", 1), ("b", 2)], [("a", 1), ("c", 2)]]
    assert calls[1]["name"] == "b"


# -- the differentiable part -------------------------------------------------------------------------------------


def test_the_objectives_gradient_is_the_expectation_over_names():
    torch = pytest.importorskip("torch", reason="needs the extra 'train'")
    z = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    logprobs = torch.log_softmax(z, 0)
    advantages = torch.tensor([1.0, -0.5, 0.2], dtype=torch.float64)
    value, clipped = choice_objective(logprobs, logprobs.detach(), advantages, clip=0.2)
    (got,) = torch.autograd.grad(value, z, retain_graph=True)
    p = logprobs.detach().exp()
    sampled = sum(
        p[a] * advantages[a] * torch.autograd.grad(logprobs[a], z, retain_graph=True)[0] for a in range(3)
    )  # E over the drawn name
    torch.testing.assert_close(got, sampled)
    torch.testing.assert_close(got, p * (advantages - p @ advantages))
    assert clipped == 0


def test_names_outside_the_trust_region_stop_moving():
    torch = pytest.importorskip("torch", reason="needs the extra 'train'")
    old = torch.log(torch.tensor([0.5, 0.5]))
    new = torch.log(torch.tensor([0.7, 0.3])).requires_grad_()
    value, clipped = choice_objective(new, old, torch.tensor([1.0, -1.0]), clip=0.2)
    value.backward()
    assert new.grad.tolist() == [0, 0] and clipped == 1
    new.grad = None
    choice_objective(new, old, torch.tensor([-1.0, 1.0]), clip=0.2)[0].backward()
    assert (new.grad != 0).all()  # back towards the trust region is free


# -- exactness ---------------------------------------------------------------------------------------------------


def of(mode, size, task=TASK, **options):
    return moments(task, estimator("slca_exact", **{**UNSCALED, **options}), size, choices=Choices("name", mode))


@pytest.mark.parametrize("size", [2, 3])
def test_branch_mode_is_unbiased(size):
    np.testing.assert_allclose(of("branch", size).mean, TASK.locked_gradient(), rtol=0, atol=1e-12)


def test_branch_mode_keeps_the_filters_objective_where_rollouts_may_abstain():
    task = may_abstain()
    row = task.rows["name"]
    np.testing.assert_allclose(
        of("branch", 2, task).mean[row], task.segment_gradient("process", Segment.TOOL)[row], rtol=0, atol=1e-12
    )


def test_branch_mode_has_lower_variance_at_equal_numbers_of_scored_continuations():
    """From G = 3 on. At G = 2 the undrawn names cost 1.4 continuations, and more rollouts serve better."""
    tool = tool_parameters(TASK)
    ratios = {}
    for size in (2, 3, 6):
        exact, continuations = exact_variances(size)
        sampled = slca_variances(TASK, continuations)
        ratios[size] = exact.sum() / sampled.sum(), exact[tool].sum() / sampled[tool].sum()
        assert size < continuations < size + 2
    assert ratios[2] == (pytest.approx(1.498, abs=0.001), pytest.approx(1.017, abs=0.001))
    assert ratios[3] == (pytest.approx(0.898, abs=0.001), pytest.approx(0.654, abs=0.001))
    assert ratios[6][0] < ratios[3][0] and ratios[6][1] < ratios[3][1]


def test_the_short_enumeration_of_the_variance_equals_the_full_one():
    exact, full = exact_variances(3), of("branch", 3)
    np.testing.assert_allclose(exact[0], full.variances, rtol=0, atol=1e-12)
    assert exact[1] == pytest.approx(full.continuations)


def test_at_the_same_group_size_every_component_varies_less():
    exact, sampled = of("branch", 3), moments(TASK, estimator("slca", **UNSCALED), 3)
    assert (exact.variances <= sampled.variances + 1e-12).all()
    assert exact.variances[TASK.rows["name"]].sum() < 0.4 * sampled.variances[TASK.rows["name"]].sum()


def test_slcas_variance_follows_the_formula_of_a_u_statistic():
    got = moments(TASK, estimator("slca", **UNSCALED), 4).variances
    np.testing.assert_allclose(slca_variances(TASK, 4), got, rtol=0, atol=1e-12)


def test_counterfactual_mode_is_biased_and_free():
    got = of("counterfactual", 2)
    assert got.continuations == pytest.approx(2)
    assert 0.99 < got.cosine(TASK.locked_gradient()) < 0.999
    assert 0.9 < got.relative_norm(TASK.locked_gradient()) < 0.95


def test_counterfactual_mode_is_unbiased_where_arguments_do_not_depend_on_the_name():
    theta = TASK.theta.copy()
    for name in TASK.actions["name"]:
        theta[TASK.rows[name]] = [0.4, 0.0]
    task = TASK.at(theta)
    np.testing.assert_allclose(of("counterfactual", 2, task).mean, task.locked_gradient(), rtol=0, atol=1e-12)


def test_an_unknown_mode_of_values_is_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'branch'"):
        Choices("name", "branches")


def test_an_unscored_member_takes_no_part_in_the_sampled_term():
    g = group(process=(None, 0.0, 0.4))
    got = EXACT(g)
    without = EXACT(replace(g, choices=[p for p in g.choices if p.member]))
    assert got.tokens[0][2] == 0 and got.channels["tool"].excluded == (0,)
    np.testing.assert_array_equal(got.tokens[1], without.tokens[1])
