"""The sections of the report page. Each takes the report's data and gives (anchor, title, content), or None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import page
from .cells import (
    SMOOTHED_OVER,
    Rows,
    Section,
    count,
    difference,
    made_with_parts,
    noted,
    number,
    p_value,
    percent,
    smooth,
    spent_table,
)
from .page import Html, tag
from .plots import Line, Panel, figure
from .strategies import REFERENCES

if TYPE_CHECKING:
    from .report import ReportData

_ABOUT = {
    "none": "no tool",
    "all": "every tool",
    "random": "each subset as likely",
    "best_fixed": "the best single subset, chosen on these questions",
    "oracle": "the best subset of each question, chosen with its answer",
}


def verdict(data: ReportData) -> str:
    """The result in two or three sentences."""
    strategies = data.evaluation["strategies"]
    sentences = []
    for name in _own(data):
        s = strategies[name]
        low, high = map(percent, s["ci"])
        sentences.append(
            f"{name} answers {percent(s['accuracy'])} of {data.questions} right (95% interval {low} to {high}) "
            f"and calls {s['tools_per_question']:.2f} tools a question."
        )
    known = [f"{_ABOUT[n]} {percent(strategies[n]['accuracy'])}" for n in ("none", "all") if n in strategies]
    if known:
        sentences.append(f"For comparison: {', '.join(known)}.")
    return " ".join(sentences)


def comparison(data: ReportData) -> Section:
    """Every strategy with its interval."""
    strategies, own = data.evaluation["strategies"], _own(data)
    troubled = any(s["unparsed"] or s["failed"] for s in strategies.values())
    header = ["strategy", "accuracy", "95% interval", "0% to 100%", "reward", "tools a question"]
    header += ["unreadable", "failed"] if troubled else []
    rows: Rows = []
    for name, s in strategies.items():
        mark = tag("span", "ceiling", class_="tag") if s["ceiling"] else ""
        colour = f"var(--s{own.index(name) % 6})" if name in own else "var(--muted)"
        low, high = s["ci"]
        cells: list[object] = [tag("td", name, mark, title=_ABOUT.get(name, "")), percent(s["accuracy"])]
        cells += [f"{percent(low)} to {percent(high)}", page.interval_bar(s["accuracy"], low, high, colour)]
        cells += [number(s["reward"]), f"{s['tools_per_question']:.2f}"]
        cells += [s["unparsed"], s["failed"]] if troubled else []
        rows.append(("own" if name in own else "ceiling" if s["ceiling"] else "", cells))
    note = (
        f"All strategies answer the same {data.evaluation['n']} questions once. Intervals are Wilson's. The reward is "
        "the environment's mean. A ceiling knows the answers and says what is possible, not what can be learnt; lucky "
        "guesses lift the oracle above any policy. Random is the exact expectation over all subsets where the table "
        "of outcomes is known. A failed question counts as not right and has no reward."
    )
    return "comparison", "All strategies", noted(page.table(header, rows), note)


def pairs(data: ReportData) -> Section | None:
    """Paired differences."""
    comparisons = data.evaluation.get("comparisons") or []
    header = ["strategy", "against", "accuracy, points", "reward", "only it is right", "only the other", "McNemar p"]
    rows: Rows = []
    for c in comparisons:
        points = difference([100 * x for x in (c["accuracy_difference"], *c["accuracy_ci"])], "+.1f")
        reward = difference([c["reward_difference"], *c["reward_ci"]], "+.3f") if c["reward_ci"] else "–"
        tested = [count(c["only_strategy"]), count(c["only_reference"]), p_value(c["p_value"])]
        rows.append(("", [c["strategy"], c["reference"], points, reward, *tested]))
    note = (
        "Paired on the same questions. In brackets the 95% interval of the difference from a bootstrap over questions, "
        "coloured where it excludes zero; the p-value is McNemar's exact one on the questions that only one of the two "
        "answers right, not corrected for the number of comparisons."
    )
    return ("pairs", "Who beats whom", noted(page.table(header, rows), note)) if rows else None


def learning(data: ReportData) -> Section | None:
    """Held-out figures against updates and against reasoner calls."""
    wanted = [
        ("dev_reward", "reward", "update", "policy updates"),
        ("dev_reward", "reward", "reasoner_calls", "reasoner calls spent"),
        ("dev_accuracy", "accuracy", "update", "policy updates"),
        ("dev_accuracy", "accuracy", "reasoner_calls", "reasoner calls spent"),
        ("dev_tools", "tools a question", "update", "policy updates"),
    ]
    panels = []
    for y, y_label, x, x_label in wanted:
        lines = [Line(run.name, *run.series(y, x), style=i) for i, run in enumerate(data.learners)]
        if any(line.x for line in lines):
            panels.append(Panel(f"{y_label.capitalize()} on dev", x_label, f"mean {y_label}", lines))
    entropy = [Line(run.name, *smooth(*run.series("entropy")), style=i) for i, run in enumerate(data.learners)]
    if any(line.x for line in entropy):
        panels.append(Panel("Entropy over the actions", "policy updates", "nats", entropy, y_limits=(0, None)))
    caption = (
        "Measured on the dev split, from which the checkpoint is chosen too; the comparison above is on other "
        "questions. The first updates are the format warm-up, which prefers no subset. An exact learner pays for its "
        "table of outcomes before the first update and nothing afterwards, so against reasoner calls its curve stands "
        f"upright. Entropy: running mean over {SMOOTHED_OVER} updates; of the distribution over the candidates for an "
        "exact learner, of its completions for a sampler."
    )
    if not panels:
        return None
    return "learning", "Learning curves", page.figure(figure("learning", panels, "Learning curves"), caption)


def dead_groups(data: ReportData) -> Section | None:
    """Dead groups while learning and by group size."""
    panels, series = [], []
    for i, run in enumerate(data.learners):
        series.append(Line(f"{run.name}, closed form", *run.series("dev_dead_group_rate"), style=i))
        series.append(Line(f"{run.name}, observed", *smooth(*run.series("observed_dead")), style=i, faint=True))
    if any(line.x for line in series):
        panels.append(Panel("While learning", "policy updates", "share of groups", series, y_limits=(-0.02, 1.02)))
    rates = {run.name: run.dead_groups for run in data.learners if run.dead_groups} | dict(data.dead_groups)
    if rates:
        grid = [Line(name, list(r), list(r.values()), style=i) for i, (name, r) in enumerate(rates.items())]
        sizes = sorted({size for rate in rates.values() for size in rate})
        panels.append(Panel("By group size", "group size G", "share of groups", grid, (-0.02, 1.02), x_ticks=sizes))
    if not panels:
        return None
    caption = (
        "A group of G sampled completions is dead if all earn the same reward: a group-relative learner gets no "
        "gradient from it. Closed form: Σ over reward classes of (probability of the class)^G, from the policy's own "
        "generation probabilities, malformed completions as one class. Observed: share of the groups sampled in "
        f"training, running mean over {SMOOTHED_OVER} updates. An exact learner samples no groups; its curve says what "
        "a sampler would meet. By group size: the closed form on the evaluated questions."
    )
    return "dead-groups", "Dead groups", page.figure(figure("dead", panels, "Dead-group rates"), caption)


def valid_mass(data: ReportData) -> Section | None:
    """Probability that free generation writes an action."""
    lines = []
    for i, run in enumerate(data.learners):
        lines.append(Line(f"{run.name}, dev", *run.series("dev_valid_mass"), style=i))
        lines.append(Line(f"{run.name}, train", *run.series("valid_mass"), style=i, faint=True))
    if not any(line.x for line in lines):
        return None
    panel = Panel("Mass on valid strings", "policy updates", "probability", lines, y_limits=(-0.02, 1.02))
    caption = (
        "Probability that free generation writes any of the action strings. The exact objective sees only ratios "
        "between them: if this curve falls, choosing among candidates still works and free generation does not."
    )
    drawing = figure("mass", [panel], "Generation mass on valid strings", columns=1)
    return "valid-mass", "Can the policy still write an action?", page.figure(drawing, caption)


def families(data: ReportData) -> Section | None:
    """Accuracy and the called subsets per family."""
    strategies, own = data.evaluation["strategies"], _own(data)
    names = list(dict.fromkeys(family for s in strategies.values() for family in s.get("families", {})))
    if not names:
        return None
    sizes = next(iter(strategies.values()))["families"]
    rows: Rows = []
    for name, s in strategies.items():
        shares = [s["families"][family]["accuracy"] for family in names]
        rows.append(("own" if name in own else "", [name, *(page.heat_cell(a, percent(a)) for a in shares)]))
    labels = [_breakable(family) for family in names]
    header = ["strategy", *(Html(f"{label} ({sizes[f]['n']})") for f, label in zip(names, labels, strict=True))]
    parts = [tag("h3", "Accuracy"), page.table(header, rows, class_="heat")]
    for name in own:
        parts += [tag("h3", f"Subsets that {name} calls"), _subset_map(strategies[name]["families"], names)]
    note = "In brackets the number of questions; shade and percentage are shares of a family's questions."
    return "families", "Families of questions", noted(Html("".join(parts)), note)


def _subset_map(by_family: Mapping[str, Any], names: Sequence[str], most: int = 12) -> Html:
    total: dict[str, int] = {}
    for family in names:
        for subset, questions in by_family[family]["subsets"].items():
            total[subset] = total.get(subset, 0) + questions
    subsets = sorted(total, key=lambda subset: (-total[subset], subset))
    rows: Rows = []
    for subset in subsets[:most]:
        shares = [by_family[family]["subsets"].get(subset, 0) / by_family[family]["n"] for family in names]
        rows.append(("", [subset, *(page.heat_cell(share, percent(share) if share else "·") for share in shares)]))
    left = sum(total[subset] for subset in subsets[most:])
    if left:
        rest = f"{len(subsets) - most} other subsets, {left} questions together"
        rows.append(("", [rest, *[""] * len(names)]))
    return page.table(["tools", *map(_breakable, names)], rows, class_="heat")


def spent(data: ReportData) -> Section | None:
    """What learning cost."""
    note = "The format warm-up is part of the updates, seconds and tokens; evaluation on dev is part of the seconds."
    table = spent_table(data.learners)
    return ("spent", "What learning spent", noted(table, note)) if table is not None else None


def examples(data: ReportData) -> Section | None:
    """Questions that the choice of tools decided."""
    parts = []
    for e in data.examples:
        word = tag("span", e.kind, class_="good" if e.kind == "rescued" else "bad")
        about = (
            f"{e.family}, {e.id}: {e.strategy} calls {' + '.join(e.tools) or 'no tool'}; answers "
            f"{e.answer_with or 'unreadably'} instead of {e.answer_without or 'unreadably'}"
        )
        shown = [("Question", e.question), *((block.get("title", ""), block.get("text", "")) for block in e.evidence)]
        body = [part for title, text in shown for part in (tag("h3", title), tag("pre", text))]
        parts.append(tag("details", tag("summary", word, " ", tag("span", about, class_="muted")), *body))
    note = "Rescued: right with the evidence of the chosen tools, wrong without any. Broken: the other way round."
    return ("examples", "Questions that the tools decided", noted(Html("".join(parts)), note)) if parts else None


def failures(data: ReportData) -> Section | None:
    """Questions without an outcome."""
    wrapped = "text-align:left;white-space:normal"
    rows: Rows = [
        ("", [failure["strategy"], failure["id"], tag("td", failure["error"], style=wrapped)])
        for failure in data.evaluation.get("failures") or []
    ]
    return ("failures", "Failed questions", page.table(["strategy", "question", "error"], rows)) if rows else None


def made_with(data: ReportData) -> Section | None:
    """Configurations and versions."""
    parts = made_with_parts({"the run": data.config} | {run.name: run.config for run in data.learners}, data.versions)
    return ("made-with", "How it was made", parts) if parts else None


SECTIONS = (
    comparison,
    pairs,
    learning,
    dead_groups,
    valid_mass,
    families,
    spent,
    examples,
    failures,
    made_with,
)


def _own(data: ReportData) -> list[str]:
    """Strategies that are measured, as opposed to references."""
    return [name for name in data.evaluation["strategies"] if name not in REFERENCES]


def _breakable(name: str) -> Html:
    """A name that may be broken after each underscore: column heads are narrow."""
    return Html(page.escape(name).replace("_", "_<wbr>"))
