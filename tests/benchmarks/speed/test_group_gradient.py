"""The measurement of trees against rows, at its smallest."""

import pytest

pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.benchmarks.speed.group_gradient import measure  # noqa: E402


def test_both_ways_compute_the_same_gradient_and_the_tree_fewer_tokens():
    found = measure(None, tasks=2, group=3, repeats=1)
    assert found["episodes"] == 6
    assert 0 < found["gradient_difference"] < 1e-4
    assert found["tree_tokens"] < 0.9 * found["rows_tokens"]
    assert found["tree_seconds"] > 0 and found["rows_seconds"] > 0
