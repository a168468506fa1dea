"""Reading requests. What comes in is hostile: every field is checked, and none is evaluated, fetched or followed.

A field that would change the reply and is not served is refused, unless it holds the value that changes nothing
(`NEUTRAL`); one that never changes a reply (`IGNORED`) is left out; so is null. Any other unknown field is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from ...envs.sgls.json_strict import StrictJsonError, loads, shorten
from .errors import ApiError, refused

#: fields of OpenAI and of vLLM with the values that leave the reply as it is
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "ignore_eos": (False,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "min_p": (0,),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "parallel_tool_calls": (True,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "top_k": (-1, 0),
    "use_beam_search": (False,),
}
IGNORED = frozenset(
    ("metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user")
)
#: below it, dividing logits would overflow
LEAST_TEMPERATURE = 1e-4
MAX_CHOICES, MAX_STOPS = 128, 16

_STRICT = ConfigDict(strict=True, extra="forbid")
_STRICT_OPEN = ConfigDict(strict=True, extra="ignore")


def _text_of(content: Any) -> Any:
    """The text of a message's content: a string, null, or a list of parts of text."""
    if not isinstance(content, list):
        return "" if content is None else content
    texts = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ValueError(f'only parts {{"type": "text", "text": "…"}} are read, got {shorten(part, 60)}')
        texts.append(part["text"])
    return "".join(texts)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Function(BaseModel):
    """A call as an assistant made it."""

    model_config = _STRICT_OPEN

    name: str
    arguments: str | dict[str, Any] = ""


class ToolCall(BaseModel):
    """An entry of an assistant's `tool_calls`."""

    model_config = _STRICT_OPEN

    id: str = ""
    type: Literal["function"] = "function"
    function: Function


class ChatMessage(BaseModel):
    """A message; fields that no chat template shows are left out."""

    model_config = _STRICT_OPEN

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, BeforeValidator(_text_of)] = ""
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None

    def plain(self) -> dict[str, Any]:
        """The message as chat templates know it."""
        if self.role == "assistant":
            return self.model_dump(exclude_none=True, exclude={"name", "tool_call_id"})
        given = self.model_dump(exclude_none=True, exclude={"tool_calls", "reasoning_content"})
        return given | {"role": "system" if self.role == "developer" else self.role}


class _ToolFunction(BaseModel):
    model_config = _STRICT_OPEN

    name: str = Field(min_length=1, max_length=256)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(BaseModel):
    model_config = _STRICT_OPEN

    type: Literal["function"]
    function: _ToolFunction


class _StreamOptions(BaseModel):
    model_config = _STRICT_OPEN

    include_usage: bool = False


class GenerationRequest(BaseModel):
    """What both kinds of request have."""

    model_config = _STRICT

    model: str
    max_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**64)
    n: int = Field(1, ge=1, le=MAX_CHOICES)
    stop: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], BeforeValidator(_listed)] = Field(
        [], max_length=MAX_STOPS
    )
    stop_token_ids: list[int] = Field([], max_length=256)
    stream: bool = False
    stream_options: _StreamOptions = _StreamOptions()

    @field_validator("temperature")
    @classmethod
    def _no_overflow(cls, value: float) -> float:
        if 0 < value < LEAST_TEMPERATURE:
            raise ValueError(f"expected 0 (greedy) or at least {LEAST_TEMPERATURE:g}")
        return value

    def limit(self) -> int | None:
        """The most tokens that were asked for."""
        return self.max_tokens


class ChatRequest(GenerationRequest):
    """`POST /v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[_Tool] = []
    tool_choice: Any = "auto"
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=20)
    skip_special_tokens: Literal[False] = False

    @field_validator("tool_choice")
    @classmethod
    def _served(cls, value: Any) -> Any:
        if value not in ("auto", "none"):
            raise ValueError('only "auto" and "none" are served: a model cannot be made to call a tool here')
        return value

    def limit(self) -> int | None:
        """The most tokens that were asked for; `max_completion_tokens` is the newer name."""
        return self.max_completion_tokens or self.max_tokens


class CompletionRequest(GenerationRequest):
    """`POST /v1/completions`."""

    prompt: Annotated[list[str] | list[int] | list[list[int]], BeforeValidator(_listed)]
    max_tokens: int | None = Field(16, ge=1)
    logprobs: int | None = Field(None, ge=0, le=5)
    skip_special_tokens: bool = True


Request = TypeVar("Request", bound=GenerationRequest)


def read_json(raw: bytes, max_bytes: int) -> dict[str, Any]:
    """The object of a request's body; null fields are left out.

    Raises:
        ApiError: the body is not UTF-8, not strict JSON (no NaN, no key twice, at most 64 levels), or no object.
    """
    try:
        body = loads(raw.decode("utf-8"), max_chars=max_bytes)
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8: byte {error.start} cannot be read") from None
    except StrictJsonError as error:
        raise ApiError(400, f"the body cannot be read: {error}") from None
    if not isinstance(body, dict):
        raise ApiError(400, f"the body must be a JSON object, got {shorten(body, 60)}")
    return {name: value for name, value in body.items() if value is not None}


def read_request(model: type[Request], body: Mapping[str, Any]) -> Request:
    """A checked request.

    Raises:
        ApiError: a field is missing, unknown, out of range or not served; the error names the first one.
    """
    given: dict[str, Any] = {}
    for name, value in body.items():
        neutral = NEUTRAL.get(name)
        if neutral is not None and value not in neutral:
            wanted = " or ".join(shorten(item, 40) for item in neutral)
            raise refused(name, f"only {wanted} is served, got {shorten(value, 60)}", "unsupported_parameter")
        if neutral is None and name not in IGNORED:
            given[name] = value
    try:
        request = model.model_validate(given)
    except ValidationError as error:
        raise _as_api_error(error) from None
    if request.top_p != 1 and request.temperature != 0:
        message = f"only 1 is served (whole distributions are sampled), got {request.top_p:g}; use temperature instead"
        raise refused("top_p", message, "unsupported_parameter")
    return request


def _as_api_error(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False)[0]
    # the names of a union's branches, such as "list[int]", are no part of the request
    parts = [str(part) for part in first["loc"] if isinstance(part, int) or str(part).isidentifier()]
    param = ".".join(part for part in parts if part not in ("str", "dict")) or "body"
    if first["type"] == "extra_forbidden":
        return refused(param, "unknown field; leave it out", "unknown_parameter")
    if first["type"] == "missing":
        return refused(param, "this field is required", "missing_required_parameter")
    said = str(first.get("ctx", {}).get("error") or first["msg"])
    return refused(param, f"{said[:1].lower()}{said[1:]}, got {shorten(first.get('input'), 60)}")
