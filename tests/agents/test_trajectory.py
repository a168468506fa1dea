"""Trajectories: what construction refuses, both segment rules and the hazard between them, and the JSON record."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.agents.trajectory import (
    SampledTurn,
    Segment,
    Trajectory,
    TrajectoryBuilder,
    Turn,
    segments_by_content,
    segments_by_position,
)
from toolcredit.errors import UnknownNameError, UsageError

N, TOOL, SUM = Segment.NONE, Segment.TOOL, Segment.SUMMARY


def built(*parts, rule="content", **fields):
    """A trajectory of environment texts (lists of ids) and turns (ids, holds a call)."""
    builder = TrajectoryBuilder()
    for k, part in enumerate(parts):
        if isinstance(part, list):
            builder.add_environment(part)
        else:
            ids, calls = part
            turn = SampledTurn(tuple(ids), tuple(-0.5 - i for i in range(len(ids))))
            builder.add_turn(turn, message=k, calls=calls, reward=float(k))
    return builder.build(segment_rule=rule, **fields)


TWO_STEPS = ([5, 6], ([7, 8], True), [9], ([10], True), [11, 12], ([13, 14, 15], False))


def test_all_arrays_have_one_length_and_say_what_each_token_is():
    t = built(*TWO_STEPS, policy_version=3, temperature=0.7, task_id="q", member=2)
    assert t.ids.tolist() == [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    assert t.step.tolist() == [-1, -1, 0, 0, -1, 1, -1, -1, 2, 2, 2]
    assert t.segment.tolist() == [N, N, TOOL, TOOL, N, TOOL, N, N, SUM, SUM, SUM]
    assert t.trainable.tolist() == [s >= 0 for s in t.step]
    assert t.logprobs.tolist() == [0, 0, -0.5, -1.5, 0, -0.5, 0, 0, -0.5, -1.5, -2.5]
    assert len(t) == 11 and t.prompt_length == 2 and t.policy_version == 3 and t.temperature == 0.7
    assert t.has(TOOL) and t.has(SUM)
    assert t.sampled(1) == SampledTurn((10,), (-0.5,))


def test_rewards_of_steps_add_up_to_the_episode():
    t = built(*TWO_STEPS)
    assert [turn.reward for turn in t.turns] == [1.0, 3.0, 5.0]
    assert t.episode_reward == 9.0


def test_a_reward_added_after_the_last_turn_belongs_to_it():
    builder = TrajectoryBuilder()
    builder.add_environment([1])
    builder.add_turn(SampledTurn((2,), (-0.1,)), message=1, calls=True, reward=0.25)
    builder.add_reward(0.5)
    assert builder.build().episode_reward == 0.75


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_score_that_is_no_number_is_none(value):
    t = built([1], ([2], False), rewards={"summary": value, "process": 0.5})
    assert t.rewards == {"summary": None, "process": 0.5}
    builder = TrajectoryBuilder()
    builder.add_environment([1])
    builder.add_turn(SampledTurn((2,), (-0.1,)), message=1, calls=False, reward=value)
    assert builder.build().turns[0].reward is None
    assert builder.build().episode_reward is None


def test_arrays_cannot_be_changed_and_share_nothing_with_their_source():
    ids = np.array([1, 2])
    arrays = {"trainable": [False, True], "segment": [0, 2], "step": [-1, 0], "logprobs": [0, -1]}
    t = Trajectory(ids=ids, **arrays, turns=(Turn(1, False, 0.0),))
    ids[1] = 99
    assert t.ids.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        t.ids[0] = 5


GOOD = {
    "ids": [5, 6, 7, 8, 9],
    "trainable": [False, True, True, False, True],
    "segment": [0, 1, 1, 0, 2],
    "step": [-1, 0, 0, -1, 1],
    "logprobs": [0, -1, -1, 0, -1],
    "turns": (Turn(1, True, 0.0), Turn(3, False, 1.0)),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": [5, 6, 7, 8]}, "one length"),
        ({"ids": [[5, 6, 7, 8, 9]]}, "one length"),
        ({"logprobs": [0, -1, -1, 0]}, "one length"),
        (
            {"trainable": [False] * 5, "segment": [0] * 5, "step": [-1] * 5, "logprobs": [0] * 5, "turns": ()},
            "nothing was sampled",
        ),
        ({"ids": [], "trainable": [], "segment": [], "step": [], "logprobs": [], "turns": ()}, "nothing was sampled"),
        ({"trainable": [True] * 5}, "first token"),
        ({"ids": [5, -6, 7, 8, 9]}, "negative"),
        ({"segment": [0, 1, 0, 0, 2]}, "exactly the trainable tokens"),
        ({"segment": [0, 1, 1, 1, 2]}, "exactly the trainable tokens"),
        ({"step": [-1, 0, -1, -1, 1]}, "exactly the trainable tokens"),
        ({"segment": [0, 1, 1, 0, 3]}, "unknown segment 3"),
        ({"segment": [0, 1, 2, 0, 2]}, "one segment"),
        ({"logprobs": [0, -1, -1, -1, -1]}, "has a log-probability"),
        ({"logprobs": [0, -1, float("nan"), 0, -1]}, "finite"),
        ({"logprobs": [0, -1, float("-inf"), 0, -1]}, "finite"),
        ({"logprobs": [0, -1, 0.5, 0, -1]}, "at most 0"),
        ({"step": [-1, 0, 0, -1, 2]}, "count up"),
        ({"step": [-1, 1, 1, -1, 0]}, "count up"),
        ({"step": [-1, 0, 1, -1, 0], "segment": [0, 1, 2, 0, 1]}, "count up"),
        ({"turns": (Turn(1, True, 0.0),)}, "count up"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
    ],
)
def test_construction_refuses_what_cannot_be_trained_on(change, message):
    Trajectory(**GOOD)
    with pytest.raises(UsageError, match=message):
        Trajectory(**{**GOOD, **change})


def test_a_turn_needs_a_log_probability_for_each_token():
    for ids, logprobs in (((), ()), ((1, 2), (-0.1,))):
        with pytest.raises(UsageError, match="one log-probability per token"):
            SampledTurn(ids, logprobs)


# ---- segments


@pytest.mark.parametrize(
    ("calls", "by_content", "by_position"),
    [
        ([False], [SUM], [SUM]),
        ([True], [TOOL], [SUM]),  # one call, and the rollout was cut
        ([True, False], [TOOL, SUM], [TOOL, SUM]),
        ([True, True], [TOOL, TOOL], [TOOL, SUM]),  # the hazard: cut right after a tool call
        ([False, False], [TOOL, SUM], [TOOL, SUM]),
        ([True, False, True], [TOOL, TOOL, TOOL], [TOOL, TOOL, SUM]),
    ],
)
def test_the_two_rules_differ_exactly_where_the_last_run_is_a_call(calls, by_content, by_position):
    parts = [part for k, call in enumerate(calls) for part in ([100 + k], ([k, k], call))]
    for rule, expected in (("content", by_content), ("position", by_position)):
        t = built(*parts, rule=rule)
        assert t.segment[t.trainable].tolist() == [label for label in expected for _ in range(2)]


def test_no_run_is_no_segment():
    assert segments_by_position(np.zeros(3, bool)).tolist() == [N, N, N]
    assert segments_by_content(np.zeros(3, bool), []).tolist() == [N, N, N]
    assert segments_by_position(np.zeros(0, bool)).tolist() == []


def test_unknown_rules_are_refused():
    with pytest.raises(UnknownNameError, match="content"):
        built([1], ([2], False), rule="contents")


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans()), min_size=1, max_size=6))
def test_the_segments_partition_the_trainable_tokens(runs):
    parts = [part for env, own, call in runs for part in ([1] * env, ([2] * own, call))]
    for rule in ("content", "position"):
        t = built(*parts, rule=rule)
        tool, summary = t.segment == TOOL, t.segment == SUM
        assert not (tool & summary).any()
        assert ((tool | summary) == t.trainable).all()
        last = runs[-1]
        assert summary.sum() == (0 if rule == "content" and last[2] else last[1])


# ---- JSON

_ids = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4)
_logprob = st.floats(-1e4, 0, width=32)


@st.composite
def trajectories(draw):
    builder = TrajectoryBuilder()
    for k in range(draw(st.integers(1, 4))):
        builder.add_environment(draw(_ids))
        ids = draw(_ids)
        logprobs = draw(st.lists(_logprob, min_size=len(ids), max_size=len(ids)))
        sampled = SampledTurn(tuple(ids), tuple(logprobs), draw(st.booleans()))
        reward = draw(st.none() | st.floats(-1e6, 1e6))
        builder.add_turn(sampled, message=2 * k + 1, calls=draw(st.booleans()), reward=reward)
    builder.add_environment(draw(st.just([]) | _ids))
    return builder.build(
        segment_rule=draw(st.sampled_from(["content", "position"])),
        rewards=draw(st.dictionaries(st.text(max_size=5), st.none() | st.floats(-1, 1), max_size=3)),
        finish_reason=draw(st.sampled_from(["terminated", "turns", "context"])),
        policy_version=draw(st.integers(0, 10**6)),
        temperature=draw(st.floats(0, 2)),
        task_id=draw(st.text(max_size=8).filter(lambda s: s.isprintable())),
        member=draw(st.integers(0, 99)),
        messages=({"role": "user", "content": draw(st.text(max_size=8).filter(str.isprintable))},),
    )


@given(trajectories())
def test_json_gives_back_exactly_what_went_in(t):
    again = Trajectory.from_json(json.loads(json.dumps(t.to_json(), allow_nan=False)))
    for name in ("ids", "trainable", "segment", "step", "logprobs"):
        assert np.array_equal(getattr(again, name), getattr(t, name))
        assert getattr(again, name).dtype == getattr(t, name).dtype
    for name in ("turns", "rewards", "finish_reason", "policy_version", "temperature", "task_id", "member", "messages"):
        assert getattr(again, name) == getattr(t, name)


RECORD = built(*TWO_STEPS, task_id="q").to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"ids": None},
        {"ids": [5, "6", 7]},
        {"ids": [5.5] * 11},
        {"ids": [2**70] * 11},
        {"ids": RECORD["ids"][:5]},
        {"logprobs": RECORD["logprobs"][:-1]},
        {"logprobs": ["x"] * 6},
        {"turns": RECORD["turns"][:-1]},
        {"turns": [{**RECORD["turns"][0], "first": -1}, *RECORD["turns"][1:]]},
        {"turns": [{**RECORD["turns"][0], "tokens": 0}, *RECORD["turns"][1:]]},
        {"turns": [{**RECORD["turns"][0], "tokens": 10**9}, *RECORD["turns"][1:]]},
        {"turns": [RECORD["turns"][0], *RECORD["turns"]]},
        {"turns": [{**RECORD["turns"][0], "segment": 7}, *RECORD["turns"][1:]]},
        {"turns": ["x"]},
        {"rewards": {"total": "high"}},
        {"rewards": 3},
        {"temperature": "warm"},
        {"messages": [1]},
        {"policy_version": None},
    ],
)
def test_hostile_records_are_refused_with_a_usage_error(change):
    Trajectory.from_json(RECORD)
    with pytest.raises(UsageError, match="trajectory"):
        Trajectory.from_json({**RECORD, **change})


@pytest.mark.parametrize("missing", ["ids", "turns", "logprobs", "rewards"])
def test_records_that_lack_a_field_are_refused(missing):
    with pytest.raises(UsageError, match=missing):
        Trajectory.from_json({k: v for k, v in RECORD.items() if k != missing})
