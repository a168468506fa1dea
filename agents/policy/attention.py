"""Attention over a packed tree, block by block: the cost grows with the number of questions, not with its square.

Under a dense mask every node's query meets every node of the batch, though it may see its own ancestors only. In
preorder the nodes that one prompt adds are neighbours; all they can see is each other and the ancestors of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "toolcredit_tree"
"""Of this attention among the implementations of transformers."""

Blocks = Sequence[tuple[slice, torch.Tensor]]
"""Rows of a block, and the (K,) nodes that any of them may see."""


def tree_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    tree_blocks: Blocks | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention; with `tree_blocks` each block of rows meets its own columns only.

    Args:
        module: the attention layer.
        query: (1, heads, N, D).
        key: (1, key-value heads, N, D).
        value: likewise.
        attention_mask: (1, 1, N, N) bool.
        tree_blocks: covers all rows in order; None computes ordinary attention.
        **kwargs: passed through: scaling, dropout.

    Returns:
        (1, N, heads, D), and None in place of attention weights.
    """
    if tree_blocks is None or attention_mask is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    parts = [
        sdpa_attention_forward(
            module,
            query[:, :, rows],
            key[:, :, columns],
            value[:, :, columns],
            attention_mask[:, :, rows][..., columns],
            **kwargs,
        )[0]
        for rows, columns in tree_blocks
    ]
    return torch.cat(parts, dim=1), None


AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
