"""Bias and variance of every estimator on the small tasks, as the Markdown tables of docs/estimators.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..estimators import Advantages, Group, estimator
from ..estimators.group import normalise
from ..trajectory import Segment
from .enumeration import Enumeration
from .moments import AGGREGATIONS, Choices, Moments, moments
from .tasks import WORDS, may_abstain, stop_or_continue, two_steps, two_turn

UNSCALED = {"scale": False, "baseline": "leave_one_out"}
CUTS = (1, 0.6)  # these policies are nowhere as sure as a language model: 0.9 would leave no token out


@dataclass(frozen=True)
class Row:
    """An estimator in a table.

    Attributes:
        name: in the registry.
        options: given to it.
        choices: mode of the values of its choice points.
        cuts: of SPO-chain.
        blind: the critic knows nothing but the mean reward of the task.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    choices: str | None = None
    cuts: tuple[int, float] | None = None
    blind: bool = False

    def moments(self, task: Enumeration, size: int) -> Moments:
        """Of its gradient."""
        choices = Choices("name", self.choices) if self.choices else None
        credit: Callable[[Group], Advantages] = estimator(self.name, **self.options)
        if self.blind:
            mean, sighted = task.expected("total"), credit

            def credit(group: Group) -> Advantages:
                return sighted(replace(group, values=[np.full(len(v), mean) for v in group.values or ()]))

        return moments(task, credit, size, choices=choices, cuts=self.cuts)

    @property
    def label(self) -> str:
        """Name and options as a reader wants them."""
        words = {"scale": "no σ", "baseline": "leave-one-out", "guard": "no guard"}
        told = [words.get(name, f"{name}={value}") for name, value in self.options.items() if name not in _SILENT]
        told += [self.choices] if self.choices else []
        told += ["critic knows the mean only"] if self.blind else []
        return f"`{self.name}`" + (f", {', '.join(told)}" if told else "")


_SILENT = ("action", "reward", "every", "threshold")

ONE_CALL = [
    Row("grpo"),
    Row("dr_grpo"),
    Row("rloo"),
    Row("dapo"),
    Row("slca"),
    Row("slca", UNSCALED),
    Row("slca_exact", UNSCALED, choices="branch"),
    Row("slca_exact", UNSCALED, choices="counterfactual"),
    Row("slca_exact", choices="branch"),
    Row("toolpo", {"action": "process"}),
    Row("toolpo", {"action": "process", **UNSCALED}),
    Row("mt_grpo"),
    Row("mt_grpo", UNSCALED),
    Row("rltr", {"reward": "process"}),
    Row("rltr", {"reward": "process", **UNSCALED}),
    Row("gigpo", {"gamma": 1.0}),
    Row("gigpo", {"gamma": 1.0, **UNSCALED}),
    Row("vineppo"),
    Row("carl"),
    Row("carl", blind=True),
    Row("spo_chain", {"every": CUTS[0], "threshold": CUTS[1]}, cuts=CUTS),
]
ABSTAIN = [
    Row("grpo"),
    Row("rloo"),
    Row("slca"),
    Row("slca", {"guard": False}),
    Row("slca", UNSCALED),
    Row("toolpo", {"action": "process", **UNSCALED}),
    Row("mt_grpo", UNSCALED),
    Row("rltr", {"reward": "process", **UNSCALED}),
]
STEPS = [
    Row("grpo"),
    Row("rloo"),
    Row("slca"),
    Row("slca", UNSCALED),
    Row("slca_gigpo"),
    Row("slca_gigpo", UNSCALED),
    Row("gigpo", {"gamma": 1.0}),
    Row("gigpo", {"gamma": 0.95}),
    Row("gigpo", {"gamma": 1.0, **UNSCALED}),
    Row("vineppo"),
]


def tables() -> str:
    """All tables, Markdown."""
    parts = [
        "### Every rollout calls once: `two_turn`, G = 4",
        bias_table(two_turn(), ONE_CALL, 4, "summary"),
        "### The first token decides whether to call: `may_abstain`, G = 3",
        bias_table(may_abstain(), ABSTAIN, 3, "guarded"),
        "### Two tool steps: `two_steps`, G = 3",
        bias_table(two_steps(), STEPS, 3, "summary"),
        "### How the loss adds up tokens: `rloo` on `may_abstain`, G = 3",
        aggregation_table(may_abstain(), 3),
        "### Exact-action SLCA against SLCA at equal numbers of scored continuations: `two_turn`",
        variance_table((2, 3, 4, 8)),
        "### The trap of normalising turn by turn: `stop_or_continue`, G = 4",
        trap_table(4),
    ]
    return "\n\n".join(parts) + "\n"


