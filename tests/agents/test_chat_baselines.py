import json
import re
from random import Random

import gymnasium as gym
import jsonschema
import pytest
import toolcredit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toolcredit.agents.base import agent_class
from toolcredit.agents.chat_baselines import (
    DoNothingAgent,
    GoldAgent,
    PromptedChatAgent,
    RandomCallsAgent,
    SerialGoldAgent,
    assistant_message,
    worded_messages,
)
from toolcredit.agents.check import check_agent
from toolcredit.agents.schema_samples import sample, sample_pattern
from toolcredit.errors import EndpointError, UsageError

PARSERS = ("hermes", "llama3", "mistral", "pythonic")


def make_env(**arguments):
    return gym.make("SGLSToolCallingReplay-v0", **{"split": "dev", **arguments})


def episode(agent, env, seed=0, **options):
    """The last info and the records of all turns."""
    observation, info = env.reset(seed=seed, options=options or None)
    turns = []
    while True:
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        turns.append(info["turn"])
        if terminated or truncated:
            return info, turns


def bound(agent, env):
    agent.bind(env)
    agent.reset(seed=0)
    return agent


@pytest.mark.parametrize(
    "agent", [DoNothingAgent(), RandomCallsAgent(), GoldAgent(), SerialGoldAgent()], ids=lambda a: a.name
)
def test_reference_agents_keep_the_rules(agent):
    check_agent(agent, make_env())
    assert agent_class(agent.name) is type(agent)


def test_doing_nothing_is_one_empty_reply():
    info, turns = episode(bound(DoNothingAgent(), make_env()), make_env())
    assert len(turns) == 1 and turns[0]["text"] == ""


@pytest.mark.parametrize("parser", PARSERS)
def test_gold_scores_1_in_every_syntax_and_category(parser):
    env = make_env(parser=parser)
    agent = bound(GoldAgent(), env)
    seen = set()
    for task_id in env.unwrapped.task_ids[:40]:
        info, _ = episode(agent, env, task_id=task_id)
        assert info["rewards"]["process"] == info["rewards"]["summary"] == 1.0
        seen.add(env.unwrapped.task.category)
    assert len(seen) == 7


def test_gold_knows_varied_tools():
    env = make_env(variants="all", distractors=5, seed=3)
    agent = bound(GoldAgent(), env)
    assert all(episode(agent, env, task_id=i)[0]["rewards"]["total"] == 2.0 for i in env.unwrapped.task_ids[:30])


def test_other_plans_and_the_serial_one():
    env = make_env()
    several = next(i for i in env.unwrapped.task_ids if len(env.unwrapped.gold(i)["plans"]) > 1)
    assert episode(bound(GoldAgent(plan=99), env), env, task_id=several)[0]["rewards"]["process"] == 1.0
    parallel = next(i for i in env.unwrapped.task_ids if env.unwrapped._tasks[i].category == "parallel")
    info, turns = episode(bound(SerialGoldAgent(), env), env, task_id=parallel)
    assert all(len(turn["calls"]) == 1 for turn in turns[:-1])
    assert info["rewards"]["process"] == pytest.approx(0.70) and info["rewards"]["parallel"] == 0.0


@pytest.mark.parametrize("parser", PARSERS)
def test_random_calls_are_valid(parser):
    env = make_env(parser=parser)
    agent = bound(RandomCallsAgent(most_calls=3, stop=0.3), env)
    calls = [call for seed in range(40) for turn in episode(agent, env, seed=seed)[1] for call in turn["calls"]]
    assert len(calls) > 40 and all(call["status"] in ("ok", "error") for call in calls)


def test_random_calls_end_where_there_is_no_tool():
    agent = bound(RandomCallsAgent(), make_env())
    assert all("<tool_call>" not in agent.act([], {"tools": []}) for _ in range(20))


