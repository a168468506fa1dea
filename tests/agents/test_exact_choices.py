"""Exact-action SLCA through a real small transformer whose rollouts can all be listed: the learner is exact."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.episode import Start  # noqa: E402
from toolcredit.agents.exact_choices import CreditedChoice  # noqa: E402
from toolcredit.agents.group_learner import Credited, GroupLearner  # noqa: E402
from toolcredit.agents.group_methods import SLCAExact  # noqa: E402
from toolcredit.agents.sequence_logprobs import pad_batch, token_logprobs  # noqa: E402
from toolcredit.agents.trajectory import SampledTurn, Segment  # noqa: E402
from toolcredit.errors import CapabilityError  # noqa: E402

#: process score of (name, value), and summary score by report; the best arguments differ from name to name
PROCESS = {
    "pick_red": {"aye": 1.0, "nay": 0.2},
    "pick_blue": {"aye": 0.1, "nay": 0.7},
    "find": {"aye": 0.3, "nay": 0.4},
    "ghost": {"aye": 0.0, "nay": 0.0},
}
EXACT = {"scale": False, "baseline": "leave_one_out"}


def parts(texts):
    name = [*texts[0].split('"'), "", "", ""][3]
    value = "aye" if '"aye"' in texts[0] else "nay"
    return name, value


def process_of(texts):
    name, value = parts(texts)
    return PROCESS.get(name, {}).get(value, 0.0)


def score(task, texts):
    process = process_of(texts)
    summary = (0.8 if texts[-1] == "good" else 0.1) * (1.0 if process > 0.35 else 0.5)
    rewards = {"process": process, "summary": summary, "omitted": 0.0, "total": process + summary}
    return process + summary, rewards


@pytest.fixture(scope="module")
def folder(grammar_policy, tmp_path_factory):
    path = tmp_path_factory.mktemp("grammar")
    grammar_policy.save(path / "plain")
    grammar_policy.save(path / "ghost", ghost=True)
    return path


@pytest.fixture
def env(chat_envs, grammar_policy):
    class Rescored(chat_envs.Conversation):
        def call_rewards(self, task_id, turns):
            return {"process": process_of(turns)}

    return Rescored(chat_envs.turns_of_tools(1), score=score, tools=grammar_policy.TOOLS)


def config(folder, kind="plain", **more):
    policy = {"model": str(folder / kind), "weights": "full", "template": "own"}
    return {
        "policy": policy,
        "max_updates": 2,
        "tasks_per_update": 2,
        "group_size": 4,
        "max_new_tokens": 16,
        "max_turns": 2,
        "slots": 8,
        "kl": 0.0,
        "probe_every": 1,
        "options": EXACT,
        "aggregation": "constant",
        "constant_length": 1,
        "learning_rate": 1e-3,  # a larger step breaks the grammar
        **more,
    }


class Listed:
    """All rollouts of one task under a learner's policy, and expectations over them."""

    def __init__(self, learner, env, turns):
        learner.bind(env)
        learner.prepare(env)
        learner.optimizer = torch.optim.SGD(learner.policy.trainable_parameters().values(), lr=1.0)
        tokenizer = learner.backend.tokenizer

        def scripted(text):
            ids = (*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id)
            return SampledTurn(ids, (0.0,) * len(ids))

        starts = [Start("a", tuple(map(scripted, texts))) for texts in turns]
        found = [group[0] for group in learner.rollouts.collect(starts, max_new_tokens=16)]
        logprobs = learner._scores(found)
        self.learner, self.texts = learner, turns
        self.trajectories = [replace(t, logprobs=own * t.trainable) for t, own in zip(found, logprobs, strict=True)]
        self.probabilities = np.array([np.exp(t.logprobs.sum(dtype=np.float64)) for t in self.trajectories])
        assert self.probabilities.sum() == pytest.approx(1, abs=1e-5)
        self.process = np.array([t.rewards["process"] for t in self.trajectories])

    def of_name(self, name):
        """E[process | the call has this name]."""
        own = np.array([parts(texts)[0] == name for texts in self.texts])
        return float(self.probabilities[own] @ self.process[own] / self.probabilities[own].sum())

    def locked_gradient(self):
        """∇ of E over calls ~ π [process] + E over calls, not differentiated [ E over reports ~ π [summary] ]."""
        model = self.learner.policy.model
        batch = pad_batch(self.trajectories)
        logprobs = token_logprobs(model, batch).logprobs
        calls = (logprobs * (batch.segment == Segment.TOOL)).sum(1).exp()
        reports = (logprobs * (batch.segment == Segment.SUMMARY)).sum(1).exp()
        summary = torch.tensor([t.rewards["summary"] for t in self.trajectories])
        value = calls * reports.detach() * torch.tensor(self.process) + calls.detach() * reports * summary
        return self.flat(torch.autograd.grad(value.sum(), self.weights(), allow_unused=True))

    def mass_gradient(self, names):
        """∇ of the probability that the call has one of these names."""
        batch = pad_batch(self.trajectories)
        whole = token_logprobs(self.learner.policy.model, batch).logprobs.sum(1).exp()
        own = torch.tensor([parts(texts)[0] in names for texts in self.texts])
        return self.flat(torch.autograd.grad(whole[own].sum(), self.weights(), allow_unused=True))

    def learned_gradient(self):
        """What the learner's loss gives on average, over all groups of two and all continuations."""
        learner = self.learner
        groups, chances = [], []
        for i, j in itertools.combinations_with_replacement(range(len(self.trajectories)), 2):
            groups.append([replace(self.trajectories[i]), replace(self.trajectories[j])])
            chances.append(self.probabilities[i] * self.probabilities[j] * (1 if i == j else 2))
        found = (
            learner.supplements.choices.find(groups, seed=0) if learner.supplements.choices else [[] for _ in groups]
        )
        episodes = []
        for group, pairs, chance in zip(groups, found, chances, strict=True):
            own = learner.estimate(group, choices=[point for _, point in pairs])
            credited = (
                learner.supplements.choices.credited(group, pairs, own.choices) if learner.supplements.choices else {}
            )
            weight = chance * len(groups)  # the loss divides by all episodes
            for t, tokens in zip(group, own.tokens, strict=True):
                choices = tuple(
                    CreditedChoice(c.start, c.candidates, c.old, c.advantages * weight) for c in credited.get(t, ())
                )
                episodes.append(Credited(t, tokens * weight, t.logprobs, None, np.ones(len(t)), choices))
        learner.optimizer.zero_grad()
        learner.accumulate(episodes)
        return -self.flat([p.grad for p in self.weights()])

    def weights(self):
        return list(self.learner.policy.trainable_parameters().values())

    def flat(self, gradients):
        pairs = zip(self.weights(), gradients, strict=True)
        return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten() for p, g in pairs]).double()


