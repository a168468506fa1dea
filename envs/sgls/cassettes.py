"""Recorded answers: the same calls get the same answers again, without the model that gave them.

A cassette is a JSONL file. Its first record says who answered (`identity`: mock, model, prompt, …) and whether answers
depend on the episode (`stateful`). Every other record is one answer with its key: the SHA-256 of the canonical JSON of
tool, arguments, state, schema and identity. The state is a digest of the initial state and of all earlier calls and
answers of the episode, and empty where the mock is not stateful. A call that is repeated in an episode then has the
same key again; its answers keep their order.

Modes: `live` asks the mock and ignores the file; `record` takes what is recorded, asks for the rest and records it;
`replay` only takes what is recorded: any other call is an error that shows the difference to the nearest record.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError, InfrastructureError, RunError
from ...runs import JsonLines, read_jsonl
from .json_strict import canonical, digest, loads, shorten
from .mocks import Mock, Scene, Session
from .tasks import Call

MODES = ("live", "record", "replay")
_MAX_COMPARED = 2_000


class CassetteMissError(InfrastructureError):
    """A cassette in replay has no answer to a call; the message shows the difference to the nearest record."""


class Cassette:
    """The records of one file, shared by all environments of a process; get one from `open_cassette`.

    Args:
        path: the file; made by recording.
        identity: who answers; None takes the file's.
        stateful: whether answers depend on the episode; None takes the file's.
        write: whether answers will be recorded; only one process at a time may.

    Raises:
        ConfigError: the file is missing (unless it is written), is no cassette, was recorded by another mock, or is
            being recorded by another process.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        identity: Mapping[str, Any] | None = None,
        stateful: bool | None = None,
        write: bool = False,
    ):
        self.path = Path(path)
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, int], str] = {}
        self._requests: dict[str, list[dict[str, Any]]] = {}
        self._claim = _claim(self.path) if write else None
        self._file = JsonLines(self.path)
        header: dict[str, Any] | None = None
        if identity is not None:
            header = {"identity": dict(identity), "stateful": bool(stateful)}
        records = self._read()
        found = next(records, None)
        if found is None:
            if not write or header is None:
                raise ConfigError(f"cassette {self.path} is missing or empty: record it first, or correct the path")
            self._file.append(header)
            found = header
        if not isinstance(found.get("identity"), dict):
            raise ConfigError(f"{self.path} is no cassette: its first record has no 'identity'")
        if header is not None and header != found:
            raise ConfigError(
                f"cassette {self.path} was recorded with {canonical(found)}, this mock is {canonical(header)}: "
                "use the same settings, or another file"
            )
        self.identity: dict[str, Any] = found["identity"]
        self.stateful = bool(found.get("stateful"))
        for record in records:
            try:
                self._add(record["key"], record["occurrence"], record["request"], record["answer"])
            except (KeyError, TypeError):
                raise ConfigError(f"cassette {self.path}: a record lacks key, occurrence, request or answer") from None

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            yield from read_jsonl(self.path)
        except RunError as error:
            raise ConfigError(f"cassette {error}") from None

    def _add(self, key: str, occurrence: int, request: dict[str, Any], answer: Any) -> None:
        if (key, occurrence) not in self._answers:
            self._answers[key, occurrence] = canonical(answer)
            self._requests.setdefault(request["tool"], []).append(request)

    def key(self, request: Mapping[str, Any]) -> str:
        """The key of a request: SHA-256 of its canonical JSON together with the identity."""
        return digest({**request, "identity": self.identity})

    def get(self, key: str, occurrence: int) -> tuple[bool, Any]:
        """Whether the answer to that occurrence of a call is recorded, and a fresh copy of it."""
        text = self._answers.get((key, occurrence))
        return (False, None) if text is None else (True, loads(text, max_depth=128))

    def put(self, key: str, occurrence: int, request: dict[str, Any], answer: Any) -> Any:
        """Record an answer, unless another environment was first; returns a copy of what is recorded."""
        with self._lock:
            if (key, occurrence) not in self._answers:
                self._file.append({"key": key, "occurrence": occurrence, "request": request, "answer": answer})
                self._add(key, occurrence, request, answer)
        return self.get(key, occurrence)[1]

    def miss(self, request: dict[str, Any], occurrence: int) -> CassetteMissError:
        """The error for a request that is not recorded."""
        where = f"cassette {self.path} has no answer to {request['tool']}({shorten(request['arguments'], 160)})"
        if occurrence:
            where += f" asked {occurrence + 1} times in one episode"
        near = _nearest(request, self._requests.get(request["tool"], [])[:_MAX_COMPARED])
        if near is None:
            tools = ", ".join(sorted(self._requests)[:20]) or "nothing"
            return CassetteMissError(f"{where}: nothing is recorded for this tool; recorded: {tools}")
        return CassetteMissError(f"{where}: {near}. Record it with mode='record', or replay the recorded actions")


def _nearest(request: dict[str, Any], records: list[dict[str, Any]]) -> str | None:
    """How the recorded request with the most similar arguments differs; None without records."""
    if not records:
        return None
    argued, others = min((_differences(record, request) for record in records), key=lambda d: (len(d[0]), len(d[1])))
    differences = [*argued, *others][:6]
    return f"the nearest record has {'; '.join(differences)}" if differences else "it is recorded, but not as often"


