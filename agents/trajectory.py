"""Trajectories: one episode token by token, exactly as the policy saw and sampled it.

Token ids come from generation and are never decoded and encoded again. `TrajectoryBuilder` collects them: text of the
environment (the prompt, tool results, the user's next turn) and turns that the policy sampled, in the order in which
they entered the model. What a token needs for training stands beside it, in arrays of one length.

Invariants, checked at construction:
* all arrays have the length of `ids`, and at least one token is trainable;
* a trainable token belongs to a step (assistant turn) and to a segment, and has a finite log-probability; a token of
  the environment has step −1, segment NONE and log-probability 0;
* steps count up from 0, the tokens of one step are neighbours and belong to one segment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from ..errors import UnknownNameError, UsageError


class Segment(IntEnum):
    """What a token is part of (arXiv 2609.29050): the tool calls, or the summary that ends the rollout."""

    NONE = 0
    TOOL = 1
    SUMMARY = 2


@dataclass(frozen=True)
class SampledTurn:
    """One assistant turn as it was sampled.

    Attributes:
        ids: token ids; the last one ends the turn, unless it was clipped.
        logprobs: log p of each at the sampling temperature (at temperature 1 if decoding was greedy), in nats.
        clipped: True if it was cut off by a length limit.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    clipped: bool = False

    def __post_init__(self) -> None:
        if not self.ids or len(self.ids) != len(self.logprobs):
            raise UsageError(
                f"a turn needs one log-probability per token and one token at least, got {len(self.ids)} tokens and "
                f"{len(self.logprobs)} log-probabilities"
            )


@dataclass(frozen=True)
class Turn:
    """What became of one assistant turn.

    Attributes:
        message: its index in `Trajectory.messages`.
        calls: whether it holds a tool call.
        reward: what the environment's step returned; None if that was no finite number.
        clipped: whether it was cut off by a length limit.
        blocks: call blocks that were begun, if the environment tells.
        valid_blocks: those of them that it could read, and that name tools it shows.
        repeated: calls that repeat the call before them.
    """

    message: int
    calls: bool
    reward: float | None
    clipped: bool = False
    blocks: int = 0
    valid_blocks: int = 0
    repeated: int = 0


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode. T tokens, K assistant turns.

    Attributes:
        ids: (T,) int64 token ids.
        trainable: (T,) bool, True on sampled tokens.
        segment: (T,) int8, see `Segment`.
        step: (T,) int16, index of the assistant turn, −1 on the environment's text.
        logprobs: (T,) float32, log p when sampled, in nats; 0 on the environment's text.
        turns: the K assistant turns.
        rewards: the environment's score by component; None where it was not scored (a NaN becomes None).
        finish_reason: `terminated`, or why it was cut: the environment's reason, or `context` or `max_turns`.
        policy_version: of the weights that sampled it.
        temperature: of the sampling; training must use the same.
        task_id: what the episode was about.
        member: number of the episode among those of its task.
        messages: the conversation as text, for people.
        tools: names of the tools that the prompt shows, in that order.

    Raises:
        UsageError: an invariant of the module's docstring does not hold.
    """

    ids: np.ndarray
    trainable: np.ndarray
    segment: np.ndarray
    step: np.ndarray
    logprobs: np.ndarray
    turns: tuple[Turn, ...]
    rewards: Mapping[str, float | None] = field(default_factory=dict)
    finish_reason: str = "terminated"
    policy_version: int = 0
    temperature: float = 1.0
    task_id: str = ""
    member: int = 0
    messages: tuple[dict[str, Any], ...] = ()
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, dtype in _ARRAYS.items():
            array: np.ndarray = np.array(getattr(self, name), dtype)  # a copy: nobody can change it behind our back
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        rewards = {str(name): _number_or_none(value) for name, value in self.rewards.items()}
        object.__setattr__(self, "rewards", rewards)
        problem = _problem(self)
        if problem:
            raise UsageError(f"no valid trajectory of the task {self.task_id!r}: {problem}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def prompt_length(self) -> int:
        """Tokens before the first sampled one."""
        return int(self.trainable.argmax())

    @property
    def episode_reward(self) -> float | None:
        """Sum of what the environment's steps returned; None if one returned no number."""
        rewards = [turn.reward for turn in self.turns if turn.reward is not None]
        return math.fsum(rewards) if len(rewards) == len(self.turns) else None

    @property
    def clipped(self) -> bool:
        """Whether a turn was cut off by a length limit, or the episode by the model's context."""
        return self.finish_reason == "context" or any(turn.clipped for turn in self.turns)

    @property
    def answered_calls(self) -> int:
        """Calls that a tool, or an error in its place, answered; one for a turn whose calls were not answered."""
        ends = [*(turn.message for turn in self.turns[1:]), len(self.messages)]
        return sum(
            max(sum(m.get("role") == "tool" for m in self.messages[turn.message : end]), turn.calls)
            for turn, end in zip(self.turns, ends, strict=True)
        )

    def has(self, segment: Segment) -> bool:
        """Whether any token belongs to `segment`."""
        return bool((self.segment == segment).any())

    def sampled(self, step: int) -> SampledTurn:
        """An assistant turn as it was sampled, e.g. to branch off after it."""
        own = self.step == step
        return SampledTurn(
            tuple(self.ids[own].tolist()), tuple(self.logprobs[own].tolist()), clipped=self.turns[step].clipped
        )

    def to_json(self) -> dict[str, Any]:
        """A plain JSON record. Only what the other fields do not imply: one run of tokens per turn."""
        runs = [np.flatnonzero(self.step == k) for k in range(len(self.turns))]
        return {
            "task_id": self.task_id,
            "member": self.member,
            "finish_reason": self.finish_reason,
            "rewards": dict(self.rewards),
            "policy_version": self.policy_version,
            "temperature": self.temperature,
            "turns": [
                {"first": int(run[0]), "tokens": len(run), "segment": int(self.segment[run[0]]), **asdict(turn)}
                for run, turn in zip(runs, self.turns, strict=True)
            ],
            "ids": self.ids.tolist(),
            "logprobs": self.logprobs[self.trainable].tolist(),
            "messages": list(self.messages),
            "tools": list(self.tools),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Trajectory:
        """Read what `to_json` made.

        Raises:
            UsageError: a field is missing or has the wrong type, or an invariant does not hold.
        """
        try:
            return _from_json(record)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"no trajectory record: {type(error).__name__}: {error}") from None


