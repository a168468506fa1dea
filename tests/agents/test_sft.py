"""Supervised fine-tuning: token-exact gold episodes, learning, exact resume, both kinds of weights."""

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.sft import SFTLearner  # noqa: E402
from toolcredit.agents.trajectory import Segment  # noqa: E402
from toolcredit.errors import RunError, UnknownNameError, UsageError  # noqa: E402

TINY = {
    "policy": {"model": "tiny", "weights": "full", "template": "compact"},
    "max_updates": 4,
    "batch_size": 4,
    "micro_batch": 3,
    "learning_rate": 3e-3,
    "max_new_tokens": 8,
    "max_turns": 2,
    "eval_every": 2,
    "save_every": 2,
}


@pytest.fixture(scope="module")
def env():
    return gym.make("SGLSToolCallingReplay-v0", split="dev", tier="easy")


def weights(learner):
    return {name: tensor.detach().clone() for name, tensor in learner.policy.trainable_parameters().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_demonstrations_are_the_tokens_of_a_rollout_with_the_gold_turns(env):
    learner = SFTLearner(TINY)
    learner.prepare(env)
    assert len(learner.demonstrations) == len(env.unwrapped.task_ids)
    first = learner.demonstrations[0]
    call, reply = (learner.template.turn_text(first.ids[first.step == k].tolist(), [{}]) for k in (0, 1))
    gold = env.unwrapped.gold(first.task_id)
    assert gold["plans"][0][0][0]["name"] in call and call.startswith("<tool_call>")
    assert reply == gold["reply"]
    assert set(first.segment[first.step == 0]) == {Segment.TOOL}
    assert set(first.segment[first.step == 1]) == {Segment.SUMMARY}
    observation, info = env.reset(options={"task_id": first.task_id})
    prompt = learner.template.prompt_ids(observation, info["tools"])
    assert first.ids[: first.prompt_length].tolist() == prompt


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_the_loss_falls_and_the_same_seed_gives_the_same_numbers(env, kind):
    runs = []
    for _ in range(2):
        records = []
        learner = SFTLearner(TINY | {"policy": TINY["policy"] | {"weights": kind}, "max_updates": 6})
        learner.learn(env, callbacks=[records.append])
        runs.append((weights(learner), [r["loss"] for r in records]))
    assert same(runs[0][0], runs[1][0]) and runs[0][1] == runs[1][1]
    assert runs[0][1][-1] < runs[0][1][0]


def test_micro_batches_change_memory_only(env):
    norms = []
    for size in (1, 4):
        records = []
        SFTLearner(TINY | {"micro_batch": size, "max_updates": 1}).learn(env, callbacks=[records.append])
        norms.append(records[0]["gradient_norm"])
    assert np.isclose(*norms, rtol=1e-4)


def test_a_stopped_run_resumes_to_the_same_numbers(env, tmp_path):
    whole = SFTLearner(TINY, out=tmp_path / "whole")
    whole.learn(env, eval_env=env)

    def stop(record):
        if record["update"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SFTLearner(TINY, out=tmp_path / "cut").learn(env, eval_env=env, callbacks=[stop])
    resumed = SFTLearner(TINY, out=tmp_path / "cut")
    resumed.learn(env, eval_env=env, resume=True)
    assert same(weights(whole), weights(resumed))


def test_a_run_can_be_continued_only_with_the_same_kind_of_weights(env, tmp_path):
    learner = SFTLearner(TINY | {"max_updates": 1}, out=tmp_path)
    learner.learn(env)
    continued = SFTLearner(TINY | {"init": str(tmp_path)})
    assert same(weights(learner), weights(continued)) and continued.policy.continued
    with pytest.raises(RunError, match="--policy"):
        _ = SFTLearner({"policy": {"model": "tiny"}, "init": str(tmp_path)}).policy
    fresh = SFTLearner({"policy": {"model": str(tmp_path / "model")}})
    assert not fresh.policy.continued


def test_unknown_fields_and_environments_without_gold_plans_are_refused(chat_envs):
    with pytest.raises(UnknownNameError, match="batch_size"):
        SFTLearner({"batch_sizes": 3})
    with pytest.raises(UsageError, match="chat environment"):
        SFTLearner(TINY).learn(chat_envs.Conversation(chat_envs.turns_of_tools(1)))


def test_a_run_ends_once_dev_is_good_enough_and_stays_ended(env, tmp_path):
    def learner(reward):
        return SFTLearner(TINY | {"stop_at": reward, "eval_every": 1}, out=tmp_path / str(reward))

    assert learner(-0.5).learn(env, eval_env=env).updates == 1  # doing nothing earns this
    assert learner(-0.5).learn(env, eval_env=env, resume=True).updates == 1
    assert learner(2.5).learn(env, eval_env=env).updates == 4  # nobody can have this
