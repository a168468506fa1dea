"""The official verdict on a dialogue, and the judge of what is asserted about it in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...envs.sgls.json_strict import StrictJsonError, load_prefix
from ..suite import ChatAgent, Message
from .dialogue import Dialogue
from .domains import Domain
from .endpoints import JUDGE
from .package import Package
from .replies import ReplyError

#: a dialogue that ended otherwise is worth 0
PROPER_ENDS = ("agent_stop", "user_stop")
_NOT_KEPT = {"timestamp", "cost", "usage", "raw_data"}


def record(dialogue: Dialogue, nl_checks: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """What `evaluate` needs of a dialogue, in plain JSON."""
    messages = [
        message.model_dump(mode="json", exclude_none=True, exclude=_NOT_KEPT) for message in dialogue.trajectory
    ]
    return {
        "messages": messages,
        "termination": dialogue.termination,
        "fault": dialogue.fault,
        "steps": dialogue.steps,
        "nl_checks": None if nl_checks is None else [dict(check) for check in nl_checks],
    }


def read_messages(package: Package, messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The messages of a record, as the package's own."""
    classes = {
        "system": package.messages.SystemMessage,
        "assistant": package.messages.AssistantMessage,
        "user": package.messages.UserMessage,
        "tool": package.messages.ToolMessage,
    }
    return [
        classes[message["role"]].model_validate({"timestamp": None, **message, "turn_idx": index})
        for index, message in enumerate(messages)
    ]


def evaluate(
    domain: Domain, task: Mapping[str, Any], played: Mapping[str, Any], solo: bool = False
) -> tuple[Any, list[str]]:
    """The official reward of a recorded dialogue, as `evaluate_simulation` combines it from the official evaluators.

    Args:
        domain: the task's.
        task: as its file has it.
        played: what `record` gave.
        solo: whether it was played in solo mode.

    Returns:
        The package's `RewardInfo`, and the gold actions that fail. The official code passes over those in silence: the
        state that the dialogue is compared with is the one without them.
    """
    package, parsed = domain.package, domain.parse(task)
    info = package.simulations.RewardInfo
    if played["termination"] not in PROPER_ENDS:
        note = f"Simulation terminated prematurely. Termination reason: {played['termination']}"
        return info(reward=0.0, reward_basis=None, info={"note": note}), []
    criteria = parsed.evaluation_criteria
    if criteria is None:
        return info(reward=1.0, reward_basis=None, info={"note": "No evaluation criteria"}), []
    messages = read_messages(package, played["messages"])
    constructor = _Constructor(domain)
    env = package.attribute("evaluator.evaluator_env:EnvironmentEvaluator").calculate_reward(
        environment_constructor=constructor, task=parsed, full_trajectory=messages, solo_mode=solo
    )
    action = package.attribute("evaluator.evaluator_action:ActionEvaluator").calculate_reward(parsed, messages)
    told = package.attribute("evaluator.evaluator_communicate:CommunicateEvaluator").calculate_reward(parsed, messages)
    judged = _judged(package, criteria, played["nl_checks"])
    kinds = package.tasks.RewardType
    reward, basis = 1.0, set(criteria.reward_basis)
    breakdown: dict[Any, float] = {}
    for part, of in (
        (env, {kinds.DB, kinds.ENV_ASSERTION}),
        (action, {kinds.ACTION}),
        (judged, {kinds.NL_ASSERTION}),
        (told, {kinds.COMMUNICATE}),
    ):
        if basis & of:
            if part is None:
                raise ValueError("the task's reward depends on assertions in words, and nobody judged them")
            reward *= part.reward
            breakdown.update(part.reward_breakdown or {})
    whole = info(
        reward=reward,
        db_check=env.db_check,
        env_assertions=env.env_assertions,
        action_checks=action.action_checks,
        nl_assertions=None if judged is None else judged.nl_assertions,
        communicate_checks=told.communicate_checks,
        reward_basis=criteria.reward_basis,
        reward_breakdown=breakdown,
        info={
            "env": env.info,
            "nl": None if judged is None else judged.info,
            "communicate": told.info,
            "action": action.info,
        },
    )
    return whole, constructor.failed_gold


