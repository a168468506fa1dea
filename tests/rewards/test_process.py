import itertools
import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toolcredit.errors import ConfigError, UnknownNameError
from toolcredit.rewards.matching import argument_scores, assign, loose_equal, match_greedily, match_optimally, name_f1
from toolcredit.rewards.process import (
    COMPONENTS,
    WEIGHTS,
    Attempt,
    Weights,
    make_weights,
    process_score,
    read_turns,
)
from toolcredit.rewards.published import read_text


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def block(*calls):
    return f"<tool_call>\n{json.dumps(calls[0] if len(calls) == 1 else list(calls))}\n</tool_call>"


def attempt(*steps):
    """Well-formed calls, one block a step."""
    return Attempt(tuple(map(tuple, steps)), len(steps), len(steps), bool(steps))


def components(score):
    return tuple(getattr(score, name) for name in COMPONENTS)


WEATHER = call("w", city="SEA")
ONE = [[WEATHER]]
TWO = [[call("a", x=1), call("b", x=1)]]
TOOLS = ("w", "a", "b", "z")


# --- the published score: every worked value

WORKED = {
    "exact": (block(WEATHER), ONE, 1.0),
    "one of one value wrong": (block(call("w", city="NYC")), ONE, 0.80),
    "one of two values wrong": (block(call("w", a=1, b=3)), [[call("w", a=1, b=2)]], 0.90),
    "one extra key": (block(call("w", city="SEA", unit="C")), ONE, 0.925),
    '"10" for 10': (block(call("w", n="10")), [[call("w", n=10)]], 1.0),
    "one extra serial call": (block(WEATHER) + block(WEATHER), ONE, 0.10 + 0.25 * 2 / 3 + 0.15 + 0.20 + 0.30),
    "two parallel calls made serially": (block(TWO[0][0]) + "\n" + block(TWO[0][1]), TWO, 0.70),
    "right tool without arguments": (block(call("w")), ONE, 0.65),
    "wrong allowed tool": (block(call("z", city="SEA")), ONE, 0.40),
    "omitted call": ("It is sunny.", ONE, 0.0),
    "correct abstention": ("I cannot do that.", [], 0.90),
    "called although the gold is empty": (block(WEATHER), [], 0.45),
    "half of the blocks unparsable": (block(WEATHER) + "<tool_call>{oops</tool_call>", ONE, 0.95),
}


@pytest.mark.parametrize("case", WORKED)
def test_paper_mode_gives_every_worked_value(case):
    text, gold, expected = WORKED[case]
    assert process_score(read_text(text, TOOLS), [gold], mode="paper").process == pytest.approx(expected, abs=1e-9)


def test_the_worked_value_of_an_extra_serial_call_is_the_one_that_is_printed():
    text, gold, _ = WORKED["one extra serial call"]
    assert round(process_score(read_text(text, TOOLS), [gold], mode="paper").process, 4) == 0.9167


def test_floats_put_half_of_the_values_wrong_below_the_threshold():
    """The reason for the tolerance of Success@0.9."""
    text, gold, _ = WORKED["one of two values wrong"]
    assert 0.9 - 1e-9 <= process_score(read_text(text, TOOLS), [gold], mode="paper").process < 0.9


# --- the published reading


@pytest.mark.parametrize(
    ("text", "steps", "valid", "blocks"),
    [
        ("<think>" + block(WEATHER) + "</think>Done.", 0, 0, 0),
        ("<thinking>x</thinking>" + block(WEATHER), 1, 1, 1),
        (block(call("unknown", city="SEA")), 0, 0, 1),
        ("<tool_call>" + json.dumps([WEATHER, {"name": "nope"}]) + "</tool_call>", 0, 0, 1),
        ('<tool_call>{"name": "w", "arguments": "{}"}</tool_call>', 0, 0, 1),
        ('<tool_call>{"name": "w", "parameters": {"city": "SEA"}}</tool_call>', 1, 1, 1),
        ('<tool_call>{"name": "w"}</tool_call>', 1, 1, 1),
        ('<tool_call>{"name": "w", "arguments": null}</tool_call>', 1, 1, 1),
        ("<tool_call>[]</tool_call>", 1, 1, 1),
        ("<tool_call>7</tool_call>", 0, 0, 1),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", 0, 0, 1),
        ('<tool_call>{"name": "w", "arguments": {"n": ' + "9" * 10_000 + "}}</tool_call>", 0, 0, 1),
        (block(WEATHER) + "<tool_call>{", 1, 1, 2),
        ("</tool_call></tool_call>", 0, 0, 2),
    ],
)
def test_the_published_reading_of_blocks(text, steps, valid, blocks):
    read = read_text(text, TOOLS)
    assert (len(read.steps), read.valid_blocks, read.blocks) == (steps, valid, blocks)


