"""Sampling on a vLLM server: token ids in, token ids and log-probabilities out, one LoRA adapter per policy version.

Start the server with the policy's base model, on a machine that sees the adapter folder:

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve MODEL --enable-lora --max-lora-rank 16 \
        --logprobs-mode processed_logprobs

An adapter is never loaded under a name that was used before: the server would answer from blocks of its prefix cache
that the older weights filled. And no collection goes on unproven: for every version and temperature a canary is sampled
and its log-probabilities are compared with the policy's own, so that an adapter that was not applied, a temperature
that is missing in the log-probabilities, or a top-p that was not switched off ends the run instead of spoiling it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import queue
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from ...errors import ConfigError, EndpointError, InfrastructureError, UsageError
from ...llm.local import LocalModel
from ...llm.retry import AttemptError, Backoff
from ...llm.transport import background, exchange, in_time
from ..distributed import processes
from ..policy.scorer import row_logprobs
from ..trajectory import SampledTurn
from . import Outcome, TurnRequest

log = logging.getLogger(__name__)

_CANARY_TEXT = "user: Which tools help to answer the question?\nassistant:"
_CANARY_TOKENS = 16
_MAX_REPLY_BYTES = 64_000_000


class AdapterPolicy(Protocol):
    """A policy with a LoRA adapter.

    Attributes:
        local: its model, with the adapter inside, and its tokenizer.
    """

    local: LocalModel

    def save_adapter(self, folder: str | os.PathLike) -> None:
        """Write the adapter, in peft's format."""
        ...


