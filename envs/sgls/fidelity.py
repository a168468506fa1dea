"""How close a mock comes to recorded real answers: `toolcredit sgls fidelity`.

Every recorded call is put to the mock and its answer compared with the real one:

* `schema_valid`: the mock's answer fits the tool's response schema; None for tools without one.
* `error_agreement`: both refused, or both did not. The other measures look only at pairs that were not refused.
* `type_agreement`: both have the same JSON type, the share of common fields with the same type among objects.
* `key_overlap`: Jaccard of the paths of all fields, positions in lists left out; None unless both are structured.
* `value_similarity`: mean over the common paths: equal values 1, numbers by their ratio, strings by their similarity.
* `length_ratio`: shorter / longer text of the two answers as JSON.

Each is a mean over calls in [0, 1]; 1 is a perfect copy. Calls that got no answer are counted and listed, and do not
enter the means.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ...errors import InfrastructureError
from .json_strict import canonical
from .mocks import Mock, Scene, is_error
from .presentation import own_specs
from .schemas import compile_schema
from .tasks import Call, Task, ToolSpec
from .trajectories import read_trajectory

MEASURES = (
    "schema_valid", "error_agreement", "type_agreement", "key_overlap", "value_similarity", "length_ratio",
)  # fmt: skip
_COMPARED_CHARS = 400
_ERROR_TEXT = re.compile(r"\s*(error\b|exception\b|traceback\b|failed to\b|\[error\]|mcp error\b|tool error\b)", re.I)


@dataclass(frozen=True)
class Recording:
    """A recorded episode.

    Attributes:
        messages: in any form that `trajectories.read_trajectory` reads.
        specs: the tools that were shown.
        state: of the back ends at the start, where there is one.
    """

    messages: Sequence[Mapping[str, Any]]
    specs: Sequence[ToolSpec]
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """One recorded call: the measures of the mock's answer, or why there is none.

    Attributes:
        tool: the tool's name.
        measures: by the names of `MEASURES`; None where one does not apply.
        real_error: whether the real answer was a refusal.
        mock_error: whether the mock's was; None without an answer.
        failure: why the mock gave no answer.
    """

    tool: str
    measures: Mapping[str, float | None]
    real_error: bool
    mock_error: bool | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Fidelity:
    """All comparisons of one mock.

    Attributes:
        comparisons: in the order of the calls.
        unusable: recorded calls that could not be put to the mock, with reasons.
    """

    comparisons: tuple[Comparison, ...]
    unusable: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The result in plain JSON: `{"overall": {…}, "tools": {name: {…}}, "failures": […], "unusable": […]}`.

        Each part has `calls`, `failed`, `real_error_rate`, `mock_error_rate` and the means of the measures, None where
        nothing could be measured.
        """
        tools = sorted({one.tool for one in self.comparisons})
        return {
            "overall": _means(self.comparisons),
            "tools": {tool: _means([one for one in self.comparisons if one.tool == tool]) for tool in tools},
            "failures": [{"tool": one.tool, "failure": one.failure} for one in self.comparisons if one.failure],
            "unusable": list(self.unusable),
        }


def measure(mock: Mock, recordings: Iterable[Recording]) -> Fidelity:
    """Put all recorded calls to a mock; each recording is an episode of its own."""
    comparisons: list[Comparison] = []
    unusable: list[str] = []
    for number, recording in enumerate(recordings):
        for item in _replay(mock, recording):
            if isinstance(item, str):
                unusable.append(f"recording {number}: {item}")
            else:
                comparisons.append(item)
    return Fidelity(tuple(comparisons), tuple(unusable))


def _replay(mock: Mock, recording: Recording) -> Iterator[Comparison | str]:
    """Comparisons of one episode; the mock is told the real answers as its past, so that calls stay comparable."""
    specs = {spec.name: spec for spec in recording.specs}
    session = mock.start(Scene(specs, copy.deepcopy(recording.state)))
    past: list[tuple[Call, Any]] = []
    for call, answer in read_trajectory(recording.messages):
        if isinstance(call, str) or call.name not in specs:
            yield call if isinstance(call, str) else f"{call.name} is not among its tools"
            continue
        try:
            simulated = session.respond([call], tuple(past))[0]
        except InfrastructureError as error:
            yield Comparison(call.name, dict.fromkeys(MEASURES), is_refusal(answer), failure=str(error))
        else:
            yield compare(specs[call.name], answer, simulated)
        past.append((call, answer))


