"""RLTR's reward of the plan, from what environments tell of turns."""

import gymnasium as gym
import numpy as np
import pytest
import toolcredit  # noqa: F401 - registers the environments

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.group_learner import GroupLearner  # noqa: E402
from toolcredit.agents.group_methods import RLTR  # noqa: E402
from toolcredit.agents.planning import with_planning  # noqa: E402
from toolcredit.agents.rollout import RolloutEngine  # noqa: E402
from toolcredit.agents.trajectory import Segment, Trajectory  # noqa: E402
from toolcredit.errors import CapabilityError  # noqa: E402
from toolcredit.llm.local import load_local_model  # noqa: E402

BROKEN = '<tool_call>\n{"name": \n</tool_call>'
UNKNOWN = '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>'


@pytest.fixture(scope="module")
def tokenizer():
    return load_local_model("tiny-chat").tokenizer


def played(scripted_backend, tokenizer, env, turns, task):
    """The rollout in which the policy writes these turns."""
    backend = scripted_backend.ScriptedBackend(tokenizer, lambda episode, turn: turns[turn])
    return RolloutEngine(backend, env, template="compact").collect([task])[0][0]


def planning(t):
    return with_planning([t])[0].rewards["planning"]


def test_on_sgls_it_is_the_process_score_less_repeats_and_invalid_blocks(scripted_backend, tokenizer):
    env = gym.make("SGLSToolCallingReplay-v0", tier="easy")
    inner = env.unwrapped
    task = inner.task_ids[0]
    gold = inner.gold(task)
    call = inner.turn_text({"tool_calls": [{"type": "function", "function": c} for c in gold["plans"][0][0]]})

    def rollout(*turns):
        return played(scripted_backend, tokenizer, env, [*turns, gold["reply"]], task)

    def process(t):
        return t.rewards["process"]

    t = rollout(call)
    assert planning(t) == process(t) == pytest.approx(1) and [turn.blocks for turn in t.turns] == [1, 0]
    t = rollout(call, call, call)  # two repeat the one before
    assert [turn.repeated for turn in t.turns] == [0, 1, 1, 0]
    assert planning(t) == pytest.approx(process(t) - 0.2)
    t = rollout(call + "\n" + call)  # in one turn as well
    assert planning(t) == pytest.approx(process(t) - 0.1)
    t = rollout(call, UNKNOWN, call)  # in between there was another one
    assert [turn.repeated for turn in t.turns] == [0, 0, 0, 0]
    assert planning(t) == pytest.approx(process(t) - 0.2)
    t = rollout(call, BROKEN + "\n" + BROKEN)
    assert planning(t) == pytest.approx(process(t) - 0.4)
    assert planning(rollout(BROKEN)) == -1.0  # a format that cannot be read
    assert planning(rollout()) == 0.0  # no call is no format error: the omission guard's process reward
    assert planning(Trajectory.from_json(rollout(call, BROKEN).to_json())) == planning(rollout(call, BROKEN))


def test_completeness_is_used_where_it_is_judged(chat_envs, scripted_backend, tokenizer):
    def of(rewards):
        env = chat_envs.Conversation(chat_envs.turns_of_tools(1), score=lambda task, texts: (0.0, rewards))
        return with_planning([played(scripted_backend, tokenizer, env, ["<tool_call>", "Done."], "a")])[0]

    assert of({"completeness": 2 / 3, "process": 0.1, "total": 0.0}).rewards["planning"] == pytest.approx(2 / 3)
    assert of({"completeness": None, "process": 0.1, "total": 0.0}).rewards["planning"] is None
    assert of({"planning": 0.25, "completeness": 1.0, "total": 0.0}).rewards["planning"] == 0.25
    with pytest.raises(CapabilityError, match="completeness or process"):
        of({"total": 0.0})


def test_only_the_planners_tokens_learn(chat_envs):
    scores = iter(np.linspace(0, 1, 100))

    def score(task, texts):
        return 1.0, {"process": 0.0, "completeness": float(next(scores)), "summary": 1.0, "total": 1.0}

    env = chat_envs.Conversation(chat_envs.turns_of_tools(1), score=score)
    policy = {"model": "tiny", "weights": "full", "template": "compact"}
    learner = RLTR({"policy": policy, "max_updates": 1, "tasks_per_update": 2, "group_size": 3, "max_new_tokens": 4})
    records = []
    learner.learn(env, callbacks=[records.append])
    assert 0 < records[0]["reward/planning"] < 1 and records[0]["advantage/tool"] > 0
    assert records[0]["advantage/summary"] == 0 and isinstance(learner, GroupLearner)
    collected, credit = learner._collect(0, 0.0)
    for t, tokens in zip(collected[0][0], credit[0].tokens, strict=True):
        assert not tokens[t.segment != Segment.TOOL].any()
