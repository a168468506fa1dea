"""The group that estimators read: exclusion, presence, step rewards, capabilities; and the registry of estimators."""

import numpy as np
import pytest
from toolcredit.agents import estimators
from toolcredit.agents.estimators import ESTIMATORS, Advantages, ChoicePoint, Group, estimator, summarise
from toolcredit.agents.estimators.segments import guarded
from toolcredit.agents.trajectory import SampledTurn, Segment, TrajectoryBuilder
from toolcredit.errors import CapabilityError, ConfigError, UnknownNameError, UsageError

NONE, TOOL, SUMMARY = Segment


def rollout(*runs):
    """Arrays of a rollout with an environment's token before each run of (segment, length)."""
    segment = [s for kind, length in runs for s in [NONE, *[kind] * length]]
    step = [s for k, (_, length) in enumerate(runs) for s in [-1, *[k] * length]]
    return np.array(segment), np.array(step)


def group(*members, **fields):
    arrays = [rollout(*member) for member in members]
    segment, step = [a for a, _ in arrays], [b for _, b in arrays]
    return Group(trainable=[s != NONE for s in segment], segment=segment, step=step, **fields)


CALLED = [(TOOL, 2), (SUMMARY, 3)]
ABSTAINED = [(SUMMARY, 2)]


def test_none_nan_and_infinity_are_all_no_score():
    g = group(*[CALLED] * 4, rewards={"total": [None, np.nan, np.inf, 0.5]})
    assert np.isnan(g.reward("total")).tolist() == [True, True, True, False]


def test_an_advantage_is_spread_over_every_token_of_its_segment_only():
    """A scalar times the segment's own mask: no trainable step is left without its advantage (SkyRL #1507)."""
    two_tools = [(TOOL, 2), (TOOL, 1), (SUMMARY, 2)]
    g = group(two_tools, CALLED, rewards={"process": [1, 0], "summary": [0, 1]}, omitted=[False, False])
    tokens = estimator("slca").function(g).tokens
    np.testing.assert_allclose(tokens[0][g.segment[0] == TOOL], np.sqrt(0.5), rtol=1e-5)
    np.testing.assert_allclose(tokens[0][g.segment[0] == SUMMARY], -np.sqrt(0.5), rtol=1e-5)
    assert (tokens[0][~g.trainable[0]] == 0).all()
    assert [len(t) for t in tokens] == [8, 7]


def test_step_rewards_must_sum_to_the_episodes_reward():
    """Intermediate rewards are never dropped (SkyRL #201)."""
    group(CALLED, rewards={"total": [1.0]}, step_rewards={"total": [[0.4, 0.6]]})
    with pytest.raises(UsageError, match="sum to 0.6, but its reward is 1"):
        group(CALLED, rewards={"total": [1.0]}, step_rewards={"total": [[0.0, 0.6]]})
    with pytest.raises(UsageError, match="has 1 steps, but the rollout 2"):
        group(CALLED, rewards={"total": [1.0]}, step_rewards={"total": [[1.0]]})
    group(CALLED, rewards={"total": [None]}, step_rewards={"total": [[0.0, 0.6]]})  # nothing to compare with


