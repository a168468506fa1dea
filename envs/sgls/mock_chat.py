"""`chat`: a frozen language model plays the back end (SGLS, arXiv 2609.29050).

The model is told to be the API and to answer only `<tool_response>{json}</tool_response>`; it is shown the tool's
definition and the one call. An answer in another form, or one that does not fit the tool's response schema, is asked
for again a bounded number of times with the reason, and then counts as a failure of the endpoint. Nothing an agent
writes is taken for an answer: only the model's own output is read, and tags in arguments reach the model escaped.

`history=False` (the paper's mode) shows the model nothing else; `history=True` adds the initial state and the calls and
answers of the episode so far, which keeps answers consistent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from ...errors import ConfigError, EndpointError
from ...llm.client import ChatClient
from ...llm.limiter import Limit
from .json_strict import StrictJsonError, load_prefix, shorten
from .mocks import Scene, is_error
from .parsing import safe_json, split_reasoning
from .schemas import compile_schema
from .tasks import Call, ToolSpec

PROMPT_VERSION = "1"
MAX_ANSWER_CHARS = 65_536

SYSTEM = """You are the back end of the API that is defined below. You answer one call as the real service would: with \
plausible, specific data that agree with the arguments and with themselves, in the shape that the API promises. A call \
that the service would refuse you answer with {"error": {"code": "<code>", "message": "<what is wrong>"}}. You are no \
assistant: you never greet, explain or ask. Your whole output is
<tool_response>{json}</tool_response>"""
CALL = "API definition:\n{tool}\n\nCall:\n{call}"
HISTORY = "State of the service before the first call:\n{state}\n\nCalls so far, with your answers:\n{calls}\n\n"
AGAIN = (
    "That is not an answer of the API: {reason}. Answer the same call again, only with "
    "<tool_response>{{json}}</tool_response>."
)

_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


class ChatMock:
    """Answers by a model at an OpenAI-compatible endpoint.

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint, up to and with `/v1`; default as in `ChatClient`.
        temperature: of the model; the paper's is 0.6.
        max_tokens: longest answer.
        history: show the initial state and the episode's earlier calls and answers.
        asks: how often one call is put to the model before it counts as failed.
        limit: fields of `llm.limiter.Limit`: `in_flight`, `requests_per_minute`, `tokens_per_minute`.
        **client: further arguments of `llm.client.ChatClient`: `timeout`, `deadline`, `max_retries`, `api_key_env`, ….

    Raises:
        ConfigError: an argument is unknown or out of range.
    """

    live = True

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        temperature: float = 0.6,
        max_tokens: int = 2_048,
        history: bool = False,
        asks: int = 3,
        limit: Mapping[str, int] | None = None,
        **client: Any,
    ):
        if asks < 1:
            raise ConfigError(f"asks={asks!r}: expected at least 1")
        self.stateful = history
        self.identity = {
            "mock": "chat",
            "model": model,
            "prompt": f"{PROMPT_VERSION}-{hashlib.sha256((SYSTEM + CALL + HISTORY + AGAIN).encode()).hexdigest()[:12]}",
            "temperature": temperature,
            "history": history,
        }
        self._asks = asks
        self._params = {"temperature": temperature, "max_tokens": max_tokens}
        self._endpoint = {"model": model, "base_url": base_url, "limit": Limit(**(limit or {})), **client}
        self._client: ChatClient | None = None

    def start(self, scene: Scene) -> ChatSession:
        """Begin an episode."""
        if self._client is None:  # not before it is needed: a replayed cassette needs neither key nor endpoint
            self._client = ChatClient(**self._endpoint)
        return ChatSession(self._client, scene, self.stateful, self._asks, self._params)


class ChatSession:
    """One episode. Without history the calls of a turn are asked at once, otherwise one after the other."""

    def __init__(self, client: ChatClient, scene: Scene, history: bool, asks: int, params: dict[str, Any]):
        self._client, self._scene, self._history = client, scene, history
        self._asks, self._params = asks, params

    def respond(self, calls: Sequence[Call], past: Sequence[tuple[Call, Any]]) -> list[Any]:
        """The model's answers.

        Raises:
            EndpointError: the endpoint failed, or the model gave no valid answer when asked repeatedly.
        """
        if self._history or len(calls) < 2:
            answers: list[Any] = []
            for call in calls:
                answers.append(self._answer(call, [*past, *zip(calls, answers, strict=False)]))
            return answers
        contexts = [copy_context() for _ in calls]  # so that a meter of this thread counts them all
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(lambda here, call: here.run(self._answer, call, past), contexts, calls))

    def _answer(self, call: Call, past: Sequence[tuple[Call, Any]]) -> Any:
        spec = self._scene.specs[call.name]
        request = (self._show_past(past) if self._history else "") + _show_call(spec, call)
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": request}]
        reason = ""
        for _ in range(self._asks):
            text = self._client.complete(messages, **self._params).text
            try:
                return read_answer(text, spec)
            except StrictJsonError as error:
                reason = str(error)
                messages.append({"role": "assistant", "content": text})
                messages.append({"role": "user", "content": AGAIN.format(reason=reason)})
        raise EndpointError(
            f"the mock {self._client.model!r} gave no valid answer to {call.name} in {self._asks} attempts; "
            f"the last one: {reason}"
        )

    def _show_past(self, past: Sequence[tuple[Call, Any]]) -> str:
        lines = [safe_json({"call": call.to_json(), "answer": answer}) for call, answer in past]
        return HISTORY.format(state=safe_json(self._scene.state), calls="\n".join(lines) or "none")


def _show_call(spec: ToolSpec, call: Call) -> str:
    tool = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    if spec.response is not None:
        tool["response"] = spec.response
    return CALL.format(tool=safe_json(tool), call=safe_json(call.to_json()))


def read_answer(text: str, spec: ToolSpec) -> Any:
    """The JSON value of a mock model's output.

    Args:
        text: the whole output; reasoning in think tags is left out of account.
        spec: the tool; the value must fit its response schema, unless it is `{"error": …}`.

    Raises:
        StrictJsonError: the output is not exactly one answer; the message says what is wrong.
    """
    body = split_reasoning(text)[1].strip()
    if len(body) > MAX_ANSWER_CHARS:
        raise StrictJsonError(f"the output has {len(body):,} characters, at most {MAX_ANSWER_CHARS:,} are taken")
    if not body.startswith(_OPEN):
        raise StrictJsonError(f"the output must begin with {_OPEN}, got {shorten(body[:60], 60)}")
    answer, end = load_prefix(body, len(_OPEN))
    if body[end:] != _CLOSE:
        raise StrictJsonError(f"after the JSON exactly {_CLOSE} must follow, got {shorten(body[end : end + 60], 60)}")
    if spec.response is not None and not is_error(answer):
        problems = compile_schema(spec.response).problems(answer, limit=3)
        if problems:
            told = "; ".join(f"{p.path}: {p.message}" if p.path else p.message for p in problems)
            raise StrictJsonError(f"the JSON does not fit the response schema: {told}")
    return answer
