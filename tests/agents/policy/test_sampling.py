import pytest
import torch
from toolcredit.agents.policy.families import ATTENTION
from toolcredit.agents.policy.sampling import generate, sample_tree
from toolcredit.agents.policy.scorer import Scorer, row_logprobs


@pytest.fixture
def model(build_model):
    model = build_model("llama")
    model.set_attn_implementation(ATTENTION["llama"])
    return model


@pytest.fixture
def few():
    """Candidates of one or two likely-enough tokens."""
    return [[5], [6, 7], [6, 8]]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def flatter(model, factor=0.05):
    """The same model with a nearly uniform head, so that every candidate is drawn now and then."""
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(factor)
    return model


def test_frequencies_are_the_generation_distribution(model, prompts, few):
    """Each candidate's frequency is exp(log p(candidate)), and the rest of the mass is malformed."""
    only_few = torch.full((96,), -30.0, dtype=torch.float64)
    only_few[[5, 6, 7, 8, 9]] = 0.0
    flatter(model)
    model.lm_head.bias = torch.nn.Parameter(only_few)
    p_gen = Scorer(model).paths(prompts[:1], [few]).sums.exp()
    expected = torch.cat([p_gen, 1 - p_gen.sum(0, keepdim=True)])
    draws = 4000
    (samples,) = sample_tree(Scorer(model), prompts[:1], few, draws, generator=seeded())
    counts = torch.bincount(torch.tensor([3 if s.candidate is None else s.candidate for s in samples]), minlength=4)
    chi_square = ((counts - draws * expected) ** 2 / (draws * expected)).sum().item()
    assert expected.min() > 0.02
    assert chi_square < 16.27  # the 99.9 % quantile at 3 degrees of freedom


def test_samples_end_at_a_candidate_or_at_the_first_token_off_the_tree(model, prompts, few):
    prefixes = {tuple(c[:t]) for c in few for t in range(len(c))}
    groups = sample_tree(Scorer(flatter(model)), prompts, few, 50, generator=seeded())
    assert [len(group) for group in groups] == [50] * 3
    for sample in (sample for group in groups for sample in group):
        if sample.candidate is not None:
            assert list(sample.ids) == few[sample.candidate]
        else:
            assert sample.ids[:-1] in prefixes
            assert sample.ids not in prefixes and list(sample.ids) not in few
        assert not sample.truncated


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_recorded_logprobs_are_those_that_training_recomputes(model, prompts, candidates, temperature):
    scorer = Scorer(model)
    groups = sample_tree(scorer, prompts, candidates, 6, temperature=temperature, generator=seeded())
    again = scorer.paths(prompts, [[s.ids for s in group] for group in groups], temperature=temperature)
    recorded = torch.tensor([sum(s.logprobs) for group in groups for s in group], dtype=torch.float64)
    assert (again.sums - recorded).abs().max() <= 1e-9


def test_passes_do_not_change_the_samples(model, prompts, candidates):
    whole = sample_tree(Scorer(model), prompts, candidates, 6, generator=seeded())
    split = sample_tree(Scorer(model, tokens_per_pass=1), prompts, candidates, 6, generator=seeded())
    assert [[s.ids for s in g] for g in whole] == [[s.ids for s in g] for g in split]


def test_a_seed_fixes_the_samples_and_the_global_generator_is_left_alone(model, prompts, few):
    state = torch.get_rng_state()
    runs = [sample_tree(Scorer(model), prompts, few, 8, generator=seeded(seed)) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]
    never = {"stop": lambda _: False, "max_new_tokens": 3}
    free = [generate(model, prompts, 8, generator=seeded(seed), **never) for seed in (3, 3, 4)]
    assert free[0] == free[1] != free[2]
    assert torch.equal(torch.get_rng_state(), state)


def test_greedy_decoding_takes_the_most_likely_token(model, prompts, few):
    ((tree,),) = sample_tree(Scorer(model), prompts[:1], few, 1, temperature=0)
    ((free,),) = generate(model, prompts[:1], 1, stop=lambda _: False, max_new_tokens=5, temperature=0)
    assert free.ids[: len(tree.ids)] == tree.ids
    ids = list(prompts[0])
    for token in free.ids:
        assert model(torch.tensor([ids])).logits[0, -1].argmax() == token
        ids.append(token)


@pytest.mark.parametrize(("family", "cached"), [("llama", True), ("llama", False), ("gpt2", True), ("gemma2", True)])
def test_free_generation_records_the_rows_logprobs(build_model, prompts, family, cached):
    """Prompts of different lengths in one batch; completions that end at different times."""
    dtype = torch.float32 if family == "gemma2" else torch.float64  # eager masks of float64 overflow its softmax
    model = build_model(family, dtype)
    model.set_attn_implementation(ATTENTION[family])
    limits = {"stop": lambda ids: ids[-1] < 40, "max_new_tokens": 6}
    groups = generate(model, prompts, 5, temperature=0.8, generator=seeded(), cached=cached, **limits)
    assert [len(group) for group in groups] == [5, 5, 5]
    for prompt, samples in zip(prompts, groups, strict=True):
        rows = row_logprobs(model, [(prompt, s.ids) for s in samples], 0.8)
        recorded = torch.tensor([sum(s.logprobs) for s in samples], dtype=torch.float64)
        assert (rows.sum(-1) - recorded).abs().max() <= (1e-9 if dtype == torch.float64 else 1e-4)
        for sample in samples:
            assert all(token >= 40 for token in sample.ids[:-1])
            assert sample.truncated == (sample.ids[-1] >= 40) and len(sample.ids) <= 6
    assert len({len(sample.ids) for samples in groups for sample in samples}) > 1


def test_free_generation_of_a_recurrent_model(build_model, prompts):
    mamba = build_model("mamba", torch.float32)
    groups = generate(mamba, prompts, 3, stop=lambda _: False, max_new_tokens=4, generator=seeded(), cached=False)
    for prompt, samples in zip(prompts, groups, strict=True):
        rows = row_logprobs(mamba, [(prompt, s.ids) for s in samples])
        assert (rows.sum(-1) - torch.tensor([sum(s.logprobs) for s in samples])).abs().max() <= 1e-4
