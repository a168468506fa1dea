"""The domains: their tasks, environments and tools, made fast from what is loaded once."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError, UnknownNameError
from . import shared
from .package import Package, Source, load_package

OFFICIAL = ("airline", "retail", "telecom")
NAMES = (*OFFICIAL, "mock")
SOLO = ("telecom", "mock")

_SHARED = {"airline": "data_model:FlightDB", "retail": "data_model:RetailDB"}
_FILES = (
    "tasks.json",
    "split_tasks.json",
    "db.json",
    "db.toml",
    "user_db.toml",
    "policy*.md",
    "main_*.md",
    "tech_*.md",
)
_GUIDELINES = "data/tau2/user_simulator/*.md"


def data_patterns(name: str) -> list[str]:
    """The files of the package that a domain's tasks, databases, policies and users come from."""
    return [*(f"data/tau2/domains/{name}/{pattern}" for pattern in _FILES), _GUIDELINES]


@dataclass(frozen=True)
class Tool:
    """A tool as models see it, with the attributes that the package's agents and users read.

    Attributes:
        name: of the tool.
        openai_schema: its definition in OpenAI's form.
    """

    name: str
    openai_schema: dict[str, Any]


class Domain:
    """One domain. Safe to share among threads; get it with `load_domain`.

    Args:
        source: where the package is.
        name: one of `NAMES`.
    """

    def __init__(self, source: Source, name: str):
        self.source, self.name = source, name

    @functools.cached_property
    def package(self) -> Package:
        """The package, loaded when it is first needed."""
        return load_package(self.source)

    @functools.cached_property
    def all_tasks(self) -> dict[str, dict[str, Any]]:
        """Every task, as its file has it, by id."""
        return {task["id"]: task for task in self._read("tasks.json")}

    def tasks(self, split: str, solo: bool) -> list[dict[str, Any]]:
        """The tasks of a split, in the file's order; in solo mode those that can be played so.

        Raises:
            UnknownNameError: there is no such split.
        """
        splits = self._read("split_tasks.json")
        if split not in splits:
            raise UnknownNameError(f"split of {self.name}", split, splits)
        wanted = set(splits[split])
        tasks = [task for identity, task in self.all_tasks.items() if identity in wanted]
        return [task for task in tasks if self._is_for_solo(task)] if solo else tasks

    def parse(self, task: Mapping[str, Any]) -> Any:
        """A task as the package's `Task`."""
        return self.package.tasks.Task.model_validate(copy.deepcopy(dict(task)))

    def environment(self, solo_mode: bool = False) -> Any:
        """A fresh environment, equal to what the package's own `get_environment` makes.

        Raises:
            ConfigError: the domain cannot be played without a user.
        """
        if solo_mode and self.name not in SOLO:
            raise ConfigError(f"the domain {self.name} has no solo mode; {' and '.join(SOLO)} have")
        return self._make(solo_mode=solo_mode, **{name: fresh() for name, fresh in self._databases.items()})

    @functools.cached_property
    def tools(self) -> list[Tool]:
        """The assistant's tools."""
        return [Tool(tool.name, tool.openai_schema) for tool in self.environment().get_tools()]

    @functools.cached_property
    def user_tools(self) -> list[Tool] | None:
        """The user's tools, or None if users of this domain have none."""
        environment = self.environment()
        if environment.user_tools is None:
            return None
        return [Tool(tool.name, tool.openai_schema) for tool in environment.get_user_tools()]

    @functools.cached_property
    def _make(self) -> Callable[..., Any]:
        return self.package.attribute(f"domains.{self.name}.environment:get_environment")

    @functools.cached_property
    def _databases(self) -> dict[str, Callable[[], Any]]:
        """What makes a fresh copy of each database."""
        if self.name in _SHARED:
            kind = self.package.attribute(f"domains.{self.name}.{_SHARED[self.name]}")
            return {"db": functools.partial(shared.share, kind.load(self._path("db.json")))}
        environment = self._make()
        databases = {"db": environment.tools.db}
        if environment.user_tools is not None:
            databases["user_db"] = environment.user_tools.db
        return {name: functools.partial(db.model_copy, deep=True) for name, db in databases.items()}

    def _is_for_solo(self, task: Mapping[str, Any]) -> bool:
        agent = self.package.attribute("agent.llm_agent:LLMSoloAgent")
        return bool(task.get("ticket")) and agent.check_valid_task(self.parse(task))

    def _path(self, name: str) -> Path:
        return self.source.folder / "data" / "tau2" / "domains" / self.name / name

    def _read(self, name: str) -> Any:
        return json.loads(self._path(name).read_text("utf-8"))


@functools.cache
def load_domain(source: Source, name: str) -> Domain:
    """The domain of a package, loaded once."""
    return Domain(source, name)
