"""The set of tasks behind an environment: which tasks, by id, from where."""

from __future__ import annotations

import gymnasium as gym
import pytest
import toolcredit  # noqa: F401 - registers the ids
from toolcredit.envs.sgls.generate import generate_tasks, tasks_among
from toolcredit.envs.sgls.tasksets import EMBEDDED_TASKS, TaskSet
from toolcredit.errors import EmptySplitError, TaskError


def test_a_longer_embedded_set_begins_with_the_shorter_one():
    usual = TaskSet("embedded", "train", "easy")
    longer = TaskSet("embedded:6000", "train", "easy")
    assert longer.ids[: len(usual.ids)] == usual.ids and len(longer.ids) > 1.8 * len(usual.ids)
    assert all(longer[task].to_json() == usual[task].to_json() for task in usual.ids)
    assert longer.pool == {}  # its tools are the pack's, not its own


@pytest.mark.parametrize(("split", "tier"), [("dev", None), ("test", "hard"), ("ood_tool", "easy")])
def test_only_the_wanted_part_of_the_list_is_generated_and_is_the_same(split, tier):
    tiers = ("easy", "medium", "hard") if tier is None else (tier,)
    wanted = [t for t in generate_tasks(700) if t.split == split and t.tier in tiers]
    assert [t.to_json() for t in tasks_among(700, splits=[split], tiers=tiers)] == [t.to_json() for t in wanted]
    assert TaskSet("embedded:700", split, tier).ids == [t.id for t in wanted]


def test_a_set_too_short_for_the_kind_is_empty():
    assert tasks_among(2, splits=["dev"]) == ()
    with pytest.raises(EmptySplitError):
        _ = TaskSet("embedded:2", "dev").ids


@pytest.mark.parametrize("number", ["0", "-3", "1e3", "", "1000001", "³"])
def test_a_bad_number_is_refused_at_once(number):
    with pytest.raises(TaskError, match="embedded:N with N from 1"):
        TaskSet(f"embedded:{number}", "train")


def test_the_environment_takes_it():
    env = gym.make("SGLSToolCallingReplay-v0", tasks=f"embedded:{2 * EMBEDDED_TASKS}", split="dev", tier="easy")
    ids = env.unwrapped.task_ids
    observation, info = env.reset(seed=0, options={"task_id": ids[-1]})
    assert info["task_id"] == ids[-1] and observation[-1]["role"] == "user"
    assert set(ids) > set(TaskSet("embedded", "dev", "easy").ids)
