import json

import gymnasium as gym
import numpy as np
import pytest
from toolcredit.agents.base import Agent
from toolcredit.agents.baselines import RandomAgent
from toolcredit.benchmarks.stats import wilson
from toolcredit.benchmarks.strategies import REFERENCES, evaluate, examples, reference_agents
from toolcredit.envs.table import RewardTable
from toolcredit.errors import EndpointError, UnknownNameError, UsageError

# Two tools, five questions; option 0 is right, -1 is unreadable. Columns: none, ruler, scales, both.
CHOICES = [
    [1, 0, 1, 0],  # the ruler rescues
    [1, 0, 1, 1],  # the ruler rescues, both break
    [0, 1, 0, 0],  # the ruler breaks
    [0, 0, 0, 0],  # nothing matters
    [-1, -1, 2, 1],  # hopeless
]
FAMILIES = ["length", "length", "weight", "weight", "weight"]


class Ruler(Agent):
    name = "ruler"

    def act(self, observation, info):
        return 1


@pytest.fixture
def env(subset_bandit):
    return subset_bandit(CHOICES, FAMILIES)


@pytest.fixture
def table(env):
    return RewardTable.build(env, workers=1)


@pytest.fixture
def evaluation(env, table):
    return evaluate(env, {"ruler": Ruler(), **reference_agents(table)}, table=table)


def test_every_strategy_answers_every_question(evaluation, env):
    assert tuple(evaluation.records) == ("ruler", *REFERENCES)
    for records in evaluation.records.values():
        assert [record.id for record in records] == list(env.question_ids)
        assert [record.family for record in records] == FAMILIES


def test_summary_by_hand(evaluation):
    summary = evaluation.summary()
    strategies = summary["strategies"]
    assert summary["n"] == 5
    assert {name: s["accuracy"] for name, s in strategies.items()} == {
        "ruler": pytest.approx(3 / 5),
        "none": pytest.approx(2 / 5),
        "all": pytest.approx(3 / 5),
        "random": pytest.approx((2 + 1 + 3 + 4 + 0) / 20),
        "best_fixed": pytest.approx(3 / 5),
        "oracle": pytest.approx(4 / 5),
    }
    assert {name: s["tools_per_question"] for name, s in strategies.items()} == {
        "ruler": 1,
        "none": 0,
        "all": 2,
        "random": 1,
        "best_fixed": 1,
        "oracle": pytest.approx(2 / 5),
    }
    assert strategies["none"]["reward"] == pytest.approx((2 - 3) / 5 + 0.1)
    assert strategies["all"]["reward"] == pytest.approx((3 - 2) / 5 - 0.1)
    assert strategies["ruler"]["ci"] == list(wilson(3, 5))
    assert strategies["ruler"]["unparsed"] == strategies["none"]["unparsed"] == 1
    assert strategies["all"]["unparsed"] == strategies["random"]["unparsed"] == 0
    assert [name for name, s in strategies.items() if s["ceiling"]] == ["best_fixed", "oracle"]
    json.dumps(summary, allow_nan=False)


def test_families(evaluation):
    families = evaluation.summary()["strategies"]["oracle"]["families"]
    assert families["length"]["n"] == 2
    assert families["length"]["accuracy"] == 1.0
    assert families["length"]["subsets"] == {"ruler": 2}
    assert families["weight"]["subsets"] == {"none": 3}
    assert evaluation.summary()["strategies"]["random"]["families"]["length"]["subsets"] == {}


def test_comparisons_are_paired(evaluation):
    comparisons = {c["reference"]: c for c in evaluation.summary()["comparisons"]}
    assert list(comparisons) == list(REFERENCES)
    against_none = comparisons["none"]
    assert (against_none["only_strategy"], against_none["only_reference"]) == (2, 1)
    assert against_none["p_value"] == 1.0
    assert against_none["accuracy_difference"] == pytest.approx(1 / 5)
    assert against_none["reward_difference"] == pytest.approx(2 / 5 - 0.1)
    assert against_none["accuracy_ci"][0] < 1 / 5 < against_none["accuracy_ci"][1]
    assert comparisons["random"]["p_value"] is None
    assert comparisons["random"]["accuracy_difference"] == pytest.approx(3 / 5 - 1 / 2)


def test_compare_refuses_unknown_names(evaluation):
    with pytest.raises(UnknownNameError, match="did you mean 'ruler'"):
        evaluation.compare("rule", "none")


def test_random_without_a_table_is_seeded(subset_bandit):
    env = subset_bandit(CHOICES * 8)
    one, same, other = (evaluate(env, {"random": RandomAgent()}, seed=s).records["random"] for s in (3, 3, 4))
    assert one == same
    assert one != other
    assert len({record.tools for record in one}) == 4


