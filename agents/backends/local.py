"""Sampling in this process: all open episodes go on together, token by token, and no token is computed twice.

The keys and values of an episode stay in its row of a slot cache while its environment works, so a turn costs the new
tokens only. Episodes that begin alike (the members of a group; tasks with one system prompt) compute what they share
once. Where the model's layers cannot be trusted with such a cache (unknown family, or a self-check at start-up that
differs from plain rows) every token is computed from the whole conversation instead, and a warning says so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...llm.local import LocalModel
from ..policy.families import unsupported
from ..policy.scorer import TOLERANCE
from ..trajectory import SampledTurn
from . import Outcome, TurnRequest
from .slot_cache import SlotModel

log = logging.getLogger(__name__)

#: New rows are padded to the longest of a pass; a row of less than this share of it waits for the next pass.
_LEAST_SHARE = 0.5


@dataclass(eq=False)
class _Slot:
    """A row of the cache.

    Attributes:
        ids: the tokens whose keys and values it holds; kept after the episode has ended, for others that begin alike.
        episode: whose it is; None if it is free.
    """

    ids: list[int] = field(default_factory=list)
    episode: int | None = None


@dataclass
class RunningTurn:
    """A turn that is being sampled.

    Attributes:
        request: what was asked for.
        random: its own random numbers, one a token.
        ids: the tokens so far.
        logprobs: log p of each, as in `SampledTurn`.
        alternatives: for each token the likeliest ones at its place, with their log-probabilities, likeliest first;
            empty unless `request.alternatives`.
    """

    request: TurnRequest
    random: np.random.Generator
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[list[tuple[int, float]]] = field(default_factory=list)

    def ended(self) -> bool:
        """Whether the last token ends the turn or is the last one allowed."""
        return self.ids[-1] in self.request.stop_ids or len(self.ids) >= self.request.max_new_tokens

    def turn(self) -> SampledTurn:
        """The turn as sampled."""
        return SampledTurn(tuple(self.ids), tuple(self.logprobs), self.ids[-1] not in self.request.stop_ids)


class LocalBackend:
    """Samples from a model of this process.

    Args:
        local: the model, with any adapter inside. Its weights may change between collections.
        slots: episodes at once. Each needs memory for the keys and values of its tokens.
        tokens_per_pass: more new tokens than this are computed in several passes, which bounds the memory.

    Attributes:
        reason: why no cache is used; None if one is.
    """

    in_process = True

    def __init__(self, local: LocalModel, *, slots: int = 16, tokens_per_pass: int = 4096):
        self.local = local
        self.tokenizer = local.tokenizer
        self.context_length = local.context_length
        self.slots = slots
        self.policy_version = 0
        self._tokens_per_pass = tokens_per_pass
        own = local.model.generation_config.eos_token_id
        self.stop_ids = frozenset(own if isinstance(own, list) else [own]) - {None}
        self.reason = unsupported(local.model) or self._differs()
        if self.reason is not None:
            log.warning("computing every token from the whole conversation, many times slower: %s", self.reason)
        self._open()

    def _open(self) -> None:
        self._model: SlotModel | None = None
        self._slots = [_Slot() for _ in range(self.slots)]
        self._running: dict[int, RunningTurn] = {}
        self._counts: Counter[str] = Counter()

    def sync(self, policy_version: int) -> dict[str, float]:
        """The weights are those of this process already: only the version changes."""
        self.policy_version = policy_version
        return {}

    def begin(self, wake: Callable[[], None]) -> None:
        """Start a collection with an empty cache: the weights may have changed."""
        self._open()

    def end(self) -> dict[str, int]:
        """Free the cache.

        Returns:
            `forwarded_tokens` through the model, `padding_tokens` computed beside them, `shared_tokens` taken over from
            other episodes, `sampled_tokens`, and `passes`.
        """
        counts = self._counts
        self._open()
        return dict(counts)

    def submit(self, request: TurnRequest) -> None:
        """Begin a turn with the next `advance`."""
        self._running[request.episode] = RunningTurn(request, np.random.default_rng(request.seed))

    def running(self, episode: int) -> RunningTurn:
        """The turn that was asked for and has not ended; it grows with every `advance`."""
        return self._running[episode]

    def stop(self, episode: int) -> SampledTurn:
        """End a turn where it is; it has a token at least."""
        return self._running.pop(episode).turn()

    def release(self, episode: int) -> None:
        """Free the episode's row; its content serves others until it is overwritten."""
        for slot in self._slots:
            if slot.episode == episode:
                slot.episode = None

    @torch.inference_mode()
    def advance(self) -> list[Outcome]:
        """One token for every turn; the turns that have ended, in the order in which they were begun."""
        if not self._running:
            return []
        with _evaluating(self.local.model):
            logits = self._plain_logits() if self.reason is not None else self._cached_logits()
        running = list(self._running.values())
        tokens, logprobs = draw(
            logits, [r.request.temperature for r in running], [float(r.random.random()) for r in running]
        )
        self._counts["sampled_tokens"] += len(tokens)
        ended: list[Outcome] = []
        for turn, token, logprob, row in zip(running, tokens, logprobs, logits, strict=True):
            turn.ids.append(token)
            turn.logprobs.append(logprob)
            if turn.request.alternatives:
                turn.alternatives.append(likeliest(row, turn.request.temperature, turn.request.alternatives))
            if turn.ended():
                ended.append((turn.request.episode, turn.turn()))
                del self._running[turn.request.episode]
        return ended

    # ---- with a cache

    def _cached_logits(self) -> torch.Tensor:
        """(turns, V) logits of the next token of each running turn."""
        if self._model is None:
            self._model = SlotModel(self.local.model, self.slots)
        wanted = {episode: [*turn.request.ids, *turn.ids] for episode, turn in self._running.items()}
        held = {slot.episode: slot for slot in self._slots if slot.episode is not None}
        fresh = [episode for episode in wanted if episode not in held]
        logits: dict[int, torch.Tensor] = {}
        leaders: dict[tuple[int, ...], int] = {}
        for episode in fresh:
            prompt = tuple(wanted[episode])
            if prompt not in leaders:
                leaders[prompt] = episode
                held[episode] = self._take_slot(episode, wanted[episode])
                if len(leaders) == 1:  # alone, so that the others can take over what they share with it
                    self._extend([held[episode]], wanted, logits)
        self._extend([held[e] for e in wanted if e in held and e not in logits], wanted, logits)
        for episode in fresh:
            leader = leaders[tuple(wanted[episode])]
            if leader != episode:  # the same prompt: neither a token nor the distribution after it is computed again
                slot = self._take_slot(episode, wanted[episode], whole=held[leader])
                slot.ids = list(wanted[episode])
                logits[episode] = logits[leader]
        return torch.stack([logits[episode] for episode in wanted])

    def _take_slot(self, episode: int, ids: list[int], whole: _Slot | None = None) -> _Slot:
        """A free row, with as many of the first tokens as some row holds already, all but the last one at most."""
        assert self._model is not None
        if whole is not None:
            source, length = self._slots.index(whole), len(ids)
        else:
            shared = [_common_prefix(slot.ids, ids[:-1]) for slot in self._slots]
            source = int(np.argmax(shared))
            length = shared[source]
        free = [i for i, slot in enumerate(self._slots) if slot.episode is None]
        # A free row that holds the prefix already is taken as it is, otherwise the one that is least worth keeping.
        target = source if source in free else min(free, key=lambda i: len(self._slots[i].ids))
        slot = self._slots[target]
        if target != source and length:
            self._model.copy(source, target, length)
        slot.episode, slot.ids = episode, ids[:length]
        self._counts["shared_tokens"] += length
        return slot

    def _extend(self, slots: Sequence[_Slot], wanted: dict[int, list[int]], logits: dict[int, torch.Tensor]) -> None:
        """Compute what the slots' episodes want beyond what their rows hold; the logits after it by episode."""
        assert self._model is not None
        new = {id(slot): wanted[slot.episode][len(slot.ids) :] for slot in slots if slot.episode is not None}
        for chunk in self._passes(slots, {key: len(tokens) for key, tokens in new.items()}):
            tokens = [new[id(slot)] for slot in chunk]
            rows = [self._slots.index(slot) for slot in chunk]
            out = self._model.extend(rows, [len(slot.ids) for slot in chunk], tokens)
            self._counts["passes"] += 1
            self._counts["forwarded_tokens"] += sum(map(len, tokens))
            self._counts["padding_tokens"] += sum(max(map(len, tokens)) - len(t) for t in tokens)
            for slot, own, row in zip(chunk, tokens, out, strict=True):
                assert slot.episode is not None
                slot.ids += own
                logits[slot.episode] = row

    def _passes(self, slots: Sequence[_Slot], lengths: dict[int, int]) -> Iterator[list[_Slot]]:
        """Rows that go through the model together: alike in length, and not too many tokens."""
        chunk: list[_Slot] = []
        longest = 0
        for slot in sorted(slots, key=lambda s: -lengths[id(s)]):
            own = lengths[id(slot)]
            if chunk and (own < longest * _LEAST_SHARE or longest * (len(chunk) + 1) > self._tokens_per_pass):
                yield sorted(chunk, key=self._slots.index)
                chunk = []
            longest = longest if chunk else own
            chunk.append(slot)
        if chunk:
            yield sorted(chunk, key=self._slots.index)

    # ---- without

    def _plain_logits(self) -> torch.Tensor:
        rows = []
        for turn in self._running.values():
            ids = [*turn.request.ids, *turn.ids]
            self._counts["passes"] += 1
            self._counts["forwarded_tokens"] += len(ids)
            rows.append(_last_logits(self.local.model, ids))
        return torch.stack(rows)

    @torch.inference_mode()
    def _differs(self) -> str | None:
        """Why the cache cannot be trusted on this very model: three rows, extended unevenly, against plain rows."""
        model = self.local.model
        numbers = np.random.default_rng(0).integers(0, model.config.get_text_config().vocab_size, (3, 24)).tolist()
        cuts = [(6, 9), (11, 3), (2, 13)]
        try:
            with _evaluating(model):
                slots = SlotModel(model, 4)
                firsts, seconds = zip(*cuts, strict=True)
                slots.extend([0, 1, 3], [0, 0, 0], [n[:a] for n, a in zip(numbers, firsts, strict=True)])
                slots.copy(3, 2, 2)
                cached = slots.extend(
                    [0, 1, 2], firsts, [n[a : a + b] for n, (a, b) in zip(numbers, cuts, strict=True)]
                )
                plain = torch.stack([_last_logits(model, n[: a + b]) for n, (a, b) in zip(numbers, cuts, strict=True)])
        except Exception as error:  # noqa: BLE001 - an architecture with another idea of a cache raises anything
            return f"the model does not take a slot cache: {type(error).__name__}: {error}"
        logprobs = [torch.log_softmax(logits.float(), -1) for logits in (cached, plain)]
        # The mean over the vocabulary: single rare tokens are off by much more in low precision.
        difference = (logprobs[0] - logprobs[1]).abs().mean(-1).max().item()
        limit = TOLERANCE[model.dtype]
        return None if difference <= limit else f"it differs from plain rows by {difference:.2g} (limit {limit:g})"


