"""A small folder in BFCL's format, written by hand, and a package around it with one simulated API and small checkers.

The package has the modules, names and calling conventions of `bfcl_eval` that the suite relies on, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolcredit.benchmarks.bfcl.data import Entry


def doc(name: str, required: Iterable[str] = (), **parameters: str | dict[str, Any]) -> dict[str, Any]:
    """A function's documentation; parameters as type names or whole schemas."""
    schemas = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in parameters.items()}
    for schema in schemas.values():
        schema.setdefault("description", "A value.")
    body = {"type": "dict", "properties": schemas, "required": list(required)}
    return {"name": name, "description": f"Does {name}.", "parameters": body}


def entry(
    category: str,
    functions: Iterable[dict[str, Any]] = (),
    answers: Iterable[Any] = (),
    version: str = "v4",
    text: str = "Please.",
    **more: Any,
) -> Entry:
    """An entry of one user turn."""
    turns = (({"role": "user", "content": text},),)
    return Entry(f"{category}_0", version, category, turns, tuple(functions), tuple(answers), **more)


WEATHER = doc("weather.get", ["city"], city="string", days="integer", units={"type": "string", "enum": ["C", "F"]})
TIME = doc("clock_time", ["zone"], zone="string")
WEATHER_ANSWER = {"weather.get": {"city": ["Rome", "Roma"], "days": [3], "units": ["C", ""]}}
TIME_ANSWER = {"clock_time": {"zone": ["UTC"]}}

SINGLE_TURN: dict[str, tuple[list[dict], list[Any]]] = {
    "simple_python": ([WEATHER], [WEATHER_ANSWER]),
    "multiple": ([TIME, WEATHER], [WEATHER_ANSWER]),
    "parallel": ([TIME], [TIME_ANSWER, {"clock_time": {"zone": ["CET"]}}]),
    "irrelevance": ([TIME], []),
    "live_relevance": ([TIME], []),
}
FILES_DOCS = [
    {**doc("touch", ["file_name"], file_name="string"), "response": {"type": "dict"}},
    doc("ls"),
    doc("remove_all"),
]


def write_folder(folder: Path, version: str = "v4") -> Path:
    """The data files of five single-turn categories and one multi-turn category below `folder`."""
    for category, (functions, answers) in SINGLE_TURN.items():
        question = [[{"role": "user", "content": f"A question of {category}."}]]
        records = [{"id": f"{category}_{n}", "question": question, "function": functions} for n in range(2)]
        write_lines(folder / f"BFCL_{version}_{category}.json", records)
        if answers:
            truths = [{"id": record["id"], "ground_truth": answers} for record in reversed(records)]
            write_lines(folder / "possible_answer" / f"BFCL_{version}_{category}.json", truths)
    write_lines(folder / "multi_turn_func_doc" / "gorilla_file_system.json", FILES_DOCS)
    question = [[{"role": "user", "content": "Make a.txt."}], [], [{"role": "user", "content": "List all."}]]
    record = {
        "id": "multi_turn_miss_func_0",
        "question": question,
        "initial_config": {"GorillaFileSystem": {"files": ["old.txt"]}},
        "involved_classes": ["GorillaFileSystem"],
        "missed_function": {"1": ["touch"]},
    }
    write_lines(folder / f"BFCL_{version}_multi_turn_miss_func.json", [record])
    truth = {"id": record["id"], "ground_truth": [[], ["touch('a.txt')"], ["ls()"]]}
    write_lines(folder / "possible_answer" / f"BFCL_{version}_multi_turn_miss_func.json", [truth])
    return folder


def write_lines(file: Path, records: Iterable[Any]) -> None:
    """JSON Lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def write_package(folder: Path) -> Path:
    """A folder that holds the package `bfcl_eval` with these data."""
    package = folder / "bfcl_eval"
    write_folder(package / "data")
    for name, source in _SOURCES.items():
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, "utf-8")
    return folder


_SOURCES = {
    "__init__": "",
    "constants/__init__": "",
    "constants/enums": """
from enum import Enum

class Language(Enum):
    PYTHON = "python"
    JAVA = "java"
    JAVASCRIPT = "javascript"
""",
    "constants/executable_backend_config": """
_PREFIX = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
CLASS_FILE_PATH_MAPPING = {
    "GorillaFileSystem": f"{_PREFIX}.gorilla_file_system",
    "MathAPI": f"{_PREFIX}.math_api",
    **{
        name: f"{_PREFIX}.gorilla_file_system"
        for name in ("MessageAPI", "TwitterAPI", "TicketAPI", "TradingBot", "TravelAPI", "VehicleControlAPI")
    },
}
""",
    "eval_checker/__init__": "",
    "eval_checker/ast_eval/__init__": "",
    "eval_checker/ast_eval/ast_checker": """
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING

def ast_checker(docs, output, answers, language, category, model):
    dots = not MODEL_CONFIG_MAPPING[model].underscore_to_dot
    wanted = [name if dots else name.replace(".", "_") for answer in answers for name in answer]
    got = [name for call in output for name in call]
    if got == ["crash"]:
        raise KeyError("crash")
    valid = sorted(wanted) == sorted(got)
    return {"valid": valid, "error": ["names differ"], "error_type": "fake:names"}
""",
    "eval_checker/multi_turn_eval/__init__": "",
    "eval_checker/multi_turn_eval/multi_turn_checker": """
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils

SEEN = []

def multi_turn_checker(turns, answers, entry, category, model):
    SEEN.append(turns)
    vars(multi_turn_utils)[f"{model}_{entry['id']}_GorillaFileSystem_instance"] = object()
    made = sum(len(step) for turn in turns for step in turn)
    return {"valid": made >= sum(map(len, answers)), "error_message": "too few calls", "error_type": "fake:count"}
""",
    "eval_checker/multi_turn_eval/multi_turn_utils": "",
    "eval_checker/multi_turn_eval/func_source_code/__init__": "",
    "eval_checker/multi_turn_eval/func_source_code/gorilla_file_system": """
class GorillaFileSystem:
    def _load_scenario(self, scenario, long_context=False):
        self.files = scenario.get("files", [])

    def touch(self, file_name):
        if file_name in self.files:
            return {"error": "File exists"}
        self.files.append(file_name)
        return None

    def ls(self):
        return {"files": self.files}

    def remove_all(self):
        self.files.clear()

MessageAPI = TwitterAPI = TicketAPI = TradingBot = TravelAPI = VehicleControlAPI = GorillaFileSystem
""",
    "eval_checker/multi_turn_eval/func_source_code/math_api": """
class MathAPI:
    def power(self, base, exponent):
        return {"result": base**exponent}
""",
}
