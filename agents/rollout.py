"""The rollout engine: groups of trajectories of any chat environment, sampled together.

All open episodes are sampled together, and environments work in threads meanwhile; `collection` holds the loop.

What happens to a failure: an episode whose environment or server fails is dropped from its group, counted and listed.
Asked for, finished and failed always add up.

Determinism: a turn's random numbers depend on (seed, task, member, turn) only. In process, an episode comes back from
its environment a fixed number of tokens later, not when its thread happens to be ready, so that the batches too, and
with them the last bit of every log-probability, are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gymnasium as gym

from ..errors import ConfigError, UnknownNameError
from .backends import Backend
from .chat_env import chat_env, env_maker
from .chat_template import ChatTemplate
from .collected import Rollouts, join
from .collection import Collection, named_tasks
from .distributed import processes
from .episode import Start
from .trajectory import SEGMENT_RULES


class RolloutEngine:
    """Samples episodes of one environment with one policy.

    Args:
        backend: who samples.
        env: a chat environment or text bandit (made by `gym.make`, so that copies can be made), or a function that
            makes one.
        template: how chats are written, see `ChatTemplate`.
        max_turns: assistant turns of an episode; environments mostly have a lower limit of their own. An episode that
            reaches it, or fills the context, is ended with an empty turn, so that it is scored.
        rejoin_after: in process, how many tokens the others are given before an episode's environment must have
            answered. None: it comes back as soon as it is ready, which suits slow environments (a language model as
            mock) but makes batches depend on the clock.
        env_timeout: seconds for one reset or step; then the episode counts as failed.
        segment_rule: `content` or `position`, see `trajectory`.

    Raises:
        ConfigError: an argument is out of range.
        UnknownNameError: there is no such template or rule.
    """

    def __init__(
        self,
        backend: Backend,
        env: gym.Env | Callable[[], gym.Env],
        *,
        template: str = "auto",
        max_turns: int = 32,
        rejoin_after: int | None = 4,
        env_timeout: float = 900.0,
        segment_rule: str = "content",
    ):
        if segment_rule not in SEGMENT_RULES:
            raise UnknownNameError("segment rule", segment_rule, SEGMENT_RULES)
        if max_turns < 1 or (rejoin_after is not None and rejoin_after < 0) or not env_timeout > 0:
            raise ConfigError(
                f"max_turns={max_turns}, rejoin_after={rejoin_after}, env_timeout={env_timeout}: expected at least 1, "
                "at least 0 or None, and a positive number"
            )
        self.backend = backend
        self.template = ChatTemplate(backend.tokenizer, template, backend.stop_ids)
        self.max_turns, self.env_timeout, self.segment_rule = max_turns, env_timeout, segment_rule
        self.rejoin_after = rejoin_after if backend.in_process else None
        self._make_env = env_maker(env)
        self._idle: list[gym.Env] = []

    @property
    def task_ids(self) -> Sequence[str] | None:
        """The environment's tasks; None if it does not name them, and the seeds of its `reset` are its tasks."""
        env = self.take_env()
        self.give_back(env)
        return named_tasks(env)

    def collect(
        self,
        tasks: Sequence[str | int | Start],
        group_size: int = 1,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        max_new_tokens: int = 512,
    ) -> Rollouts:
        """Sample `group_size` episodes of every task with the policy's present weights.

        Where several processes train together, all of them call this; they divide the episodes, and all get all.

        Args:
            tasks: task ids; seeds for environments that do not name tasks; or starts in the middle of an episode.
            group_size: episodes of each task.
            seed: of all random numbers.
            temperature: of the sampling; there is no top-p and no top-k. 0 decodes greedily.
            max_new_tokens: longest assistant turn. A turn that is cut there goes to the environment as it is.

        Raises:
            InfrastructureError: every single episode failed.
            UsageError: the environment breaks the contract of chat environments, or does not know a task.
        """
        if not tasks or group_size < 1 or max_new_tokens < 1 or not temperature >= 0:
            raise ConfigError(
                f"collect needs a task, group_size >= 1, max_new_tokens >= 1 and temperature >= 0, got {len(tasks)} "
                f"tasks, {group_size}, {max_new_tokens}, {temperature}"
            )
        starts = [task if isinstance(task, Start) else Start(task) for task in tasks]
        collection, everybody = Collection(self, seed, temperature, max_new_tokens), processes()
        parts = everybody.gather(lambda: collection.run(starts, group_size, everybody))
        return join(parts, len(starts), max_new_tokens)

    def take_env(self) -> gym.Env:
        """An environment that no episode uses."""
        return self._idle.pop() if self._idle else chat_env(self._make_env())

    def give_back(self, env: gym.Env) -> None:
        """The episode that used it has ended."""
        self._idle.append(env)

    def close(self) -> None:
        """Close all environments."""
        while self._idle:
            self._idle.pop().close()
