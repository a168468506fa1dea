"""`toolcredit train NAME`: train a learner, measure it on the held-out split, write the run folder with its report."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from ..agents.base import agent_class, is_run_folder
from ..agents.config import described_fields, set_dotted
from ..agents.distributed import processes
from ..agents.watching import watching
from ..benchmarks import held_out_chat
from ..benchmarks.chat_report import write_chat_report
from ..benchmarks.experiment import (
    HELD_OUT,
    PRESETS,
    TRAINING,
    TrainingPlan,
    default_env,
    default_preset,
    has_presets,
    held_out_env,
    load_preset,
    train,
)
from ..benchmarks.held_out import measure_and_report, print_result, versions
from ..envs.make import env_parameters
from ..errors import ConfigError, RunError, UsageError
from ..llm.threads import choose_threads
from . import options
from .launch import start_all_processes

#: fields of a policy without which trained weights cannot be loaded, or would be used with other prompts
_FITTING = ("model", "weights", "lora_rank", "lora_alpha", "lora_layers", "lora_targets", "template")


def train_command(
    learner: str = typer.Argument(
        ..., help="fgpo, grpo, sft, slca-grpo, …, another package's name, or package.module:Class."
    ),
    env: str = typer.Option(
        None,
        "--env",
        help="Gymnasium id; default: that of --init, else SGLSToolCallingReplay-v0 for learners on conversations and "
        "GenomeToolSubset-v0 for others.",
    ),
    questions: str = options.QUESTIONS,
    tools: str = options.TOOLS,
    reasoner: str = options.REASONER,
    table: str = options.TABLE,
    env_set: list[str] = options.ENV_SET,
    policy: str = typer.Option(
        None, "--policy", help="smollm2, tiny, tiny-chat, a folder, a hub name; default: that of --init, else smollm2."
    ),
    preset: str = typer.Option(
        None,
        "--preset",
        help=f"{' | '.join(PRESETS)}; default: tiny for tiny and tiny-chat, laptop for smollm2, paper otherwise.",
    ),
    config: Path = typer.Option(None, "--config", help="JSON file with configuration fields, over the preset."),
    init: str = typer.Option(
        None,
        "--init",
        help="Run folder to start from: its trained weights, and its policy and environment unless given.",
    ),
    max_steps: int = typer.Option(
        None, "--max-steps", help="Updates, on bandits after the format warm-up; default: the preset's."
    ),
    tracker: str = typer.Option(
        None, "--tracker", help="auto (TensorBoard if installed), none, wandb, …; metrics.jsonl is always written."
    ),
    seed: int = typer.Option(None, "--seed", help="Seed of everything random; default: 0, or the preset's."),
    settings: list[str] = typer.Option(
        None, "--set", help="Configuration field, NAME=VALUE; dots go into nested ones."
    ),
    out: Path = typer.Option(None, "--out", help="Run folder; default: runs/LEARNER-DATE."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the run in --out, with its own configuration."),
    fields: bool = typer.Option(
        False, "--fields", help="Train nothing: list the fields of --set with the values they would have, and meanings."
    ),
    as_json: bool = options.JSON,
) -> None:
    """Train a learner on the split `train`, choose its checkpoint on `dev`, measure it on `test`.

    Without a `test` split the result is measured on `dev` and says so. `accelerate launch -m toolcredit train …`
    trains with several processes.
    """
    start_all_processes()
    if resume:
        given = (
            env,
            questions,
            tools,
            reasoner,
            table,
            env_set,
            policy,
            preset,
            config,
            init,
            max_steps,
            seed,
            settings,
            tracker,
        )
        if any(value not in (None, []) for value in given):
            raise UsageError("--resume takes everything but --out from the run folder: leave the other options away")
        if out is None:
            raise UsageError("--resume needs --out, the run folder to go on with")
        plan = TrainingPlan.from_run(out)
        if learner != plan.agent and agent_class(learner).name != plan.agent:
            raise UsageError(f"{out} is a run of {plan.agent}: toolcredit train {plan.agent} --resume --out {out}")
        plan = replace(plan, agent=learner)  # an import path finds classes that no package has registered
    else:
        arguments = options.env_arguments(questions, tools, reasoner, table, env_set)
        overrides = {"policy.model": policy, "init": init, "max_updates": max_steps, "seed": seed, "tracker": tracker}
        if has_presets(learner):  # a seed is one of everything random, the first weights too
            overrides |= {"policy.seed": seed, "cpu_threads": choose_threads().number}
        single = {name: value for name, value in overrides.items() if value is not None}
        single |= dict(options.key_value(item) for item in settings or [])
        # of several processes the main one decides: they would measure and name the folder differently
        plan = processes().agree(lambda: plan_training(learner, env, arguments, single, preset, config, out))
    if fields:
        print_fields(plan, as_json)
        return
    run(plan, resume, as_json)


def plan_training(
    learner: str,
    env_id: str | None,
    env_arguments: dict[str, Any],
    fields: dict[str, Any],
    preset: str | None = None,
    config: Path | None = None,
    out: Path | None = None,
) -> TrainingPlan:
    """Preset, the run to start from, configuration file, single fields (dotted names), each over the one before."""
    start = _run_to_start_from(fields.get("init"))
    continued: dict[str, Any] = {}
    if start is not None and "policy.model" not in fields and has_presets(learner):
        continued = _policy_of(start, learner)
    model = fields.get("policy.model") or continued.get("model", "smollm2")
    from_start = start is not None and env_id is None
    if env_id is None:
        env_id = start.env_id if start is not None else default_env(learner)
    values: dict[str, Any] = {}
    kwargs: dict[str, Any] = {}
    if has_presets(learner) or preset is not None:
        shipped = load_preset(learner, preset or default_preset(model))
        known = env_parameters(env_id)
        values, kwargs = shipped["config"], {name: v for name, v in shipped["env"].items() if name in known}
    if start is not None and from_start:
        kwargs |= start.env_kwargs
    if continued:
        _merge(values, {"policy": continued})
    if continued or from_start:
        told = [f"policy {continued['model']}"] if continued else []
        told += [f"environment {env_id}"] if from_start else []
        typer.echo(f"{' and '.join(told)} as in {fields['init']}", err=True)
    if config is not None:
        _merge(values, _read_config(config))
    for name, value in fields.items():
        set_dotted(values, name, value)
    folder = out or Path("runs") / f"{learner.replace(':', '.')}-{datetime.now():%Y%m%d-%H%M%S}"
    return TrainingPlan(learner, values, env_id, kwargs | env_arguments, str(folder))


def print_fields(plan: TrainingPlan, as_json: bool) -> None:
    """Every field of the learner's configuration: its dotted name, its value under the plan, what it means.

    Raises:
        UsageError: the learner is another package's, whose fields have no descriptions that could be read here.
    """
    from rich.console import Console
    from rich.table import Table

    config = getattr(plan.learner(), "config", None)
    if not isinstance(config, BaseModel):
        raise UsageError(f"{plan.agent} does not describe its fields: see its own documentation")
    rows = list(described_fields(config))
    if as_json:
        options.print_json([{"field": name, "value": value, "meaning": text} for name, value, text in rows])
        return
    table = Table("field", "value", "meaning", title=f"{plan.agent} on {plan.env_id}", title_justify="left")
    table.caption = f"environment: {json.dumps(plan.env_kwargs, ensure_ascii=False)}"
    for name, value, text in rows:
        table.add_row(name, json.dumps(value, ensure_ascii=False), text)
    console = Console(markup=False, highlight=False)
    (console if console.is_terminal else Console(markup=False, highlight=False, width=130)).print(table)


def _run_to_start_from(init: Any) -> TrainingPlan | None:
    """The run that `init` names; None where it names none, or weights that a program has saved without a run."""
    if not isinstance(init, str) or not is_run_folder(init):
        return None
    try:
        return TrainingPlan.from_run(init)
    except RunError:
        return None


def _policy_of(start: TrainingPlan, learner: str) -> dict[str, Any]:
    """What must be the same for the weights of a run to fit, as far as this learner's policy has such fields."""
    known = getattr(agent_class(learner), "config_class").model_fields["policy"].annotation.model_fields  # noqa: B009
    stored = start.config.get("policy", {})
    return {name: stored[name] for name in _FITTING if name in stored and name in known and "model" in stored}


