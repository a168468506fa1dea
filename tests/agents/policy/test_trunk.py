import pytest
import torch
from toolcredit.agents.policy.families import ATTENTION
from toolcredit.agents.policy.scorer import Scorer
from toolcredit.agents.policy.tree import TokenTree
from toolcredit.agents.policy.trunk import DiskStore, MemoryStore, SplitModel, Trunk, fingerprint


@pytest.fixture
def ready(build_model):
    def build(family="llama", dtype=torch.float64):
        model = build_model(family, dtype)
        model.set_attn_implementation(ATTENTION[family])
        return model

    return build


class CountingSplit(SplitModel):
    """Counts the nodes that go through the lower layers."""

    computed = 0

    def lower(self, tree):
        self.computed += len(tree)
        return super().lower(tree)


@pytest.mark.parametrize("family", sorted(ATTENTION))
def test_two_halves_are_the_whole(ready, family, prompts, candidates):
    model = ready(family)
    tree = TokenTree.build(prompts, [candidates] * 3)
    split = SplitModel(model, 3)
    with torch.no_grad():
        assert (split.upper(tree, split.lower(tree)) - Scorer(model).logits(tree)).abs().max() <= 1e-12


def test_layers_are_put_back_even_after_an_error(ready, prompts, candidates):
    model = ready()
    tree = TokenTree.build(prompts, [candidates] * 3)
    split = SplitModel(model, 2)
    with pytest.raises(RuntimeError):
        split.upper(tree, torch.zeros(5, 7, dtype=torch.float64))
    assert not any("forward" in vars(layer) for layer in model.model.layers)


@pytest.mark.parametrize("first", [0, 4, 9])
def test_there_must_be_layers_on_both_sides(ready, first):
    with pytest.raises(ValueError, match="cannot be cut before layer"):
        SplitModel(ready(), first)


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else DiskStore(tmp_path, "f" * 64)


def test_cached_states_give_the_same_scores_and_gradients(ready, store, prompts, candidates):
    model = ready()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    upper = list(model.model.layers[2:].parameters())
    for parameter in upper:
        parameter.requires_grad_(True)
    results = []
    for trunk in (None, Trunk(SplitModel(model, 2), candidates, store, 2048)):
        scorer = Scorer(model)
        scorer.trunk = trunk
        for _ in range(2):  # computed, then found
            sums = scorer.paths(prompts, [candidates] * 3, grad=True).sums
            results.append((sums, torch.autograd.grad(sums.logsumexp(0), upper)))
    for sums, gradients in results[1:]:
        assert (sums - results[0][0]).abs().max() <= 1e-9
        for one, other in zip(gradients, results[0][1], strict=True):
            assert (one - other).abs().max() <= 1e-9


def test_a_question_is_computed_once(ready, store, prompts, candidates):
    split = CountingSplit(ready(), 2)
    trunk = Trunk(split, candidates, store, 2048)
    for _ in range(2):
        for prompt in prompts:
            trunk(TokenTree.build([prompt], [candidates]))
    trunk(TokenTree.build(prompts, [candidates] * 3))
    assert split.computed == sum(len(TokenTree.build([p], [candidates])) for p in prompts)


def test_planned_neighbours_are_computed_together(ready, store, prompts, candidates):
    split = CountingSplit(ready(), 2)
    trunk = Trunk(split, candidates, store, 2048)
    trunk.plan(prompts)
    trunk(TokenTree.build(prompts[:1], [candidates]))
    trunk(TokenTree.build(prompts[1:], [candidates] * 2))
    assert split.computed == len(TokenTree.build(prompts, [candidates] * 3))


def test_filling_leaves_nothing_to_compute(ready, store, prompts, candidates):
    split = CountingSplit(ready(), 2)
    trunk = Trunk(split, candidates, store, 2048)
    trunk.fill(prompts)
    before = split.computed
    trunk(TokenTree.build(prompts, [candidates] * 3))
    assert split.computed == before > 0


def test_the_order_of_visits_does_not_change_what_is_stored(ready, prompts, candidates):
    stores = [MemoryStore(), MemoryStore()]
    for store, order in zip(stores, (prompts, prompts[::-1]), strict=True):
        trunk = Trunk(SplitModel(ready(dtype=torch.float32), 2), candidates, store, 2048)
        trunk.plan(order)
        for prompt in order:
            trunk(TokenTree.build([prompt], [candidates]))
    for prompt in prompts:
        assert torch.equal(stores[0].get(prompt), stores[1].get(prompt))


def test_sampled_prefixes_of_candidates_need_no_lower_layers(ready, prompts, candidates):
    split = CountingSplit(ready(), 2)
    scorer = Scorer(split.model)
    scorer.trunk = Trunk(split, candidates, MemoryStore(), 2048)
    scorer.paths(prompts, [candidates] * 3)
    before = split.computed
    left_at_once, left_later = [77], [*candidates[5][:3], 78]
    completions = [[left_at_once, candidates[3]], [left_later], [candidates[0]]]
    cached = scorer.paths(prompts, completions).logprobs
    assert split.computed == before
    assert (cached - Scorer(split.model).paths(prompts, completions).logprobs).abs().max() <= 1e-9


def test_other_completions_go_through_the_whole_model(ready, prompts, candidates):
    model = ready()
    scorer = Scorer(model)
    scorer.trunk = Trunk(SplitModel(model, 2), candidates, MemoryStore(), 2048)
    completions = [[[77, 78, 79], candidates[3]]] * 3
    difference = scorer.paths(prompts, completions).logprobs - Scorer(model).paths(prompts, completions).logprobs
    assert difference.abs().max() <= 1e-9


def test_states_on_disk_serve_another_process(ready, tmp_path, prompts, candidates):
    split = CountingSplit(ready(), 2)
    for _ in range(2):
        Trunk(split, candidates, DiskStore(tmp_path, "f" * 64), 2048)(TokenTree.build(prompts[:1], [candidates]))
    assert split.computed == len(TokenTree.build(prompts[:1], [candidates]))
    assert {file.suffix for file in tmp_path.rglob("*") if file.is_file()} == {".safetensors"}


def test_a_temporary_store_leaves_nothing_behind():
    store = DiskStore(None, "f" * 64)
    store.put([1, 2], torch.zeros(2, 3, dtype=torch.bfloat16))
    assert torch.equal(store.get([1, 2]), torch.zeros(2, 3, dtype=torch.bfloat16))
    folder = store.folder.parent
    del store
    assert not folder.exists()


def test_the_fingerprint_tells_everything_states_depend_on():
    base = ("model", 22, [[1, 2], [1, 3]])
    others = [("other", 22, base[2]), ("model", 21, base[2]), ("model", 22, [[1, 2], [1, 4]])]
    assert len({fingerprint(*arguments) for arguments in [base, *others]}) == 4
