"""The protocol, with OpenAI's own client: what is served, as it is documented."""

import json
import threading
import time

import openai
import pytest
import torch
from toolcredit.benchmarks.local_chat import LocalPlayer
from toolcredit.benchmarks.suite import SuiteTask, TaskContext

HI = [{"role": "user", "content": "Hi"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def ask(client, messages=HI, **fields):
    return client.chat.completions.create(model="tiny", messages=messages, **fields)


def refusal(client, messages=HI, **fields):
    """The error of a request that must be refused with 400."""
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, messages, **fields)
    return caught.value


@pytest.fixture
def says(server):
    """`says(text)` or `says(function of the prompt)`: what the model says in this test."""
    yield lambda text: server.script(text if callable(text) else lambda prompt: text)
    server.script(None)
    server.wait_until_idle()


# ---- models, health


def test_models_and_health(client, server):
    (card,) = client.models.list().data
    assert card.id == "tiny" and card.max_model_len == 4096
    assert client.models.retrieve("tiny") == card
    with pytest.raises(openai.NotFoundError, match="only 'tiny' is"):
        client.models.retrieve("gpt-9")
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-9", messages=HI)
    assert caught.value.code == "model_not_found"
    assert client.with_options(base_url=server.url.removesuffix("/v1")).get("/health", cast_to=object) == {
        "status": "ok"
    }


# ---- what is said


def test_a_reply_is_what_the_model_says(client, says):
    says("Hello there.")
    reply = ask(client)
    (choice,) = reply.choices
    assert (choice.message.content, choice.message.role, choice.finish_reason) == ("Hello there.", "assistant", "stop")
    assert choice.message.tool_calls is None and choice.logprobs is None
    assert reply.object == "chat.completion" and reply.model == "tiny" and reply.system_fingerprint
    usage = reply.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens and usage.completion_tokens > 2


def test_every_role_reaches_the_prompt(client, says, server):
    prompts = []
    says(lambda prompt: prompts.append(prompt) or "ok")
    conversation = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather "}, {"type": "text", "text": "in Oslo?"}]},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "snow"},
    ]
    ask(client, conversation, tools=[WEATHER])
    prompt = prompts[0]
    parts = [
        "system\nBe brief.",
        '"name": "weather"',
        "Weather in Oslo?",
        CALL,
        "<tool_response>\nsnow\n</tool_response>",
    ]
    assert [prompt.index(part) for part in parts] == sorted(prompt.index(part) for part in parts)


def test_calls_come_as_tool_calls(client, says):
    says(f"Let me look.\n{CALL}\n{CALL.replace('Oslo', 'Rome')}")
    (choice,) = ask(client, tools=[WEATHER], max_tokens=200).choices
    assert choice.finish_reason == "tool_calls" and choice.message.content == "Let me look."
    calls = choice.message.tool_calls
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Oslo", "Rome"]
    assert len({call.id for call in calls}) == 2 and {call.function.name for call in calls} == {"weather"}


def test_without_tools_or_with_tool_choice_none_a_call_is_text(client, says):
    says(CALL)
    for fields in ({}, {"tools": [WEATHER], "tool_choice": "none"}):
        (choice,) = ask(client, **fields).choices
        assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (CALL, None, "stop")


def test_tool_choice_none_hides_the_tools(client, says):
    prompts = []
    says(lambda prompt: prompts.append(prompt) or "ok")
    ask(client, tools=[WEATHER], tool_choice="none")
    assert not any("weather" in prompt for prompt in prompts)
    ask(client, tools=[WEATHER], tool_choice="auto")
    assert "weather" in prompts[-1]


def test_length_limits(client, says, server):
    says("one two three four five")
    for name in ("max_tokens", "max_completion_tokens"):
        reply = ask(client, **{name: 3})
        assert (reply.usage.completion_tokens, reply.choices[0].finish_reason) == (3, "length")
    says("7" * 100)
    assert ask(client).usage.completion_tokens == server.player.max_tokens, "the server's own limit"


def test_a_cut_off_call_ended_by_length(client, says):
    """The call may be read all the same, but whoever asks must see that it was cut off."""
    says(CALL + " and so on")
    reply = ask(client, tools=[WEATHER], max_tokens=22)
    assert reply.choices[0].finish_reason == "length"


def test_huge_max_tokens_mean_the_rest_of_the_context(client, says):
    says("done")
    assert ask(client, max_tokens=10**12).choices[0].message.content == "done"


def test_stop_strings_end_the_text_before_them(client, says):
    says("one two, three")
    for stop in (",", [",", "three"], ["zzz", " two,"]):
        (choice,) = ask(client, stop=stop).choices
        assert choice.finish_reason == "stop" and choice.message.content in ("one two", "one")
    assert ask(client, stop=", thr").usage.completion_tokens < ask(client).usage.completion_tokens, (
        "sampling ended there"
    )


# ---- sampling


def test_a_seed_repeats_a_reply_and_another_does_not(client):
    def say(**fields):
        return [choice.message.content for choice in ask(client, temperature=2, **fields).choices]

    assert say(seed=5, n=3) == say(seed=5, n=3)
    assert say(seed=5) == say(seed=5, n=3)[:1] and len(set(say(seed=5, n=3))) == 3
    assert say(seed=5) != say(seed=6) and say() != say(), "without a seed every reply is drawn anew"
    assert say(seed=-1) == say(seed=-1)