def _differences(record: dict[str, Any], request: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What differs among the arguments, and what else."""
    found = []
    one, two = record["arguments"], request["arguments"]
    for name in sorted({*one, *two}):
        if name not in two:
            found.append(f"the argument {name}={shorten(one[name], 40)}, here it is missing")
        elif name not in one:
            found.append(f"no argument {name}, here it is {shorten(two[name], 40)}")
        elif one[name] != two[name]:
            found.append(f"{name}={shorten(one[name], 40)}, here it is {shorten(two[name], 40)}")
    others = ["another schema of the tool"] if record["schema"] != request["schema"] else []
    if record["state"] != request["state"]:
        others.append("another state (other calls before it, or another task)")
    return found, others


_open_cassettes: weakref.WeakValueDictionary[tuple[str, str, bool], Cassette] = weakref.WeakValueDictionary()
_open_lock = threading.Lock()


def open_cassette(
    path: str | os.PathLike,
    identity: Mapping[str, Any] | None = None,
    stateful: bool | None = None,
    write: bool = False,
) -> Cassette:
    """The cassette of a file; one object per file and process, so that environments share what they record."""
    key = (str(Path(path).resolve()), canonical([identity, stateful]), write)
    with _open_lock:
        cassette = _open_cassettes.get(key)
        if cassette is None:
            cassette = _open_cassettes[key] = Cassette(path, identity, stateful, write)
        return cassette


def _claim(path: Path) -> Any:
    """Hold the right to record to a file as long as the returned handle lives; None where the platform cannot lock."""
    try:
        import fcntl
    except ImportError:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open(path, "ab")  # noqa: SIM115 - held as long as the cassette lives
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise ConfigError(
            f"cassette {path} is being recorded by another process: record with threads, or one file per process"
        ) from None
    return handle


class CassetteSession:
    """One episode in front of a cassette, with the mock's own session behind it when recording."""

    def __init__(self, cassette: Cassette, scene: Scene, inner: Session | None, inner_is_live: bool = False):
        self._cassette, self._scene = cassette, scene
        self._inner, self._inner_is_live = inner, inner_is_live
        self._state = digest(scene.state) if cassette.stateful else ""
        self._asked: Counter[str] = Counter()

    def respond(self, calls: Sequence[Call], past: Sequence[tuple[Call, Any]]) -> list[Any]:
        """The recorded answers; when recording, those of the mock for calls that have none.

        Raises:
            CassetteMissError: in replay, a call is not recorded.
            InfrastructureError: in recording, the mock has no answer.
        """
        if not self._cassette.stateful:
            return self._respond(calls, past)
        answers: list[Any] = []
        for call in calls:
            answers += self._respond([call], [*past, *zip(calls, answers, strict=False)])
            self._state = digest([self._state, call.to_json(), answers[-1]])
        return answers

    def _respond(self, calls: Sequence[Call], past: Sequence[tuple[Call, Any]]) -> list[Any]:
        requests = [self._request(call) for call in calls]
        found = [self._cassette.get(key, occurrence) for key, occurrence, _ in requests]
        answers = [answer for _, answer in found]
        wanted = [index for index, (known, _) in enumerate(found) if not known]
        if self._inner is None:
            for index in wanted[:1]:
                raise self._cassette.miss(requests[index][2], requests[index][1])
            return answers
        if not self._inner_is_live:
            wanted = list(range(len(calls)))  # a back end with a state of its own must see every call
        for index, answer in zip(wanted, self._inner.respond([calls[i] for i in wanted], past), strict=True):
            key, occurrence, request = requests[index]
            answers[index] = self._cassette.put(key, occurrence, request, answer)
        return answers

    def _request(self, call: Call) -> tuple[str, int, dict[str, Any]]:
        """Key, occurrence in this episode, and the request of a call."""
        schema = self._scene.specs[call.name].parameters
        request = {"tool": call.name, "arguments": call.arguments, "state": self._state, "schema": digest(schema)}
        key = self._cassette.key(request)
        self._asked[key] += 1
        return key, self._asked[key] - 1, request


class CassetteMock:
    """A mock behind a cassette.

    Args:
        inner: the mock that answers what is not recorded.
        cassette: the file.
        mode: `live`, `record` or `replay`.

    Raises:
        ConfigError: the mode is unknown.
    """

    def __init__(self, inner: Mock, cassette: str | os.PathLike, mode: str = "record"):
        if mode not in MODES:
            raise ConfigError(f"cassette mode {mode!r}: expected one of {', '.join(MODES)}")
        self._inner, self._path, self._mode = inner, os.fspath(cassette), mode
        self.identity, self.stateful = inner.identity, inner.stateful
        self.live = inner.live and mode != "replay"
        self._cassette: Cassette | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cassette": None}

    def start(self, scene: Scene) -> Session:
        """Begin an episode.

        Raises:
            ConfigError: the cassette cannot be used.
        """
        if self._mode == "live":
            return self._inner.start(scene)
        if self._cassette is None:
            self._cassette = open_cassette(self._path, self.identity, self.stateful, self._mode == "record")
        inner = self._inner.start(scene) if self._mode == "record" else None
        return CassetteSession(self._cassette, scene, inner, self._inner.live)


class ReplayMock:
    """Answers from a cassette only, whoever recorded it.

    Args:
        cassette: the file.

    Raises:
        ConfigError: the file is missing or no cassette.
    """

    live = False

    def __init__(self, cassette: str | os.PathLike):
        self._path = os.fspath(cassette)
        self._cassette: Cassette | None = open_cassette(self._path)
        self.identity, self.stateful = self._cassette.identity, self._cassette.stateful

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cassette": None}

    def start(self, scene: Scene) -> CassetteSession:
        """Begin an episode."""
        if self._cassette is None:
            self._cassette = open_cassette(self._path)
        return CassetteSession(self._cassette, scene, None)
