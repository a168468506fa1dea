"""`GenomeToolSubset-v0`: choose the tools whose evidence a frozen reasoner reads to answer a question about DNA.

One step: the observation is a multiple-choice question, the action a subset of n tools (bit i = tool i, 0 = none), the
reward says whether the reasoner then answers right, and at what cost. Setting and rewards follow arXiv 2609.10221. The
environment is a `TextBandit` (see `agents/base.py`) and an `OutcomeBandit` (see `envs/table.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from ...errors import EmptySplitError, InfrastructureError, TableError, UnknownNameError, UsageError
from ...rewards.subset import SubsetReward, subset_reward
from ..spaces import UnicodeText
from ..table import FAILED, UNPARSED, RewardTable
from .actions import action_text, parse_action, policy_messages, question_text, tools_of
from .questions import EMBEDDED, LETTERS, SPLITS, Question, load_questions
from .reasoners import make_reasoner
from .reasoners.base import Reasoner
from .sequence import question_key
from .tools import DEFAULT_TOOLS, make_tool
from .tools.base import MAX_EVIDENCE_CHARACTERS, Evidence, Reference, Tool

MAX_TOOLS = 16
#: Longest observation: 26 options of 100,000 bases and the wording around them fit.
MAX_OBSERVATION_CHARACTERS = 2**22
_ANSWERS_KEPT = 2**16
_QUESTIONS_KEPT = 2**12
#: Built when first used, and built again after unpickling instead of being pickled.
_LAZY = ("_by_id", "question_ids", "_tools", "_reasoner", "_reward", "_choice", "_evidence", "_table_row", "_key")


class GenomeToolSubsetEnv(gym.Env[str, Any]):
    """Which tools should be called before a frozen reasoner answers?

    Args:
        questions: `"embedded"`, the path of a question file (`docs/questions.md`), or questions.
        split: `train`, `dev`, `test`, or `all`.
        tools: names of tools, or tools, in the order of the action's bits; 1 to 16.
        reasoner: `"evidence"`, `"chat:MODEL"`, `"local:MODEL"`, a dict, an import path, or a reasoner.
        reward: `eq1`, `differential`, `vista`, an import path of a function, or a function; see `rewards/subset.py`.
        parsimony: λ of `eq1`, in [0, 1): what tools cost. The paper uses 0.1.
        table: a reward table or its path: answers come from it, and no tool or reasoner runs.
        prompt_bases: show only the middle bases of each sequence to the policy; tools always see all.
        render_mode: None, or `ansi`: `render()` gives question, chosen tools, evidence and answer as text.

    Attributes:
        reasoner_calls: how often the reasoner was asked. Answers already known are not asked for again.

    Raises:
        UsageError: an argument cannot be used; the message says what was expected.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    action_space: gym.spaces.Discrete

    def __init__(
        self,
        questions: str | Path | Sequence[Question] = EMBEDDED,
        split: str = "train",
        tools: Sequence[str | Tool] = DEFAULT_TOOLS,
        reasoner: str | dict[str, Any] | Reasoner = "evidence",
        reward: str | Callable | SubsetReward = "eq1",
        parsimony: float = 0.1,
        table: str | Path | RewardTable | None = None,
        prompt_bases: int | None = None,
        render_mode: str | None = None,
    ):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UsageError(f"render_mode must be None or 'ansi', got {render_mode!r}")
        if split not in (*SPLITS, "all"):
            raise UnknownNameError("split", split, (*SPLITS, "all"))
        if isinstance(tools, str) or not isinstance(tools, Sequence) or not 1 <= len(tools) <= MAX_TOOLS:
            raise UsageError(f"tools must be a list of 1 to {MAX_TOOLS} tools, got {tools!r}")
        self._questions_from = questions
        self._tools_from = tuple(tools)
        self._reasoner_from = reasoner
        self._reward_from = reward
        if prompt_bases is not None and (type(prompt_bases) is not int or prompt_bases < 1):
            raise UsageError(f"prompt_bases must be None or an integer of at least 1, got {prompt_bases!r}")
        if isinstance(parsimony, bool) or not isinstance(parsimony, (int, float)) or not 0 <= parsimony < 1:
            raise UsageError(f"parsimony must be a number from 0 to below 1, got {parsimony!r}")
        self.split = split
        self.parsimony = float(parsimony)
        self.prompt_bases = prompt_bases
        self.render_mode = render_mode
        self.reasoner_calls = 0
        self._now: dict[str, Any] = {}  # the episode: its question, and after the step the action and the choice
        if not self.question_ids:
            present = sorted({q.split for q in self._by_id.values()}) or "no question"
            raise EmptySplitError(f"no question in the split {split!r}: the questions have {present}")
        names = self.tool_names
        if len(set(names)) < len(names):
            raise UsageError(f"each tool may be given once, got {', '.join(names)}")
        self.action_space = gym.spaces.Discrete(2 ** len(names))
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARACTERS, min_length=1)
        self.malformed_reward = self._reward.malformed(len(names), self.parsimony)
        self._reasoner  # noqa: B018 - a wrong name must show here, not in the first step
        self.table = RewardTable.open(table) if isinstance(table, (str, Path)) else table
        if self.table is not None:
            self.table.check_versions(self)

    # ---------------------------------------------------------------------------------------------------- Gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Show `options["question_id"]`, or a question drawn uniformly from the split.

        Raises:
            UnknownNameError: an option other than `question_id`, or an id that is not in the split.
        """
        super().reset(seed=seed)
        options = options or {}
        for name in options:
            if name != "question_id":
                raise UnknownNameError("reset option", name, ["question_id"])
        if "question_id" in options:
            question = self._question(options["question_id"])
        else:
            question = self._by_id[self.question_ids[self.np_random.integers(len(self.question_ids))]]
        self._now = {"question": question}
        return question_text(question.public), self._info(question)

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer the question with the evidence of the tools in `action`; the episode ends.

        Raises:
            UsageError: no action of the action space.
            ResetNeeded: there is no running episode.
            EndpointError: the reasoner's endpoint failed. There is no reward; the same step can be tried again.
        """
        if not self._now or "action" in self._now:
            raise ResetNeeded("call reset() before step(): an episode has one step")
        if action not in self.action_space:
            raise UsageError(f"an action is an integer from 0 to {self.action_space.n - 1}, got {action!r}")
        question, action = self._now["question"], int(action)
        subsets = {action, *self._reward.needed(action, self.n_tools)}
        choices = {subset: self._choice(question.id, subset) for subset in sorted(subsets)}
        outcomes = {subset: choice == question.answer for subset, choice in choices.items()}
        rewards = self._reward.one(action, outcomes, self.n_tools, self.parsimony)
        choice = choices[action]
        evidence = None
        if self.table is None:
            blocks = self._blocks(question.id, action)
            evidence = [{"tool": block.tool, "title": block.title, "text": block.text} for block in blocks]
        self._now |= {"action": action, "choice": choice}
        info = self._info(question) | {
            "subset": [self.tool_names[i] for i in tools_of(action)],
            "evidence": evidence,
            "answer": None if choice is None else LETTERS[choice],
            "correct": outcomes[action],
            "rewards": rewards,
        }
        return question_text(question.public), sum(rewards.values()), True, False, info

    def render(self) -> str | None:
        """The episode as text if `render_mode` is `ansi`, else None."""
        if self.render_mode is None or not self._now:
            return None
        question, action = self._now["question"], self._now.get("action")
        text = question_text(question.public)
        if action is None:
            return text
        names = ", ".join(self.tool_names[i] for i in tools_of(action)) or "none"
        blocks = "\n\n".join(block.block() for block in self._blocks(question.id, action)) or "(no evidence)"
        choice = self._now["choice"]
        answer = "not readable" if choice is None else f"{LETTERS[choice]}) {question.public.choices[choice]}"
        verdict = "right" if choice == question.answer else "wrong"
        return f"{text}\n\nTools: {names}\n\n{blocks}\n\nAnswer: {answer} ({verdict})"

    # -------------------------------------------------------------------------------------------------- TextBandit

    @cached_property
    def question_ids(self) -> tuple[str, ...]:
        """Ids of the split's questions, in the order of the file."""
        return tuple(id for id, q in self._by_id.items() if self.split in ("all", q.split))

    def policy_messages(self, observation: str, info: dict[str, Any]) -> list[dict[str, str]]:
        """The prompt of the paper for the question of `info["id"]`, cropped to `prompt_bases`."""
        return policy_messages(self._question(info.get("id")).public, self.n_tools, self.prompt_bases)

    def action_text(self, action: int) -> str:
        """The string of a subset, e.g. `<answer>0,3</answer>`."""
        return action_text(int(action))

    def parse_action(self, text: str) -> int | None:
        """The subset a completion names, or None; see `actions.parse_action` for what is malformed."""
        return parse_action(text, self.n_tools)

    def tool_descriptions(self) -> dict[str, str]:
        """Name and description of each tool in the order of the bits, for prompts that name the tools."""
        return {tool.name: tool.description for tool in self._tools}

    # ------------------------------------------------------------------------------------------------ OutcomeBandit

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools in the order of the action's bits."""
        return tuple(tool.name for tool in self._tools)

    @property
    def n_tools(self) -> int:
        """Number n of tools; there are 2**n actions."""
        return len(self._tools)

    @property
    def versions(self) -> dict[str, str]:
        """What the outcomes depend on besides the questions: the tools in order, their versions, the reasoner's."""
        tools = {f"tool {tool.name}": tool.version for tool in self._tools}
        reasoner = f"{self._reasoner.name} {self._reasoner.version}"
        return {"tools": ", ".join(self.tool_names), **tools, "reasoner": reasoner}

    @property
    def concurrency(self) -> int:
        """How many answers may usefully be waited for at once."""
        return self._reasoner.concurrency

    def question_record(self, question_id: str) -> dict[str, Any]:
        """Content key, family, split and index of the right option, as a reward table stores them."""
        question = self._question(question_id)
        record = {"family": question.family, "split": question.split, "gold": question.answer}
        return {"key": self._key(question_id), **record}

    def outcome_rewards(self, question_ids: Sequence[str], outcomes: np.ndarray) -> np.ndarray:
        """Rewards of all subsets: (questions, 2**n) int8 choices to (questions, 2**n) float64."""
        gold = np.array([self._question(id).answer for id in question_ids], np.int8)
        return self._reward.rows(outcomes == gold[:, None], self.n_tools, self.parsimony)

    # ------------------------------------------------------------------------------------------------------ insides

    @cached_property
    def _by_id(self) -> dict[str, Question]:
        source = self._questions_from
        questions = _load(source) if isinstance(source, (str, Path)) else source
        return {question.id: question for question in questions}

    @cached_property
    def _tools(self) -> tuple[Tool, ...]:
        reference = training_reference(list(self._by_id.values()))
        return tuple(make_tool(spec, reference) for spec in self._tools_from)

    @cached_property
    def _reasoner(self) -> Reasoner:
        return make_reasoner(self._reasoner_from)

    @cached_property
    def _reward(self) -> SubsetReward:
        return subset_reward(self._reward_from)

    @cached_property
    def _key(self) -> Callable[[str], str]:
        return lru_cache(_ANSWERS_KEPT)(lambda id: question_key(self._by_id[id].public))

    @cached_property
    def _choice(self) -> Callable[[str, int], int | None]:
        return self._look_up if self.table is not None else lru_cache(_ANSWERS_KEPT)(self._ask)

    @cached_property
    def _evidence(self) -> Callable[[str, int], Evidence]:
        return lru_cache(_QUESTIONS_KEPT)(self._analyse)

    @cached_property
    def _table_row(self) -> Callable[[str], np.ndarray]:
        assert self.table is not None
        table = self.table
        return lru_cache(_QUESTIONS_KEPT)(lambda id: table.outcomes([self._key(id)])[0])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _LAZY}

    def _ask(self, question_id: str, action: int) -> int | None:
        question = self._by_id[question_id].public
        blocks = self._blocks(question_id, action)
        self.reasoner_calls += 1
        choice = self._reasoner.answer(question, blocks).choice
        if choice is not None and not 0 <= choice < len(question.choices):
            raise UsageError(
                f"the reasoner {self._reasoner.name} answered with choice {choice} of {len(question.choices)}: "
                "a reply that names no option must have the choice None"
            )
        return choice

    def _look_up(self, question_id: str, action: int) -> int | None:
        choice = int(self._table_row(question_id)[action])
        if choice == FAILED:
            raise TableError(
                f"{question_id}, {action_text(action)}: this outcome failed when the reward table was built; "
                "build it again with --resume to try the failed ones once more"
            )
        if choice == UNPARSED:
            return None
        options = len(self._by_id[question_id].public.choices)
        if not 0 <= choice < options:
            raise TableError(
                f"{question_id}, {action_text(action)}: the reward table has the option {choice} of {options}: "
                "it is damaged, build it again with --restart"
            )
        return choice

    def _blocks(self, question_id: str, action: int) -> list[Evidence]:
        return [self._evidence(question_id, i) for i in tools_of(action)]

    def _analyse(self, question_id: str, index: int) -> Evidence:
        tool = self._tools[index]
        try:
            found = tool.analyse(self._by_id[question_id].public)
            return Evidence(found.tool, found.title, str(found.text)[:MAX_EVIDENCE_CHARACTERS])
        except InfrastructureError:
            raise
        except Exception as error:  # a tool that breaks is evidence of nothing, and must not end the episode
            return Evidence(tool.name, tool.name, f"The tool failed: {type(error).__name__}: {error}"[:500])

    def _question(self, question_id: Any) -> Question:
        question = self._by_id.get(question_id) if isinstance(question_id, str) else None
        if question is None or self.split not in ("all", question.split):
            where = f"split {self.split!r} of {len(self.question_ids)} questions"
            hint = f"it is in the split {question.split!r}" if question else "see env.unwrapped.question_ids"
            raise UsageError(f"no question {question_id!r} in the {where}: {hint}")
        return question

    def _info(self, question: Question) -> dict[str, Any]:
        shape = question.public.shape
        return {"id": question.id, "family": question.family, "split": question.split, "shape": shape}


