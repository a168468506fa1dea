"""The published overall scores, worked out by hand."""

import pytest
from toolcredit.benchmarks.bfcl.aggregates import aggregates
from toolcredit.benchmarks.bfcl.categories import VERSIONS
from toolcredit.errors import UnknownNameError

V3, V4 = VERSIONS["v3"], VERSIONS["v4"]
RIGHT = {
    "simple_python": 300, "simple_java": 20, "simple_javascript": 25, "multiple": 180, "parallel": 160,
    "parallel_multiple": 100, "irrelevance": 120, "live_simple": 129, "live_multiple": 702, "live_parallel": 4,
    "live_parallel_multiple": 12, "live_irrelevance": 442, "live_relevance": 8, "multi_turn_base": 60,
    "multi_turn_miss_func": 40, "multi_turn_miss_param": 20, "multi_turn_long_context": 0,
}  # fmt: skip
COUNTS = {name: (right, V4.category(name).size) for name, right in RIGHT.items()}


def test_the_official_v4_overall():
    found = aggregates(COUNTS, V4)
    simple = (0.75 + 0.2 + 0.5) / 3
    non_live = (simple + 0.9 + 0.8 + 0.5) / 4
    live = (129 + 702 + 4 + 12) / (258 + 1053 + 16 + 24)
    multi_turn = (0.3 + 0.2 + 0.1) / 4
    assert found["v4_non_live"] == pytest.approx(non_live)
    assert found["v4_live"] == pytest.approx(live)
    assert found["v4_irrelevance"] == pytest.approx(0.5)
    assert found["multi_turn"] == pytest.approx(multi_turn)
    assert found["v4_overall"] == pytest.approx(0.1 * non_live + 0.1 * live + 0.05 + 0.3 * multi_turn + 0.4 * 0)


def test_the_official_v3_overall():
    counts = {"simple": (300, 400), "java": (20, 100), "javascript": (25, 50)}
    counts |= {name: COUNTS[name] for name in list(COUNTS)[3:] if not name.endswith("relevance")}
    counts |= {"irrelevance": (120, 240), "live_irrelevance": (441, 882), "live_relevance": (9, 18)}
    found = aggregates(counts, V3)
    non_live = ((0.75 + 0.2 + 0.5) / 3 + 0.9 + 0.8 + 0.5 + 0.5) / 5
    live = (129 + 702 + 4 + 12 + 441 + 9) / (258 + 1053 + 16 + 24 + 882 + 18)
    assert found["v3_non_live"] == pytest.approx(non_live)
    assert found["v3_live"] == pytest.approx(live)
    assert found["v3_overall"] == pytest.approx((non_live + live + 0.15) / 3)


def test_the_papers_single_turn_overall_and_micro():
    found = aggregates(COUNTS, V4)
    non_live = ((0.75 + 0.2 + 0.5) / 3 + 0.9 + 0.8 + 0.5) / 4
    live = 847 / 1351
    assert found["single_turn_non_live"] == pytest.approx(non_live)
    assert found["single_turn_live"] == pytest.approx(live)
    assert found["single_turn_overall"] == pytest.approx((non_live + live) / 2)
    assert found["micro"] == pytest.approx(sum(RIGHT.values()) / 4441)


def test_what_was_not_run_counts_as_0_in_the_official_overall_and_parts_are_none():
    found = aggregates({"simple_python": (200, 400), "live_simple": (258, 258)}, V4)
    assert found["v3_overall"] == pytest.approx((0.5 / 3 / 5 + 258 / (258 + 1053 + 16 + 24 + 884 + 16)) / 3)
    assert found["v4_overall"] == pytest.approx(0.1 * 0.5 / 3 / 4 + 0.1 * 258 / 1351)
    assert [found[name] for name in ("v3_non_live", "v4_live", "v4_irrelevance", "multi_turn")] == [None] * 4
    # evalscope, which the paper follows, averages over what was run
    assert found["single_turn_overall"] == pytest.approx((0.5 + 1) / 2)
    assert aggregates({"simple_java": (1, 2)}, V4)["single_turn_overall"] is None


def test_a_part_of_a_live_category_weighs_with_what_was_run():
    part = {**COUNTS, "live_multiple": (10, 10)}
    assert aggregates(part, V4)["v4_live"] == pytest.approx((129 + 10 + 4 + 12) / (258 + 10 + 16 + 24))


def test_nothing_and_unknown_names():
    assert aggregates({}, V4)["micro"] is None
    with pytest.raises(UnknownNameError):
        aggregates({"memory_kv": (1, 2)}, V4)
