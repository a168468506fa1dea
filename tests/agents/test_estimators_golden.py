"""Values worked by hand, the presence filter, exact zeros, and properties that hold for every estimator."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toolcredit.agents.advantages import filtered_advantages
from toolcredit.agents.estimators import ESTIMATORS, ChoicePoint, Group, estimator
from toolcredit.agents.estimators.segments import planning_reward
from toolcredit.agents.estimators.steps import returns_to_go, step_advantages
from toolcredit.agents.estimators.values import cut_points, monte_carlo_values
from toolcredit.agents.exact.tasks import may_abstain, two_steps, two_turn
from toolcredit.agents.trajectory import Segment
from toolcredit.errors import UsageError

TASKS = {"two_turn": two_turn(), "may_abstain": may_abstain(), "two_steps": two_steps()}
OPTIONS = {"toolpo": {"action": "process"}, "rltr": {"reward": "process"}}
CUTS = (5, 0.9)
SAMPLED = sorted(set(ESTIMATORS) - {"slca_exact"})
RELATIVE = sorted(set(ESTIMATORS) - {"vineppo", "carl", "spo_chain"})  # they compare members with each other


def one_call(tool, summary, **fields):
    """Members with one tool token and one summary token; None in `tool` is a member that did not call."""
    called = [reward != "absent" for reward in tool]
    segment = [np.array([0, 1, 0, 2] if c else [0, 2]) for c in called]
    step = [np.array([-1, 0, -1, 1] if c else [-1, 0]) for c in called]
    rewards = {"process": [None if r == "absent" else r for r in tool], "summary": summary}
    rewards["total"] = [None if p is None or s is None else p + s for p, s in zip(*rewards.values(), strict=True)]
    rewards |= fields.pop("rewards", {})
    none = np.zeros(len(tool), bool)
    return Group(rewards, [s != 0 for s in segment], step, segment, omitted=none, **fields)


def values_on(group, advantages, segment):
    """Per member the advantage on a segment's tokens; None without such tokens."""
    found = []
    for member, tokens in enumerate(advantages.tokens):
        own = np.unique(tokens[group.mask(member, segment)])
        assert len(own) <= 1
        found.append(own[0] if len(own) else None)
    return found


def credit(name, **options):
    return estimator(name, **{**OPTIONS.get(name, {}), **options})


# -- SLCA's golden values ----------------------------------------------------------------------------------------


def test_two_present_members_get_plus_and_minus_0_70711():
    g = one_call([0.9, 0.2, "absent"], [0.5, 0.5, 1.0])
    got = credit("slca")(g)
    np.testing.assert_allclose(values_on(g, got, Segment.TOOL)[:2], [0.70711, -0.70711], atol=1e-5)
    np.testing.assert_allclose(values_on(g, got, Segment.SUMMARY), [-0.57735, -0.57735, 1.15470], atol=1e-5)


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (["absent"] * 4, [None] * 4),
        ([0.9, "absent", "absent", "absent"], [0.0, None, None, None]),
        ([0.9, 0.4, "absent", "absent"], [0.70711, -0.70711, None, None]),
        ([1.0, 0.0, 0.5, 0.5], [1.22474, -1.22474, 0.0, 0.0]),
    ],
    ids=["0 present", "1 present", "2 present", "all present"],
)
def test_presence_filter(tool, expected):
    g = one_call(tool, [0.1, 0.2, 0.3, 0.4])
    got = credit("slca")(g)
    assert values_on(g, got, Segment.TOOL) == [None if e is None else pytest.approx(e, abs=1e-5) for e in expected]
    assert got.channels["tool"].dead == (sum(r != "absent" for r in tool) < 2)
    assert got.channels["tool"].absent == tuple(i for i, r in enumerate(tool) if r == "absent")


def test_one_present_member_does_not_fall_back_to_its_raw_reward():
    g = one_call([0.9, "absent"], [0, 1])
    assert values_on(g, credit("slca", scale=False)(g), Segment.TOOL)[0] == 0


