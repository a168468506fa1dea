"""The routes of the server as an ASGI application: who may ask, how much they may send, and errors in OpenAI's form."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .errors import ApiError
from .jobs import Job, chat_job, completion_job
from .requests import read_json
from .service import Service, Work

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 4 << 20
#: seconds for a request's body to arrive
BODY_TIMEOUT = 60.0


def make_app(service: Service, key: str | None, hosts: frozenset[str] | None) -> Starlette:
    """The application.

    Args:
        service: who answers.
        key: what clients must send as `Authorization: Bearer KEY`; None for nothing.
        hosts: names under which the server may be asked; None for any. A web page that a browser shows can make it ask
            a server on the same machine, but only under the page's own name.
    """

    async def chat(request: Request) -> Response:
        return await _answer(service, request, lambda body: chat_job(service.player, body))

    async def completions(request: Request) -> Response:
        return await _answer(service, request, lambda body: completion_job(service.player, body))

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_card(service)]})

    async def model(request: Request) -> Response:
        _check_model(service, request.path_params["name"])
        return JSONResponse(_card(service))

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/health", health),
        ],
        middleware=[Middleware(_Door, key=key, hosts=hosts)],
        exception_handlers={ApiError: _on_api_error, HTTPException: _on_http_error, Exception: _on_fault},
    )


def _card(service: Service) -> dict[str, Any]:
    return {
        "id": service.name,
        "object": "model",
        "created": service.created,
        "owned_by": "toolcredit",
        "max_model_len": service.player.local.context_length,
    }


def _check_model(service: Service, name: object) -> None:
    if name != service.name:
        message = f"model: {str(name)[:100]!r} is not served here, only {service.name!r} is"
        raise ApiError(404, message, param="model", code="model_not_found")


# -------------------------------------------------------------------------------------------------------- completions


async def _answer(service: Service, request: Request, make_job: Callable[[Mapping[str, Any]], Job]) -> Response:
    with service.place():
        raw = await _read_body(request)
        job = await service.prepare(_read_job, service, raw, make_job)
    work = service.begin(job)
    if job.request.stream:
        return _Stream(work)
    gone = asyncio.ensure_future(_gone(request))
    reply = asyncio.ensure_future(work.reply())
    try:
        await asyncio.wait({gone, reply}, return_when=asyncio.FIRST_COMPLETED)
        return JSONResponse(reply.result()) if reply.done() else Response(status_code=499)  # which nobody reads
    finally:
        work.abandon()
        gone.cancel()
        reply.cancel()


def _read_job(service: Service, raw: bytes, make_job: Callable[[Mapping[str, Any]], Job]) -> Job:
    body = read_json(raw, MAX_BODY_BYTES)
    if "model" in body:
        _check_model(service, body["model"])
    return make_job(body)


async def _read_body(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"the content type must be application/json, got {kind[:60] or 'none'!r}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "compressed bodies are not read; send the JSON as it is")
    too_large = ApiError(413, f"the body is larger than {MAX_BODY_BYTES} bytes; send less", code="request_too_large")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES:
        raise too_large

    async def read() -> bytes:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                raise too_large
        return bytes(body)

    try:
        return await asyncio.wait_for(read(), BODY_TIMEOUT)
    except asyncio.TimeoutError:
        raise ApiError(408, f"the body did not arrive within {BODY_TIMEOUT:g} s") from None
    except ClientDisconnect:
        raise ApiError(499, "the client went away") from None


async def _gone(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Stream(StreamingResponse):
    """A reply as server-sent events; the work is given up with the client, whenever it leaves."""

    def __init__(self, work: Work):
        super().__init__(_events(work), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._work.abandon()


async def _events(work: Work) -> AsyncIterator[str]:
    try:
        async for chunk in work.chunks():
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"
    except ApiError as error:
        yield f"data: {json.dumps(error.body())}\n\n"


# --------------------------------------------------------------------------------------------------- the door, errors


class _Door:
    """Lets requests in that have the key and ask for this host; `/health` needs no key."""

    def __init__(self, app: ASGIApp, key: str | None, hosts: frozenset[str] | None):
        self._app, self._hosts = app, hosts
        self._key = None if key is None else _digest(f"Bearer {key}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._refusal(Headers(scope=scope), scope["path"]) if scope["type"] == "http" else None
        if error is None:
            await self._app(scope, receive, send)
        else:
            await _response(error)(scope, receive, send)

    def _refusal(self, headers: Headers, path: str) -> ApiError | None:
        if self._hosts is not None and _host_name(headers.get("host", "")) not in self._hosts:
            return ApiError(403, "this server answers under the name of its own machine only", code="wrong_host")
        if self._key is None or path == "/health":
            return None
        given = _digest(headers.get("authorization", ""))
        if hmac.compare_digest(given, self._key):
            return None
        return ApiError(401, "a valid key is needed: Authorization: Bearer KEY", code="invalid_api_key")


def _digest(text: str) -> bytes:
    """Of one length whatever the text, so that comparing tells nothing."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _host_name(host: str) -> str:
    """The name in a `Host` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _response(error: ApiError) -> JSONResponse:
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(error.status)
    return JSONResponse(error.body(), error.status, headers)


async def _on_api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return _response(error)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:100]}: {error.detail}"
    return JSONResponse(ApiError(error.status_code, message).body(), error.status_code, error.headers)


async def _on_fault(request: Request, error: Exception) -> Response:
    return _response(ApiError(500, "the server failed on this request; its log says more"))
