"""The figures of the report on conversations: what the metrics of the runs say over their updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import page
from .cells import SMOOTHED_OVER, Section, smooth
from .plots import Line, Panel, figure

if TYPE_CHECKING:
    from .chat_report import ChatRun

Runs = Sequence["ChatRun"]
SHARE = (-0.02, 1.02)
#: A series with a value for fewer of the updates than this is shown as it is, without a running mean.
_DENSE = 0.5


@dataclass(frozen=True)
class Curves:
    """One pair of axes.

    Attributes:
        title: what is shown.
        unit: of the values.
        keys: entries of the metrics, with the names they have in the legend.
        limits: of the values, or None.
    """

    title: str
    unit: str
    keys: Mapping[str, str]
    limits: tuple[float, float | None] | None = None


def panels(runs: Runs, curves: Curves) -> list[Panel]:
    """What was logged of these curves: of one run all on the same axes, of several runs one axes for each key."""
    if len(runs) == 1:
        lines = [_line(runs[0], key, label, style) for style, (key, label) in enumerate(curves.keys.items())]
        found = [Panel(curves.title, "policy updates", curves.unit, lines, curves.limits)]
    else:
        found = []
        for key, label in curves.keys.items():
            title = f"{curves.title}: {label}" if len(curves.keys) > 1 else curves.title
            lines = [_line(run, key, run.name, style) for style, run in enumerate(runs)]
            found.append(Panel(title, "policy updates", curves.unit, lines, curves.limits))
    return [panel for panel in found if any(line.x for line in panel.lines)]


def _line(run: ChatRun, key: str, label: str, style: int) -> Line:
    x, y = run.learner.series(key)
    if len(x) > _DENSE * len(run.learner.metrics):
        x, y = smooth(x, y)
    return Line(label, x, y, style)


def _figure(anchor: str, title: str, caption: str, choose: Callable[[Runs], list[Curves]]):  # type: ignore[no-untyped-def]
    """A maker of one section with the panels that `choose` gives."""

    def section(runs: Runs) -> Section | None:
        shown = [panel for curves in choose(runs) for panel in panels(runs, curves)]
        if not shown:
            return None
        return anchor, title, page.figure(figure(anchor, shown, title, min(len(shown), 2)), caption)

    return section


def _logged(runs: Runs, prefix: str) -> dict[str, str]:
    """Keys of the metrics that begin with `prefix`, and what follows in each, in words."""
    keys = dict.fromkeys(key for run in runs for record in run.learner.metrics for key in record)
    return {key: key.removeprefix(prefix).replace("_", " ") for key in keys if key.startswith(prefix)}


def _rewards(runs: Runs) -> list[Curves]:
    parts = {key: label for key, label in _logged(runs, "reward/").items() if label != "total"}
    shown = [Curves("Reward", "mean total", {"reward": "reward"})]
    return shown + [Curves(label.capitalize(), "mean", {key: label}) for key, label in parts.items()]


def _dev(runs: Runs) -> list[Curves]:
    successes = {key: label for key, label in _logged(runs, "dev_success_").items()}
    return [
        Curves("Reward on dev", "mean total", {"dev_reward": "reward"}),
        Curves("Solved on dev", "share of tasks", successes, SHARE),
        Curves("Process and summary on dev", "mean", {"dev_process": "process", "dev_summary": "summary"}),
        Curves("Turns and calls on dev", "per task", {"dev_turns": "turns", "dev_calls": "calls"}, (0, None)),
    ]


def _segments(runs: Runs) -> list[Curves]:
    both = {"tool": "tool calls", "summary": "summary"}
    return [
        Curves(
            "Gradient by segment", "norm", {f"gradient_norm/{key}": label for key, label in both.items()}, (0, None)
        ),
        Curves("Do the segments agree?", "cosine", {"gradient_cosine": "tool calls and summary"}, (-1.05, 1.05)),
        Curves("Dead groups", "share of groups", _logged(runs, "dead_group_rate/"), SHARE),
        Curves("Size of the advantages", "mean", {f"advantage/{key}": label for key, label in both.items()}, (0, None)),
    ]


def _optimisation(runs: Runs) -> list[Curves]:
    losses = {"loss": "all tokens", "loss/tool": "tool calls", "loss/summary": "summary"}
    return [
        Curves("Loss", "loss", losses),
        Curves("Gradient", "norm", {"gradient_norm": "all weights"}, (0, None)),
        Curves("Distance from the start", "KL, nats a token", {"kl": "KL"}),
        Curves("Entropy", "nats a token", {"entropy": "entropy"}, (0, None)),
        Curves("Clipped", "share of tokens", {"clipped": "outside the trust region"}, (0, None)),
        Curves("Sampler and trainer", "|log-ratio|", {"sampler_difference": "difference"}, (0, None)),
    ]


def _episodes(runs: Runs) -> list[Curves]:
    return [
        Curves("Turns and calls", "per episode", {"turns": "turns", "calls": "answered calls"}, (0, None)),
        Curves("Tokens", "per episode", {"tokens": "sampled tokens"}, (0, None)),
        Curves("Cut by a length limit", "share of episodes", {"clipped_ratio": "cut"}, SHARE),
        Curves("Without a score", "episodes", {"failed": "failed", "unscored": "unscored"}, (0, None)),
        Curves(
            "Time", "seconds", {"rollout_seconds": "sampling", "waited_seconds": "waiting for environments"}, (0, None)
        ),
    ]


_SMOOTHED = f"Running means over {SMOOTHED_OVER} updates, by episode."

FIGURES = (
    _figure("rewards", "Rewards while learning", f"Of the sampled episodes of each update. {_SMOOTHED}", _rewards),
    _figure(
        "dev",
        "On the dev split",
        "Greedy episodes of every task of dev, from which the checkpoint is chosen too; the table above is on other "
        "tasks. What failed or was not scored counts as not solved and 0.",
        _dev,
    ),
    _figure(
        "segments",
        "Credit by segment",
        "The gradient of the policy's loss on the tokens of the tool calls and of the summary, each alone: a cosine "
        "near 0 says that they change different things, a negative one that they pull the shared weights apart. A dead "
        "group has equal rewards, so that its advantages are 0. Advantages: mean size over a segment's tokens.",
        _segments,
    ),
    _figure(
        "optimisation",
        "Optimisation",
        f"KL: low-variance estimate against the start of the run. {_SMOOTHED.replace(', by episode', '')}",
        _optimisation,
    ),
    _figure("episodes", "What episodes are like", f"Of the sampled episodes of each update. {_SMOOTHED}", _episodes),
)
