"""The LoRA adapter: where it sits, and how it is saved. Weights are read and written as safetensors only."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils.save_and_load import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn
from transformers.pytorch_utils import Conv1D

from ...errors import ConfigError, RunError
from ...runs import write_atomic
from .config import PolicyConfig
from .families import decoder_layers

WEIGHTS = "adapter_model.safetensors"


def attach(model: Any, config: PolicyConfig) -> PeftModel:
    """Freeze `model` and put a fresh adapter on its decoder layers: all, or the uppermost `config.lora_layers`.

    The adapter's output is zero at first. The global random generator is left as it was. No dropout: candidates that
    share a prefix in a packed tree would share its noise, unlike rows.

    Raises:
        ConfigError: fewer decoder layers than asked for, or none of the named modules in them.
    """
    name, layers = decoder_layers(model)
    count = len(layers) if config.lora_layers == "all" else config.lora_layers
    if count > len(layers):
        raise ConfigError(
            f"lora_layers is {count}, but {config.model} has {len(layers)} decoder layers: give at most that"
        )
    linear = {n.rsplit(".", 1)[-1] for n, m in layers.named_modules() if isinstance(m, (nn.Linear, Conv1D))}
    targets = linear if config.lora_targets == "all-linear" else set(config.lora_targets)
    if not targets <= linear:
        raise ConfigError(
            f"lora_targets {sorted(targets - linear)} are not in {config.model}, which has {sorted(linear)}"
        )
    lora = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=0.0,
        target_modules=sorted(targets),
        layers_to_transform=list(range(len(layers) - count, len(layers))),
        fan_in_fan_out=any(isinstance(m, Conv1D) for m in layers.modules()),
        layers_pattern=name.rsplit(".", 1)[-1],
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks the model by names that transformers renamed
        torch.manual_seed(config.seed)
        adapted = get_peft_model(model, lora)
    lora.base_model_name_or_path = config.model
    return adapted


def save_adapter(model: PeftModel, path: str | os.PathLike) -> None:
    """Write the adapter in peft's own format, which `peft.PeftModel.from_pretrained` reads."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in _state(model).items()}
    write_atomic(folder / WEIGHTS, save(state))
    model.peft_config[model.active_adapter].save_pretrained(str(folder))


def load_adapter(model: PeftModel, path: str | os.PathLike) -> None:
    """Replace the adapter's weights by those in a folder.

    Raises:
        RunError: no safetensors file there, or one that does not fit the adapter.
    """
    file = Path(path) / WEIGHTS
    if not file.is_file():
        raise RunError(f"{path} holds no adapter: expected the file {WEIGHTS} (weights in other formats are not read)")
    try:
        state = load_file(file)
    except SafetensorError as error:
        raise RunError(f"{file} is not a safetensors file ({error}): restore it") from None
    wanted = {name: tuple(value.shape) for name, value in _state(model).items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    different = sorted(n for n in {*wanted, *given} if wanted.get(n) != given.get(n))
    if different:
        one = different[0]
        raise RunError(
            f"{file} does not fit this policy: {len(different)} weights differ, e.g. {one} is {given.get(one)} in the "
            f"file and {wanted.get(one)} here; use the model, lora_rank and lora_layers it was trained with"
        )
    set_peft_model_state_dict(model, state)


def _state(model: PeftModel) -> dict[str, torch.Tensor]:
    # "auto" would ask the model hub whether the vocabulary was changed.
    return get_peft_model_state_dict(model, save_embedding_layers=False)
