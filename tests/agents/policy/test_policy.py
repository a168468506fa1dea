import json
import logging
import re

import pytest
import torch
from peft import PeftModel
from pydantic import ValidationError
from toolcredit.agents.policy import LoraPolicy, PolicyConfig
from toolcredit.agents.policy.adapter import attach
from toolcredit.agents.policy.families import ATTENTION
from toolcredit.agents.policy.scorer import Scorer, row_logprobs
from toolcredit.agents.policy.trunk import MemoryStore, SplitModel, Trunk
from toolcredit.errors import ConfigError, RunError
from toolcredit.llm.local import load_local_model

ACTIONS = [f"<answer>{','.join(str(i) for i in range(4) if a >> i & 1)}</answer>" for a in range(16)]


def tiny(**fields):
    policy = LoraPolicy(PolicyConfig(model="tiny", device="cpu", **fields))
    policy.set_candidates(ACTIONS)
    return policy


def trained(policy, seed=0, scale=0.1):
    """Stand-in for training: an adapter that changes the output."""
    generator = torch.Generator().manual_seed(seed)
    named = policy.trainable_parameters() if isinstance(policy, LoraPolicy) else dict(policy.named_parameters())
    with torch.no_grad():
        for parameter in (p for p in named.values() if p.requires_grad):
            parameter.add_(torch.randn(parameter.shape, generator=generator) * scale)
    return policy


def questions(policy, count=3):
    """Prompts that share the system turn."""
    return [
        policy.encode(
            [
                {"role": "system", "content": "You choose among 4 tools, indexed 0 to 3."},
                {"role": "user", "content": f"Question {b}: what is {'ACGT' * (b + 1)}? Answer in <answer></answer>."},
            ]
        )
        for b in range(count)
    ]


@pytest.mark.parametrize("fields", [{}, {"lora_layers": 1}, {"lora_layers": 1, "trunk_cache": "memory"}])
def test_scores_are_the_log_probabilities_of_rows(fields):
    policy = trained(tiny(**fields))
    prompts = questions(policy)
    scored = policy.score(prompts, grad=True)
    rows = row_logprobs(policy.local.model, [(p, c) for p in prompts for c in policy.candidates])
    assert scored.sums.shape == (3, 16) and scored.tokens > 0
    assert (scored.sums.view(-1) - rows.sum(-1)).abs().max() <= 1e-4
    assert scored.lengths.tolist() == [len(c) for c in policy.candidates]
    assert torch.equal(scored.mean, scored.sums / scored.lengths)
    parameters = list(policy.trainable_parameters().values())
    ours = torch.autograd.grad(scored.sums.logsumexp(-1).sum(), parameters)
    naive = torch.autograd.grad(rows.sum(-1).view(3, 16).logsumexp(-1).sum(), parameters)
    scale = max(g.abs().max() for g in naive)
    assert max((a - b).abs().max() for a, b in zip(ours, naive, strict=True)) <= 1e-4 * scale


def test_the_adapter_sits_on_the_upper_layers_only():
    whole, upper = tiny(), tiny(lora_layers=1)
    last = max(map(layer_of, whole.trainable_parameters()))
    assert set(map(layer_of, upper.trainable_parameters())) == {last}
    assert upper.parameter_counts()[0] * (last + 1) == whole.parameter_counts()[0] < whole.parameter_counts()[1]


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "gemma2"])
def test_adapters_of_other_families(build_model, family, prompts, candidates):
    """Adapter on two of four layers: trees and the trunk below it equal rows, in value and gradient."""
    model = build_model(family, torch.float32)
    model.set_attn_implementation(ATTENTION[family])
    adapted = trained(attach(model, PolicyConfig(lora_layers=2)), scale=0.02)
    assert {layer_of(name) for name, p in adapted.named_parameters() if p.requires_grad} == {2, 3}
    scorer = Scorer(model)
    scorer.trunk = Trunk(SplitModel(model, 2), candidates, MemoryStore(), 2048)
    sums = scorer.paths(prompts, [candidates] * 3, grad=True).sums
    rows = row_logprobs(model, [(p, c) for p in prompts for c in candidates]).sum(-1)
    assert (sums - rows).abs().max() <= 5e-4
    parameters = [p for p in model.parameters() if p.requires_grad]
    ours, naive = (torch.autograd.grad(x.logsumexp(0), parameters) for x in (sums, rows))
    scale = max(g.abs().max() for g in naive)
    assert max((a - b).abs().max() for a, b in zip(ours, naive, strict=True)) <= 1e-4 * scale


def layer_of(name):
    """Index of the decoder layer that a parameter belongs to."""
    return int(re.search(r"\.(?:layers|h)\.(\d+)\.", name)[1])


def test_candidates_decode_to_their_strings():
    policy = tiny()
    assert [policy.decode(ids) for ids in policy.candidates] == ACTIONS
    assert len({tuple(ids) for ids in policy.candidates}) == 16


