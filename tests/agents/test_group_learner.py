"""Group learners on a tiny real model: they learn, repeat, resume exactly, keep the lock, and refuse what cannot be."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.base import agent_class  # noqa: E402
from toolcredit.agents.group_learner import GroupLearner  # noqa: E402
from toolcredit.agents.group_methods import SLCAGRPO, GRPOChat  # noqa: E402
from toolcredit.agents.trajectory import Segment  # noqa: E402
from toolcredit.errors import CapabilityError, RunError, UnknownNameError, UsageError  # noqa: E402
from toolcredit.llm.client import ChatClient  # noqa: E402

FULL = {"model": "tiny", "weights": "full", "template": "compact"}
TINY = {
    "policy": FULL,
    "max_updates": 3,
    "tasks_per_update": 2,
    "group_size": 4,
    "temperature": 4.0,  # a random model with tied weights repeats itself
    "learning_rate": 3e-3,
    "max_new_tokens": 4,
    "max_turns": 2,
    "slots": 8,
    "kl": 0.0,
    "probe_every": 2,
    "eval_every": 2,
    "save_every": 2,
}
METHODS = [
    "vineppo",
    "spo-chain",
    "slca-exact",
    "slca-grpo",
    "grpo-chat",
    "rloo",
    "dr-grpo",
    "dapo",
    "toolpo",
    "mt-grpo",
    "rltr",
    "gigpo",
    "slca-gigpo",
]


def letters(text):
    return sum(c.islower() for c in text) / max(len(text), 1)


def score(task, texts):
    process, summary = letters(texts[0]), letters(texts[-1])
    parts = {"process": process, "summary": summary, "name": process, "omitted": 0.0, "total": process + summary}
    return process + summary, parts


@pytest.fixture
def env(chat_envs):
    """A call, a tool's answer, a summary; lower-case letters are worth something in both turns."""
    return chat_envs.Conversation(chat_envs.turns_of_tools(1), score=score)


