"""What the learners on conversations share: the policy, acting, the schedule, dev selection, metrics, exact resume.

Everything random is derived from (seed, update), so a killed and resumed run ends with the numbers of an unbroken one.
"""

from __future__ import annotations

import logging
import math
import os
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import gymnasium as gym
import torch
from pydantic import Field

from ..envs.spaces import ChatMessages
from ..errors import UsageError
from ..llm.meter import Meter
from .backends import Backend
from .base import Callback, TextBandit, TrainingReport, text_bandit
from .chat_actor import ChatActor
from .chat_policy import ChatPolicy, ChatPolicyConfig
from .chat_template import ChatTemplate
from .checkpoint import Progress
from .config import parse_config
from .configured import ConfiguredLearner, RunConfig
from .distributed import processes
from .episode_metrics import mean_lengths, mean_rewards
from .rollout import RolloutEngine
from .trajectory import Trajectory

log = logging.getLogger(__name__)


class ChatConfig(RunConfig):
    """Fields that every learner on conversations has."""

    policy: ChatPolicyConfig = Field(default_factory=ChatPolicyConfig, description="The language-model policy.")
    init: str | None = Field(None, description="Run folder whose trained weights to start from.")
    max_updates: int = Field(200, ge=1, description="Updates.")
    learning_rate: float = Field(1e-6, gt=0, description="Peak step size of AdamW.")
    schedule: Literal["cosine", "constant"] = Field("constant", description="Step size after the warm-up.")
    warmup: float = Field(0.0, ge=0, lt=1, description="Share of the updates in which the step size rises from 0.")
    gradient_clip: float = Field(1.0, gt=0, description="Largest gradient norm.")
    micro_batch: int = Field(16, ge=1, description="Conversations in one pass through the model; changes memory only.")
    chunk: int = Field(1024, ge=1, description="Token distributions held in memory at once.")
    max_turns: int = Field(10, ge=1, description="Assistant turns of an episode.")
    max_new_tokens: int = Field(512, ge=1, description="Longest assistant turn.")
    slots: int = Field(16, ge=1, description="Episodes that are sampled at once.")
    segment_rule: Literal["content", "position"] = Field(
        "content", description="content: a run of tokens with a call is never the summary; position: the paper's rule."
    )
    eval_every: int = Field(50, ge=1, description="Updates between two evaluations on the dev split.")
    stop_at: float | None = Field(None, description="End early, once the mean total reward on dev reaches this.")
    save_every: int = Field(10, ge=1, description="Updates between two checkpoints.")
    cpu_threads: int = Field(1, ge=1, description="Threads of torch on the CPU; part of what makes a run repeatable.")
    seed: int = Field(0, ge=0, description="Seed of data order, samples and random initial weights of an adapter.")


