"""Result files of the official harness: written from our runs for its `evaluate`, and read for our scorers.

V4 keeps them in `MODEL/GROUP/BFCL_v4_CATEGORY_result.json`, V3 in `MODEL/BFCL_v3_CATEGORY_result.json`, a JSON object
`{"id": …, "result": …}` a line, in the order of the data. A result is a list of `{name: arguments as JSON text}` in the
function-calling mode, a text in the prompting mode or without calls, and for multi-turn entries a list of turns, each a
list of such results, one a step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import TaskError
from ...runs import read_jsonl, write_atomic
from .categories import Version
from .data import Entry

Message = dict[str, Any]
Answer = Message | Sequence[Sequence[Message]]
"""A single-turn entry's message, or the messages of each step of each turn."""


def write_results(
    folder: str | os.PathLike, model: str, entries: Iterable[Entry], answers: Mapping[str, Answer | None]
) -> list[Path]:
    """Write the result files that `bfcl evaluate --result-dir FOLDER --model MODEL --partial-eval` reads.

    Args:
        folder: the result folder.
        model: the name under which the harness knows the model; `/` becomes `_` in the folder's name.
        entries: the entries that were run, of one version.
        answers: their answers by id; an entry without one is written as an inference error, which scores 0.

    Returns:
        The files written.
    """
    files: dict[Path, list[str]] = {}
    for entry in sorted(entries, key=_position):
        category = entry.kind
        target = Path(folder) / model.replace("/", "_")
        target = target / category.group if entry.version == "v4" else target
        answer = answers.get(entry.id)
        if answer is None:
            result: Any = "Error during inference: no answer"
        elif isinstance(answer, Mapping):
            result = _to_result(answer)
        else:
            result = [[_to_result(message) for message in turn] for turn in answer]
        line = json.dumps({"id": entry.id, "result": result}, ensure_ascii=False)
        files.setdefault(target / f"BFCL_{entry.version}_{category.name}_result.json", []).append(line)
    for file, lines in files.items():
        write_atomic(file, "\n".join(lines) + "\n")
    return list(files)


def read_results(folder: str | os.PathLike, version: Version) -> dict[str, Answer]:
    """The answers in the result files of one model, by entry id.

    Args:
        folder: the model's folder; files below it are read too.
        version: whose files to read.

    Raises:
        TaskError: there are none, or a line has no id or result, or an id occurs twice.
        RunError: a line is not JSON.
    """
    files = sorted(Path(folder).rglob(f"{version.prefix}*_result.json"))
    if not files:
        raise TaskError(f"{folder} holds no result files {version.prefix}<category>_result.json")
    answers: dict[str, Answer] = {}
    for file in files:
        for record in read_jsonl(file):
            if not isinstance(record, dict) or not isinstance(record.get("id"), str) or "result" not in record:
                raise TaskError(f"{file}: a line has no 'id' and 'result'")
            if record["id"] in answers:
                raise TaskError(f"{file}: the id {record['id']!r} occurs twice")
            answers[record["id"]] = _from_record(record["result"], version.category_of(record["id"]).kind)
    return answers


def _position(entry: Entry) -> tuple[str, int]:
    """How the official harness sorts: by category, then by the first number of the id."""
    category, _, number = entry.id.rpartition("_")
    return category, int(number.partition("-")[0])


def _to_result(message: Mapping[str, Any]) -> Any:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    if not calls:
        return message.get("content") or ""
    return [{call["name"]: _text(call["arguments"])} for call in calls]


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _from_record(result: Any, kind: str) -> Answer:
    if kind != "multi_turn":
        return _from_result(result)
    turns = result if isinstance(result, list) else []
    return [[_from_result(step) for step in turn] if isinstance(turn, list) else [] for turn in turns]


def _from_result(result: Any) -> Message:
    if not isinstance(result, list):
        return {"role": "assistant", "content": result if isinstance(result, str) else json.dumps(result)}
    calls = []
    for number, call in enumerate(result):
        name, arguments = next(iter(call.items())) if isinstance(call, dict) and call else ("", call)
        function = {"name": name, "arguments": _text(arguments)}
        calls.append({"id": f"call_{number}", "type": "function", "function": function})
    return {"role": "assistant", "content": None, **({"tool_calls": calls} if calls else {})}