def test_without_scaling_the_difference_to_the_mean_remains():
    g = one_call([1.0, 0.4, 0.1], [0, 0, 1])
    assert values_on(g, credit("slca", scale=False)(g), Segment.TOOL) == pytest.approx([0.5, -0.1, -0.4])
    loo = credit("slca", scale=False, baseline="leave_one_out")
    assert values_on(g, loo(g), Segment.TOOL) == pytest.approx([0.75, -0.15, -0.6])


# -- the others --------------------------------------------------------------------------------------------------


def test_whole_rollout_estimators():
    g = one_call([1.0, 0.0, 0.5], [1.0, 0.5, 0.0])  # totals 2, 0.5, 0.5
    assert values_on(g, credit("grpo")(g), None) == pytest.approx([1.15470, -0.57735, -0.57735], abs=1e-5)
    assert values_on(g, credit("dapo")(g), None) == values_on(g, credit("grpo")(g), None)
    assert values_on(g, credit("dr_grpo")(g), None) == pytest.approx([1.0, -0.5, -0.5])
    assert values_on(g, credit("rloo")(g), None) == pytest.approx([1.5, -0.75, -0.75])


def test_additive_estimators_add_on_tool_tokens():
    g = one_call([1.0, 0.0, "absent"], [0.0, 1.0, 0.5], rewards={"process": [1.0, 0.0, 0.0]})
    toolpo, mt = credit("toolpo", scale=False)(g), credit("mt_grpo", scale=False)(g)
    assert values_on(g, toolpo, Segment.SUMMARY) == values_on(g, mt, Segment.SUMMARY) == [-0.5, 0.5, 0.0]
    assert values_on(g, toolpo, Segment.TOOL)[:2] == [-0.5 + 0.5, 0.5 - 0.5]  # two members count
    assert values_on(g, mt, Segment.TOOL)[:2] == pytest.approx([-0.5 + 2 / 3, 0.5 - 1 / 3])  # all three count


def test_rltr_trains_the_planner_only():
    g = one_call([1.0, 0.0, "absent"], [0.0, 1.0, 0.5], rewards={"process": [1.0, 0.0, 0.5]})
    got = credit("rltr", scale=False)(g)
    assert values_on(g, got, Segment.SUMMARY) == [0, 0, 0]
    assert values_on(g, got, Segment.TOOL)[:2] == [0.5, -0.5]


def test_planning_reward():
    verdicts = [[1, 1, 0], [1, 1, 1], [1, 1, 1], [np.nan, 1, 1]]
    got = planning_reward(np.array(verdicts), np.array([0, 2, 0, 0]), np.array([1, 0, 0, 0]), [True, True, False, True])
    np.testing.assert_allclose(got, [2 / 3 - 0.2, 0.8, -1, np.nan])


def test_gigpo_compares_steps_from_the_same_state_only():
    steps = {"total": [[0.0, 1.0], [0.0, 0.0], [0.5, 0.0]]}
    g = one_call([1, 0, 0.5], [0, 0, 0], step_rewards=steps, anchors=[["s", "x"], ["s", "x"], ["s", "y"]])
    got = credit("gigpo", gamma=0.5, scale=False)(g)
    a_e = np.array([0.5, -0.5, 0.0])
    first = np.array([0.5, 0.0, 0.5]) - 1 / 3  # discounted returns from s
    second = np.array([0.5, -0.5, 0.0])  # x is shared by two, y by nobody
    assert values_on(g, got, Segment.TOOL) == pytest.approx(list(a_e + first))
    assert values_on(g, got, Segment.SUMMARY) == pytest.approx(list(a_e + second))


