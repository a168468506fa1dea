import json
import re

import pytest
from toolcredit.agents.base import Agent
from toolcredit.benchmarks.report import LearnerRun, ReportData, render_report, write_report
from toolcredit.benchmarks.strategies import Example, evaluate, examples, reference_agents
from toolcredit.envs.table import RewardTable
from toolcredit.errors import RunError

pytest.importorskip("matplotlib")

HOSTILE = "<td></td><script>alert('x')</script>&\"$\\frac{"


class Ruler(Agent):
    def act(self, observation, info):
        return 1


def metrics(calls_per_update):
    records = []
    for update in range(1, 31):
        record = {"update": update, "seconds": update * 1.5, "spent": {"reasoner_calls": calls_per_update * update}}
        record |= {"valid_mass": update / 31, "entropy": 2.0, "observed_dead": 0.5}
        if update % 10 == 0:
            record |= {"dev_reward": 0.1 * update, "dev_accuracy": 0.5, "dev_tools": 1.5}
            record |= {"dev_valid_mass": 0.9, "dev_dead_group_rate": 0.2}
        records.append(record)
    return records


@pytest.fixture
def env(subset_bandit):
    choices = [[1, 0, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0], [-1, -1, 2, 1]]
    return subset_bandit(choices, ["length", "length", "weight", "weight", "weight"], down=[("q4", 3)])


@pytest.fixture
def data(env):
    evaluation = evaluate(env, {"mine": Ruler(), **reference_agents()})
    runs = [LearnerRun("mine", metrics(24), {"agent": "mine", "step": 0.001}, {2: 0.6, 8: 0.1})]
    return ReportData(
        title="A run",
        evaluation=evaluation.summary(),
        learners=runs,
        dead_groups={"uniform": {2: 0.27, 8: 0.0004}},
        examples=examples(env, evaluation, "mine"),
        config={"seed": 7},
        versions={"python": "3.x"},
    )


def test_everything_is_there(data, page_reader):
    reader = page_reader(render_report(data))
    for title in (
        "All strategies",
        "Who beats whom",
        "Learning curves",
        "Dead groups",
        "Can the policy still write an action?",
        "Families of questions",
        "What learning spent",
        "Questions that the tools decided",
        "Failed questions",
        "How it was made",
    ):
        assert reader.text.count(title) >= 2, title  # in the list of links, and as a heading
    assert "mine answers 60.0% of the held-out questions right (95% interval 23.1% to 88.2%)" in reader.text
    assert "rescued length, q0: mine calls ruler; answers A instead of B" in reader.text
    assert "broken weight, q2: mine calls ruler; answers B instead of A" in reader.text
    assert "ruler says 0" in reader.text
    assert "the endpoint does not answer" in reader.text
    assert '"seed": 7' in reader.text
    assert "720" in reader.text  # reasoner calls after thirty updates
    assert reader.tags.count("svg") == 3


def test_the_page_loads_nothing(data, page_reader):
    page = render_report(data)
    reader = page_reader(page)
    assert not {"script", "link", "iframe", "img", "object", "base"} & set(reader.tags)
    for name, value in reader.attributes:
        if name in ("href", "xlink:href", "src"):
            assert value.startswith("#")
        assert not name.startswith("on")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", page))
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_ids_are_unique_and_links_lead_somewhere(data, page_reader):
    reader = page_reader(render_report(data))
    ids = [value for name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in reader.attributes:
        if name in ("href", "xlink:href"):
            assert value[1:] in ids


def test_the_same_data_gives_the_same_bytes(data, tmp_path):
    write_report(tmp_path / "one.html", data)
    write_report(tmp_path / "two.html", data)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_both_themes_are_styled(data):
    page = render_report(data)
    assert "prefers-color-scheme: dark" in page
    assert set(re.findall(r"var\((--[a-z0-9]+)", page)) <= set(re.findall(r"(--[a-z0-9]+):", page))
    assert not re.search(r"#01010\d|#02020\d", page), "a marker colour of the plots was not replaced"


def test_hostile_text_is_text(env, subset_bandit, page_reader):
    env = subset_bandit([[1, 0], [0, 1]], [HOSTILE, HOSTILE], down=[("q1", 1)])
    env.tool_names = (HOSTILE,)
    evaluation = evaluate(env, {HOSTILE: Ruler(), **reference_agents()})
    example = Example(
        "rescued", HOSTILE, HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), ({"title": HOSTILE, "text": HOSTILE},), "A", None
    )
    page = render_report(
        ReportData(
            HOSTILE,
            evaluation.summary(),
            HOSTILE,
            [LearnerRun(HOSTILE, metrics(1), {HOSTILE: HOSTILE})],
            {HOSTILE: {2: 0.5}},
            [example],
            {HOSTILE: HOSTILE},
            {HOSTILE: HOSTILE},
        )
    )
    reader = page_reader(page)
    assert "script" not in reader.tags
    assert reader.text.count("<script>alert('x')</script>") > 20


def test_without_learners_the_comparison_stands_alone(env, page_reader):
    table = RewardTable.build(type(env)(env.choices), workers=1)
    env = type(env)(env.choices)
    evaluation = evaluate(env, {"mine": Ruler(), **reference_agents(table)}, table=table)
    reader = page_reader(render_report(ReportData("Evaluation", evaluation.summary())))
    assert "svg" not in reader.tags
    assert "Learning curves" not in reader.text
    assert "ceiling" in reader.text
    assert "Failed questions" not in reader.text


def test_reports_can_be_made_from_result_json(data):
    stored = json.loads(json.dumps(data.evaluation))
    again = ReportData(**{**vars(data), "evaluation": stored})
    assert render_report(again) == render_report(data)


def test_rare_subsets_are_summed_up(subset_bandit, page_reader):
    class Everything(Agent):
        def act(self, observation, info):
            return int(info["id"][1:]) % 16

    env = subset_bandit([[0] * 16] * 16)
    reader = page_reader(render_report(ReportData("Many", evaluate(env, {"mine": Everything()}).summary())))
    assert "4 other subsets, 4 questions together" in reader.text
    assert reader.text.count("6.2%") == 12


def test_a_learner_is_read_from_its_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"agent": "fgpo", "config": {"seed": 1}}))
    lines = "".join(json.dumps(record) + "\n" for record in metrics(3))
    (tmp_path / "metrics.jsonl").write_text(lines + '{"update": 31, "torn')
    run = LearnerRun.from_folder(tmp_path, {6: 0.2})
    assert run.name == "fgpo"
    assert run.series("dev_accuracy") == ([10, 20, 30], [0.5, 0.5, 0.5])
    assert run.series("dev_accuracy", "reasoner_calls")[0] == [30, 60, 90]
    assert run.dead_groups == {6: 0.2}


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="not a run folder"):
        LearnerRun.from_folder(tmp_path)
