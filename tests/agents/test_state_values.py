"""Values of states of real rollouts: right on average, shared, repeatable, counted, refused where they cannot be."""

import json
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import toolcredit  # noqa: F401 - registers the environments

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.base import agent_class  # noqa: E402
from toolcredit.agents.estimators.values import cut_points  # noqa: E402
from toolcredit.agents.group_learner import GroupLearner  # noqa: E402
from toolcredit.agents.group_methods import VinePPO  # noqa: E402
from toolcredit.errors import CapabilityError, UsageError  # noqa: E402


def score(task, texts):
    """Blue is best, `aye` is better, and a good report of a call with `aye` is worth something."""
    process = 0.6 * ("blue" in texts[0]) + 0.3 * ('"aye"' in texts[0])
    summary = 0.5 * (texts[-1] == "good") * ('"aye"' in texts[0])
    return process + summary, {"process": process, "summary": summary, "total": process + summary}


@pytest.fixture(scope="module")
def folder(grammar_policy, tmp_path_factory):
    path = tmp_path_factory.mktemp("grammar")
    grammar_policy.save(path)
    return path


@pytest.fixture
def env(chat_envs, grammar_policy):
    return chat_envs.Conversation(chat_envs.turns_of_tools(1), score=score, tools=grammar_policy.TOOLS)


def config(folder, **more):
    return {
        "policy": {"model": str(folder), "weights": "full", "template": "own"},
        "max_updates": 2,
        "tasks_per_update": 2,
        "group_size": 3,
        "max_new_tokens": 16,
        "max_turns": 2,
        "slots": 64,
        "kl": 0.0,
        "value_rollouts": 2,
        "learning_rate": 1e-3,
        **more,
    }


def ready(learner, env, tasks=("a",), size=3):
    """The learner, and groups of its rollouts."""
    learner.bind(env)
    learner.prepare(env)
    return learner, [list(group) for group in learner.rollouts.collect(tasks, size, seed=1, max_new_tokens=16)]


def test_values_are_means_over_what_the_policy_goes_on_to_do(env, folder):
    learner, groups = ready(VinePPO(config(folder, value_rollouts=400)), env, size=2)
    (fields,) = learner.supplements.values.fields(groups, seed=3)
    many = learner.rollouts.collect(["a"], 800, seed=2, max_new_tokens=16)[0]
    for t, values in zip(groups[0], fields["values"], strict=True):
        assert values.shape == (2,)
        for step, value in enumerate(values):
            start = int((t.step == step).argmax())
            like = [m.rewards["total"] for m in many if np.array_equal(m.ids[:start], t.ids[:start])]
            error = np.std(like) * np.sqrt(1 / len(like) + 1 / 400)
            assert len(like) > 20 and abs(value - np.mean(like)) < 4 * error + 1e-9
    assert fields["values"][0][0] == fields["values"][1][0]  # the prompt is valued once


def test_steps_are_credited_with_differences_of_values(env, folder):
    learner, groups = ready(VinePPO(config(folder)), env)
    (fields,) = learner.supplements.values.fields(groups, seed=3)
    (credit,) = learner.supplements.credit(groups, learner.estimate, seed=3)
    for t, tokens, (before, after) in zip(groups[0], credit.tokens, fields["values"], strict=True):
        np.testing.assert_allclose(tokens[t.step == 0], after - before)
        np.testing.assert_allclose(tokens[t.step == 1], t.rewards["total"] - after)
        assert not tokens[t.step < 0].any()


def test_values_depend_on_the_seed_and_not_on_what_else_is_valued(env, folder):
    learner, groups = ready(VinePPO(config(folder)), env, tasks=("a", "b"))
    values = learner.supplements.values
    both, again, other = values.fields(groups, seed=3), values.fields(groups[:1], seed=3), values.fields(groups, seed=4)
    for one, two in zip(both[0]["values"], again[0]["values"], strict=True):
        np.testing.assert_array_equal(one, two)
    assert any((one != two).any() for one, two in zip(both[0]["values"], other[0]["values"], strict=True))


def test_fresh_rollouts_are_counted_apart(env, folder):
    learner, groups = ready(VinePPO(config(folder, value_rollouts=3)), env)
    learner.supplements.values.fields(groups, seed=3)
    counts = learner.supplements.take_counts()
    second = {t.ids[: int((t.step == 1).argmax())].tobytes() for t in groups[0]}
    assert counts["branch_episodes"] == 3 * (1 + len(second))
    assert 3 * 8 <= counts["branch_tokens"] <= 3 * (9 + 2 * len(second))  # a whole episode, or a report of two tokens
    records = []
    VinePPO(config(folder, max_updates=1)).learn(env, callbacks=[records.append])
    spent = records[0]["spent"]
    assert spent["episodes"] == 6 and records[0]["branch_episodes"] == spent["branch_episodes"] > 0
    assert spent["branch_tokens"] > 0 and spent["sampled_tokens"] == sum([records[0]["tokens"] * 6])


def test_spo_chain_is_valued_at_its_cuts(env, folder):
    options = {"every": 1, "threshold": 0.9}
    learner, groups = ready(agent_class("spo-chain")(config(folder, options=options)), env)
    (fields,) = learner.supplements.values.fields(groups, seed=3)
    (credit,) = learner.supplements.credit(groups, learner.estimate, seed=3)
    lengths = set()
    for t, values, tokens in zip(groups[0], fields["cut_values"], credit.tokens, strict=True):
        cuts = cut_points(t.logprobs.astype(float), t.trainable, **options)
        assert len(values) == len(cuts)
        lengths.add(len(cuts))
        uncertain = t.trainable & (np.exp(t.logprobs.astype(float)) < 0.9)
        assert not tokens[~uncertain].any()
        last = np.flatnonzero(uncertain)[-1]
        np.testing.assert_allclose(tokens[last], t.rewards["total"] - values[-1])
    assert max(lengths) > 1