def weights(learner):
    return {name: tensor.detach().clone() for name, tensor in learner.policy.trainable_parameters().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def untimed(record):
    return {name: value for name, value in record.items() if "seconds" not in name}


def test_it_learns_to_write_what_is_rewarded(env):
    records = []
    learner = SLCAGRPO(TINY | {"max_updates": 12, "group_size": 8, "learning_rate": 1e-2, "probe_every": 0})
    learner.learn(env, callbacks=[records.append])
    rewards = [r["reward"] for r in records]
    assert np.mean(rewards[-3:]) > np.mean(rewards[:2]) + 0.25


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_the_same_seed_gives_the_same_numbers(env, kind):
    extra = {"policy": FULL | {"weights": kind}, "kl": 0.1, "epochs": 2, "mini_batch": 3, "max_updates": 2}
    runs = []
    for seed in (0, 0, 1):
        records = []
        learner = SLCAGRPO(TINY | extra | {"seed": seed})
        learner.learn(env, callbacks=[records.append])
        runs.append((weights(learner), [untimed(r) for r in records]))
    assert same(runs[0][0], runs[1][0]) and runs[0][1] == runs[1][1]
    assert not same(runs[0][0], runs[2][0])


def test_a_stopped_run_resumes_to_the_same_numbers(env, tmp_path):
    config = TINY | {"kl": 0.1, "keep_trajectories": True}
    whole = SLCAGRPO(config, out=tmp_path / "whole")
    whole.learn(env, eval_env=env)

    def stop(record):
        if record["update"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SLCAGRPO(config, out=tmp_path / "cut").learn(env, eval_env=env, callbacks=[stop])
    resumed = SLCAGRPO(config, out=tmp_path / "cut")
    resumed.learn(env, eval_env=env, resume=True)
    assert same(weights(whole), weights(resumed))
    lines = [
        [untimed(json.loads(line)) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "cut")
    ]
    assert lines[0] == lines[1] and len(lines[0]) == 3
    episodes = [(tmp_path / name / "trajectories.jsonl").read_text() for name in ("whole", "cut")]
    assert episodes[0] == episodes[1] and episodes[0].count("\n") == 3 * 8  # those of the repeated update once


@pytest.mark.parametrize("name", METHODS)
def test_every_method_makes_an_update(env, name):
    records = []
    agent_class(name)(TINY | {"max_updates": 1}).learn(env, callbacks=[records.append])
    assert records[0]["phase"] == name and records[0]["steps"] == 1
    assert (
        records[0]["episodes"] >= 8
        and records[0]["turns"] == 2
        and records[0]["call_turns"] == records[0]["calls"] == 1
    )
    assert np.isfinite(records[0]["gradient_norm"])


def rescored(trajectory, rewards):
    last = replace(trajectory.turns[-1], reward=rewards["total"])
    return replace(trajectory, rewards=rewards, turns=(*trajectory.turns[:-1], last))


def credited(learner, env, change=None):
    """The first update's episodes with their credit, the rewards perhaps changed before."""
    learner.learn(env)  # makes the engine
    collected, _ = learner._collect(learner.config.max_updates - 1, 0.0)
    kept = []
    for group in collected[0]:
        if change:
            group = [rescored(t, change(i, dict(t.rewards))) for i, t in enumerate(group)]
        kept += zip(group, learner.estimate(group).tokens, strict=True)
    return learner._credited(kept)


@pytest.mark.parametrize(
    ("changed", "kept"), [("summary", Segment.TOOL), ("process", Segment.SUMMARY)], ids=["summary", "process"]
)
def test_one_segments_reward_leaves_the_others_gradient_as_it_is_bit_for_bit(env, changed, kept):
    other = Segment.SUMMARY if kept is Segment.TOOL else Segment.TOOL

    def change(i, rewards):
        rewards[changed] = float(i % 3)
        rewards["total"] = rewards["process"] + rewards["summary"]
        return rewards

    for cls, locked in ((SLCAGRPO, True), (GRPOChat, False)):
        gradients = []
        for how in (None, change):
            learner = cls(TINY | {"max_updates": 1})
            episodes = credited(learner, env, how)
            gradients.append([learner.segment_gradient(episodes, s) for s in (kept, other)])
        assert torch.equal(gradients[0][0], gradients[1][0]) is locked
        assert not torch.equal(gradients[0][1], gradients[1][1])


def test_rollouts_are_sampled_by_the_adapter_that_is_trained(env):
    records = []
    learner = SLCAGRPO(TINY | {"policy": FULL | {"weights": "lora"}, "learning_rate": 0.05})
    learner.learn(env, callbacks=[records.append])
    assert all(r["sampler_difference"] < 1e-4 for r in records)
    episodes = credited(SLCAGRPO(TINY | {"max_updates": 1}), env)
    foreign = [replace(e, trajectory=replace(e.trajectory, logprobs=e.trajectory.logprobs * 2)) for e in episodes]
    with pytest.raises(UsageError, match="another policy"):
        learner._learn([replace(e, old=e.trajectory.logprobs) for e in foreign], 1)


def test_the_reference_is_the_start_of_the_run(env, tmp_path, caplog):
    caplog.set_level("INFO")
    lora = FULL | {"weights": "lora"}
    first = SLCAGRPO(TINY | {"policy": lora, "kl": 0.1, "learning_rate": 0.05}, out=tmp_path)
    records = []
    first.learn(env, callbacks=[records.append])
    assert "adapter switched off" in caplog.text
    assert records[0]["kl"] == pytest.approx(0, abs=1e-6) and records[2]["kl"] > 1e-4
    caplog.clear()
    second = SLCAGRPO(TINY | {"policy": lora, "kl": 0.1, "max_updates": 1, "init": str(tmp_path)})
    second.learn(env, callbacks=[records.append])
    assert "frozen copy" in caplog.text
    assert records[-1]["kl"] == pytest.approx(0, abs=1e-6)  # of the continued adapter, not of the base model


def test_recomputed_log_probabilities_agree_with_the_sampled_ones(env):
    learner = SLCAGRPO(TINY | {"max_updates": 1, "old_logprobs": "recomputed"})
    for episode in credited(learner, env):
        assert np.allclose(episode.old, episode.trajectory.logprobs, atol=1e-4)
        assert np.allclose(episode.cap[episode.trajectory.trainable], 1, atol=1e-3)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "constant"])
def test_micro_batches_change_memory_only(env, aggregation):
    gradients = []
    for size in (1, 16):
        learner = SLCAGRPO(TINY | {"max_updates": 1, "aggregation": aggregation, "micro_batch": size, "kl": 0.1})
        episodes = credited(SLCAGRPO(TINY | {"max_updates": 1, "kl": 0.1}), env)
        learner.prepare(env)
        learner.optimizer = torch.optim.SGD(learner.policy.trainable_parameters().values(), lr=0.1)
        learner.accumulate(episodes)
        gradients.append(torch.cat([p.grad.flatten() for p in learner.policy.trainable_parameters().values()]))
    assert torch.allclose(*gradients, atol=1e-5)


