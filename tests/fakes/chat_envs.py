"""A chat environment made of functions, for agents that hold conversations."""

from __future__ import annotations

import copy
import threading
import time

import gymnasium as gym
from toolcredit.envs.spaces import ChatMessages, UnicodeText

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Look a word up.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
]


def tool_answers(*contents):
    """Messages of tools, as answers to the calls of one turn."""
    return [
        {"role": "tool", "name": "lookup", "tool_call_id": f"call_{i}", "content": c} for i, c in enumerate(contents)
    ]


class Conversation(gym.Env):
    """Answers turns by a function.

    Args:
        answer: (task, turn number, text) → messages that follow the turn; None ends the episode. It may raise.
        score: (task, texts of the turns) → (reward, rewards by component), asked when the episode has ended.
        tasks: task → first message; None for an environment that names no tasks.
        tools: what `info["tools"]` shows.
        delay: (task, turn number) → seconds that a step takes.
        cut: (task, turn number) → the reason for which the episode is cut after this turn, or None.
        extra: (task, turn number) → further entries of `info`.
    """

    peak = 0
    _running = 0
    _lock = threading.Lock()

    def __init__(self, answer, score=None, tasks=("a", "b"), tools=TOOLS, delay=None, cut=None, extra=None):
        self.answer, self.score = answer, score or (lambda task, texts: (1.0, {"total": 1.0}))
        if tasks is not None:
            self.tasks = tasks if isinstance(tasks, dict) else {t: f"Question of {t}?" for t in tasks}
            self.task_ids = list(self.tasks)
        self.tools, self.delay = tools, delay or (lambda task, turn: 0.0)
        self.cut, self.extra = cut or (lambda task, turn: None), extra or (lambda task, turn: {})
        self.observation_space, self.action_space = ChatMessages(), UnicodeText(10_000)
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if hasattr(self, "task_ids"):
            self.task = (options or {}).get("task_id", self.task_ids[0])
            first = self.tasks[self.task]
        else:
            self.task = seed
            first = f"Number {self.np_random.integers(1000)}?"
        first = first() if callable(first) else first
        self.messages = [{"role": "user", "content": first}] if isinstance(first, str) else copy.deepcopy(first)
        self.texts = []
        return copy.deepcopy(self.messages), {"tools": copy.deepcopy(self.tools), "rewards": {"total": None}}

    def step(self, action):
        with Conversation._lock:
            Conversation._running += 1
            Conversation.peak = max(Conversation.peak, Conversation._running)
        try:
            time.sleep(self.delay(self.task, len(self.texts)))
            return self._step(action)
        finally:
            with Conversation._lock:
                Conversation._running -= 1

    def _step(self, action):
        turn = len(self.texts)
        self.texts.append(action)
        self.messages.append({"role": "assistant", "content": action})
        new = self.answer(self.task, turn, action)
        self.messages += new or []
        info = {"tools": copy.deepcopy(self.tools), "rewards": {"total": None}, **self.extra(self.task, turn)}
        reason, reward = self.cut(self.task, turn), 0.0
        if new is None or reason:
            reward, info["rewards"] = self.score(self.task, list(self.texts))
        if reason:
            info["reason"] = reason
        return copy.deepcopy(self.messages), reward, new is None and not reason, bool(reason), info

    def close(self):
        self.closed = True


def turns_of_tools(count, content=lambda task, turn: f"{task} says {turn}"):
    """An `answer` that gives a tool's answer to the first `count` turns and ends after the next."""

    def answer(task, turn, text):
        return tool_answers(content(task, turn)) if turn < count else None

    return answer