def with_expected_branches(listed, monkeypatch):
    """Continuations are worth their expectation, so that a group's gradient is the mean over all of them."""
    names = [tool["function"]["name"] for tool in listed.learner.rollouts.take_env().tools]
    encode = listed.learner.supplements.choices._finder.candidates('<tool_call>{"name": "', tuple(names))
    value = {tokens: listed.of_name(name) for name, tokens in zip(names, encode, strict=True)}
    monkeypatch.setattr(
        listed.learner.supplements.choices, "_continued", lambda branches, seed: [[value[b.tokens]] for b in branches]
    )


def close(a, b, tolerance=2e-4):
    return float((a - b).norm() / b.norm()) < tolerance


def test_the_learners_gradient_with_branches_is_the_exact_expectation(env, folder, grammar_policy, monkeypatch):
    listed = Listed(SLCAExact(config(folder)), env, grammar_policy.turns())
    with_expected_branches(listed, monkeypatch)
    exact = listed.locked_gradient()
    assert close(listed.learned_gradient(), exact)
    plain = Listed(GroupLearner(config(folder, estimator="slca")), env, grammar_policy.turns())
    assert close(plain.learned_gradient(), exact)  # as plain SLCA's, which this test must be able to tell


def test_counterfactual_values_cost_nothing_and_are_biased(env, folder, grammar_policy):
    listed = Listed(SLCAExact(config(folder, choice_values="counterfactual")), env, grammar_policy.turns())
    exact, got = listed.locked_gradient(), listed.learned_gradient()
    assert not close(got, exact, 0.02)
    assert float(got @ exact / (got.norm() * exact.norm())) > 0.9
    assert listed.learner.supplements.choices.take_counts()["branch_episodes"] == 0


def test_names_of_no_tool_keep_the_sampled_term(env, folder, grammar_policy, monkeypatch):
    """What the rewards say about writing a tool's name at all counts P times, see `exact_action`."""
    listed = Listed(SLCAExact(config(folder, "ghost")), env, grammar_policy.turns(ghost=True))
    with_expected_branches(listed, monkeypatch)
    names = grammar_policy.NAMES
    own = np.array([parts(texts)[0] in names for texts in listed.texts])
    p = float(listed.probabilities[own].sum())
    assert 0.1 < p < 0.9
    mean = float(listed.probabilities[own] @ listed.process[own] / p)
    missing = (mean - float(listed.probabilities @ listed.process)) * listed.mass_gradient(names)
    assert float(missing.norm()) > 0.01
    assert close(listed.learned_gradient(), listed.locked_gradient() - missing)