def test_only_an_opening_tag_is_an_attempt_there():
    assert not read_text("</tool_call>", TOOLS).attempted
    assert read_text("<tool_call>", TOOLS).attempted


def test_the_published_reading_is_linear_in_hostile_text():
    begin = time.process_time()
    for text in ("<think>" * 30_000, "</think>" + "<think>" * 30_000, "<tool_call>" * 30_000):
        assert not read_text(text, TOOLS).steps
    assert time.process_time() - begin < 5  # quadratic reading takes minutes


def test_the_published_score_of_gold_without_arguments():
    names = [[{"name": "w", "arguments": {}}]]
    garbage = process_score(read_text(block(call("z", city="x")), TOOLS), [names], gold_kind="names_only", mode="paper")
    assert components(garbage) == (1.0, 0.0, 1.0, 1.0, 1.0)
    assert process_score(read_text("no", TOOLS), [names], mode="paper").process == 0.0


# --- the default


def test_the_default_agrees_on_plain_cases():
    for steps, gold, expected in (
        ([[WEATHER]], ONE, 1.0),
        ([[call("w", city="NYC")]], ONE, 0.80),
        ([[call("w", city="SEA", unit="C")]], ONE, 0.925),
        ([[WEATHER], [WEATHER]], ONE, 0.65 + 0.25 * 2 / 3 + 0.10),
        ([[TWO[0][0]], [TWO[0][1]]], TWO, 0.70),
        ([[call("w")]], ONE, 0.65),
        ([[call("z", city="SEA")]], ONE, 0.40),
    ):
        assert process_score(attempt(*steps), [gold]).process == pytest.approx(expected, abs=1e-9)


def test_optimal_matching_beats_greedy_where_greedy_takes_the_wrong_call():
    gold = [[call("w", a=1, b=2, c=3), call("w", a=1, b=2)]]
    made = attempt([call("w", a=1, b=2), call("w", a=1, b=9, c=9)])
    greedy = match_greedily(made.calls, gold[0])
    best = match_optimally(made.calls, gold[0], 0.15, 0.20)
    assert 0.15 * best[0] + 0.20 * best[1] > 0.15 * greedy[0] + 0.20 * greedy[1] + 0.1
    assert process_score(made, [gold]).process > process_score(made, [gold], mode="paper").process


def test_the_best_of_equivalent_plans_counts():
    plans = [[[call("a", x=1), call("b", x=1)], [WEATHER]], [[call("a", x=1)], [call("b", x=1), WEATHER]]]
    score = process_score(attempt([call("a", x=1)], [call("b", x=1), WEATHER]), plans)
    assert (score.process, score.plan) == (1.0, 1)
    first = attempt([call("a", x=1), call("b", x=1)], [WEATHER])
    assert process_score(first, plans).plan == 0
    assert process_score(first, plans[::-1], mode="paper").process == pytest.approx(0.70)


def test_flat_gold_has_no_parallel_score():
    serial = attempt(*([one] for one in TWO[0]))
    score = process_score(serial, [TWO], gold_kind="flat")
    assert components(score) == (1.0, 1.0, 1.0, 1.0, None)
    assert score.process == 1.0 and "flat" in score.notes[0]
    half = process_score(attempt([TWO[0][0]]), [TWO], gold_kind="flat")
    assert half.process == pytest.approx((0.10 + 0.25 * 2 / 3 + 0.15 / 2 + 0.20 / 2) / 0.70)
    assert process_score(serial, [TWO], gold_kind="flat", mode="paper").process == pytest.approx(0.70)


def test_gold_of_names_is_scored_by_format_and_name_alone():
    names = [[{"name": "w", "arguments": {}}]]
    right = process_score(attempt([WEATHER]), [names], gold_kind="names_only")
    wrong = process_score(attempt([call("z")]), [names], gold_kind="names_only")
    assert components(right) == (1.0, 1.0, None, None, None) and right.process == 1.0
    assert wrong.process == pytest.approx(0.10 / 0.35) and wrong.arg_match is None
    assert "without arguments" in right.notes[0]


def test_calls_without_arguments_are_matched_too():
    gold = [[call("now"), WEATHER]]
    assert process_score(attempt([call("now"), WEATHER]), [gold]).process == 1.0
    assert components(process_score(attempt([call("z"), WEATHER]), [gold])) == (1.0, 0.5, 0.5, 0.5, 1.0)
    assert components(process_score(attempt([call("now", x=1), WEATHER]), [gold])) == (1.0, 1.0, 0.5, 1.0, 1.0)


