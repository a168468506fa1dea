"""What learners with a configuration object share: the run folder, the running totals, the description of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
from pydantic import BaseModel, ConfigDict, Field

from ..errors import RunError, UsageError
from ..runs import RunFolder, write_json
from .base import Learner
from .checkpoint import Progress
from .distributed import launched, processes
from .trackers import NONE, Trackers, tracker_names


class RunConfig(BaseModel):
    """Fields that every configured learner has."""

    model_config = ConfigDict(extra="forbid")

    tracker: str = Field(
        "auto",
        description="Who is told the metrics besides metrics.jsonl: auto (TensorBoard if it is installed), none, or "
        "names that Accelerate knows (tensorboard, wandb, …), with commas between.",
    )


class ConfiguredLearner(Learner):
    """A learner whose settings are one pydantic object, written to `config.json` as it is.

    Args:
        config: the validated settings.
        out: run folder; without it nothing is written and a run cannot be resumed.

    Attributes:
        spent: running totals of what learning used.
    """

    config: RunConfig
    #: whether several processes can train it together
    divides: ClassVar[bool] = False

    def __init__(self, config: RunConfig, out: str | os.PathLike | None = None):
        self.config = config
        self.out = Path(out) if out is not None else None
        self.spent: dict[str, float] = {}

    def open_run(self, env: gym.Env, resume: bool) -> RunFolder | None:
        """The run folder of a learning run on `env`, or None if nothing is to be written.

        Where several processes train together, the main one makes it and is the only one to write.

        Raises:
            RunError: `resume` without a run folder, or with one of another configuration.
            UsageError: several processes were started for a learner that cannot divide its work among them, or a
                tracker is not there.
        """
        if launched() and not self.divides:
            raise UsageError(f"{self.name} trains in one process: start it without `accelerate launch`")
        if resume and self.out is None:
            raise RunError("resume needs the run folder that the first part wrote: give out=…")
        if self.out is None:
            return None
        tracker_names(self.config.tracker)  # an unknown one is told now, not after the first update
        folder, description = self.out, self.describe(env)
        return processes().agree(lambda: RunFolder(folder, description, resume=resume))

    def track(self, progress: Progress) -> Trackers:
        """The run's trackers, which are told every record from now on; none where nothing is written."""
        writes = progress.run is not None and progress.writes
        trackers = Trackers(self.config.tracker if writes else NONE, progress.run, progress.update)
        progress.callbacks = (*progress.callbacks, trackers.log)
        return trackers

    def count(self, **amounts: float) -> None:
        """Add to what the learning has spent."""
        for name, amount in amounts.items():
            self.spent[name] = self.spent.get(name, 0) + amount

    def describe(self, env: gym.Env | None = None) -> dict[str, Any]:
        """The run's configuration in plain JSON: agent, fields, environment id and arguments."""
        description: dict[str, Any] = {"agent": self.name, "config": self.config.model_dump(mode="json")}
        if env is not None and env.spec is not None:
            description["env"] = {"id": env.spec.id, "kwargs": env.spec.kwargs}
        return description

    def write_config(self, path: str | os.PathLike) -> None:
        """Write `config.json` to the folder `path`, unless a run has written its own."""
        if not (Path(path) / "config.json").exists():
            write_json(Path(path) / "config.json", self.describe())

    @classmethod
    def stored_config(cls, path: str | os.PathLike) -> dict[str, Any]:
        """The configuration fields in a run folder of this class.

        Raises:
            RunError: no run folder, or one of another agent.
        """
        stored = RunFolder.load_config(path)
        if stored.get("agent") != cls.name:
            raise RunError(f"{path} is a run of {stored.get('agent')!r}, expected {cls.name!r}")
        return stored["config"]
