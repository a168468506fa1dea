"""HierR: a score for the calls of an episode and one for its final reply, kept apart (arXiv 2609.29050).

Two channels, `process` (R_tool) and `summary` (R_sum), that segment-locked learners use each for its own tokens, and
their sum `total` for learners with one reward. The *omission guard* overrides both: who should have called a tool and
called none has R_tool = 0, R_sum = −0.5 and a total of −0.5.

`Success@0.9` has three definitions, each under its own name: `success_process` (the paper's text, the headline),
`success_combined` (mean of process and summary, in the published code) and `success_name` (Name F1, there too). All
compare with 0.9 − 1e-9: "half of the values wrong" is 0.9 by the formula, and floats put it at 0.8999….

An episode that a failure ended has no score at all. Everything is a pure function of a task and a transcript, both
plain JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ConfigError, TaskError
from .judging import Case, Judge, Verifier
from .matching import TOLERANCE
from .process import COMPONENTS, MODES, ProcessScore, Weights, make_weights, process_score, read_turns
from .published import read_text
from .summary import SummaryScore, make_judge, summary_score

OMISSION_PENALTY = -0.5
SUCCESS_THRESHOLD = 0.9
SUCCESSES = ("success_process", "success_combined", "success_name")


@dataclass(frozen=True)
class Report:
    """A score with its reasons.

    Attributes:
        rewards: all components; None for what was not scored.
        notes: what was not scored or overridden, and why; the judge's reasons.
        plan: index of the gold plan that was compared with; None without a score.
        points: the judge's rating, None if it was not asked or has none.
    """

    rewards: dict[str, float | None]
    notes: tuple[str, ...] = ()
    plan: int | None = None
    points: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON."""
        return {"rewards": self.rewards, "notes": list(self.notes), "plan": self.plan, "points": self.points}


class HierR:
    """Scores episodes; `scorer="hierr"` of the tool-calling environment.

    Args:
        mode: `default`, or `paper` for the published score (see `process`).
        weights: of the process score, see `process.make_weights`.
        judge: of final replies, see `summary.make_judge`.
        noise: probability with which a rating is replaced by a uniform draw.
        seed: of the noise.
        execution: None, or who says whether the task was solved (`"embedded"`, `"chat:MODEL"`, …): then R_tool is this
            verdict, 1 or 0, and the process score is reported as `matching`.
        process_weight: of R_tool in `total`; the paper's is 1.
        summary_weight: of R_sum in `total`, likewise. With 0 a summary that cannot be judged does not matter.

    Raises:
        ConfigError: an argument is out of range.
        UnknownNameError: an argument names what does not exist.

    Attributes:
        components: names of the entries of a score.
        identity: what the scores depend on, plain JSON.
        waits: whether a judge asks something outside the process.
    """

    def __init__(
        self,
        mode: str = "default",
        weights: str | Mapping[str, float] | Weights = "paper",
        judge: Any = "embedded",
        noise: float = 0.0,
        seed: int = 0,
        execution: Any = None,
        process_weight: float = 1.0,
        summary_weight: float = 1.0,
    ):
        if mode not in MODES:
            raise ConfigError(f"mode={mode!r}: expected one of {', '.join(MODES)}")
        for name, value in (("process_weight", process_weight), ("summary_weight", summary_weight)):
            if not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name}={value!r}: expected a number of at least 0")
        if not process_weight + summary_weight:
            raise ConfigError("process_weight and summary_weight are both 0: give one of them a positive value")
        self._mode, self._weights = mode, make_weights(weights)
        self._judge: Judge = make_judge(judge, noise, seed)
        self._verifier = None if execution is None else _verifier(execution)
        judges = (self._judge, self._verifier) if self._verifier is not None else (self._judge,)
        self.waits = any(getattr(judge, "waits", True) for judge in judges)
        self._process_weight, self._summary_weight = process_weight, summary_weight
        variant = ("matching", "solved") if self._verifier else ()
        self.components: tuple[str, ...] = (
            "process", "summary", "total", *SUCCESSES, "omitted", *COMPONENTS, "arg_match", *variant,
        )  # fmt: skip
        self.identity = {
            "reward": "hierr",
            "mode": mode,
            "weights": {name: getattr(self._weights, name) for name in COMPONENTS},
            "judge": self._judge.identity,
            "execution": self._verifier and self._verifier.identity,
            "channel_weights": [process_weight, summary_weight],
        }

    def __call__(self, task: Any, transcript: Mapping[str, Any]) -> dict[str, float | None]:
        """The components of the episode's score, see `explain`."""
        return self.explain(task, transcript).rewards

    def explain(self, task: Any, transcript: Mapping[str, Any]) -> Report:
        """The episode's score and the reasons for it.

        Args:
            task: the task as it was shown: its JSON, or an object with `to_json()`.
            transcript: the record of the episode.

        Raises:
            TaskError: the task or the transcript lacks something.
        """
        plain = task if isinstance(task, Mapping) else task.to_json()
        try:
            return self._explain(plain, transcript)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise TaskError(
                f"task {plain.get('id')!r} cannot be scored: it or its transcript has a missing or misshapen field "
                f"({type(error).__name__}: {error})"
            ) from None

    def _explain(self, task: Mapping[str, Any], transcript: Mapping[str, Any]) -> Report:
        ending = transcript["ending"]
        if ending is None or ending["error"] is not None:
            why = "the episode did not end" if ending is None else f"a failure ended the episode: {ending['error']}"
            return Report(dict.fromkeys(self.components), (f"not scored: {why}",))
        match, omitted = self._match(task, transcript)
        if omitted:
            summary = SummaryScore(OMISSION_PENALTY, None, ("omission guard: a call was needed and none was made",))
            return self._report(match, summary, None, omitted=True)
        case = make_case(task, transcript)
        summary = summary_score(case, self._judge, self._mode)
        return self._report(match, summary, case, omitted=False)

    def call_rewards(self, task: Any, transcript: Mapping[str, Any]) -> dict[str, float | None]:
        """The components that the calls alone decide; `process` is None where a verdict on the answers decides it.

        Args:
            task: as in `explain`.
            transcript: of which `turns` and `tools` are read; what the tools answered does not matter.
        """
        plain = task if isinstance(task, Mapping) else task.to_json()
        match, omitted = self._match(plain, transcript)
        process = None if self._verifier is not None and not omitted else match.process
        components = {name: getattr(match, name) for name in (*COMPONENTS, "arg_match")}
        return {"process": process, "omitted": float(omitted), **components}

    def _match(self, task: Mapping[str, Any], transcript: Mapping[str, Any]) -> tuple[ProcessScore, bool]:
        """The process score under the omission guard, and whether the guard overrode it."""
        if self._mode == "paper":
            attempt = read_text("\n".join(turn["text"] for turn in transcript["turns"]), transcript["tools"])
        else:
            attempt = read_turns(transcript["turns"], transcript["tools"])
        match = process_score(
            attempt, task["plans"], gold_kind=task["gold_kind"], weights=self._weights, mode=self._mode
        )
        omitted = bool(task["plans"][0]) and not attempt.attempted
        return (replace(match, process=0.0) if omitted else match), omitted

    def _report(self, match: ProcessScore, summary: SummaryScore, case: Case | None, omitted: bool) -> Report:
        notes = (*match.notes, *summary.reasons)
        process: float | None = match.process
        rewards: dict[str, float | None] = {}
        if self._verifier is not None:
            solved, reasons = (False, ()) if case is None else _verdict(self._verifier, case)
            process = None if solved is None else float(solved)
            rewards = {"matching": match.process, "solved": process}
            notes = (*notes, *reasons)
        rewards |= {"process": process, "summary": summary.score, "omitted": float(omitted)}
        rewards |= {name: getattr(match, name) for name in (*COMPONENTS, "arg_match")}
        rewards["total"] = OMISSION_PENALTY if omitted else self._total(process, summary.score)
        combined = None if summary.score is None else (match.process + summary.score) / 2
        for name, value in zip(SUCCESSES, (match.process, combined, match.name), strict=True):
            rewards[name] = None if value is None else float(is_success(value))
        return Report({name: rewards[name] for name in self.components}, notes, match.plan, summary.points)

    def _total(self, process: float | None, summary: float | None) -> float | None:
        parts = [(self._process_weight, process), (self._summary_weight, summary)]
        if any(weight and value is None for weight, value in parts):
            return None
        return sum(weight * value for weight, value in parts if value is not None)


