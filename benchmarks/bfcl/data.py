"""BFCL's data files: found, read, joined with their answers, and checked.

A folder of BFCL files holds `BFCL_v4_<category>.json` (one JSON object a line), `possible_answer/` with the same names,
and `multi_turn_func_doc/` with the documentation of the simulated APIs. Such a folder is the content of an asset
(`toolcredit data install bfcl`), of an installed `bfcl_eval`, or any other folder that is given. Nothing of
`bfcl_eval` is imported here. Data, simulators and checkers of one release belong together: between V3 and V4 over half
of the multi-turn questions and a third of their ground truths changed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ... import assets
from ...envs.sgls.json_strict import StrictJsonError, loads
from ...errors import AssetError, TaskError, UnknownNameError
from .categories import VERSIONS, Category, Version, version

_MAX_LINE = 4_000_000
_API_DOCS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
#: the simulated APIs of the multi-turn categories
API_CLASSES = frozenset(_API_DOCS)

Doc = dict[str, Any]
Answer = dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class Entry:
    """One entry of the benchmark, joined with its answer.

    Attributes:
        id: unique in its version, `<category>_<number>`.
        version: `v3` or `v4`.
        category: its category's name in that version.
        turns: the messages of each user turn; an empty turn is one in which withheld functions are added.
        functions: documentation of the functions, unconverted; for multi-turn entries those offered at the start.
        answers: single-turn: the right calls, `{name: {parameter: [allowed values]}}` each, `""` among the values if it
            may be left out; empty for (ir)relevance. Multi-turn: the right calls of each turn as Python source.
        initial_config: multi-turn: the initial state of each simulated API, by class.
        involved_classes: multi-turn: the classes of the simulated APIs.
        withheld: multi-turn: documentation of the functions that are offered from a turn on, by that turn's index.
    """

    id: str
    version: str
    category: str
    turns: tuple[tuple[dict[str, str], ...], ...]
    functions: tuple[Doc, ...]
    answers: tuple[Any, ...] = ()
    initial_config: dict[str, Any] | None = None
    involved_classes: tuple[str, ...] = ()
    withheld: tuple[tuple[int, tuple[Doc, ...]], ...] = ()

    @property
    def kind(self) -> Category:
        """The category itself."""
        return version(self.version).category(self.category)

    def to_payload(self) -> dict[str, Any]:
        """Plain JSON from which `from_payload` makes an equal entry. Inner values are shared, not copied."""
        payload: dict[str, Any] = {
            "id": self.id,
            "version": self.version,
            "category": self.category,
            "turns": [list(turn) for turn in self.turns],
            "functions": list(self.functions),
            "answers": list(self.answers),
        }
        if self.initial_config is not None:
            payload |= {
                "initial_config": self.initial_config,
                "involved_classes": list(self.involved_classes),
                "withheld": [[turn, list(docs)] for turn, docs in self.withheld],
            }
        return payload

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Entry:
        """The inverse of `to_payload`."""
        return cls(
            id=payload["id"],
            version=payload["version"],
            category=payload["category"],
            turns=tuple(tuple(turn) for turn in payload["turns"]),
            functions=tuple(payload["functions"]),
            answers=tuple(payload["answers"]),
            initial_config=payload.get("initial_config"),
            involved_classes=tuple(payload.get("involved_classes", ())),
            withheld=tuple((turn, tuple(docs)) for turn, docs in payload.get("withheld", ())),
        )


class Dataset:
    """The files of one version in one folder; each category is read once, when it is first asked for.

    Attributes:
        folder: the folder of the data files.
        version: whose files they are.
    """

    def __init__(self, folder: Path, version: Version):
        self.folder, self.version = folder, version
        self._read: dict[str, tuple[Entry, ...]] = {}

    @property
    def package(self) -> Path | None:
        """The folder of the `bfcl_eval` package around the data, with checkers and simulators; None without one."""
        package = self.folder.parent
        return package if (package / "eval_checker" / "multi_turn_eval").is_dir() else None

    @property
    def categories(self) -> tuple[Category, ...]:
        """The categories whose files are there."""
        return tuple(c for c in self.version.categories.values() if self._file(c).is_file())

    def entries(self, categories: Iterable[str] | None = None) -> tuple[Entry, ...]:
        """All entries of these categories, in the files' order; by default of every category that is there.

        Raises:
            UnknownNameError: a category does not exist in this version.
            TaskError: a file is missing, or a line of it cannot be used.
        """
        wanted = self.categories if categories is None else [self.version.category(name) for name in categories]
        for category in wanted:
            if category.name not in self._read:
                self._read[category.name] = tuple(self._load(category))
        return tuple(entry for category in wanted for entry in self._read[category.name])

    @cached_property
    def sha256(self) -> str:
        """One hash over the names and contents of the files in use: which data a score belongs to."""
        found = hashlib.sha256()
        questions = [self._file(category) for category in self.categories]
        answers = [self.folder / "possible_answer" / file.name for file in questions]
        apis = [self.folder / "multi_turn_func_doc" / f"{stem}.json" for stem in _API_DOCS.values()]
        for file in filter(Path.is_file, (*questions, *answers, *apis)):
            found.update(f"{file.relative_to(self.folder).as_posix()}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
        return found.hexdigest()

    def _file(self, category: Category) -> Path:
        return self.folder / f"{self.version.prefix}{category.name}.json"

    def _load(self, category: Category) -> Iterator[Entry]:
        file = self._file(category)
        answers: dict[str, tuple[Any, ...]] = {}
        if category.kind not in ("irrelevance", "relevance"):
            answer_file = self.folder / "possible_answer" / file.name
            for where, record in _read_lines(answer_file):
                answers[_text(record, "id", where)] = tuple(_list(record, "ground_truth", where))
        seen: set[str] = set()
        for where, record in _read_lines(file):
            entry_id = _text(record, "id", where)
            if entry_id in seen:
                raise TaskError(f"{where}: the id {entry_id!r} occurs twice")
            seen.add(entry_id)
            if category.kind not in ("irrelevance", "relevance") and entry_id not in answers:
                raise TaskError(f"{where}: possible_answer/{file.name} holds no answer for {entry_id!r}")
            yield self._entry(category, record, answers.get(entry_id, ()), where)

    def _entry(self, category: Category, record: dict, answers: tuple[Any, ...], where: str) -> Entry:
        turns = tuple(_messages(turn, where) for turn in _list(record, "question", where))
        entry = {"id": record["id"], "version": self.version.name, "category": category.name, "turns": turns}
        if category.kind == "multi_turn":
            classes = tuple(_list(record, "involved_classes", where))
            offered, withheld = self._api_docs(classes, record.get("missed_function") or {}, where)
            config = record.get("initial_config") or {}
            if not all(isinstance(turn, list) for turn in answers):
                raise TaskError(f"{where}: the ground truth is not a list of calls for each turn")
            return Entry(
                **entry,
                functions=offered,
                answers=answers,
                initial_config=config,
                involved_classes=classes,
                withheld=withheld,
            )
        _check_answers(answers, where)
        functions = tuple(_list(record, "function", where))
        _check_docs(functions, where)
        return Entry(**entry, functions=functions, answers=answers)

    def _api_docs(
        self, classes: tuple[str, ...], missed: dict[str, list[str]], where: str
    ) -> tuple[tuple[Doc, ...], tuple[tuple[int, tuple[Doc, ...]], ...]]:
        """The documentation of the functions offered at the start, and of those withheld until a turn."""
        offered = [doc for name in classes for doc in self._docs_of_class(name, where)]
        withheld = []
        for turn, names in missed.items():
            held = [next((doc for doc in offered if doc["name"] == name), None) for name in names]
            found = tuple(doc for doc in held if doc is not None)
            offered = [doc for doc in offered if not any(doc is other for other in found)]
            withheld.append((int(turn), found))
        return tuple(offered), tuple(withheld)

    def _docs_of_class(self, name: str, where: str) -> tuple[Doc, ...]:
        if name not in _API_DOCS:
            raise UnknownNameError("simulated API", name, _API_DOCS, f"It is named in {where}")
        return self._api(_API_DOCS[name])

    def _api(self, stem: str) -> tuple[Doc, ...]:
        if stem not in self._docs:
            file = self.folder / "multi_turn_func_doc" / f"{stem}.json"
            docs = tuple(record for _, record in _read_lines(file))
            _check_docs(docs, file.name)
            self._docs[stem] = docs
        return self._docs[stem]

    @cached_property
    def _docs(self) -> dict[str, tuple[Doc, ...]]:
        return {}


def open_dataset(source: str | os.PathLike | None = None, version_name: str | None = None) -> Dataset:
    """Find a folder of BFCL files.

    Args:
        source: a folder: of the data files, of the package `bfcl_eval`, or around that package. By default the
            installed asset, then an installed `bfcl_eval` of that version.
        version_name: `v3` or `v4`; by default the version of the files there, or `v4` without a `source`.

    Raises:
        AssetError: no source is given and the asset is not installed.
        TaskError: the folder holds no BFCL files, those of another version, or of both.
        UnknownNameError: there is no such version.
    """
    wanted = None if version_name is None else version(version_name)
    if source is not None:
        for folder in (Path(source), Path(source) / "data", Path(source) / "bfcl_eval" / "data"):
            found = _version_of(folder, wanted)
            if found:
                return Dataset(folder, found)
        expected = f"{wanted.prefix}*.json" if wanted else "BFCL_v3_*.json or BFCL_v4_*.json"
        raise TaskError(
            f"{source} holds no BFCL data: expected files {expected} there, in data/ or in bfcl_eval/data/. "
            "toolcredit data install bfcl (V4) or bfcl-v3 installs them"
        )
    wanted = wanted or VERSIONS["v4"]
    if assets.is_installed(wanted.asset):
        return Dataset(assets.path(wanted.asset) / "bfcl_eval" / "data", wanted)
    for folder in _installed_package():
        if _version_of(folder / "data", wanted):
            return Dataset(folder / "data", wanted)
    raise AssetError(
        f"BFCL {wanted.name} is not installed; run: toolcredit data install {wanted.asset}, or give a folder of it"
    )


def _installed_package() -> Iterator[Path]:
    """The folder of an installed `bfcl_eval`, found without importing it."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is not None and spec.submodule_search_locations:
        yield from map(Path, spec.submodule_search_locations)