def test_abstention_is_right_only_without_any_attempt():
    right = process_score(attempt(), [[]])
    assert components(right) == (None, 1.0, None, None, 1.0) and right.process == 1.0
    assert components(process_score(attempt([WEATHER]), [[]])) == (1.0, 0.0, None, None, 0.0)
    unreadable = process_score(Attempt((), 0, 1, True), [[]])
    assert components(unreadable) == (0.0, 0.0, None, None, 0.0) and unreadable.process == 0.0


def test_an_omitted_call_is_worth_nothing():
    assert components(process_score(attempt(), [ONE])) == (0.0, 0.0, 0.0, 0.0, 0.0)


# --- turns of a transcript


def turn(*calls, level="strict", valid=None, blocks=None, tags=None):
    count = len(calls) if blocks is None else blocks
    return {
        "calls": list(calls),
        "level": level,
        "valid_blocks": count if valid is None else valid,
        "blocks": count,
        "tags": [count, count] if tags is None else tags,
    }


def test_a_turn_is_a_step_however_many_blocks_it_has():
    made = read_turns([turn(*TWO[0]), turn(WEATHER)], TOOLS)
    assert [len(step) for step in made.steps] == [2, 1] and made.format == 1.0


def test_repaired_turns_cost_format_but_their_calls_count():
    made = read_turns([turn(WEATHER, level="repaired"), turn(WEATHER)], TOOLS)
    assert len(made.calls) == 2 and made.format == 0.5
    assert components(process_score(read_turns([turn(WEATHER, level="fenced", tags=[0, 0])], TOOLS), [ONE]))[:2] == (
        0,
        1,
    )


def test_calls_that_are_none_cost_format_only():
    foreign, broken = call("elsewhere"), {"name": "w", "arguments": None}
    made = read_turns([turn(foreign, broken, WEATHER, valid=1)], TOOLS)
    assert made.calls == [WEATHER] and made.format == pytest.approx(1 / 3)


def test_stray_tags_count_in_the_denominator():
    assert read_turns([turn(WEATHER, tags=[1, 2])], TOOLS).format == 0.5
    assert not read_turns([turn(tags=[0, 3])], TOOLS).attempted


# --- weights


def test_the_published_sweeps():
    assert make_weights("paper") == Weights(0.10, 0.25, 0.15, 0.20, 0.30)
    assert {name: tuple(getattr(weights, c) for c in COMPONENTS) for name, weights in WEIGHTS.items()} == {
        "paper": (0.10, 0.25, 0.15, 0.20, 0.30),
        "uniform": (0.20, 0.20, 0.20, 0.20, 0.20),
        "value_heavy": (0.05, 0.20, 0.20, 0.35, 0.20),
        "name_heavy": (0.05, 0.40, 0.15, 0.15, 0.25),
        "no_parallel": (0.15, 0.30, 0.25, 0.30, 0.00),
    }
    serial = attempt(*([one] for one in TWO[0]))
    assert process_score(serial, [TWO], weights="no_parallel").process == pytest.approx(1.0)
    assert process_score(serial, [TWO], weights="uniform").process == pytest.approx(0.8)
    assert process_score(serial, [TWO], weights={"parallel": 0.0}).process == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ("papper", UnknownNameError, "did you mean 'paper'"),
        ({"names": 1.0}, UnknownNameError, "did you mean 'name'"),
        ({"name": -0.1}, ConfigError, "at least 0"),
        ({"name": float("nan")}, ConfigError, "at least 0"),
        (dict.fromkeys(COMPONENTS, 0), ConfigError, "not all 0"),
    ],
)
def test_unusable_weights_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        make_weights(weights)


def test_misuse_is_refused():
    with pytest.raises(ConfigError, match="mode='published'"):
        process_score(attempt(), [[]], mode="published")
    with pytest.raises(ConfigError, match="no plan"):
        process_score(attempt(), [])


def test_weights_that_fall_on_nothing_scored_count_alike():
    score = process_score(attempt([WEATHER]), [[]], weights={"name": 0, "format": 0, "parallel": 0})
    assert score.process == pytest.approx(1 / 3)


# --- values


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("Rome ", "rome", True),
        ("10", 10, True),
        (10.0, 10, True),
        (0.1 + 0.2, 0.3, True),
        ("true", True, True),
        ("1", True, True),
        (1, True, True),
        (0, False, True),
        ("no", False, False),
        ([1, "A"], [1, "a"], True),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ([1, 2], [2, 1], False),
        (None, None, True),
        (None, "None", False),
        ("", None, False),
        ("nan", "nan", True),
        (float("nan"), 1.0, False),
        ("inf", 1e308, False),
        (10**400, 10**400 + 1, False),
        ("1e3", 1000, True),
        ([], {}, False),
    ],
)
def test_loose_equality(one, other, equal):
    assert loose_equal(one, other) is equal and loose_equal(other, one) is equal


