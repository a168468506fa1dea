import pytest

pytest.importorskip("peft")

from toolcredit.benchmarks.speed.candidate_scoring import compare


@pytest.mark.slow
def test_a_tree_takes_fewer_tokens_and_less_memory_than_rows():
    rows, tree, shared = compare(["rows", "tree", "tree-batch"], "tiny", prompt_tokens=120, repeats=1)
    assert rows.tokens > 5 * tree.tokens > 5 * shared.tokens
    assert all(cost.forward > 0 and cost.training > 0 for cost in (rows, tree, shared))
    if rows.peak_mb is not None:
        assert rows.peak_mb > tree.peak_mb