class VLLMBackend:
    """Samples on a vLLM server. Several processes that train together share its adapter, which the main one sends.

    Args:
        policy: the policy that is trained here; its adapter is what the server gets.
        base_url: of the server, up to and with `/v1`.
        folder: where adapters are written; the server must see it under the same path.
        slots: episodes at once; the server batches them.
        tolerance: largest accepted difference of the canary's log-probabilities, in nats. The default is what bfloat16
            on one side may cost.
        timeout: seconds for one turn, all its tokens.
        max_retries: attempts after the first, for timeouts, 429 and 5xx.
        backoff: the waits between attempts.
        api_key_env: environment variable with the server's key, if it wants one.

    Raises:
        EndpointError: the server does not answer.
        ConfigError: it serves no model, or the key is missing.
    """

    in_process = False

    def __init__(
        self,
        policy: AdapterPolicy,
        base_url: str,
        folder: str | os.PathLike,
        *,
        slots: int = 64,
        tolerance: float = 0.25,
        timeout: float = 600.0,
        max_retries: int = 3,
        backoff: Backoff | None = None,
        api_key_env: str | None = None,
    ):
        if api_key_env is not None and not os.environ.get(api_key_env):
            raise ConfigError(f"the environment variable {api_key_env} with the server's key is not set")
        self.policy, self.slots = policy, slots
        self.tokenizer = policy.local.tokenizer
        own = policy.local.model.generation_config.eos_token_id
        self.stop_ids = frozenset(own if isinstance(own, list) else [own]) - {None}
        self.policy_version = -1
        self._url, self._folder = base_url.rstrip("/"), Path(folder).absolute()
        self._tolerance, self._timeout, self._max_retries = tolerance, timeout, max_retries
        self._backoff, self._api_key_env = backoff or Backoff(), api_key_env
        self._run = processes().agree(lambda: uuid.uuid4().hex[:8])
        self._used: set[str] = set()
        self._adapter: str | None = None
        self._proven: set[float] = set()
        self._canary_ids: list[int] = []
        self._canary_logprobs: np.ndarray | None = None
        self._begin(lambda: None)
        base = next((model for model in self._models() if model.get("parent") is None), None)
        if base is None:
            raise ConfigError(f"{self._url} lists no base model: is it a vLLM server?")
        longest = base.get("max_model_len")
        self.context_length = min(policy.local.context_length, longest if isinstance(longest, int) else 1 << 30)

    # ---- versions

    def sync(self, policy_version: int) -> dict[str, float]:
        """Send the policy's present adapter to the server under a new name, and prove that it answers.

        Returns:
            `canary_error`: largest difference between the server's log-probabilities and the policy's own; and
            `canary_change`: how far the policy's own have moved since the last version. The canary can tell the two
            versions apart only if the change is the larger one.

        Raises:
            EndpointError: the server did not take the adapter.
            ConfigError: it took it, but something else answers.
        """
        name, old = f"toolcredit-{self._run}-v{policy_version}", self._adapter
        if name in self._used:
            raise UsageError(f"version {policy_version} was sent already: an adapter's name must not be used twice")
        self._used.add(name)
        processes().agree(lambda: self._send(name))
        self._adapter, self.policy_version, self._proven = name, policy_version, set()
        numbers = {"canary_error": self._prove(1.0), "canary_change": self._change()}
        if old is not None and processes().is_main:
            self._forget(old)
        return numbers

    def _send(self, name: str) -> None:
        """Write the adapter and have the server load it."""
        self.policy.save_adapter(self._folder / name)
        self._call("POST", "/load_lora_adapter", {"lora_name": name, "lora_path": str(self._folder / name)}, plain=True)
        if name not in [model.get("id") for model in self._models()]:
            raise ConfigError(
                f"{self._url} does not list the adapter {name} after loading it: start it with --enable-lora"
            )

    def _forget(self, adapter: str) -> None:
        try:
            self._call("POST", "/unload_lora_adapter", {"lora_name": adapter}, plain=True)
        except EndpointError as error:
            log.warning("the adapter %s stays on the server: %s", adapter, error)
        shutil.rmtree(self._folder / adapter, ignore_errors=True)

    def _prove(self, temperature: float) -> float:
        """Sample a canary and compare its log-probabilities with the policy's own; the largest difference."""
        prompt = self.tokenizer.encode(_CANARY_TEXT, add_special_tokens=False)
        request = TurnRequest(-1, prompt, frozenset(), _CANARY_TOKENS, temperature, (self.policy_version,))
        turn = background().run(self._turn(request))
        own = self._own_logprobs(prompt, turn.ids, temperature or 1.0)
        error = float(np.abs(own - np.array(turn.logprobs)).max())
        if not error <= self._tolerance:
            raise ConfigError(
                f"the log-probabilities of {self._url} at temperature {temperature:g} differ from the policy's own by "
                f"{error:.3g} nats (limit {self._tolerance:g}): it does not answer with the adapter {self._adapter}, "
                "or it runs without --logprobs-mode processed_logprobs, or with another base model"
            )
        self._proven.add(temperature)
        self._canary_ids = self._canary_ids or [*prompt, *turn.ids]
        return error

    def _change(self) -> float:
        """How far the log-probabilities of the first canary have moved since the last version."""
        now = self._own_logprobs(self._canary_ids[:1], self._canary_ids[1:], 1.0)
        before, self._canary_logprobs = self._canary_logprobs, now
        return 0.0 if before is None else float(np.abs(now - before).max())

    @torch.no_grad()
    def _own_logprobs(self, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> np.ndarray:
        return row_logprobs(self.policy.local.model, [(prompt, ids)], temperature)[0].double().cpu().numpy()

    # ---- turns

    def begin(self, wake: Callable[[], None]) -> None:
        """Start a collection.

        Raises:
            UsageError: the policy was never sent to the server.
        """
        if self._adapter is None:
            raise UsageError("the server has no adapter yet: call sync(policy_version) before the first collection")
        self._begin(wake)

    def _begin(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._done: queue.SimpleQueue[tuple[int, Future]] = queue.SimpleQueue()
        self._open: set[Future] = set()
        self._counts: Counter[str] = Counter()

    def end(self) -> dict[str, int]:
        """Give up turns that are still under way.

        Returns:
            `requests`, `retries`, `prompt_tokens` sent (the server's prefix cache spares most of their cost) and
            `sampled_tokens`.
        """
        for future in self._open:
            future.cancel()
        counts = self._counts
        self._begin(lambda: None)
        return dict(counts)

    def submit(self, request: TurnRequest) -> None:
        """Send a request.

        Raises:
            ConfigError: at this temperature the server's log-probabilities are not the policy's.
        """
        if request.temperature not in self._proven:
            self._prove(request.temperature)
        future = asyncio.run_coroutine_threadsafe(self._turn(request), background().loop)
        self._open.add(future)
        done, wake = self._done, self._wake

        def tell(finished: Future) -> None:
            done.put((request.episode, finished))
            wake()

        future.add_done_callback(tell)

    def advance(self) -> list[Outcome]:
        """The turns that have come back."""
        outcomes: list[Outcome] = []
        while not self._done.empty():
            episode, future = self._done.get()
            self._open.discard(future)
            try:
                outcomes.append((episode, future.result()))
            except InfrastructureError as error:
                outcomes.append((episode, error))
        return outcomes

    def release(self, episode: int) -> None:
        """Nothing to free: the server's prefix cache looks after itself."""

    async def _turn(self, request: TurnRequest) -> SampledTurn:
        seed = int(np.random.SeedSequence(request.seed).generate_state(1, np.uint64)[0]) >> 1
        body: dict[str, Any] = {
            "model": self._adapter,
            "prompt": list(request.ids),
            "max_tokens": request.max_new_tokens,
            "temperature": request.temperature,
            "seed": seed,
            "stop_token_ids": sorted(request.stop_ids),
            "ignore_eos": not request.stop_ids,
            # A server takes what is missing here from the model's own generation configuration.
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "n": 1,
            "logprobs": 1,
            "return_token_ids": True,
            "skip_special_tokens": False,
        }
        turn = self._parse(await self._ask("POST", "/completions", body), body)
        self._counts["prompt_tokens"] += len(body["prompt"])
        self._counts["sampled_tokens"] += len(turn.ids)
        return turn

    def _parse(self, raw: bytes, body: dict[str, Any]) -> SampledTurn:
        """The turn in a reply; everything in it is checked."""
        reply = self._json(raw)
        try:
            choice = reply["choices"][0]
            ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
            prompt, model, reason = choice["prompt_token_ids"], reply["model"], choice["finish_reason"]
        except (KeyError, IndexError, TypeError):
            raise EndpointError(f"{self._url}: no completion with token ids: vLLM 0.10.2 or newer is needed") from None
        if model != body["model"] or prompt != body["prompt"]:
            raise EndpointError(f"{self._url}: the reply of {model!r} is not for the prompt or adapter that was sent")
        whole = isinstance(ids, list) and all(type(i) is int and i >= 0 for i in ids) and isinstance(logprobs, list)
        if not whole or not 0 < len(ids) == len(logprobs) <= body["max_tokens"] or reason not in ("stop", "length"):
            raise EndpointError(f"{self._url}: the reply does not hold one log-probability per token: {raw[:200]!r}")
        if not all(type(p) in (int, float) and math.isfinite(p) for p in logprobs):
            raise EndpointError(f"{self._url}: the reply holds log-probabilities that are no finite numbers")
        return SampledTurn(tuple(ids), tuple(min(float(p), 0.0) for p in logprobs), clipped=reason == "length")

    # ---- HTTP

    def _models(self) -> list[dict[str, Any]]:
        reply = self._call("GET", "/models", None)
        data = reply.get("data") if isinstance(reply, dict) else None
        return [model for model in data or [] if isinstance(model, dict)] if isinstance(data, list) else []

    def _call(self, method: str, path: str, body: dict[str, Any] | None, plain: bool = False) -> Any:
        raw = background().run(self._ask(method, path, body))
        return None if plain else self._json(raw)

    def _json(self, raw: bytes) -> Any:
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise EndpointError(f"{self._url}: the reply is not JSON ({error}): {raw[:200]!r}") from None

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> bytes:
        """A reply, after as many attempts as it takes and are allowed; on the event loop."""
        key = os.environ.get(self._api_key_env or "", "")
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        content = None if body is None else json.dumps(body).encode()
        attempt = 0
        while True:
            attempt += 1
            self._counts["requests"] += 1
            work = exchange(background().http(), method, self._url + path, content, headers, _MAX_REPLY_BYTES)
            try:
                return (await in_time(self._timeout, work))[0]
            except asyncio.TimeoutError:
                failure = AttemptError(f"no whole reply within {self._timeout:g} s", transient=True)
            except AttemptError as error:
                failure = error
            if not failure.transient or attempt > self._max_retries:
                raise EndpointError(f"{self._url}{path}: {failure.reason} (attempt {attempt})")
            self._counts["retries"] += 1
            await asyncio.sleep(self._backoff.wait(attempt, failure.retry_after))
