import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.agents.policy.tree import TokenTree

ids = st.lists(st.integers(0, 2), min_size=1, max_size=6)
batches = st.lists(st.tuples(ids, st.lists(ids, min_size=1, max_size=4)), min_size=1, max_size=4)


def path_of(tree, node):
    """Tokens from the root to a node, by its ancestors."""
    return tuple(tree.tokens[np.flatnonzero(tree.ancestors[node])])


@given(batches)
def test_every_distinct_input_prefix_is_one_node(batch):
    tree = TokenTree.build([p for p, _ in batch], [c for _, c in batch])
    rows = [p + c[:-1] for p, own in batch for c in own]
    assert sorted(path_of(tree, n) for n in range(len(tree))) == sorted(
        {tuple(row[:i]) for row in rows for i in range(1, len(row) + 1)}
    )


@given(batches)
def test_each_completion_token_is_predicted_after_exactly_what_precedes_it(batch):
    tree = TokenTree.build([p for p, _ in batch], [c for _, c in batch])
    paths = [(p, c) for p, own in batch for c in own]
    for path, (prompt, completion) in enumerate(paths):
        assert tree.scored[path].sum() == tree.lengths[path] == len(completion)
        for t, token in enumerate(completion):
            assert path_of(tree, tree.predictors[tree.rows[path, t]]) == (*prompt, *completion[:t])
            assert tree.targets[path, t] == token


@given(batches)
def test_preorder_depths_and_ends_agree(batch):
    tree = TokenTree.build([p for p, _ in batch], [c for _, c in batch])
    assert (tree.depths == tree.ancestors.sum(1) - 1).all()
    assert (tree.ends - np.arange(len(tree)) == tree.ancestors.sum(0)).all()
    assert (tree.predictors == np.unique(tree.predictors)).all()


@given(batches)
def test_blocks_cover_the_tree_and_everything_their_nodes_may_see(batch):
    tree = TokenTree.build([p for p, _ in batch], [c for _, c in batch])
    blocks = list(tree.blocks)
    assert np.concatenate([np.arange(len(tree))[rows] for rows, _ in blocks]).tolist() == list(range(len(tree)))
    for rows, columns in blocks:
        seen = np.flatnonzero(tree.ancestors[rows].any(0))
        assert set(seen) <= set(columns) and len(set(columns)) == len(columns)


def test_window_counts_along_the_path():
    tree = TokenTree.build([[1, 2, 3]], [[[4, 5], [6, 7]]])
    last = len(tree) - 1  # the node of 6; the node of 4 stands between it and the prompt
    assert tree.tokens.tolist() == [1, 2, 3, 4, 6]
    assert np.flatnonzero(tree.within(2)[last]).tolist() == [2, last]


def test_questions_share_their_common_beginning():
    tree = TokenTree.build([[1, 2, 3, 4], [1, 2, 3, 5]], [[[6, 7]], [[6, 7]]])
    assert len(tree) == 3 + 2 + 2


@pytest.mark.parametrize(
    ("prompts", "completions"),
    [([[1]], [[]]), ([[]], [[[1]]]), ([[1]], [[[]]]), ([[1], [2]], [[[1]]])],
    ids=["no completion", "empty prompt", "empty completion", "a list missing"],
)
def test_empty_input_is_refused(prompts, completions):
    with pytest.raises(ValueError, match=r"empty|lists of completions"):
        TokenTree.build(prompts, completions)