def test_at_last_step_says_explicitly_where_a_reward_was_earned():
    g = group([(TOOL, 1), (TOOL, 1), (SUMMARY, 1)], ABSTAINED, rewards={"process": [0.7, 0.1]})
    at_end = g.at_last_step("process", TOOL).step_rewards["process"]
    assert [r.tolist() for r in at_end] == [[0, 0.7, 0], [0.1]]
    assert [r.tolist() for r in g.at_last_step("process").step_rewards["process"]] == [[0, 0, 0.7], [0.1]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rewards": {"total": [1.0]}}, "total has 1 members, but the group 2"),
        ({"rewards": {"total": [1, 2]}, "logprobs": [[0.0], [0.0]]}, "logprobs has lengths"),
        ({"rewards": {"total": [1, 2]}, "anchors": [["a"], ["a"]]}, "anchors of member 0 has 1 steps"),
        ({"rewards": {}, "choices": [ChoicePoint(2, (1, 2), [0, 0], [0, 0], 0)]}, "member 2 of a group of 2"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(UsageError, match=message):
        group(CALLED, CALLED, **fields)


def test_segments_must_partition_the_trainable_tokens():
    with pytest.raises(UsageError, match="member 0: exactly the trainable tokens"):
        Group({"total": [1]}, [[False, True]], segment=[[NONE, NONE]])
    with pytest.raises(UsageError, match="member 0"):
        Group({"total": [1]}, [[False, True]], segment=[[TOOL, TOOL]])


@pytest.mark.parametrize(("logprobs", "values"), [([0.0], [1.0]), ([0.0, 0.0], [1.0]), ([], [])])
def test_a_choice_point_needs_names_with_values(logprobs, values):
    with pytest.raises(UsageError, match="at least two names"):
        ChoicePoint(0, (0, 1), logprobs, values, 0)


def test_a_drawn_name_must_be_one_of_the_list():
    with pytest.raises(UsageError, match="below 2"):
        ChoicePoint(0, (0, 1), [0.0, 0.0], [0.0, 0.0], 2)


# -- capabilities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"grpo", "rloo", "dr_grpo", "dapo"}))
def test_an_estimator_without_what_it_needs_fails_and_does_not_fall_back(name):
    """Missing segment credit is no reason to train with an episode's reward silently (prime-rl #2410)."""
    plain = Group({"total": [1.0, 0.0]}, [[True], [True]])
    credit = estimator(name)
    assert credit.needs
    with pytest.raises(CapabilityError):
        credit(plain)
    with pytest.raises(CapabilityError, match=f"'{name}' needs .*but the rollouts have only reward:total"):
        credit.check({"reward:total"})
    credit.check(credit.needs)


def test_needs_follow_the_options():
    assert "omitted" in estimator("slca").needs
    assert "omitted" not in estimator("slca", guard=False).needs
    assert {"reward:verdict", "reward:summary"} <= estimator("slca", tool="verdict").needs
    assert "step_reward:process" in estimator("slca_gigpo").needs


def test_a_missing_component_is_named_with_those_there_are():
    with pytest.raises(CapabilityError, match="no reward component 'total', only process, summary"):
        estimator("grpo")(group(CALLED, CALLED, rewards={"process": [0, 1], "summary": [0, 1]}))


def test_a_component_without_step_rewards_is_not_taken_as_terminal_silently():
    g = group(CALLED, CALLED, rewards={"total": [0, 1]}, anchors=[["a", "b"]] * 2)
    with pytest.raises(CapabilityError, match="at_last_step"):
        estimator("gigpo")(g)
    estimator("gigpo")(g.at_last_step("total"))


# -- registry ----------------------------------------------------------------------------------------------------


def test_unknown_names_and_options_are_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'slca"):
        estimator("scla")
    with pytest.raises(UnknownNameError, match="'lambda_tool'"):
        estimator("slca", lambda_tol=2.0)
    with pytest.raises(UnknownNameError, match="baseline"):
        estimator("grpo", baseline="median")(group(CALLED, CALLED, rewards={"total": [0, 1]}))


def test_every_estimator_has_a_source_and_documented_options():
    for name, function in ESTIMATORS.items():
        doc = function.__doc__ or ""
        assert "arXiv" in doc or "module's docstring" in doc, name
        for option in estimator(name)._defaults:
            assert f"{option}:" in doc, (name, option)


def third_party(group, *, reward="total", factor=1.0):
    return Advantages(group.spread(factor * group.reward(reward)))


def test_a_third_partys_estimator_is_one_function_and_one_entry_point(monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("mine", "some_package:mine", estimators.ENTRY_POINT_GROUP)
    monkeypatch.setattr(estimators, "_entry_points", lambda: [point])
    monkeypatch.setattr(estimators, "import_object", lambda path: third_party)
    credit = estimator("mine", factor=2.0)
    assert "mine" in estimators.estimator_names()
    assert credit.needs == frozenset()
    assert credit(group(CALLED, rewards={"total": [1.0]}), progress=0.5).tokens[0].max() == 2.0


def test_an_import_path_works_and_must_lead_to_a_function():
    assert estimator("toolcredit.agents.estimators.whole:rloo").function is ESTIMATORS["rloo"]
    with pytest.raises(UsageError, match="expected a function"):
        estimator("toolcredit.agents.estimators:ENTRY_POINT_GROUP")


# -- telemetry ---------------------------------------------------------------------------------------------------


def test_telemetry_counts_groups_and_rollouts():
    slca = estimator("slca", guard=False)
    live = group(CALLED, CALLED, ABSTAINED, rewards={"process": [1, 0, 0], "summary": [0.2, None, 0.2]})
    dead = group(ABSTAINED, ABSTAINED, rewards={"process": [0, 0], "summary": [0, 1]})
    record = summarise([slca(live), slca(dead)])
    assert record == {
        "kept_groups": 1.0,
        "dead_group_rate/tool": 0.5,
        "dead_group_rate/summary": 0.5,
        "excluded/tool": 0.0,
        "excluded/summary": 1.0,
        "absent/tool": 3.0,
        "absent/summary": 0.0,
    }
    assert summarise([]) == {}


def test_dynamic_sampling_keeps_no_dead_group():
    dapo = estimator("dapo")
    alive, dead = (dapo(group(CALLED, CALLED, rewards={"total": rewards})) for rewards in ([0, 1], [1, 1]))
    assert (alive.keep, dead.keep) == (True, False)
    assert summarise([alive, dead])["kept_groups"] == 0.5


# -- schedules and guard -----------------------------------------------------------------------------------------


def test_lambda_multiplies_after_the_normalisation_and_can_follow_a_schedule():
    g = group(CALLED, CALLED, rewards={"process": [1, 0], "summary": [1, 0]}, omitted=[False, False])
    fixed, scheduled = estimator("slca"), estimator("slca", lambda_tool=[[0, 0.0], [0.5, 3.0]], lambda_summary=0.5)
    base = fixed(g).tokens[0]
    for progress, factor in [(0.0, 0.0), (0.25, 1.5), (0.5, 3.0), (1.0, 3.0)]:
        tokens = scheduled(g, progress=progress).tokens[0]
        np.testing.assert_allclose(tokens, base * np.where(g.segment[0] == TOOL, factor, 0.5))
    with pytest.raises(ConfigError, match="in the order"):
        estimator("slca", lambda_tool=[[0.5, 1.0], [0.0, 2.0]])(g)


def test_the_guard_overrides_and_does_not_subtract():
    rewards = {"process": [0.3, 0.9, None], "summary": [0.8, 0.6, None]}
    g = group(ABSTAINED, CALLED, ABSTAINED, rewards=rewards, omitted=[True, False, True])
    tool, summary = guarded(g, "process", "summary")
    assert tool.tolist() == [0, 0.9, 0]
    assert summary.tolist() == [-0.5, 0.6, -0.5]
    assert g.reward("summary")[0] == 0.8  # the group keeps what was scored


def test_the_guard_leaves_what_hierr_guarded_already_as_it_is():
    rewards = {"process": [0.0, 0.4], "summary": [-0.5, 0]}
    g = group(ABSTAINED, CALLED, rewards=rewards, omitted=[True, False])
    assert [r.tolist() for r in guarded(g, "process", "summary")] == [r.tolist() for r in guarded(g, *rewards, False)]


# -- from rollouts -----------------------------------------------------------------------------------------------


def trajectory(turns, rewards):
    """Turns are (calls, reward)."""
    builder = TrajectoryBuilder()
    for k, (calls, reward) in enumerate(turns):
        builder.add_environment([1, 2])
        builder.add_turn(SampledTurn((3, 4), (-0.1, -0.2)), message=2 * k + 1, calls=calls, reward=reward)
    return builder.build(rewards=rewards)


def test_the_group_of_sampled_trajectories():
    scored = {"process": 0.9, "summary": 0.5, "total": 1.4, "omitted": 0.0}
    missed = {"process": 0.0, "summary": -0.5, "total": -0.5, "omitted": 1.0}
    failed = dict.fromkeys(scored)
    trajectories = [
        trajectory([(True, 0.0), (False, 1.4)], scored),
        trajectory([(False, -0.5)], missed),
        trajectory([(True, 0.0), (False, None)], failed),
    ]
    g = Group.from_trajectories(trajectories, anchors=[["s", "t"], ["s"], ["s", "u"]])
    assert g.present(TOOL).tolist() == [True, False, True]
    assert g.omitted.tolist() == [False, True, False]
    assert np.isnan(g.reward("total")).tolist() == [False, False, True]
    assert g.reward_by_step("total")[0].tolist() == [0.0, 1.4]
    for name in ("grpo", "slca", "gigpo"):
        tokens = estimator(name)(g).tokens
        assert (
            [len(t) for t in tokens] == [8, 4, 8] and not tokens[2].any() and np.isfinite(np.concatenate(tokens)).all()
        )


def test_steps_that_do_not_add_up_to_the_total_are_refused():
    with pytest.raises(UsageError, match="sum to 0.5, but its reward is 1"):
        Group.from_trajectories([trajectory([(False, 0.5)], {"total": 1.0})])
