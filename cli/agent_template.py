"""The files that `toolcredit init agent NAME` writes: a small learner that works as it is and is there to be replaced.

`$name` is the agent's name and its package's, `$cls` the class.
"""

PYPROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
description = "An agent for toolcredit"
requires-python = ">=3.10"
dependencies = ["toolcredit"]

# This is what makes `$name` a name that every command of toolcredit knows.
[project.entry-points."toolcredit.agents"]
$name = "$name:$cls"

[tool.setuptools]
packages = ["$name"]
"""

MODULE = '''\
"""$cls: an agent for toolcredit that tries every action in turn and keeps to the one with the best mean reward."""

from __future__ import annotations

import json
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from toolcredit.agents.base import Learner, TrainingReport
from toolcredit.errors import UnknownNameError, UsageError
from toolcredit.runs import RunFolder, read_jsonl, write_json

DEFAULTS = {"max_updates": 320, "seed": 0}


class $cls(Learner):
    """`toolcredit train` makes it with a configuration and a run folder; both may be left out."""

    name = "$name"

    def __init__(self, config=None, out=None):
        for key in config or {}:
            if key not in DEFAULTS:
                raise UnknownNameError(f"field of {self.name}", key, DEFAULTS)
        self.config = DEFAULTS | (config or {})
        self.out = out
        self.best_action = 0

    def act(self, observation, info):
        """Decide here. `observation` and `info` are yours to read, not to change."""
        return self.best_action

    def learn(self, env, *, eval_env=None, callbacks=(), resume=False):
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise UsageError(f"{self.name} needs a Discrete action space, got {env.action_space}")
        started = time.monotonic()
        run = RunFolder(self.out, self.describe(env), resume=resume) if self.out is not None else None
        totals, counts = np.zeros((2, int(env.action_space.n)))
        update = 0
        for record in read_jsonl(run.metrics.path) if run is not None else ():  # what a killed run has done
            totals[record["action"]] += record["reward"]
            counts[record["action"]] += 1
            update = record["update"]
        while update < self.config["max_updates"]:
            env.reset(seed=self.config["seed"] + update)
            action = update % len(totals)
            reward = float(env.step(action)[1])
            totals[action] += reward
            counts[action] += 1
            update += 1
            record = {"update": update, "action": action, "reward": reward, "spent": {"reasoner_calls": update}}
            if run is not None:
                run.metrics.append(record)
            for callback in callbacks:
                callback(record)
        self.best_action = int((totals / np.maximum(counts, 1)).argmax())
        if run is not None:
            self.save(run.path)
        return TrainingReport(update, time.monotonic() - started, spent={"reasoner_calls": update})

    def describe(self, env=None):
        """What a run folder stores, so that `toolcredit eval FOLDER` and `--resume` can make everything again."""
        about = {"agent": self.name, "config": self.config}
        if env is not None and env.spec is not None:
            about["env"] = {"id": env.spec.id, "kwargs": env.spec.kwargs}
        return about

    def save(self, path):
        path = Path(path)
        if not (path / "config.json").exists():
            write_json(path / "config.json", self.describe())
        write_json(path / "best_action.json", self.best_action)

    @classmethod
    def load(cls, path, **overrides):
        learner = cls(RunFolder.load_config(path)["config"] | overrides)
        learner.best_action = json.loads((Path(path) / "best_action.json").read_text())
        return learner
'''

TEST = """\
import gymnasium as gym
import toolcredit  # noqa: F401 - registers the environments
from toolcredit.agents.base import agent_class
from toolcredit.agents.check import check_agent

from $name import $cls

SMALL = {"max_updates": 16}


def test_keeps_the_rules_of_toolcredit():
    check_agent($cls(SMALL), gym.make("GenomeToolSubset-v0"), learn=True)


def test_is_found_by_its_name():
    assert agent_class("$name") is $cls, "install the package first: pip install -e ."


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    env = gym.make("GenomeToolSubset-v0")
    whole, halves = $cls(SMALL, tmp_path / "whole"), $cls(SMALL, tmp_path / "halves")
    whole.learn(env)

    def kill(record):
        if record["update"] == 7:
            raise KeyboardInterrupt

    try:
        halves.learn(env, callbacks=[kill])
    except KeyboardInterrupt:
        $cls(SMALL, tmp_path / "halves").learn(env, resume=True)
    for name in ("metrics.jsonl", "best_action.json"):
        assert (tmp_path / "halves" / name).read_text() == (tmp_path / "whole" / name).read_text()
"""

README = """\
# $name

An agent for toolcredit. It comes with a small learner that works: replace `act`
and `learn` in `$name/__init__.py`, and keep the test green.

    pip install -e .
    pytest
    toolcredit check $name
    toolcredit train $name --out runs/$name
    toolcredit eval runs/$name

The rules of the interface, and how to write rewards and tools, stand in toolcredit's `docs/interface.md`.
"""

FILES = {
    "pyproject.toml": PYPROJECT,
    "$name/__init__.py": MODULE,
    "tests/test_$name.py": TEST,
    "README.md": README,
}
