"""A vector environment that steps its copies in threads: right and fast for environments that wait on a model.

`gymnasium.make_vec(id, n)` uses it for every id of this package. It differs from `gymnasium.vector.SyncVectorEnv` only
in that `reset` and `step` run in all copies at once; the order of results, the autoreset modes and the random numbers
are the same, since every copy has its own generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, iterate

from ..errors import UsageError


def make_threaded(
    env_id: str, num_envs: int = 1, *, autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP, **kwargs: Any
) -> ThreadVectorEnv:
    """`num_envs` copies of a registered environment; `kwargs` are those of `gymnasium.make`."""
    return ThreadVectorEnv([lambda: gym.make(env_id, **kwargs)] * num_envs, autoreset_mode=autoreset_mode)


# what `gymnasium.make_vec` finds by name for each registered id
genome_tool_subset = partial(make_threaded, "GenomeToolSubset-v0")
sgls_tool_calling = partial(make_threaded, "SGLSToolCalling-v0")
sgls_tool_calling_replay = partial(make_threaded, "SGLSToolCallingReplay-v0")
bfcl = partial(make_threaded, "toolcredit/BFCL-v0")
tau2 = partial(make_threaded, "toolcredit/Tau2-v0")


class ThreadVectorEnv(SyncVectorEnv):
    """Copies of one environment, stepped in one thread each.

    If a copy raises, the others finish their step before the error is raised; `reset` then starts all copies anew.

    Args:
        env_fns: functions that make the copies, all with the same spaces.
        autoreset_mode: what happens to a copy whose episode ended: `NextStep`, `SameStep` or `Disabled`, as in
            `gymnasium.vector.AutoresetMode`.
    """

    def __init__(
        self, env_fns: Sequence[Callable[[], gym.Env]], autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP
    ):
        if not env_fns:
            raise UsageError("a vector environment needs at least one copy, got num_envs=0")
        super().__init__(env_fns, autoreset_mode=autoreset_mode)
        self._ended = np.zeros(self.num_envs, bool)
        self._last: list[Any] = [None] * self.num_envs
        self._pool = ThreadPoolExecutor(self.num_envs, thread_name_prefix=type(self).__name__)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all copies, or those of `options["reset_mask"]`; an integer seed gives copy i the seed `seed + i`."""
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise UsageError(f"seed must be an integer or {self.num_envs} seeds, one per copy, got {len(seeds)}")
        each = None if options is None else {key: value for key, value in options.items() if key != "reset_mask"}
        mask = self._reset_mask((options or {}).get("reset_mask"))
        chosen = np.flatnonzero(mask).tolist()
        results = self._run(lambda i: self.envs[i].reset(seed=seeds[i], options=deepcopy(each)), chosen)
        infos: dict[str, Any] = {}
        for i, (observation, info) in zip(chosen, results, strict=True):
            self._last[i], self._ended[i] = observation, False
            infos = self._add_info(infos, info, i)
        return self._observation_batch(), infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all copies; a copy whose episode ended is treated as the autoreset mode says."""
        if self.autoreset_mode == AutoresetMode.DISABLED and self._ended.any():
            ended = np.flatnonzero(self._ended).tolist()
            raise UsageError(f"the episodes of the copies {ended} have ended: reset them with options['reset_mask']")
        each = list(iterate(self.action_space, actions))
        results = self._run(lambda i: self._step_one(i, each[i]), range(self.num_envs))
        rewards, terminated, truncated = np.zeros(self.num_envs), self._ended.copy(), self._ended.copy()
        infos: dict[str, Any] = {}
        for i, (observation, rewards[i], terminated[i], truncated[i], info, final) in enumerate(results):
            self._last[i] = observation
            if final is not None:
                infos = self._add_info(infos, final, i)
            infos = self._add_info(infos, info, i)
        self._ended = terminated | truncated
        return self._observation_batch(), rewards, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads and close the copies."""
        if hasattr(self, "_pool"):
            self._pool.shutdown()
        super().close_extras(**kwargs)

    def _step_one(self, i: int, action: Any) -> tuple[Any, float, bool, bool, dict, dict | None]:
        env = self.envs[i]
        if self._ended[i] and self.autoreset_mode == AutoresetMode.NEXT_STEP:
            observation, info = env.reset()
            return observation, 0.0, False, False, info, None
        observation, reward, terminated, truncated, info = env.step(action)
        if (terminated or truncated) and self.autoreset_mode == AutoresetMode.SAME_STEP:
            final = {"final_obs": observation, "final_info": info}
            observation, info = env.reset()
            return observation, float(reward), terminated, truncated, info, final
        return observation, float(reward), terminated, truncated, info, None

    def _run(self, call: Callable[[int], Any], copies: Iterable[int]) -> list[Any]:
        futures = [self._pool.submit(call, i) for i in copies]
        wait(futures)
        return [future.result() for future in futures]

    def _reset_mask(self, mask: Any) -> np.ndarray:
        if mask is None:
            return np.ones(self.num_envs, bool)
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise UsageError(f"reset_mask must be {self.num_envs} booleans, at least one of them True, got {mask!r}")
        return mask

    def _observation_batch(self) -> Any:
        return deepcopy(concatenate(self.single_observation_space, self._last, self._observations))
