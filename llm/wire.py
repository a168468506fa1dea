"""HTTP/1.1 over asyncio for servers that are reached directly and in the clear: local ones, which answer fast.

A general HTTP library spends one to two milliseconds of CPU on a request. That is nothing beside a model far away, but
with 64 requests in flight at a local server it is what limits them all. Here a request costs a tenth of it. What is
left out is what such servers do not need: TLS, proxies, redirects, compression, cookies.

The server is hostile: head and body have size limits, lengths are checked, and a connection on which anything went
wrong is closed. Time limits are the caller's: cancelling a request closes its connection.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from .retry import AttemptError, is_transient, retry_after

MAX_HEAD = 1 << 16
MAX_ERROR_BODY = 1 << 16
_MAX_CHUNK_LINE = 1 << 10
_SAFE = "/%:@!$&'()*+,;=~"


def reaches(url: str) -> bool:
    """Whether a URL is plain HTTP with no proxy in between."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxied = bool(proxies.get("http") or proxies.get("all")) and not urllib.request.proxy_bypass(parts.hostname or "")
    return parts.scheme == "http" and not proxied


class Wire:
    """Connections that stay open between requests. Lives on one event loop."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[_Connection]] = {}

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, max_bytes: int) -> tuple[bytes, str]:
        """Send a body; the reply's body and its content type.

        Args:
            url: whole.
            headers: further headers, names and values without line breaks.
            body: JSON.
            max_bytes: cap on the size of the reply's body.

        Raises:
            AttemptError: with the reason, and whether asking again may help.
        """
        parts = urlsplit(url)
        key = (parts.hostname or "", parts.port or 80)
        lines = {
            "Host": parts.netloc,
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        head = f"POST {quote(parts.path or '/', safe=_SAFE)} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        connection = self._take(key) or await _open(*key)
        try:
            reply = await connection.send(head.encode("latin-1") + b"\r\n" + body, max_bytes)
        except BaseException:
            connection.abort()
            raise
        if connection.reusable:
            self._idle.setdefault(key, []).append(connection)
        else:
            connection.abort()
        if reply.status >= 300:
            text = reply.body.decode("utf-8", "replace")
            transient, wait = is_transient(reply.status), retry_after(reply.headers)
            raise AttemptError(f"HTTP {reply.status} {text}".strip(), transient, wait)
        return reply.body, reply.headers.get("content-type", "")

    def close(self) -> None:
        """Close the idle connections."""
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    def _take(self, key: tuple[str, int]) -> _Connection | None:
        """An idle connection that is still open; the one used last, so that servers may close the others."""
        connections = self._idle.get(key, [])
        while connections:
            connection = connections.pop()
            if connection.reusable:
                return connection
        return None


async def _open(host: str, port: int) -> _Connection:
    try:
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, host, port)
    except OSError as error:
        raise AttemptError(f"the connection failed: {type(error).__name__}: {error}", transient=True) from None
    return connection


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class _Connection(asyncio.Protocol):
    """One connection, one request at a time; what comes in is read as far as it has come.

    Attributes:
        reusable: whether another request can be sent.
    """

    def __init__(self) -> None:
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[_Reply] | None = None
        self._limit = 0
        self._buffer = bytearray()
        self._reset()

    def _reset(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._left: int | None = None  # bytes of the body still to come; None until the connection closes
        self._chunked = False
        self._body = bytearray()

    async def send(self, request: bytes, max_bytes: int) -> _Reply:
        """Send a request and wait for the whole reply."""
        assert self._transport is not None
        self._reset()
        self.reusable, self._limit = False, max_bytes
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def abort(self) -> None:
        """Close the connection at once."""
        self.reusable, self._waiting = False, None
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------------------------- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.reusable = transport, True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._waiting is None:  # nobody asked: whatever comes next could be taken for another reply
            self.abort()
            return
        try:
            if self._status or self._read_head():
                self._read_body()
        except AttemptError as error:
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        if self._waiting is None:
            return
        if self._status and self._left is None and not self._chunked and error is None:
            self._finish(reusable=False)
            return
        begun = "in the middle of its reply" if self._status or self._buffer else "without an answer"
        reason = f"{type(error).__name__}: {error}" if error else f"the server closed it {begun}"
        self._fail(AttemptError(f"the connection failed: {reason}", transient=True))

    # ------------------------------------------------------------------------------------------------------ reading

    def _read_head(self) -> bool:
        """Take the head off the buffer; False if it is not whole yet."""
        while not self._status:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise AttemptError("the endpoint replied with an endless head", transient=False)
                return False
            lines = self._buffer[:end].decode("latin-1").split("\r\n")
            del self._buffer[: end + 4]
            version, _, rest = lines[0].partition(" ")
            status = rest[:3]
            if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
                raise AttemptError("the endpoint replied with something else than HTTP/1.1", transient=False)
            if status.startswith("1"):  # an interim reply: the real one follows
                continue
            self._status, self._headers = int(status), _headers(lines[1:])
            self._keep = version != "HTTP/1.0" and "close" not in self._headers.get("connection", "").lower()
        self._expect_body()
        return True

    def _expect_body(self) -> None:
        """Find out how the body's end will be known."""
        if self._headers.get("content-encoding", "identity") != "identity":
            raise AttemptError("the endpoint replied with a compression that was not asked for", transient=False)
        if "chunked" in self._headers.get("transfer-encoding", "").lower():
            self._chunked, self._left = True, 0
        elif "content-length" in self._headers:
            length = self._headers["content-length"]
            if not (length.isascii() and length.isdigit() and len(length) < 16):
                raise AttemptError("the endpoint replied with a broken Content-Length", transient=False)
            self._left = int(length)
        elif self._status in (204, 304):
            self._left = 0

    def _read_body(self) -> None:
        while True:
            if self._left is None or self._left > 0:
                taken = len(self._buffer) if self._left is None else min(self._left, len(self._buffer))
                self._body += self._buffer[:taken]
                del self._buffer[:taken]
                if self._left is not None:
                    self._left -= taken
                if self._too_large() or self._left is None or self._left > 0:
                    return
                if self._chunked and not self._skip(b"\r\n"):
                    self._left = -1  # the chunk is there, the line break after it is not
                    return
            elif self._left < 0:
                if not self._skip(b"\r\n"):
                    return
                self._left = 0
            if not self._chunked:
                self._finish(reusable=self._keep and not self._buffer)
                return
            if not self._next_chunk():
                return

    def _next_chunk(self) -> bool:
        """Read the line that begins a chunk; False if it is not whole yet, or the body has ended."""
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_CHUNK_LINE:
                raise AttemptError("the endpoint replied with a broken chunk", transient=False)
            return False
        size = bytes(self._buffer[:end]).partition(b";")[0].strip()
        try:
            length = int(size, 16) if size and len(size) < 16 and size.isalnum() else -1
        except ValueError:
            length = -1
        if length < 0:
            raise AttemptError("the endpoint replied with a broken chunk", transient=False)
        if length == 0:
            # lines may follow it; a connection with any is not used again
            self._finish(reusable=self._keep and bytes(self._buffer[end:]) == b"\r\n\r\n")
            return False
        del self._buffer[: end + 2]
        self._left = length
        return True

    def _skip(self, expected: bytes) -> bool:
        if len(self._buffer) < len(expected):
            return False
        if self._buffer[: len(expected)] != expected:
            raise AttemptError("the endpoint replied with a broken chunk", transient=False)
        del self._buffer[: len(expected)]
        return True

    def _too_large(self) -> bool:
        """Stop reading what is larger than allowed; the beginning of an error's body is enough."""
        limit = MAX_ERROR_BODY if self._status >= 300 else self._limit
        if len(self._body) <= limit and (self._left or 0) <= limit:
            return False
        if self._status < 300:
            raise AttemptError(f"the reply is larger than {limit} bytes", transient=False)
        if len(self._body) <= limit:
            return False
        del self._body[limit:]
        self._finish(reusable=False)
        return True

    def _finish(self, reusable: bool) -> None:
        waiting, self._waiting = self._waiting, None
        self.reusable = reusable
        self._buffer.clear()
        if waiting is not None and not waiting.done():
            waiting.set_result(_Reply(self._status, self._headers, bytes(self._body)))

    def _fail(self, error: AttemptError) -> None:
        waiting, self._waiting = self._waiting, None
        self.abort()
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)


def _headers(lines: list[str]) -> dict[str, str]:
    """Headers by lower-case name; repeated ones are joined, but a repeated length must agree with itself."""
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise AttemptError("the endpoint replied with a broken header", transient=False)
        name, value = name.strip().lower(), value.strip()
        if name in found and not (name == "content-length" and found[name] == value):
            value = f"{found[name]}, {value}"
        found[name] = value
    return found