def test_end_of_sequence_can_end_the_candidates():
    policy = tiny(end_with_eos=True)
    assert all(ids[-1] == policy.local.tokenizer.eos_token_id for ids in policy.candidates)
    prompts = questions(policy, 1)
    teach(policy, prompts, favourite=2)
    for draw in (policy.sample, policy.generate):
        ((greedy,),) = draw(prompts, 1, temperature=0)
        assert greedy.candidate == 2


def test_encoding_is_the_models_own_template():
    policy = tiny()
    messages = [{"role": "user", "content": "Hello"}]
    expected = policy.local.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert policy.encode(messages) == list(expected)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ([], "at least one|one at least"),
        (["a", ""], "empty"),
        (["<answer>0</answer>", "<answer>0</answer>"], "same tokens"),
        (["<answer>", "<answer>0</answer>"], "end_with_eos"),
    ],
)
def test_candidates_that_cannot_be_told_apart_are_refused(texts, why):
    with pytest.raises(ConfigError, match=why):
        tiny().set_candidates(texts)


def test_a_candidate_that_merges_with_the_prompt_is_refused():
    local = load_local_model("tiny", device="cpu")
    tokenizer = local.tokenizer

    class Merging:
        """A tokenizer that joins the last character of the prompt and the first of the answer."""

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def encode(self, text, **kwargs):
            ids = tokenizer.encode(text, **kwargs)
            return ids[:-3] + [ids[-3]] if text.endswith("!") else [0, *ids[1:]]

    policy = LoraPolicy(PolicyConfig(model="tiny", device="cpu"), local)
    local.tokenizer = Merging()
    with pytest.raises(ConfigError, match="changes the tokens of the prompt"):
        policy.set_candidates(["x"])


def test_scoring_needs_candidates():
    with pytest.raises(ConfigError, match="set_candidates"):
        LoraPolicy(PolicyConfig(model="tiny", device="cpu")).score([[1, 2]])


# ---- sampling


