"""A local model with a LoRA adapter as a chat agent; the turns of several conversations are sampled together.

Imports torch: load it when a local model is asked for.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

from ..agents.backends.local import LocalBackend
from ..agents.backends.sampler import BatchedSampler
from ..agents.chat_template import ChatTemplate
from ..agents.policy.adapter import WEIGHTS
from ..envs.sgls.parsers import make_parser
from ..errors import ConfigError, RunError, UsageError
from ..llm.local import LocalModel, load_local_model
from .chat_agents import conversation_as_text, read_turn
from .suite import AgentKind, DeadlineError, Message, Suite, SuiteTask, TaskContext, Turn

log = logging.getLogger(__name__)


class LocalPlayer:
    """A local model, greedy by default; calls are read from its text.

    Args:
        name: for tables.
        local: the model, any adapter inside.
        max_tokens: longest turn.
        temperature: 0 decodes greedily.
        template: how chats are written, see `ChatTemplate`; a model's own template that rewrites earlier turns is used
            as it is. `auto` becomes `compact` where a suite's prompts do not fit otherwise, see `prepare`.
        parser: the syntax of calls: `hermes`, `llama3`, `mistral`, `pythonic`.
        slots: conversations sampled together.
    """

    kind: AgentKind = "chat"

    def __init__(
        self,
        name: str,
        local: LocalModel,
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        template: str = "auto",
        parser: str = "hermes",
        slots: int = 8,
    ):
        self.name, self.local = name, local
        self.concurrency: int | None = slots
        self.parser = make_parser(parser)
        self.max_tokens, self.temperature = max_tokens, temperature
        backend = LocalBackend(local, slots=slots)
        self.stop_ids = backend.stop_ids
        self.sampler = BatchedSampler(backend)
        self._template_name = template
        self._template = ChatTemplate(local.tokenizer, template, backend.stop_ids)

    @property
    def identity(self) -> dict[str, Any]:
        """Model, fingerprint of weights, tokenizer and template, and how turns are sampled."""
        return {
            "model": self.local.name,
            "fingerprint": self.local.fingerprint(),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "template": self._template_name,
            "parser": self.parser.name,
        }

    def prepare(self, suite: Suite, tasks: Sequence[SuiteTask]) -> None:
        """Write chats with the template `compact`, if it is left to this player and they would not fit otherwise.

        One prompt decides for the whole run: of the prompts that its tasks begin with, the one of middle length. It
        fits if it leaves room for a turn of `max_tokens`.
        """
        if self._template_name != "auto" or type(suite).episode is Suite.episode:
            return
        prompts = sorted((_opening(suite, task) for task in tasks), key=lambda turn: len(json.dumps(turn)))
        messages, tools = prompts[len(prompts) // 2]
        compact = ChatTemplate(self.local.tokenizer, "compact", self.stop_ids)
        context, room = self.local.context_length, self.local.context_length - self.max_tokens
        needed = len(self.prompt(messages, tools)[0])
        if tools and needed > room >= len(compact.prompt_ids(conversation_as_text(messages, self.parser), tools)):
            self._template = compact
            self._template_name = f"compact, since prompts of {needed:,} tokens do not fit into {context:,}"
            log.warning("%s: template %s", self.name, self._template_name)

    def start(self, task: SuiteTask, context: TaskContext) -> LocalChat:
        """An agent for one attempt."""
        return LocalChat(self, context)

    def prompt(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> tuple[list[int], frozenset[int]]:
        """Token ids of a conversation, and the tokens that end a turn after it."""
        shown = conversation_as_text(messages, self.parser)
        try:
            renderer_ids = self._template.prompt_ids(shown, tools or None)
            return renderer_ids, self._template.stop_ids(tools or None)
        except ConfigError:  # it rewrites earlier turns: no good for training, but the model's own way of reading them
            own = {self.local.tokenizer.eos_token_id} - {None}
            return self.local.render(shown, tools=list(tools) or None), self.stop_ids | own

    def text(self, ids: Sequence[int], stop_ids: frozenset[int]) -> str:
        """The text of a turn, without the token that ends it. Other control tokens stay: some open calls with one."""
        kept = ids[:-1] if ids and ids[-1] in stop_ids else ids
        return self.local.tokenizer.decode(list(kept), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _opening(suite: Suite, task: SuiteTask) -> Turn:
    """What an assistant is asked first; with a reference on the other side, who needs no model."""
    episode = suite.episode(task, TaskContext(reference="gold"))
    try:
        return next(episode)
    finally:
        episode.close()


class LocalChat:
    """The assistant of one conversation."""

    def __init__(self, player: LocalPlayer, context: TaskContext):
        self._player, self._context = player, context
        self._turns = 0

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """The model's turn.

        Raises:
            UsageError: the conversation does not fit into the model's context.
            DeadlineError: the turn would end after the task's deadline.
        """
        player = self._player
        ids, stop_ids = player.prompt(messages, tools)
        room = player.local.context_length - len(ids)
        if room < 1:
            raise UsageError(f"{player.name}: {len(ids)} tokens do not fit into its {player.local.context_length}")
        self._turns += 1
        late = threading.Event()
        future = player.sampler.sample(
            ids,
            stop_ids,
            min(player.max_tokens, room),
            player.temperature,
            (self._context.seed + self._turns,),
            watch=lambda turn: late.is_set(),
        )
        left = self._context.remaining()
        try:
            turn = future.result(None if left == float("inf") else left)
        except FutureTimeoutError:
            future.cancel()
            late.set()
            raise DeadlineError("the deadline of the task has passed") from None
        self._context.spend(player.name, len(ids), len(turn.ids))
        return read_turn(player.text(turn.ids, stop_ids), messages, tools, player.parser)


def load_model(name: str, adapter: str | os.PathLike | None, dtype: str, device: str) -> LocalModel:
    """A local model with a LoRA adapter inside.

    Args:
        name: see `llm.local.load_local_model`.
        adapter: folder of a peft adapter, or a run folder with one; None for none.
        dtype: of the model.
        device: of the model.

    Raises:
        RunError: there is no adapter in safetensors.
        UsageError: the adapter is for another model.
    """
    local = load_local_model(name, dtype=dtype, device=device)
    if adapter is None:
        return local
    folder = Path(adapter) / "adapter" if (Path(adapter) / "adapter").is_dir() else Path(adapter)
    if not (folder / WEIGHTS).is_file():
        raise RunError(f"{adapter} holds no adapter: expected {WEIGHTS} (no other format is read)")
    from peft import PeftModel

    try:
        PeftModel.from_pretrained(local.model, str(folder))  # puts its layers into local.model
    except Exception as error:  # noqa: BLE001 - peft raises what its reader raises
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(f"the adapter {folder} cannot be put into {name}: {first}") from None
    local.model.eval()
    return local