_ARRAYS = {
    "ids": np.int64,
    "trainable": np.bool_,
    "segment": np.int8,
    "step": np.int16,
    "logprobs": np.float32,
}

#: Rounding may lift the log-probability of a certain token above 0 by this much.
_ABOVE_ZERO = 1e-3


def _problem(t: Trajectory) -> str | None:
    """The first invariant that does not hold."""
    shapes = {name: getattr(t, name).shape for name in _ARRAYS}
    if len(set(shapes.values())) != 1 or t.ids.ndim != 1:
        return f"the arrays must have one dimension and one length, got {shapes}"
    if not t.trainable.any():
        return "no token is trainable: nothing was sampled"
    if t.trainable[0]:
        return "the first token is trainable, but nothing precedes it that could predict it"
    if (t.ids < 0).any():
        return "a token id is negative"
    if ((t.step >= 0) != t.trainable).any() or ((t.segment != Segment.NONE) != t.trainable).any():
        return "exactly the trainable tokens must have a step and a segment"
    if not np.isin(t.segment, list(Segment)).all():
        return f"unknown segment {int(t.segment.max())}"
    if t.logprobs[~t.trainable].any():
        return "a token of the environment has a log-probability"
    sampled = t.logprobs[t.trainable]
    if not np.isfinite(sampled).all() or (sampled > _ABOVE_ZERO).any():
        return "the log-probability of a sampled token must be finite and at most 0"
    first = np.flatnonzero(np.diff(t.step, prepend=-1) * (t.step >= 0))
    if t.step[first].tolist() != list(range(len(t.turns))):
        return f"steps must count up from 0 to {len(t.turns) - 1}, each in one piece, got {t.step[first].tolist()}"
    if (t.segment[t.trainable] != t.segment[first][t.step[t.trainable]]).any():
        return "the tokens of one step must belong to one segment"
    if t.temperature < 0 or not math.isfinite(t.temperature):
        return f"the temperature must be finite and not negative, got {t.temperature}"
    return None


def segments_by_position(trainable: np.ndarray) -> np.ndarray:
    """The published rule (arXiv 2609.29050): the last run of policy tokens is the summary, all earlier ones are tool.

    A rollout that is cut right after a tool call has its last call labelled summary; see `segments_by_content`.

    Args:
        trainable: (T,) bool.

    Returns:
        (T,) int8 of `Segment`.
    """
    trainable = np.asarray(trainable, bool)
    starts = np.flatnonzero(trainable & ~np.concatenate([[False], trainable[:-1]]))
    segment = np.where(trainable, Segment.TOOL, Segment.NONE).astype(np.int8)
    if len(starts):
        segment[starts[-1] :][trainable[starts[-1] :]] = Segment.SUMMARY
    return segment