def test_a_reply_does_not_depend_on_what_else_is_sampled(client):
    def say(seed, messages=HI):
        return ask(client, messages, temperature=2, seed=seed).choices[0].message.content

    prompts = [[{"role": "user", "content": "word " * (3 * k)}] for k in range(12)]
    alone = [say(k, prompt) for k, prompt in enumerate(prompts)]
    together = [None] * len(prompts)
    threads = [
        threading.Thread(target=lambda k=k: together.__setitem__(k, say(k, prompts[k]))) for k in range(len(prompts))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_it_says_what_a_local_agent_says(client, tiny, temperature):
    """The agent `local:` of `toolcredit bench`, turn after turn, with the seed that it gets there."""
    player = LocalPlayer("tiny", tiny, max_tokens=64, temperature=temperature)
    context = TaskContext(seed=77)
    agent = player.start(SuiteTask("t", "c", {}), context)
    messages = list(HI)
    for turn in range(3):
        local = agent.respond(messages, [WEATHER])
        served = ask(client, messages, tools=[WEATHER], temperature=temperature, seed=77)
        assert (served.choices[0].message.content or "") == local["content"]
        messages += [{"role": "assistant", "content": local["content"]}, {"role": "user", "content": f"More {turn}"}]
    assert player.sampler.close(10)


def test_logprobs_are_those_of_a_plain_forward_pass(client, tiny):
    reply = ask(client, temperature=2, seed=1, logprobs=True, top_logprobs=3, max_tokens=6)
    entries = reply.choices[0].logprobs.content
    assert len(entries) == 6 and "".join(entry.token for entry in entries)[:1]
    prompt = LocalPlayer("tiny", tiny).prompt(HI, [])[0]
    with torch.no_grad():
        expected = torch.log_softmax(tiny.model(torch.tensor([prompt])).logits[0, -1] / 2, -1).topk(3)
    assert [top.logprob for top in entries[0].top_logprobs] == pytest.approx(expected.values.tolist(), abs=1e-4)
    assert [top.token for top in entries[0].top_logprobs] == [tiny.tokenizer.decode([i]) for i in expected.indices]
    for entry in entries:
        assert len(entry.top_logprobs) == 3 and entry.logprob <= 0
        assert entry.bytes is None or bytes(entry.bytes).decode() == entry.token


# ---- streams


def joined(stream):
    """Text, calls, reasons and usage of a stream, by choice."""
    texts, calls, reasons, usage = {}, {}, {}, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert choice.index not in reasons, "nothing comes after the reason"
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            calls.setdefault(choice.index, []).extend(choice.delta.tool_calls or [])
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
    return texts, calls, reasons, usage


@pytest.mark.parametrize("stop", [None, ["e"], ["zz", "a", "é"]])
def test_a_stream_says_what_the_whole_reply_says(client, stop):
    fields = {"temperature": 2, "seed": 3, "n": 4, "stop": stop}
    whole = ask(client, **fields)
    texts, _, reasons, usage = joined(ask(client, stream=True, stream_options={"include_usage": True}, **fields))
    assert texts == {choice.index: choice.message.content for choice in whole.choices}
    assert reasons == {choice.index: choice.finish_reason for choice in whole.choices}
    assert usage == whole.usage


def test_a_stream_comes_piece_by_piece(start, client_of):
    server = start(pause=0.1)
    server.script(lambda prompt: "a b c d e f")
    times = [time.monotonic() for c in ask(client_of(server), stream=True) if c.choices[0].delta.content]
    assert len(times) > 5 and times[-1] - times[0] > 0.3


def test_a_stream_with_logprobs_has_each_token_once(client):
    fields = {"temperature": 2, "seed": 3, "logprobs": True, "top_logprobs": 1, "max_tokens": 12}
    whole = ask(client, **fields).choices[0].logprobs.content
    chunks = [c.choices[0].logprobs for c in ask(client, stream=True, **fields)]
    assert [entry for part in chunks if part for entry in part.content] == whole


def test_calls_in_a_stream(client, says):
    says(f"Well.\n{CALL}")
    texts, calls, reasons, _ = joined(ask(client, tools=[WEATHER], stream=True))
    assert texts == {0: "Well."} and reasons == {0: "tool_calls"}
    (call,) = calls[0]
    assert (call.index, call.function.name, json.loads(call.function.arguments)) == (0, "weather", {"city": "Oslo"})


# ---- plain completions


def test_completions(client, says):
    says(lambda prompt: f"after {prompt}")
    reply = client.completions.create(model="tiny", prompt=["one", "two"], n=2, max_tokens=20, temperature=0)
    assert [(c.index, c.text, c.finish_reason) for c in reply.choices] == [
        (0, "after one", "stop"),
        (1, "after one", "stop"),
        (2, "after two", "stop"),
        (3, "after two", "stop"),
    ]
    ids = [5, 6, 7]
    assert client.completions.create(model="tiny", prompt=ids, max_tokens=20).usage.prompt_tokens == 3
    assert client.completions.create(model="tiny", prompt="one").usage.completion_tokens <= 16, "OpenAI's default"


def test_completions_show_control_tokens_only_if_asked_to(client, says):
    says("a<|im_start|>b")
    for skip, text in ((True, "ab"), (False, "a<|im_start|>b")):
        fields = {"extra_body": {"skip_special_tokens": skip}}
        assert client.completions.create(model="tiny", prompt="x", max_tokens=20, **fields).choices[0].text == text


def test_completions_stop_at_the_tokens_that_are_given(client, says, tiny):
    says("one two three")
    (second,) = tiny.tokenizer.encode(" t", add_special_tokens=False)[:1]
    reply = client.completions.create(model="tiny", prompt="x", max_tokens=20, extra_body={"stop_token_ids": [second]})
    assert reply.choices[0].finish_reason == "stop" and "three" not in reply.choices[0].text


def test_completions_stream_and_report_logprobs(client):
    fields = {"model": "tiny", "prompt": "a b", "max_tokens": 8, "temperature": 2, "seed": 1}
    whole = client.completions.create(logprobs=2, **fields).choices[0]
    assert "".join(c.choices[0].text for c in client.completions.create(stream=True, **fields)) == whole.text
    assert len(whole.logprobs.tokens) == len(whole.logprobs.token_logprobs) == 8
    assert all(len(top) == 2 for top in whole.logprobs.top_logprobs)


# ---- what is not served


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"top_p": 0.9}, "top_p", "only 1 is served"),
        ({"temperature": 3}, "temperature", "less than or equal to 2"),
        ({"temperature": -1}, "temperature", "greater than or equal to 0"),
        ({"temperature": 1e-9}, "temperature", "0.0001"),
        ({"temperature": "0.5"}, "temperature", "valid number"),
        ({"temperature": True}, "temperature", "valid number"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": 1.5}, "max_tokens", "valid integer"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"n": 129}, "n", "less than or equal to 128"),
        ({"seed": 2**64}, "seed", "less than"),
        ({"stop": ""}, "stop.0", "at least 1 character"),
        ({"stop": ["a"] * 17}, "stop", "at most 16"),
        ({"top_logprobs": 2}, "top_logprobs", "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
        ({"presence_penalty": 0.5}, "presence_penalty", "only 0 is served"),
        ({"logit_bias": {"5": 100}}, "logit_bias", "only {} is served"),
        ({"response_format": {"type": "json_object"}}, "response_format", "only"),
        ({"parallel_tool_calls": False, "tools": [WEATHER]}, "parallel_tool_calls", "only true is served"),
        ({"tool_choice": "required", "tools": [WEATHER]}, "tool_choice", '"auto" and "none"'),
        (
            {"tool_choice": {"type": "function", "function": {"name": "weather"}}, "tools": [WEATHER]},
            "tool_choice",
            '"auto" and "none"',
        ),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type", "function"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools.0.function.name", "at least 1"),
        ({"tools": [{"type": "function"}]}, "tools.0.function", "required"),
        ({"extra_body": {"tempurature": 1}}, "tempurature", "unknown field"),
        ({"extra_body": {"top_k": 5}}, "top_k", "only -1 or 0 is served"),
    ],
)
def test_what_is_not_served_is_refused_with_its_name(client, fields, param, said):
    error = refusal(client, **fields)
    assert error.param == param and said in error.message and error.type == "invalid_request_error"


