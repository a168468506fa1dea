"""A client for any OpenAI-compatible chat endpoint, such as OpenAI, vLLM, llama.cpp or Ollama.

What it promises:
* requests in flight, requests and tokens a minute of one endpoint stay under one limit, whoever asks in this process;
* a call ends: every attempt has a time limit, all attempts and waits of a call together have a deadline;
* only 408, 429, 5xx, timeouts and broken connections are tried again, with growing waits; `Retry-After` is honoured;
* an answer is a valid answer: anything else raises `EndpointError` and is never taken for a reply;
* the key comes from the environment and shows up nowhere: not in a repr, a log line, an error or a file.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from ..errors import ConfigError, EndpointError
from .cache import ResponseCache
from .limiter import Limit, Limiter
from .meter import METER
from .replies import Completion, parse_reply
from .retry import AttemptError, Backoff
from .transport import Background, background, chat_request, exchange, in_time

log = logging.getLogger(__name__)

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"
_OPENAI_URL = "https://api.openai.com/v1"
OWN_FIELDS = frozenset(("model", "messages", "stream", "n"))
"""What `ChatClient.complete` fills itself."""


@dataclass
class Totals:
    """What a client has spent so far.

    Attributes:
        calls: calls of `complete`, cached ones included.
        cached: calls answered from the response cache.
        requests: HTTP requests sent, retries included.
        failures: calls that ended with `EndpointError`.
        prompt_tokens: as reported by the endpoint.
        completion_tokens: as reported by the endpoint.
        unreported: replies without usage, whose tokens are missing above.
    """

    calls: int = 0
    cached: int = 0
    requests: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported: int = 0


class ChatClient:
    """Asks one model at one endpoint. Safe to share among threads; can be pickled (the key is not part of it).

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint, up to and with `/v1`; default `$OPENAI_BASE_URL`, else OpenAI's own.
        api_key_env: environment variable with the key. An endpoint of your own needs none.
        limit: what the endpoint may be asked to bear; clients of one endpoint share the tightest of their limits.
        timeout: seconds for one attempt, from connecting to the last byte.
        deadline: seconds for all attempts and waits of one call; waiting for the own limiter is not counted.
        max_retries: attempts after the first.
        backoff: the waits between attempts.
        cache: file of a response cache for calls with `temperature=0`.
        max_reply_bytes: a larger reply is refused.

    Raises:
        ConfigError: a value out of range, a URL that is none or holds credentials, or a key that is needed and missing.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = DEFAULT_KEY_VARIABLE,
        limit: Limit | None = None,
        timeout: float = 120.0,
        deadline: float = 300.0,
        max_retries: int = 5,
        backoff: Backoff | None = None,
        cache: str | os.PathLike | None = None,
        max_reply_bytes: int = 8_000_000,
    ):
        if not isinstance(model, str) or not model.strip():
            raise ConfigError(f"model={model!r}: expected the model's name at the endpoint")
        for name, value in (("timeout", timeout), ("deadline", deadline), ("max_reply_bytes", max_reply_bytes)):
            if not value > 0:
                raise ConfigError(f"{name}={value!r}: expected a positive number")
        if max_retries < 0:
            raise ConfigError(f"max_retries={max_retries!r}: expected 0 or more")
        self.model = model
        self.base_url = _check_url(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL)
        self.limit = limit or Limit()
        self._api_key_env = api_key_env
        self._timeout, self._deadline, self._max_retries = timeout, deadline, max_retries
        self._backoff = backoff or Backoff()
        self._cache = ResponseCache(cache) if cache is not None else None
        self._max_reply_bytes = max_reply_bytes
        self._prepare_process_state()
        self._key()  # a missing key is told now, not at the first question

    def _prepare_process_state(self) -> None:
        self._lock = threading.Lock()
        self._totals = Totals()
        self._connection: _Connection | None = None

    def __repr__(self) -> str:
        return f"ChatClient({self.model!r}, base_url={self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        own = ("_lock", "_totals", "_connection")
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepare_process_state()

    @property
    def totals(self) -> Totals:
        """A copy of what this client has spent so far."""
        with self._lock:
            return replace(self._totals)

    def prepare(self) -> None:
        """Load what requests need, which can take seconds. Otherwise the first call does, and all wait for it."""
        here = background()
        here.run(self._prepare(here))

    async def _prepare(self, here: Background) -> None:
        self._connect(here)

    def complete(self, messages: Sequence[dict[str, Any]], *, within: float | None = None, **params: Any) -> Completion:
        """Ask for one reply and wait for it.

        Args:
            messages: OpenAI message dicts.
            within: seconds after which nobody waits for it any more, waiting for the own limiter included; the request
                is then cancelled, so that it takes no place from others.
            **params: further fields of the request: `temperature`, `max_tokens`, `tools`, `seed`, `stop` and whatever
                else the endpoint understands.

        Raises:
            EndpointError: no valid reply; the message says why and after how many attempts.
            ConfigError: a parameter that is set elsewhere, or a request that is not plain JSON.
        """
        body = self._body(messages, params)
        self._count(calls=1)
        cache = self._cache if params.get("temperature") == 0 else None
        key = self._request_key(body) if cache is not None else ""
        if cache is not None and (stored := cache.get(key)) is not None:
            self._count(cached=1)
            return stored
        longest = params.get("max_tokens")
        estimate = len(body) // 3 + (longest if isinstance(longest, int) else 0)
        here = background()
        asked = self._ask(here, body, estimate)
        try:
            completion = here.run(asked if within is None else _within(asked, within))
        except AttemptError as error:
            self._count(failures=1)
            raise EndpointError(f"{self.base_url}, model {self.model!r}: {error.reason}") from None
        self._count_usage(completion)
        if cache is not None:
            cache.put(key, completion)
        return completion

    def _body(self, messages: Sequence[dict[str, Any]], params: dict[str, Any]) -> bytes:
        taken = [name for name in sorted(OWN_FIELDS) if name in params]
        if taken:
            raise ConfigError(
                f"the parameter {taken[0]!r} cannot be given here: one whole reply of {self.model!r} per call"
            )
        body = {"model": self.model, "messages": list(messages), **params}
        try:
            # lone surrogates, which hostile text can hold, cannot be sent
            return json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"the request is not plain JSON: {error}") from None

    def _request_key(self, body: bytes) -> str:
        canonical = json.dumps([self.base_url, json.loads(body)], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    async def _ask(self, here: Background, body: bytes, estimate: int) -> Completion:
        """All attempts of one call of about so many tokens, on the event loop."""
        connection = self._connect(here)
        spent, attempt = 0.0, 0
        while True:
            attempt += 1
            async with connection.limiter.slot(estimate) as correct:
                begin = time.monotonic()
                try:
                    completion = await self._attempt(connection, body, min(self._timeout, self._deadline - spent))
                    if completion.usage is not None:
                        correct(completion.usage.prompt_tokens + completion.usage.completion_tokens)
                    return completion
                except AttemptError as error:
                    failure = AttemptError(self._harmless(error.reason), error.transient, error.retry_after)
            spent += time.monotonic() - begin
            wait = self._backoff.wait(attempt, failure.retry_after)
            self._give_up_if_hopeless(failure, attempt, spent, wait)
            log.info("%s: attempt %d: %s; next in %.1f s", self, attempt, failure.reason, wait)
            await asyncio.sleep(wait)
            spent += wait

    async def _attempt(self, connection: _Connection, body: bytes, seconds: float) -> Completion:
        self._count(requests=1)
        try:
            work = exchange(
                connection.background.http(), "POST", connection.url, body, connection.headers, self._max_reply_bytes
            )
            raw, kind = await in_time(seconds, work)
        except asyncio.TimeoutError:
            raise AttemptError(f"no whole reply within {seconds:.3g} s", transient=True) from None
        return parse_reply(raw, kind)

    def _give_up_if_hopeless(self, failure: AttemptError, attempt: int, spent: float, wait: float) -> None:
        if not failure.transient:
            raise failure
        after = f"{failure.reason}; gave up after {attempt} attempt{'s' if attempt > 1 else ''} in {spent:.1f} s"
        if attempt > self._max_retries:
            raise AttemptError(after, transient=True)
        if spent + wait >= self._deadline:
            raise AttemptError(f"{after}: waiting {wait:.1f} s more would pass the deadline", transient=True)

    def _connect(self, here: Background) -> _Connection:
        """The connection on this process's loop; a new one after a fork or unpickling."""
        if self._connection is None or self._connection.background is not here:
            url, headers = chat_request(self.base_url, self._key(), here.http())
            self._connection = _Connection(here, url, headers, here.limiter(self.base_url, self.limit))
        return self._connection

    def _key(self) -> str:
        key = os.environ.get(self._api_key_env, "").strip()
        if not key:
            if self.base_url == _OPENAI_URL or self._api_key_env != DEFAULT_KEY_VARIABLE:
                raise ConfigError(f"{self.base_url} needs a key: set the environment variable {self._api_key_env}")
            return "none"
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ConfigError(f"the key in {self._api_key_env} holds characters that no key has; set it again")
        return key

    def _harmless(self, reason: str) -> str:
        """A reason in one short line; an endpoint may echo the key."""
        key = os.environ.get(self._api_key_env, "").strip()
        if key:
            reason = reason.replace(key, "***")
        line = " ".join("".join(c if c.isprintable() else " " for c in reason).split())
        return line if len(line) <= 300 else line[:300] + " …"

    def _count(self, **amounts: int) -> None:
        with self._lock:
            for name, amount in amounts.items():
                setattr(self._totals, name, getattr(self._totals, name) + amount)

    def _count_usage(self, completion: Completion) -> None:
        usage = completion.usage
        if (listener := METER.get()) is not None:
            listener(completion.model or self.model, usage)
        if usage is None:
            self._count(unreported=1)
        else:
            self._count(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)


@dataclass(frozen=True)
class _Connection:
    background: Background
    url: Any
    headers: Mapping[str, str] = field(repr=False)  # the key is among them
    limiter: Limiter


async def _within(asked: Coroutine[Any, Any, Completion], seconds: float) -> Completion:
    """What was asked for, unless it takes too long."""
    try:
        return await in_time(seconds, asked)
    except asyncio.TimeoutError:
        raise AttemptError(f"no reply within the {seconds:.3g} s that were left", transient=False) from None


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is read, and refused, when it is asked for
    except ValueError as error:
        raise ConfigError(f"base_url is no URL: {error}") from None
    if "@" in url or parts.query or parts.fragment:
        raise ConfigError("base_url holds credentials or a query: give the bare URL, and the key in the environment")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"base_url={url!r}: expected a URL such as http://localhost:8000/v1")
    return url.rstrip("/")
