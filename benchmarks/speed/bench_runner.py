"""What the benchmark runner costs: CPU a task, and how close it comes to the ideal against a server that is slow.

    python -m toolcredit.benchmarks.speed.bench_runner --latency 0.1 --in-flight 64 --repeats 5 --json

*Overhead*: the tasks of a suite of one-line questions are played by an agent that answers at once; CPU time of the
whole process divided by the tasks, so it includes threads, transcripts, results and scores. *Throughput*: the same
suite is played by `openai:MODEL` against a server in a process of its own that answers each request after `latency`
seconds. The ideal is `tasks · latency / in_flight`: nothing but waiting. Figures are medians of the repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...runs import read_jsonl
from ..players import EndpointPlayer, ObjectPlayer
from ..runner import run_suite
from ..suite import Message, Outcome, Player, Score, Selection, Suite, SuiteTask, TaskContext

_REPLY = {
    "id": "x", "object": "chat.completion", "created": 0, "model": "echo",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
}  # fmt: skip


class Questions(Suite):
    """Questions that are answered by `A`."""

    name = "questions"
    beside = ()

    def __init__(self, n: int):
        self.n = n

    @property
    def identity(self) -> dict[str, Any]:
        """Nothing but the number."""
        return {"n": self.n}

    def tasks(self, selection: Selection) -> Sequence[SuiteTask]:
        """As many as wanted."""
        return [SuiteTask(str(i), "all", {}) for i in range(self.n)]

    def run(self, task: SuiteTask, agent: Any, context: TaskContext) -> Outcome:
        """Ask."""
        messages: list[Message] = [{"role": "user", "content": f"Question {task.id}: A or B?"}]
        reply = agent.respond(messages, [])
        return Outcome({"reply": reply["content"]}, [*messages, reply])

    def score(self, task: SuiteTask, outcome: Outcome) -> Score:
        """Right or wrong."""
        return Score(outcome.output["reply"] == "A", {"length": float(len(outcome.output["reply"]))})

    def reference(self, name: str, task: SuiteTask, context: TaskContext) -> Any:
        """There is none beside."""
        return Instant()


class Instant:
    """Answers at once."""

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """Always the same."""
        return {"role": "assistant", "content": "A"}


class _SlowServer(asyncio.Protocol):
    """Answers every request after a while; as little work as possible, since it shares the machine."""

    latency = 0.1
    body = json.dumps(_REPLY).encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            asyncio.get_running_loop().call_later(self.latency, self._answer)

    def _answer(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(self.body)
        self.transport.write(head + self.body)  # type: ignore[attr-defined]


async def serve(latency: float) -> None:
    """Listen on a free loopback port, print it, and answer for ever."""
    _SlowServer.latency = latency
    server = await asyncio.get_running_loop().create_server(_SlowServer, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def server(latency: float) -> Iterator[str]:
    """The base URL of a server in a process of its own."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--serve", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()


def seconds_played(suite: Suite, player: Player, workers: int) -> float:
    """How long the attempts of a run took, without its summary."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_suite(suite, player, Path(folder) / "run", workers=workers)
        assert result["completed"] == result["n"], result["failures"][:3]
        return list(read_jsonl(Path(folder) / "run" / "sessions.jsonl"))[-1]["seconds"]


def measure(tasks: int, latency: float, in_flight: int, repeats: int) -> dict[str, Any]:
    """Overhead a task in milliseconds, and throughput as a share of the ideal, with every repeat."""
    overheads, shares = [], []
    suite = Questions(tasks)
    with server(latency) as url:
        player = EndpointPlayer("echo", {"base_url": url, "in_flight": in_flight})
        seconds_played(Questions(in_flight), player, in_flight)  # connections are opened, modules imported
        gc.freeze()  # as `toolcredit bench run` does
        for _ in range(repeats):
            began = time.process_time()
            seconds_played(suite, ObjectPlayer("instant", Instant()), 8)
            overheads.append((time.process_time() - began) / tasks * 1e3)
            ideal = tasks * latency / in_flight
            shares.append(ideal / seconds_played(suite, player, in_flight))
    return {
        "tasks": tasks,
        "latency": latency,
        "in_flight": in_flight,
        "overhead_ms": round(statistics.median(overheads), 3),
        "overhead_ms_all": [round(value, 3) for value in overheads],
        "share_of_ideal": round(statistics.median(shares), 3),
        "share_of_ideal_all": [round(value, 3) for value in shares],
    }


def main() -> None:
    """Measure and print, as text or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2_560)
    parser.add_argument("--latency", type=float, default=0.1, help="seconds the server takes for an answer")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=float, metavar="LATENCY", help="only be the server")
    arguments = parser.parse_args()
    if arguments.serve is not None:
        asyncio.run(serve(arguments.serve))
        return
    found = measure(arguments.tasks, arguments.latency, arguments.in_flight, arguments.repeats)
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"{found['tasks']} tasks, {found['latency']:g} s latency, {found['in_flight']} in flight")
    print(f"overhead: {found['overhead_ms']} ms of CPU a task {found['overhead_ms_all']}")
    print(f"throughput: {found['share_of_ideal']:.1%} of the ideal {found['share_of_ideal_all']}")


if __name__ == "__main__":
    main()