def run(plan: TrainingPlan, resume: bool, as_json: bool) -> None:
    """Train with a progress bar, measure, report; the last two in the main process only, where there are several."""
    learner = plan.learner()
    total = getattr(learner, "total_updates", None)
    go_on = f"toolcredit train {plan.agent} --resume --out {plan.out}"
    is_main, several = processes().is_main, f", {processes().size} processes" if processes().size > 1 else ""
    with options.resumable(go_on), options.progress_bar(quiet=not is_main) as progress:
        task = progress.add_task(f"train {plan.agent}{several}", total=total, note="")

        def show(record: dict[str, Any]) -> None:
            progress.update(task, completed=record["update"], note=record_note(record))

        with watching(progress.episodes):
            train(plan, resume=resume, callbacks=[show], on_phase=progress.say)
    if not is_main:
        return
    folder = Path(plan.out)
    split, env = held_out_env(plan)
    show_result = held_out_chat.print_result if held_out_chat.is_chat(env) else print_result
    if held_out_chat.is_chat(env):
        own = held_out_chat.read_records(folder / HELD_OUT)
        training = json.loads((folder / TRAINING).read_text("utf-8"))
        result = held_out_chat.measure(plan.agent, own, split, env, training) | {"versions": versions()}
        held_out_chat.write_result(result, folder)
        write_chat_report(folder / "report.html", [folder])
    else:
        result = measure_and_report([plan], folder)
    if as_json:
        options.print_json(result)
    else:
        show_result(result, folder)


def record_note(record: dict[str, Any]) -> str:
    """The few numbers of a metrics record that are worth a place beside the bar."""
    shown = {
        "loss": "loss",
        "reward": "reward",
        "expected_reward": "J",
        "dev_reward": "dev reward",
        "observed_dead": "dead groups",
    }
    return "  ".join(f"{label} {record[key]:.2f}" for key, label in shown.items() if key in record)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"--config {path} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"--config {path} holds {type(values).__name__}, expected an object of configuration fields")
    return values.get("config", values)


def _merge(values: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = value
