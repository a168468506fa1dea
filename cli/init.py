"""`toolcredit init agent NAME`: write a package with an agent that passes its test and works by its name."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path
from string import Template

import typer

from ..agents.base import agent_names
from ..errors import InfrastructureError, UsageError
from . import options
from .agent_template import FILES

app = typer.Typer(no_args_is_help=True, help="Start a package of your own.")


@app.callback()
def _verbs() -> None:
    """Start a package of your own."""


@app.command()
def agent(
    name: str = typer.Argument(..., help="Name of the agent and of its package: lower case, like my_agent."),
    into: Path = typer.Option(Path("."), "--into", help="Folder in which the package's folder is made."),
    as_json: bool = options.JSON,
) -> None:
    """Write a package with one agent, its entry point, its test and a README."""
    folder = write_agent(name, into)
    if as_json:
        options.print_json({"agent": name, "path": str(folder), "files": [_fill(file, name) for file in FILES]})
        return
    typer.echo(f"wrote {folder}")
    typer.echo(f"next: pip install -e {folder} && pytest {folder} && toolcredit check {name}")


def write_agent(name: str, into: Path) -> Path:
    """Write the package into a new folder `into`/`name`.

    Raises:
        UsageError: `name` cannot be a package's name or is taken, or the folder exists.
        InfrastructureError: the folder cannot be written.
    """
    check_name(name)
    folder = into / name
    if folder.exists():
        raise UsageError(f"{folder} exists already: choose another name, or another folder with --into")
    try:
        for file, content in FILES.items():
            path = folder / _fill(file, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_fill(content, name), "utf-8")
    except OSError as error:
        raise InfrastructureError(f"{folder} cannot be written: {error.strerror}") from None
    return folder


def check_name(name: str) -> None:
    """Refuse a name that is no importable, free package name.

    Raises:
        UsageError: the message says what is wrong and gives an example.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        example = near if re.fullmatch(r"[a-z][a-z0-9_]*", near) else "my_agent"
        raise UsageError(f"{name!r} is no package name: use lower-case letters, digits and _, such as {example!r}")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise UsageError(f"{name!r} is a word of the Python language: choose another name, such as '{name}_agent'")
    if name in agent_names():
        raise UsageError(f"an agent {name!r} exists already: choose another name, such as 'my_{name}'")
    if importlib.util.find_spec(name) is not None:
        raise UsageError(f"a module {name!r} can be imported already: choose another name, such as '{name}_agent'")


def _fill(text: str, name: str) -> str:
    return Template(text).substitute(name=name, cls="".join(part.capitalize() for part in name.split("_")))