def test_failures_count_and_are_listed(subset_bandit):
    env = subset_bandit(CHOICES, FAMILIES, down=[("q0", 1), ("q2", 1)])
    evaluation = evaluate(env, {"ruler": Ruler(), **reference_agents()})
    ruler = evaluation.summary()["strategies"]["ruler"]
    assert (ruler["n"], ruler["failed"], ruler["unparsed"]) == (5, 2, 1)
    assert ruler["accuracy"] == pytest.approx(2 / 5)
    assert ruler["reward"] == pytest.approx((1 + 1 - 1) / 3)  # q1, q3, q4: no reward is made up for the others
    failures = evaluation.summary()["failures"]
    assert {"strategy": "ruler", "id": "q0", "error": "the endpoint does not answer"} in failures
    comparison = evaluation.compare("ruler", "none")
    assert comparison["reward_difference"] == pytest.approx(((1 + 1) + 0 + 0) / 3 - 0.1)


def test_an_agent_whose_endpoint_fails_has_failed(env):
    class Offline(Agent):
        name = "offline"

        def act(self, observation, info):
            raise EndpointError("no route to host")

    record = evaluate(env, {"offline": Offline()}).records["offline"][0]
    assert record.error == "no route to host"
    assert record.tools is None
    assert not record.unparsed


def test_truncation_with_an_error_has_failed(env, monkeypatch):
    step = type(env).step

    def truncated(self, action):
        observation, _, _, _, info = step(self, action)
        return observation, 0.0, False, True, info | {"error": "judge down"}

    monkeypatch.setattr(type(env), "step", truncated)
    summary = evaluate(env, {"ruler": Ruler()}).summary()
    assert summary["strategies"]["ruler"]["failed"] == 5
    assert summary["strategies"]["ruler"]["reward"] is None


def test_records_are_told_as_they_come(env):
    told = []
    evaluate(env, {"ruler": Ruler()}, on_record=lambda name, record: told.append((name, record.id)))
    assert told == [("ruler", question_id) for question_id in env.question_ids]


def test_agents_are_bound_and_reset(env):
    class Watched(Ruler):
        def __init__(self):
            self.calls = []

        def bind(self, env):
            self.calls.append("bind")

        def reset(self, *, seed=None):
            self.calls.append(seed)

    agent = Watched()
    evaluate(env, {"watched": agent}, seed=7)
    assert agent.calls == ["bind", 7, None, None, None, None]


def test_examples(evaluation, env):
    rescued, also, broken = examples(env, evaluation, "ruler")
    assert [e.kind for e in (rescued, also, broken)] == ["rescued", "rescued", "broken"]
    assert (rescued.id, rescued.family, rescued.tools) == ("q0", "length", ("ruler",))
    assert (rescued.answer_without, rescued.answer_with) == ("B", "A")
    assert rescued.evidence == ({"tool": "ruler", "title": "Ruler", "text": "ruler says 0"},)
    assert rescued.question == "Question q0?"
    assert broken.id == "q2"
    assert [e.id for e in examples(env, evaluation, "ruler", limit=1)] == ["q0", "q2"]
    assert examples(env, evaluation, "none") == []


def test_examples_are_of_different_families_first(subset_bandit):
    env = subset_bandit([[1, 0]] * 5, ["a", "a", "b", "a", "b"])
    evaluation = evaluate(env, {"ruler": Ruler(), **reference_agents()})
    assert [e.id for e in examples(env, evaluation, "ruler", limit=4)] == ["q0", "q2", "q1", "q4"]


def test_refuses_other_environments():
    with pytest.raises(UsageError, match="is no text bandit"):
        evaluate(gym.make("CartPole-v1"), {"ruler": Ruler()})


def test_refuses_actions_that_are_no_tool_subsets(env):
    env.tool_names = ("ruler",)
    with pytest.raises(UsageError, match="no tool-subset bandit"):
        evaluate(env, {"ruler": Ruler()})


def test_refuses_an_environment_that_does_not_tell_what_is_correct(env, monkeypatch):
    step = type(env).step
    monkeypatch.setattr(type(env), "step", lambda self, action: (*step(self, action)[:4], {}))
    with pytest.raises(UsageError, match="must put `correct`"):
        evaluate(env, {"ruler": Ruler()})


def test_exact_random_is_the_mean_of_sampling(subset_bandit):
    rng = np.random.default_rng(0)
    env = subset_bandit(rng.integers(-1, 3, (60, 8)))
    table = RewardTable.build(env, workers=1)
    exact = evaluate(env, {"random": RandomAgent()}, table=table).summary()["strategies"]["random"]
    drawn = [evaluate(env, {"random": RandomAgent()}, seed=s).summary()["strategies"]["random"] for s in range(60)]
    for field in ("accuracy", "reward", "tools_per_question"):
        assert exact[field] == pytest.approx(np.mean([d[field] for d in drawn]), abs=0.04)
