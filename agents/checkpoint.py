"""Progress of a learning run, and the one safetensors file that lets it go on exactly where it was.

The state file replaces its predecessor atomically, so that a kill leaves the old checkpoint or the new one. Random
numbers need no state: learners derive every draw from (seed, update), see `update_generator`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..errors import RunError
from ..runs import RunFolder, cut_jsonl
from .base import Callback

Weights = Mapping[str, torch.Tensor]

TRAJECTORIES = "trajectories.jsonl"
"""The sampled episodes in a run folder, where a learner keeps them; each record names its update."""


class Progress:
    """How far a run is, what it spent, its best weights so far; writes metrics and checkpoints if there is a folder.

    Args:
        run: the run folder, or None to keep everything in memory.
        callbacks: called with each metrics record.
        writes: False in a process that leaves files and callbacks to the main one.

    Attributes:
        update: updates made.
        seconds: time spent on them, earlier parts of the run included.
        spent: running totals (reasoner calls, tokens).
        best: the record of the best dev evaluation.
    """

    def __init__(self, run: RunFolder | None, callbacks: Sequence[Callback] = (), writes: bool = True):
        self.run = run
        self.writes = writes
        self.callbacks = callbacks if writes else ()
        self.update = 0
        self.seconds = 0.0
        self.spent: dict[str, float] = {}
        self.best: dict[str, Any] = {}
        self._best_weights: Weights | None = None

    @property
    def state_path(self) -> Path | None:
        """Where the checkpoint stands, or None without a run folder."""
        return self.run.path / "state.safetensors" if self.run is not None else None

    def advance(self, record: dict[str, Any], seconds: float, weights: Weights) -> None:
        """Count one update, log its record, and keep the weights if its dev reward is the best so far."""
        self.update += 1
        self.seconds = seconds
        if "dev_reward" in record and record["dev_reward"] > self.best.get("dev_reward", float("-inf")):
            self.best = {"update": self.update} | {k: v for k, v in record.items() if k.startswith("dev_")}
            self._best_weights = {name: tensor.detach().clone() for name, tensor in weights.items()}
        record = {"update": self.update, **record, "seconds": round(seconds, 3), "spent": dict(self.spent)}
        if self.run is not None and self.writes:
            self.run.metrics.append(record)
        for callback in self.callbacks:
            callback(record)

    def take_best(self, weights: Weights) -> None:
        """Copy the best weights into `weights`; without a dev evaluation the last ones stay."""
        if self._best_weights is not None:
            with torch.no_grad():
                for name, tensor in weights.items():
                    tensor.copy_(self._best_weights[name])

    def save(self, weights: Weights, optimizer: torch.optim.Optimizer) -> None:
        """Write the checkpoint, if there is a run folder."""
        if self.state_path is None or not self.writes:
            return
        progress = {"update": self.update, "seconds": self.seconds, "spent": self.spent, "best": self.best}
        tensors: dict[str, torch.Tensor] = {f"weight/{name}": tensor for name, tensor in weights.items()}
        tensors |= {f"best/{name}": tensor for name, tensor in (self._best_weights or {}).items()}
        for index, slots in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{index}/{slot}": torch.as_tensor(value) for slot, value in slots.items()}
        write_state(self.state_path, tensors, progress)

    def restore(self, weights: Weights, optimizer: torch.optim.Optimizer) -> None:
        """Fill `weights` and `optimizer` from the checkpoint and cut metrics and trajectories back to it.

        A run that was killed before its first checkpoint starts anew.

        Raises:
            RunError: the checkpoint is torn or belongs to a policy with other trainable weights.
        """
        if self.run is None or self.state_path is None or not self.state_path.exists():
            self._cut_records()
            return
        tensors, progress = read_state(self.state_path)
        stored = _with_prefix(tensors, "weight/")
        if {n: t.shape for n, t in stored.items()} != {n: t.shape for n, t in weights.items()}:
            raise RunError(f"{self.state_path} belongs to a policy with other trainable weights")
        with torch.no_grad():
            for name, tensor in weights.items():
                tensor.copy_(stored[name])
        self._best_weights = _with_prefix(tensors, "best/") or None
        slots: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in _with_prefix(tensors, "optimizer/").items():
            index, slot = name.split("/", 1)
            slots.setdefault(int(index), {})[slot] = tensor
        optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})
        self.update, self.seconds = progress["update"], progress["seconds"]
        self.spent, self.best = progress["spent"], progress["best"]
        self._cut_records()

    def _cut_records(self) -> None:
        """Drop the records after the checkpoint: their updates are made again."""
        if self.run is None or not self.writes:
            return
        for path in (self.run.metrics.path, self.run.path / TRAJECTORIES):
            cut_jsonl(path, lambda record: record["update"] > self.update)


def write_state(path: Path, tensors: Weights, progress: dict[str, Any]) -> None:
    """Write tensors and plain-JSON progress to one safetensors file, atomically."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    cpu = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    save_file(cpu, temporary, metadata={"progress": json.dumps(progress, allow_nan=False)})
    os.replace(temporary, path)


def read_state(path: Path) -> tuple[Weights, dict[str, Any]]:
    """What `write_state` wrote.

    Raises:
        RunError: the file is torn or something else.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            return tensors, json.loads(file.metadata()["progress"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{path} is no checkpoint of toolcredit ({error}); start the run anew in another folder"
        ) from None


def _with_prefix(tensors: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def update_generator(seed: int, update: int) -> torch.Generator:
    """A CPU generator that depends on (seed, update) alone: a resumed run draws what an unbroken one draws."""
    mixed = (seed * 1_000_003 + update * 7_919 + 12_345) % (2**63 - 1)
    return torch.Generator().manual_seed(mixed)
