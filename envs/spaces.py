"""Spaces for text: direct subclasses of `gymnasium.Space` that can sample valid elements.

`gymnasium.spaces.Text` refuses what is not ASCII unless every character is listed, and its subclasses come back as
garbage from an `AsyncVectorEnv` with shared memory. A direct subclass of `Space` is refused there with an error,
and works with `shared_memory=False`. Elements are plain Python objects, so batches of them are tuples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from ..errors import UsageError

#: Longest sampled text. Samples are for smoke tests and checks; uniform lengths up to a limit of millions serve nobody.
SAMPLE_CHARACTERS = 200
_SAMPLE_MESSAGES = 6
_FIRST_SURROGATE, _SURROGATES = 0xD800, 0x800
_TOOL_NAMES = ("search", "lookup", "translate")


class UnicodeText(gym.Space[str]):
    """Strings of any characters that can be encoded as UTF-8, or only of those of a `charset`.

    Args:
        max_length: longest string, in characters.
        min_length: shortest string.
        charset: the characters allowed; None allows every Unicode character except lone surrogates.
        seed: seed of the sampling.

    Raises:
        UsageError: a length is no integer or out of range, or the charset is empty or holds no single characters.
    """

    def __init__(
        self,
        max_length: int,
        min_length: int = 0,
        charset: Iterable[str] | None = None,
        seed: int | np.random.Generator | None = None,
    ):
        self.max_length = _integer("max_length", max_length, at_least=0)
        self.min_length = _integer("min_length", min_length, at_least=0)
        if self.min_length > self.max_length:
            raise UsageError(f"min_length must be at most max_length ({max_length}), got {min_length}")
        self.charset = None if charset is None else frozenset(charset)
        if self.charset is not None:
            wrong = sorted(repr(c) for c in self.charset if not (isinstance(c, str) and len(c) == 1 and _encodable(c)))
            if wrong or not self.charset:
                raise UsageError(f"charset must hold single characters, got {', '.join(wrong[:3]) or 'an empty one'}")
        super().__init__(dtype=None, seed=seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A string of at most `SAMPLE_CHARACTERS` characters (more if `min_length` asks for it), uniform in length."""
        _no_masks(mask, probability)
        most = min(self.max_length, max(self.min_length, SAMPLE_CHARACTERS))
        return _random_text(self.np_random, self.min_length, most, self.charset)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string within the lengths and of allowed characters."""
        if not isinstance(x, str) or not self.min_length <= len(x) <= self.max_length:
            return False
        return _encodable(x) if self.charset is None else self.charset.issuperset(x)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed-size array form."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        charset = "" if self.charset is None else f", charset={''.join(sorted(self.charset))!r}"
        return f"UnicodeText({self.max_length}, min_length={self.min_length}{charset})"

    def _key(self) -> tuple:
        return self.min_length, self.max_length, self.charset


class ChatMessages(gym.Space[list]):
    """Lists of chat messages in OpenAI's form, oldest first; a conversation has at least one message.

    A message is a dict with `role` (`system`, `user`, `assistant` or `tool`) and `content` (a string; None only beside
    `tool_calls`). An assistant's message may have `tool_calls`, a list of `{"id", "type": "function", "function":
    {"name", "arguments"}}` with `arguments` as the string that the model wrote. A tool's message may have
    `tool_call_id` and `name`. Other keys are not allowed.

    Args:
        max_messages: longest conversation.
        max_length: longest content and longest arguments of one message, in characters.
        seed: seed of the sampling.

    Raises:
        UsageError: an argument is no integer or out of range.
    """

    def __init__(
        self, max_messages: int = 1024, max_length: int = 2**22, seed: int | np.random.Generator | None = None
    ):
        self.max_messages = _integer("max_messages", max_messages, at_least=1)
        self.max_length = _integer("max_length", max_length, at_least=2)  # room for the smallest arguments, {}
        super().__init__(dtype=None, seed=seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> list[dict[str, Any]]:
        """A short conversation: a question, then tool calls with their results or plain answers."""
        _no_masks(mask, probability)
        length = int(self.np_random.integers(1, min(self.max_messages, _SAMPLE_MESSAGES) + 1))
        messages: list[dict[str, Any]] = [{"role": "user", "content": self._text()}]
        while len(messages) < length:
            call = {"name": str(self.np_random.choice(_TOOL_NAMES)), "arguments": "{}"}
            call_id = f"call_{len(messages)}"
            tool_calls = [{"id": call_id, "type": "function", "function": call}]
            if len(messages) + 1 < length and self.np_random.random() < 0.5:
                messages.append({"role": "assistant", "content": None, "tool_calls": tool_calls})
                messages.append({"role": "tool", "content": self._text(), "tool_call_id": call_id})
            else:
                role = "user" if messages[-1]["role"] == "assistant" else "assistant"
                messages.append({"role": role, "content": self._text()})
        return messages

    def contains(self, x: Any) -> bool:
        """Whether `x` is a non-empty list of well-formed messages within the limits."""
        return isinstance(x, list) and 1 <= len(x) <= self.max_messages and all(map(self._is_message, x))

    @property
    def is_np_flattenable(self) -> bool:
        """False: a conversation has no fixed-size array form."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChatMessages) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"ChatMessages(max_messages={self.max_messages}, max_length={self.max_length})"

    def _key(self) -> tuple[int, int]:
        return self.max_messages, self.max_length

    def _text(self) -> str:
        return _random_text(self.np_random, 1, min(self.max_length, SAMPLE_CHARACTERS), None)

    def _is_text(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length and _encodable(x)

    def _is_message(self, message: Any) -> bool:
        if not isinstance(message, dict):
            return False
        extra = {"assistant": {"tool_calls"}, "tool": {"tool_call_id", "name"}, "system": set(), "user": set()}
        role = message.get("role")
        if not isinstance(role, str) or role not in extra or not {"role", "content"} <= message.keys():
            return False
        if not message.keys() <= {"role", "content"} | extra[role]:
            return False
        if not all(self._is_text(message[key]) for key in ("tool_call_id", "name") if key in message):
            return False
        calls = message.get("tool_calls", [])
        if not isinstance(calls, list) or not all(map(self._is_call, calls)):
            return False
        return self._is_text(message["content"]) or (message["content"] is None and bool(calls))

    def _is_call(self, call: Any) -> bool:
        if not isinstance(call, dict) or call.keys() != {"id", "type", "function"} or call["type"] != "function":
            return False
        function = call["function"]
        if not isinstance(function, dict) or function.keys() != {"name", "arguments"}:
            return False
        return all(map(self._is_text, (call["id"], function["name"], function["arguments"])))


def _integer(name: str, value: Any, at_least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < at_least:
        raise UsageError(f"{name} must be an integer of at least {at_least}, got {value!r}")
    return int(value)


def _no_masks(mask: Any, probability: Any) -> None:
    if mask is not None or probability is not None:
        raise UsageError("text spaces sample without `mask` and `probability`: leave both out")


def _encodable(text: str) -> bool:
    """Whether the text has no lone surrogates, which neither UTF-8 nor strict JSON can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _random_text(rng: np.random.Generator, shortest: int, longest: int, charset: frozenset[str] | None) -> str:
    length = int(rng.integers(shortest, longest + 1))
    if charset is not None:
        characters = sorted(charset)  # the order of a set depends on the process
        return "".join(characters[i] for i in rng.integers(len(characters), size=length))
    codes = rng.integers(sys.maxunicode + 1 - _SURROGATES, size=length)
    return "".join(chr(code + _SURROGATES * (code >= _FIRST_SURROGATE)) for code in codes.tolist())
