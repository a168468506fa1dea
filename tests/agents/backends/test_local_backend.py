"""The local backend: equal to plain forward passes, no token twice, shared prefixes, exact draws, fallbacks."""

import itertools

import numpy as np
import pytest
import torch
from toolcredit.agents.backends import TurnRequest
from toolcredit.agents.backends.local import LocalBackend, draw
from toolcredit.agents.backends.slot_cache import SlotModel
from toolcredit.agents.policy import LoraPolicy, PolicyConfig
from toolcredit.llm.local import LocalModel, load_local_model
from toolcredit.llm.tiny import tiny_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

SMALL = {
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "pad_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES = {
    "llama": {},
    "mistral": {"sliding_window": 12},
    "qwen3": {},
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 512},
    "gemma2": {"sliding_window": 12, "query_pre_attn_scalar": 8, "attn_implementation": "eager"},
    "gemma3_text": {"sliding_window": 12, "query_pre_attn_scalar": 8},
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 12,
        "attn_implementation": "eager",
    },
}
RECURRENT = {"state_size": 4, "expand": 2, "conv_kernel": 2, "time_step_rank": 4}


def local_model(family, **further):
    """A model of a few layers whose distributions are far from uniform."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = AutoConfig.for_model(family, **{**SMALL, **further})
        config._experts_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(4)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.generation_config = GenerationConfig(eos_token_id=2)
    return LocalModel(family, model, tiny_tokenizer())


@pytest.fixture(scope="module")
def tiny():
    return load_local_model("tiny", device="cpu")


@torch.no_grad()
def plain_logprobs(model, prompt, ids, temperature=1.0):
    """Of `ids` after `prompt`, by one plain forward pass."""
    whole = torch.tensor([[*prompt, *ids]])
    logits = model(whole).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits.float() / temperature, -1).gather(-1, whole[0, len(prompt) :, None])[:, 0]


def play(backend, prompts, answers, *, longest=9, temperature=2.0, turns=3, seed=0, stop=frozenset({2})):
    """Episodes of several turns: their prompts, then sampled turns and given answers by turns.

    Returns all sampled turns as (ids before, SampledTurn), by episode.
    """
    backend.begin(lambda: None)
    ids, log = {e: list(p) for e, p in enumerate(prompts)}, {e: [] for e in range(len(prompts))}
    waiting, open_now, numbers = list(ids), set(), dict.fromkeys(ids, 0)

    def submit(e):
        stream = (seed, e, numbers[e])
        backend.submit(TurnRequest(e, tuple(ids[e]), stop, longest, temperature, stream))

    while waiting or open_now:
        while waiting and len(open_now) < backend.slots:
            e = waiting.pop(0)
            open_now.add(e)
            submit(e)
        for e, turn in backend.advance():
            log[e].append((list(ids[e]), turn))
            numbers[e] += 1
            if numbers[e] == turns:
                backend.release(e)
                open_now.discard(e)
                continue
            ids[e] += [*turn.ids, *answers[e][numbers[e] - 1]]
            submit(e)
    return log, backend.end()


def ragged(episodes=5, turns=3, seed=1):
    """Prompts and answers of all lengths, nothing shared."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(3, 512, 4 + 5 * e).tolist() for e in range(episodes)]
    answers = [[rng.integers(3, 512, 1 + (7 * e + 3 * k) % 11).tolist() for k in range(turns)] for e in range(episodes)]
    return prompts, answers


def forwarded(log):
    """Tokens that must go through the model: each of an episode's once, but the last sampled one never."""
    return sum(len(ids) + len(turn.ids) - 1 for ids, turn in (turns[-1] for turns in log.values()))


# ---- equality


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_are_those_of_a_plain_forward_pass(family):
    local = local_model(family, **FAMILIES[family])
    backend = LocalBackend(local, slots=3)
    assert backend.reason is None
    log, counts = play(backend, *ragged())
    for ids, turn in itertools.chain.from_iterable(log.values()):
        expected = plain_logprobs(local.model, ids, turn.ids, 2.0)
        assert (expected - torch.tensor(turn.logprobs)).abs().max() < 1e-4
    assert counts["forwarded_tokens"] == forwarded(log)
    assert counts["sampled_tokens"] == sum(len(turn.ids) for turns in log.values() for _, turn in turns)
    assert len({len(turns[-1][0]) for turns in log.values()}) > 2, "the episodes should differ in length"


@pytest.mark.parametrize("tokens_per_pass", [1, 16])
def test_small_passes_change_nothing_but_memory(tiny, tokens_per_pass):
    whole, _ = play(LocalBackend(tiny, slots=5), *ragged())
    split, counts = play(LocalBackend(tiny, slots=5, tokens_per_pass=tokens_per_pass), *ragged())
    assert counts["forwarded_tokens"] == forwarded(split)
    assert [[t.ids for _, t in turns] for turns in split.values()] == [
        [t.ids for _, t in turns] for turns in whole.values()
    ]