def bias_table(task: Enumeration, rows: Iterable[Row], size: int, summary: str) -> str:
    """Expected gradient of each row against ∇E[total] and against the locked gradient, and its noise."""
    whole, locked = task.gradient("total"), task.locked_gradient("process", summary)
    lines = [["target: locked gradient", *_compare(locked, whole), "1", "1", ""]]
    for row in rows:
        found = row.moments(task, size)
        lines.append(
            [row.label, *_compare(found.mean, whole), *_compare(found.mean, locked), f"{found.relative_variance:.2f}"]
        )
    head = ["estimator", "cosine, total", "norm, total", "cosine, locked", "norm, locked", "noise"]
    return _markdown(head, lines)


def aggregation_table(task: Enumeration, size: int) -> str:
    """What dividing by numbers of tokens does to an unbiased estimator."""
    whole = task.gradient("total")
    found = {name: moments(task, estimator("rloo"), size, aggregation=name) for name in AGGREGATIONS}
    lines = [[f"`{name}`", *_compare(m.mean, whole)] for name, m in found.items()]
    return _markdown(["aggregation", "cosine, total", "norm, total"], lines)


def variance_table(sizes: Iterable[int]) -> str:
    """Variance of exact-action SLCA in branch mode, and of SLCA with as many scored continuations, on `two_turn`."""
    task = two_turn()
    tool = tool_parameters(task)
    lines = []
    for size in sizes:
        exact, continuations = exact_variances(size)
        sampled = slca_variances(task, continuations)
        parts = [(exact.sum(), sampled.sum()), (exact[tool].sum(), sampled[tool].sum())]
        figures = [text for a, b in parts for text in (f"{a:.4f}", f"{b:.4f}", f"{a / b:.2f}")]
        lines.append([str(size), f"{continuations:.2f}", *figures])
    head = ["G", "continuations", "exact, all", "SLCA, all", "ratio", "exact, tool", "SLCA, tool", "ratio"]
    return _markdown(head, lines)


def exact_variances(size: int) -> tuple[np.ndarray, float]:
    """(P,) variances of exact-action SLCA in branch mode on `two_turn`, and its scored continuations per group.

    Its summary tokens are SLCA's. So the tool's part is enumerated with a single word to report, which is much less.
    """
    task, short = two_turn(), two_turn(words=WORDS[:1])
    tools = Row("slca_exact", UNSCALED, choices="branch").moments(short, size)
    variances = slca_variances(task, size)
    variances[tool_parameters(task)] = tools.variances[tool_parameters(short)]
    return variances, tools.continuations


def slca_variances(task: Enumeration, size: float) -> np.ndarray:
    """(P,) variances of SLCA (no σ, leave-one-out) for any, also fractional, group size of a task that always calls.

    The estimator is a U-statistic of order two, so its variance is exactly a/G + b/(G(G − 1)); sizes 2 and 3 give both.
    """
    two, three = (Row("slca", UNSCALED).moments(task, n).variances for n in (2, 3))
    a = 6 * three - 2 * two
    b = 2 * two - a
    return a / size + b / (size * (size - 1))


def tool_parameters(task: Enumeration) -> np.ndarray:
    """(P,) bool, the logits of states in which tool tokens are written."""
    chosen = np.zeros(len(task.theta), bool)
    for rollout in task.rollouts:
        for decision in rollout.decisions:
            if decision.segment == Segment.TOOL:
                chosen[task.rows[decision.state]] = True
    return chosen


def trap_table(size: int) -> str:
    """Summing rewards that were normalised turn by turn, against the exact gradient in the logit of going on."""
    lines = []
    for stop, first, second in [(1.0, 0.0, 1.0), (0.5, 0.2, 1.0), (1.0, 0.4, 0.4), (0.2, 0.1, 0.2)]:
        task = stop_or_continue(stop, first, second)
        methods: list[Callable[[Group], Advantages]] = [per_turn, estimator("dr_grpo"), estimator("rloo")]
        found = [moments(task, method, size).mean[0] for method in methods]
        figures = [f"{round(value, 4) + 0:+.4f}" for value in (task.gradient("total")[0], *found)]
        lines.append([f"stop {stop}, go {first} + {second}", *figures])
    return _markdown(["rewards", "exact", "per turn", "`dr_grpo`", "`rloo`"], lines)


def per_turn(group: Group) -> Advantages:
    """What not to do: each turn's reward is centred among the rollouts that have the turn, then summed over turns."""
    rewards = group.reward_by_step("total")
    whole, channels = np.zeros(group.size), {}
    for k in range(max(map(len, rewards))):
        of_turn = np.array([steps[k] if k < len(steps) else np.nan for steps in rewards])
        centred, channels[f"turn {k}"] = normalise(group, of_turn, scale=False)
        whole += centred
    return Advantages(group.spread(whole), channels)


def _compare(mean: np.ndarray, target: np.ndarray) -> tuple[str, str]:
    norms = np.linalg.norm(mean), np.linalg.norm(target)
    return _short(mean @ target / (norms[0] * norms[1])), _short(norms[0] / norms[1])


def _short(value: float) -> str:
    """Three decimals; `1` only for what is 1 to nine."""
    return "1" if abs(value - 1) < 1e-9 else f"{value:.3f}"


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])