@pytest.mark.parametrize("how", ["sample", "generate"])
def test_samples_are_reproducible_and_have_the_logprobs_that_training_sees(how):
    policy = trained(tiny(lora_layers=1, trunk_cache="memory"))
    prompts = questions(policy)
    draw = getattr(policy, how)
    runs = [draw(prompts, 4, temperature=3.0, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    paths = policy.path_logprobs(prompts, runs[0], temperature=3.0)
    recorded = torch.tensor([sum(s.logprobs) for group in runs[0] for s in group])
    assert (paths.sums - recorded).abs().max() <= 1e-3
    assert paths.logprobs.requires_grad
    assert paths.scored.sum(-1).tolist() == [len(s.ids) for group in runs[0] for s in group]


def teach(policy, prompts, favourite):
    """Train the adapter until it writes one candidate."""
    optimizer = torch.optim.Adam(policy.trainable_parameters().values(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss = -policy.score(prompts, grad=True).sums[0, favourite]
        if loss < 0.05:
            break
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.trainable_parameters().values(), 1.0)
        optimizer.step()


@pytest.fixture(scope="module")
def taught():
    """A policy that has learned to write candidate 9, the prompt, and its valid mass before."""
    policy = tiny()
    prompts = questions(policy, 1)
    before = policy.score(prompts).valid_mass.item()
    teach(policy, prompts, favourite=9)
    return policy, prompts, before


def test_what_is_learned_is_what_is_generated(taught):
    """Scores, tree samples and free generation speak of one distribution, and the gradient moves all three."""
    policy, prompts, before = taught
    assert before < 0.01 < 0.9 < policy.score(prompts).valid_mass.item() <= 1 + 1e-5
    for draw in (policy.sample, policy.generate):
        ((greedy,),) = draw(prompts, 1, temperature=0)
        assert greedy.candidate == 9 and policy.decode(greedy.ids) == ACTIONS[9]
        (group,) = draw(prompts, 20, generator=torch.Generator().manual_seed(0))
        assert sum(s.candidate == 9 for s in group) >= 15


def test_generation_stops_at_the_text_and_at_the_limit(taught):
    policy, prompts, _ = taught
    ((sample,),) = policy.generate(prompts, 1, temperature=0, stop_text="<answer>")
    assert policy.decode(sample.ids) == "<answer>" and not sample.truncated
    (cut,) = policy.generate(prompts, 3, max_new_tokens=2, generator=torch.Generator().manual_seed(0))
    assert all(s.truncated and len(s.ids) == 2 and s.candidate is None for s in cut)


# ---- architectures that cannot run a tree


def test_rows_are_used_where_trees_are_not_proven(caplog):
    local = load_local_model("tiny", device="cpu")
    forward = local.model.forward
    local.model.forward = lambda *args, attention_mask=None, **kwargs: forward(*args, **kwargs)
    policy = LoraPolicy(PolicyConfig(model="tiny", device="cpu"), local)
    with caplog.at_level(logging.WARNING):
        policy.set_candidates(ACTIONS)
    assert "differs from plain rows" in policy.scorer.reason and "row by row" in caplog.text
    prompts = questions(policy, 1)
    assert (policy.score(prompts).sums - tiny().score(prompts).sums).abs().max() <= 1e-4
    samples = policy.sample(prompts, 2, generator=torch.Generator().manual_seed(0))
    paths = policy.path_logprobs(prompts, samples)
    paths.sums.sum().backward()
    assert all(p.grad is not None for p in policy.trainable_parameters().values())


# ---- adapter


def test_a_saved_adapter_scores_the_same_and_holds_no_pickle(tmp_path):
    policy = trained(tiny(lora_layers=1))
    policy.save_adapter(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    other = tiny(lora_layers=1)
    prompts = questions(policy)
    assert not torch.equal(other.score(prompts).sums, policy.score(prompts).sums)
    other.load_adapter(tmp_path)
    assert torch.equal(other.score(prompts).sums, policy.score(prompts).sums)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_peft_reads_the_adapter(tmp_path):
    policy = trained(tiny(lora_layers=1))
    policy.save_adapter(tmp_path)
    plain = PeftModel.from_pretrained(load_local_model("tiny", device="cpu").model, str(tmp_path))
    prompt, ids = questions(policy, 1)[0], policy.candidates[3]
    theirs = row_logprobs(plain, [(prompt, ids)]).sum()
    assert abs(theirs - policy.score([prompt]).sums[0, 3]) <= 1e-4
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == "tiny"


def test_adapters_that_do_not_fit_are_refused(tmp_path):
    trained(tiny(lora_layers=1)).save_adapter(tmp_path / "good")
    with pytest.raises(RunError, match="does not fit"):
        tiny().load_adapter(tmp_path / "good")
    with pytest.raises(RunError, match="does not fit"):
        tiny(lora_layers=1, lora_rank=4).load_adapter(tmp_path / "good")
    with pytest.raises(RunError, match="holds no adapter"):
        tiny().load_adapter(tmp_path / "missing")
    (tmp_path / "pickle").mkdir()
    torch.save({}, tmp_path / "pickle" / "adapter_model.bin")
    with pytest.raises(RunError, match="other formats are not read"):
        tiny().load_adapter(tmp_path / "pickle")
    (tmp_path / "good" / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(RunError, match="not a safetensors file"):
        tiny(lora_layers=1).load_adapter(tmp_path / "good")


def test_another_adapter_can_be_used_for_a_while():
    policy = trained(tiny())
    prompts = questions(policy)
    first, state = policy.score(prompts).sums, policy.adapter_state()
    trained(policy, seed=1)
    second = policy.score(prompts).sums
    with policy.using(state):
        assert torch.equal(policy.score(prompts).sums, first)
    assert torch.equal(policy.score(prompts).sums, second)
    policy.restore(state)
    assert torch.equal(policy.score(prompts).sums, first)


def test_the_seed_fixes_the_adapter_and_leaves_the_global_generator_alone():
    state = torch.get_rng_state()
    one, same, other = (tiny(seed=seed).adapter_state() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_only_the_adapter_is_trainable():
    policy = tiny()
    assert all("lora_" in name for name in policy.trainable_parameters())


# ---- configuration


@pytest.mark.parametrize(
    "fields",
    [{"trunk_cache": "memory"}, {"lora_layers": 0}, {"lora_dropout": 0.1}, {"trunk_folder": "x"}, {"dtype": "int8"}],
)
def test_impossible_configurations_are_refused(fields):
    with pytest.raises(ValidationError):
        PolicyConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "why"), [({"lora_layers": 99}, "decoder layers"), ({"lora_targets": ("q_projection",)}, "q_projection")]
)
def test_adapters_that_the_model_cannot_hold_are_refused(fields, why):
    with pytest.raises(ConfigError, match=why):
        tiny(**fields)


def test_bfloat16_keeps_the_adapter_in_float32():
    policy = tiny(dtype="bfloat16")
    assert policy.scorer.reason is None
    assert {p.dtype for p in policy.trainable_parameters().values()} == {torch.float32}
    assert policy.score(questions(policy)).sums.dtype == torch.float32


def test_checkpointing_leaves_the_gradient_as_it_is():
    gradients = []
    for checkpointing in (False, True):
        policy = trained(tiny(gradient_checkpointing=checkpointing))
        loss = policy.score(questions(policy), grad=True).sums.logsumexp(-1).sum()
        policy.generate(questions(policy, 1), 2, max_new_tokens=2)  # needs a cache, which checkpointing excludes
        gradients.append(torch.autograd.grad(loss, list(policy.trainable_parameters().values())))
    for one, other in zip(*gradients, strict=True):
        assert (one - other).abs().max() <= 1e-5 * max(g.abs().max() for g in gradients[0])
