"""Exact-action SLCA: at a choice among names, the expectation over all of them instead of the name that was drawn.

Where a rollout chooses a tool, the candidate names form a short list, and one pass over their trie gives all their
log-probabilities with gradients. The sampled term A·∇log π of the drawn name's tokens is left out; in its place stands

    ∇ Σ_a π(a) A(a) = Σ_a π(a) ∇log π(a) A(a)        A(a) = λ_tool (Q(a) − b) / (σ + ε)

That is FGPO (arXiv 2609.10221) inside SLCA (arXiv 2609.29050). Q(a) is the tool reward that a leads to:

* branch: every name's continuation is rolled out. Unbiased. Rollouts of one group that stand at the same choice point
  share their continuations, so only names that none of them drew need a further one.
* counterfactual: the drawn rollout is scored again with the name exchanged. Free, and biased: arguments were written
  for the drawn name.

b is the mean of Q over the candidates under the policy, so only their relative probabilities learn, as the presence
filter has it. Unbiased if the candidates are all that can be called there. If other names can be written too, with
probability 1 − P, those keep the sampled term, and what the rewards say about P itself counts P times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UsageError
from ..advantages import deviation, is_dead
from ..trajectory import Segment
from .group import Advantages, Channel, ChoicePoint, Group, add, normalise
from .requirements import requires
from .segments import Schedule, at, guarded

if TYPE_CHECKING:
    from torch import Tensor


@requires("segment", "choices", omitted="guard", components=("tool", "summary"))
def slca_exact(
    group: Group,
    *,
    tool: str = "process",
    summary: str = "summary",
    lambda_tool: Schedule = 1.0,
    lambda_summary: Schedule = 1.0,
    guard: bool = True,
    scale: bool = True,
    baseline: str = "mean",
    progress: float = 0.0,
) -> Advantages:
    """SLCA whose choices of a name are exact, see the module's docstring.

    σ is the unbiased deviation of everything that was scored: the members' tool rewards and the values of the names
    they did not draw. So a group whose members all drew the same name is not dead.

    A choice point that has a value missing, or whose draw is none of its names, keeps the sampled term; it counts as
    excluded or absent in the channel `choices`, by its number.

    Args:
        group: G rollouts with `choices`.
        tool: component that scores the calls; the choices' values are in its unit.
        summary: component that scores the summary.
        lambda_tool: weight or schedule.
        lambda_summary: weight or schedule.
        guard: the omission guard, see `segments.slca`.
        scale: divide by σ + ε.
        baseline: of the sampled tokens: `mean` or `leave_one_out`.
        progress: share of the training that is over, for the schedules.

    Returns:
        token advantages for the usual loss, and for each choice point (names,) advantages for `choice_objective`.
    """
    choices: Sequence[ChoicePoint] = group.given("choices")
    r_tool, r_sum = guarded(group, tool, summary, guard)
    a_tool, tool_channel = normalise(group, r_tool, Segment.TOOL, scale=False, baseline=baseline)
    a_sum, sum_channel = normalise(group, r_sum, Segment.SUMMARY, scale=scale, baseline=baseline)
    exact = [choice.drawn is not None and bool(np.isfinite(choice.values).all()) for choice in choices]
    weight = at(lambda_tool, progress)
    if scale:
        present = group.present(Segment.TOOL) & np.isfinite(r_tool)
        weight /= _deviation_of_all(r_tool[present], [c for c, usable in zip(choices, exact, strict=True) if usable])
    by_name = tuple(
        weight * _centred(choice) if usable else np.zeros(len(choice.values))
        for choice, usable in zip(choices, exact, strict=True)
    )
    tool_tokens = group.spread(weight * a_tool, Segment.TOOL)
    for choice, usable in zip(choices, exact, strict=True):
        if usable:
            tool_tokens[choice.member][slice(*choice.tokens)] = 0.0
    tokens = add(tool_tokens, group.spread(at(lambda_summary, progress) * a_sum, Segment.SUMMARY))
    channels = {"tool": tool_channel, "summary": sum_channel, "choices": _channel(choices, by_name)}
    return Advantages(tokens, channels, choices=by_name)


def choice_objective(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip: float | None = None
) -> tuple[Tensor, Tensor]:
    """Σ_a q_old(a) min(ρ_a A_a, clip(ρ_a) A_a), ρ = π/π_old: PPO's surrogate in exact expectation, to be maximised.

    q_old is π_old renormalised on the names: that the draw was one of them is known. Its gradient on policy is
    Σ_a q(a) ∇log π(a) A(a), what the drawn name's tokens add up to in expectation, given that. Add it to the sum over
    the rollout's tokens before that sum is divided.

    Args:
        logprobs: (…, names) of the current policy, differentiable, from one trie pass.
        old_logprobs: (…, names) when sampled.
        advantages: (…, names), entries of `Advantages.choices`.
        clip: half-width of the trust region; None does not clip.

    Returns:
        (…,) the objective per choice point, and (…,) the share of names whose ratio was clipped.
    """
    ratio = (logprobs - old_logprobs).exp()
    gain = ratio * advantages
    bounded = ratio if clip is None else ratio.clamp(1 - clip, 1 + clip)
    clipped = (ratio != bounded).to(logprobs.dtype).mean(-1)
    return (old_logprobs.softmax(-1) * gain.minimum(bounded * advantages)).sum(-1), clipped.detach()


def branch_values(
    drawn: Sequence[int], returns: Sequence[float], branches: Mapping[int, Sequence[float]], names: int
) -> np.ndarray:
    """Q of each name by branching: the mean tool reward of all continuations after it.

    Args:
        drawn: the name each rollout drew that stood at this choice point, by its index.
        returns: their tool rewards.
        branches: tool rewards of the extra continuations of each name in `unvisited`; further ones are welcome.
        names: how many candidates there are.

    Returns:
        (names,) float64.

    Raises:
        UsageError: a name has no continuation.
    """
    found: list[list[float]] = [list(branches.get(a, ())) for a in range(names)]
    for name, value in zip(drawn, returns, strict=True):
        found[name].append(value)
    missing = [a for a, values in enumerate(found) if not values]
    if missing:
        raise UsageError(f"names {missing} have no continuation: roll out one for each of `unvisited`")
    return np.array([np.mean(values) for values in found])


def unvisited(drawn: Sequence[int], names: int) -> list[int]:
    """The names that no rollout at a choice point drew: each needs a continuation of its own."""
    return sorted(set(range(names)) - set(drawn))


def counterfactual_values(
    score: Callable[[list[Any]], float], calls: Sequence[Mapping[str, Any]], index: int, names: Sequence[str]
) -> np.ndarray:
    """Q of each name by scoring the drawn calls again with the name of one exchanged.

    Args:
        score: the tool reward of a list of calls.
        calls: the rollout's calls, mappings with a `name`.
        index: which call is the choice.
        names: candidates.

    Returns:
        (names,) float64.
    """
    before, after = list(calls[:index]), list(calls[index + 1 :])
    return np.array([score([*before, {**calls[index], "name": name}, *after]) for name in names], np.float64)


def _centred(choice: ChoicePoint) -> np.ndarray:
    """Q − b, b = Σ_a q(a) Q(a) with q the policy renormalised on the candidates."""
    if is_dead(choice.values):
        return np.zeros(len(choice.values))
    q = np.exp(choice.logprobs - choice.logprobs.max())
    return choice.values - q @ choice.values / q.sum()


def _deviation_of_all(rewards: np.ndarray, choices: Sequence[ChoicePoint]) -> float:
    others = [choice.values[np.arange(len(choice.values)) != choice.drawn] for choice in choices]
    scored = np.concatenate([rewards, *others])
    return deviation(scored) if len(scored) > 1 else 1.0


def _channel(choices: Sequence[ChoicePoint], by_name: Sequence[np.ndarray]) -> Channel:
    absent = [i for i, choice in enumerate(choices) if choice.drawn is None]
    excluded = [i for i, c in enumerate(choices) if c.drawn is not None and not np.isfinite(c.values).all()]
    return Channel(not any(a.any() for a in by_name), tuple(excluded), tuple(absent))
