"""HierR's process score: how well the calls of an episode match the gold (arXiv 2609.29050).

    process = 0.10·format + 0.25·name + 0.15·key + 0.20·value + 0.30·parallel

* format: well-formed call blocks / max(opening tags, closing tags).
* name: F1 of the multisets of tool names.
* key, value: each gold call is matched with at most one prediction of its name; Jaccard of the keys and share of equal
  values, averaged over the gold calls.
* parallel: 1 if the first step has as many calls as the first gold step.

`mode="paper"` is the published score to the last digit. The default departs from it where the published one misjudges:

| | paper | default |
|---|---|---|
| matching | greedy, in the order of the gold | optimal |
| gold | the first plan | the plan that gives the highest score |
| a step | one call block | one assistant turn |
| key, value | over gold calls with arguments; 1 if there are none | over all gold calls |
| flat gold (order unknown) | one step | no parallel score |
| names without arguments | key = value = 1 | only format and name |
| nothing to be called | format 0 without a block; key = value = 1 | no key, no value; an attempt: name = parallel = 0 |

Where a component has nothing to score it is None, never 0, and the weights of the others are scaled to their sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ..errors import ConfigError, UnknownNameError
from .matching import Call, match_greedily, match_optimally, name_f1

COMPONENTS = ("format", "name", "key", "value", "parallel")
MODES = ("default", "paper")
Plan = Sequence[Sequence[Call]]
"""A gold plan: steps of parallel calls."""


@dataclass(frozen=True)
class Weights:
    """Weight of each component; the defaults are the paper's. Non-negative, not all 0."""

    format: float = 0.10
    name: float = 0.25
    key: float = 0.15
    value: float = 0.20
    parallel: float = 0.30

    def __post_init__(self) -> None:
        values = [getattr(self, name) for name in COMPONENTS]
        if not all(isinstance(v, int | float) and math.isfinite(v) and v >= 0 for v in values) or not sum(values):
            raise ConfigError(f"weights {values}: expected five numbers of at least 0 that are not all 0")


#: the published setting and its four sweeps
WEIGHTS: Mapping[str, Weights] = {
    "paper": Weights(),
    "uniform": Weights(0.20, 0.20, 0.20, 0.20, 0.20),
    "value_heavy": Weights(0.05, 0.20, 0.20, 0.35, 0.20),
    "name_heavy": Weights(0.05, 0.40, 0.15, 0.15, 0.25),
    "no_parallel": Weights(0.15, 0.30, 0.25, 0.30, 0.00),
}


def make_weights(spec: str | Mapping[str, float] | Weights) -> Weights:
    """The weights of a specification: a name of `WEIGHTS`, or a mapping that changes some of the paper's.

    Raises:
        UnknownNameError: there is no such preset or component.
        ConfigError: a weight is out of range.
    """
    if isinstance(spec, Weights):
        return spec
    if isinstance(spec, str):
        if spec not in WEIGHTS:
            raise UnknownNameError("weights", spec, WEIGHTS, f"Or give weights for {', '.join(COMPONENTS)}")
        return WEIGHTS[spec]
    for name in spec:
        if name not in COMPONENTS:
            raise UnknownNameError("component", name, COMPONENTS)
    return replace(Weights(), **spec)


@dataclass(frozen=True)
class Attempt:
    """What an agent did, as far as the process score looks at it.

    Attributes:
        steps: the calls of shown tools with an object as arguments, by step; steps without any are left out.
        valid_blocks: well-formed call blocks.
        blocks: call blocks begun or ended, whichever are more.
        attempted: whether there was any attempt at a call.
    """

    steps: tuple[tuple[Call, ...], ...] = ()
    valid_blocks: int = 0
    blocks: int = 0
    attempted: bool = False

    @property
    def calls(self) -> list[Call]:
        """All calls in order."""
        return [call for step in self.steps for call in step]

    @property
    def format(self) -> float:
        """Share of well-formed blocks; 0 without a block."""
        return min(1.0, self.valid_blocks / self.blocks) if self.blocks else 0.0


def read_turns(turns: Sequence[Mapping[str, Any]], tools: Sequence[str]) -> Attempt:
    """What an agent did, from the turns of a transcript.

    A turn is a step. A block is well formed if it is valid and no repair was needed to read its turn; calls that were
    read with a repair count as calls all the same.

    Args:
        turns: the transcript's records of assistant turns.
        tools: names of the shown tools.
    """
    shown = set(tools)
    steps, valid, blocks, opened, closed = [], 0, 0, 0, 0
    for turn in turns:
        step = [call for call in turn["calls"] if call["name"] in shown and isinstance(call["arguments"], dict)]
        if step:
            steps.append(tuple(step))
        valid += turn["valid_blocks"] if turn["level"] == "strict" else 0
        blocks += turn["blocks"]
        opened, closed = opened + turn["tags"][0], closed + turn["tags"][1]
    return Attempt(tuple(steps), valid, max(blocks, opened, closed), opened > 0 or blocks > 0)


