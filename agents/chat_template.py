"""Chats to token ids and back, for rollouts in which sampled tokens are never decoded and encoded again.

A conversation is rendered once, as the prompt. What the environment says after a turn is rendered alone, as it follows
a turn that has ended (`environment_ids`), and appended to the ids so far. That is right only if the template is
append-only: what it renders for more turns must begin with what it rendered for fewer. Every template is tested for
this before it is used (`_Renderer.check`), and refused if it rewrites earlier turns.

Text of an environment is hostile: control tokens that stand in it (`<|im_end|>` in a tool's answer) are encoded as the
characters that they are, so that no content can end its turn or open another one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, UnknownNameError, UsageError
from ..llm.local import PLAIN_TEMPLATE

log = logging.getLogger(__name__)

Message = Mapping[str, Any]
Tools = Sequence[Mapping[str, Any]]

_SYSTEM_JSON = (
    "{{ '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>' }}"
    "{% for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}"
    "{{ '\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>\' }}'
)

_SYSTEM_SIGNATURES = (
    "{{ 'Tools:' }}{% for tool in tools %}{% set f = tool.function %}{% set p = f.parameters or {} %}"
    "{{ '\n' + f.name + '(' }}{% for key in p.properties or {} %}"
    "{{ key + ('' if key in (p.required or []) else '?') + ('' if loop.last else ', ') }}"
    "{% endfor %}{{ ')' }}{% endfor %}"
)

_CHATML = (
    "{% set first = 1 if messages[0]['role'] == 'system' else 0 %}"
    "{% if first or tools %}{{ '<|im_start|>system\n' }}{% if first %}{{ messages[0]['content'] }}{% endif %}"
    "{% if tools %}{{ '\n\n' if first else '' }}SYSTEM{% endif %}{{ eos_token + '\n' }}{% endif %}"
    "{% for message in messages[first:] %}{% if message['role'] == 'tool' %}"
    "{% if loop.first or loop.previtem['role'] != 'tool' %}{{ '<|im_start|>user' }}{% endif %}"
    "{{ '\n<tool_response>\n' + message['content'] + '\n</tool_response>' }}"
    "{% if loop.last or loop.nextitem['role'] != 'tool' %}{{ eos_token + '\n' }}{% endif %}"
    "{% else %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + eos_token + '\n' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

#: ChatML as Hermes and Qwen models use it: schemas in the system turn, results in a user turn.
CHATML_TEMPLATE = _CHATML.replace("SYSTEM", _SYSTEM_JSON)

#: The same, but with `name(parameters)` instead of schemas: a tenth of the tokens, for small models.
COMPACT_TEMPLATE = _CHATML.replace("SYSTEM", _SYSTEM_SIGNATURES)

TEMPLATES = ("auto", "own", "chatml", "compact")


@dataclass(frozen=True)
class Demonstration:
    """A conversation as token ids, for learning from it: exactly what a rollout with these turns would hold.

    Attributes:
        ids: token ids.
        trainable: True on the assistant's tokens, the one that ends the turn included.
        step: index of the assistant's turn, −1 elsewhere.
    """

    ids: list[int]
    trainable: list[bool]
    step: list[int]


class ChatTemplate:
    """How one model's chats are written.

    Args:
        tokenizer: the model's tokenizer.
        template: `auto` (the model's own; `chatml` if it has none, or shows no tools although there are some), `own`,
            `chatml` or `compact`.
        stop_ids: further tokens that end a turn: those of the model's generation configuration.

    Raises:
        UnknownNameError: no such template.
    """

    def __init__(self, tokenizer: Any, template: str = "auto", stop_ids: Iterable[int] = ()):
        if template not in TEMPLATES:
            raise UnknownNameError("chat template", template, TEMPLATES)
        self.tokenizer = tokenizer
        self._template = template
        self._stop_ids = frozenset(stop_ids)
        self._renderers: dict[bool, _Renderer] = {}

    def prompt_ids(self, messages: Sequence[Message], tools: Tools | None = None) -> list[int]:
        """Token ids of a conversation up to where the assistant's next turn begins.

        Raises:
            ConfigError: the template is not append-only, or ignores tools.
            UsageError: the template refuses these messages.
        """
        renderer = self.renderer(tools)
        return renderer.encode(*renderer.text(messages, tools, prompt=True))

    def turn_ids(self, text: str, tools: Tools | None = None) -> list[int]:
        """Token ids of an assistant's turn, the token that ends it included. For demonstrations: sampled ids differ."""
        renderer = self.renderer(tools)
        return [*self.tokenizer.encode(text, add_special_tokens=False), renderer.end_of_turn]

    def environment_ids(self, messages: Sequence[Message], tools: Tools | None = None) -> list[int]:
        """Token ids of messages that follow an assistant's turn, up to where its next turn begins.

        They are rendered after a stand-in for the conversation, once with and once without them; what they add after
        the stand-in's end-of-turn token is theirs. This keeps the newline that templates put after that token.

        Raises:
            UsageError: the template refuses these messages, or they change what stands before them.
        """
        renderer = self.renderer(tools)
        before, _ = renderer.text(_STAND_IN, tools)
        after, shielded = renderer.text([*_STAND_IN, *messages], tools, prompt=True)
        kept = before.rindex(renderer.end_text)
        if after[:kept] != before[:kept]:
            raise UsageError(
                f"the chat template {renderer.name} renders earlier turns differently after these messages"
            )
        # The end of turn goes first, because tokenizers may treat the very beginning of a text in a special way.
        ids = renderer.encode(after[kept:], shielded)
        assert ids[0] == renderer.end_of_turn
        return ids[1:]

    def turn_text(self, ids: Sequence[int], tools: Tools | None = None) -> str:
        """The text of a sampled turn, without the token that ends it.

        Other control tokens stay visible: some families open their tool calls with one.
        """
        stop = self.stop_ids(tools)
        kept = ids[:-1] if ids and ids[-1] in stop else ids
        return str(self.tokenizer.decode(list(kept), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def stop_ids(self, tools: Tools | None = None) -> frozenset[int]:
        """Tokens that end a turn: the template's end of turn, the end of sequence, and the model's own."""
        return self._stop_ids | {self.renderer(tools).end_of_turn, self.tokenizer.eos_token_id} - {None}

    def end_of_turn(self, tools: Tools | None = None) -> int:
        """The token that ends a turn."""
        return self.renderer(tools).end_of_turn

    def demonstration(
        self, messages: Sequence[Message], tools: Tools | None = None, first: int | None = None
    ) -> Demonstration:
        """A conversation to learn from, put together like a rollout.

        Args:
            messages: ends with an assistant's turn; turns are text (`content`).
            tools: what the prompt shows.
            first: index of the first assistant's turn to learn; by default the first one of all.

        Raises:
            UsageError: there is no assistant's turn at `first`, or at the end.
        """
        roles = [message["role"] for message in messages]
        if first is None:
            first = roles.index("assistant") if "assistant" in roles else 0
        if not 0 < first < len(roles) or roles[first] != "assistant" or roles[-1] != "assistant":
            raise UsageError(f"a demonstration has assistant turns at {first} and at its end, got the roles {roles}")
        ids = self.prompt_ids(messages[:first], tools)
        step = [-1] * len(ids)
        places = [i for i in range(first, len(roles)) if roles[i] == "assistant"]
        for k, (place, after) in enumerate(zip(places, [*places[1:], len(roles)], strict=True)):
            turn = self.turn_ids(str(messages[place]["content"]), tools)
            answer = self.environment_ids(messages[place + 1 : after], tools) if after < len(roles) else []
            ids += turn + answer
            step += [k] * len(turn) + [-1] * len(answer)
        return Demonstration(ids, [k >= 0 for k in step], step)

    def renderer(self, tools: Tools | None) -> _Renderer:
        """The tested renderer for conversations with tools, or without."""
        shows = bool(tools)
        if shows not in self._renderers:
            self._renderers[shows] = self._choose(shows)
        return self._renderers[shows]

    def _choose(self, shows: bool) -> _Renderer:
        tools = _PROBE_TOOLS if shows else None
        templates = {"chatml": CHATML_TEMPLATE, "compact": COMPACT_TEMPLATE}
        own = self.tokenizer.chat_template and self.tokenizer.get_chat_template(tools=tools)
        if own and own != PLAIN_TEMPLATE:  # which stands for a template that is missing
            templates["own"] = own
        name = self._template
        if name == "auto":
            name = "own" if "own" in templates and self._shows(own, tools) else "chatml"
            if name == "chatml":
                log.info("the model has no chat template%s: using chatml", " that shows tools" if shows else "")
        if name not in templates:
            raise ConfigError("the tokenizer has no chat template of its own: choose template='chatml'")
        renderer = _Renderer(self.tokenizer, templates[name], repr(name))
        renderer.check(tools)
        return renderer

    def _shows(self, template: str, tools: Tools | None) -> bool:
        try:
            text, _ = _Renderer(self.tokenizer, template, "'own'").text(_PROBE[:2], tools)
        except UsageError:
            return False
        return all(tool["function"]["name"] in text for tool in tools or ())


_STAND_IN: tuple[Message, ...] = ({"role": "user", "content": "x"}, {"role": "assistant", "content": "y"})

_PROBE_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"probe_{name}",
            "description": f"Probe {name}.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        },
    }
    for name in ("north", "south")
]

_PROBE_CALL = '<tool_call>\n{"name": "probe_north", "arguments": {"q": "a"}}\n</tool_call>'

_PROBE: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "First question?"},
    {"role": "assistant", "content": f"<think>\nTwo calls.\n</think>\n\n{_PROBE_CALL}\n{_PROBE_CALL}"},
    {"role": "tool", "content": "answer one", "tool_call_id": "call_0", "name": "probe_north"},
    {"role": "tool", "content": "answer two", "tool_call_id": "call_1", "name": "probe_north"},
    {"role": "assistant", "content": "The first reply."},
    {"role": "user", "content": "Second question?"},
    {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nThe second reply."},
    {"role": "user", "content": "Third question?"},
    {"role": "assistant", "content": "The third reply."},
]


