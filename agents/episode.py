"""One episode of a chat environment as tokens: what the environment says becomes ids, what the policy samples text.

`Episode` holds no environment and no model. It is told what an environment said and what a policy sampled, and says
what is needed next; `RolloutEngine` does the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InfrastructureError, UsageError
from .chat_template import ChatTemplate
from .trajectory import SampledTurn, Trajectory, TrajectoryBuilder

_END_OF_THOUGHT = re.compile(r"</think(?:ing)?>")
_CALL = "<tool_call>"


@dataclass(frozen=True)
class Start:
    """Where an episode begins: at its task, or in the middle of one that was sampled before.

    The environment is brought there by taking the same turns again, so it must be deterministic.

    Attributes:
        task_id: the environment's task.
        turns: complete turns that are taken instead of sampled ones.
        partial: the beginning of the next turn, which sampling then finishes.
        stream: what its random numbers depend on besides the collection's seed and the task. None: how many episodes
            of the task were asked for before.
    """

    task_id: str | int
    turns: tuple[SampledTurn, ...] = ()
    partial: SampledTurn | None = None
    stream: tuple[int, ...] | None = None


class Episode:
    """The tokens of one episode so far.

    Args:
        start: where it begins.
        template: how chats are written.
        context_length: the most tokens of a conversation.
        max_turns: assistant turns.

    Attributes:
        ids: all tokens so far.
        finish_reason: None until the policy has had its last turn.
        over: whether the environment has ended, too.
    """

    def __init__(self, start: Start, template: ChatTemplate, context_length: int, max_turns: int):
        self.start, self._template = start, template
        self._context_length, self._max_turns = context_length, max_turns
        self._builder = TrajectoryBuilder()
        self._script = list(start.turns)
        self._partial = start.partial
        self._messages: list[dict[str, Any]] = []
        self._tools: Sequence[Mapping[str, Any]] = ()
        self._rewards: Mapping[str, Any] = {}
        self._sampled: SampledTurn | None = None
        self._last_call: str | None = None
        self.finish_reason: str | None = None
        self.over = False

    @property
    def ids(self) -> list[int]:
        """All tokens so far, the given beginning of the next turn included."""
        return [*self._builder.ids, *(self._partial.ids if self._partial and self.begun else ())]

    @property
    def begun(self) -> int:
        """Tokens of the next turn that are given."""
        return len(self._partial.ids) if self._partial and not self._script else 0

    @property
    def turn(self) -> int:
        """Number of assistant turns so far."""
        return len(self._builder.turns)

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end a turn."""
        return self._template.stop_ids(self._tools)

    def open(self, observation: Any, info: Mapping[str, Any]) -> None:
        """The environment was reset.

        Raises:
            UsageError: the observation is no conversation, or the template refuses it.
        """
        if not isinstance(observation, list) or not observation:
            raise UsageError(f"the first observation must be a list of chat messages, got {observation!r:.200}")
        self._messages, self._tools = list(observation), info.get("tools") or ()
        self._builder.add_environment(self._template.prompt_ids(observation, self._tools))

    def room(self) -> int:
        """Tokens that the next turn may have; 0 if the episode cannot go on."""
        if self.turn >= self._max_turns:
            return 0
        return max(self._context_length - len(self.ids), 0)

    def scripted(self) -> SampledTurn | None:
        """The next turn, if it is given and not to be sampled."""
        return self._script.pop(0) if self._script else None

    def take(self, sampled: SampledTurn) -> str:
        """A turn was sampled; its text is the action for the environment."""
        if self._partial is not None and not self._script and self.turn == len(self.start.turns):
            whole = self._partial
            sampled = SampledTurn(whole.ids + sampled.ids, whole.logprobs + sampled.logprobs, sampled.clipped)
            self._partial = None
        self._sampled = sampled
        return self._template.turn_text(sampled.ids, self._tools)

    def close(self) -> str:
        """There is no room for another turn: an empty one, until the environment ends and scores what was done."""
        if not self._builder.turns:
            raise InfrastructureError(
                f"a prompt of {len(self.ids)} tokens leaves no room in a context of {self._context_length}"
            )
        self.finish_reason = "max_turns" if self.turn >= self._max_turns else "context"
        return ""

    def stepped(
        self, observation: Any, reward: Any, terminated: bool, truncated: bool, info: Mapping[str, Any]
    ) -> None:
        """The environment answered the turn; `over` and `finish_reason` are set if the episode is over.

        Raises:
            InfrastructureError: something behind the environment failed; there is no score.
            UsageError: the observation does not continue the one before.
        """
        if info.get("error"):
            raise InfrastructureError(f"the environment failed: {info['error']}")
        known = len(self._messages)
        new = observation[known:] if isinstance(observation, list) else []
        if not new or observation[:known] != self._messages or new[0].get("role") != "assistant":
            raise UsageError(
                "an observation must be the messages so far, unchanged, then the assistant's turn, then what is new; "
                f"got {observation!r:.300}"
            )
        if (info.get("tools") or ()) != self._tools and not (terminated or truncated):
            raise UsageError("the environment shows other tools than before: a conversation's prompt cannot change")
        self._messages = list(observation)
        self._rewards = info.get("rewards") or {}
        if self._sampled is not None:
            calls = holds_call(new, info)
            self._builder.add_turn(self._sampled, message=known, calls=calls, reward=reward, **self._counts(info))
        else:  # the empty turn that closes an episode has no tokens: what it earned was earned before
            self._builder.add_reward(reward)
        self.over = terminated or truncated
        if self.finish_reason is None and self.over:
            self.finish_reason = "terminated" if terminated else str(info.get("reason") or "truncated")
        if self.finish_reason is None:
            self._answer(new[1:])
        self._sampled = None

    def _counts(self, info: Mapping[str, Any]) -> dict[str, int]:
        """What the environment tells of the turn's call blocks, and how many calls repeat the one before them."""
        turn = info.get("turn")
        if not isinstance(turn, Mapping):
            return {}
        repeated = 0
        for call in turn.get("calls") or ():
            written = json.dumps([call["name"], call["arguments"]], sort_keys=True) if _is_call(call) else None
            repeated += written is not None and written == self._last_call
            self._last_call = written
        blocks = {name: int(turn.get(name) or 0) for name in ("blocks", "valid_blocks")}
        return {**blocks, "repeated": repeated}

    def _answer(self, messages: Sequence[Mapping[str, Any]]) -> None:
        assert self._sampled is not None
        if not messages:
            raise UsageError("the environment goes on after a turn without saying anything: the policy saw no answer")
        if self._sampled.ids[-1] not in self.stop_ids:  # cut off: the turn's end is not the policy's doing
            self._builder.add_environment([self._template.end_of_turn(self._tools)])
        self._builder.add_environment(self._template.environment_ids(messages, self._tools))

    def trajectory(self, segment_rule: str, **fields: Any) -> Trajectory:
        """The finished episode.

        Args:
            segment_rule: `content` or `position`.
            **fields: further fields of `Trajectory`.
        """
        rewards = dict(self._rewards)
        if "total" not in rewards:
            returned = [turn.reward for turn in self._builder.turns]
            rewards["total"] = None if None in returned else sum(returned)  # type: ignore[arg-type]
        return self._builder.build(
            segment_rule=segment_rule,
            rewards=rewards,
            finish_reason=self.finish_reason,
            messages=tuple(self._messages),
            task_id=str(self.start.task_id),
            tools=tuple(tool_names(self._tools)),
            **fields,
        )


def _is_call(call: Any) -> bool:
    return isinstance(call, Mapping) and isinstance(call.get("name"), str) and "arguments" in call


def tool_names(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of tools in OpenAI's form; a tool that is none has none."""
    functions = [tool.get("function") for tool in tools if isinstance(tool, Mapping)]
    return [str(f["name"]) for f in functions if isinstance(f, Mapping) and "name" in f]


def holds_call(new: Sequence[Mapping[str, Any]], info: Mapping[str, Any]) -> bool:
    """Whether an assistant's turn holds a tool call.

    The environment says so, a tool answered, or a call is written in the turn's text.

    Args:
        new: what a step added to the observation: the turn, then what is new.
        info: of that step.
    """
    turn = info.get("turn")
    said = bool(turn.get("calls")) if isinstance(turn, Mapping) else False
    answered = any(message.get("role") == "tool" for message in new)
    return said or answered or _CALL in _END_OF_THOUGHT.split(str(new[0].get("content")))[-1]
