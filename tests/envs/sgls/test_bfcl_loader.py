"""BFCL's entries as tasks of the tool-calling environment."""

import json

import pytest
from toolcredit.envs.sgls.loaders import iter_tasks, load_tasks
from toolcredit.envs.sgls.loaders.bfcl import MAX_PLANS, convert_schema
from toolcredit.envs.sgls.tasks import Call, Plan

BFCL = {
    "id": "parallel_7",
    "question": [[{"role": "user", "content": "Play Orsk for 20 and Vell for 15 minutes."}]],
    "function": [{
        "name": "radio.play",
        "description": "Plays.",
        "parameters": {"type": "dict", "required": ["who"], "properties": {
            "who": {"type": "string"}, "minutes": {"type": "float"},
            "tags": {"type": "tuple", "items": {"type": "any"}},
            "options": {"type": "HashMap", "properties": {"loud": {"type": "Boolean"}}}}},
    }],
}  # fmt: skip
ANSWERS = {
    "id": "parallel_7",
    "ground_truth": [
        {"radio.play": {"who": ["Orsk", "orsk"], "minutes": [20, 20.0], "options": [{"loud": [True, ""]}, ""]}},
        {"radio.play": {"who": ["Vell"], "minutes": ["", 15], "tags": [["a"]]}},
    ],
}


def bfcl(tmp_path, entry=BFCL, answers=ANSWERS):
    (tmp_path / "possible_answer").mkdir(exist_ok=True)
    (tmp_path / "possible_answer" / "BFCL_v4_parallel.json").write_text(json.dumps(answers) + "\n")
    path = tmp_path / "BFCL_v4_parallel.json"
    path.write_text(json.dumps(entry) + "\n")
    return path


def only(path):
    loaded = load_tasks(path)
    assert not loaded.skipped
    (task,) = loaded.tasks
    return task


def test_bfcl_entries_with_their_allowed_values(tmp_path):
    task = only(bfcl(tmp_path))
    assert task.gold == Plan(((
        Call("radio_play", {"who": "Orsk", "minutes": 20, "options": {"loud": True}}),
        Call("radio_play", {"who": "Vell", "minutes": 15, "tags": ["a"]}),
    ),))  # fmt: skip
    assert task.category == "parallel" and task.tools == ("radio_play",)
    others = [plan.calls for plan in task.plans[1:]]
    assert {calls[0].arguments["who"] for calls in others} == {"Orsk", "orsk"}
    assert any("options" not in calls[0].arguments for calls in others)
    assert any("minutes" not in calls[1].arguments for calls in others)
    parameters = task.specs[0].parameters
    assert parameters["properties"]["minutes"]["type"] == "number"
    assert parameters["properties"]["tags"] == {"type": "array", "items": {}}
    assert parameters["properties"]["options"] == {"type": "object", "properties": {"loud": {"type": "boolean"}}}


def test_bfcl_plans_are_bounded(tmp_path):
    answers = {"id": "parallel_7", "ground_truth": [{"radio.play": {"who": [f"w{i}" for i in range(100)]}}]}
    assert len(only(bfcl(tmp_path, answers=answers)).plans) == MAX_PLANS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": "live_relevance_1"}, "only asks for some call"),
        ({"id": "simple_1"}, "no ground truth"),
        ({"question": [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]}, "multi-turn"),
        ({"function": []}, "no tools"),
        ({"function": [{"description": "x"}]}, "with a name"),
        ({"ground_truth": [{"radio.play": {"who": []}}]}, "without allowed values"),
    ],
)
def test_bfcl_entries_that_are_no_tasks_are_told(tmp_path, change, reason):
    (remark,) = iter_tasks(bfcl(tmp_path, {**BFCL, **change}))
    assert reason in remark.text and not remark.used


def test_bfcl_irrelevance(tmp_path):
    task = only(bfcl(tmp_path, {**BFCL, "id": "irrelevance_3"}))
    assert task.gold == Plan() and task.category == "irrelevant"


def test_parameters_named_like_keywords_keep_their_names():
    schema = {"type": "dict", "properties": {"type": {"type": "float"}, "items": {"type": "dict", "properties": {}}}}
    converted = convert_schema(schema)
    assert (
        converted["properties"]["type"] == {"type": "number"} and converted["properties"]["items"]["type"] == "object"
    )
