"""An agent's episodes of conversations beside those of references: as JSON, and as a table.

Success is a suite's verdict, or has three definitions (`success_process`, `success_combined`, `success_name`); each is
a share of all tasks with Wilson's interval. Scores, turns, calls and tokens are means by episode; the same by kind of
task where the environment tells kinds. A task that failed or was not scored counts as not solved and 0, and is listed:
the denominator is always all tasks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from ..agents.base import Agent
from ..agents.chat_baselines import DoNothingAgent, GoldAgent, RandomCallsAgent
from ..agents.episode import holds_call
from ..agents.watching import Watcher, tell, watching
from ..envs.spaces import ChatMessages
from ..errors import InfrastructureError, RunError, UsageError
from ..runs import read_jsonl, write_json
from .stats import bootstrap_mean, wilson

if TYPE_CHECKING:
    from rich.console import Console

    from ..agents.trajectory import Trajectory

#: Rewards that are shares of tasks; the others are scores.
SUCCESSES = ("success", "success_process", "success_combined", "success_name")
SCORES = ("total", "process", "summary")
SHOWN_FAILURES = 10
#: what a user may call references of conversations, as in `toolcredit bench run`
ALIASES = {"nothing": "do_nothing", "random": "random_calls"}


@dataclass(frozen=True)
class ChatRecord:
    """One agent on one task.

    Attributes:
        id: the task.
        rewards: the environment's components; None where not scored.
        turns: assistant turns.
        calls: that were answered, by a tool or by an error in its place; one for a turn whose calls were not.
        ending: `terminated` or why the episode was cut; "" if it failed.
        error: why it failed, None if it did not.
        tokens: that were sampled; None if the agent does not say.
        kinds: of the task, e.g. its category, where the environment tells them.
        messages: the conversation.
    """

    id: str
    rewards: dict[str, float | None] = field(default_factory=dict)
    turns: int = 0
    calls: int = 0
    ending: str = ""
    error: str | None = None
    tokens: int | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    messages: tuple[dict[str, Any], ...] = ()


def is_chat(env: gym.Env) -> bool:
    """Whether agents hold conversations with `env`, instead of choosing among a bandit's actions."""
    return isinstance(env.observation_space, ChatMessages)


