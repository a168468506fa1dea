"""A script for a launcher of several processes; one process makes the same runs, and a test compares the results.

    launched_runs.py FOLDER

After the runs, each process writes what an error of the last one looks like from where it is; then the last one is
killed while the others wait for it.
"""

import os
import signal
import sys
from pathlib import Path

import grammar_policy
import gymnasium as gym
import toolcredit  # noqa: F401 - registers the environments
from chat_envs import Conversation, turns_of_tools
from toolcredit.agents.base import agent_class
from toolcredit.agents.distributed import processes
from toolcredit.agents.group_methods import SLCAGRPO, SLCAExact, VinePPO
from toolcredit.agents.sft import SFTLearner
from toolcredit.errors import InfrastructureError, UsageError

POLICY = {"model": "tiny-chat", "weights": "full", "template": "compact"}
LORA = POLICY | {"weights": "lora", "lora_rank": 4}
COMMON = {"max_updates": 3, "save_every": 2, "eval_every": 3, "max_new_tokens": 6, "slots": 8, "seed": 3}
GROUPS = COMMON | {
    "policy": POLICY,
    "tasks_per_update": 3,
    "group_size": 3,
    "temperature": 2.0,
    "learning_rate": 1e-3,
    "max_turns": 2,
    "mini_batch": 4,  # of nine episodes: four, four, and one, for which a second process has nothing to do
    "epochs": 2,
    "micro_batch": 2,
    "probe_every": 2,
    "kl": 0.05,
}
SFT = COMMON | {"policy": POLICY, "batch_size": 5, "micro_batch": 2, "learning_rate": 1e-3, "max_turns": 2}


def letters(text):
    return sum(c.islower() for c in text) / max(len(text), 1)


def score(task, texts):
    process, summary = letters(texts[0]), letters(texts[-1])
    return process + summary, {"process": process, "summary": summary, "omitted": 0.0, "total": process + summary}


def mixed(task, texts):
    """Very different for alike turns."""
    process, summary = (sum(map(ord, text)) % 7 / 7 for text in (texts[0], texts[-1]))
    return process + summary, {"process": process, "summary": summary, "omitted": 0.0, "total": process + summary}


def seldom(task, texts):
    """Mostly dead groups, so that others are drawn; in different processes differently many."""
    found = float(sum(map(ord, "".join(texts))) % 7 == 0)
    return found, {"process": found, "summary": found, "total": found}


class Letters:
    """A scorer that a policy without any training sometimes pleases, for the command line."""

    components = ("process", "summary", "omitted", "total")

    def __call__(self, task, transcript):
        found = letters(transcript["turns"][-1]["text"])
        return {"process": found, "summary": found, "omitted": 0.0, "total": found}


class Dies(SLCAGRPO):
    """Stops in the third update, in all processes, as a kill of the whole run would."""

    def update(self, number):
        if number == 2:
            raise KeyboardInterrupt
        return super().update(number)


def main(folder):
    tasks = ("a", "b", "c", "d", "e")
    env = Conversation(turns_of_tools(1), score=score, tasks=tasks)
    sgls = gym.make("SGLSToolCallingReplay-v0", split="dev", tier="easy")
    for name, config in (("full", GROUPS), ("lora", GROUPS | {"policy": LORA, "keep_trajectories": True})):
        SLCAGRPO(config, out=folder / f"slca-{name}").learn(env, eval_env=env)
    for name, config in (("full", SFT), ("lora", SFT | {"policy": LORA})):
        SFTLearner(config, out=folder / f"sft-{name}").learn(sgls)
    rare = Conversation(turns_of_tools(1), score=seldom, tasks=tasks)
    agent_class("dapo")(GROUPS | {"kl": 0.0}, out=folder / "dapo").learn(rare)
    grammar = folder / "grammar"
    processes().agree(lambda: grammar_policy.save(grammar))
    written = GROUPS | {"policy": {"model": str(grammar), "weights": "full", "template": "own"}, "max_new_tokens": 16}
    # Adam makes full steps of rounding where a gradient is 0, as it often is here: small ones
    written |= {"temperature": 1.0, "value_rollouts": 2, "kl": 0.0, "max_updates": 2, "learning_rate": 1e-6}
    calling = Conversation(turns_of_tools(1), score=mixed, tasks=tasks, tools=grammar_policy.TOOLS)
    SLCAExact(written, out=folder / "slca-exact").learn(calling)
    VinePPO(written, out=folder / "vineppo").learn(calling)
    try:
        Dies(GROUPS, out=folder / "resumed").learn(env, eval_env=env)
    except KeyboardInterrupt:
        SLCAGRPO(GROUPS, out=folder / "resumed").learn(env, eval_env=env, resume=True)


def fail_in_the_last():
    if processes().index == processes().size - 1:
        raise UsageError("it is Tuesday")
    return 0


if __name__ == "__main__":
    out = Path(sys.argv[1])
    main(out)
    everybody = processes()
    try:
        everybody.gather(fail_in_the_last)
    except (UsageError, InfrastructureError) as error:
        (out / f"error-{everybody.index}").write_text(f"{type(error).__name__}: {error}")
    everybody.gather(lambda: None)
    if everybody.size > 1 and everybody.index == everybody.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    everybody.gather(lambda: None)
