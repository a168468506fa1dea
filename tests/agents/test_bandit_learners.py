"""FGPO and GRPO on a tiny real model: they learn, repeat, resume exactly, and refuse what does not fit."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.bandit_learner import batch_indices  # noqa: E402
from toolcredit.agents.check import check_agent  # noqa: E402
from toolcredit.agents.fgpo import FGPO  # noqa: E402
from toolcredit.agents.grpo import GRPO  # noqa: E402
from toolcredit.errors import ConfigError, RunError, UnknownNameError, UsageError  # noqa: E402

TINY = {
    "policy": {"model": "tiny"},
    "max_updates": 6,
    "format_updates": 4,
    "batch_size": 4,
    "learning_rate": 3e-3,
    "eval_every": 3,
    "save_every": 2,
}
#: A warm-up that is long enough for a random model to learn the action strings.
WRITES = {"format_updates": 80, "format_learning_rate": 3e-3}
LEARNERS = {"fgpo": (FGPO, {"temperature": 0.2}), "grpo": (GRPO, {"sampler": "tree", "kl": 0.05, "inner_epochs": 2})}


@pytest.fixture
def env(subset_bandit):
    """Eight questions, two tools; tool 0 is always right, nothing else ever is."""
    return subset_bandit([[1, 0, 1, 1]] * 8)


@pytest.fixture(params=LEARNERS)
def make(request):
    cls, extra = LEARNERS[request.param]
    return lambda out=None, **fields: cls(TINY | extra | fields, out=out)


def weights(learner):
    return {name: tensor.detach().clone() for name, tensor in learner.policy.trainable_parameters().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_fgpo_finds_the_one_right_subset(env):
    learner = FGPO(TINY | {"temperature": 0.2, "max_updates": 40, "learning_rate": 1e-2})
    report = learner.learn(env, eval_env=env)
    assert report.best["dev_accuracy"] == 1.0
    observation, info = env.reset(options={"question_id": "q3"})
    assert learner.act(observation, info) == 1


def test_grpo_learns_once_it_writes_the_format(env):
    learner = GRPO(TINY | WRITES | {"sampler": "tree", "max_updates": 30})
    records = []
    learner.learn(env, eval_env=env, callbacks=[records.append])
    own = [r["reward"] for r in records if r["phase"] == "grpo"]
    assert np.mean(own[-5:]) > np.mean(own[:5]) + 0.3


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(env, make):
    first, second, other = make(), make(), make(seed=1)
    for learner in (first, second, other):
        learner.learn(env)
    assert same(weights(first), weights(second))
    assert not same(weights(first), weights(other))


@pytest.mark.parametrize("stop_at", [1, 5, 9])
def test_a_stopped_run_resumes_to_the_same_numbers(env, make, tmp_path, stop_at):
    whole = make(tmp_path / "whole")
    whole.learn(env, eval_env=env)

    def stop(record):
        if record["update"] == stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "part").learn(env, eval_env=env, callbacks=[stop])
    resumed = make(tmp_path / "part")
    resumed.learn(env, eval_env=env, resume=True)
    assert same(weights(whole), weights(resumed))
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")


def metrics(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def test_warm_up_is_the_same_for_both_learners(env):
    def stop(record):
        if record["update"] == TINY["format_updates"]:
            raise KeyboardInterrupt

    warm = []
    for cls, extra in LEARNERS.values():
        learner = cls(TINY | extra)
        with pytest.raises(KeyboardInterrupt):
            learner.learn(env, callbacks=[stop])
        warm.append(weights(learner))
    assert same(*warm)


def test_save_and_load_keep_weights_and_decisions(env, make, tmp_path):
    learner = make()
    learner.learn(env)
    learner.save(tmp_path / "saved")
    loaded = type(learner).load(tmp_path / "saved")
    assert same(weights(learner), weights(loaded))
    loaded.bind(env)
    observation, info = env.reset(options={"question_id": "q0"})
    assert learner.act(observation, info) == loaded.act(observation, info)
    assert not list((tmp_path / "saved").rglob("*.bin"))


def test_learners_are_good_agents(env, make):
    check_agent(make(max_updates=1, format_updates=1), env)


def test_free_decoding_acts_by_generation(env):
    learner = FGPO(TINY | {"decoding": "free"})
    learner.bind(env)
    observation, info = env.reset(options={"question_id": "q0"})
    assert learner.act(observation, info) in range(4)


def test_the_paper_mode_has_no_anchor_and_sees_all_subsets():
    config = FGPO().config
    assert (config.mass_anchor, config.subset_size, config.temperature, config.entropy) == (0.0, None, 1.0, 0.03)


def test_subset_dial_draws_k_actions(env):
    learner = FGPO(TINY | {"subset_size": 2})
    drawn = learner._draw_subset(torch.zeros(50, 4), torch.Generator().manual_seed(0))
    assert (drawn.sum(-1) == 2).all() and drawn.float().mean(0).std() < 0.2


def test_grpo_counts_a_reasoner_call_per_well_formed_completion(env):
    learner = GRPO(TINY | WRITES | {"sampler": "tree", "max_updates": 2, "group_size": 3})
    records = []
    learner.learn(env, callbacks=[records.append])
    malformed = sum(r["malformed"] for r in records if r["phase"] == "grpo")
    assert learner.spent["reasoner_calls"] == pytest.approx(2 * 4 * 3 - malformed * 4 * 3)


def test_free_generation_samples_too(env, monkeypatch):
    learner = GRPO(
        TINY | {"max_updates": 1, "format_updates": 1, "max_new_tokens": 5, "group_size": 2, "batch_size": 2}
    )
    generate, drawn, records = learner.policy.generate, [], []

    def keep(*arguments, **keywords):
        groups = generate(*arguments, **keywords)
        drawn.extend(sample for group in groups for sample in group)
        return groups

    monkeypatch.setattr(learner.policy, "generate", keep)
    learner.learn(env, callbacks=[records.append])
    assert len(drawn) == 4
    assert records[-1]["malformed"] >= records[-1]["truncated"] == np.mean([sample.truncated for sample in drawn])
    assert records[-1]["entropy"] == pytest.approx(-np.mean([sum(sample.logprobs) for sample in drawn]), abs=1e-3)


def test_unknown_fields_and_values_are_refused_by_name():
    with pytest.raises(UnknownNameError, match="did you mean 'learning_rate'"):
        FGPO({"learning_rat": 1.0})
    with pytest.raises(UnknownNameError, match=r"did you mean 'policy.lora_rank'"):
        FGPO({"policy": {"lora_rnk": 3}})
    with pytest.raises(ConfigError, match="batch_size = 0"):
        GRPO({"batch_size": 0})


def test_acting_before_binding_says_what_to_do(make):
    with pytest.raises(UsageError, match="bind"):
        make().act("Question q0?", {"id": "q0"})


def test_runs_refuse_other_configurations_other_agents_and_unfinished_folders(env, make, tmp_path):
    make(tmp_path).learn(env)
    with pytest.raises(RunError, match="holds a run already"):
        make(tmp_path).learn(env)
    with pytest.raises(RunError, match="another configuration"):
        make(tmp_path, learning_rate=1.0).learn(env, resume=True)
    other = GRPO if isinstance(make(), FGPO) else FGPO
    with pytest.raises(RunError, match="expected"):
        other.load(tmp_path)
    with pytest.raises(RunError, match="resume"):
        make().learn(env, resume=True)
    with pytest.raises(RunError, match="config.json"):
        type(make()).load(tmp_path / "nothing")


def test_a_torn_checkpoint_is_refused(env, make, tmp_path):
    make(tmp_path).learn(env)
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:100])
    with pytest.raises(RunError, match="no checkpoint"):
        make(tmp_path).learn(env, resume=True)


def test_every_question_is_visited_once_a_pass():
    seen = np.concatenate([batch_indices(10, 4, seed=3, update=u) for u in range(5)])
    assert sorted(seen[:10]) == list(range(10)) and sorted(seen[10:]) == list(range(10))
    assert not np.array_equal(seen[:10], seen[10:])


def test_grpo_asks_the_reasoner_only_for_what_it_samples(env):
    asked = []

    class Counting(type(env)):
        def step(self, action):
            asked.append(action)
            return super().step(action)

    counting = Counting(env.choices)
    learner = GRPO(TINY | {"sampler": "tree", "max_updates": 2, "format_updates": 1, "group_size": 3})
    learner.learn(counting)
    assert len(asked) == learner.spent.get("reasoner_calls", 0) <= 2 * 4 * 3
    exact = FGPO(TINY | {"max_updates": 1, "format_updates": 1})
    asked.clear()
    exact.learn(counting)
    assert len(asked) == exact.spent["reasoner_calls"] == 8 * 4


def test_a_short_run_keeps_frozen_states_of_the_questions_it_sees_only(env, tmp_path):
    policy = {"model": "tiny", "lora_layers": 2, "trunk_cache": "disk", "trunk_folder": str(tmp_path)}
    learner = FGPO({"policy": policy, "max_updates": 1, "format_updates": 1, "batch_size": 2})
    learner.learn(env)
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) <= 5  # four questions, and the proof's own prompt
