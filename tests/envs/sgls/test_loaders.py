import json

import gymnasium as gym
import pytest
from toolcredit.envs.sgls.env import SGLSToolCallingEnv
from toolcredit.envs.sgls.loaders import FORMATS, Remark, iter_tasks, load_tasks, load_trajectories
from toolcredit.envs.sgls.loaders.gold import read_gold
from toolcredit.envs.sgls.loaders.rows import RowError, decode
from toolcredit.envs.sgls.tasks import Call, Fact, Plan, Task
from toolcredit.envs.sgls.trajectories import write_cassette
from toolcredit.rewards.hierr import HierR


def tool(name, *required, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": f"The {name}.", "parameters": parameters}}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
TOOLS = [tool("tide", "harbour", harbour=TEXT), tool("add", "a", "b", a=NUMBER, b=NUMBER)]
TIDE, OTHER = {"name": "tide", "arguments": {"harbour": "Orsk"}}, {"name": "tide", "arguments": {"harbour": "Vell"}}
ADD = {"name": "add", "arguments": {"a": 1, "b": 2.5}}
CALLS = {
    "tide": Call("tide", {"harbour": "Orsk"}),
    "other": Call("tide", {"harbour": "Vell"}),
    "add": Call("add", {"a": 1, "b": 2.5}),
}


def write(path, *rows, array=False):
    text = json.dumps(list(rows)) if array else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, "utf-8")
    return path


def only(path, **arguments):
    loaded = load_tasks(path, **arguments)
    assert not loaded.skipped
    (task,) = loaded.tasks
    return task


# --- gold in all its forms

STEPS = ((CALLS["tide"], CALLS["other"]), (CALLS["add"],))


@pytest.mark.parametrize(
    ("gold", "steps", "kind"),
    [
        ([[TIDE, OTHER], [ADD]], STEPS, "full"),
        (json.dumps([[TIDE, OTHER], [ADD]]), STEPS, "full"),
        (repr([[TIDE, OTHER], [ADD]]), STEPS, "full"),
        ([TIDE, OTHER, ADD], ((*STEPS[0], *STEPS[1]),), "flat"),
        ([ADD], (STEPS[1],), "full"),
        ([{"name": "add", "arguments": '{"a": 1, "b": 2.5}'}], (STEPS[1],), "full"),
        ([{"name": "add", "parameters": {"a": 1, "b": 2.5}}], (STEPS[1],), "full"),
        ([{"type": "function", "function": ADD}], (STEPS[1],), "full"),
        ([["tide", "tide"], ["add"]], ((Call("tide"), Call("tide")), (Call("add"),)), "names_only"),
        (["tide"], ((Call("tide"),),), "names_only"),
        ([{"name": "tide"}, ADD], ((Call("tide"), CALLS["add"]),), "names_only"),
        ([{"name": "tide", "arguments": {}}], ((Call("tide"),),), "full"),
        ([{"name": "tide", "arguments": None}], ((Call("tide"),),), "full"),
        ([], (), "full"),
        ([[]], (), "full"),
        ("[]", (), "full"),
        ("", (), "full"),
        (None, (), "full"),
    ],
)
def test_gold_forms(gold, steps, kind):
    assert read_gold(gold) == (Plan(steps), kind)


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("call the tide", "neither JSON nor a Python literal"),
        ({"name": "tide"}, "expected a list"),
        ([[TIDE], ADD], "mixes calls and lists"),
        ([{"tool": "tide"}], "is no call"),
        ([7], "is no call"),
        ([{"name": "tide", "arguments": "harbour=Orsk"}], "neither JSON"),
        ([{"name": "tide", "arguments": [1]}], "expected an object"),
        ([{"name": "add", "arguments": {"a": float("nan")}}], "not a JSON value"),
    ],
)
def test_unusable_gold_is_told(gold, reason):
    with pytest.raises(RowError, match=reason):
        read_gold(gold)


