"""Configuration of the language-model policy. Imports no torch, so that it can be read and checked anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator


class PolicyConfig(BaseModel):
    """A causal language model with a LoRA adapter. Rank, alpha and layers default to FGPO's (arXiv 2609.10221)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("smollm2", description="A preset (`smollm2`, `tiny`), a local folder, or a hub name.")
    lora_rank: PositiveInt = Field(16, description="Rank of the adapter.")
    lora_alpha: PositiveInt = Field(32, description="Scale of the adapter: its output is multiplied by alpha/rank.")
    lora_layers: Literal["all"] | PositiveInt = Field(
        "all", description="Adapt all decoder layers, or only this many of the uppermost ones."
    )
    lora_targets: Literal["all-linear"] | tuple[str, ...] = Field(
        "all-linear", description="Names of the adapted modules in a layer, or every linear map of it."
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Precision of the frozen weights; auto is bfloat16 on CUDA and float32 elsewhere."
    )
    device: str = Field("auto", description="Where the model runs; auto is CUDA if there is a device, else the CPU.")
    gradient_checkpointing: bool = Field(
        False, description="Recompute each layer in the backward pass: half the memory for about 1.5 times the time."
    )
    trunk_cache: Literal["off", "memory", "disk"] = Field(
        "off", description="Keep every question's hidden states below the adapted layers, which training never changes."
    )
    trunk_folder: Path | None = Field(
        None, description="Folder of the disk cache, which processes may share; None is a temporary one."
    )
    end_with_eos: bool = Field(
        False, description="End every candidate with the end-of-sequence token (the paper's candidates have none)."
    )
    tokens_per_pass: PositiveInt = Field(
        2048, description="A larger batch of questions is split into passes of about this many tree nodes."
    )
    seed: int = Field(0, ge=0, description="Seed of the adapter's initial weights.")

    @model_validator(mode="after")
    def _trunk_needs_frozen_layers(self) -> PolicyConfig:
        if self.trunk_cache != "off" and self.lora_layers == "all":
            raise ValueError(
                "trunk_cache keeps states below the adapted layers: set lora_layers to a number, or trunk_cache to off"
            )
        if self.trunk_folder is not None and self.trunk_cache != "disk":
            raise ValueError(f"trunk_folder is used by trunk_cache='disk' only, which is {self.trunk_cache!r}")
        return self
