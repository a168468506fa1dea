"""One event loop per process for all HTTP, so that callers in any number of threads share connections and limiters.

Callers block in their own thread; the work is done on the loop, where a request that passes its time limit is really
cancelled and its connection closed, whatever the server does: hang, or send one byte at a time.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from .limiter import Limit, Limiter
from .retry import AttemptError, is_transient, retry_after

T = TypeVar("T")

_ERROR_BODY_BYTES = 1 << 16


class Background:
    """The process's event loop in a daemon thread, with its HTTP connections and limiters."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._http: Any = None
        # an endpoint's limiter lives as long as a client that uses it
        self._limiters: weakref.WeakValueDictionary[str, Limiter] = weakref.WeakValueDictionary()
        threading.Thread(target=self.loop.run_forever, name="toolcredit-llm", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it; an interrupt of the waiting thread cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def limiter(self, endpoint: str, limit: Limit) -> Limiter:
        """The endpoint's limiter, tightened to `limit`. Call it on the loop."""
        limiter = self._limiters.get(endpoint)
        if limiter is None:
            limiter = self._limiters[endpoint] = Limiter(limit)
        limiter.tighten(limit)
        return limiter

    def http(self) -> Any:
        """The HTTP client that all endpoints share: no cap on connections (the limiters cap), no redirects followed.

        Call it on the loop.
        """
        if self._http is None:
            import openai

            httpx = _httpx()
            # aiohttp under the same interface: half the CPU a request of the HTTP library's own connections
            self._http = openai.DefaultAioHttpClient(
                timeout=None,
                follow_redirects=False,
                limits=httpx.Limits(max_connections=0, max_keepalive_connections=None),  # 0: as many as wanted
                event_hooks={"response": [_read_error_body]},
            )
        return self._http

    async def _close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    def stop(self) -> None:
        """Close the connections and end the thread."""
        with contextlib.suppress(Exception):  # the process is ending; there is nobody to tell
            asyncio.run_coroutine_threadsafe(self._close(), self.loop).result(timeout=1.0)
        self.loop.call_soon_threadsafe(self.loop.stop)


_background: Background | None = None
_guard = threading.Lock()


def background() -> Background:
    """This process's `Background`, started on first use; a forked child starts its own."""
    global _background
    with _guard:
        if _background is None:
            _background = Background()
            atexit.register(_background.stop)
        return _background


def _forget_in_child() -> None:
    global _background, _guard
    if _background is not None:
        atexit.unregister(_background.stop)
    _background, _guard = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def _httpx() -> Any:
    """The HTTP library under the openai package: httpx2 since its version 3, httpx before."""
    import openai

    return importlib.import_module(type(openai.DEFAULT_CONNECTION_LIMITS).__module__.partition(".")[0])


async def in_time(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled after so many seconds.

    Raises:
        asyncio.TimeoutError: it was.
    """
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):  # without a task of its own
            return await work
    return await asyncio.wait_for(work, seconds)


async def exchange(
    http: Any, method: str, url: Any, body: bytes | None, headers: Mapping[str, str], max_bytes: int
) -> tuple[bytes, str]:
    """Send one request, without retries.

    Args:
        http: `Background.http()`.
        method: `GET` or `POST`.
        url: whole; text, or the HTTP library's own object.
        body: the request's JSON.
        headers: all that the endpoint wants to see, the body's type too.
        max_bytes: cap on the size of the reply's body.

    Returns:
        The reply's body and its content type.

    Raises:
        AttemptError: with the reason, and whether asking again may help.
    """
    try:
        async with http.stream(method, url, content=body, headers=headers) as response:
            if response.status_code >= 300:
                text = response.extensions.get(_ERROR_BODY, b"").decode("utf-8", "replace")
                reason = f"HTTP {response.status_code} {text}".strip()
                raise AttemptError(reason, is_transient(response.status_code), retry_after(response.headers))
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > max_bytes:
                    raise AttemptError(f"the reply is larger than {max_bytes} bytes", transient=False)
            return bytes(raw), response.headers.get("content-type", "")
    except _transport_errors() as error:
        raise AttemptError(_connection_reason(error), transient=True) from None


def chat_request(base_url: str, key: str, http: Any) -> tuple[Any, dict[str, str]]:
    """Address and headers of chat completion requests as the openai package makes them.

    They are the same for every request. The package itself would work them out again each time, and walk through all
    messages to rename fields: half of what a request costs.
    """
    import openai

    client = openai.AsyncOpenAI(api_key=key, base_url=base_url, http_client=http)
    headers = {**client.default_headers, **client.auth_headers}
    url = _httpx().URL(f"{base_url}/chat/completions")
    return url, {name: value for name, value in headers.items() if isinstance(value, str)}


_ERROR_BODY = "toolcredit.error_body"


async def _read_error_body(response: Any) -> None:
    """Keep the start of an error's body; without this hook all of it would be read, however large it is."""
    if response.status_code < 300:
        return
    body = b""
    async for chunk in response.stream:
        body += chunk
        if len(body) > _ERROR_BODY_BYTES:
            break
    response.extensions[_ERROR_BODY] = body[:_ERROR_BODY_BYTES]
    await response.aclose()


def _transport_errors() -> tuple[type[Exception], ...]:
    """What comes through from below the openai package: while a body is read, and where a reply is not even HTTP.

    A ValueError is a reply that cannot be put into text (a status line that is no Unicode, for example).
    """
    import aiohttp

    return _httpx().HTTPError, aiohttp.ClientError, ValueError


def _connection_reason(error: BaseException) -> str:
    return f"the connection failed: {type(error).__name__}: {error}".rstrip(": ")
