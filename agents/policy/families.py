"""Which architectures a packed tree can be run on, and how each wants its attention mask.

A tree needs attention that obeys an arbitrary mask in every layer. Recurrent, convolutional and linear-attention layers
would silently mix branches, so only families that were tested are listed; everything else gets scored row by row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import attention
from .tree import TokenTree

BLOCKS = attention.NAME
EAGER = "eager"

ATTENTION = {
    "gemma2": EAGER,  # soft-capped attention logits
    "gemma3_text": BLOCKS,
    "gpt2": BLOCKS,
    "gpt_oss": EAGER,  # attention sinks
    "granite": BLOCKS,
    "llama": BLOCKS,
    "mistral": BLOCKS,
    "olmo2": BLOCKS,
    "phi3": BLOCKS,
    "qwen2": BLOCKS,
    "qwen3": BLOCKS,
    "qwen3_moe": BLOCKS,
    "smollm3": BLOCKS,
}
"""Model type of the text model → attention implementation that takes the tree's mask."""


def unsupported(model: Any) -> str | None:
    """Why a packed tree cannot be run on this model, or None if it can be tried."""
    config = model.config.get_text_config()
    if config.model_type not in ATTENTION:
        return f"the model family {config.model_type!r} is not among those tested: {', '.join(sorted(ATTENTION))}"
    other = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if other:
        return f"it has layers that an attention mask does not reach: {', '.join(sorted(other))}"
    return None


def tree_mask(model: Any, tree: TokenTree) -> torch.Tensor | dict[str, torch.Tensor]:
    """The attention mask of a tree in the form that the model's `forward` takes.

    Returns:
        (1, 1, N, N), boolean for blocks and additive for eager attention; a dict of two for models that mix full and
        sliding-window layers. A window is measured along the path, not along the packed sequence.
    """
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return _mask(model, tree, window)
    if "sliding_attention" not in kinds:
        return _mask(model, tree, None)
    return {"full_attention": _mask(model, tree, None), "sliding_attention": _mask(model, tree, window)}


def _mask(model: Any, tree: TokenTree, window: int | None) -> torch.Tensor:
    visible = tree.ancestors if window is None or window > tree.depths.max() else tree.within(window)
    allowed = torch.from_numpy(visible).to(model.device)[None, None]
    if model.config.get_text_config()._attn_implementation != EAGER:
        return allowed
    minimum = torch.finfo(model.dtype).min
    return torch.zeros(allowed.shape, dtype=model.dtype, device=model.device).masked_fill_(~allowed, minimum)


def decoder_layers(model: Any) -> tuple[str, nn.ModuleList]:
    """Dotted name and list of the decoder layers of a causal language model.

    Raises:
        ValueError: the model has no list with one module per hidden layer.
    """
    count = model.config.get_text_config().num_hidden_layers
    found = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    if not found:
        raise ValueError(f"{type(model).__name__} has no list of its {count} decoder layers")
    return min(found, key=lambda item: item[0].count("."))


def checkpoint_layers(model: Any) -> None:
    """Recompute each layer in the backward pass, when in training mode."""
    how = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=how)
    else:  # its name before transformers 5.2x
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)


def forward_arguments(model: Any, tree: TokenTree) -> dict[str, Any]:
    """Keyword arguments of `model.forward` for one pass over a tree, logits at its predicting nodes only."""
    place = {"device": model.device}
    return {
        "input_ids": torch.tensor(tree.tokens, **place)[None],
        "position_ids": torch.tensor(tree.depths, **place)[None],
        "attention_mask": tree_mask(model, tree),
        "logits_to_keep": torch.tensor(tree.predictors, **place),
        "use_cache": False,
        "tree_blocks": [(rows, torch.tensor(columns, **place)) for rows, columns in tree.blocks],
    }