class MultiBinaryAction(gym.ActionWrapper, RecordConstructorArgs):
    """The subset as n zeros and ones, `MultiBinary(n)`, instead of one integer."""

    def __init__(self, env: gym.Env):
        RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        actions = int(env.action_space.n) if isinstance(env.action_space, gym.spaces.Discrete) else 0
        if actions < 2 or actions & (actions - 1):
            raise UsageError(f"MultiBinaryAction needs an environment with 2**n actions, got {env.action_space}")
        self._n_tools = actions.bit_length() - 1
        self.action_space = gym.spaces.MultiBinary(self._n_tools)

    def action(self, action: Any) -> int:
        """The integer whose bits are `action`."""
        if np.asarray(action) not in self.action_space:
            raise UsageError(f"an action is {self._n_tools} zeros and ones, got {action!r}")
        return sum(1 << i for i, chosen in enumerate(np.asarray(action).tolist()) if chosen)


def training_reference(questions: Sequence[Question]) -> Reference:
    """(sequence, right option) of the train split, for tools that compare; "select" questions contribute nothing."""
    records = tuple(
        (question.public.sequence, question.public.choices[question.answer])
        for question in questions
        if question.split == "train" and question.public.sequence is not None
    )
    digest = hashlib.sha256(json.dumps(records).encode()).hexdigest()
    return Reference(records, f"training split ({len(records)} sequences)", digest)


def _load(source: str | Path) -> tuple[Question, ...]:
    if source == EMBEDDED:
        return load_questions()
    path = Path(source)
    state = path.stat() if path.is_file() else None
    return _load_file(path, state and (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=4)
def _load_file(path: Path, state: tuple[int, int] | None) -> tuple[Question, ...]:
    """A question file, read once per process as long as it does not change: environments are made often."""
    return load_questions(path)
