"""How fast the tool-calling environment is: whole episodes, validated calls, and the validator beside plain jsonschema.

    python -m toolcredit.benchmarks.speed.sgls_env --repeats 7 --json

One process, one thread, CPU seconds. The gold plans of embedded tasks are played with the embedded mock; the turns are
written beforehand, so that only the environment is measured: whole episodes from `reset` to the score, and the steps
with calls (reading, validating, answering, recording) by themselves. The validators check the arguments of the same
gold calls: `cached` as the environment does it, `fresh` by `jsonschema.validate`, which checks the schema first, as it
must for one it has not seen. Figures are medians of the repeats, which take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence

import jsonschema

from ...envs.sgls.env import SGLSToolCallingEnv
from ...envs.sgls.pack import SPECS
from ...envs.sgls.parsing import HERMES, RawCall
from ...envs.sgls.tasks import Call
from ...envs.sgls.validation import Toolbox

#: calls that are validated afresh in one repeat, which is slow
FRESH_CALLS = 100


def measure(tasks: int, repeats: int) -> dict[str, float | list[float]]:
    """The figures, each with its lowest and highest repeat under the same name with `_range`."""
    env = SGLSToolCallingEnv()
    turns: list[tuple[str, list[str]]] = []
    calls: list[Call] = []
    for task_id in env.task_ids[:tasks]:
        env.reset(options={"task_id": task_id})
        calls += env.task.gold.calls
        turns.append((task_id, [*map(HERMES.render, env.task.gold.steps), env.task.reply]))
    toolbox = Toolbox(SPECS.values())
    raw = [RawCall(call.name, call.arguments) for call in calls]
    plain = [(SPECS[call.name].parameters, call.arguments) for call in calls[:FRESH_CALLS]]

    def play() -> None:
        for task_id, episode in turns:
            env.reset(options={"task_id": task_id})
            for turn in episode:
                env.step(turn)

    def call() -> float:
        spent = 0.0
        for task_id, episode in turns:
            env.reset(options={"task_id": task_id})
            began = time.process_time()
            for turn in episode[:-1]:
                env.step(turn)
            spent += time.process_time() - began
        return spent

    def cached() -> None:
        for call in raw:
            toolbox.check(call)

    def fresh() -> None:
        for schema, arguments in plain:
            jsonschema.validate(arguments, schema)

    rates = _rates({"play": play, "call": call, "cached": cached, "fresh": fresh}, repeats)
    figures = {
        "episodes_per_s": [rate * len(turns) for rate in rates["play"]],
        "calls_per_s": [rate * len(calls) for rate in rates["call"]],
        "cached_validations_per_s": [rate * len(raw) for rate in rates["cached"]],
        "fresh_validations_per_s": [rate * len(plain) for rate in rates["fresh"]],
    }
    cached_rates, fresh_rates = figures["cached_validations_per_s"], figures["fresh_validations_per_s"]
    figures["validator_ratio"] = [a / b for a, b in zip(cached_rates, fresh_rates, strict=True)]
    result: dict[str, float | list[float]] = {"episodes": len(turns), "calls": len(calls), "repeats": repeats}
    for name, values in figures.items():
        result[name] = round(statistics.median(values), 1)
        result[f"{name}_range"] = [round(min(values), 1), round(max(values), 1)]
    return result


def _rates(runs: dict[str, Callable[[], float | None]], repeats: int) -> dict[str, Sequence[float]]:
    """Runs a second of each function, by its own clock if it returns seconds; the first round is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            began = time.process_time()
            seconds = run()
            if number:  # the first round fills the caches
                rates[name].append(1 / (seconds or time.process_time() - began))
    return dict(rates)


def main() -> None:
    """Measure and print, as a table or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500, help="embedded tasks of the split train")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.tasks, arguments.repeats)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{result['episodes']} episodes with {result['calls']} calls, {result['repeats']} repeats: median (range)")
    for name in (
        "episodes_per_s",
        "calls_per_s",
        "cached_validations_per_s",
        "fresh_validations_per_s",
        "validator_ratio",
    ):
        low, high = result[f"{name}_range"]  # type: ignore[misc]
        print(f"{name.replace('_per_s', ' a second').replace('_', ' '):32}{result[name]:>12,} ({low:,} to {high:,})")


if __name__ == "__main__":
    main()
