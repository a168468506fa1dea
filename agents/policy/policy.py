"""`LoraPolicy`: a causal language model with a LoRA adapter, seen through what learners need.

It renders chats to token ids, scores a fixed set of candidate strings exactly and differentiably, samples completions
from its own distribution, and saves its adapter. It does not know which learner uses it, or what the candidates mean.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ...errors import ConfigError
from ...llm.local import LocalModel, load_local_model
from . import sampling
from .adapter import attach, load_adapter, save_adapter
from .config import PolicyConfig
from .families import ATTENTION, checkpoint_layers, decoder_layers
from .sampling import Sample
from .scorer import Paths, Scorer
from .tree import TokenIds
from .trunk import DiskStore, MemoryStore, SplitModel, Store, Trunk, fingerprint


@dataclass(frozen=True)
class Scored:
    """Scores of C candidates after each of B prompts.

    Attributes:
        sums: (B, C) log p(candidate | prompt), in nats.
        lengths: (C,) tokens of each candidate.
        tokens: how many tokens went through the model.
    """

    sums: torch.Tensor
    lengths: torch.Tensor
    tokens: int

    @property
    def mean(self) -> torch.Tensor:
        """(B, C) mean log-probability per token: the paper's ℓ(a|s)."""
        return self.sums / self.lengths

    @property
    def valid_mass(self) -> torch.Tensor:
        """(B,) probability that free generation writes any of the candidates."""
        return torch.logsumexp(self.sums, -1).exp()


