"""A scripted OpenAI-compatible chat server: real HTTP on loopback, with every way in which such a server can misbehave.

    with ChatServer() as server:
        server.script(status(500), reply("B"))      # one behaviour per request, the last one is repeated
        client = ChatClient("fake", base_url=server.url)

`server.requests` records what came in, `server.peak_in_flight` how many requests were being answered at once.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Exchange"], None]


class Exchange:
    """One request and the means to answer it, well or badly."""

    def __init__(self, handler: BaseHTTPRequestHandler, request: dict[str, Any], stopping: threading.Event):
        self.handler, self.request, self.stopping = handler, request, stopping

    @property
    def body(self) -> dict[str, Any]:
        """The request's JSON."""
        return self.request["body"]

    def send(
        self,
        body: bytes | str | dict,
        status: int = 200,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        """Send a whole answer; `length` overrides what the Content-Length header claims."""
        raw = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", content_type)
        self.handler.send_header("Content-Length", str(len(raw) if length is None else length))
        for name, value in (headers or {}).items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(raw)

    def sleep(self, seconds: float) -> None:
        """Wait, but not longer than the server runs.

        Raises:
            ConnectionError: the client closed the connection meanwhile.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.stopping.wait(min(left, 0.05)):
            if select.select([self.handler.connection], [], [], 0)[0] and not self._peek():
                raise ConnectionAbortedError("the client went away")

    def _peek(self) -> bytes:
        return self.handler.connection.recv(1, socket.MSG_PEEK)


def completion(
    text: str | None = "A",
    tool_calls: list[tuple[str, Any]] | None = None,
    finish_reason: str | None = None,
    usage: tuple[int, int] | None = (10, 1),
    model: str = "fake",
) -> dict[str, Any]:
    """A chat completion in OpenAI's form; `tool_calls` are (name, arguments) pairs, `usage` (prompt, completion)."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{i}",
                "type": "function",
                "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
            }
            for i, (name, args) in enumerate(tool_calls)
        ]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason or ("tool_calls" if tool_calls else "stop"),
    }
    whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
    if usage:
        whole["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return whole


def reply(text: str | None = "A", *, after: float = 0.0, **parts: Any) -> Behaviour:
    """A normal reply, `after` seconds late; further parts as for `completion`."""

    def behave(exchange: Exchange) -> None:
        exchange.sleep(after)
        exchange.send(completion(text, **parts))

    return behave


def together(server: ChatServer, number: int, behave: Behaviour) -> Behaviour:
    """Hold every request until `number` of them were in flight at once, or ten seconds have passed, then `behave`."""

    def wait_then_behave(exchange: Exchange) -> None:
        give_up = time.monotonic() + 10.0
        while server.peak_in_flight < number and time.monotonic() < give_up:
            exchange.sleep(0.01)
        behave(exchange)

    return wait_then_behave


def answer(function: Callable[[dict[str, Any]], str | dict[str, Any]], after: float = 0.0) -> Behaviour:
    """A reply computed from the request's JSON: the text, or a whole completion."""

    def behave(exchange: Exchange) -> None:
        exchange.sleep(after)
        result = function(exchange.body)
        exchange.send(completion(result) if isinstance(result, str) else result)

    return behave


def raw(body: bytes | str | dict, **parts: Any) -> Behaviour:
    """Exactly this body; `status`, `content_type` and `headers` as for `Exchange.send`."""
    return lambda exchange: exchange.send(body, **parts)


def status(code: int, message: str = "scripted failure", headers: dict[str, str] | None = None) -> Behaviour:
    """An error status with OpenAI's error body."""
    return raw({"error": {"message": message, "type": "scripted"}}, status=code, headers=headers)


def too_many(retry_after: str | None = None) -> Behaviour:
    """429, with a Retry-After header if given."""
    return status(429, "slow down", {"Retry-After": retry_after} if retry_after is not None else None)


def invalid_json() -> Behaviour:
    """200 with a body that ends in the middle of its JSON, although the HTTP message is whole."""
    return raw('{"choices": [{"message": {"content": "A"')


def wrong_content_type() -> Behaviour:
    """200 with a web page."""
    return raw("<html>please log in</html>", content_type="text/html")


def cut_off() -> Behaviour:
    """The connection closes in the middle of the body."""

    def behave(exchange: Exchange) -> None:
        whole = json.dumps(completion("A")).encode()
        exchange.send(whole[: len(whole) // 2], length=len(whole))
        exchange.handler.close_connection = True

    return behave


def no_http(head: bytes) -> Behaviour:
    """These bytes and the end of the connection: what is not even HTTP."""

    def behave(exchange: Exchange) -> None:
        exchange.handler.close_connection = True
        exchange.handler.wfile.write(head)

    return behave


def no_answer() -> Behaviour:
    """The connection closes without a byte."""

    def behave(exchange: Exchange) -> None:
        exchange.handler.close_connection = True

    return behave


def hang(seconds: float = 60.0) -> Behaviour:
    """Nothing happens."""

    def behave(exchange: Exchange) -> None:
        exchange.sleep(seconds)
        exchange.handler.close_connection = True

    return behave


def drip(interval: float = 0.05, where: str = "body") -> Behaviour:
    """One byte at a time for ever, in the `body` or already in the `headers`: every single read succeeds quickly."""

    def behave(exchange: Exchange) -> None:
        exchange.handler.close_connection = True
        out = exchange.handler.wfile
        start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        out.write(start + (b"Content-Length: 1000000\r\n\r\n" if where == "body" else b"X-Slow: "))
        while not exchange.stopping.is_set():
            out.write(b" " if where == "body" else b"x")
            out.flush()
            exchange.sleep(interval)

    return behave


def endless(code: int = 200, chunk: int = 1 << 16) -> Behaviour:
    """A body that never ends, as fast as it can be read."""

    def behave(exchange: Exchange) -> None:
        exchange.handler.close_connection = True
        out = exchange.handler.wfile
        out.write(f"HTTP/1.1 {code} Scripted\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n".encode())
        while not exchange.stopping.is_set():
            out.write(b" " * chunk)

    return behave


class ChatServer:
    """The server; a context manager. Listens on a free loopback port."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.peak_in_flight = 0
        self._in_flight = 0
        self._lock = threading.Lock()
        self._behaviours: list[Behaviour] = [reply()]
        self._stopping = threading.Event()
        self._http = _HTTPServer(("127.0.0.1", 0), self._handler_class())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The base URL for a client, with `/v1`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def script(self, *behaviours: Behaviour) -> None:
        """One behaviour per request from now on; the last one is repeated."""
        with self._lock:
            self._behaviours = list(behaviours)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of every request so far."""
        return [request["body"] for request in self.requests]

    def wait_until_idle(self) -> None:
        """Wait until no request is being answered, abandoned ones included, and measure the peak anew."""
        end = time.monotonic() + 10.0
        while self._in_flight and time.monotonic() < end:
            time.sleep(0.01)
        self.peak_in_flight = 0

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop listening and let every hanging answer end; calling it again changes nothing."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._http.shutdown()
            self._http.server_close()

    def _next(self) -> Behaviour:
        return self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = {
                    "path": self.path,
                    "headers": {name.lower(): value for name, value in self.headers.items()},
                    "body": json.loads(data),
                    "time": time.monotonic(),
                }
                with server._lock:
                    server.requests.append(request)
                    server._in_flight += 1
                    server.peak_in_flight = max(server.peak_in_flight, server._in_flight)
                    behave = server._next()
                try:
                    behave(Exchange(self, request, server._stopping))
                except OSError:  # the client went away, as it should from a server like this
                    self.close_connection = True
                finally:
                    with server._lock:
                        server._in_flight -= 1

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
