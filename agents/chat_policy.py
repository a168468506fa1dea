"""The policy of chat learners: a causal language model of which all weights are trained, or a LoRA adapter on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from ..errors import RunError, UsageError
from ..llm.local import LocalModel, load_local_model
from ..runs import RunFolder, write_atomic
from .backends.local import LocalBackend
from .distributed import processes
from .policy.adapter import attach, load_adapter, save_adapter
from .policy.config import PolicyConfig
from .policy.families import ATTENTION, checkpoint_layers
from .policy.scorer import Scorer
from .sequence_logprobs import Batch, TokenScores, token_logprobs

ADAPTER = "adapter"
MODEL = "model"

Weights = dict[str, torch.Tensor]


class ChatPolicyConfig(BaseModel):
    """A causal language model, which of its weights are trained, and how it writes chats."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("smollm2", description="A preset (`smollm2`, `tiny`, `tiny-chat`), a local folder, a hub name.")
    weights: Literal["lora", "full"] = Field("lora", description="Train an adapter, or all weights.")
    lora_rank: int = Field(16, ge=1, description="Rank of the adapter.")
    lora_alpha: int = Field(32, ge=1, description="Scale of the adapter: its output is multiplied by alpha/rank.")
    lora_layers: Literal["all"] | int = Field("all", description="Adapt all decoder layers, or this many upper ones.")
    template: str = Field("auto", description="How chats are written: auto, own, chatml, compact.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Precision of the weights; auto is bfloat16 on CUDA and float32 elsewhere."
    )
    device: str = Field("auto", description="Where the model runs; auto is CUDA if there is a device, else the CPU.")
    gradient_checkpointing: bool = Field(False, description="Recompute each layer in the backward pass.")
    seed: int = Field(0, ge=0, description="Seed of random initial weights.")