def test_a_group_that_always_drew_the_same_name_still_learns(env, folder, grammar_policy):
    listed = Listed(SLCAExact(config(folder, choice_values="counterfactual")), env, grammar_policy.turns())
    group = [replace(listed.trajectories[0]) for _ in range(2)]
    (pairs,) = listed.learner.supplements.choices.find([group], seed=0)
    own = listed.learner.estimate(group, choices=[point for _, point in pairs])
    assert own.channels["tool"].dead and not own.channels["choices"].dead
    for t, tokens in zip(group, own.tokens, strict=True):
        assert not tokens[t.segment == Segment.TOOL].any()
    assert all(a.any() for a in own.choices)


def test_the_names_own_tokens_have_no_sampled_term(env, folder, grammar_policy):
    listed = Listed(SLCAExact(config(folder, choice_values="counterfactual")), env, grammar_policy.turns())
    group = [replace(listed.trajectories[i]) for i in (0, 4, 8)]
    (pairs,) = listed.learner.supplements.choices.find([group], seed=0)
    own = listed.learner.estimate(group, choices=[point for _, point in pairs])
    for (choice, point), t in zip(pairs, group, strict=True):
        first, stop = point.tokens
        assert listed.learner.backend.tokenizer.decode(t.ids[first:stop]) == choice.names[choice.drawn]
        assert not own.tokens[choice.member][first:stop].any()
        tool = t.segment == Segment.TOOL
        tool[first:stop] = False
        assert own.tokens[choice.member][tool].all()
        assert point.logprobs[choice.drawn] == pytest.approx(t.logprobs[first:stop].sum(), abs=1e-4)
        assert point.values[choice.drawn] == t.rewards["process"]


@pytest.mark.parametrize("mode", ["branch", "counterfactual"])
def test_micro_batches_change_memory_only(env, folder, mode):
    learner = SLCAExact(config(folder, choice_values=mode, kl=0.1, max_updates=1))
    learner.learn(env)
    collected, credit = learner._collect(0, 0.0)
    groups = zip(collected[0], credit, strict=True)
    episodes = learner._credited([pair for g, own in groups for pair in zip(g, own.tokens, strict=True)])
    assert any(e.choices for e in episodes)
    gradients = []
    for size in (1, 16):
        learner.config = learner.config.model_copy(update={"micro_batch": size})
        learner.optimizer.zero_grad()
        learner.accumulate(episodes)
        gradients.append(torch.cat([p.grad.flatten() for p in learner.policy.trainable_parameters().values()]))
    assert close(*gradients)


def untimed(record):
    return {name: value for name, value in record.items() if "seconds" not in name}


def test_a_stopped_run_with_branches_resumes_to_the_same_numbers(env, folder, tmp_path):
    settings = config(folder, max_updates=3, save_every=1)
    whole = SLCAExact(settings, out=tmp_path / "whole")
    whole.learn(env)

    def stop(record):
        if record["update"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SLCAExact(settings, out=tmp_path / "cut").learn(env, callbacks=[stop])
    SLCAExact(settings, out=tmp_path / "cut").learn(env, resume=True)
    lines = [
        [untimed(json.loads(line)) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "cut")
    ]
    assert lines[0] == lines[1] and len(lines[0]) == 3
    assert sum(line["branch_episodes"] for line in lines[0]) > 0
    spent = lines[0][-1]["spent"]
    assert spent["branch_tokens"] > 0 and spent["sampled_tokens"] > 0 and spent["episodes"] == 24


def test_it_learns_the_better_name_faster_than_chance(env, folder):
    records = []
    settings = config(folder, max_updates=8, group_size=8, learning_rate=2e-3)
    SLCAExact(settings).learn(env, callbacks=[records.append])
    assert (
        np.mean([r["reward/process"] for r in records[-2:]]) > np.mean([r["reward/process"] for r in records[:2]]) + 0.1
    )
    assert records[0]["choice_points"] == records[0]["exact_choices"] == 16


def test_counterfactual_values_of_an_environment_that_cannot_rescore_are_refused_early(chat_envs, folder):
    env = chat_envs.Conversation(chat_envs.turns_of_tools(1), score=score)
    with pytest.raises(CapabilityError, match="call_rewards"):
        SLCAExact(config(folder, choice_values="counterfactual")).learn(env)