class _Renderer:
    """One template of one tokenizer: text, and token ids in which content holds no control tokens."""

    def __init__(self, tokenizer: Any, template: str, name: str):
        self.tokenizer, self.template, self.name = tokenizer, template, name
        self.end_of_turn = -1
        self.end_text = ""
        added = tokenizer.added_tokens_decoder
        self._added = frozenset(added)
        # Tags such as <tool_call> are ordinary words of some vocabularies: an assistant or a system message may use
        # them, a tool's answer may not, lest it closes itself.
        self._control = _either(t.content for t in added.values() if t.special)
        self._control_or_tag = _either(t.content for t in added.values())

    def text(
        self, messages: Sequence[Message], tools: Tools | None = None, prompt: bool = False
    ) -> tuple[str, list[str]]:
        """The conversation as text, in which place holders stand for the shielded strings, and these strings.

        Raises:
            UsageError: the template refuses the messages.
        """
        shielded: list[str] = []
        # Tools first, so that place holders in them have the same numbers whatever messages follow.
        shown = self._shield(list(tools), shielded, False) if tools else None
        safe = [self._shield(dict(message), shielded, message.get("role") == "tool") for message in messages]
        for message in safe:
            if message.get("content") is None:
                message["content"] = ""
        try:
            text = self.tokenizer.apply_chat_template(
                safe,
                tools=shown,
                chat_template=self.template,
                add_generation_prompt=prompt,
                tokenize=False,
            )
        except Exception as error:  # noqa: BLE001 - templates raise their own error types
            raise UsageError(f"the chat template {self.name} refuses these messages: {error}") from None
        return str(text), shielded

    def encode(self, text: str, shielded: Sequence[str] = ()) -> list[int]:
        """Token ids of a text of `text`; the shielded strings become the tokens of their characters."""
        ids: list[int] = []
        for i, piece in enumerate(_PLACE.split(text)):
            ids += self._spelled(shielded[int(piece)]) if i % 2 else self._plain(piece)
        return ids

    def check(self, tools: Tools | None) -> None:
        """Find the end-of-turn token, and prove that rendering more turns begins with what fewer turns rendered.

        Raises:
            ConfigError: with what the template does wrong, and what to use instead.
        """
        conversation = _PROBE if tools else [message for message in _PROBE if message["role"] != "tool"]
        if not tools:  # two assistant turns in a row are none of a policy's conversations
            del conversation[2]
        hint = "; choose template='chatml' (schemas) or 'compact' (signatures), or a model with another template"
        try:
            self._find_end_of_turn(tools)
            self._check_append_only(conversation, tools)
        except UsageError as error:
            raise ConfigError(f"{error}{hint}") from None

    def _find_end_of_turn(self, tools: Tools | None) -> None:
        text, _ = self.text(_STAND_IN, tools)
        content = str(_STAND_IN[-1]["content"])
        if content not in text:
            raise UsageError(f"the chat template {self.name} does not show the assistant's turn as it was written")
        ids = self._plain(text[text.rindex(content) + len(content) :])
        if not ids or ids[0] not in self._added:
            raise UsageError(f"the chat template {self.name} has no token that ends the assistant's turn")
        self.end_of_turn = ids[0]
        self.end_text = self.tokenizer.added_tokens_decoder[ids[0]].content

    def _check_append_only(self, conversation: Sequence[Message], tools: Tools | None) -> None:
        turns = [i for i, message in enumerate(conversation) if message["role"] == "assistant"]
        earlier = ""
        for turn in turns:
            prompt, _ = self.text(conversation[:turn], tools, prompt=True)
            whole, _ = self.text(conversation[: turn + 1], tools)
            said = prompt + str(conversation[turn]["content"]) + self.end_text
            if not prompt.startswith(earlier) or not whole.startswith(said):
                raise UsageError(
                    f"the chat template {self.name} is not append-only: with {turn + 1} messages it renders earlier "
                    "text differently (templates that strip or add <think> blocks do), so a rollout would train on "
                    "other tokens than the template shows"
                )
            earlier = said
        shown, _ = self.text(conversation[: turns[-1]], tools)
        for message in conversation[: turns[-1]]:
            if message["role"] == "tool" and str(message["content"]) not in shown:
                raise UsageError(f"the chat template {self.name} does not show the answers of tools")
        for tool in tools or ():
            if tool["function"]["name"] not in shown:
                raise UsageError(f"the chat template {self.name} does not show tools")

    def _shield(self, value: Any, shielded: list[str], is_tool: bool) -> Any:
        """`value` with place holders for control tokens in all of its strings."""
        if isinstance(value, str):

            def place(found: re.Match[str]) -> str:
                shielded.append(found[0])
                return f"{_MARK}{len(shielded) - 1}{_MARK}"

            # What UTF-8 cannot carry, no tokenizer takes.
            text = value.encode("utf-8", "replace").decode()
            return (self._control_or_tag if is_tool else self._control).sub(place, text)
        if isinstance(value, Mapping):
            return {
                self._shield(key, shielded, is_tool): self._shield(item, shielded, is_tool)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._shield(item, shielded, is_tool) for item in value]
        return value

    def _plain(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def _spelled(self, text: str) -> list[int]:
        """Token ids of a control token's characters: cut in two it is not recognised."""
        ids = self._plain(text[:1]) + self._plain(text[1:])
        if self._added.isdisjoint(ids):
            return ids
        return [i for character in text for i in self._plain(character)]


#: Stands around the number of a shielded string. A noncharacter: it means nothing to any text; if a text holds it all
#: the same, it is shielded like a control token.
_MARK = "\U0010fffe"
_PLACE = re.compile(f"{_MARK}(\\d+){_MARK}")


def _either(strings: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted({s for s in strings if len(s) > 1}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, [*longest_first, _MARK])))
