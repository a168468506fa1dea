"""Every estimator's expected gradient against the exact one, by enumeration of all groups of small tasks."""

import itertools

import numpy as np
import pytest
from toolcredit.agents.estimators import estimator
from toolcredit.agents.exact import Decision, Enumeration, Rollout, moments
from toolcredit.agents.exact.moments import groups
from toolcredit.agents.exact.table import Row, per_turn
from toolcredit.agents.exact.tasks import may_abstain, stop_or_continue, two_steps, two_turn
from toolcredit.agents.trajectory import Segment
from toolcredit.errors import UnknownNameError, UsageError

UNSCALED = {"scale": False, "baseline": "leave_one_out"}
TASKS = {"two_turn": two_turn(), "may_abstain": may_abstain(), "two_steps": two_steps()}
ATOL = 1e-12  # the bar is 1e-6


def of(task, name, size=3, **options):
    return moments(TASKS[task], estimator(name, **options), size)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=ATOL)


# -- the rod itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("component", ["total", "process", "summary"])
def test_the_policy_gradient_is_the_derivative_of_the_expected_reward(task, component):
    step = 1e-6 * np.eye(len(task.theta))
    slopes = [
        (task.at(task.theta + e).expected(component) - task.at(task.theta - e).expected(component)) / 2e-6 for e in step
    ]
    np.testing.assert_allclose(task.gradient(component), slopes, rtol=0, atol=1e-9)


def test_the_policy_gradient_agrees_with_autograd():
    torch = pytest.importorskip("torch", reason="needs the extra 'train'")
    task = TASKS["two_steps"]
    theta = torch.tensor(task.theta, requires_grad=True)
    rows = {state: torch.log_softmax(theta[row], 0) for state, row in task.rows.items()}
    expected = sum(
        r.chance
        * r.rewards["total"]
        * sum(rows[d.state][task.actions[d.state].index(d.action)] for d in r.decisions).exp()
        for r in task.rollouts
    )
    expected.backward()
    close(task.gradient("total"), theta.grad.numpy())


def test_groups_without_order_stand_for_all_ordered_ones():
    task, credit = TASKS["two_steps"], estimator("slca_gigpo")
    ordered = np.zeros(len(task.theta))
    for indices in itertools.product(range(len(task.rollouts)), repeat=2):
        tokens = credit(task.group(indices)).tokens
        gradient = sum(own @ task.scores[i] for own, i in zip(tokens, indices, strict=True)) / 2
        ordered += task.probabilities[list(indices)].prod() * gradient
    close(of("two_steps", "slca_gigpo", 2).mean, ordered)
    assert sum(p for _, p in groups(task, 3)) == pytest.approx(1, abs=1e-12)


def test_a_task_with_a_rollout_missing_is_refused():
    task = TASKS["two_turn"]
    logits = {state: dict.fromkeys(actions, 0.0) for state, actions in task.actions.items()}
    with pytest.raises(UsageError, match="expected 1: list all"):
        Enumeration(task.rollouts[1:], logits)


def test_exact_values_are_conditional_means():
    task = TASKS["two_steps"]
    assert task.values("total", 0)[0] == pytest.approx(task.expected("total"))
    for i, p in enumerate(task.probabilities):  # E[v_1] = v_0 = E[R]
        assert p > 0 and len(task.values("total", i)) == 3
    after_first = sum(p * task.values("total", i)[1] for i, p in enumerate(task.probabilities))
    assert after_first == pytest.approx(task.expected("total"))


def test_unknown_modes_are_refused():
    with pytest.raises(UnknownNameError, match="aggregation"):
        moments(TASKS["two_turn"], estimator("rloo"), 2, aggregation="mean")