@pytest.mark.parametrize(
    "text", ["__import__('os').getcwd()", "[" * 5_000, "-" * 5_000 + "1", "{1: 2}", "b'x'", "1 + 1"]
)
def test_only_literals_are_read(text):
    with pytest.raises(RowError, match="neither JSON nor a Python literal"):
        decode(text, "it")
    assert decode("{'a': ('x', None, True, 1.5)}", "it") == {"a": ["x", None, True, 1.5]}


# --- rows of SLCA-GRPO


def slca_row(gold, prompt=None, **more):
    prompt = prompt or [
        {"role": "system", "content": "# Tools\n<tools>\n" + json.dumps(TOOLS[0]) + "\n</tools>"},
        {"role": "user", "content": "How high is the tide in Orsk?"},
    ]
    truth = {
        "allowed_tools": ["tide", "add"],
        "gold_tool_calls": gold,
        "question_content": prompt[-1]["content"],
        "subset_name": "tool_call",
        "tool_schemas": json.dumps(TOOLS),
    }
    return {
        "prompt": prompt,
        "data_source": "toucan_toolcall",
        "reward_model": {"style": "rule", "ground_truth": {**truth, **more}},
        "extra_info": {"need_tools_kwargs": False, "original_turn_index": 0},
        "tools": json.dumps(TOOLS),
    }


def test_slca_rows_from_jsonl(tmp_path):
    task = only(write(tmp_path / "rl.jsonl", slca_row(json.dumps([[TIDE], [ADD]]))), split="test")
    assert task.messages == ({"role": "user", "content": "How high is the tide in Orsk?"},)
    assert task.gold == Plan(((CALLS["tide"],), (CALLS["add"],))) and task.gold_kind == "full"
    assert (task.id, task.split, task.category, task.source) == ("rl-1", "test", "serial", "toucan_toolcall/tool_call")
    assert task.tools == ("tide", "add") and task.specs[0].parameters == TOOLS[0]["function"]["parameters"]


def test_slca_rows_from_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    rows = [slca_row(json.dumps(gold)) for gold in ([[TIDE, OTHER]], [], [[ADD]])]
    path = tmp_path / "rl.parquet"
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    loaded = load_tasks(path)
    assert [task.category for task in loaded.tasks] == ["parallel", "irrelevant", "single"]
    assert load_tasks(path, limit=2).tasks == loaded.tasks[:2]


def test_flat_names_as_in_the_public_preview(tmp_path):
    path = write(tmp_path / "preview.jsonl", slca_row(["tide"]), slca_row([], subset_name="irrelevant"))
    names, nothing = load_tasks(path).tasks
    assert (names.gold_kind, names.category, nothing.gold, nothing.category) == (
        "names_only",
        "single",
        Plan(),
        "irrelevant",
    )


