"""A tool-subset bandit made of a table: every outcome is given, nothing is computed."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from toolcredit.errors import EndpointError
from toolcredit.rewards.subset import eq1, subset_sizes


class SubsetBandit(gym.Env):
    """`choices[q][a]` is the answered option (−1: unreadable) of question q under subset a; option 0 is right.

    Args:
        choices: (questions, 2**n) int.
        families: one per question.
        down: (question id, action) pairs whose step raises `EndpointError`.
    """

    malformed_reward = -1.1

    def __init__(self, choices, families=None, down=()):
        self.choices = np.asarray(choices, np.int8)
        self.question_ids = tuple(f"q{i}" for i in range(len(self.choices)))
        self.families = families or ["family"] * len(self.choices)
        self.down = set(down)
        self.tool_names = ("ruler", "scales", "clock", "prism")[: int(np.log2(self.choices.shape[1]))]
        self.versions = {"tools": ", ".join(self.tool_names)}
        self.action_space = gym.spaces.Discrete(self.choices.shape[1])
        self.observation_space = gym.spaces.Text(40)
        self.rewards = self.outcome_rewards(self.question_ids, self.choices)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        drawn = f"q{self.np_random.integers(len(self.question_ids))}"
        self.now = (options or {}).get("question_id", drawn)
        return f"Question {self.now}?", self._info()

    def step(self, action):
        if (self.now, int(action)) in self.down:
            raise EndpointError("the endpoint does not answer")
        row = int(self.now[1:])
        choice = int(self.choices[row, action])
        blocks = [{"tool": t, "title": t.title(), "text": f"{t} says {row}"} for t in self._tools(int(action))]
        after = {"evidence": blocks, "answer": None if choice < 0 else "ABCD"[choice], "correct": choice == 0}
        return f"Question {self.now}?", float(self.rewards[row, action]), True, False, self._info() | after

    def policy_messages(self, observation, info):
        return [{"role": "user", "content": observation}]

    def action_text(self, action):
        return f"<answer>{','.join(str(i) for i in range(len(self.tool_names)) if action >> i & 1)}</answer>"

    def parse_action(self, text):
        texts = [self.action_text(action) for action in range(self.action_space.n)]
        return texts.index(text) if text in texts else None

    def tool_descriptions(self):
        return {name: f"what a {name} tells" for name in self.tool_names}

    def question_record(self, question_id):
        return {"key": question_id, "family": self.families[int(question_id[1:])], "split": "test", "gold": 0}

    def outcome_rewards(self, question_ids, outcomes):
        return eq1(outcomes == 0, subset_sizes(len(self.tool_names)), len(self.tool_names))

    def _info(self):
        return {"id": self.now, "family": self.families[int(self.now[1:])]}

    def _tools(self, action):
        return [name for i, name in enumerate(self.tool_names) if action >> i & 1]