def test_rows_are_reused_and_grow(tiny):
    """Many more episodes than rows, and conversations longer than the first buffers."""
    prompts, answers = ragged(episodes=7, turns=2)
    prompts[3] = list(range(3, 303))
    log, counts = play(LocalBackend(tiny, slots=2), prompts, answers, turns=2)
    for ids, turn in itertools.chain.from_iterable(log.values()):
        assert (plain_logprobs(tiny.model, ids, turn.ids, 2.0) - torch.tensor(turn.logprobs)).abs().max() < 1e-4
    assert counts["forwarded_tokens"] == forwarded(log)


# ---- sharing


def test_members_of_a_group_compute_their_prompt_once(tiny):
    prompts, answers = ragged(episodes=4, turns=1)
    prompts = [prompts[3]] * 4
    log, counts = play(LocalBackend(tiny, slots=4), prompts, answers, turns=1)
    own = sum(len(turns[0][1].ids) - 1 for turns in log.values())
    assert counts["forwarded_tokens"] == len(prompts[0]) + own
    assert counts["shared_tokens"] == 3 * len(prompts[0])
    for ids, turn in itertools.chain.from_iterable(log.values()):
        assert (plain_logprobs(tiny.model, ids, turn.ids, 2.0) - torch.tensor(turn.logprobs)).abs().max() < 1e-4
    assert len({turn.ids for ((_, turn),) in log.values()}) > 1, "members must draw their own tokens"


def test_members_that_come_later_take_the_prompt_from_a_row_that_holds_it(tiny):
    prompts, answers = ragged(episodes=6, turns=1)
    prompts = [prompts[3]] * 6
    log, counts = play(LocalBackend(tiny, slots=2), prompts, answers, turns=1)
    own = sum(len(turns[0][1].ids) - 1 for turns in log.values())
    again = counts["forwarded_tokens"] - len(prompts[0]) - own
    assert 1 <= again <= 4, "of a late member's prompt only the last token, for the distribution after it"
    for ids, turn in itertools.chain.from_iterable(log.values()):
        assert (plain_logprobs(tiny.model, ids, turn.ids, 2.0) - torch.tensor(turn.logprobs)).abs().max() < 1e-4


def test_tasks_with_one_system_prompt_compute_it_once(tiny):
    rng = np.random.default_rng(2)
    system = rng.integers(3, 512, 40).tolist()
    prompts = [[*system, 100 + e, *rng.integers(3, 512, 3 + e).tolist()] for e in range(4)]
    log, counts = play(LocalBackend(tiny, slots=4), prompts, [[]] * 4, turns=1)
    assert counts["forwarded_tokens"] == forwarded(log) - 3 * len(system)
    assert counts["shared_tokens"] == 3 * len(system)
    for ids, turn in itertools.chain.from_iterable(log.values()):
        assert (plain_logprobs(tiny.model, ids, turn.ids, 2.0) - torch.tensor(turn.logprobs)).abs().max() < 1e-4


def test_nothing_is_kept_from_one_collection_to_the_next(tiny):
    """The weights may have changed between them."""
    backend = LocalBackend(tiny, slots=2)
    prompts, answers = ragged(episodes=2, turns=1)
    first, counts = play(backend, prompts, answers, turns=1)
    _, again = play(backend, prompts, answers, turns=1)
    assert again == counts and again["shared_tokens"] == 0


# ---- determinism


