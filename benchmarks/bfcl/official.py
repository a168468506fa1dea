"""The official checkers and simulated APIs of `bfcl_eval`, run from their folder without installing the package.

`bfcl_eval` pins 150 packages and makes folders where it is imported. The few modules that check and simulate are loaded
privately (`private_package`), from the asset or from any folder that holds the package, with a stand-in for its table
of models; nothing else of it can be imported. V3 and V4 work side by side.

The official multi-turn checker evaluates call strings. It never sees a model's text here: it gets strings written anew
from calls that were read as literals, of functions that the entry's APIs have.
"""

from __future__ import annotations

import importlib
import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import AssetError, MissingExtraError
from ..private_package import PrivatePackage
from .calls import Call, Reply, Verdict
from .categories import Version
from .data import API_CLASSES, Dataset, Entry
from .limits import is_endless, process_untouched

_ALLOWED = ("eval_checker.ast_eval", "eval_checker.multi_turn_eval", "constants")
_OFFERED, _DOCUMENTED = "offered", "documented"
_LANGUAGES_V3 = {"python": "Python", "java": "Java", "javascript": "JavaScript"}


class Official:
    """The checkers and simulators of one folder. Make it with `load_official`.

    Attributes:
        version: the release they belong to.
    """

    def __init__(self, package: Path, version: Version):
        self.version = version
        models = {"MODEL_CONFIG_MAPPING": {_OFFERED: _Model(True), _DOCUMENTED: _Model(False)}}
        self._private = PrivatePackage(
            package, "bfcl_eval", {"bfcl_eval.constants.model_config": models}, allowed=_is_allowed
        )
        self._names = itertools.count()
        self._lock = threading.Lock()

    def check(self, entry: Entry, reply: Reply, prompting: bool = False) -> Verdict:
        """The official verdict on a single-turn reply.

        Args:
            entry: what was asked.
            reply: the decoded answer.
            prompting: whether functions were offered under their documented names, dots included.
        """
        kind = entry.kind.kind
        if kind in ("irrelevance", "relevance"):
            called = bool(reply.calls)
            right = called == (kind == "relevance")
            return Verdict(right, "" if right else f"{kind}_error")
        if reply.malformed and not reply.calls:
            return Verdict(False, "ast_decoder:decoder_failed", reply.malformed)
        language: Any = _LANGUAGES_V3[entry.kind.language]
        if self.version.name == "v4":
            language = self._module("constants.enums").Language(entry.kind.language)
        try:
            found = self._module("eval_checker.ast_eval.ast_checker").ast_checker(
                list(entry.functions),
                [{call.name: call.arguments} for call in reply.calls],
                list(entry.answers),
                language,
                entry.category,
                _DOCUMENTED if prompting else _OFFERED,
            )
        except Exception as error:  # the checker's own faults on odd input, which stop the official harness
            return Verdict(False, f"exception:{type(error).__name__}", str(error))
        return _verdict(found, "error")

    def check_turns(self, entry: Entry, turns: Sequence[Sequence[Sequence[Call]]]) -> Verdict:
        """The official verdict on a multi-turn episode: the calls of each step of each turn.

        Calls of functions that the APIs do not have, or that would not end, are replaced by one that fails.
        """
        if len(turns) != len(entry.answers):
            return Verdict(False, "multi_turn:force_terminated", f"{len(turns)} turns of {len(entry.answers)}")
        known = {
            name: getattr(self.api(class_name), name)
            for class_name in entry.involved_classes
            for name in public_methods(self.api(class_name))
        }
        decoded = [[[_source(call, known) for call in step] for step in turn] for turn in turns]
        record = {
            "id": entry.id,
            "initial_config": entry.initial_config,
            "involved_classes": list(entry.involved_classes),
        }
        checker = self._module("eval_checker.multi_turn_eval.multi_turn_checker").multi_turn_checker
        with self._lock, process_untouched():
            name = f"rollout{next(self._names)}"
            try:
                found = checker(decoded, [list(turn) for turn in entry.answers], record, entry.category, name)
            except Exception as error:
                return Verdict(False, f"exception:{type(error).__name__}", str(error))
            finally:
                self._forget(name)
        return _verdict(found, "error_message")

    def api(self, class_name: str) -> type:
        """The class of a simulated API.

        Raises:
            MissingExtraError: it needs a package that is not installed.
        """
        try:
            if self.version.name == "v4":
                paths = self._module("constants.executable_backend_config").CLASS_FILE_PATH_MAPPING
            else:
                paths = self._module("eval_checker.multi_turn_eval.multi_turn_utils").CLASS_FILE_PATH_MAPPING
            return getattr(importlib.import_module(paths[class_name]), class_name)
        except ModuleNotFoundError as error:
            raise MissingExtraError(str(error.name), "bfcl", f"the simulated {class_name} of BFCL") from None

    def load_apis(self) -> None:
        """Import every simulator now, so that a missing package shows before a long run."""
        for class_name in sorted(API_CLASSES):
            self.api(class_name)

    def _module(self, name: str) -> ModuleType:
        return self._private.module(name)

    def _forget(self, name: str) -> None:
        """Drop the API objects that a check left in the module's globals."""
        space = vars(self._module("eval_checker.multi_turn_eval.multi_turn_utils"))
        for key in [key for key in space if key.startswith(f"{name}_") and key.endswith("_instance")]:
            del space[key]


_LOADED: dict[Path, Official] = {}
_LOADING = threading.Lock()


def load_official(dataset: Dataset) -> Official:
    """The checkers and simulators that came with a data set; loaded once per folder.

    Raises:
        AssetError: the data stand alone, without the package around them.
    """
    if dataset.package is None:
        raise AssetError(
            f"{dataset.folder} holds data only: the official checkers and the multi-turn categories need the package "
            f"around them; run: toolcredit data install {dataset.version.asset}"
        )
    package = dataset.package.resolve()
    with _LOADING:
        if package not in _LOADED:
            _LOADED[package] = Official(package, dataset.version)
        return _LOADED[package]


def public_methods(api: type) -> set[str]:
    """The functions that a simulated API offers."""
    return {name for name in dir(api) if not name.startswith("_") and callable(getattr(api, name))}


def _is_allowed(module: str) -> bool:
    return module in ("", "eval_checker") or module.startswith(_ALLOWED)


@dataclass(frozen=True)
class _Model:
    """All that the checkers ask about a model: whether dots in names were replaced."""

    underscore_to_dot: bool


def _source(call: Call, known: dict[str, Any]) -> str:
    """A call as source; arguments that are no identifiers go into a `**{…}`."""
    callable_here = call.name in known and not is_endless(known[call.name], (None,), call.arguments)
    name = call.name if callable_here else "unknown_function"
    plain = {key: value for key, value in call.arguments.items() if key.isidentifier()}
    others = {key: value for key, value in call.arguments.items() if not key.isidentifier()}
    arguments = [f"{key}={value!r}" for key, value in plain.items()] + ([f"**{others!r}"] if others else [])
    return f"{name}({', '.join(arguments)})"


def _verdict(found: dict[str, Any], key: str) -> Verdict:
    if found["valid"]:
        return Verdict(True)
    return Verdict(False, str(found.get("error_type", "")), str(found.get(key, ""))[:500])
