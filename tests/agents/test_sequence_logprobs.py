"""Batches of trajectories and their log-probabilities: rows, trees and chunks all equal the plain computation."""

import numpy as np
import pytest
import torch
from toolcredit.agents.policy import LoraPolicy, PolicyConfig
from toolcredit.agents.sequence_logprobs import pad_batch, token_logprobs
from toolcredit.agents.trajectory import SampledTurn, Segment, TrajectoryBuilder
from toolcredit.errors import UsageError
from transformers import AutoConfig, AutoModelForCausalLM

EOS = 2  # of the tiny tokenizer; also its padding token


@pytest.fixture(scope="module")
def policy():
    made = LoraPolicy(PolicyConfig(model="tiny", device="cpu"))
    with torch.no_grad():
        for weight in made.trainable_parameters().values():
            weight.add_(0.02)
    return made


def random_trajectories(count=5, shared=12, temperature=1.0, seed=0):
    """Trajectories of two turns with common beginnings, of all lengths, with end-of-turn tokens in many places."""
    rng = np.random.default_rng(seed)
    common = rng.integers(3, 500, shared).tolist()
    made = []
    for i in range(count):
        builder = TrajectoryBuilder()
        builder.add_environment([*common, *rng.integers(3, 500, i // 2).tolist()])
        for k, calls in enumerate((True, False)):
            ids = [*rng.integers(3, 500, 1 + (3 * i + k) % 7).tolist(), EOS]
            logprobs = (-rng.random(len(ids))).tolist()
            builder.add_turn(SampledTurn(tuple(ids), tuple(logprobs)), message=2 * k + 1, calls=calls, reward=0.0)
            if k == 0:
                builder.add_environment([EOS, *rng.integers(3, 500, 2 + i).tolist(), EOS])
        made.append(builder.build(temperature=temperature))
    return made


def plain(model, t, temperature):
    """(T,) log-probabilities and entropies by one plain row with all logits."""
    logits = model(torch.tensor(np.array(t.ids))[None]).logits[0, :-1].float()
    logprobs = torch.log_softmax(logits / temperature, -1)
    own = logprobs.gather(-1, torch.tensor(t.ids[1:].copy())[:, None])[:, 0]
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    keep = torch.tensor(t.trainable[1:].copy())
    first = torch.zeros(1)
    return torch.cat([first, own * keep]), torch.cat([first, entropy * keep]).detach()


def test_batches_are_padded_by_length_never_by_ids():
    trajectories = random_trajectories()
    batch = pad_batch(trajectories)
    assert len({len(t) for t in trajectories}) > 1
    for i, t in enumerate(trajectories):
        n = len(t)
        assert batch.ids[i, :n].tolist() == t.ids.tolist() and EOS in t.ids[t.trainable]
        assert batch.trainable[i, :n].tolist() == t.trainable.tolist() and not batch.trainable[i, n:].any()
        assert batch.segment[i, :n].tolist() == t.segment.tolist() and not batch.segment[i, n:].any()
        assert batch.step[i, :n].tolist() == t.step.tolist() and (batch.step[i, n:] == -1).all()
        assert batch.logprobs[i, :n].tolist() == t.logprobs.tolist() and not batch.logprobs[i, n:].any()
    assert batch.lengths.tolist() == [len(t) for t in trajectories]
    assert (batch.segment == Segment.TOOL).any() and (batch.segment == Segment.SUMMARY).any()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("chunk", [1000, 3])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_gradients_and_entropies_equal_the_plain_ones(policy, shared, chunk, temperature):
    trajectories = random_trajectories(temperature=temperature)
    batch, model = pad_batch(trajectories), policy.local.model
    scores = token_logprobs(model, batch, shared=shared, chunk=chunk)
    weights = torch.linspace(-1, 1, batch.ids.shape[1])

    rows = [plain(model, t, temperature) for t in trajectories]
    for i, (logprobs, entropy) in enumerate(rows):
        assert (scores.logprobs[i, : len(logprobs)] - logprobs).abs().max() < 1e-5
        assert (scores.entropy[i, : len(logprobs)] - entropy).abs().max() < 1e-5
        assert not scores.logprobs[i, len(logprobs) :].any()
    assert not scores.entropy.requires_grad

    parameters = list(policy.trainable_parameters().values())
    expected = torch.autograd.grad(sum((p * weights[: len(p)]).sum() for p, _ in rows), parameters)
    given = torch.autograd.grad((scores.logprobs * weights).sum(), parameters)
    largest = max(g.abs().max() for g in expected)
    assert largest > 0
    for a, b in zip(given, expected, strict=True):
        assert (a - b).abs().max() < 1e-5 * largest.clamp(min=1)


def test_a_tree_computes_what_is_shared_once(policy):
    trajectories = random_trajectories(count=4, shared=30)
    batch, model = pad_batch(trajectories), policy.local.model
    with torch.no_grad():
        rows, tree = token_logprobs(model, batch), token_logprobs(model, batch, shared=True)
    assert rows.tokens == batch.ids[:, :-1].numel()
    assert tree.tokens <= sum(len(t) - 1 for t in trajectories) - 3 * 30
    assert (rows.logprobs - tree.logprobs).abs().max() < 1e-5
    assert not rows.logprobs.requires_grad


def test_the_same_trajectory_twice_shares_everything(policy):
    (t,) = random_trajectories(count=1)
    scores = token_logprobs(policy.local.model, pad_batch([t, t]), shared=True)
    assert scores.tokens == len(t) - 1
    assert torch.equal(scores.logprobs[0], scores.logprobs[1])


def test_another_temperature_can_be_asked_for(policy):
    trajectories = random_trajectories(temperature=0.6)
    batch = pad_batch(trajectories)
    with torch.no_grad():
        hot = token_logprobs(policy.local.model, batch, temperature=2.0).logprobs
        expected = [plain(policy.local.model, t, 2.0)[0] for t in trajectories]
    for i, row in enumerate(expected):
        assert (hot[i, : len(row)] - row).abs().max() < 1e-5


def test_greedy_trajectories_are_scored_at_temperature_one(policy):
    with torch.no_grad():
        greedy, one = (
            token_logprobs(policy.local.model, pad_batch(random_trajectories(temperature=t))).logprobs for t in (0, 1)
        )
    assert torch.equal(greedy, one)


def test_one_batch_has_one_temperature():
    mixed = [*random_trajectories(1, temperature=1.0), *random_trajectories(1, temperature=0.5)]
    for trajectories in (mixed, []):
        with pytest.raises(UsageError, match="one sampling temperature"):
            pad_batch(trajectories)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gemma2", {"final_logit_softcapping": 3.0, "query_pre_attn_scalar": 8, "attn_implementation": "eager"}),
        ("granite", {"logits_scaling": 4.0}),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_heads_that_scale_or_cap_their_logits_are_the_models_own(family, changes, shared):
    small = {
        "vocab_size": 500,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 128,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**small, **changes})).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(5)
    trajectories = random_trajectories(count=3)
    scores = token_logprobs(model, pad_batch(trajectories), shared=shared, chunk=4)
    for i, t in enumerate(trajectories):
        expected, _ = plain(model, t, 1.0)
        assert (scores.logprobs[i, : len(t)] - expected).abs().max() < 1e-4
    scores.logprobs.sum().backward()
    assert "forward" not in vars(model.base_model), "the model is left as it was"


def test_no_more_than_a_chunk_of_distributions_is_kept_for_the_backward_pass(policy):
    batch, vocabulary = pad_batch(random_trajectories()), len(policy.local.tokenizer)
    kept = []

    def remember(tensor):
        if tensor.shape[-1:] == (vocabulary,):
            kept.append(tensor.numel() // vocabulary)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
        token_logprobs(policy.local.model, batch, chunk=4).logprobs.sum().backward()
    assert batch.trainable.sum() > 20
    assert max(kept, default=0) <= 4