# -- unbiased ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("size", [2, 3])
def test_rloo_is_unbiased_for_the_total(task, size):
    close(of(task, "rloo", size).mean, TASKS[task].gradient("total"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("size", [2, 3])
def test_dr_grpo_lacks_the_means_own_share(task, size):
    close(of(task, "dr_grpo", size).mean, (1 - 1 / size) * TASKS[task].gradient("total"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["vineppo", "carl"])
def test_differences_of_exact_values_are_unbiased_for_the_total(task, name):
    close(of(task, name, 2).mean, TASKS[task].gradient("total"))


def test_value_differences_are_affine_in_the_values_so_unbiased_noise_in_them_is_no_bias():
    from dataclasses import replace

    g = TASKS["two_steps"].group([0, 5, 9])
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=3) for _ in range(3)]
    sides = [replace(g, values=[v + sign * n for v, n in zip(g.values, noise, strict=True)]) for sign in (1, -1)]
    plus, minus, plain = (estimator("vineppo")(side).tokens for side in (*sides, g))
    for a, b, c in zip(plus, minus, plain, strict=True):
        np.testing.assert_allclose((a + b) / 2, c, atol=1e-12)


@pytest.mark.parametrize("task", ["two_turn", "two_steps"])
@pytest.mark.parametrize("size", [2, 3])
def test_slca_is_unbiased_for_the_locked_objective(task, size):
    close(of(task, "slca", size, **UNSCALED).mean, TASKS[task].locked_gradient())


@pytest.mark.parametrize("task", ["two_turn", "two_steps"])
@pytest.mark.parametrize("name", ["toolpo", "mt_grpo"])
def test_additive_estimators_are_unbiased_for_the_total_if_every_rollout_calls(task, name):
    options = {"action": "process"} if name == "toolpo" else {}
    close(of(task, name, **options, **UNSCALED).mean, TASKS[task].gradient("total"))


@pytest.mark.parametrize("task", ["two_turn", "two_steps"])
def test_rltr_is_unbiased_for_the_plan_if_every_rollout_calls(task):
    close(of(task, "rltr", reward="process", **UNSCALED).mean, TASKS[task].gradient("process"))


# -- what the lock optimises -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["two_turn", "two_steps"])
def test_the_lock_leaves_out_exactly_what_calls_do_to_the_summary(task):
    """∇E[R_tool + R_sum] − locked = E[R_sum Σ_{t ∈ tool} ∇ log π_t]."""
    t = TASKS[task]
    weighted = t.probabilities * t.reward("summary")
    missing = t.weighted([w * (own == Segment.TOOL) for w, own in zip(weighted, t.segment, strict=True)])
    assert np.linalg.norm(missing) > 0.01
    close(t.gradient("total") - t.locked_gradient(), missing)


@pytest.mark.parametrize("task", ["two_turn", "two_steps"])
def test_the_lock_is_the_gradient_with_the_contexts_of_the_summary_held_fixed(task):
    t = TASKS[task]
    words = {d.state for r in t.rollouts for d in r.decisions if d.segment == Segment.SUMMARY}
    in_summary = np.zeros(len(t.theta), bool)
    for state in words:
        in_summary[t.rows[state]] = True
    close(t.locked_gradient()[in_summary], t.gradient("summary")[in_summary])
    close(t.locked_gradient()[~in_summary], t.gradient("process")[~in_summary])


@pytest.mark.parametrize("size", [2, 3])
def test_with_abstentions_the_tool_part_is_the_gradient_of_the_score_given_a_call(size):
    """(1 − (1−p)^(G−1)) p ∇E[R_tool | call]: the filter teaches how to call, never whether to."""
    t = TASKS["may_abstain"]
    call = np.array([not r.omitted for r in t.rollouts], float)
    p = t.probabilities @ call
    score = t.reward("process") * call
    given_call = (
        t.weighted(t.probabilities * score) - t.weighted(t.probabilities * call) * (t.probabilities @ score) / p
    ) / p
    close(t.segment_gradient("process", Segment.TOOL), p * given_call)
    tool_only = of("may_abstain", "slca", size, lambda_summary=0.0, **UNSCALED).mean
    close(tool_only, (1 - (1 - p) ** (size - 1)) * p * given_call)
    close(tool_only[t.rows["start"]], 0)  # no push to call or not to call


def test_with_abstentions_the_summary_part_is_unbiased_for_its_segment():
    t = TASKS["may_abstain"]
    got = of("may_abstain", "slca", lambda_tool=0.0, **UNSCALED).mean
    close(got, t.segment_gradient("guarded", Segment.SUMMARY))


def test_the_guard_is_what_teaches_to_call():
    t = TASKS["may_abstain"]
    start = t.rows["start"]
    exact = t.gradient("total")[start][0]
    guarded, free = (of("may_abstain", "slca", guard=on, **UNSCALED).mean[start][0] for on in (True, False))
    assert exact > guarded > 1.5 * free > 0


# -- biased ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grpo", "dapo"])
def test_dividing_by_the_groups_own_deviation_is_a_bias(name):
    got, exact = of("two_turn", name), TASKS["two_turn"].gradient("total")
    assert 0.98 < got.cosine(exact) < 0.999


def test_dynamic_sampling_changes_the_length_of_the_expected_gradient_not_its_direction():
    plain, kept = of("two_turn", "grpo"), of("two_turn", "dapo")
    assert 0.9 < kept.kept < 1
    close(kept.mean * kept.kept, plain.mean)


def test_gigpos_step_term_weighs_states_by_how_often_they_are_shared():
    got = of("two_turn", "gigpo", gamma=1.0, weight=1e9, **UNSCALED)
    t = TASKS["two_turn"]
    exact = t.gradient("total")
    for state in ("name", "found", "partial", "error"):
        visits = sum(
            p for p, r in zip(t.probabilities, t.rollouts, strict=True) if state in [d.state for d in r.decisions]
        )
        share = 1 - (1 - visits) ** 2  # that one of two other members is there too
        np.testing.assert_allclose(got.mean[t.rows[state]] / 1e9, share * exact[t.rows[state]], rtol=0, atol=1e-8)


def test_a_blind_critic_is_a_bias_of_carl():
    exact = TASKS["two_turn"].gradient("total")
    assert Row("carl", blind=True).moments(TASKS["two_turn"], 2).cosine(exact) < 0.5


def test_spo_peeks_at_the_token_before_which_it_cuts():
    got = Row("spo_chain", {"every": 1, "threshold": 0.6}, cuts=(1, 0.6)).moments(TASKS["two_turn"], 2)
    exact = TASKS["two_turn"].gradient("total")
    assert got.cosine(exact) < 0.99
    every_token = Row("spo_chain", {"every": 1, "threshold": 1.1}, cuts=(1, 1.1)).moments(TASKS["two_turn"], 2)
    close(every_token.mean, exact)  # cuts everywhere depend on nothing: then it is unbiased


def test_dividing_by_lengths_is_a_bias_of_the_loss():
    t = TASKS["may_abstain"]
    exact = t.gradient("total")
    for aggregation in ("token_mean", "sequence_mean"):
        got = moments(t, estimator("rloo"), 2, aggregation=aggregation)
        assert got.cosine(exact) < 0.9999


@pytest.mark.parametrize("size", [2, 4])
def test_summing_rewards_normalised_turn_by_turn_can_flip_the_sign(size):
    """The trap: the second turn's reward is the same for all who reach it, so centring it removes why one should."""
    t = stop_or_continue(stop=0.5, first=0.2, second=1.0)
    exact = t.gradient("total")
    assert exact[0] > 0.1
    assert moments(t, per_turn, size).mean[0] < -0.02
    close(moments(t, estimator("rloo"), size).mean, exact)


def test_leave_one_out_of_returns_is_unbiased_where_turn_by_turn_is_not():
    for stop, first, second in [(1, 0, 1), (1, 0.4, 0.4), (0.2, 0.1, 0.2)]:
        t = stop_or_continue(stop, first, second)
        close(moments(t, estimator("rloo"), 3).mean, t.gradient("total"))
        assert moments(t, per_turn, 3).mean[0] != pytest.approx(t.gradient("total")[0], abs=0.01)


def test_users_can_enumerate_a_task_of_their_own():
    rollouts = [Rollout((Decision("s", a, Segment.SUMMARY, 0),), {"total": r}) for a, r in [("x", 1.0), ("y", 0.0)]]
    task = Enumeration(rollouts, {"s": {"x": 0.0, "y": 0.0}})
    close(task.gradient("total"), [0.25, -0.25])
    close(moments(task, estimator("rloo"), 2).mean, [0.25, -0.25])
