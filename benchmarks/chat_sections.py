"""The tables and transcripts of the report on conversations. Each function gives (anchor, title, content), or None."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import page
from .cells import (
    Rows,
    Section,
    count,
    difference,
    made_with_parts,
    noted,
    number,
    p_value,
    percent,
    spent_table,
)
from .held_out_chat import SCORES, SUCCESSES, ChatRecord
from .page import Html, tag
from .stats import bootstrap_mean, mcnemar

if TYPE_CHECKING:
    from .chat_report import ChatRun

Runs = Sequence["ChatRun"]

_ABOUT = {
    "do_nothing": "calls nothing and says nothing",
    "random_calls": "valid calls of random tools",
    "gold": "replays the gold plan, which no agent knows",
}
#: Episodes that the page shows, and characters of one message of theirs.
_EPISODES, _CHARACTERS = 8, 4_000


def verdict(runs: Runs) -> str:
    """The result in a sentence or two for each run."""
    sentences = []
    for run in runs:
        if not run.episodes:
            sentences.append(f"{run.name} has not finished: {_updates(run)} updates so far.")
            continue
        tasks = f"{len(run.episodes)} " + (f"tasks of the split {run.split}" if run.split else "held-out tasks")
        effort = f"with {run.own['turns']:.2f} turns and {run.own['calls']:.2f} calls a task"
        success = _success(run.own)
        if success:
            low, high = map(percent, run.own[success]["ci"])
            share = percent(run.own[success]["rate"])
            sentences.append(f"{run.name} solves {share} of the {tasks} (95% interval {low} to {high}) {effort}.")
        else:
            sentences.append(f"{run.name} earns {run.own['total']['mean']:.3f} on the {tasks} on average, {effort}.")
    return " ".join(sentences)


def comparison(runs: Runs) -> Section | None:
    """The runs and the references, one column each."""
    strategies, colours = _strategies(runs)
    if not strategies:
        return None
    header: list[object] = [""]
    for name, s in strategies.items():
        mark = tag("span", "ceiling", class_="tag") if s["ceiling"] else ""
        style = f"color:{colours[name]}" if name in colours else ""
        header.append(tag("span", name, mark, style=style, title=_ABOUT.get(name, "")))
    measured = list(strategies.values())
    known = [name for name in (*SUCCESSES, *SCORES) if any(name in s for s in measured)]
    rows: Rows = [("", [_words(name), *(_measured(s, name) for s in measured)]) for name in known]
    for name, spec in (("turns", ".2f"), ("calls", ".2f"), ("tokens", ".0f")):
        rows.append(("", [f"{name} a task", *(number(s.get(name), spec) for s in measured)]))
    rows += [("", [f"{name} tasks", *(s[name] for s in measured)]) for name in ("cut", "failed")]
    note = (
        "Every task once, decoded greedily. Solved: at least 0.9 by the process score, by the mean of process and "
        "summary, by Name F1. Below, 95% intervals: Wilson's for shares, a bootstrap over tasks for scores. A task "
        "that failed or was not scored counts as not solved and 0. Turns, answered calls and sampled tokens are means "
        "by task; cut: tasks that a limit ended."
    )
    return "comparison", "Held-out tasks", noted(page.table(header, rows), f"{note}{_about_references(runs)}")


def pairs(runs: Runs) -> Section | None:
    """Paired differences between runs that were measured on the same tasks."""
    rows: Rows = []
    for a, b in itertools.combinations([run for run in runs if run.episodes], 2):
        if [e.id for e in a.episodes] != [e.id for e in b.episodes]:
            continue
        estimate = bootstrap_mean([_reward(x, "total") - _reward(y, "total") for x, y in _zipped(a, b)])
        cells: list[object] = [a.name, b.name, difference(estimate, "+.3f")]
        success = _success(a.own)
        if success and success in b.own:
            test = mcnemar(*([_reward(e, success) > 0 for e in run.episodes] for run in (a, b)))
            points = bootstrap_mean([100 * (_reward(x, success) - _reward(y, success)) for x, y in _zipped(a, b)])
            cells += [difference(points, "+.1f")]
            cells += [count(test.first_only), count(test.second_only), p_value(test.p_value)]
        else:
            cells += ["–"] * 4
        rows.append(("", cells))
    header = ["run", "against", "total reward", "solved, points", "only it solves", "only the other", "McNemar p"]
    note = (
        "Paired on the same tasks. In brackets the 95% interval of the difference from a bootstrap over tasks, "
        "coloured where it excludes zero; the p-value is McNemar's exact one, not corrected for the number of "
        "comparisons. One run each: it says nothing about other seeds."
    )
    return ("pairs", "Which run is better", noted(page.table(header, rows), note)) if rows else None


def kinds(runs: Runs) -> Section | None:
    """Solved tasks by kind of task."""
    strategies, colours = _strategies(runs)
    success = _success(next(iter(strategies.values()), {}))
    if not success:
        return None
    parts: list[Html] = []
    for kind in dict.fromkeys(kind for s in strategies.values() for kind in s.get("kinds", {})):
        sizes = {
            value: s["n"] for own in strategies.values() for value, s in own.get("kinds", {}).get(kind, {}).items()
        }
        if len(sizes) < 2:
            continue
        rows: Rows = []
        for name, s in strategies.items():
            shares = [s.get("kinds", {}).get(kind, {}).get(value, {}).get(success) for value in sizes]
            cells = [tag("td", "–") if share is None else page.heat_cell(share, percent(share)) for share in shares]
            rows.append(("own" if name in colours else "", [name, *cells]))
        header = ["strategy", *(f"{value} ({n})" for value, n in sizes.items())]
        parts += [tag("h3", f"By {_words(kind)}"), page.table(header, rows, class_="heat")]
    note = f"Shares of the tasks that are solved by {_words(success)}; in brackets the number of tasks."
    return ("kinds", "Kinds of tasks", noted(Html("".join(parts)), note)) if parts else None


def spent(runs: Runs) -> Section | None:
    """What learning cost."""
    table = spent_table([run.learner for run in runs])
    note = (
        "Evaluation on dev is part of all of it. Trained and scored tokens are all that went through the model, "
        "prompts and padding too. Endpoint: completions of language models behind the environment, mocks and judges."
    )
    return ("spent", "What learning spent", noted(table, note)) if table is not None else None


def examples(runs: Runs) -> Section | None:
    """Held-out conversations: of each run some that it solved and some that it did not."""
    parts = []
    most = max(2, _EPISODES // max(len(runs), 1))
    for run in runs:
        success = _success(run.own)
        good = [e for e in run.episodes if e.messages and success and _reward(e, success) > 0]
        bad = [e for e in run.episodes if e.messages and e not in good]
        shown = [*good[: most // 2], *bad[: most - len(good[: most // 2])]]
        parts += [_episode(run.name, episode, episode in good) for episode in shown]
    note = "The first of each sort in the order of the tasks. Long messages are cut."
    return ("examples", "Conversations", noted(Html("".join(parts)), note)) if parts else None


def _episode(name: str, episode: ChatRecord, solved: bool) -> Html:
    word = tag("span", "solved" if solved else "not solved", class_="good" if solved else "bad")
    scores = {key: episode.rewards.get(key) for key in SCORES if key in episode.rewards}
    about = ", ".join(
        [f"{name}, {episode.id}", *(f"{value}" for value in episode.kinds.values())]
        + [f"{key} {number(value, '.2f')}" for key, value in scores.items()]
        + ([f"ended by {episode.ending}"] if episode.ending != "terminated" else [])
    )
    said: list[object] = []
    for message in episode.messages:
        who = str(message.get("role", ""))
        who += f" {message['name']}" if message.get("name") else ""
        said += [tag("h3", who), tag("pre", _cut(str(message.get("content") or "")))]
    return tag("details", tag("summary", word, " ", tag("span", about, class_="muted")), *said)


def failures(runs: Runs) -> Section | None:
    """Tasks without an outcome."""
    wrapped = "text-align:left;white-space:normal"
    rows: Rows = [
        ("", [run.name, episode.id, tag("td", episode.error, style=wrapped)])
        for run in runs
        for episode in run.episodes
        if episode.error is not None
    ]
    return ("failures", "Failed tasks", page.table(["run", "task", "error"], rows)) if rows else None


def made_with(runs: Runs) -> Section | None:
    """Configurations and versions."""
    versions: dict[str, str] = {}
    for run in runs:
        for package, version in run.versions.items():
            known = versions.get(package)
            versions[package] = version if known in (None, version) else f"{known}, {version}"
    parts = made_with_parts({run.name: run.learner.config for run in runs}, versions)
    return ("made-with", "How it was made", parts) if parts else None


RESULTS = (comparison, pairs, kinds)
DETAILS = (spent, examples, failures, made_with)


def _strategies(runs: Runs) -> tuple[dict[str, Mapping[str, Any]], dict[str, str]]:
    """What was measured of the finished runs and of the references of the first that has any; the runs' colours."""
    own = {run.name: run.own for run in runs if run.episodes}
    colours = {run.name: f"var(--s{i % 6})" for i, run in enumerate(runs) if run.episodes}
    references = next((run.references for run in runs if run.references), {})
    return own | dict(references), colours


