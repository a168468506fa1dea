"""`toolcredit check AGENT`: does an agent keep the rules of the interface?"""

from __future__ import annotations

from typing import Any

import typer

from ..agents.base import Agent, is_run_folder
from ..agents.check import check_agent
from ..envs.make import make_env
from ..errors import CheckError
from ..runs import RunFolder
from . import options
from .evaluate import load_run, new_agent


def check(
    agent: str = typer.Argument(..., help="A registered agent's name, package.module:Class, or a run folder."),
    env: str = options.ENV,
    env_set: list[str] = options.ENV_SET,
    agent_set: list[str] = options.AGENT_SET,
    as_json: bool = options.JSON,
) -> None:
    """Check an agent against every rule of the interface; exit code 1 and the fix for the first rule that it breaks."""
    subject = make_agent(agent, options.agent_arguments(agent_set))
    environment = make_env(env, **options.env_arguments(env_set=env_set))
    broken = None
    try:
        check_agent(subject, environment)
    except CheckError as error:
        if not as_json:
            raise
        broken = str(error)
    if as_json:
        options.print_json({"agent": subject.name, "env": env, "ok": broken is None, "broken": broken})
        raise typer.Exit(0 if broken is None else 1)
    typer.echo(f"{agent} keeps all rules on {env}")


def make_agent(spec: str, arguments: dict[str, Any]) -> Agent:
    """The agent behind a name, an import path or a run folder, made with these arguments.

    Raises:
        UsageError: there is none, or its class cannot be made so.
    """
    if is_run_folder(spec):
        return load_run(str(RunFolder.load_config(spec).get("agent")), spec, arguments)
    return new_agent(spec, arguments)
