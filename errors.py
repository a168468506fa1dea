"""The error tree. A message names what was given, what was expected and what to do.

`UsageError` and its children mean "fix the input": the command line prints them as one line and exits with 2.
Everything else that is raised on purpose is an `InfrastructureError`: the input was fine, something outside failed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ToolcreditError(Exception):
    """Base of every error that toolcredit raises on purpose."""

    def __reduce__(self) -> tuple:
        # A worker process sends the message: the constructors of some children take other arguments than that.
        return _with_message, (type(self), str(self))


def _with_message(cls: type[ToolcreditError], message: str) -> ToolcreditError:
    error = cls.__new__(cls)
    error.args = (message,)
    return error


class UsageError(ToolcreditError, ValueError):
    """What the caller gave cannot be used; the message says what to give instead."""


#: so many names of a registry are listed; all arguments of an environment and all learners fit
_NAMED = 60


class UnknownNameError(UsageError):
    """A name (tool, agent, reward, asset, field …) is not in its registry."""

    def __init__(self, kind: str, name: object, known: Iterable[str], hint: str = ""):
        known = sorted(known)
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
        message = f"unknown {kind} {name!r}: "
        message += f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        more = len(known) - _NAMED  # thousands of task ids would bury the message
        message += f"known: {', '.join(known[:_NAMED]) or 'none'}" + (f" and {more} more" if more > 0 else "")
        super().__init__(message + (f". {hint}" if hint else ""))


class QuestionError(UsageError):
    """A question file, or one question in it, cannot be used."""


class TaskError(UsageError):
    """A tool-calling task, or a file of them, cannot be used."""


class EmptySplitError(UsageError):
    """The questions in use have none in the split that was asked for."""


class ConfigError(UsageError):
    """A configuration field is unknown or has a value out of range."""


class CapabilityError(UsageError):
    """An estimator or learner needs something that its environment, policy or rollouts do not provide."""


class TableError(UsageError):
    """A reward table is missing, torn, or does not fit the environment."""


class StaleTableError(TableError):
    """A reward table was built with other tools, data or reasoner than the environment uses now."""


class RunError(UsageError):
    """A run folder is missing, incomplete, or belongs to another configuration."""


class AssetError(UsageError):
    """An installable asset is unknown, not installed, or does not have the expected checksum."""


class MissingExtraError(UsageError):
    """An optional dependency is needed; the message gives the pip command."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs the package {package!r}: pip install 'toolcredit[{extra}]'")


class CheckError(ToolcreditError, AssertionError):
    """`check_agent` found a rule that the agent breaks; the message says the fix."""


class InfrastructureError(ToolcreditError, RuntimeError):
    """The request was fine, but a service, process or file system behind it failed."""


class EndpointError(InfrastructureError):
    """A model endpoint did not give an answer after all retries. Never scored as a wrong answer."""