def test_a_seed_repeats_every_bit_and_another_does_not(tiny):
    runs = [play(LocalBackend(tiny, slots=3), *ragged(), seed=seed)[0] for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_turn_depends_on_its_own_seed_and_ids_only(tiny):
    """The same episode alone and among others draws the same tokens."""
    prompts, answers = ragged()
    together, _ = play(LocalBackend(tiny, slots=5), prompts, answers)
    alone, _ = play(LocalBackend(tiny, slots=1), prompts, answers)
    for e in together:
        assert [turn.ids for _, turn in together[e]] == [turn.ids for _, turn in alone[e]]


def test_global_random_state_is_left_alone(tiny):
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()
    play(LocalBackend(tiny, slots=5), *ragged())
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


# ---- ends of turns


def test_a_turn_ends_with_a_stop_token_or_at_its_limit(tiny):
    prompts, answers = ragged(episodes=12, turns=1)
    log, _ = play(LocalBackend(tiny, slots=12), prompts, answers, turns=1, stop=frozenset(range(0, 512, 7)))
    turns = [turn for ((_, turn),) in log.values()]
    assert {turn.clipped for turn in turns} == {True, False}
    for turn in turns:
        assert turn.clipped == (turn.ids[-1] % 7 != 0)
        assert all(i % 7 for i in turn.ids[:-1])
        assert not turn.clipped or len(turn.ids) == 9


def test_the_models_own_ends_are_told(tiny):
    assert LocalBackend(tiny).stop_ids == {tiny.tokenizer.eos_token_id}


# ---- drawing


def test_draws_invert_the_cumulative_distribution():
    logits = torch.tensor([[0.0, 1.0, 2.0]]).repeat(5, 1)
    p = torch.softmax(logits[0].double(), -1)
    uniforms = [0.0, float(p[0]) - 1e-6, float(p[0]) + 1e-6, float(p[0] + p[1]) + 1e-6, 1 - 1e-12]
    tokens, logprobs = draw(logits, [1.0] * 5, uniforms)
    assert tokens == [0, 0, 1, 2, 2]
    assert np.allclose(logprobs, torch.log(p)[tokens])


def test_draws_follow_the_tempered_distribution():
    logits, temperature, n = torch.tensor([0.3, -1.0, 2.0, 0.0]), 1.7, 20_000
    uniforms = np.random.default_rng(0).random(n).tolist()
    tokens, logprobs = draw(logits.repeat(n, 1), [temperature] * n, uniforms)
    p = torch.softmax(logits / temperature, -1).numpy()
    assert np.abs(np.bincount(tokens, minlength=4) / n - p).max() < 4 * np.sqrt(0.25 / n)
    assert np.allclose(logprobs, np.log(p)[tokens], atol=1e-6)


def test_temperature_zero_is_greedy_beside_sampled_rows():
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]])
    tokens, logprobs = draw(logits, [0.0, 1.0], [0.0, 0.0])
    assert tokens == [1, 0]
    assert np.allclose(logprobs, torch.log_softmax(logits[0], -1)[tokens])


# ---- models without such a cache, and policies that train


def test_a_recurrent_model_is_computed_from_the_whole_conversation(caplog):
    local = local_model("mamba", **RECURRENT)
    backend = LocalBackend(local, slots=3)
    assert "mamba" in backend.reason and "many times slower" in caplog.text
    log, counts = play(backend, *ragged(episodes=3), longest=3)
    for ids, turn in itertools.chain.from_iterable(log.values()):
        assert (plain_logprobs(local.model, ids, turn.ids, 2.0) - torch.tensor(turn.logprobs)).abs().max() < 1e-4
    assert counts["forwarded_tokens"] > forwarded(log)


def test_a_cache_that_is_wrong_is_found_at_the_start(tiny, monkeypatch):
    monkeypatch.setattr(SlotModel, "copy", lambda self, source, target, length: None)
    assert "differs from plain rows" in LocalBackend(tiny).reason


def test_a_model_that_refuses_the_cache_is_found_at_the_start(tiny, monkeypatch):
    def refuse(self, *args):
        raise TypeError("no such cache")

    monkeypatch.setattr(SlotModel, "extend", refuse)
    assert "no such cache" in LocalBackend(tiny).reason


def test_a_policy_in_training_samples_with_its_adapter_and_goes_on_training():
    policy = LoraPolicy(PolicyConfig(model="tiny", gradient_checkpointing=True, device="cpu"))
    backend = LocalBackend(policy.local, slots=3)
    prompts, answers = ragged(episodes=3)
    before, _ = play(backend, prompts, answers)
    with torch.no_grad():
        for weight in policy.trainable_parameters().values():
            weight.add_(0.05)
    assert backend.sync(4) == {} and backend.policy_version == 4
    after, counts = play(backend, prompts, answers)
    assert before != after
    assert policy.local.model.training
    assert counts["forwarded_tokens"] == forwarded(after)
    for ids, turn in itertools.chain.from_iterable(after.values()):
        own = plain_logprobs(policy.local.model.eval(), ids, turn.ids, 2.0)
        assert (own - torch.tensor(turn.logprobs)).abs().max() < 1e-4


@pytest.mark.smollm2
@pytest.mark.slow
def test_a_real_model_agrees_with_itself(smollm2_path):
    local = load_local_model(str(smollm2_path), device="cpu", dtype="float32")
    prompts, answers = ragged(episodes=3, turns=2)
    log, counts = play(LocalBackend(local, slots=3), prompts, answers, turns=2, longest=4)
    assert counts["forwarded_tokens"] == forwarded(log)
    for ids, turn in itertools.chain.from_iterable(log.values()):
        assert (plain_logprobs(local.model, ids, turn.ids, 2.0) - torch.tensor(turn.logprobs)).abs().max() < 1e-4