@dataclass(frozen=True)
class ProcessScore:
    """The score of an episode's calls; every number is in [0, 1].

    Attributes:
        process: the weighted sum.
        format: None if there was nothing to call and nothing was called.
        name: the metric *Name F1*.
        key: None where no arguments are known.
        value: likewise.
        parallel: None where the steps are not known.
        plan: index of the plan that was compared with.
        notes: what was not scored, and why.
    """

    process: float
    format: float | None
    name: float
    key: float | None
    value: float | None
    parallel: float | None
    plan: int = 0
    notes: tuple[str, ...] = ()

    @property
    def arg_match(self) -> float | None:
        """The metric *ArgMatch*, (key + value) / 2."""
        return None if self.key is None or self.value is None else (self.key + self.value) / 2

    def to_json(self) -> dict[str, Any]:
        """The fields and `arg_match` as plain JSON."""
        return {**asdict(self), "notes": list(self.notes), "arg_match": self.arg_match}


def process_score(
    attempt: Attempt,
    plans: Sequence[Plan],
    *,
    gold_kind: str = "full",
    weights: str | Mapping[str, float] | Weights = "paper",
    mode: str = "default",
) -> ProcessScore:
    """Score calls against the gold.

    Args:
        attempt: what the agent did; from `read_turns`, in paper mode from `published.read_text`.
        plans: equivalent gold plans, at least one; `[]` as a plan means that nothing should be called.
        gold_kind: `full`, `flat` (which calls are parallel is not known) or `names_only` (no arguments are known).
        weights: see `make_weights`.
        mode: `default` or `paper`.

    Raises:
        ConfigError: no plan, or an unknown mode.
    """
    if mode not in MODES or not plans:
        problem = f"mode={mode!r}: expected one of {', '.join(MODES)}" if plans else "no plan: give [] to call nothing"
        raise ConfigError(problem)
    weights = make_weights(weights)
    if mode == "paper":
        return _published_score(attempt, plans[0], weights)
    best: ProcessScore | None = None
    for index, plan in enumerate(plans):
        score = _score(attempt, plan, gold_kind, weights)
        if best is None or score.process > best.process:
            best = replace(score, plan=index)
        if best.process == 1.0:
            break
    assert best is not None
    return best


def _published_score(attempt: Attempt, plan: Plan, weights: Weights) -> ProcessScore:
    gold = [call for step in plan for call in step]
    if gold and not attempt.attempted:
        return ProcessScore(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    predicted = attempt.calls
    argued = [call for call in gold if call["arguments"]]
    key, value = match_greedily(predicted, argued) if argued else (1.0, 1.0)
    return _weigh(
        weights,
        format=attempt.format,
        name=name_f1([call["name"] for call in predicted], [call["name"] for call in gold]),
        key=key / max(len(argued), 1),
        value=value / max(len(argued), 1),
        parallel=float(_first_step(attempt.steps) == _first_step(plan)),
    )


def _score(attempt: Attempt, plan: Plan, gold_kind: str, weights: Weights) -> ProcessScore:
    gold = [call for step in plan for call in step]
    if not gold:
        right = float(not attempt.attempted)
        why = ("key and value are not scored: nothing is to be called",)
        written = attempt.format if attempt.attempted else None
        return _weigh(weights, why, format=written, name=right, key=None, value=None, parallel=right)
    predicted = attempt.calls
    parts: dict[str, float | None] = {
        "format": attempt.format,
        "name": name_f1([call["name"] for call in predicted], [call["name"] for call in gold]),
    }
    notes: tuple[str, ...] = ()
    if gold_kind == "names_only":
        parts |= {"key": None, "value": None, "parallel": None}
        notes = ("only format and name are scored: the gold names tools without arguments",)
    else:
        key, value = match_optimally(predicted, gold, weights.key, weights.value)
        parts |= {"key": key / len(gold), "value": value / len(gold)}
        parts["parallel"] = float(_first_step(attempt.steps) == _first_step(plan))
        if gold_kind == "flat":
            parts["parallel"] = None
            notes = ("parallel is not scored: the gold is flat, which of its calls are parallel is not known",)
    return _weigh(weights, notes, **parts)


def _first_step(steps: Sequence[Sequence[Call]]) -> int:
    return len(steps[0]) if steps else 0


def _weigh(weights: Weights, notes: tuple[str, ...] = (), **parts: float | None) -> ProcessScore:
    """The score with these components; weights of those that are None go to the others."""
    named = [(getattr(weights, field.name), parts[field.name]) for field in fields(Weights)]
    scored = [(weight, part) for weight, part in named if part is not None]
    total = sum(weight for weight, _ in scored)
    # a sweep may put no weight on all that can be scored: then they count alike
    weighted = scored if total else [(1.0, part) for _, part in scored]
    process = sum(weight * part for weight, part in weighted) / (total or len(weighted))
    return ProcessScore(min(1.0, process), notes=notes, **parts)  # type: ignore[arg-type]