def _about_references(runs: Runs) -> str:
    """What to know if the runs were not all measured on the same tasks."""
    measured = {tuple(episode.id for episode in run.episodes) for run in runs if run.episodes}
    return (
        "" if len(measured) < 2 else " The runs were measured on different tasks; the references are the first one's."
    )


def _success(measured: Mapping[str, Any]) -> str | None:
    """The first definition of success that was measured."""
    return next((name for name in SUCCESSES if name in measured), None)


def _measured(strategy: Mapping[str, Any], name: str) -> object:
    if name not in strategy:
        return "–"
    part = strategy[name]
    show = percent if "rate" in part else number
    value = show(part.get("rate", part.get("mean")))
    if part["ci"] is None:
        return tag("td", value)
    low, high = (show(end) for end in part["ci"])
    return tag("td", value, Html("<br>"), tag("span", f"{low} to {high}", class_="muted"))


def _reward(episode: ChatRecord, name: str) -> float:
    return episode.rewards.get(name) or 0.0


def _zipped(a: ChatRun, b: ChatRun) -> list[tuple[ChatRecord, ChatRecord]]:
    return list(zip(a.episodes, b.episodes, strict=True))


def _updates(run: ChatRun) -> int:
    return run.learner.metrics[-1]["update"] if run.learner.metrics else 0


def _words(name: str) -> str:
    return name.removeprefix("success_").replace("_", " ") + (" ≥ 0.9" if name.startswith("success_") else "")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]} …"