def play(
    env: gym.Env,
    agent: Agent,
    limit: int | None = None,
    on_task: Watcher | None = None,
) -> list[ChatRecord]:
    """The agent's episodes of the tasks of `env`, in their order; learners that can play them all at once do so.

    Args:
        env: a chat environment.
        agent: is bound to it.
        limit: at most so many tasks, taken evenly from all of them.
        on_task: told how many tasks of how many are played; None leaves it to whoever is watching already.

    Raises:
        UsageError: the environment names no tasks.
    """
    tasks = list(getattr(env.unwrapped, "task_ids", ()))
    if limit is not None and limit < len(tasks):
        tasks = [tasks[i * len(tasks) // limit] for i in range(limit)]
    if not tasks:
        raise UsageError(f"{type(env.unwrapped).__name__} names no tasks (task_ids): nothing to measure a result on")
    agent.bind(env)
    with watching(on_task):
        if hasattr(agent, "play"):
            played, failed = agent.play(env, tasks)
            found = {t.task_id: _of_trajectory(t) for t in played}
            records = [found.get(task, ChatRecord(task, error=failed.get(task, "no result"))) for task in tasks]
        else:
            records = []
            for task in tasks:
                records.append(_episode(env, agent, task))
                tell(len(records), len(tasks))
    kinds: Callable[[str], Mapping[str, str]] = getattr(env.unwrapped, "task_kinds", lambda task: {})
    return [replace(record, kinds=dict(kinds(record.id))) for record in records]


def _of_trajectory(t: Trajectory) -> ChatRecord:
    return ChatRecord(
        t.task_id,
        dict(t.rewards),
        len(t.turns),
        t.answered_calls,
        t.finish_reason,
        tokens=int(t.trainable.sum()),
        messages=t.messages,
    )


def _episode(env: gym.Env, agent: Agent, task: str) -> ChatRecord:
    turns = calls = 0
    try:
        observation, info = env.reset(seed=0, options={"task_id": task})
        agent.reset(seed=0)
        terminated = truncated = False
        while not (terminated or truncated):
            known = len(observation)
            observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
            new = observation[known:]
            turns += 1
            calls += max(sum(message["role"] == "tool" for message in new), holds_call(new, info))
    except InfrastructureError as failure:  # of the agent's model, or of a user who speaks first
        return ChatRecord(task, turns=turns, calls=calls, error=f"{type(failure).__name__}: {failure}")
    error = json.dumps(info["error"]) if info.get("error") else None
    ending = "terminated" if terminated else str(info.get("reason") or "truncated")
    rewards = dict(info.get("rewards") or {})
    return ChatRecord(task, rewards, turns, calls, ending, error, messages=tuple(observation))


def measured(records: Iterable[ChatRecord]) -> list[str]:
    """What there is to report: a suite's one verdict, or the successes and scores that were scored at all."""
    known = {name for record in records for name in record.rewards}
    names = [name for name in (*SUCCESSES, *SCORES) if name in known]
    return names[:1] if names[:1] == ["success"] else names


def summarise(records: Sequence[ChatRecord], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Success with intervals, mean scores with bootstrap intervals, turns, calls, tokens, what failed, and by kind.

    The interval of a score is None where all tasks have the same one, see `Estimate.interval`.

    Args:
        records: all tasks.
        names: what to report, by default what `measured` finds.
    """
    n = len(records)
    names = measured(records) if names is None else names
    summary: dict[str, Any] = {"n": n}
    for name in names:
        values = [record.rewards.get(name) or 0.0 for record in records]
        if name in SUCCESSES:
            summary[name] = {"rate": sum(values) / n, "ci": list(wilson(sum(values), n))}
        else:
            estimate = bootstrap_mean(values)
            summary[name] = {"mean": estimate.mean, "ci": estimate.interval}
    summary["turns"] = sum(record.turns for record in records) / n
    summary["calls"] = sum(record.calls for record in records) / n
    counted = [record.tokens for record in records if record.tokens is not None]
    if counted:
        summary["tokens"] = sum(counted) / len(counted)
    summary["cut"] = sum(record.ending not in ("terminated", "") for record in records)
    summary["failed"] = sum(record.error is not None for record in records)
    summary["kinds"] = _by_kind(records, names)
    return summary


def _by_kind(records: Sequence[ChatRecord], names: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Kind, e.g. `category`, to its values to `n` and the means of rewards; what was not scored counts 0."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for kind in dict.fromkeys(kind for record in records for kind in record.kinds):
        for value in sorted({record.kinds[kind] for record in records if kind in record.kinds}):
            own = [record for record in records if record.kinds.get(kind) == value]
            means = {name: sum(record.rewards.get(name) or 0.0 for record in own) / len(own) for name in names}
            found.setdefault(kind, {})[value] = {"n": len(own), **means}
    return found


def references(env: gym.Env) -> dict[str, Agent]:
    """Floors and, where the environment tells its gold plans, the ceiling."""
    found: dict[str, Agent] = {"do_nothing": DoNothingAgent(), "random_calls": RandomCallsAgent()}
    return found | ({"gold": GoldAgent()} if hasattr(env.unwrapped, "gold") else {})


def measure(
    name: str,
    own: Sequence[ChatRecord],
    split: str,
    env: gym.Env,
    training: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Episodes of an agent beside those of the references on the same tasks, as plain JSON.

    Args:
        name: of the agent; a reference of that name is not played again.
        own: its episodes.
        split: of the tasks.
        env: what the references play.
        training: of a run, what it took.
        limit: as `play` was given.
    """
    others = {n: agent for n, agent in references(env).items() if n != ALIASES.get(name, name)}
    played = {name: own} | {other: play(env, agent, limit) for other, agent in others.items()}
    names = measured(record for records in played.values() for record in records)
    is_ceiling = {name: ALIASES.get(name, name) == "gold"} | {n: agent.ceiling for n, agent in others.items()}
    strategies = {n: {**summarise(records, names), "ceiling": is_ceiling[n]} for n, records in played.items()}
    failures = [{"id": record.id, "error": record.error} for record in own if record.error is not None]
    result = {"split": split, "n": len(own), "strategies": strategies, "failures": failures}
    return result if training is None else {**result, "training": {name: dict(training)}}


def read_records(path: Path) -> list[ChatRecord]:
    """The held-out episodes that a finished run wrote.

    Raises:
        RunError: the run has not finished.
    """
    if not path.is_file():
        raise RunError(f"{path.parent} has not played the held-out tasks yet: continue it with --resume")
    return [ChatRecord(**record | {"messages": tuple(record.get("messages", ()))}) for record in read_jsonl(path)]


def record_lines(records: Sequence[ChatRecord]) -> str:
    """The records as JSONL."""
    return "".join(json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records)


def write_result(result: Mapping[str, Any], out: Path) -> None:
    """Write `result.json`."""
    write_json(out / "result.json", dict(result))


def print_result(result: Mapping[str, Any], out: Path | None = None) -> None:
    """The comparison as a table, and what the training took."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown = Table(title=f"{result['n']} tasks of the split {result['split']}")
    strategies = result["strategies"]
    shown.add_column("")
    for name, s in strategies.items():
        shown.add_column(f"{name} (ceiling)" if s["ceiling"] else name, justify="right")
    first = next(iter(strategies.values()))
    names = [name for name in (*SUCCESSES, *SCORES) if name in first]
    for name in names:
        shown.add_row(name.replace("_", " "), *(_with_interval(s[name]) for s in strategies.values()))
    for counted in ("turns", "calls", "tokens"):
        means = [f"{s[counted]:.2f}" if counted in s else "" for s in strategies.values()]
        shown.add_row(f"{counted} per task", *means)
    for listed in ("cut", "failed"):
        shown.add_row(f"{listed} tasks", *(str(s[listed]) for s in strategies.values()))
    categories = first["kinds"].get("category", {})
    if len(categories) > 1 and names:
        shown.add_row(f"{names[0].replace('_', ' ')} of:", *("" for _ in strategies))
    for value, own in categories.items() if len(categories) > 1 and names else ():
        rates = [f"{s['kinds']['category'][value][names[0]]:.3f}" for s in strategies.values()]
        shown.add_row(f"  {value} ({own['n']})", *rates)
    console.print(shown)
    for failure in result["failures"][:SHOWN_FAILURES]:
        console.print(f"failed: {failure['id']}: {failure['error']}", markup=False, highlight=False)
    print_training(result.get("training", {}), console)
    if out is not None:
        console.print(f"report: {out / 'report.html'}", highlight=False)


def print_training(trainings: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """What each training took, a line each."""
    for name, training in trainings.items():
        spent = ", ".join(f"{value:,.0f} {key.replace('_', ' ')}" for key, value in training["spent"].items())
        console.print(f"{name}: {training['updates']} updates in {training['seconds']:.0f} s; {spent}", highlight=False)


def _with_interval(part: Mapping[str, Any]) -> str:
    value = part["rate"] if "rate" in part else part["mean"]
    if part["ci"] is None:
        return f"{value:.3f}"
    low, high = part["ci"]
    return f"{value:.3f} [{low:.2f},{high:.2f}]"  # breaks before the interval only
