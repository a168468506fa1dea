"""From a request to what a sampler needs: token ids, limits, seeds, and how the tokens become text again."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ..local_chat import LocalPlayer
from .errors import ApiError, refused
from .replies import ChatForm, Form, TextForm
from .requests import MAX_CHOICES, ChatRequest, CompletionRequest, GenerationRequest, read_request


@dataclass(frozen=True)
class Job:
    """The turns of one request: `n` for each prompt.

    Attributes:
        request: as it came.
        prompts: token ids.
        stop_ids: tokens that end a turn.
        limits: most tokens of a turn, for each prompt.
        seed: of the turns; choice k of each prompt draws from the stream (seed, k).
        logprobs: whether log-probabilities are wanted.
        alternatives: how many of the likeliest tokens are wanted at every place.
        form: how the reply is written.
    """

    request: GenerationRequest
    prompts: tuple[Sequence[int], ...]
    stop_ids: frozenset[int]
    limits: tuple[int, ...]
    seed: int
    logprobs: bool
    alternatives: int
    form: Form

    @property
    def turns(self) -> int:
        """How many turns are sampled."""
        return len(self.prompts) * self.request.n


def chat_job(player: LocalPlayer, body: Mapping[str, Any]) -> Job:
    """The job of a chat completion.

    Raises:
        ApiError: the request cannot be read, is not served, or does not fit into the context.
    """
    request = read_request(ChatRequest, body)
    if request.top_logprobs and not request.logprobs:
        raise refused("top_logprobs", "needs logprobs: true")
    messages = [message.plain() for message in request.messages]
    tools = list(body.get("tools") or ()) if request.tool_choice == "auto" else []
    try:
        ids, stop_ids = player.prompt(messages, tools)
    except UsageError as error:
        raise ApiError(400, str(error), param="messages") from None
    limits = _limits(player, [ids], request.limit() or player.max_tokens, "messages")
    # Drawn from the same stream as the turn of `--agent local:` with this seed, so that both say the same.
    turn = 1 + sum(message["role"] == "assistant" for message in messages)
    seed = turn + (_fresh_seed() if request.seed is None else request.seed % 2**64)
    form = ChatForm(player.local.tokenizer, player.parser, messages, tools)
    stop_ids |= frozenset(request.stop_token_ids)
    return Job(request, (ids,), stop_ids, limits, seed, request.logprobs, request.top_logprobs, form)


def completion_job(player: LocalPlayer, body: Mapping[str, Any]) -> Job:
    """The job of a text completion; control tokens in the prompt's text are control tokens.

    Raises:
        ApiError: as for `chat_job`.
    """
    request = read_request(CompletionRequest, body)
    prompts = [_encoded(player, prompt) for prompt in _prompts(request)]
    if not prompts or not all(prompts):
        raise refused("prompt", "an empty prompt cannot be continued")
    if len(prompts) * request.n > MAX_CHOICES:
        raise refused("prompt", f"at most {MAX_CHOICES} choices of all prompts together are served")
    limits = _limits(player, prompts, request.limit() or player.max_tokens, "prompt")
    stop_ids = player.stop_ids | {player.local.tokenizer.eos_token_id} - {None} | frozenset(request.stop_token_ids)
    seed = _fresh_seed() if request.seed is None else request.seed % 2**64
    form = TextForm(player.local.tokenizer, request.skip_special_tokens)
    wanted = request.logprobs is not None
    return Job(request, tuple(prompts), stop_ids, limits, seed, wanted, request.logprobs or 0, form)


def _prompts(request: CompletionRequest) -> Sequence[str | Sequence[int]]:
    given: Any = request.prompt
    return [given] if given and isinstance(given[0], int) else given


def _encoded(player: LocalPlayer, prompt: str | Sequence[int]) -> list[int]:
    if isinstance(prompt, str):
        return list(player.local.tokenizer.encode(prompt))
    known = player.local.model.get_input_embeddings().num_embeddings
    wrong = [token for token in prompt if not 0 <= token < known]
    if wrong:
        raise refused("prompt", f"the model has the tokens 0 to {known - 1}, got {wrong[0]}")
    return list(prompt)


def _limits(player: LocalPlayer, prompts: Sequence[Sequence[int]], wanted: int, param: str) -> tuple[int, ...]:
    """The length limit of each prompt's turns: what was asked for, or the room that is left."""
    context = player.local.context_length
    for ids in prompts:
        if len(ids) >= context:
            message = (
                f"this model's maximum context length is {context} tokens, but the prompt has {len(ids)} and a reply "
                "needs one at least; shorten it"
            )
            raise ApiError(400, message, param=param, code="context_length_exceeded")
    return tuple(min(wanted, context - len(ids)) for ids in prompts)


def _fresh_seed() -> int:
    return secrets.randbits(63)
