"""`toolcredit eval`: measure a run, or any agent, on anybody's questions, with the references beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..agents.base import Agent, Learner, agent_class, is_run_folder
from ..benchmarks.experiment import TrainingPlan
from ..benchmarks.held_out import evaluate_agent, print_result
from ..envs.make import env_parameters, make_split
from ..errors import RunError, UsageError
from . import options


def evaluate_run(
    agent: str = typer.Argument(..., help="A run folder, a registered agent's name, or package.module:Class."),
    env: str = typer.Option(None, "--env", help="Gymnasium id; default: the run's own."),
    questions: str = options.QUESTIONS,
    split: str = typer.Option("test", "--split", help="train | dev | test | all."),
    tools: str = options.TOOLS,
    reasoner: str = options.REASONER,
    table: str = options.TABLE,
    env_set: list[str] = options.ENV_SET,
    agent_set: list[str] = options.AGENT_SET,
    as_json: bool = options.JSON,
) -> None:
    """Let an agent answer every question of a split and compare it with no tool, all, random, best fixed and oracle.

    The environment is the one the run was trained on, with the options given here changed; the reward is Eq. 1.
    """
    given = options.env_arguments(questions, tools, reasoner, table, env_set)
    arguments = options.agent_arguments(agent_set)
    if is_run_folder(agent):
        plan = TrainingPlan.from_run(agent)
        kwargs: dict[str, Any] = dict(plan.env_kwargs)
        if set(given) & {"questions", "tools", "reasoner"} or not Path(kwargs.get("table", "")).is_file():
            kwargs.pop("table", None)  # it belongs to the run's own questions, or has gone
        name, env_id, loaded = plan.agent, env or plan.env_id, load_run(plan.agent, agent, arguments)
    elif Path(agent).is_dir():
        raise RunError(f"{agent} is not a run folder: it has no config.json")
    else:
        name, env_id, kwargs, loaded = agent, env or "GenomeToolSubset-v0", {}, new_agent(agent, arguments)
    if "reward" in env_parameters(env_id):
        kwargs["reward"] = "eq1"  # whatever the run was trained on
    result = evaluate_agent(make_split(env_id, split, **kwargs | given), name, loaded)
    if as_json:
        options.print_json(result)
    else:
        print_result(result | {"split": split})


def new_agent(spec: str, arguments: dict[str, Any] | None = None) -> Agent:
    """The agent behind a name or an import path, made with these arguments.

    Raises:
        UsageError: there is none, or its class cannot be made so.
    """
    cls = agent_class(spec)
    try:
        return cls(**arguments or {})
    except TypeError as error:
        raise UsageError(f"{spec} cannot be made: {error}; give its arguments as --agent-set KEY=VALUE") from None


def load_run(name: str, folder: str, overrides: dict[str, Any] | None = None) -> Agent:
    """The trained learner of a run folder, with configuration fields replaced.

    Raises:
        RunError: the run did not finish, or its agent does not learn.
    """
    cls = agent_class(name)
    if not issubclass(cls, Learner):
        raise RunError(f"{folder} is a run of {name!r}, which is no learner")
    return cls.load(folder, **overrides or {})
