"""The server as a process: its socket, its connections, and how it stops."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...errors import ConfigError, UsageError
from .api import make_app
from .service import Service

KEY_VARIABLE = "TOOLCREDIT_SERVE_KEY"
#: seconds for a connection to bring a request
IDLE_TIMEOUT = 60.0
#: seconds for replies to be written when the server stops
GRACE = 5


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_key(host: str, key: str | None) -> str | None:
    """The key that clients must send; None on this machine if none is wanted.

    Args:
        host: where the server listens.
        key: the value of `$TOOLCREDIT_SERVE_KEY`.

    Raises:
        ConfigError: others can reach the server and there is no key, or it is none that a header can carry.
    """
    if key and (not key.isascii() or not key.isprintable() or " " in key or len(key) < 16):
        raise ConfigError(f"{KEY_VARIABLE} must have at least 16 printable ASCII characters and no space")
    if not key and not is_loopback(host):
        raise ConfigError(f"--host {host} can be reached by other machines: set a key in {KEY_VARIABLE}")
    return key or None


def open_socket(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet.

    Args:
        host: a name or an address.
        port: 0 for any that is free.

    Raises:
        UsageError: the address cannot be taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        raise UsageError(f"{host}:{port} cannot be listened on ({error.strerror}): choose another --port") from None
    return sock


def url_of(sock: socket.socket) -> str:
    """The base URL for clients, up to and with `/v1`."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


class Server(uvicorn.Server):
    """Serves until a signal or `should_exit`; requests in flight are then told so, and the socket is closed.

    Args:
        service: who answers.
        sock: bound.
        key: see `check_key`.
        on_ready: called when requests are taken.
    """

    def __init__(
        self, service: Service, sock: socket.socket, key: str | None, on_ready: Callable[[], None] = lambda: None
    ):
        host = sock.getsockname()[0]
        hosts = frozenset(("localhost", "127.0.0.1", "::1", host)) if key is None else None
        config = uvicorn.Config(
            make_app(service, key, hosts),
            loop="asyncio",
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self._service, self._sock, self._on_ready = service, sock, on_ready

    def serve_until_stopped(self) -> int:
        """Run; the exit code of the process: 0, or 130 after Ctrl-C."""
        try:
            self.run([self._sock])  # which raises the signal that stopped it again
        except KeyboardInterrupt:
            return 130
        except SystemExit:
            pass
        return 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell requests in flight, then close all connections."""
        self._service.stop()
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """A connection that is closed if it brings no request for too long, or one too slowly."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_again(None)

    def _look(self, earlier: Any) -> None:
        if self.transport.is_closing():
            return
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is earlier:
            self.transport.close()
        else:
            self._look_again(self.cycle)

    def _look_again(self, seen: Any) -> None:
        self.loop.call_later(IDLE_TIMEOUT, self._look, seen)