class ChatLearner(ConfiguredLearner):
    """Base of the learners on conversations. A subclass adds `prepare` and `update`.

    Args:
        config: configuration object, or a dict of its fields.
        out: run folder; without it nothing is written and a run cannot be resumed.
    """

    config_class: ClassVar[type[ChatConfig]]
    config: ChatConfig
    divides = True
    #: what it is trained on where nobody names an environment
    default_env: ClassVar[str] = "SGLSToolCallingReplay-v0"
    #: fields in which a named configuration differs from the class's defaults
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, config: ChatConfig | dict[str, Any] | None = None, out: str | os.PathLike | None = None):
        given = config if isinstance(config, ChatConfig) else {**self.defaults, **(config or {})}
        super().__init__(parse_config(self.config_class, given), out)
        self._policy: ChatPolicy | None = None
        self._backend: Backend | None = None
        self._version = 0
        self._served: tuple[int, dict[str, float]] | None = None
        self._bandit: TextBandit | None = None
        self._template: ChatTemplate | None = None
        self._actor: ChatActor | None = None

    @property
    def policy(self) -> ChatPolicy:
        """The policy, loaded on first use."""
        if self._policy is None:
            torch.set_num_threads(self.config.cpu_threads)
            policy = ChatPolicy(self.config.policy)
            if self.config.init is not None:
                policy.load(self.config.init)
            self._policy = policy
        return self._policy

    @property
    def backend(self) -> Backend:
        """Who samples, with the weights that are trained, see `serve`."""
        if self._backend is None:
            self._backend = self.policy.backend(self.config.slots)
        return self._backend

    def serve(self) -> dict[str, float]:
        """Let the backend sample with the present weights; its numbers for the log."""
        if self._served is None or self._served[0] != self._version:
            self._served = self._version, self.backend.sync(self._version)
        return self._served[1]

    @property
    def total_updates(self) -> int:
        """Updates of a whole run."""
        return self.config.max_updates

    # ------------------------------------------------------------------------------------------------ acting

    def bind(self, env: gym.Env) -> None:
        """Remember whether actions are turns of a conversation or a bandit's numbers.

        Raises:
            UsageError: neither.
        """
        self._bandit = None if isinstance(env.observation_space, ChatMessages) else text_bandit(env)

    def reset(self, *, seed: int | None = None) -> None:
        """Forget the conversation."""
        if self._actor is not None:
            self._actor.reset(seed=seed)

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        """The most likely turn, token by token. In a bandit, a malformed turn acts as action 0: one is needed.

        A prompt that fills the context is answered with an empty turn.
        """
        if self._actor is None:
            self.serve()
            self._actor = ChatActor(self.backend, self.template, max_new_tokens=self.config.max_new_tokens)
        if self._bandit is None:
            return self._actor.act(observation, info)
        text = self._actor.act(self._bandit.policy_messages(observation, info), {})
        return self._bandit.parse_action(text) or 0

    @property
    def template(self) -> ChatTemplate:
        """How chats are written."""
        if self._template is None:
            backend = self.backend
            self._template = ChatTemplate(backend.tokenizer, self.config.policy.template, backend.stop_ids)
        return self._template

    def engine(self, env: gym.Env) -> RolloutEngine:
        """A rollout engine on copies of an environment."""
        config = self.config
        return RolloutEngine(
            self.backend,
            env,
            template=config.policy.template,
            max_turns=config.max_turns,
            segment_rule=config.segment_rule,
        )

    def play(self, env: gym.Env, tasks: Sequence[str] | None = None) -> tuple[list[Trajectory], dict[str, str]]:
        """Greedy episodes of the environment's tasks, all together.

        Returns:
            the finished trajectories in the order of the tasks, and the reason of each task that failed.
        """
        self._actor = None  # it shares the backend
        self.serve()
        engine = self.engine(env)
        asked = tasks if tasks is not None else task_ids(engine)
        try:
            rollouts = engine.collect(asked, 1, temperature=0.0, max_new_tokens=self.config.max_new_tokens)
        finally:
            engine.close()
        self.count(evaluation_tokens=rollouts.stats["tokens"])
        return [t for group in rollouts for t in group], {f.task_id: f.reason for f in rollouts.failures}

    # ---------------------------------------------------------------------------------------------- learning

    @abstractmethod
    def prepare(self, env: gym.Env) -> None:
        """Make ready what `update` needs. The policy has its initial weights, also when a run is resumed."""

    @abstractmethod
    def update(self, number: int) -> dict[str, Any]:
        """Make update `number`, from 0; what to log."""

    def learn(
        self,
        env: gym.Env,
        *,
        eval_env: gym.Env | None = None,
        callbacks: Sequence[Callback] = (),
        resume: bool = False,
    ) -> TrainingReport:
        """Learn on `env`. With `eval_env`, the checkpoint with the best mean total reward there is kept.

        Raises:
            RunError: `resume` without a run folder, or with one of another configuration.
        """
        meter = Meter()
        with meter.listening():
            return self._make_updates(env, eval_env, callbacks, resume, meter)

    def _make_updates(
        self, env: gym.Env, eval_env: gym.Env | None, callbacks: Sequence[Callback], resume: bool, meter: Meter
    ) -> TrainingReport:
        run, everybody = self.open_run(env, resume), processes()
        self.bind(env)
        weights = self.policy.trainable_parameters()
        everybody.take_main(weights)
        self.prepare(env)
        self.optimizer = torch.optim.AdamW(
            list(weights.values()), lr=self.config.learning_rate, weight_decay=0.0, foreach=False
        )
        progress = Progress(run, callbacks, writes=everybody.is_main)
        if run is not None and run.resumed:
            progress.restore(weights, self.optimizer)
        self.spent = progress.spent
        trackers = self.track(progress)
        started = time.monotonic() - progress.seconds
        for number in range(progress.update, self.total_updates):
            if self._good_enough(progress.best):
                break
            self._set_step_size(number)
            self._version = number
            record = self.serve() | self.update(number)
            self._version = number + 1
            if eval_env is not None and self._due(number):
                record |= self.evaluate(eval_env)
            self.count(**everybody.sums(meter.take()))
            progress.advance(record, seconds=time.monotonic() - started, weights=weights)
            if progress.update % self.config.save_every == 0:
                everybody.check_equal(weights)
                progress.save(weights, self.optimizer)
        progress.save(weights, self.optimizer)
        progress.take_best(weights)
        self._version += 1
        self._actor = None  # it holds what other weights computed
        if run is not None and everybody.is_main:
            self.save(run.path)
        trackers.close()
        return TrainingReport(progress.update, progress.seconds, dict(self.spent), dict(progress.best))

    def _good_enough(self, best: Mapping[str, Any]) -> bool:
        wanted = self.config.stop_at
        return wanted is not None and best.get("dev_reward", -math.inf) >= wanted

    def _due(self, number: int) -> bool:
        return number + 1 == self.total_updates or (number + 1) % self.config.eval_every == 0

    def _set_step_size(self, number: int) -> None:
        warm = math.ceil(self.config.warmup * self.total_updates)
        rate = self.config.learning_rate
        if number < warm:
            rate *= (number + 1) / warm
        elif self.config.schedule == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * (number - warm) / (self.total_updates - warm)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def step(self) -> float:
        """Sum the gradient over all processes, clip it and make an optimiser step; returns the gradient's norm.

        Raises:
            UsageError: the gradient is not finite: training has diverged.
        """
        parameters = self.policy.trainable_parameters().values()
        processes().sum_gradients(parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.gradient_clip)
        if not math.isfinite(float(norm)):
            raise UsageError(
                f"the gradient of update {self._version + 1} is not finite, training has diverged: choose a smaller "
                f"learning_rate than {self.config.learning_rate:g} and train anew"
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def evaluate(self, env: gym.Env) -> dict[str, float]:
        """Means over greedy episodes, by episode.

        `dev_reward` is the total, the others are the environment's components: an episode that failed or was not scored
        counts as 0. Turns, calls and tokens are means over those that did not fail.
        """
        played, failed = self.play(env)
        n = len(played) + len(failed)
        record = {f"dev_{name}": value * len(played) / n for name, value in mean_rewards(played, missing=0.0).items()}
        record["dev_reward"] = record.pop("dev_total")
        lengths = {f"dev_{name}": value for name, value in mean_lengths(played).items()}
        return record | lengths | {"dev_failed": float(len(failed))}

    # -------------------------------------------------------------------------------------------- bookkeeping

    def save(self, path: str | os.PathLike) -> None:
        """Write `config.json` (unless a run has written its own) and the weights to the folder `path`."""
        self.write_config(path)
        self.policy.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike, **overrides: Any) -> ChatLearner:
        """Read what `save` wrote; `overrides` replace configuration fields.

        Raises:
            RunError: no run folder, one of another agent, or one that never finished.
        """
        stored = cls.stored_config(path)
        learner = cls(stored | overrides | {"init": None})
        learner.policy.load(path)
        return learner


def task_ids(engine: RolloutEngine) -> list[str]:
    """The tasks of the engine's environment.

    Raises:
        UsageError: it does not name any.
    """
    ids = engine.task_ids
    if not ids:
        raise UsageError("the environment names no tasks: it needs task_ids, see docs/trajectories.md")
    return list(ids)