def test_a_computed_reward_of_continuations_is_computed_too(env, folder):
    learner, groups = ready(VinePPO(config(folder, options={"reward": "planning"})), env)
    (fields,) = learner.supplements.values.fields(groups, seed=3)
    assert np.isfinite(np.concatenate(fields["values"])).all()
    records = []
    settings = config(folder, max_updates=1, estimator="slca_exact", options={"tool": "planning", "guard": False})
    GroupLearner(settings).learn(env, callbacks=[records.append])
    assert records[0]["exact_choices"] > 0 and records[0]["excluded/choices"] == 0
    with pytest.raises(CapabilityError, match="choice_values=branch"):
        GroupLearner(settings | {"choice_values": "counterfactual"}).learn(env)


def test_a_stopped_run_resumes_to_the_same_numbers(env, folder, tmp_path):
    settings = config(folder, max_updates=3, save_every=1)
    VinePPO(settings, out=tmp_path / "whole").learn(env)

    def stop(record):
        if record["update"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VinePPO(settings, out=tmp_path / "cut").learn(env, callbacks=[stop])
    VinePPO(settings, out=tmp_path / "cut").learn(env, resume=True)
    lines = [
        [
            {name: value for name, value in json.loads(line).items() if "seconds" not in name}
            for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        ]
        for name in ("whole", "cut")
    ]
    assert lines[0] == lines[1] and len(lines[0]) == 3


def test_it_learns(env, folder):
    records = []
    settings = config(folder, max_updates=8, group_size=8, learning_rate=2e-3)
    VinePPO(settings).learn(env, callbacks=[records.append])
    assert np.mean([r["reward"] for r in records[-2:]]) > np.mean([r["reward"] for r in records[:2]]) + 0.1


def half(trajectory):
    """A critic that expects half of everything, before each turn."""
    return [0.5] * len(trajectory.turns)


def wrong(trajectory):
    """A critic that values the end too."""
    return [0.5] * (len(trajectory.turns) + 1)


def test_a_critic_of_ones_own_gives_carl_its_values(env, folder):
    learner, groups = ready(GroupLearner(config(folder, estimator="carl", critic=f"{__name__}:half")), env)
    (credit,) = learner.supplements.credit(groups, learner.estimate, seed=0)
    for t, tokens in zip(groups[0], credit.tokens, strict=True):
        assert not tokens[t.step == 0].any()
        np.testing.assert_allclose(tokens[t.step == 1], t.rewards["total"] - 0.5)
    assert learner.supplements.take_counts() == {}
    learner, groups = ready(GroupLearner(config(folder, estimator="carl", critic=f"{__name__}:wrong")), env)
    with pytest.raises(UsageError, match="one before each turn"):
        learner.supplements.values.fields(groups, seed=0)


def test_carl_without_a_critic_is_refused_and_monte_carlo_is_one(env, folder):
    with pytest.raises(CapabilityError, match="critic=package.module:function"):
        GroupLearner(config(folder, estimator="carl")).learn(env)
    records = []
    GroupLearner(config(folder, estimator="carl", critic="monte_carlo", max_updates=1)).learn(
        env, callbacks=[records.append]
    )
    assert records[0]["branch_episodes"] > 0 and records[0]["steps"] == 1


def test_what_cannot_be_valued_is_refused(env, folder):
    with pytest.raises(CapabilityError, match="middle of turns"):
        GroupLearner(config(folder, estimator="spo_chain", critic=f"{__name__}:half")).learn(env)
    with pytest.raises(UsageError, match="cannot be imported"):
        GroupLearner(config(folder, estimator="carl", critic="nowhere:half")).learn(env)
    with pytest.raises(UsageError, match="expected a function"):
        GroupLearner(config(folder, estimator="carl", critic=f"{__name__}:torch.__version__")).learn(env)


def test_a_state_whose_rollouts_were_not_scored_leaves_its_rollout_out(env, folder):
    learner, groups = ready(VinePPO(config(folder)), env)
    fields = {"values": [np.array([0.3, 0.4]), np.array([np.nan, 0.5]), np.array([0.3, 0.6])]}
    credit = learner.estimate(groups[0], **fields)
    assert not credit.tokens[1].any() and credit.tokens[0].any() and credit.channels["episode"].excluded == (1,)
    unscored = replace(groups[0][2], rewards={**groups[0][2].rewards, "total": None})
    credit = learner.estimate([*groups[0][:2], unscored], **fields)
    assert credit.channels["episode"].excluded == (1, 2)


def test_on_sgls_a_value_is_the_score_of_whole_episodes(chat_envs):
    env = gym.make("SGLSToolCallingReplay-v0", tier="easy")
    policy = {"model": "tiny-chat", "weights": "full", "template": "compact"}
    learner = VinePPO({"policy": policy, "max_new_tokens": 6, "max_turns": 2, "value_rollouts": 2, "kl": 0.0})
    learner.bind(env)
    learner.prepare(env)
    groups = list(learner.rollouts.collect(learner.tasks[:1], 2, max_new_tokens=6))
    (fields,) = learner.supplements.values.fields(groups, seed=0)
    for values in fields["values"]:
        assert values[0] == pytest.approx(-0.5)  # nothing is called: the omission guard's total
