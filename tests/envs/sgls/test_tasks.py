"""The task type: exact as JSON, fresh copies, broken ones refused."""

import functools
import json

import pytest
from toolcredit.envs.sgls.generate import generate_tasks
from toolcredit.envs.sgls.tasks import Call, Fact, Plan, Task, ToolSpec
from toolcredit.errors import TaskError


@functools.cache
def some_tasks() -> tuple[Task, ...]:
    return generate_tasks(300, seed=0)


class TestTaskType:
    def test_json_round_trip(self):
        for task in some_tasks():
            text = json.dumps(task.to_json(), allow_nan=False)
            assert Task.from_json(json.loads(text)) == task

    def test_round_trip_with_own_tools(self):
        spec = ToolSpec("t", "d", {"type": "object"}, None, "x")
        plan = Plan(((Call("t", {"a": [1, {"b": None}]}),),))
        facts = (Fact("k", 1.5, "number", 0, ("1.5",)),)
        task = Task(
            "i",
            "test",
            "single",
            "hard",
            "x",
            ({"role": "user", "content": "q"},),
            ("t",),
            (plan,),
            facts,
            specs=(spec,),
        )
        assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task
        assert task.question == "q" and task.gold is plan and not task.abstains

    def test_copies_are_fresh(self):
        task = some_tasks()[1]
        task.to_json()["state"]["seed"] = -1
        task.new_state()["x"] = 1
        task.to_json()["plans"][0][0][0]["arguments"].clear()
        task.to_json()["messages"][0]["content"] = ""
        assert task == generate_tasks(2)[1]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"split": "all"}, "expected one of train"),
            ({"category": "multi"}, "expected one of single"),
            ({"tier": "x"}, "expected one of easy"),
            ({"gold_kind": "x"}, "expected one of full"),
            ({"plans": []}, r"give Plan\(\)"),
            ({"plans": [[{"name": "x"}]]}, "misshapen|expected an object"),
            ({"plans": None}, "misshapen"),
            ({"facts": [{"value": 3}]}, "misshapen"),
            ({"colour": "red"}, "fields among"),
        ],
    )
    def test_broken_tasks_are_refused(self, change, message):
        with pytest.raises(TaskError, match=message):
            Task.from_json({**some_tasks()[0].to_json(), **change})

    def test_missing_field(self):
        value = some_tasks()[0].to_json()
        del value["id"]
        with pytest.raises(TaskError, match="missing or misshapen"):
            Task.from_json(value)

    def test_digest_is_of_the_content(self):
        value = some_tasks()[0].to_json()
        assert Task.from_json({**value, "id": "x", "split": "dev"}).digest() == some_tasks()[0].digest()
        assert Task.from_json({**value, "reply": "x"}).digest() != some_tasks()[0].digest()
