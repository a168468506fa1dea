"""Answers in OpenAI's form: whole ones and chunks of a stream, for chats and for plain text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...envs.sgls.parsing import CallParser
from ..chat_agents import read_turn


@dataclass(frozen=True)
class TokenLogprob:
    """A sampled token, its log-probability, and the likeliest tokens at its place with theirs."""

    id: int
    logprob: float
    alternatives: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True)
class Delta:
    """A piece of a turn: certain text, and the tokens since the last piece (None unless asked for)."""

    index: int
    text: str
    logprobs: Sequence[TokenLogprob] | None = None


@dataclass(frozen=True)
class Sample:
    """A turn that has ended.

    Attributes:
        index: of the choice.
        text: what was said, without the token or string that ended it.
        finish_reason: `stop` or `length`.
        tokens: how many were sampled, the one that ends the turn included.
        logprobs: of the tokens before that one; None unless asked for.
    """

    index: int
    text: str
    finish_reason: str
    tokens: int
    logprobs: Sequence[TokenLogprob] | None = None


class Form(ABC):
    """How one kind of reply is written.

    Args:
        tokenizer: of the model.

    Attributes:
        prefix: of the ids of replies.
        kind: their `object`.
        chunk_kind: that of a stream's chunks.
        whole_only: whether a turn can be written only when it has ended.
    """

    prefix: str
    kind: str
    chunk_kind: str
    whole_only = False

    def __init__(self, tokenizer: Any, skip_special_tokens: bool):
        self._tokenizer, self._skip = tokenizer, skip_special_tokens

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=self._skip, clean_up_tokenization_spaces=False)

    @abstractmethod
    def choice(self, sample: Sample) -> dict[str, Any]:
        """The choice of a whole reply."""

    @abstractmethod
    def opening(self, index: int) -> list[dict[str, Any]]:
        """The choices of a stream's chunks before the first token."""

    @abstractmethod
    def piece(self, delta: Delta) -> dict[str, Any]:
        """The choice of a stream's chunk."""

    @abstractmethod
    def ending(self, sample: Sample) -> Iterator[dict[str, Any]]:
        """The choices of a stream's chunks after the last token."""

    def _token(self, token: int) -> str:
        return self._tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)


class ChatForm(Form):
    """A chat completion. Calls are read from the text, so with tools a stream brings each turn when it has ended.

    Args:
        tokenizer: of the model.
        parser: the syntax of calls.
        messages: of the conversation.
        tools: what the model was shown; without them a turn is text, whatever it looks like.
    """

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, tokenizer: Any, parser: CallParser, messages: Sequence[dict], tools: Sequence[dict]):
        super().__init__(tokenizer, skip_special_tokens=False)
        self._parser, self._messages, self._tools = parser, messages, tools
        self.whole_only = bool(tools)

    def choice(self, sample: Sample) -> dict[str, Any]:
        """The message, calls read from the text."""
        message, reason = self._read(sample)
        message = {"role": "assistant", "content": None, "refusal": None, **message}
        return self._choice(sample.index, "message", message, sample.logprobs, reason)

    def opening(self, index: int) -> list[dict[str, Any]]:
        """The role."""
        return [self._choice(index, "delta", {"role": "assistant", "content": ""})]

    def piece(self, delta: Delta) -> dict[str, Any]:
        """A piece of the content."""
        return self._choice(delta.index, "delta", {"content": delta.text}, delta.logprobs)

    def ending(self, sample: Sample) -> Iterator[dict[str, Any]]:
        """With tools the whole message, then why the turn ended."""
        message, reason = self._read(sample)
        if self.whole_only:
            said = {"content": message.get("content")} if message.get("content") else {}
            calls = [{"index": i, **call} for i, call in enumerate(message.get("tool_calls") or ())]
            yield self._choice(sample.index, "delta", said | ({"tool_calls": calls} if calls else {}), sample.logprobs)
        yield self._choice(sample.index, "delta", {}, None, reason)

    def _read(self, sample: Sample) -> tuple[dict[str, Any], str]:
        message = read_turn(sample.text, self._messages, self._tools, self._parser)
        calls = bool(message.get("tool_calls"))
        if calls and not message["content"]:
            message["content"] = None
        return message, "tool_calls" if calls and sample.finish_reason == "stop" else sample.finish_reason

    def _choice(
        self,
        index: int,
        name: str,
        value: dict[str, Any],
        logprobs: Sequence[TokenLogprob] | None = None,
        reason: str | None = None,
    ) -> dict[str, Any]:
        content = None if logprobs is None else {"content": [self._logprob(t) for t in logprobs], "refusal": None}
        return {"index": index, name: value, "logprobs": content, "finish_reason": reason}

    def _logprob(self, token: TokenLogprob) -> dict[str, Any]:
        top = [self._entry(*alternative) for alternative in token.alternatives]
        return {**self._entry(token.id, token.logprob), "top_logprobs": top}

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._token(token)
        # a part of a character has no text, and tokenizers do not agree on how to tell its bytes
        return {"token": text, "logprob": logprob, "bytes": None if "\ufffd" in text else list(text.encode())}


class TextForm(Form):
    """A text completion."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def choice(self, sample: Sample) -> dict[str, Any]:
        """The text."""
        return self._choice(sample.index, sample.text, sample.logprobs, sample.finish_reason)

    def opening(self, index: int) -> list[dict[str, Any]]:
        """None: text has no role."""
        return []

    def piece(self, delta: Delta) -> dict[str, Any]:
        """A piece of the text."""
        return self._choice(delta.index, delta.text, delta.logprobs)

    def ending(self, sample: Sample) -> Iterator[dict[str, Any]]:
        """Why the turn ended."""
        yield self._choice(sample.index, "", None, sample.finish_reason)

    def _choice(
        self, index: int, text: str, logprobs: Sequence[TokenLogprob] | None, reason: str | None = None
    ) -> dict[str, Any]:
        listed = None
        if logprobs is not None:
            listed = {
                "tokens": [self._token(t.id) for t in logprobs],
                "token_logprobs": [t.logprob for t in logprobs],
                "top_logprobs": [{self._token(i): p for i, p in t.alternatives} for t in logprobs],
            }
        return {"index": index, "text": text, "logprobs": listed, "finish_reason": reason}