class LoraPolicy:
    """A language-model policy over a fixed set of candidate strings.

    Args:
        config: what to load and how to adapt it.
        local: use this model instead of loading `config.model`; the adapter is put into it.

    Attributes:
        candidates: token ids of each candidate, set by `set_candidates`.
        scorer: how completions are scored; `scorer.reason` says why not by trees, if so.
        local: the model, with the adapter inside, and its tokenizer.
        model: the same model as peft sees it.

    Raises:
        ConfigError: the configuration does not fit the model.
    """

    def __init__(self, config: PolicyConfig, local: LocalModel | None = None):
        self.config = config
        self.local = local or load_local_model(config.model, dtype=config.dtype, device=config.device, seed=config.seed)
        self.candidates: list[list[int]] = []
        self._prepare(self.local.model)
        # Of the frozen weights alone, so before there is an adapter.
        self._fingerprint = self.local.fingerprint() if config.trunk_cache == "disk" else ""
        self.model = attach(self.local.model, config)
        self.scorer = Scorer(self.local.model, tokens_per_pass=config.tokens_per_pass)

    def _prepare(self, model: Any) -> None:
        """Make `model` deterministic, and set attention and checkpointing."""
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        model.eval()
        attention = ATTENTION.get(model.config.get_text_config().model_type)
        if attention is not None:
            model.set_attn_implementation(attention)
        if self.config.gradient_checkpointing:
            checkpoint_layers(model)
            model.train()  # layers checkpoint in training mode only; there is no dropout left

    # ---- text and tokens

    def encode(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Token ids of a chat up to where the policy's answer begins, by the model's own template.

        Raises:
            UsageError: the template refuses the messages.
        """
        return self.local.render(messages)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a completion, special tokens left out."""
        return str(self.local.tokenizer.decode(list(ids), skip_special_tokens=True))

    def set_candidates(self, texts: Sequence[str]) -> None:
        """Fix the strings to be scored, and prove on this very model that the packed tree scores them rightly.

        Raises:
            ConfigError: see `encode_candidates`.
        """
        self.candidates = self.encode_candidates(texts)
        self.scorer.trunk = self._trunk()
        self.scorer.prove(self.encode([{"role": "user", "content": "Which tools?"}]), self.candidates)

    def plan(self, prompts: Sequence[TokenIds]) -> None:
        """Say which prompts will come, so that the trunk cache computes neighbours together; no effect without one."""
        if self.scorer.trunk is not None:
            self.scorer.trunk.plan(prompts)

    def fill_trunk(self, prompts: Sequence[TokenIds]) -> None:
        """Compute now what the trunk cache would compute when these prompts are first scored."""
        if self.scorer.trunk is not None:
            self.scorer.trunk.fill(prompts)

    def _trunk(self) -> Trunk | None:
        if self.config.trunk_cache == "off":
            return None
        model, kept = self.local.model, self.config.lora_layers
        assert kept != "all"  # the configuration refuses it
        first = len(decoder_layers(model)[1]) - kept
        store: Store = MemoryStore()
        if self.config.trunk_cache == "disk":
            store = DiskStore(self.config.trunk_folder, fingerprint(self._fingerprint, first, self.candidates))
        return Trunk(SplitModel(model, first), self.candidates, store, self.config.tokens_per_pass)

    def encode_candidates(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of candidate strings as they follow a prompt.

        Raises:
            ConfigError: a candidate is empty or occurs twice, merges with the end of the prompt into one token, or is
                a prefix of another, so that a sampler could not tell where it ends.
        """
        tokenizer = self.local.tokenizer
        chat = [{"role": "user", "content": "x"}]
        prompt = self.encode(chat)
        prompt_text = str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        end = [tokenizer.eos_token_id] if self.config.end_with_eos else []
        encoded: list[list[int]] = []
        for text in texts:
            ids = tokenizer.encode(prompt_text + text, add_special_tokens=False)
            if ids[: len(prompt)] != prompt:
                raise ConfigError(
                    f"the candidate {text!r} changes the tokens of the prompt before it: its beginning merges with "
                    f"{prompt_text[-8:]!r}; begin candidates with a character that starts a token of its own"
                )
            encoded.append(ids[len(prompt) :] + end)
        _check_prefix_free(texts, encoded)
        return encoded

    # ---- scoring

    def score(self, prompts: Sequence[TokenIds], *, grad: bool = False, temperature: float = 1.0) -> Scored:
        """Log-probabilities of all candidates after each prompt.

        Args:
            prompts: token ids, as `encode` gives them. Prompts that begin alike are cheaper in one call.
            grad: keep the graph to the adapter's weights. Without it any number of prompts may be given at once.
            temperature: of the token distributions.
        """
        completions = [self._require_candidates()] * len(prompts)
        paths = self.scorer.paths(prompts, completions, grad=grad, temperature=temperature)
        count = len(self.candidates)
        return Scored(paths.sums.view(-1, count), paths.lengths[:count], paths.tokens)

    def path_logprobs(
        self,
        prompts: Sequence[TokenIds],
        samples: Sequence[Sequence[Sample]],
        *,
        grad: bool = True,
        temperature: float = 1.0,
    ) -> Paths:
        """Token log-probabilities of sampled completions; row p is the p-th sample, prompt after prompt.

        Args:
            prompts: token ids.
            samples: for each prompt its samples.
            grad: keep the graph to the adapter's weights.
            temperature: the one they were sampled with.
        """
        return self.scorer.paths(prompts, [[s.ids for s in own] for own in samples], grad=grad, temperature=temperature)

    # ---- sampling

    def sample(
        self,
        prompts: Sequence[TokenIds],
        group: int,
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> list[list[Sample]]:
        """`group` completions per prompt from the policy's own distribution, cut at the first token off all candidates.

        Costs one scoring pass, whatever the group size. Temperature 0 decodes greedily. Models that are scored row by
        row generate freely instead.
        """
        candidates = self._require_candidates()
        if self.scorer.reason is None:
            return sampling.sample_tree(
                self.scorer, prompts, candidates, group, temperature=temperature, generator=generator
            )
        longest = max(map(len, candidates))
        return self.generate(prompts, group, max_new_tokens=longest, temperature=temperature, generator=generator)

    def generate(
        self,
        prompts: Sequence[TokenIds],
        group: int,
        *,
        max_new_tokens: int = 32,
        stop_text: str = "</answer>",
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> list[list[Sample]]:
        """`group` completions per prompt by free generation, each ended by `stop_text`, end of sequence, or length.

        Where candidates end with the end-of-sequence token (`end_with_eos`), `stop_text` ends nothing.
        """
        candidates = {tuple(ids): i for i, ids in enumerate(self.candidates)}
        eos, by_text = self._eos, not self.config.end_with_eos

        def stop(ids: Sequence[int]) -> bool:
            return tuple(ids) in candidates or ids[-1] in eos or (by_text and stop_text in self.decode(ids))

        at_once = max(1, self.config.tokens_per_pass // max(map(len, prompts)))
        drawn: list[list[Sample]] = []
        model = self.local.model.eval()  # checkpointing, on in training mode only, would turn the cache off
        for first in range(0, len(prompts), at_once):
            drawn += sampling.generate(
                model,
                prompts[first : first + at_once],
                group,
                stop=stop,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                generator=generator,
                cached=self.scorer.reason is None,
            )
        model.train(self.config.gradient_checkpointing)
        return [[replace(sample, candidate=candidates.get(sample.ids)) for sample in own] for own in drawn]

    @property
    def _eos(self) -> set[int]:
        ids = self.local.model.generation_config.eos_token_id
        return {self.local.tokenizer.eos_token_id, *(ids if isinstance(ids, list) else [ids])}

    def _require_candidates(self) -> list[list[int]]:
        if not self.candidates:
            raise ConfigError("the policy has no candidates: call set_candidates with the action strings first")
        return self.candidates

    # ---- adapter

    @property
    def device(self) -> torch.device:
        """Where the model runs and scores live."""
        return self.local.device

    def trainable_parameters(self) -> dict[str, nn.Parameter]:
        """The adapter's weights by name, in a fixed order."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def parameter_counts(self) -> tuple[int, int]:
        """Number of trainable parameters, and of all."""
        trainable = sum(p.numel() for p in self.trainable_parameters().values())
        return trainable, sum(p.numel() for p in self.model.parameters())

    def adapter_state(self) -> dict[str, torch.Tensor]:
        """A copy of the adapter's weights, for `restore` and `using`."""
        return {name: p.detach().clone() for name, p in self.trainable_parameters().items()}

    @torch.no_grad()
    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Put weights back that `adapter_state` copied."""
        for name, parameter in self.trainable_parameters().items():
            parameter.copy_(state[name])

    @contextmanager
    def using(self, state: dict[str, torch.Tensor]) -> Iterator[None]:
        """Score with other adapter weights, e.g. a frozen reference; without gradient only."""
        now = self.adapter_state()
        self.restore(state)
        try:
            yield
        finally:
            self.restore(now)

    def save_adapter(self, path: str | os.PathLike) -> None:
        """Write the adapter to a folder, as safetensors in peft's format."""
        save_adapter(self.model, path)

    def load_adapter(self, path: str | os.PathLike) -> None:
        """Read the adapter from a folder.

        Raises:
            RunError: there is none, or it does not fit.
        """
        load_adapter(self.model, path)


def _check_prefix_free(texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> None:
    ordered = sorted(zip(map(tuple, encoded), texts, strict=True))
    if not ordered or not ordered[0][0]:
        raise ConfigError("candidates must not be empty strings, and there must be one at least")
    for (ids, text), (following, other) in zip(ordered, ordered[1:], strict=False):
        if ids == following:
            raise ConfigError(f"the candidates {text!r} and {other!r} have the same tokens: make them distinct")
        if ids == following[: len(ids)]:
            raise ConfigError(
                f"the candidate {text!r} is the beginning of {other!r}: set end_with_eos so that it has an end"
            )