def compare(spec: ToolSpec, real: Any, simulated: Any) -> Comparison:
    """Compare a mock's answer with the real one.

    Args:
        spec: the tool.
        real: the recorded answer, a JSON value.
        simulated: the mock's.
    """
    refused = is_refusal(real), is_refusal(simulated)
    found: dict[str, float | None] = dict.fromkeys(MEASURES)
    if spec.response is not None:
        found["schema_valid"] = float(not compile_schema(spec.response).problems(simulated, limit=1))
    found["error_agreement"] = float(refused[0] == refused[1])
    if not any(refused):
        one, other = _fields(real), _fields(simulated)
        shared = one.keys() & other.keys()
        structured = isinstance(real, dict | list) and isinstance(simulated, dict | list)
        found["key_overlap"] = len(shared) / len(one.keys() | other.keys()) if structured else None
        same = [_kind(one[path]) == _kind(other[path]) for path in shared]
        found["type_agreement"] = fmean(same) if same else float(_kind(real) == _kind(simulated))
        found["value_similarity"] = fmean(_similarity(one[path], other[path]) for path in shared) if shared else 0.0
        lengths = sorted((len(canonical(real)), len(canonical(simulated))))
        found["length_ratio"] = lengths[0] / lengths[1]
    return Comparison(spec.name, found, *refused)


def is_refusal(answer: Any) -> bool:
    """Whether an answer says that the call failed: our form, MCP's `isError`, or a text that begins like an error."""
    if isinstance(answer, str):
        return bool(_ERROR_TEXT.match(answer))
    return is_error(answer) or (isinstance(answer, dict) and answer.get("isError") is True)


def _means(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    answered = [one for one in comparisons if one.failure is None]
    found: dict[str, Any] = {
        "calls": len(comparisons),
        "failed": len(comparisons) - len(answered),
        "real_error_rate": fmean(one.real_error for one in comparisons) if comparisons else None,
        "mock_error_rate": fmean(bool(one.mock_error) for one in answered) if answered else None,
    }
    for name in MEASURES:
        values = [value for one in answered if (value := one.measures[name]) is not None]
        found[name] = fmean(values) if values else None
    return found


def _fields(value: Any, path: str = "") -> dict[str, Any]:
    """The first value at each path of an answer; items of lists share one path, a plain value stands at ""."""
    if not isinstance(value, dict | list):
        return {path: value}
    found: dict[str, Any] = {}
    parts = value.items() if isinstance(value, dict) else (("[]", item) for item in value)
    for name, part in parts:
        inner = f"{path}/{name}"
        if isinstance(part, dict | list):
            found.setdefault(inner, part)
        for key, leaf in _fields(part, inner).items():
            found.setdefault(key, leaf)
    return found


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(type(value))
    return "number" if isinstance(value, int | float) else str(type(value))


def _similarity(real: Any, simulated: Any) -> float:
    """1 for equal values, else a number in [0, 1): ratio of numbers, similarity of strings, 0 for other types."""
    if _kind(real) != _kind(simulated):
        return 0.0
    if isinstance(real, dict | list):
        return 1.0  # their fields are compared by themselves
    if real == simulated:
        return 1.0
    if isinstance(real, str):
        return difflib.SequenceMatcher(None, real[:_COMPARED_CHARS], simulated[:_COMPARED_CHARS], False).ratio()
    if isinstance(real, int | float) and not isinstance(real, bool) and real * simulated > 0:
        return min(abs(real), abs(simulated)) / max(abs(real), abs(simulated))
    return 0.0


def recording_of(transcript: Mapping[str, Any]) -> Recording:
    """The answered calls of one of this package's transcripts."""
    messages: list[dict[str, Any]] = []
    for turn in transcript["turns"]:
        for call in turn["calls"]:
            if call["status"] in ("ok", "error"):
                function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
                messages.append({"role": "assistant", "tool_calls": [{"id": call["id"], "function": function}]})
                answer = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(call["answer"])}
                messages.append(answer)
    task = Task.from_json(transcript["task"])
    return Recording(messages, own_specs(task), task.state)
