import logging

import pytest
import torch
from toolcredit.agents.policy.families import ATTENTION, checkpoint_layers
from toolcredit.agents.policy.scorer import Scorer, row_logprobs


@pytest.fixture
def ready(build_model):
    """Builds a tiny model whose attention takes a mask."""

    def build(family, dtype=torch.float64):
        model = build_model(family, dtype)
        model.set_attn_implementation(ATTENTION[family])
        return model

    return build


def naive(model, prompts, candidates, temperature=1.0):
    return row_logprobs(model, [(p, c) for p in prompts for c in candidates], temperature)


def gradients(model, value):
    model.zero_grad()
    weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=value.dtype)
    (value * weights).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(left, right, tolerance):
    assert left.keys() == right.keys()
    scale = max(g.abs().max() for g in right.values())
    for name in left:
        assert (left[name] - right[name]).abs().max() <= tolerance * scale, name


@pytest.mark.parametrize("family", sorted(ATTENTION))
def test_every_listed_family_equals_plain_rows(ready, family, prompts, candidates):
    model = ready(family)
    scorer = Scorer(model)
    assert scorer.reason is None
    paths = scorer.paths(prompts, [candidates] * len(prompts), grad=True)
    rows = naive(model, prompts, candidates)
    # Eager attention takes its softmax in float32, whatever the weights are.
    assert (paths.logprobs - rows).abs().max() <= (1e-5 if ATTENTION[family] == "eager" else 1e-9)
    assert_same_gradients(gradients(model, paths.logprobs), gradients(model, rows), 1e-6)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "gemma2"])
def test_float32_is_within_1e_4(ready, family, prompts, candidates):
    model = ready(family, torch.float32)
    paths = Scorer(model).paths(prompts, [candidates] * len(prompts), grad=True)
    rows = naive(model, prompts, candidates)
    assert (paths.logprobs - rows).abs().max() <= 1e-4
    assert_same_gradients(gradients(model, paths.logprobs), gradients(model, rows), 1e-4)


def test_a_batch_that_shares_its_prefix_equals_single_questions(ready, prompts, candidates):
    scorer = Scorer(ready("llama"))
    together = scorer.paths(prompts, [candidates] * len(prompts))
    single = [scorer.paths([p], [candidates]) for p in prompts]
    assert (together.logprobs - torch.cat([s.logprobs for s in single])).abs().max() <= 1e-9
    assert together.tokens < sum(s.tokens for s in single)


def test_passes_change_nothing_but_the_cost(ready, prompts, candidates):
    model = ready("llama")
    whole = Scorer(model).paths(prompts, [candidates] * 3)
    split = Scorer(model, tokens_per_pass=1).paths(prompts, [candidates] * 3)
    assert split.tokens == sum(Scorer(model).paths([p], [candidates]).tokens for p in prompts) > whole.tokens
    assert (whole.logprobs - split.logprobs).abs().max() <= 1e-9
    assert (whole.scored == split.scored).all()


def test_temperature_divides_the_logits(ready, prompts, candidates):
    model = ready("llama")
    paths = Scorer(model).paths(prompts, [candidates] * 3, temperature=0.7)
    assert (paths.logprobs - naive(model, prompts, candidates, 0.7)).abs().max() <= 1e-9


def test_results_keep_the_order_of_the_prompts(ready, prompts, candidates):
    scorer = Scorer(ready("llama"), tokens_per_pass=1)
    forward, backward = scorer.paths(prompts, [candidates] * 3), scorer.paths(prompts[::-1], [candidates] * 3)
    assert torch.equal(forward.logprobs.view(3, 16, -1), backward.logprobs.view(3, 16, -1).flip(0))


def test_each_prompt_may_have_other_completions(ready, prompts):
    model = ready("llama")
    completions = [[[5, 6, 7], [5]], [[8, 9]], [[8, 9], [8, 9], [3]]]
    paths = Scorer(model).paths(prompts, completions)
    rows = row_logprobs(model, [(p, c) for p, own in zip(prompts, completions, strict=True) for c in own])
    assert (paths.logprobs - rows).abs().max() <= 1e-9
    assert paths.lengths.tolist() == [3, 1, 2, 2, 2, 1]


def test_gradient_checkpointing_leaves_the_gradient_as_it_is(ready, prompts, candidates):
    model = ready("llama")
    plain = gradients(model, Scorer(model).paths(prompts, [candidates] * 3, grad=True).logprobs)
    checkpoint_layers(model)
    model.train()
    again = gradients(model, Scorer(model).paths(prompts, [candidates] * 3, grad=True).logprobs)
    assert_same_gradients(again, plain, 1e-9)


def test_without_grad_there_is_no_graph(ready, prompts, candidates):
    assert not Scorer(ready("llama")).paths(prompts, [candidates] * 3).logprobs.requires_grad


# ---- fallback


@pytest.mark.parametrize(
    ("family", "changes", "why"),
    [
        ("mamba", {"state_size": 4}, "family 'mamba'"),
        ("qwen2", {"layer_types": ["full_attention", "chunked_attention"] * 2}, "chunked_attention"),
    ],
)
def test_other_architectures_are_not_run_as_trees(family, changes, why):
    config = type("Config", (), {"model_type": family, **changes, "get_text_config": lambda self: self})()
    model = torch.nn.Module()
    model.config = config
    assert why in Scorer(model).reason


@pytest.fixture
def mamba(build_model):
    return build_model("mamba")


def test_rows_have_the_naive_gradient(mamba, prompts, candidates, caplog):
    scorer = Scorer(mamba)
    with caplog.at_level(logging.WARNING):
        scorer.prove(prompts[0], candidates)
    assert "row by row" in caplog.text and "mamba" in caplog.text
    paths = scorer.paths(prompts, [candidates] * 3, grad=True)
    rows = naive(mamba, prompts, candidates)
    assert (paths.logprobs - rows).abs().max() <= 1e-9
    assert_same_gradients(gradients(mamba, paths.logprobs), gradients(mamba, rows), 1e-9)


def test_a_model_that_ignores_the_mask_is_found_out(ready, prompts, candidates, caplog):
    model = ready("llama")
    forward = model.forward
    model.forward = lambda *args, attention_mask=None, **kwargs: forward(*args, **kwargs)
    scorer = Scorer(model)
    assert scorer.reason is None
    scorer.prove(prompts[0], candidates)
    assert "differs from plain rows" in scorer.reason


def test_a_trunk_that_differs_is_dropped(ready, prompts, candidates, caplog):
    model = ready("llama")
    scorer = Scorer(model)
    scorer.trunk = lambda tree: torch.zeros(len(tree.predictors), 96, dtype=torch.float64)
    scorer.prove(prompts[0], candidates)
    assert scorer.trunk is None and scorer.reason is None
    assert "not caching the trunk" in caplog.text


def test_a_sound_model_is_proven(ready, prompts, candidates):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        scorer = Scorer(ready("llama", dtype))
        scorer.prove(prompts[0], candidates)
        assert scorer.reason is None