class _Constructor:
    """Makes the evaluator's environments: with `solo_mode` for the dialogue, without arguments for the gold actions."""

    def __init__(self, domain: Domain):
        self._domain = domain
        self.failed_gold: list[str] = []

    def __call__(self, **options: Any) -> Any:
        environment = self._domain.environment(**options)
        if options:
            environment.run_env_assertion = self._unmet_where_it_fails(environment.run_env_assertion)
        else:
            environment.make_tool_call = self._listed_where_it_fails(environment.make_tool_call)
        return environment

    def _unmet_where_it_fails(self, run_env_assertion: Callable[..., bool]) -> Callable[..., bool]:
        """An assertion about something that is not there raises, and would leave the dialogue without a score."""

        def asserted(assertion: Any, **options: Any) -> bool:
            try:
                return run_env_assertion(assertion, **options)
            except Exception:
                return False

        return asserted

    def _listed_where_it_fails(self, make_tool_call: Callable[..., Any]) -> Callable[..., Any]:
        def called(tool_name: str, **arguments: Any) -> Any:
            try:
                return make_tool_call(tool_name=tool_name, **arguments)
            except Exception as error:
                self.failed_gold.append(f"{tool_name}: {error}")
                raise

        return called


def _judged(package: Package, criteria: Any, checks: Sequence[Mapping[str, Any]] | None) -> Any:
    """The judge's `RewardInfo`; None if nobody judged, which is no matter if there is nothing to judge."""
    kind, info = package.tasks.RewardType.NL_ASSERTION, package.simulations.RewardInfo
    if checks is None and (criteria.nl_assertions or kind not in criteria.reward_basis):
        return None
    reward = float(all(check["met"] for check in checks or ()))
    return info(reward=reward, nl_assertions=[dict(c) for c in checks or ()], reward_breakdown={kind: reward})


# ------------------------------------------------------------------------------------------------------- the judge


def judge(domain: Domain, task: Mapping[str, Any], dialogue: Dialogue, agent: ChatAgent) -> list[dict[str, Any]] | None:
    """What a model says of the assertions in words, asked with the official prompt.

    Args:
        domain: the task's.
        task: as its file has it.
        dialogue: a finished one.
        agent: the model.

    Returns:
        For each assertion `nl_assertion`, `met` and `justification`; None where there are none, or the dialogue is
        worth 0 in any case.

    Raises:
        EndpointError: no answer in the form that was asked for.
    """
    assertions = (task.get("evaluation_criteria") or {}).get("nl_assertions")
    if not assertions or dialogue.termination not in PROPER_ENDS:
        return None
    evaluator = domain.package.attribute("evaluator.evaluator_nl_assertions:NLAssertionsEvaluator")
    token = JUDGE.set(StrictJudge(agent, len(assertions)))
    try:
        checks = evaluator.evaluate_nl_assertions(dialogue.trajectory, list(assertions))
    finally:
        JUDGE.reset(token)
    return [check.model_dump(mode="json") for check in checks]


class StrictJudge:
    """A judge whose answer is taken only in the form asked for: the official code takes no verdicts for only good ones.

    Args:
        agent: the model.
        count: of the assertions.
    """

    def __init__(self, agent: ChatAgent, count: int):
        self._agent, self._count = agent, count

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """The verdicts, as JSON without anything around it.

        Raises:
            ReplyError: it is not one verdict for each assertion.
        """
        text = str(self._agent.respond(messages, []).get("content") or "").strip()
        if text.startswith("```"):
            text = text.removeprefix("```").removeprefix("json").removesuffix("```")
        try:
            value, end = load_prefix(text, 0)
        except StrictJsonError as error:
            raise ReplyError(str(error)) from None
        results = value.get("results") if isinstance(value, dict) else None
        if end < len(text) or not isinstance(results, list) or len(results) != self._count:
            raise ReplyError(f"expected an object with {self._count} results and nothing else")
        form = {"expectedOutcome": str, "reasoning": str, "metExpectation": bool}
        for result in results:
            if not isinstance(result, dict) or any(not isinstance(result.get(k), kind) for k, kind in form.items()):
                raise ReplyError(f"each result needs {', '.join(form)}")
        return {"role": "assistant", "content": json.dumps({"results": results}, ensure_ascii=False)}
