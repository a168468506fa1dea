"""Training runs from plain descriptions: presets, one environment per split, a learner, several runs side by side.

A `TrainingPlan` is plain JSON, is what a run folder stores, and is enough to repeat the run.
"""

from __future__ import annotations

import importlib.resources
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import gymnasium as gym

from ..agents.base import Callback, Learner, TrainingReport, agent_class
from ..agents.dead_groups import dead_group_curve
from ..agents.distributed import processes
from ..envs.make import env_parameters, make_split
from ..envs.table import RewardTable
from ..errors import EmptySplitError, InfrastructureError, RunError, ToolcreditError, UnknownNameError, UsageError
from ..llm.meter import Meter
from ..runs import RunFolder, write_atomic, write_json
from .held_out_chat import is_chat, play, record_lines
from .strategies import evaluate

PRESETS = ("tiny", "laptop", "paper")
HELD_OUT = "held_out.jsonl"
TRAINING = "training.json"
GROUP_SIZES = (2, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class TrainingPlan:
    """What to train, on what, and where to write it.

    Attributes:
        agent: registered name of a learner.
        config: fields of the learner's configuration that differ from its defaults.
        env_id: Gymnasium id.
        env_kwargs: arguments of `gym.make`, without `split`.
        out: run folder.
    """

    agent: str
    config: dict[str, Any]
    env_id: str
    env_kwargs: dict[str, Any]
    out: str

    def learner(self) -> Learner:
        """The untrained learner.

        Raises:
            UnknownNameError: no such agent, or a field it does not have.
            UsageError: the agent is no learner.
        """
        cls = agent_class(self.agent)
        if not issubclass(cls, Learner):
            raise UsageError(f"{self.agent!r} does not learn; measure it with `toolcredit eval`")
        return cls(self.config, out=self.out)  # type: ignore[call-arg]

    def env(self, split: str, **changes: Any) -> gym.Env:
        """The environment on one split, with some arguments changed."""
        return make_split(self.env_id, split, **self.env_kwargs | changes)

    def evaluation_env(self, split: str) -> gym.Env | None:
        """The environment that a checkpoint is chosen or a result is measured on; None if the split is empty.

        Every learner is judged by Eq. 1, whatever reward it trains on, and by a judge without added noise.
        """
        changes: dict[str, Any] = {"reward": "eq1"} if "reward" in env_parameters(self.env_id) else {}
        scorer = self.env_kwargs.get("scorer")
        if isinstance(scorer, Mapping) and "noise" in scorer:
            changes["scorer"] = {**scorer, "noise": 0.0}
        try:
            env = self.env(split, **changes)
            getattr(env.unwrapped, "task_ids", None)  # some read their tasks only when they are asked for
            return env
        except EmptySplitError:
            return None

    @classmethod
    def from_run(cls, folder: str | os.PathLike) -> TrainingPlan:
        """The plan that a run folder was started with.

        Raises:
            RunError: no run folder, or one of something else.
        """
        stored = RunFolder.load_config(folder)
        try:
            kwargs = {key: value for key, value in stored["env"]["kwargs"].items() if key != "split"}
            agent = _spec_of_finished(folder) or stored["agent"]
            return cls(agent, stored["config"], stored["env"]["id"], kwargs, str(folder))
        except KeyError as error:
            raise RunError(f"{folder}/config.json lacks {error}: it is no training run") from None
        except (TypeError, AttributeError):
            raise RunError(f"{folder}/config.json is not what a training run writes") from None


def _spec_of_finished(folder: str | os.PathLike) -> str | None:
    """How the agent of a finished run was named: `config.json` has its class's name, which an import path is not."""
    path = Path(folder) / TRAINING
    return json.loads(path.read_text("utf-8")).get("agent") if path.is_file() else None


def default_env(agent: str) -> str:
    """The environment that an agent is trained on where nobody names one."""
    return getattr(agent_class(agent), "default_env", "GenomeToolSubset-v0")


def default_preset(model: str) -> str:
    """The preset that suits a model: of its own name, or `paper` for models that are not embedded here."""
    return {"tiny": "tiny", "tiny-chat": "tiny", "smollm2": "laptop"}.get(model, "paper")


def has_presets(agent: str) -> bool:
    """Whether configurations are shipped for an agent."""
    return (importlib.resources.files("toolcredit.agents.presets") / f"{agent}-{PRESETS[0]}.json").is_file()


def load_preset(agent: str, name: str) -> dict[str, Any]:
    """A shipped configuration: {"config": {…}, "env": {…}}.

    Raises:
        UnknownNameError: there is none of this name for this agent.
    """
    folder = importlib.resources.files("toolcredit.agents.presets")
    file = folder / f"{agent}-{name}.json"
    if not file.is_file():
        known = [item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json")]
        raise UnknownNameError("preset", f"{agent}-{name}", known)
    return json.loads(file.read_text("utf-8"))


def train(
    plan: TrainingPlan,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    on_phase: Callable[[str], None] = lambda text: None,
) -> TrainingReport:
    """Carry out one plan: learn on the split `train`, choose the checkpoint on `dev`, answer the held-out questions.

    The held-out answers, or episodes of conversations, go to `held_out.jsonl` in the run folder, what learning spent to
    `training.json`. `on_phase` is told in words what begins: learning gives records, the rest can be long and silent.
    """
    on_phase(f"{plan.agent} learns on {plan.env_id}, into {plan.out}")
    learner = plan.learner()
    env, dev = plan.env("train"), plan.evaluation_env("dev")
    with _forgotten_if_refused(Path(plan.out)):
        report = learner.learn(env, eval_env=dev, callbacks=callbacks, resume=resume)
    split, held_out = held_out_env(plan)
    on_phase(f"{plan.agent} is measured on the split {split}")
    training: dict[str, Any] = {"agent": plan.agent} | asdict(report)
    if is_chat(held_out):
        meter, everybody = Meter(), processes()
        with meter.listening():
            episodes = play(held_out, learner)
        training["held_out_spent"] = everybody.sums(meter.take())
        if everybody.is_main:
            write_json(Path(plan.out) / TRAINING, training)
            write_atomic(Path(plan.out) / HELD_OUT, record_lines(episodes))
        return report
    if hasattr(learner, "generation_probabilities"):
        p_gen, rewards = learner.generation_probabilities(held_out), RewardTable.build(held_out).rewards_for(held_out)
        training["dead_groups"] = dead_group_curve(p_gen, rewards, GROUP_SIZES)
    evaluation = evaluate(held_out, {plan.agent: learner})
    records = [json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in evaluation.records[plan.agent]]
    write_json(Path(plan.out) / TRAINING, training)
    write_atomic(Path(plan.out) / HELD_OUT, "".join(records))  # last: it says that the run has finished
    return report


@contextmanager
def _forgotten_if_refused(folder: Path) -> Iterator[None]:
    """A run that was refused before its first update leaves no `config.json`, so that the command can be put right."""
    config = folder / "config.json"
    was_there = config.exists()
    try:
        yield
    except UsageError:
        if processes().is_main and not was_there and not (folder / "metrics.jsonl").exists():
            config.unlink(missing_ok=True)
            with suppress(OSError):  # something else is in it, or it was never made
                folder.rmdir()
        raise


def is_finished(plan: TrainingPlan) -> bool:
    """Whether the folder of `plan` holds its finished run.

    Raises:
        RunError: it holds a run of another configuration.
    """
    if not (Path(plan.out) / HELD_OUT).exists():
        return False
    describe = getattr(plan.learner(), "describe", None)
    if describe is not None:
        RunFolder(plan.out, describe(plan.env("train")), resume=True)
    return True


def held_out_env(plan: TrainingPlan) -> tuple[str, gym.Env]:
    """The split a result is measured on and its environment: `test`, or `dev` where there is no test split.

    Raises:
        UsageError: there is neither.
    """
    for split in ("test", "dev"):
        env = plan.evaluation_env(split)
        if env is not None:
            return split, env
    raise UsageError(f"{plan.env_id} has no question in the splits test and dev: nothing to measure a result on")


def train_side_by_side(
    plans: Sequence[TrainingPlan],
    resume: bool = False,
    on_record: Callable[[int, dict[str, Any]], None] = lambda index, record: None,
    workers: int = 2,
) -> None:
    """Carry out several plans, each in a process of its own, at most `workers` at a time.

    Args:
        plans: the runs; each has its own folder.
        resume: go on with what the folders hold.
        on_record: called in this process with (index of the plan, metrics record).
        workers: processes at once.

    Raises:
        UsageError: what a run refused; the others are stopped.
        InfrastructureError: what failed in a run, or a process that ended without a word (killed, out of memory).
    """
    run_jobs([partial(_train_job, plan, resume) for plan in plans], on_record, workers)


def cache_frozen_states(plan: TrainingPlan, on_record: Callable[[int, dict[str, Any]], None], workers: int = 2) -> None:
    """Compute the states below the adapted layers for all splits, shared out among processes, into the disk cache.

    Runs that start together would otherwise all compute the same states. A plan without a disk cache needs nothing.

    Args:
        plan: any of the runs that share the cache.
        on_record: called with (process, `{"done", "total"}`).
        workers: processes at once.

    Raises:
        UsageError, InfrastructureError: as `train_side_by_side`.
    """
    policy = getattr(plan.learner(), "config").policy  # noqa: B009 - learners of other packages may have none
    if policy.trunk_cache == "disk":
        run_jobs([partial(_cache_job, plan, part, workers) for part in range(workers)], on_record, workers)


Report = Callable[[dict[str, Any]], None]


def _train_job(plan: TrainingPlan, resume: bool, report: Report) -> None:
    train(plan, resume=resume, callbacks=[report])


def _cache_job(plan: TrainingPlan, part: int, parts: int, report: Report) -> None:
    learner: Any = plan.learner()
    prompts: set[tuple[int, ...]] = set()
    for split in ("train", "dev", "test"):
        env = plan.evaluation_env(split)
        if env is not None:
            learner.bind(env)
            prompts |= set(map(tuple, learner.prompts(env)))
    ordered = sorted(prompts)  # neighbours begin alike and are computed together
    own = ordered[part * len(ordered) // parts : (part + 1) * len(ordered) // parts]
    for done, prompt in enumerate(own, 1):
        learner.policy.fill_trunk([prompt])
        report({"done": done, "total": len(own)})


def run_jobs(
    jobs: Sequence[Callable[[Report], None]],
    on_record: Callable[[int, dict[str, Any]], None],
    workers: int,
) -> None:
    """Run picklable jobs in spawned processes, at most `workers` at a time; `on_record` gets what they report."""
    context = multiprocessing.get_context("spawn")
    waiting = list(enumerate(jobs))
    running: dict[Connection, tuple[int, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                index, job = waiting.pop(0)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_run_in_child, args=(job, sender, os.getpid()), daemon=True)
                process.start()
                sender.close()
                running[receiver] = (index, process)
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                if not _receive(ready, running[ready][0], on_record):
                    _, process = running.pop(ready)
                    process.join()
    finally:
        for _, process in running.values():
            process.terminate()


def _receive(pipe: Connection, index: int, on_record: Callable[[int, dict[str, Any]], None]) -> bool:
    """Handle one message of a run; False once it has finished."""
    try:
        kind, content = pipe.recv()
    except EOFError:
        raise InfrastructureError(f"process {index} ended without a result; run again with --resume") from None
    if kind in ("usage", "failed"):
        raise (UsageError if kind == "usage" else InfrastructureError)(content)
    if kind == "record":
        on_record(index, content)
    return kind == "record"


def _run_in_child(job: Callable[[Report], None], pipe: Connection, parent: int) -> None:
    """Body of a process: reports each record, and stops when its parent is gone."""

    def report(record: dict[str, Any]) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)  # a killed parent must not leave runs behind that write to its folders
        pipe.send(("record", record))

    try:
        job(report)
        pipe.send(("done", None))
    except ToolcreditError as error:
        pipe.send(("usage" if isinstance(error, UsageError) else "failed", str(error)))
    except KeyboardInterrupt:
        pass  # the parent got it too and says what to do
