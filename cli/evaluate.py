"""`toolcredit eval`: measure a run, or any agent, on anybody's questions, with the references beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..agents.base import Agent, Learner, agent_class, is_run_folder
from ..benchmarks import held_out_chat
from ..benchmarks.experiment import TrainingPlan
from ..benchmarks.held_out import evaluate_agent, print_result, versions
from ..envs.make import env_parameters, make_split
from ..errors import RunError, UsageError
from . import options


def evaluate_run(
    agent: str = typer.Argument(..., help="A run folder, a registered agent's name, or package.module:Class."),
    env: str = typer.Option(None, "--env", help="Gymnasium id; default: the run's own."),
    questions: str = options.QUESTIONS,
    split: str = typer.Option("test", "--split", help="A split of the environment: train | dev | test | all."),
    tools: str = options.TOOLS,
    reasoner: str = options.REASONER,
    table: str = options.TABLE,
    env_set: list[str] = options.ENV_SET,
    agent_set: list[str] = options.AGENT_SET,
    limit: int = typer.Option(None, "--limit", min=1, help="Conversations: at most so many tasks, evenly of all."),
    as_json: bool = options.JSON,
) -> None:
    """Let an agent answer every question, or hold every conversation, of a split, with the references beside it.

    Questions are compared with no tool, all, random, best fixed and oracle; conversations with doing nothing, random
    calls and gold, which are agents, too: `nothing`, `random`, `gold`. The environment is the one the run was trained
    on, with the options given here changed; the reward of questions is Eq. 1.
    """
    given = options.env_arguments(questions, tools, reasoner, table, env_set)
    arguments = options.agent_arguments(agent_set)
    if is_run_folder(agent):
        plan = TrainingPlan.from_run(agent)
        env_id = env or plan.env_id
        kwargs: dict[str, Any] = dict(plan.env_kwargs)
        if (known := env_parameters(env_id)) != env_parameters(plan.env_id):  # only the syntax of calls was learned
            kwargs = {name: value for name, value in kwargs.items() if name == "parser" and name in known}
        if set(given) & {"questions", "tools", "reasoner"} or not Path(kwargs.get("table", "")).is_file():
            kwargs.pop("table", None)  # it belongs to the run's own questions, or has gone
        name = plan.agent
    elif Path(agent).is_dir():
        raise RunError(f"{agent} is not a run folder: it has no config.json")
    elif "/" in agent and ":" not in agent:
        raise RunError(f"there is no folder {agent}")
    else:
        name, env_id, kwargs = agent, env or "GenomeToolSubset-v0", {}
    if "reward" in env_parameters(env_id):
        kwargs["reward"] = "eq1"  # whatever the run was trained on
    environment = make_split(env_id, split, **kwargs | given)
    chats = held_out_chat.is_chat(environment)
    if is_run_folder(agent):
        loaded = load_run(name, agent, arguments)
    else:
        loaded = new_agent(held_out_chat.ALIASES.get(agent, agent) if chats else agent, arguments)
    if chats:
        with options.progress_bar(quiet=as_json) as progress:
            bar = progress.add_task(name, note="")
            own = held_out_chat.play(
                environment, loaded, limit, lambda done, total: progress.update(bar, completed=done, total=total)
            )
        result = held_out_chat.measure(name, own, split, environment, limit=limit) | {"versions": versions()}
    elif limit is not None:
        raise UsageError("--limit is for conversations: questions are answered all, from one table")
    else:
        result = evaluate_agent(environment, name, loaded)
    result |= {"env": env_id}
    if as_json:
        options.print_json(result)
    elif chats:
        held_out_chat.print_result(result)
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