def test_values_that_no_reader_lets_through_do_not_raise():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert loose_equal(deep, [1]) is False


def test_name_f1_of_multisets():
    assert name_f1([], []) == 1.0 and name_f1(["a"], []) == 0.0 and name_f1([], ["a"]) == 0.0
    assert name_f1(["a", "a", "b"], ["a", "b", "b"]) == pytest.approx(2 * 2 / 6)


def test_argument_scores():
    assert argument_scores({"a": 1, "c": 2}, {"a": 1, "b": 2}) == (pytest.approx(1 / 3), 0.5)
    assert argument_scores({}, {"a": 1}) == (0.0, 0.0)
    assert argument_scores({}, {}) == (1.0, 1.0) and argument_scores({"a": 1}, {}) == (0.0, 1.0)


# --- properties

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(st.integers(-3, 3), st.sampled_from(["x", "y", "1", "true"]), st.booleans(), st.none())
CALLS = st.builds(
    lambda name, arguments: {"name": name, "arguments": arguments},
    NAMES,
    st.dictionaries(st.sampled_from(["p", "q", "r"]), VALUES, max_size=3),
)
STEPS = st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=3)
MODES = st.sampled_from(["default", "paper"])
KINDS = st.sampled_from(["full", "flat", "names_only"])


@PROPERTY
@given(STEPS, st.lists(STEPS, min_size=1, max_size=3), KINDS, MODES, st.sampled_from(list(WEIGHTS)))
def test_every_score_lies_between_0_and_1(steps, plans, kind, mode, weights):
    score = process_score(attempt(*steps), plans, gold_kind=kind, weights=weights, mode=mode)
    assert 0 <= score.process <= 1
    assert all(part is None or 0 <= part <= 1 for part in components(score))


@PROPERTY
@given(st.lists(STEPS, min_size=1, max_size=3), KINDS, st.integers(0, 2))
def test_every_plan_scores_1(plans, kind, chosen):
    plan = plans[chosen % len(plans)]
    golds = plans if all(plans) else [plan]  # a task cannot both need a call and none
    assert process_score(attempt(*plan), golds, gold_kind=kind).process == 1.0


@PROPERTY
@given(STEPS, STEPS, st.randoms(use_true_random=False))
def test_the_order_of_parallel_calls_changes_nothing(steps, gold, rng):
    score = process_score(attempt(*steps), [gold])
    shuffled = [rng.sample(step, len(step)) for step in steps]
    shuffled_gold = [rng.sample(step, len(step)) for step in gold]
    for other in (process_score(attempt(*shuffled), [gold]), process_score(attempt(*steps), [shuffled_gold])):
        assert components(other) == pytest.approx(components(score))
        assert other.process == pytest.approx(score.process)


@PROPERTY
@given(st.lists(CALLS, max_size=5), st.lists(CALLS, max_size=5), st.sampled_from([(0.15, 0.2), (1, 0), (0, 1), (1, 1)]))
def test_greedy_matching_is_never_better_than_the_optimal_one(predicted, gold, weights):
    def worth(sums):
        return weights[0] * sums[0] + weights[1] * sums[1]

    argued = [one for one in gold if one["arguments"]]
    assert worth(match_greedily(predicted, argued)) <= worth(match_optimally(predicted, argued, *weights)) + 1e-9


@PROPERTY
@given(
    st.integers(0, 4).flatmap(lambda n: st.lists(st.lists(st.sampled_from([0, 0.2, 0.5, 1]), min_size=n, max_size=n)))
)
def test_the_assignment_is_the_best_of_all(gains):
    gains = gains[:4]
    chosen = assign(gains)
    taken = [column for column in chosen if column is not None]
    columns = len(gains[0]) if gains else 0
    assert len(set(taken)) == len(taken) == min(len(gains), columns)
    worth = sum(gains[row][column] for row, column in enumerate(chosen) if column is not None)
    rows = range(len(gains))
    best = max(
        (sum(gains[r][c] for r, c in zip(rows, order, strict=False) if c < columns)
         for order in itertools.permutations(range(max(columns, len(gains))), len(gains))),
        default=0,
    )  # fmt: skip
    assert worth == pytest.approx(best)


@PROPERTY
@given(STEPS, STEPS, MODES)
def test_scoring_is_deterministic_and_changes_nothing(steps, gold, mode):
    before = json.dumps([steps, gold])
    assert process_score(attempt(*steps), [gold], mode=mode) == process_score(attempt(*steps), [gold], mode=mode)
    assert json.dumps([steps, gold]) == before