def _version_of(folder: Path, wanted: Version | None) -> Version | None:
    there = [found for found in VERSIONS.values() if any(folder.glob(f"{found.prefix}*.json"))]
    if wanted is not None:
        return wanted if wanted in there else None
    if len(there) > 1:
        raise TaskError(f"{folder} holds files of {' and '.join(v.name for v in there)}: say which version to use")
    return there[0] if there else None


def _read_lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each record stands, and the record."""
    try:
        lines = file.read_text("utf-8").split("\n")
    except FileNotFoundError:
        raise TaskError(f"the BFCL file {file} is missing; install the whole data set again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"the BFCL file {file} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        where = f"{file.name}, line {number}"
        if not line.strip():
            continue
        try:
            record = loads(line, max_chars=_MAX_LINE)
        except StrictJsonError as error:
            raise TaskError(f"{where}: {error}") from None
        if not isinstance(record, dict):
            raise TaskError(f"{where}: expected a JSON object, got {json.dumps(record)[:40]}")
        yield where, record


def _text(record: dict[str, Any], key: str, where: str) -> str:
    if not isinstance(record.get(key), str) or not record[key]:
        raise TaskError(f"{where}: {key!r} must be a text, got {record.get(key)!r}")
    return record[key]


def _list(record: dict[str, Any], key: str, where: str) -> list[Any]:
    if not isinstance(record.get(key), list):
        raise TaskError(f"{where}: {key!r} must be a list, got {type(record.get(key)).__name__}")
    return record[key]


def _messages(turn: Any, where: str) -> tuple[dict[str, str], ...]:
    if not isinstance(turn, list) or not all(
        isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in turn
    ):
        raise TaskError(f"{where}: 'question' must be a list of turns, each a list of messages with role and content")
    return tuple(turn)


def _check_answers(answers: tuple[Any, ...], where: str) -> None:
    for answer in answers:
        parameters = next(iter(answer.values())) if isinstance(answer, dict) and len(answer) == 1 else None
        if not isinstance(parameters, dict) or not all(isinstance(options, list) for options in parameters.values()):
            raise TaskError(f"{where}: a ground truth is not of the form {{name: {{parameter: [values]}}}}")


def _check_docs(docs: tuple[Any, ...], where: str) -> None:
    for doc in docs:
        parameters = doc.get("parameters") if isinstance(doc, dict) else None
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        if not isinstance(properties, dict) or not all(isinstance(schema, dict) for schema in properties.values()):
            raise TaskError(f"{where}: a function has no parameters.properties, or one that is no schema")
        if not isinstance(doc.get("name"), str) or not isinstance(doc.get("description"), str):
            raise TaskError(f"{where}: a function has no name or description")
    names = [doc["name"].replace(".", "_") for doc in docs]
    if len(set(names)) < len(names):
        raise TaskError(f"{where}: two functions have the same name where '.' is written '_'")