def test_an_earlier_conversation_becomes_structured_messages(tmp_path):
    prompt = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Orsk and Vell?"},
        {
            "role": "assistant",
            "content": f"<tool_call>\n{json.dumps(TIDE)}\n</tool_call>\n<tool_call>\n{json.dumps(OTHER)}\n</tool_call>",
        },
        {"role": "user", "content": "<tool_response>\n3 m\n</tool_response>\n<tool_response>\n4 m\n</tool_response>"},
        {"role": "assistant", "content": "3 m and 4 m."},
        {"role": "user", "content": "And the sum of 1 and 2.5?"},
    ]
    task = only(write(tmp_path / "rl.jsonl", slca_row([[ADD]], prompt)))
    roles = [message["role"] for message in task.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    calls, first, second = task.messages[2]["tool_calls"], task.messages[3], task.messages[4]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [TIDE["arguments"], OTHER["arguments"]]
    assert [first["tool_call_id"], second["tool_call_id"]] == [call["id"] for call in calls]
    assert (first["content"], first["name"], second["content"]) == ("3 m", "tide", "4 m")
    env = SGLSToolCallingEnv(tasks=[task], scorer=None, mock=Parrot())
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space and observation == list(task.messages)


class Parrot:
    """Answers every call with its arguments."""

    live, stateful, identity = False, False, {"mock": "parrot"}

    def start(self, scene):
        return self

    def respond(self, calls, past):
        return [call.arguments for call in calls]


def test_system_messages_that_list_the_tools_are_left_out_unless_wanted(tmp_path):
    path = write(tmp_path / "rl.jsonl", slca_row([[TIDE]]))
    assert [m["role"] for m in only(path, keep_system=True).messages] == ["system", "user"]


def test_only_allowed_tools_are_shown(tmp_path):
    assert only(write(tmp_path / "a.jsonl", slca_row([[TIDE]], allowed_tools=["tide"]))).tools == ("tide",)


# --- recorded conversations

SFT = {
    "uuid": "u-1",
    "subset_name": "single-turn-original",
    "question": "?",
    "target_tools": "x::tide",
    "tools": json.dumps(TOOLS),
    "messages": json.dumps([
        {"role": "user", "content": "Tides in Orsk and Vell, and their sum?"},
        {"role": "assistant", "content": "I look."},
        {"role": "tool_call", "content": "{'name': 'tide', 'arguments': '{\"harbour\": \"Orsk\"}'}"},
        {"role": "tool_call", "content": json.dumps(OTHER)},
        {"role": "tool_response", "content": '{"metres": 1}'},
        {"role": "tool_response", "content": '{"metres": 2.5}'},
        {"role": "tool_call", "content": repr(ADD)},
        {"role": "tool_response", "content": "3.5"},
        {"role": "assistant", "content": "Together 3.5 m."},
        {"role": "user", "content": "Thanks!"},
        {"role": "assistant", "content": "You are welcome."},
    ]),
}  # fmt: skip
RAW = {
    "uuid": "u-2",
    "subset_name": "multi-turn",
    "available_tools": json.dumps(TOOLS),
    "messages": json.dumps([
        {"role": "system", "content": "<|im_system|>tool_declare<|im_middle|>[]"},
        {"role": "user", "content": "Tides in Orsk and Vell?"},
        {"role": "assistant", "content": "", "function_call": {"name": "tide", "arguments": '{"harbour": "Orsk"}'}},
        {"role": "assistant", "content": "", "function_call": {"name": "tide", "arguments": '{"harbour": "Vell"}'}},
        {"role": "function", "name": "tide", "content": "1 m"},
        {"role": "function", "name": "tide", "content": "2.5 m"},
        {"role": "assistant", "content": "1 m and 2.5 m."},
    ]),
}  # fmt: skip
SHAREGPT = {
    "conversations": [
        {"from": "system", "value": "# Tools\n<tools>\n" + "\n".join(map(json.dumps, TOOLS)) + "\n</tools>\nGo on."},
        {"from": "human", "value": "Tide in Orsk?"},
        {"from": "gpt", "value": f"<think>hm</think><tool_call>\n{json.dumps([TIDE, OTHER])}\n</tool_call>"},
        {"from": "human", "value": "<tool_response>\n1 m\n</tool_response>"},
        {"from": "gpt", "value": "It is 1 m."},
    ]
}


def test_toucan_sft_rows_give_one_task_for_each_request(tmp_path):
    first, second = load_tasks(write(tmp_path / "sft.jsonl", SFT)).tasks
    assert first.gold == Plan(((CALLS["tide"], CALLS["other"]), (CALLS["add"],)))
    assert (first.id, first.reply, first.category) == ("u-1-0", "Together 3.5 m.", "mixed")
    assert (second.id, second.reply, second.gold) == ("u-1-1", "You are welcome.", Plan())
    assert [m["role"] for m in second.messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


def test_raw_toucan_rows(tmp_path):
    task = only(write(tmp_path / "raw.jsonl", RAW))
    assert task.gold == Plan(((CALLS["tide"], CALLS["other"]),)) and task.id == "u-2"
    assert [m["role"] for m in task.messages] == ["user"]


def test_sharegpt_rows_bring_their_tools_in_the_system_message(tmp_path):
    task = only(write(tmp_path / "slca_sft.json", SHAREGPT, array=True))
    assert task.gold == Plan(((CALLS["tide"], CALLS["other"]),)) and task.tools == ("tide", "add")
    assert task.reply == "It is 1 m."


def test_openai_messages_are_read_too(tmp_path):
    messages = [
        {"role": "user", "content": "Tide in Orsk?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "tide", "arguments": '{"harbour": "Orsk"}'}}]},
        {"role": "tool", "tool_call_id": "a", "content": "1 m"},
        {"role": "assistant", "content": "1 m."},
    ]  # fmt: skip
    task = only(write(tmp_path / "o.jsonl", {"messages": messages, "tools": TOOLS}))
    assert task.gold == Plan(((CALLS["tide"],),)) and task.reply == "1 m."


def test_trajectories_become_cassettes(tmp_path):
    path = write(tmp_path / "t.jsonl", SFT, {"messages": "[]"}, RAW)
    found = list(load_trajectories(path))
    assert [isinstance(item, Remark) for item in found] == [False, True, False]
    usable = [item for item in found if not isinstance(item, Remark)]
    assert write_cassette(tmp_path / "c.jsonl", usable) == (5, [])
    assert len(list(load_trajectories(path, limit=1))) == 1
    loaded = load_tasks(write(tmp_path / "sft.jsonl", SFT))
    env = SGLSToolCallingEnv(tasks=loaded.tasks, mock={"name": "replay", "cassette": str(tmp_path / "c.jsonl")})
    env.reset(options={"task_id": "u-1-0"})
    observation, *_ = env.step(f"<tool_call>{json.dumps([TIDE, OTHER])}</tool_call>")
    assert [m["content"] for m in observation if m["role"] == "tool"] == ['{"metres": 1}', '{"metres": 2.5}']


# --- one's own rows, and this package's


def generic(**more):
    return {"question": "Tide in Orsk?", "tools": TOOLS, "gold": [[TIDE]], **more}


def test_generic_rows(tmp_path):
    row = generic(
        id="mine", facts=[{"key": "metres", "value": 1.5, "kind": "number", "call": 0}], reply="It is 1.5 m.",
        tier="easy", domain="sea", split="dev",
    )  # fmt: skip
    task = only(write(tmp_path / "mine.jsonl", row))
    assert (task.id, task.split, task.tier, task.domain, task.reply) == ("mine", "dev", "easy", "sea", "It is 1.5 m.")
    assert task.facts == (Fact("metres", 1.5, "number", 0, ("1.5",)),)
    several = only(
        write(tmp_path / "two.jsonl", {**{k: v for k, v in row.items() if k != "gold"}, "plans": [[[TIDE]], [[OTHER]]]})
    )
    assert len(several.plans) == 2


def test_a_whole_episode_on_a_generic_row(tmp_path):
    path = write(
        tmp_path / "mine.jsonl", generic(facts=[{"key": "harbour", "value": "Orsk", "kind": "name", "call": 0}])
    )
    env = gym.make("SGLSToolCalling-v0", tasks=str(path), mock=Parrot()).unwrapped
    env.reset(seed=0)
    env.step(f"<tool_call>{json.dumps(TIDE)}</tool_call>")
    *_, info = env.step("The harbour is Orsk.")
    assert info["rewards"]["process"] == info["rewards"]["summary"] == 1.0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gold": ...}, "neither 'gold' nor 'plans'"),
        ({"colour": 1}, "unknown fields colour"),
        ({"question": None, "messages": [{"role": "assistant", "content": "hi"}]}, "no request"),
        ({"messages": [{"role": "narrator", "content": "hi"}]}, "role"),
        ({"tools": []}, "no tools"),
        ({"tools": "tide(harbour)"}, "neither JSON"),
        ({"tools": [TOOLS[0], tool("tide")]}, "two different tools"),
        ({"tools": [{"function": {"description": "x"}}]}, "no tool definition"),
        ({"tools": [{"name": "tide", "parameters": {"type": "nonsense"}}]}, "tool 'tide'"),
        ({"tools": [{"name": "tide", "parameters": {"$ref": "https://example.org/x"}}]}, "tool 'tide'"),
        ({"gold": [["swim"]]}, "swim, which is not among the tools"),
        ({"plans": [[[TIDE]], ["tide"]]}, "different kinds"),
        ({"facts": [{"name": "metres"}]}, "is no fact"),
        ({"facts": [{"key": "metres", "value": 1, "call": 1}]}, "not among the 1 of the gold"),
        ({"tier": "extreme"}, "tier is 'extreme'"),
    ],
)
def test_unusable_rows_are_listed_with_reasons(tmp_path, change, reason):
    row = {k: v for k, v in {**generic(), **change}.items() if v is not ...}
    path = write(tmp_path / "rows.jsonl", generic(), row, generic())
    loaded = load_tasks(path, format="generic")
    assert [task.id for task in loaded.tasks] == ["rows-1", "rows-3"]
    (remark,) = loaded.skipped
    assert remark.row == 2 and reason in remark.text


def test_gold_that_its_own_schema_refuses_is_noted_and_used(tmp_path):
    loaded = load_tasks(write(tmp_path / "r.jsonl", generic(gold=[[{"name": "tide", "arguments": {"port": "Orsk"}}]])))
    assert len(loaded.tasks) == 1 and not loaded.skipped
    assert any("harbour" in note.text for note in loaded.notes) and all(note.used for note in loaded.notes)


def test_own_tasks_come_back_as_they_were_written(tmp_path):
    task = only(write(tmp_path / "r.jsonl", generic()))
    path = write(tmp_path / "tasks.jsonl", task.to_json())
    assert only(path) == Task.from_json(task.to_json()) == task
    assert only(path, split="test").split == "train"  # its own split


def test_mcp_and_bare_definitions(tmp_path):
    bare = {"name": "tide", "description": "x", "inputSchema": {"type": "object", "properties": {"harbour": TEXT}}}
    task = only(write(tmp_path / "r.jsonl", generic(tools=[bare, {"name": "now"}, bare])))
    assert task.specs[0].parameters == bare["inputSchema"] and task.tools == ("tide", "now")
    assert task.specs[1].parameters == {"type": "object", "properties": {}}


def test_equal_tools_are_one_object(tmp_path):
    first, second = load_tasks(write(tmp_path / "r.jsonl", generic(), generic())).tasks
    assert first.specs[0] is second.specs[0]


def test_rows_of_another_format_are_told_not_raised(tmp_path):
    path = write(tmp_path / "r.jsonl", generic(), slca_row([[TIDE]]), SFT, {"id": "parallel_7", "function": []})
    for name in FORMATS:
        found = list(iter_tasks(path, format=name))
        assert len([item for item in found if isinstance(item, Remark)]) >= 2


# --- scores of loaded tasks


def play(task, *turns):
    env = SGLSToolCallingEnv(tasks=[task], split=task.split, scorer=None, mock=Parrot())
    env.reset(seed=0)
    for turn in turns:
        *_, info = env.step(turn)
    return HierR().explain(task, json.loads(info["transcript"]))


def block(*calls):
    return f"<tool_call>{json.dumps(list(calls))}</tool_call>"


def test_flat_and_name_only_gold_are_scored_on_what_is_known(tmp_path):
    flat = only(write(tmp_path / "flat.jsonl", generic(gold=[TIDE, OTHER])))
    report = play(flat, block(TIDE), block(OTHER), "The tides are known.")
    assert report.rewards["process"] == 1.0 and report.rewards["parallel"] is None
    names = only(write(tmp_path / "names.jsonl", generic(gold=["tide"])))
    report = play(names, block(OTHER), "The tide is known.")
    assert report.rewards["process"] == 1.0 and report.rewards["key"] is None


def test_tasks_without_facts_have_no_summary_score(tmp_path):
    report = play(only(write(tmp_path / "r.jsonl", generic())), block(TIDE), "The tide is known.")
    assert report.rewards["process"] == 1.0 and report.rewards["summary"] is None and report.rewards["total"] is None
    assert any("chat judge" in note for note in report.notes)
