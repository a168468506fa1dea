"""Supervised fine-tuning on good episodes: the start from which reinforcement learning has something to reward.

The gold plans of the environment's tasks are played, so that the tools' answers are its own; or conversations are read
that somebody recorded (`data`). They are put into tokens exactly as a rollout of the policy would be. Only the
assistant's tokens are learned, those that end a turn included.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from pydantic import Field

from ..errors import InfrastructureError, UsageError
from .bandit_learner import batch_indices
from .chat_baselines import GoldAgent
from .chat_learner import ChatConfig, ChatLearner, log, task_ids
from .chat_template import Demonstration
from .distributed import processes
from .episode import holds_call
from .sequence_logprobs import pad_batch
from .trajectory import Segment, Trajectory, Turn, segments_by_content


class SFTConfig(ChatConfig):
    """Fields of supervised fine-tuning. Defaults as in arXiv 2609.29050 where it gives them."""

    learning_rate: float = Field(5e-6, gt=0, description="Peak step size of AdamW.")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="Step size after the warm-up.")
    warmup: float = Field(0.1, ge=0, lt=1, description="Share of the updates in which the step size rises from 0.")
    batch_size: int = Field(32, ge=1, description="Conversations per update.")
    max_length: int = Field(16_384, ge=2, description="Longer conversations are left out, and counted.")
    plans: Literal["first", "all"] = Field("first", description="Of several gold plans: the first, or each of them.")
    data: str | None = Field(None, description="File of recorded conversations to learn from, instead of gold plans.")


class SFTLearner(ChatLearner):
    """Maximises the likelihood of good turns: loss = −mean log p over the assistant's tokens of a batch."""

    name = "sft"
    config_class = SFTConfig
    config: SFTConfig

    def prepare(self, env: gym.Env) -> None:
        """Play the gold plans of all tasks, or read the recorded conversations."""
        self.demonstrations = self._demonstrations(env)

    def update(self, number: int) -> dict[str, Any]:
        """One step on a batch of demonstrations."""
        size = self.config.batch_size
        own = [self.demonstrations[i] for i in batch_indices(len(self.demonstrations), size, self.config.seed, number)]
        total = sum(int(t.trainable.sum()) for t in own)
        counts = {s: sum(int((t.segment == s).sum()) for t in own) for s in (Segment.TOOL, Segment.SUMMARY)}
        found = dict.fromkeys(["trained_tokens", *(s.name for s in counts)], 0.0)
        for part in pieces(processes().share(own), self.config.micro_batch):
            batch = pad_batch(part, self.policy.local.device)
            scores = self.policy.score(batch, temperature=1.0, chunk=self.config.chunk)
            (-scores.logprobs.sum() / total).backward()
            for segment in counts:
                found[segment.name] -= float(scores.logprobs.detach()[batch.segment == segment].sum())
            found["trained_tokens"] += scores.tokens
        sums = processes().sums(found)
        self.count(trained_tokens=int(sums["trained_tokens"]))
        record = {f"loss/{s.name.lower()}": sums[s.name] / counts[s] for s in counts if counts[s]}
        loss = sum(sums[s.name] for s in counts) / total
        return {"phase": self.name, "loss": loss, **record, "gradient_norm": self.step()}

    def _demonstrations(self, env: gym.Env) -> list[Trajectory]:
        found = self._recorded(env, self.config.data) if self.config.data is not None else self._gold(env)
        kept = [t for t in found if len(t) <= self.config.max_length]
        if len(kept) < len(found):
            log.warning("%d of %d conversations are longer than max_length", len(found) - len(kept), len(found))
        if not kept:
            raise UsageError(
                f"none of {len(found)} conversations has at most max_length={self.config.max_length} tokens: raise it"
            )
        return kept

    def _recorded(self, env: gym.Env, path: str) -> list[Trajectory]:
        read = getattr(env.unwrapped, "recordings", None)
        if read is None:
            raise UsageError(f"{type(env.unwrapped).__name__} cannot read recorded conversations: it has no recordings")
        found = []
        for number, (messages, tools) in enumerate(read(path), 1):
            try:
                shown = self.template.demonstration(messages, tools or None)
            except UsageError as error:
                raise UsageError(f"conversation {number} of {path} cannot be put into tokens: {error}") from None
            roles = [message["role"] for message in messages]
            calls = [after == "tool" for role, after in itertools.pairwise([*roles, ""]) if role == "assistant"]
            found.append(_trajectory(shown, calls, f"{path}, {number}"))
        return found

    def _gold(self, env: gym.Env) -> list[Trajectory]:
        engine = self.engine(env)
        copy = engine.take_env()
        try:
            return processes().divide(
                lambda tasks: [d for task in tasks for d in self._of_task(copy, task)], task_ids(engine)
            )
        finally:
            engine.give_back(copy)
            engine.close()

    def _of_task(self, env: gym.Env, task: str) -> list[Trajectory]:
        GoldAgent().bind(env)  # refuses environments without gold plans
        gold = env.get_wrapper_attr("gold")(task)
        number = len(gold["plans"]) if self.config.plans == "all" else 1
        template = self.template
        episodes = []
        for plan in range(number):
            agent = GoldAgent(plan)
            agent.bind(env)
            messages, calls, tools = _played(agent, env, task)
            shown = template.demonstration(messages, tools, gold["opening"])
            episodes.append(_trajectory(shown, calls, task))
        return episodes


def _played(agent: GoldAgent, env: gym.Env, task: str) -> tuple[list[dict[str, Any]], list[bool], Any]:
    """The conversation of a gold episode, which of its turns hold calls, and the tools shown."""
    observation, info = env.reset(seed=0, options={"task_id": task})
    tools, calls, over = info.get("tools") or None, list[bool](), False
    while not over:
        known = len(observation)
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        over = terminated or truncated
        calls.append(holds_call(observation[known:], info))
    if info.get("error"):
        raise InfrastructureError(f"the gold episode of {task} failed: {info['error']}")
    return observation, calls, tools


def _trajectory(shown: Demonstration, calls: Sequence[bool], task: str) -> Trajectory:
    """A demonstration as a trajectory, with log-probability 0: it was certain."""
    trainable = np.array(shown.trainable)
    return Trajectory(
        np.array(shown.ids),
        trainable,
        segments_by_content(trainable, calls),
        np.array(shown.step),
        np.zeros(len(trainable)),
        tuple(Turn(message=0, calls=holds, reward=None) for holds in calls),
        task_id=task,
    )


def pieces(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Consecutive pieces of at most `size` items."""
    return [items[first : first + size] for first in range(0, len(items), size)]
