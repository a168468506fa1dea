"""Supervised fine-tuning on recorded conversations: every form, exact masks, clear refusals."""

import json

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.sft import SFTLearner  # noqa: E402
from toolcredit.agents.trajectory import Segment  # noqa: E402
from toolcredit.cli.main import app  # noqa: E402
from toolcredit.errors import TaskError, UsageError  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {
        key: {"type": "string"}}, "required": [key]}}}
    for name, key in (("tide", "harbour"), ("wind", "place"))
]  # fmt: skip
CALL = {"name": "tide", "arguments": {"harbour": "Orsk"}}
TOUCAN = {
    "uuid": "t",
    "tools": json.dumps(TOOLS),
    "messages": json.dumps([
        {"role": "user", "content": "Tides in Orsk?"},
        {"role": "assistant", "content": "I look."},
        {"role": "tool_call", "content": repr({"name": "tide", "arguments": json.dumps(CALL["arguments"])})},
        {"role": "tool_response", "content": "1 m <|im_end|> " + "x" * 80},
        {"role": "assistant", "content": "It is 1 m."},
        {"role": "user", "content": "Thanks!"},
        {"role": "assistant", "content": "You are welcome."},
    ]),
}  # fmt: skip
SHAREGPT = {
    "conversations": [
        {"from": "system", "value": "# Tools\n<tools>\n" + "\n".join(map(json.dumps, TOOLS)) + "\n</tools>\nGo on."},
        {"from": "human", "value": "Tide in Orsk?"},
        {"from": "gpt", "value": f"<think>hm</think><tool_call>\n{json.dumps(CALL)}\n</tool_call>"},
        {"from": "human", "value": "<tool_response>\n1 m\n</tool_response>"},
        {"from": "gpt", "value": "<think>done</think>1 m."},
        {"from": "human", "value": "nobody answers this"},
    ]
}
OPENAI = {
    "tools": TOOLS,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Tide in Orsk?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "tide", "arguments": '{"harbour": "Orsk"}'}}]},
        {"role": "tool", "tool_call_id": "a", "content": "1 m"},
        {"role": "assistant", "content": "1 m."},
    ],
}  # fmt: skip
WRITTEN = '<tool_call>\n{"name": "tide", "arguments": {"harbour": "Orsk"}}\n</tool_call>'
TINY = {
    "policy": {"model": "tiny", "weights": "full", "template": "compact"},
    "max_updates": 2,
    "batch_size": 2,
    "learning_rate": 3e-3,
    "max_new_tokens": 8,
    "max_turns": 2,
}


@pytest.fixture
def env():
    return gym.make("SGLSToolCallingReplay-v0", split="dev", tier="easy", max_response_chars=64)


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def prepared(env, path, **policy):
    learner = SFTLearner(TINY | {"data": path, "policy": TINY["policy"] | policy})
    learner.prepare(env)
    return learner


def turns(learner, demonstration):
    """The texts that are learned, and those that are not."""
    decode = learner.policy.local.tokenizer.decode
    steps = range(int(demonstration.step.max()) + 1)
    said = [decode(demonstration.ids[demonstration.step == k].tolist()) for k in steps]
    return said, decode(demonstration.ids[~demonstration.trainable].tolist())


@pytest.mark.parametrize(
    ("row", "said", "shown"),
    [
        (TOUCAN, [f"I look.\n{WRITTEN}", "It is 1 m.", "You are welcome."], ["Tides in Orsk?", "Thanks!", "tide(h"]),
        (SHAREGPT, [f"<think>\nhm\n</think>\n{WRITTEN}", "<think>done</think>1 m."], ["Tide in Orsk?", "wind(place)"]),
        (OPENAI, [WRITTEN, "1 m."], ["Be brief.", "<tool_response>\n1 m\n</tool_response>"]),
    ],
    ids=["toucan", "sharegpt", "openai"],
)
def test_the_assistants_turns_are_learned_whole_and_nothing_else(env, tmp_path, row, said, shown):
    learner = prepared(env, write(tmp_path / "rows.jsonl", row))
    [demonstration] = learner.demonstrations
    learned, rest = turns(learner, demonstration)
    assert learned == [f"{text}<|im_end|>" for text in said]
    assert all(text in rest for text in shown) and not any(text in rest for text in said[1:])
    assert "nobody answers" not in rest and "<tools>" not in rest
    assert {Segment(s) for s in demonstration.segment[demonstration.step == 0]} == {Segment.TOOL}
    assert {Segment(s) for s in demonstration.segment[demonstration.trainable][-3:]} == {Segment.SUMMARY}


def test_tokens_are_those_of_a_rollout_that_went_so(env, tmp_path):
    path = write(tmp_path / "rows.jsonl", TOUCAN)
    learner = prepared(env, path)
    [demonstration] = learner.demonstrations
    template = learner.template
    ids = template.prompt_ids([{"role": "user", "content": "Tides in Orsk?"}], TOOLS)
    ids += template.turn_ids(f"I look.\n{WRITTEN}", TOOLS)
    answer = env.unwrapped.recordings(path)[0][0][2]["content"]
    assert len(answer) <= 64 and answer.startswith("1 m <|im_end|>")  # cut in the middle, as the environment does
    ids += template.environment_ids([{"role": "tool", "content": answer}], TOOLS)
    assert demonstration.ids[: len(ids)].tolist() == ids
    # of the system, two users, the tool's answer and three assistant's turns; none of what the tool wrote
    assert demonstration.ids.tolist().count(template.end_of_turn(TOOLS)) == 7


def test_it_learns_from_them_and_is_measured_on_the_environment(tmp_path):
    path = write(tmp_path / "rows.jsonl", TOUCAN, SHAREGPT, OPENAI, {"messages": []})
    command = ["train", "sft", "--env", "SGLSToolCallingReplay-v0", "--policy", "tiny", "--set", f"data={path}"]
    command += ["--max-steps", "6", "--set", "batch_size=3", "--set", "max_new_tokens=4", "--json"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["strategies"]["gold"]["success_process"]["rate"] == 1.0


def test_what_cannot_be_learned_from_is_refused_with_the_reason(env, tmp_path, chat_envs):
    with pytest.raises(TaskError, match="no file"):
        prepared(env, str(tmp_path / "nothing.jsonl"))
    silent = {"tools": TOOLS, "messages": [{"role": "user", "content": "Hello?"}]}
    with pytest.raises(TaskError, match="row 1: no turn of an assistant"):
        prepared(env, write(tmp_path / "silent.jsonl", silent))
    path = write(tmp_path / "rows.jsonl", TOUCAN)
    with pytest.raises(UsageError, match="cannot read recorded conversations"):
        prepared(chat_envs.Conversation(chat_envs.turns_of_tools(1)), path)
    with pytest.raises(UsageError, match="max_length=5 tokens"):
        learner = SFTLearner(TINY | {"data": path, "max_length": 5})
        learner.prepare(env)


def test_a_template_that_rewrites_earlier_turns_is_refused(env, tmp_path):
    learner = SFTLearner(
        TINY | {"data": write(tmp_path / "r.jsonl", SHAREGPT), "policy": TINY["policy"] | {"template": "own"}}
    )
    learner.policy.local.tokenizer.chat_template = (
        "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}"
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content.split('</think>')[-1] "
        "if m.role == 'assistant' and not loop.last else m.content) + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    with pytest.raises(UsageError, match="conversation 1 of .*not append-only"):
        learner.prepare(env)