def test_logs_say_what_happened_in_each_segment(env):
    records = []
    SLCAGRPO(TINY | {"max_updates": 1}).learn(env, callbacks=[records.append])
    wanted = {
        "reward/process", "reward/summary", "advantage/tool", "advantage/summary", "dead_group_rate/tool",
        "dead_group_rate/summary", "clipped_ratio", "clipped", "ratio_mean", "ratio_max", "entropy", "gradient_norm",
        "gradient_norm/tool", "gradient_norm/summary", "gradient_cosine", "tokens", "rollout_seconds", "waited_seconds",
    }  # fmt: skip
    assert wanted <= records[0].keys()
    assert -1 <= records[0]["gradient_cosine"] <= 1


def test_completions_of_endpoints_behind_the_environment_are_counted_by_model(chat_envs, chat_server):
    client = ChatClient("fake", base_url=chat_server.url)

    def answer(task, turn, text):  # as a mock that is a language model does, in the environment's own thread
        return None if turn else chat_envs.tool_answers(client.complete([{"role": "user", "content": task}]).text)

    records = []
    env = chat_envs.Conversation(answer, score=score)
    report = SLCAGRPO(TINY | {"max_updates": 2}).learn(env, eval_env=env, callbacks=[records.append])
    assert records[0]["spent"]["endpoint/fake/completions"] == 8
    assert report.spent["endpoint/fake/completions"] == 18  # and two greedy episodes
    assert report.spent["endpoint/fake/prompt_tokens"] == 180 and report.spent["endpoint/fake/completion_tokens"] == 18
    assert records[1]["dev_calls"] == 1 and records[1]["dev_tokens"] > 1


def test_weights_that_diverge_are_told_with_what_to_change(env):
    learner = SLCAGRPO(TINY)
    learner.optimizer = torch.optim.AdamW(learner.policy.trainable_parameters().values())
    for parameter in learner.policy.trainable_parameters().values():
        parameter.grad = torch.full_like(parameter, float("nan"))
    before = weights(learner)
    with pytest.raises(UsageError, match="not finite.*learning_rate than 0.003"):
        learner.step()
    assert same(before, weights(learner))


def test_equal_rewards_move_nothing_and_are_told(chat_envs, caplog):
    env = chat_envs.Conversation(
        chat_envs.turns_of_tools(1), score=lambda task, texts: (1.0, {"process": 0.5, "summary": 0.5, "total": 1.0})
    )
    learner = GRPOChat(TINY | {"max_updates": 1})
    before = weights(learner)
    records = []
    learner.learn(env, callbacks=[records.append])
    assert same(before, weights(learner)) and records[0]["dead_group_rate/episode"] == 1.0
    assert "nothing but the KL is learned" not in caplog.text
    GRPOChat(TINY | {"max_updates": 11}).learn(env)
    assert caplog.text.count("nothing but the KL is learned") == 1
    records.clear()
    agent_class("dapo")(TINY | {"max_updates": 1}).learn(env, callbacks=[records.append])
    assert records[0]["steps"] == 0 and records[0]["episodes"] > 8


def test_groups_that_teach_nothing_are_replaced_by_other_tasks(chat_envs):
    tasks = {f"t{i}": f"Question {i}?" for i in range(5)}
    env = chat_envs.Conversation(chat_envs.turns_of_tools(1), tasks=tasks)
    learner = agent_class("dapo")(TINY | {"max_updates": 1, "group_size": 2})
    learner.learn(env)
    collected, _ = learner._collect(0, 0.0)
    drawn = [{t.task_id for group in rollouts for t in group} for rollouts in collected]
    assert list(map(len, drawn)) == [2, 2, 1] and set.union(*drawn) == set(tasks)


def test_what_cannot_be_is_refused_before_the_first_rollout(env, tmp_path):
    with pytest.raises(UnknownNameError, match="group_size"):
        SLCAGRPO({"groupsize": 3})
    with pytest.raises(UnknownNameError, match="lambda_tool"):
        SLCAGRPO(TINY | {"options": {"lambda_tol": 1.0}}).learn(env)
    with pytest.raises(CapabilityError, match="step_reward:process"):
        GroupLearner(TINY | {"estimator": "slca_gigpo"}).learn(env)
    with pytest.raises(RunError, match="out"):
        SLCAGRPO(TINY).learn(env, resume=True)