def segments_by_content(trainable: np.ndarray, calls: Sequence[bool]) -> np.ndarray:
    """The published rule, except that a run which holds a tool call is never the summary: such a rollout has none.

    Args:
        trainable: (T,) bool.
        calls: for each run of trainable tokens, whether it holds a tool call.

    Returns:
        (T,) int8 of `Segment`.
    """
    segment = segments_by_position(trainable)
    if len(calls) and calls[-1]:
        segment[segment == Segment.SUMMARY] = Segment.TOOL
    return segment


SEGMENT_RULES = ("content", "position")


class TrajectoryBuilder:
    """Collects an episode's tokens in the order in which they enter the model.

    Attributes:
        ids: all tokens so far: the next turn's prompt.
        turns: the assistant turns so far.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.turns: list[Turn] = []
        self._steps: list[int] = []
        self._logprobs: list[float] = []

    def add_environment(self, ids: Sequence[int]) -> None:
        """Append text that the policy did not write."""
        self.ids += ids
        self._steps += [-1] * len(ids)
        self._logprobs += [0.0] * len(ids)

    def add_turn(self, sampled: SampledTurn, *, message: int, calls: bool, reward: float | None, **counts: int) -> None:
        """Append a turn of the policy and what became of it, see `Turn`."""
        self.ids += sampled.ids
        self._steps += [len(self.turns)] * len(sampled.ids)
        self._logprobs += sampled.logprobs
        self.turns.append(Turn(message, bool(calls), _number_or_none(reward), sampled.clipped, **counts))

    def add_reward(self, reward: float | None) -> None:
        """Add to the reward of the last turn."""
        last, more = self.turns[-1], _number_or_none(reward)
        total = None if last.reward is None or more is None else last.reward + more
        self.turns[-1] = replace(last, reward=total)

    def build(self, *, segment_rule: str = "content", **fields: Any) -> Trajectory:
        """The trajectory.

        Args:
            segment_rule: `content`, see `segments_by_content`; or `position`, the published rule.
            **fields: further fields of `Trajectory`: rewards, finish_reason, policy_version, …

        Raises:
            UsageError: nothing was sampled, or another invariant does not hold.
            UnknownNameError: there is no such rule.
        """
        if segment_rule not in SEGMENT_RULES:
            raise UnknownNameError("segment rule", segment_rule, SEGMENT_RULES)
        trainable = np.array(self._steps, np.int16) >= 0
        if segment_rule == "content":
            segment = segments_by_content(trainable, [turn.calls for turn in self.turns])
        else:
            segment = segments_by_position(trainable)
        return Trajectory(
            np.array(self.ids),
            trainable,
            segment,
            np.array(self._steps),
            np.array(self._logprobs),
            tuple(self.turns),
            **fields,
        )


def _from_json(record: Mapping[str, Any]) -> Trajectory:
    ids = np.array(record["ids"], np.int64)
    if ids.tolist() != list(record["ids"]):
        raise UsageError("no trajectory record: token ids must be whole numbers")
    step = np.full(len(ids), -1, np.int16)
    segment = np.zeros(len(ids), np.int8)
    turns = []
    for k, run in enumerate(record["turns"]):
        first, tokens = int(run["first"]), int(run["tokens"])
        place = slice(first, first + tokens)
        if first < 0 or tokens < 1 or first + tokens > len(ids) or (step[place] >= 0).any():
            raise UsageError(f"no trajectory record: turn {k} is said to be at {first}–{first + tokens} of {len(ids)}")
        step[place], segment[place] = k, int(run["segment"])
        reward = _number_or_none(run["reward"])
        counts = {name: int(run.get(name, 0)) for name in ("blocks", "valid_blocks", "repeated")}
        turns.append(Turn(int(run["message"]), bool(run["calls"]), reward, bool(run["clipped"]), **counts))
    logprobs = np.zeros(len(ids), np.float32)
    logprobs[step >= 0] = np.array(record["logprobs"], np.float32)
    return Trajectory(
        ids,
        step >= 0,
        segment,
        step,
        logprobs,
        tuple(turns),
        rewards=dict(record["rewards"]),
        finish_reason=str(record["finish_reason"]),
        policy_version=int(record["policy_version"]),
        temperature=float(record["temperature"]),
        task_id=str(record["task_id"]),
        member=int(record["member"]),
        messages=tuple(dict(message) for message in record["messages"]),
        tools=tuple(map(str, record.get("tools", ()))),
    )


def _number_or_none(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