@pytest.mark.parametrize(
    "agent", [DoNothingAgent(), GoldAgent(), PromptedChatAgent("chat:m", base_url="http://localhost/v1")]
)
def test_other_environments_are_refused(agent):
    with pytest.raises(UsageError, match="no chat environment"):
        agent.bind(gym.make("GenomeToolSubset-v0", split="dev"))
    with pytest.raises(UsageError, match="call bind"):
        type(agent)().act([{"role": "user", "content": "?"}], {"task_id": "x", "tools": []})


def test_gold_needs_an_environment_that_tells_it():
    class Silent(gym.Env):
        def turn_text(self, message): ...
        def openai_messages(self, observation): ...

    with pytest.raises(UsageError, match="does not tell its gold plans"):
        GoldAgent().bind(Silent())


@pytest.mark.parametrize("arguments", [{"most_calls": 0}, {"stop": 0}, {"stop": 1.5}])
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(UsageError, match="expected at least 1"):
        RandomCallsAgent(**arguments)


# --- prompted models


def single(env):
    return next(i for i in env.unwrapped.task_ids if env.unwrapped._tasks[i].category == "single")


@pytest.mark.parametrize("parser", PARSERS)
def test_an_endpoint_gets_tools_and_answers_structured_calls(chat_server, fake_chat, parser):
    env = make_env(parser=parser)
    task_id = single(env)
    gold = env.unwrapped.gold(task_id)
    ((call,),) = gold["plans"][0]
    chat_server.script(
        fake_chat.reply(None, tool_calls=[(call["name"], call["arguments"])]), fake_chat.reply(gold["reply"])
    )
    agent = bound(PromptedChatAgent("chat:m", base_url=chat_server.url, max_tokens=99), env)
    info, _ = episode(agent, env, task_id=task_id)
    assert info["rewards"]["process"] == info["rewards"]["summary"] == 1.0
    first, second = chat_server.bodies
    assert first["tools"] == info["tools"] and first["max_tokens"] == 99 and first["temperature"] == 0.0
    assistant, tool = second["messages"][-2:]
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == call["arguments"]
    assert tool["role"] == "tool" and tool["tool_call_id"] == assistant["tool_calls"][0]["id"]


def test_a_broken_call_of_an_endpoint_becomes_an_error_of_the_environment(chat_server, fake_chat):
    env = make_env()
    chat_server.script(
        fake_chat.reply(None, tool_calls=[("no_such_tool", "{broken")]), fake_chat.reply("I give up now.")
    )
    info, turns = episode(bound(PromptedChatAgent("chat:m", base_url=chat_server.url), env), env)
    assert turns[0]["calls"][0]["status"] == "invalid" and len(turns) == 2


def test_a_dead_endpoint_raises(chat_server, fake_chat):
    env = make_env()
    chat_server.script(fake_chat.status(500))
    agent = bound(PromptedChatAgent("chat:m", base_url=chat_server.url, max_retries=0), env)
    observation, info = env.reset(seed=0)
    with pytest.raises(EndpointError):
        agent.act(observation, info)


@pytest.mark.parametrize("parser", PARSERS)
def test_models_without_tools_are_shown_them_in_words(parser):
    env = make_env(parser=parser)
    task_id = single(env)
    gold = env.unwrapped.gold(task_id)
    ((call,),) = gold["plans"][0]
    seen = []

    def model(messages, tools):
        seen.append((messages, tools))
        turn = env.unwrapped.turn_text(assistant_message([(call["name"], call["arguments"])]))
        return {"content": turn if len(seen) == 1 else gold["reply"]}

    info, _ = episode(bound(PromptedChatAgent(model, native_tools=False), env), env, task_id=task_id)
    assert info["rewards"]["total"] == 2.0
    (first, none), (second, _) = seen
    example = env.unwrapped.turn_text(assistant_message([("tool_name", {"parameter": "value"})]))
    assert none == [] and example in first[0]["content"] and call["name"] in first[0]["content"]
    assert [m["role"] for m in second] == ["system", "user", "assistant", "user"]
    assert second[-1]["content"].startswith("<tool_response>")


