"""Tiny models of many families, and a policy on the tiny preset."""

import itertools
import random

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

FAMILIES = {
    "llama": {},
    "mistral": {"sliding_window": 12},
    "qwen2": {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 2},
    "qwen3": {},
    "gpt2": {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 256},
    "gemma2": {"sliding_window": 12, "query_pre_attn_scalar": 8},
    "gemma3_text": {"sliding_window": 12, "query_pre_attn_scalar": 8},
    "phi3": {"sliding_window": 12},
    "olmo2": {},
    "granite": {},
    "smollm3": {},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "mamba": {"state_size": 4, "expand": 2, "conv_kernel": 2, "time_step_rank": 4},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 12},
}


def _build_model(family, dtype=torch.float64, **changes):
    """A model of four layers whose distributions are far from uniform."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = AutoConfig.for_model(family, **{**SMALL, **FAMILIES[family], **changes})
        config._experts_implementation = "eager"  # the grouped kernel has no float64
        model = AutoModelForCausalLM.from_config(config).to(dtype).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(4)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


@pytest.fixture
def build_model():
    """Builds a tiny model of a family; see `_build_model`."""
    return _build_model


@pytest.fixture
def prompts():
    """Three prompts with twenty common tokens at the beginning, of different lengths."""
    rng = random.Random(0)
    common = [rng.randrange(3, 96) for _ in range(20)]
    return [common + [rng.randrange(3, 96) for _ in range(15 + b)] for b in range(3)]


@pytest.fixture
def candidates():
    """Sixteen subsets of four, between two opening and two closing tokens."""
    subsets = [s for k in range(5) for s in itertools.combinations(range(4), k)]
    return [[10, 11, *[t for i in s for t in (20 + i, 30)], 40, 41] for s in subsets]
