"""The registry of suites: built in, and those of other packages (one entry point in `toolcredit.benchmarks` each)."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from ..agents.base import import_object
from ..errors import ConfigError, UnknownNameError, UsageError
from .suite import Suite

ENTRY_POINT_GROUP = "toolcredit.benchmarks"

_BUILT_IN = {
    "genomeqa": "toolcredit.benchmarks.genomeqa:GenomeQA",
    "toucan": "toolcredit.benchmarks.toucan:Toucan",
    "bfcl": "toolcredit.benchmarks.bfcl.suite:BFCL",
    "tau2": "toolcredit.benchmarks.tau2.suite:Tau2",
}


def suite_names() -> list[str]:
    """Names of all suites: built in and installed by other packages."""
    return sorted({*_BUILT_IN, *(point.name for point in _entry_points())})


def suite_class(name: str) -> type[Suite]:
    """The class behind a registered name or an import path `package.module:Class`.

    Raises:
        UnknownNameError: neither registered nor an import path.
        UsageError: it leads to no `Suite` class.
    """
    path = name if ":" in name else next((p.value for p in _entry_points() if p.name == name), _BUILT_IN.get(name))
    if path is None:
        raise UnknownNameError("suite", name, suite_names(), "Or give an import path package.module:Class")
    found = import_object(path)
    if not (isinstance(found, type) and issubclass(found, Suite)):
        raise UsageError(f"{path} is {found!r}, expected a subclass of toolcredit.benchmarks.suite.Suite")
    return found


def suite_options(name: str) -> dict[str, inspect.Parameter]:
    """The keyword options of a suite, by name."""
    parameters = inspect.signature(suite_class(name)).parameters
    return {key: value for key, value in parameters.items() if value.kind is not inspect.Parameter.VAR_KEYWORD}


def option_meanings(name: str) -> dict[str, str]:
    """What the options of a suite mean: the section `Args` of its class's docstring, by name, as far as it has one."""
    found: dict[str, list[str]] = {}
    waiting = iter(inspect.cleandoc(suite_class(name).__doc__ or "").splitlines())
    if not any(line.strip() == "Args:" for line in waiting):
        return {}
    for line in waiting:
        indent, text = len(line) - len(line.lstrip()), line.strip()
        if text and not indent:  # the next section
            break
        option, colon, meaning = text.partition(":")
        if indent == 4 and colon:
            found[option] = [meaning.strip()]
        elif text and found:
            found[next(reversed(found))].append(text)
    return {option: " ".join(lines) for option, lines in found.items()}


def make_suite(name: str, options: Mapping[str, Any] | None = None) -> Suite:
    """A suite with its options.

    Raises:
        UnknownNameError: there is no such suite, or it has no such option.
        UsageError: an option cannot be used, or the suite's data are not there.
    """
    known = suite_options(name)
    for option, value in (options or {}).items():
        if option not in known:
            raise UnknownNameError(f"option of the suite {name}", option, known)
        if not _fits(value, option, suite_class(name)):
            raise ConfigError(f"{option}={value!r}: expected {known[option].annotation}")
    return suite_class(name)(**dict(options or {}))


def _fits(value: Any, option: str, suite: type[Suite]) -> bool:
    """Whether a value has the type that a suite declares; True where it declares none that can be checked."""
    try:
        declared = TypeAdapter(get_type_hints(suite.__init__)[option])
    except (KeyError, NameError, TypeError, PydanticUserError):
        return True
    try:
        declared.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _entry_points() -> Iterable[importlib.metadata.EntryPoint]:
    return importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