class ChatPolicy:
    """A language model that learners train and rollouts sample from: one and the same object.

    Args:
        config: what to load and what to train.

    Attributes:
        local: the model, any adapter inside, and its tokenizer.
        continued: whether trained weights were loaded, see `reference`.
    """

    def __init__(self, config: ChatPolicyConfig):
        self.config = config
        device = (processes().device or "auto") if config.device == "auto" else config.device
        self.local: LocalModel = load_local_model(config.model, dtype=config.dtype, device=device, seed=config.seed)
        self.continued = False
        self._packs: bool | None = None
        self._peft: Any = None
        model = self.local.model
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        attention = ATTENTION.get(model.config.get_text_config().model_type)
        if attention is not None:
            model.set_attn_implementation(attention)
        if config.weights == "lora":
            lora = {name: getattr(config, name) for name in ("model", "lora_rank", "lora_alpha", "lora_layers", "seed")}
            self._peft = attach(model, PolicyConfig(**lora))
        else:
            model.requires_grad_(True)
        if config.gradient_checkpointing:
            checkpoint_layers(model)
            model.train()  # layers checkpoint in training mode only; there is no dropout left

    @property
    def model(self) -> Any:
        """The transformers model, with any adapter inside."""
        return self.local.model

    def backend(self, slots: int) -> LocalBackend:
        """Who samples from the present weights, in this process."""
        return LocalBackend(self.local, slots=slots)

    @property
    def packs(self) -> bool:
        """Whether episodes may go through the model as one tree of tokens: proven once, on this very model."""
        if self._packs is None:
            numbers = np.random.default_rng(0).integers(0, self.model.config.get_text_config().vocab_size, 30).tolist()
            scorer = Scorer(self.model)
            scorer.prove(numbers[:12], [numbers[12:18], [*numbers[12:15], *numbers[18:23]], numbers[18:30]])
            self._packs = scorer.reason is None
        return self._packs

    def score(self, batch: Batch, *, temperature: float | None = None, chunk: int = 1024) -> TokenScores:
        """`sequence_logprobs.token_logprobs` under the present weights, with what episodes share computed once."""
        return token_logprobs(self.model, batch, temperature=temperature, chunk=chunk, shared=self.packs)

    def trainable_parameters(self) -> dict[str, nn.Parameter]:
        """The trained weights by name, in a fixed order."""
        trained = self.model if self._peft is None else self._peft
        return {name: p for name, p in trained.named_parameters() if p.requires_grad}

    def state(self) -> Weights:
        """A copy of the trained weights."""
        return {name: p.detach().clone() for name, p in self.trainable_parameters().items()}

    @torch.no_grad()
    def restore(self, state: Weights) -> None:
        """Put weights back that `state` copied."""
        for name, parameter in self.trainable_parameters().items():
            parameter.copy_(state[name])

    # ---- reference

    def reference(self) -> Reference:
        """The present policy as the reference of a KL term, whatever becomes of the weights.

        A fresh adapter is simply switched off. Switching off one that was trained before would give the base model, so
        it is copied, and so are full weights.
        """
        if self._peft is not None and not self.continued:
            return Reference(self, None)
        return Reference(self, self.state())

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """The base model for the time being."""
        with self._peft.disable_adapter():
            yield

    @contextmanager
    def using(self, state: Weights) -> Iterator[None]:
        """Other weights for the time being; without gradient only."""
        now = self.state()
        self.restore(state)
        try:
            yield
        finally:
            self.restore(now)

    # ---- files

    def save_adapter(self, folder: str | os.PathLike) -> None:
        """Write the adapter to `folder`, in peft's format.

        Raises:
            UsageError: all weights are trained, there is no adapter.
        """
        if self._peft is None:
            raise UsageError("there is no adapter: all weights are trained; set policy.weights=lora")
        save_adapter(self._peft, folder)

    def save(self, folder: str | os.PathLike) -> None:
        """Write the adapter to `folder/adapter`, or the whole model to `folder/model`, as safetensors.

        Both are in the formats of peft and transformers: any tool reads them, and `--policy folder/model` too.
        """
        folder = Path(folder)
        if self._peft is not None:
            save_adapter(self._peft, folder / ADAPTER)
            return
        from safetensors.torch import save

        target = folder / MODEL
        target.mkdir(parents=True, exist_ok=True)
        state = {name: p.detach().cpu().contiguous() for name, p in self.model.named_parameters()}
        write_atomic(target / "model.safetensors", save(state, metadata={"format": "pt"}))
        self.model.config.save_pretrained(str(target))
        self.model.generation_config.save_pretrained(str(target))
        self.local.tokenizer.save_pretrained(str(target))

    def load(self, folder: str | os.PathLike) -> None:
        """Read what a run with the same kind of weights saved.

        Raises:
            RunError: it did not finish, it trained other weights, or they do not fit.
        """
        folder = Path(folder)
        RunFolder.load_config(folder)
        own, other = (ADAPTER, MODEL) if self._peft is not None else (MODEL, ADAPTER)
        if not (folder / own).is_dir():
            if not (folder / other).is_dir():
                raise RunError(f"{folder} holds no weights yet: the run did not finish; continue it with --resume")
            hint = f"set policy.weights={'full' if own == ADAPTER else 'lora'}"
            if own == ADAPTER:
                hint += f", or put a fresh adapter on its model with --policy {folder / MODEL}"
            raise RunError(f"{folder} holds {other!r} weights, but this policy trains {own!r}: {hint}")
        if self._peft is not None:
            load_adapter(self._peft, folder / ADAPTER)
        else:
            self._load_full(folder / MODEL / "model.safetensors")
        self.continued = True

    def _load_full(self, file: Path) -> None:
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            state = load_file(file)
        except (SafetensorError, OSError) as error:
            raise RunError(f"{file} cannot be read ({error}): restore it") from None
        wanted = {name: tuple(p.shape) for name, p in self.model.named_parameters()}
        given = {name: tuple(tensor.shape) for name, tensor in state.items()}
        if wanted != given:
            one = sorted(n for n in {*wanted, *given} if wanted.get(n) != given.get(n))[0]
            raise RunError(
                f"{file} does not fit {self.config.model}: {one} is {given.get(one)} in the file and "
                f"{wanted.get(one)} here; use the model it was trained with"
            )
        self.restore(state)


class Reference:
    """A frozen policy for the KL term.

    Args:
        policy: whose model it shares.
        state: its weights; None for the base model under a fresh adapter.
    """

    def __init__(self, policy: ChatPolicy, state: Weights | None):
        self._policy, self._state = policy, state

    @property
    def kind(self) -> str:
        """What it is, for the log."""
        return "base model, adapter switched off" if self._state is None else "frozen copy of the initial weights"

    @contextmanager
    def active(self) -> Iterator[None]:
        """The model computes with the reference's weights, without gradient."""
        policy = self._policy
        other = policy.without_adapter() if self._state is None else policy.using(self._state)
        with torch.no_grad(), other:
            yield
