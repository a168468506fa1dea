"""A suite of sums, and agents that get them right, wrong, late or not at all. Also for processes of their own:

PYTHONPATH=tests/fakes toolcredit bench run toy_suite:Sums --agent toy_suite:Adder
"""

from __future__ import annotations

import os
import threading
import time

from toolcredit.benchmarks.chat_agents import Scripted, Silent
from toolcredit.benchmarks.suite import Outcome, Score, Suite, SuiteTask
from toolcredit.errors import InfrastructureError


class Sums(Suite):
    """Sums of two numbers.

    Args:
        n: how many.
        broken: the number of a task whose back end fails.
        unscorable: the number of a task that cannot be scored.
        beside_too: play the references beside every agent.
    """

    name = "sums"
    beside = ()
    export_formats = ("sums",)
    groups = {"small": ["even"]}

    def __init__(self, n: int = 20, broken: int = -1, unscorable: int = -1, beside_too: bool = False):
        self.n, self.broken, self.unscorable = n, broken, unscorable
        if beside_too:
            self.beside = ("nothing", "gold")

    @property
    def identity(self):
        return {"n": self.n}

    def tasks(self, selection):
        return [SuiteTask(f"sum-{i}", ("even", "odd")[i % 2], {"a": i, "b": 3 * i}) for i in range(self.n)]

    def episode(self, task, context):
        messages = [{"role": "user", "content": f"{task.payload['a']}+{task.payload['b']}"}]
        reply = yield messages, []
        if task.id == f"sum-{self.broken}":
            raise InfrastructureError("the back end is down")
        return Outcome({"reply": reply["content"]}, [*messages, reply])

    def score(self, task, outcome):
        if task.id == f"sum-{self.unscorable}":
            raise ValueError("no score")
        said = outcome.output["reply"]
        right = said == str(task.payload["a"] + task.payload["b"])
        return Score(right, {"length": float(len(said)), "nothing": None}, {"said": said})

    def aggregate(self, attempts):
        tasks = {attempt.task.id for attempt in attempts}
        return {"per_task": sum(attempt.success for attempt in attempts) / len(tasks), "never": None}

    def gold(self, task):
        return [{"role": "assistant", "content": str(task.payload["a"] + task.payload["b"])}]

    def reference(self, name, task, context):
        if name == "random":
            return Scripted([{"role": "assistant", "content": str(context.seed)}])
        return Silent() if name == "nothing" else Scripted(self.gold(task))

    def export(self, format, attempts, folder):
        path = folder / "sums.txt"
        path.write_text("\n".join(attempt.outcome.output["reply"] for attempt in attempts if attempt.outcome))
        return [path]


class Adder:
    """Adds, and writes down in `$TOY_LOG` what it was asked.

    Args:
        seconds: that an answer takes.
        wrong: of so many questions one is answered wrongly; 0 for none.
        fails: numbers of questions at which it raises.
        hangs: numbers of questions that it never answers.
    """

    def __init__(self, seconds=0.0, wrong=0, fails=(), hangs=()):
        self.seconds, self.wrong, self.fails, self.hangs = seconds, wrong, fails, hangs
        self.asked, self.peak, self.running = [], 0, 0
        self.lock = threading.Lock()
        self.free = threading.Event()

    def respond(self, messages, tools):
        a, b = map(int, messages[-1]["content"].split("+"))
        with self.lock:
            self.asked.append(a)
            self.running += 1
            self.peak = max(self.peak, self.running)
            if os.environ.get("TOY_LOG"):
                with open(os.environ["TOY_LOG"], "a") as file:
                    file.write(f"{a}\n")
        try:
            if a in self.hangs:
                self.free.wait()
            if a in self.fails:
                raise RuntimeError(f"no answer to {a}")
            time.sleep(self.seconds)
            wrong = self.wrong and a % self.wrong == 0
            return {"role": "assistant", "content": str(a + b + bool(wrong))}
        finally:
            with self.lock:
                self.running -= 1
