"""Runs as the files of simulations that the official tools read. They hold no keys: nothing here knows one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...runs import write_atomic
from ..suite import Attempt
from .domains import Domain
from .scoring import read_messages

_UNKNOWN_TIME = "1970-01-01T00:00:00"


def write_simulations(
    domain: Domain,
    attempts: Sequence[Attempt],
    folder: Path,
    solo: bool,
    user: str | None,
    max_steps: int,
    max_errors: int,
) -> Path:
    """Write the attempts at one domain's tasks as the package's `Results`.

    Times and costs are not kept in a run: times are written as 1970, costs as 0. An attempt that was not completed
    becomes a simulation without messages, skipped by `agent_error` and worth 0, as the official code writes one.

    Args:
        domain: the domain.
        attempts: at its tasks, with outcomes.
        folder: where `DOMAIN.json` is written.
        solo: whether they were played in solo mode.
        user: who played the user; None for a scripted one, or none.
        max_steps: limit of the run.
        max_errors: limit of the run.

    Returns:
        The file.

    Raises:
        UsageError: an attempt is completed, but its outcome was not loaded.
    """
    models = domain.package.simulations
    ids = dict.fromkeys(_task_id(attempt) for attempt in attempts)
    guidelines = domain.package.attribute("user.user_simulator:get_global_user_sim_guidelines")
    results = models.Results(
        timestamp=_UNKNOWN_TIME,
        info=models.Info(
            git_commit="unknown",
            num_trials=1 + max(attempt.trial for attempt in attempts),
            max_steps=max_steps,
            max_errors=max_errors,
            user_info=models.UserInfo(
                implementation="dummy_user" if solo else "user_simulator",
                llm=user,
                global_simulation_guidelines=None if solo else guidelines(use_tools=domain.user_tools is not None),
            ),
            agent_info=models.AgentInfo(implementation="llm_agent_solo" if solo else "llm_agent"),
            environment_info=domain.environment(solo_mode=solo).get_info(),
        ),
        tasks=[domain.parse(domain.all_tasks[identity]) for identity in ids],
        simulations=[_simulation(domain, attempt) for attempt in attempts],
    )
    file = folder / f"{domain.name}.json"
    write_atomic(file, results.model_dump_json(indent=2) + "\n")
    return file


def _task_id(attempt: Attempt) -> str:
    return attempt.task.id.partition("/")[2]


def _simulation(domain: Domain, attempt: Attempt) -> Any:
    models = domain.package.simulations
    common: dict[str, Any] = {
        "id": f"{attempt.task.id}#{attempt.trial}",
        "task_id": _task_id(attempt),
        "timestamp": _UNKNOWN_TIME,
        "start_time": _UNKNOWN_TIME,
        "end_time": _UNKNOWN_TIME,
        "duration": 0.0,
        "agent_cost": 0.0,
        "user_cost": 0.0,
        "trial": attempt.trial,
    }
    if attempt.score is None:
        unscored = {"termination_reason": "agent_error", "messages": [], "skipped": True}
        return models.SimulationRun(**common, **unscored, reward_info=models.RewardInfo(reward=0.0))
    if attempt.outcome is None:
        raise UsageError(
            f"{attempt.task.id}, trial {attempt.trial}: its transcript is missing; export a whole run folder"
        )
    played = attempt.outcome.output
    return models.SimulationRun(
        **common,
        seed=played["seed"],
        termination_reason=played["termination"],
        reward_info=models.RewardInfo.model_validate(attempt.score.detail["reward_info"]),
        messages=read_messages(domain.package, played["messages"]),
    )
