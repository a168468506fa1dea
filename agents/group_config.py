"""Configuration of the learners on groups of episodes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .chat_learner import ChatConfig


class VLLMConfig(BaseModel):
    """A vLLM server that samples, see docs/trajectories.md."""

    model_config = ConfigDict(extra="forbid")

    url: str | None = Field(None, description="Of the server, up to and with /v1.")
    folder: str | None = Field(
        None,
        description="Where adapters are written, which the server must see under this path; None: in the run folder.",
    )
    tolerance: float = Field(0.25, gt=0, description="Largest accepted difference of the canary, in nats.")
    timeout: float = Field(600.0, gt=0, description="Seconds for one turn.")
    api_key_env: str | None = Field(None, description="Environment variable with the server's key, if it wants one.")


class GroupConfig(ChatConfig):
    """Fields of group learners. Defaults as in arXiv 2609.29050 where it gives them."""

    estimator: str = Field("slca", description="Who gives credit: a name of agents.estimators, or an import path.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the estimator.")
    at_end: dict[str, Literal["tool", "summary", "episode"]] = Field(
        default_factory=dict,
        description="Reward components that are said to be earned in the last step of a segment or of the episode.",
    )
    backend: Literal["local", "vllm"] = Field(
        "local", description="Who samples: this process, or a vLLM server that gets the adapter before each update."
    )
    vllm: VLLMConfig = Field(default_factory=VLLMConfig, description="The server of backend=vllm.")
    choice_values: Literal["branch", "counterfactual"] = Field(
        "branch",
        description="What names at a choice are worth: by continuations, or by the rollout's own turns with the name "
        "exchanged, which costs nothing and is biased.",
    )
    critic: str | None = Field(
        None,
        description="Who values states: monte_carlo, fresh rollouts from them; or an import path of a function "
        "(trajectory) -> the value before each of its turns. None is monte_carlo, but carl must be told.",
    )
    value_rollouts: int = Field(9, ge=1, description="K: fresh rollouts from each state (arXiv 2410.01679).")
    tasks_per_update: int = Field(8, ge=1, description="Tasks, hence groups, per update.")
    group_size: int = Field(16, ge=2, description="G: episodes per task.")
    temperature: float = Field(1.0, gt=0, description="Of sampling and of the trained log-probabilities.")
    redraws: int = Field(0, ge=0, description="How often other tasks are drawn for groups the estimator refuses.")
    epochs: int = Field(1, ge=1, description="Passes over the episodes of an update.")
    mini_batch: int | None = Field(None, ge=1, description="Episodes per optimiser step; None means all of an update.")
    clip: float = Field(0.2, gt=0, description="ε: half-width of the trust region of the ratio.")
    old_logprobs: Literal["sampled", "recomputed"] = Field(
        "sampled",
        description="π_old: as sampled, or computed anew by the trainer, and the sampler's difference capped.",
    )
    ratio_cap: float = Field(2.0, ge=1, description="Cap of trainer/sampler ratios, with recomputed π_old.")
    aggregation: Literal["token_mean", "sequence_mean", "constant"] = Field(
        "token_mean", description="How a mini-batch's tokens are averaged."
    )
    constant_length: int = Field(512, ge=1, description="Tokens per episode that `constant` divides by.")
    kl: float = Field(0.001, ge=0, description="Weight of the KL to the initial policy; 0 needs no reference.")
    probe_every: int = Field(10, ge=0, description="Updates between gradient probes per segment; 0 means never.")
    keep_trajectories: bool = Field(False, description="Append every sampled episode to trajectories.jsonl.")