def test_gigpo_with_nothing_shared_is_grpo():
    g = one_call([1, 0, 0.5], [0, 0.5, 0], anchors=[["a", "b"], ["c", "d"], ["e", "f"]]).at_last_step("total")
    got = credit("gigpo")(g)
    assert got.channels["step"].dead
    for mine, plain in zip(got.tokens, credit("grpo")(g).tokens, strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_slca_gigpo_adds_step_credit_inside_the_tool_segment_only():
    g = TASKS["two_steps"].group([0, 5, 6, 11])
    plain, with_steps = credit("slca")(g), credit("slca_gigpo", step_weight=2.0)(g)
    step, _ = step_advantages(g, "process", Segment.TOOL, gamma=1.0, scale=True, baseline="mean")
    for member in range(4):
        tool = g.mask(member, Segment.TOOL)
        np.testing.assert_array_equal(with_steps.tokens[member][~tool], plain.tokens[member][~tool])
        extra = (with_steps.tokens[member] - plain.tokens[member])[tool]
        np.testing.assert_allclose(extra, 2.0 * step[member][g.step[member][tool]])
    assert any(s[:2].any() for s in step) and not any(s[2] for s in step)


def test_value_differences_sum_to_the_reward_less_the_first_value():
    g = one_call([1.0, 0.0], [0.5, 0.5], values=[[0.8, 1.2], [0.8, 0.3]])
    for name in ("vineppo", "carl"):
        got = credit(name)(g)
        assert values_on(g, got, Segment.TOOL) == pytest.approx([0.4, -0.5])
        assert values_on(g, got, Segment.SUMMARY) == pytest.approx([0.3, 0.2])


def test_vineppos_formula_is_the_difference_of_whole_episode_values():
    """r_k + V(s_{k+1}) − V(s_k) with V the return from a state on, on the task with a chance in it."""
    task = TASKS["two_steps"]
    for i, rollout in enumerate(task.rollouts):
        whole, rewards = task.values("total", i), np.array(rollout.step_rewards["total"])
        ahead = whole - np.concatenate([[0], np.cumsum(rewards)[:-1]])
        got = credit("vineppo")(task.group([i])).tokens[0][task.trainable[i]]
        np.testing.assert_allclose(got, rewards + np.append(ahead[1:], 0) - ahead, atol=1e-12)


def test_monte_carlo_values_leave_out_what_was_not_scored():
    np.testing.assert_allclose(monte_carlo_values([[1, 0, np.nan], [0.5, 0.5, 0.5]]), [0.5, 0.5])
    with pytest.raises(UsageError, match="state 1"):
        monte_carlo_values([[1.0], [np.nan]])


def test_spo_cuts_before_every_kth_uncertain_token():
    p = np.array([1, 0.5, 0.95, 0.8, 0.7, 0.99, 0.6, 0.5])
    trainable = np.array([False, *[True] * 7])
    assert cut_points(np.log(p), trainable, every=2).tolist() == [1, 4, 7]
    assert cut_points(np.log(p), trainable, every=5).tolist() == [1]
    assert cut_points(np.log(np.full(3, 0.99)), np.ones(3, bool)).tolist() == [0]


def test_spo_gives_the_difference_to_uncertain_tokens():
    p = np.array([1, 0.5, 0.95, 0.8, 0.7, 0.99, 0.6, 0.5])
    trainable = np.array([False, *[True] * 7])
    g = Group({"total": [1.0]}, [trainable], logprobs=[np.log(p)], cut_values=[[0.3, 0.5, 0.9]])
    got = credit("spo_chain", every=2)(g).tokens[0]
    np.testing.assert_allclose(got, [0, 0.2, 0, 0.2, 0.4, 0, 0.4, 0.1])
    with pytest.raises(UsageError, match="3 cut_values for 1 cut points"):
        credit("spo_chain", every=9)(g)


def test_returns_to_go():
    np.testing.assert_allclose(returns_to_go(np.array([1.0, 0.0, 2.0]), 0.5), [1.5, 1.0, 2.0])


# -- faults, for every estimator ---------------------------------------------------------------------------------


def full_group(task, indices, **changes):
    """A group of a small task with everything that any estimator needs."""
    g = TASKS[task].group(indices, cuts=CUTS)
    rng = np.random.default_rng(sum(indices))
    points = []
    for member in range(g.size):
        place = np.flatnonzero(g.mask(member, Segment.TOOL))
        if len(place):
            logprobs = np.log(rng.dirichlet(np.ones(3)))
            points.append(ChoicePoint(member, (place[0], place[0] + 1), logprobs, rng.random(3), int(rng.integers(3))))
    return replace(g, choices=points, **changes)


groups = st.sampled_from(sorted(TASKS)).flatmap(
    lambda t: st.tuples(st.just(t), st.lists(st.integers(0, len(TASKS[t].rollouts) - 1), min_size=2, max_size=6))
)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@settings(max_examples=20, deadline=None)
@given(groups)
def test_environment_tokens_get_nothing_and_all_is_finite(name, drawn):
    g = full_group(*drawn)
    got = credit(name)(g)
    for member, tokens in enumerate(got.tokens):
        assert tokens.shape == g.trainable[member].shape and np.isfinite(tokens).all()
        assert not tokens[~g.trainable[member]].any()


@pytest.mark.parametrize("name", SAMPLED)
@settings(max_examples=20, deadline=None)
@given(groups, st.randoms(use_true_random=False))
def test_members_are_treated_alike(name, drawn, random):
    task, indices = drawn
    order = random.sample(range(len(indices)), len(indices))
    first = credit(name)(TASKS[task].group(indices, cuts=CUTS))
    moved = credit(name)(TASKS[task].group([indices[i] for i in order], cuts=CUTS))
    for place, i in enumerate(order):
        np.testing.assert_allclose(moved.tokens[place], first.tokens[i], atol=1e-9)


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("residue", [0.0, 1e-12])
def test_equal_rewards_give_exactly_zero(name, residue):
    """No advantage from the rounding of a reward's computation, whatever σ says (NeMo-RL #4161)."""
    g = full_group("two_turn", [3, 3, 3, 3])
    noise = residue * np.arange(4)
    rewards = {c: values + noise for c, values in g.rewards.items()}
    steps = {
        c: [s + n * np.eye(len(s))[0] for s, n in zip(own, noise, strict=True)] for c, own in g.step_rewards.items()
    }
    choices = [replace(c, values=np.full(3, 0.3) + residue * np.arange(3)) for c in g.choices]
    got = credit(name)(replace(g, rewards=rewards, step_rewards=steps, choices=choices))
    assert not any(tokens.any() for tokens in got.tokens)
    assert not any(a.any() for a in got.choices)
    assert all(channel.dead for channel in got.channels.values())


def test_a_residue_of_rounding_stays_small_under_the_floor_of_sigma():
    rewards = np.float32(0.3) + np.array([0, 1, 2, 3]) * np.float32(3e-8)
    assert abs(filtered_advantages(rewards, np.ones(4, bool))).max() < 1e-3
    assert abs(filtered_advantages([0.0, 0.05, 0.05, 0.05], np.ones(4, bool))).max() > 1.4  # a real step of HierR


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_an_unscored_member_is_excluded_and_counted_and_poisons_nobody(name, missing):
    """The others get what they would get without it (TRL #5775)."""
    indices = [0, 3, 7, 10]
    whole = TASKS["two_turn"].group(indices, cuts=CUTS)
    rewards = {c: [missing, *values[1:]] for c, values in whole.rewards.items()}
    got = credit(name)(replace(whole, rewards=rewards))
    without = credit(name)(TASKS["two_turn"].group(indices[1:], cuts=CUTS))
    assert not got.tokens[0].any()
    for mine, alone in zip(got.tokens[1:], without.tokens, strict=True):
        np.testing.assert_allclose(mine, alone, atol=1e-12)
    assert all(channel.excluded == (0,) for channel in got.channels.values())


def test_a_judge_that_failed_costs_slca_the_summary_only():
    """GRPO loses the member whose summary was not scored, the lock keeps its calls."""
    g = one_call([1.0, 0.0, 0.5], [None, 1.0, 0.0])
    slca, grpo = credit("slca")(g), credit("grpo")(g)
    assert values_on(g, slca, Segment.TOOL)[0] > 0 and values_on(g, slca, Segment.SUMMARY)[0] == 0
    assert not grpo.tokens[0].any()


def test_a_group_in_which_nobody_was_scored_is_dead():
    g = one_call([None, None], [None, None])
    for name in ("grpo", "slca"):
        got = credit(name)(g)
        assert not any(t.any() for t in got.tokens) and all(c.dead for c in got.channels.values())