def is_success(score: float, threshold: float = SUCCESS_THRESHOLD) -> bool:
    """Whether a score reaches the threshold, up to 1e-9."""
    return score >= threshold - TOLERANCE


def make_case(task: Mapping[str, Any], transcript: Mapping[str, Any]) -> Case:
    """What a judge sees of an episode. The reply is that of the last turn, if the episode ended with one."""
    calls = [call for step in task["plans"][0] for call in step]
    turns = transcript["turns"]
    answers = [
        {"tool": call["name"], "arguments": call["arguments"], "answer": _response(call)}
        for turn in turns
        for call in turn["calls"]
        if call["status"] != "not_run"
    ]
    facts = [{**fact, "tool": None if fact["call"] is None else calls[fact["call"]]["name"]} for fact in task["facts"]]
    said = [message["content"] for message in task["messages"] if message["role"] == "user"]
    return Case(
        question="\n".join(said),
        answers=tuple(answers),
        reply=turns[-1]["reply"] if transcript["ending"]["terminated"] and turns else "",
        facts=tuple(facts),
        abstains=not calls,
        asks=bool(task["missing"]),
        nonce=transcript.get("nonce", 0),
    )


def _response(call: Mapping[str, Any]) -> Any:
    """What a call got back: the tool's answer, or the problems that stopped it."""
    if call["status"] != "invalid":
        return call["answer"]
    return {"error": {"code": "invalid_call", "message": "; ".join(problem["message"] for problem in call["problems"])}}


def _verifier(spec: Any) -> Verifier:
    judge = make_judge(spec)
    if not isinstance(judge, Verifier):
        raise ConfigError(f"execution={spec!r}: expected a judge with solved(case) -> Verdict, such as 'embedded'")
    return judge


def _verdict(verifier: Verifier, case: Case) -> tuple[bool | None, tuple[str, ...]]:
    verdict = verifier.solved(case)
    return verdict.solved, verdict.reasons