IMAGE = {"type": "image_url", "image_url": {"url": "http://x"}}
NAMELESS = {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ([{"role": "robot", "content": "x"}], "messages.0.role"),
        ([{"content": "x"}], "messages.0.role"),
        ([{"role": "user", "content": 5}], "messages.0.content"),
        ([{"role": "user", "content": [IMAGE]}], "messages.0.content"),
        ([*HI, NAMELESS], "messages.1.tool_calls.0.function.name"),
        (["hi"], "messages.0"),
    ],
)
def test_messages_that_are_none_are_refused(client, messages, param):
    assert refusal(client, messages).param == param


def test_fields_that_change_nothing_are_taken(client, says):
    says("ok")
    neutral = {
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "user": "somebody",
        "store": False,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "stop": None,
        "extra_body": {"top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "tools": None},
    }
    assert ask(client, **neutral).choices[0].message.content == "ok"
    assert ask(client, temperature=0, top_p=0.1).choices[0].message.content == "ok", "greedy whatever top_p is"


def test_a_prompt_longer_than_the_context(client, server):
    long = [{"role": "user", "content": "word " * 5000}]
    for fields in ({}, {"stream": True}):
        error = refusal(client, long, **fields)
        assert (error.code, error.param) == ("context_length_exceeded", "messages")
        assert "maximum context length is 4096 tokens" in error.message
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt=[5] * 4096)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")


@pytest.mark.parametrize("prompt", ["", [], [""], [512_000], [[1], []], [-1], 5, [{"a": 1}], [True]])
def test_prompts_that_are_none_are_refused(client, prompt):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt=prompt)
    assert caught.value.param.startswith("prompt")
