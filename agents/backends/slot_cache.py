"""A key-value cache with one row per episode, in which every row has a length of its own.

The column of a token is its position. So rows of any lengths go through the model together, a row is extended by any
number of tokens at any time (a sampled token, or a tool's whole answer), is handed to another episode, or begins as a
copy of the first columns of another row: a prefix that both share. What stands right of a row's end is never seen,
since a token sees the columns up to its own position only.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from ..policy.families import EAGER

_COLUMNS = 256
"""Buffers grow by at least this many columns."""


class SlotModel:
    """A causal language model that extends the rows of a slot cache.

    Args:
        model: of transformers, with attention that obeys an arbitrary mask in every layer.
        slots: number of rows.
    """

    def __init__(self, model: Any, slots: int):
        self.model = model
        self._pass = _Pass()
        # transformers 5.2x renamed it
        self._name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        count = model.config.get_text_config().num_hidden_layers
        self._layers = [_SlotLayer(slots, self._pass) for _ in range(count)]
        self._cache = Cache(layers=list(self._layers))

    def extend(self, rows: Sequence[int], starts: Sequence[int], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Append tokens to rows.

        Args:
            rows: which rows; each once.
            starts: their lengths so far.
            tokens: at least one new token for each.

        Returns:
            (rows, V) logits after each row's last token.
        """
        device = self.model.device
        longest = max(map(len, tokens))
        # New tokens are padded on the left, so that all last ones stand in one column. Padding sees column 0.
        ids = torch.tensor([[0] * (longest - len(t)) + list(t) for t in tokens], device=device)
        positions = torch.tensor(
            [[0] * (longest - len(t)) + list(range(s, s + len(t))) for s, t in zip(starts, tokens, strict=True)],
            device=device,
        )
        lengths = torch.tensor([len(t) for t in tokens], device=device)
        row, column = (torch.arange(longest, device=device) >= longest - lengths[:, None]).nonzero(as_tuple=True)
        slots = torch.tensor(list(rows), device=device)
        self._pass.rows = _as_slice(rows) or slots
        self._pass.source = (row, column)
        self._pass.target = (slots[row], positions[row, column])
        self._pass.width = max(s + len(t) for s, t in zip(starts, tokens, strict=True))
        output = self.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=_mask(self.model, positions, self._pass.width),
            use_cache=True,
            logits_to_keep=1,
            **{self._name: self._cache},
        )
        return output.logits[:, -1]

    def copy(self, source: int, target: int, length: int) -> None:
        """Let row `target` begin with the first `length` columns of row `source`."""
        for layer in self._layers:
            for buffer in layer.buffers:
                buffer[target, :, :length] = buffer[source, :, :length]


@dataclass
class _Pass:
    """Which rows are in the pass that is running, and where their new tokens belong."""

    rows: Any = None
    source: tuple[torch.Tensor, torch.Tensor] = (torch.empty(0), torch.empty(0))
    target: tuple[torch.Tensor, torch.Tensor] = (torch.empty(0), torch.empty(0))
    width: int = 0


class _SlotLayer(CacheLayerMixin):
    """One layer of the cache.

    Attributes:
        buffers: keys and values, each (slots, heads, columns, size); empty before the first pass.
    """

    is_sliding = False

    def __init__(self, slots: int, running: _Pass):
        super().__init__()
        self._slots, self._pass = slots, running
        self.buffers: list[torch.Tensor] = []

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Make buffers of the right shape and type, without a column."""
        self.buffers = [s.new_zeros(self._slots, s.shape[1], 0, s.shape[3]) for s in (key_states, value_states)]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new tokens of the running pass; its rows, as wide as the longest of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        now = self._pass
        self.buffers = [_grown(buffer, now.width) for buffer in self.buffers]
        (row, column), (slot, position) = now.source, now.target
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[slot, :, position] = states[row, :, column]
        keys, values = (buffer[now.rows, :, : now.width] for buffer in self.buffers)
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Columns and offset of the mask."""
        return self._pass.width, 0

    def get_seq_length(self) -> int:
        """Columns before the running pass; rows differ, so positions are always given explicitly."""
        return 0

    def get_max_length(self) -> int:
        """No limit."""
        return -1

    get_max_cache_shape = get_max_length  # its name before transformers 5.2x


def _grown(buffer: torch.Tensor, width: int) -> torch.Tensor:
    missing = width - buffer.shape[2]
    return torch.nn.functional.pad(buffer, (0, 0, 0, max(missing, _COLUMNS))) if missing > 0 else buffer


def _as_slice(rows: Sequence[int]) -> slice | None:
    """Neighbouring rows as a slice, which needs no copy."""
    first = rows[0]
    return slice(first, first + len(rows)) if list(rows) == list(range(first, first + len(rows))) else None


def _mask(model: Any, positions: torch.Tensor, width: int) -> torch.Tensor | dict[str, torch.Tensor]:
    """What each new token sees, (rows, 1, tokens, width), in the form that the model's `forward` takes."""
    config = model.config.get_text_config()
    columns = torch.arange(width, device=positions.device)
    distance = (positions[:, :, None] - columns)[:, None]
    additive = config._attn_implementation == EAGER

    def form(visible: torch.Tensor) -> torch.Tensor:
        if not additive:
            return visible
        minimum = torch.finfo(model.dtype).min
        return torch.zeros(visible.shape, dtype=model.dtype, device=visible.device).masked_fill_(~visible, minimum)

    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    full = distance >= 0
    within = full if window is None else full & (distance < window)
    if kinds is None:
        return form(within)
    if "sliding_attention" not in kinds:
        return form(full)
    return {"full_attention": form(full), "sliding_attention": form(within)}
