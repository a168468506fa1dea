"""BFCL as a suite: the single-turn and multi-turn categories of V3 and V4, played and scored.

Where the official package came with the data, its checkers give the verdict and our own scorer stands beside it, with
every disagreement listed; on data alone our own scorer gives the verdict.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import UnknownNameError
from ...runs import write_json
from ..chat_agents import Scripted
from ..suite import Attempt, ChatAgent, Message, Outcome, Score, Selection, Suite, SuiteTask, TaskContext, Turn
from .aggregates import aggregates
from .calls import Verdict
from .categories import VERSIONS
from .convert import openai_tools, system_prompt, with_system_prompt
from .data import Entry, open_dataset
from .gold import gold_reply, gold_turns
from .multi_turn import play, read_turns, score_turns
from .official import Official, load_official
from .references import Nothing, Random
from .replies import read_reply
from .result_files import Answer, read_results, write_results
from .scorer import score_reply

MODES = ("fc", "prompting")
SCORERS = ("both", "official", "own")


class BFCL(Suite):
    """The Berkeley Function Calling Leaderboard.

    Args:
        version: `v4` or `v3`; by default the version of the files in `source`, or `v4`.
        source: a folder of BFCL files or of the package `bfcl_eval`; by default the installed asset.
        mode: `fc` (functions as tools, calls as tool calls) or `prompting` (both as text).
        scorer: who gives the verdict: `official`, `own`, or `both`: the official verdict with ours beside it. By
            default `both` where the official package is there, else `own`.

    Raises:
        UnknownNameError: a mode, scorer or version does not exist.
        AssetError: the data are not installed, or the official checkers are wanted and not there.
        TaskError: the source holds no BFCL files.
    """

    name = "bfcl"
    aggregate_notes = {
        "v3_overall": "as in the official table a category that was not run counts as 0: only for complete runs",
        "v4_overall": "likewise; the agentic categories, 40 %, are not part of this suite and count as 0",
    }
    export_formats = ("bfcl", "disagreements")
    components = ("official", "own", "malformed")

    def __init__(
        self,
        version: str | None = None,
        source: str | None = None,
        mode: str = "fc",
        scorer: str | None = None,
    ):
        self.dataset = open_dataset(source, version)
        for kind, given, known in (("BFCL mode", mode, MODES), ("BFCL scorer", scorer or "own", SCORERS)):
            if given not in known:
                raise UnknownNameError(kind, given, known)
        self.mode, self._prompting = mode, mode == "prompting"
        self.scorer = scorer or ("both" if self.dataset.package else "own")
        if self.scorer != "own":
            load_official(self.dataset)  # refuse now what cannot be scored later
        categories = self.dataset.version.categories.values()
        self.groups = {
            "single_turn": [c.name for c in categories if c.group != "multi_turn"],
            **{group: [c.name for c in categories if c.group == group] for group in ("non_live", "live", "multi_turn")},
        }

    @cached_property
    def _package(self) -> Official:
        return load_official(self.dataset)

    @property
    def identity(self) -> dict[str, Any]:
        """The release, hashes of its data and checkers, of the prompt, the mode and who scores."""
        package = self.dataset.package
        return {
            "version": self.dataset.version.name,
            "data": self.dataset.sha256,
            "checkers": None if package is None else _hash_of_code(package),
            "prompt": hashlib.sha256(system_prompt((), version=self.dataset.version.name).encode()).hexdigest(),
            "mode": self.mode,
            "scorer": self.scorer,
        }

    def tasks(self, selection: Selection) -> Sequence[SuiteTask]:
        """The entries of the wanted categories whose files are there.

        Raises:
            AssetError, MissingExtraError: multi-turn categories are wanted and their simulators cannot be run.
        """
        wanted = [category for category in self.dataset.categories if selection.wants(category.name)]
        ids = set(selection.ids or ())
        entries = self.dataset.entries([category.name for category in wanted])
        if any(entry.kind.kind == "multi_turn" and (not ids or entry.id in ids) for entry in entries):
            self._package.load_apis()
        return [SuiteTask(entry.id, entry.category, entry.to_payload()) for entry in entries]

    def episode(self, task: SuiteTask, context: TaskContext) -> Generator[Turn, Message, Outcome]:
        """One message for a single-turn entry; for a multi-turn entry as many as it takes."""
        entry = Entry.from_payload(dict(task.payload))
        if entry.kind.kind == "multi_turn":
            played = yield from play(entry, self._package, self._prompting)
            return Outcome({"turns": played.turns, "forced_stop": played.forced_stop}, played.transcript)
        messages = [dict(message) for message in entry.turns[0]]
        language, tools = entry.kind.language, []
        if self._prompting:
            messages = with_system_prompt(messages, system_prompt(entry.functions, language, entry.version))
        else:
            tools = openai_tools(entry.functions, language)
        given = yield messages, tools
        message = {"role": "assistant", **{key: given[key] for key in ("content", "tool_calls") if given.get(key)}}
        return Outcome({"message": message}, [*messages, message])

    def limit(self, outcome: Outcome) -> str | None:
        """`steps`: a user's turn took more than twenty."""
        return "steps" if outcome.output.get("forced_stop") else None

    def split_key(self, task: SuiteTask) -> str:
        """Entries about the same functions, and the four versions of a multi-turn entry, stay together."""
        if task.payload.get("initial_config") is not None:
            return task.id.rpartition("_")[2]
        return " ".join(sorted(doc["name"] for doc in task.payload["functions"]))

    def gold(self, task: SuiteTask) -> list[Message]:
        """The ground truth, see `gold`; a multi-turn entry has a message without calls after each turn."""
        entry = Entry.from_payload(dict(task.payload))
        if entry.kind.kind != "multi_turn":
            return [gold_reply(entry, self._prompting)]
        return [message for turn in gold_turns(entry, self._prompting) for message in turn]

    def score(self, task: SuiteTask, outcome: Outcome) -> Score:
        """The verdicts; metrics say who agrees, and whether calls were attempted that cannot be read."""
        entry = Entry.from_payload(dict(task.payload))
        if entry.kind.kind == "multi_turn":
            verdicts, malformed = self._score_turns(entry, outcome.output)
        else:
            names = [doc["name"] for doc in entry.functions]
            reply = read_reply(outcome.output["message"], self._prompting, entry.kind.language, names)
            malformed = int(reply.malformed is not None)
            verdicts = {}
            if self.scorer != "own":
                verdicts["official"] = self._package.check(entry, reply, self._prompting)
            if self.scorer != "official":
                verdicts["own"] = score_reply(entry, reply, self._prompting)
        first = next(iter(verdicts.values()))
        metrics: dict[str, float | None] = {name: float(verdict.valid) for name, verdict in verdicts.items()}
        if len(verdicts) == 2:
            metrics["agree"] = float(verdicts["official"].valid == verdicts["own"].valid)
        detail = {name: {"error": v.error, "detail": v.detail} for name, v in verdicts.items() if not v.valid}
        return Score(first.valid, {**metrics, "malformed": float(malformed > 0)}, detail)

    def _score_turns(self, entry: Entry, output: dict[str, Any]) -> tuple[dict[str, Verdict], int]:
        calls, malformed = read_turns(entry, output["turns"], self._prompting)
        if output["forced_stop"]:
            stopped = Verdict(False, "forced_stop", "a turn took more than 20 steps")
            names = {"both": ("official", "own")}.get(self.scorer, (self.scorer,))
            return dict.fromkeys(names, stopped), malformed
        verdicts = {}
        if self.scorer != "own":
            verdicts["official"] = self._package.check_turns(entry, calls)
        if self.scorer != "official":
            verdicts["own"] = score_turns(entry, calls, self._package)
        return verdicts, malformed

    def reference(self, name: str, task: SuiteTask, context: TaskContext) -> ChatAgent:
        """`gold`, `nothing` or `random`."""
        if name == "gold":
            return Scripted(self.gold(task))
        if name == "nothing":
            return Nothing()
        if name == "random":
            return Random(Entry.from_payload(dict(task.payload)), self._prompting, context.seed)
        raise UnknownNameError("reference of bfcl", name, self.references)

    def aggregate(self, attempts: Sequence[Attempt]) -> dict[str, float | None]:
        """The published overall scores and their parts, see `aggregates`."""
        counts: dict[str, tuple[int, int]] = {}
        for attempt in attempts:
            right, n = counts.get(attempt.task.category, (0, 0))
            counts[attempt.task.category] = right + attempt.success, n + 1
        found = aggregates(counts, self.dataset.version)
        return {name: value for name, value in found.items() if name != "micro"}

    def export(self, format: str, attempts: Sequence[Attempt], folder: Path) -> list[Path]:
        """`bfcl`: result files for the official `evaluate`; `disagreements`: where the two scorers differ."""
        if format == "disagreements":
            file = folder / "disagreements.json"
            write_json(file, disagreements(attempts))
            return [file]
        if format != "bfcl":
            raise UnknownNameError("export format of bfcl", format, self.export_formats)
        entries = {entry.id: entry for entry in self.dataset.entries({a.task.category for a in attempts})}
        written = []
        for trial in sorted({attempt.trial for attempt in attempts}):
            answers = {a.task.id: _answer(a.outcome) for a in attempts if a.trial == trial}
            model = "toolcredit" + ("" if self._prompting else "-FC") + (f"-trial{trial}" if trial else "")
            written += write_results(folder / "result", model, [entries[key] for key in answers], answers)
        return written

    def score_results(self, folder: str | Path) -> list[Attempt]:
        """The attempts that a model's official result files hold, scored; entries that are not there are left out."""
        answers = read_results(folder, VERSIONS[self.dataset.version.name])
        categories = {self.dataset.version.category_of(entry_id).name for entry_id in answers}
        attempts = []
        for task in self.tasks(Selection(categories=tuple(categories))):
            if task.id in answers:
                outcome = _outcome(answers[task.id])
                attempts.append(Attempt(task, 0, "completed", self.score(task, outcome), outcome=outcome))
        return attempts


def disagreements(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """The attempts on which the official checker and our own scorer differ, with the reasons of the one against."""
    return [
        {"task": a.task.id, "trial": a.trial, "official": bool(a.metric("official")), "own": bool(a.metric("own"))}
        | {"reasons": dict(a.score.detail)}
        for a in attempts
        if a.score is not None and a.metric("agree") == 0
    ]


def _answer(outcome: Outcome | None) -> Answer | None:
    if outcome is None:
        return None
    return outcome.output["message"] if "message" in outcome.output else outcome.output["turns"]


def _outcome(answer: Answer) -> Outcome:
    if isinstance(answer, dict):
        return Outcome({"message": answer})
    return Outcome({"turns": answer, "forced_stop": False})


def _hash_of_code(package: Path) -> str:
    """One hash over the checkers and simulators in use."""
    found = hashlib.sha256()
    for part in ("ast_eval", "multi_turn_eval"):
        for file in sorted((package / "eval_checker" / part).rglob("*.py")):
            found.update(f"{file.relative_to(package).as_posix()}\0".encode() + file.read_bytes())
    return found.hexdigest()