def draw(
    logits: torch.Tensor, temperatures: Sequence[float], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """One token per row by inverting the cumulative distribution: no top-p, no top-k.

    Args:
        logits: (rows, V).
        temperatures: of each row; 0 takes the most likely token.
        uniforms: a number in [0, 1) for each row.

    Returns:
        the tokens, and their log-probabilities at that temperature (at temperature 1 for greedy rows).
    """
    precise = logits if logits.dtype == torch.float64 else logits.float()
    divisors = torch.tensor([t or 1.0 for t in temperatures], dtype=precise.dtype, device=logits.device)
    logprobs = torch.log_softmax(precise / divisors[:, None], -1)
    # In float32 a running sum over a whole vocabulary would be off by more than a rare token's probability.
    cumulative = logprobs.double().exp().cumsum(-1)
    target = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None] * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True).clamp(max=logits.shape[1] - 1)
    greedy = torch.tensor([t == 0 for t in temperatures], device=logits.device)[:, None]
    tokens = torch.where(greedy, logprobs.argmax(-1, keepdim=True), drawn)
    return tokens[:, 0].tolist(), logprobs.gather(-1, tokens)[:, 0].tolist()


def likeliest(logits: torch.Tensor, temperature: float, number: int) -> list[tuple[int, float]]:
    """The most likely tokens and their log-probabilities, likeliest first.

    Args:
        logits: (V,).
        temperature: as for `draw`.
        number: how many, V at most.
    """
    precise = logits if logits.dtype == torch.float64 else logits.float()
    top = torch.log_softmax(precise / (temperature or 1.0), -1).topk(min(number, len(logits)))
    return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))


def _last_logits(model: Any, ids: Sequence[int]) -> torch.Tensor:
    output = model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False, logits_to_keep=1)
    return output.logits[0, -1]


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    shortest = min(len(a), len(b))
    different = np.flatnonzero(np.array(a[:shortest]) != np.array(b[:shortest]))
    return int(different[0]) if len(different) else shortest


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode for the time being: gradient checkpointing, which is on in training, forbids a cache."""
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()