def test_worded_messages_join_answers_and_system_messages():
    observation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "calls"},
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "tool", "tool_call_id": "2", "content": "b"},
    ]
    messages = worded_messages(observation, [], "EXAMPLE")
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"].startswith("Be brief.") and "EXAMPLE" in messages[0]["content"]
    assert messages[-1]["content"] == "<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>"


def test_a_local_model_takes_turns():
    env = make_env(tier="easy", split="train")
    agent = bound(PromptedChatAgent("local:tiny", max_tokens=8), env)
    observation, info = env.reset(seed=0)
    first = agent.act(observation, info)
    assert env.action_space.contains(first) and agent.act(observation, info) == first
    crowded = bound(PromptedChatAgent("local:tiny", max_tokens=8), make_env(distractors=60))
    assert crowded.act(*make_env(distractors=60).reset(seed=0)) == "" and crowded.overflows == 1


@pytest.mark.smollm2
def test_smollm2_takes_turns(smollm2_path):
    env = make_env(tier="easy", split="train")
    agent = bound(PromptedChatAgent("local:smollm2", max_tokens=16), env)
    assert env.action_space.contains(agent.act(*env.reset(seed=0)))


@pytest.mark.parametrize("model", ["smollm2", "chat:", "remote:m"])
def test_unknown_models_are_refused(model):
    with pytest.raises(UsageError, match="is no model"):
        PromptedChatAgent(model).bind(make_env())


# --- random values for schemas

SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 4}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"const": 7}}, "required": ["a", "b"]},
    {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "minItems": 2, "maxItems": 3},
    {"anyOf": [{"type": "string", "minLength": 30}, {"type": "null"}]},
    {"type": ["integer", "string"], "minimum": -5, "maximum": -1, "maxLength": 2},
    {"$ref": "#/$defs/day", "$defs": {"day": {"type": "string", "format": "date"}}},
    {"allOf": [{"type": "string"}, {"pattern": "^ORD-[0-9]{5}$"}]},
    {"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d$"},
    {"type": "integer", "multipleOf": 5, "minimum": 7, "maximum": 21},
    {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "maxItems": 2},
    {"properties": {"deep": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}}},
    {},
    True,
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_samples_fit_their_schema(schema):
    for seed in range(30):
        jsonschema.Draft202012Validator(schema).validate(sample(schema, Random(seed)))


@pytest.mark.parametrize(
    "pattern",
    [r"^[A-Z]{2}\d{3,5}$", r"^(north|south)-(a|b)?$", r"^\w+\.txt$", r"^[^0-9]x{2}.$", r"^a*b+c?$", r"^(?:ab){2}$"],
)
def test_samples_match_simple_patterns(pattern):
    for seed in range(30):
        assert re.search(pattern, sample_pattern(pattern, Random(seed)))


HOSTILE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(
        st.sampled_from(["type", "enum", "const", "properties", "required", "items", "anyOf", "allOf", "$ref", "a",
                         "minimum", "maximum", "minItems", "maxItems", "minLength", "pattern", "multipleOf", "format"]),
        inner, max_size=4)),
    max_leaves=6,
)  # fmt: skip


ANYTHING = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@ANYTHING
@given(HOSTILE, st.integers(0, 5))
def test_samples_of_hostile_schemas_never_raise(schema, seed):
    sample(schema, Random(seed))


@ANYTHING
@given(st.text(alphabet=r"()[]{}|?*+\^$-,.ab09d", max_size=20), st.integers(0, 3))
def test_hostile_patterns_never_raise(pattern, seed):
    assert len(sample_pattern(pattern, Random(seed))) < 1 << 20


def test_the_package_registers_what_is_used_here():
    assert "SGLSToolCallingReplay-v0" in toolcredit.registered_ids()
