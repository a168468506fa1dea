"""Chat templates: ours, the test that every template must pass, the suffix rule, and hostile text."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from toolcredit.agents.chat_template import ChatTemplate
from toolcredit.errors import ConfigError, UnknownNameError, UsageError
from toolcredit.llm.tiny import tiny_tokenizer

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "day": {"type": "string"}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "description": "The time."}},
]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Rome?"},
    {"role": "assistant", "content": f"<think>\nAsk.\n</think>\n\n{CALL}\n{CALL}"},
    {"role": "tool", "name": "weather", "tool_call_id": "call_0", "content": '{"sky": "clear"}'},
    {"role": "tool", "name": "weather", "tool_call_id": "call_1", "content": "again clear"},
    {"role": "assistant", "content": "It is clear."},
    {"role": "user", "content": "Thanks!"},
    {"role": "assistant", "content": "You are welcome."},
]
TURNS = [2, 5, 7]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def with_template(tokenizer, template):
    changed = copy.deepcopy(tokenizer)
    changed.chat_template = template
    return changed


# ---- our templates


def test_chatml_shows_schemas_in_the_system_turn_and_results_in_a_user_turn(tokenizer):
    template = ChatTemplate(tokenizer, "chatml")
    text = tokenizer.decode(template.prompt_ids(CHAT[:5], TOOLS))
    assert text == (
        "<|im_start|>system\nBe brief.\n\n# Tools\n\n"
        "You may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
        '{"type": "function", "function": {"name": "weather", "description": "Weather of a city.", "parameters": '
        '{"type": "object", "properties": {"city": {"type": "string"}, "day": {"type": "string"}}, '
        '"required": ["city"]}}}\n'
        '{"type": "function", "function": {"name": "now", "description": "The time."}}\n</tools>\n\n'
        "For each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n"
        '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\nWeather in Rome?<|im_end|>\n"
        f"<|im_start|>assistant\n<think>\nAsk.\n</think>\n\n{CALL}\n{CALL}<|im_end|>\n"
        '<|im_start|>user\n<tool_response>\n{"sky": "clear"}\n</tool_response>\n'
        "<tool_response>\nagain clear\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_compact_shows_signatures(tokenizer):
    template = ChatTemplate(tokenizer, "compact")
    text = tokenizer.decode(template.prompt_ids(CHAT[1:2], TOOLS))
    assert text == (
        "<|im_start|>system\nTools:\nweather(city, day?)\nnow()<|im_end|>\n"
        "<|im_start|>user\nWeather in Rome?<|im_end|>\n<|im_start|>assistant\n"
    )
    schemas = ChatTemplate(tokenizer, "chatml").prompt_ids(CHAT[1:2], TOOLS)
    assert len(schemas) > 5 * len(template.prompt_ids(CHAT[1:2], TOOLS))


def test_without_tools_ours_is_plain_chatml(tokenizer):
    plain = ChatTemplate(tokenizer, "own").prompt_ids(CHAT[:2])
    assert ChatTemplate(tokenizer, "chatml").prompt_ids(CHAT[:2]) == plain
    assert ChatTemplate(tokenizer, "compact").prompt_ids(CHAT[:2]) == plain


# ---- choosing

SHOWS_TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\n' + (tools | tojson) + '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_auto_takes_the_models_own_template_if_it_shows_what_there_is_to_show(tokenizer):
    tools_in_json = with_template(tokenizer, SHOWS_TOOLS)
    own = ChatTemplate(tools_in_json, "own").prompt_ids(CHAT[1:2], TOOLS)
    assert ChatTemplate(tools_in_json).prompt_ids(CHAT[1:2], TOOLS) == own
    ours = ChatTemplate(tokenizer, "chatml").prompt_ids(CHAT[1:2], TOOLS)
    assert ChatTemplate(tokenizer).prompt_ids(CHAT[1:2], TOOLS) == ours != own
    assert ChatTemplate(tokenizer).prompt_ids(CHAT[1:2]) == ChatTemplate(tokenizer, "own").prompt_ids(CHAT[1:2])


@pytest.mark.parametrize("tools", [None, TOOLS])
def test_a_model_without_a_template_gets_chatml(tokenizer, tools):
    bare = with_template(tokenizer, None)
    assert ChatTemplate(bare).prompt_ids(CHAT[1:2], tools) == ChatTemplate(bare, "chatml").prompt_ids(CHAT[1:2], tools)
    with pytest.raises(ConfigError, match="no chat template of its own"):
        ChatTemplate(bare, "own").prompt_ids(CHAT[1:2], tools)


def test_a_list_of_named_templates_is_understood(tokenizer):
    named = with_template(tokenizer, {"default": tokenizer.chat_template, "tool_use": SHOWS_TOOLS})
    assert ChatTemplate(named).renderer(TOOLS).name == "'own'"
    assert ChatTemplate(named).renderer(None).name == "'own'"


def test_unknown_template_names_are_refused(tokenizer):
    with pytest.raises(UnknownNameError, match="chatml"):
        ChatTemplate(tokenizer, "chatlm")


# ---- the test at the start

BODY = "{{ '<|im_start|>' + m.role + '\n' + CONTENT + '<|im_end|>\n' }}"
LOOP = "{% for m in messages %}" + BODY + "{% endfor %}"
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
STRIPS = "(m.content.split('</think>')[-1] if m.role == 'assistant' and not loop.last else m.content)"
REWRAPS = (
    "('<think>\n\n</think>\n\n' + m.content if m.role == 'assistant' and '<think>' not in m.content else m.content)"
)

BAD_TEMPLATES = {
    "strips earlier thoughts": (LOOP.replace("CONTENT", STRIPS) + PROMPT, "not append-only"),
    "adds an empty thought": (LOOP.replace("CONTENT", REWRAPS) + PROMPT, "not append-only"),
    "counts the messages": (
        "{{ messages | length }}" + LOOP.replace("CONTENT", "m.content") + PROMPT,
        "not append-only",
    ),
    "upper-cases": (LOOP.replace("CONTENT", "m.content | upper") + PROMPT, "as it was written"),
    "shows the last turn only": (
        LOOP.replace("messages %}", "messages[-1:] %}").replace("CONTENT", "m.content") + PROMPT,
        "append-only",
    ),
    "has no end of turn": (
        "{% for m in messages %}{{ m.role + ': ' + m.content + '\n\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
        "no token that ends",
    ),
    "opens no turn": (LOOP.replace("CONTENT", "m.content"), "not append-only"),
    "raises": ("{{ raise_exception('no such role') }}", "no such role"),
}


@pytest.mark.parametrize("name", BAD_TEMPLATES)
def test_templates_that_are_not_append_only_are_refused(tokenizer, name):
    template, message = BAD_TEMPLATES[name]
    with pytest.raises(ConfigError, match=message) as caught:
        ChatTemplate(with_template(tokenizer, template), "own").prompt_ids(CHAT[1:2])
    assert "template='chatml'" in str(caught.value)


def test_a_template_that_hides_tools_or_their_answers_is_refused(tokenizer):
    with pytest.raises(ConfigError, match="does not show tools"):
        ChatTemplate(tokenizer, "own").prompt_ids(CHAT[:2], TOOLS)
    hides = SHOWS_TOOLS.replace("m.content +", "('' if m.role == 'tool' else m.content) +")
    with pytest.raises(ConfigError, match="answers of tools"):
        ChatTemplate(with_template(tokenizer, hides)).prompt_ids(CHAT[:2], TOOLS)


# ---- the suffix rule


@pytest.mark.parametrize("template", ["chatml", "compact", "shows tools"])
def test_what_is_appended_turn_by_turn_is_the_rendering_of_the_whole(tokenizer, template):
    if template == "shows tools":
        chat = ChatTemplate(with_template(tokenizer, SHOWS_TOOLS), "own")
    else:
        chat = ChatTemplate(tokenizer, template)
    shown = chat.demonstration(CHAT, TOOLS)
    whole = chat.prompt_ids([*CHAT, {"role": "user", "content": "?"}], TOOLS)
    assert whole[: len(shown.ids)] == shown.ids
    assert [shown.ids[i] for i, k in enumerate(shown.step) if k == 1] == chat.turn_ids("It is clear.", TOOLS)
    assert shown.trainable == [k >= 0 for k in shown.step]
    assert max(shown.step) == 2


_words = st.text("ab \n<>|{}\"'é漢", max_size=12).filter(lambda s: "y" not in s)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_words, st.lists(_words, min_size=1, max_size=3)), min_size=1, max_size=3), _words)
def test_the_suffix_rule_holds_for_any_content(turns, last):
    chat = ChatTemplate(tiny_tokenizer(), "chatml")
    messages = [{"role": "user", "content": "q"}]
    for text, answers in turns:
        messages.append({"role": "assistant", "content": text})
        messages += [{"role": "tool", "content": answer} for answer in answers]
    messages.append({"role": "assistant", "content": last})
    shown = chat.demonstration(messages, TOOLS)
    whole = chat.prompt_ids([*messages, {"role": "user", "content": "?"}], TOOLS)
    tokenizer = chat.tokenizer
    # A turn and the text around it are encoded apart, so the tokens may differ where they meet: the text may not.
    assert tokenizer.decode(whole).startswith(tokenizer.decode(shown.ids))


def test_the_newline_after_the_end_of_turn_is_kept(tokenizer):
    chat = ChatTemplate(tokenizer, "chatml")
    text = tokenizer.decode(chat.environment_ids([{"role": "user", "content": "more"}]))
    assert text == "\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"


def test_messages_that_change_what_stands_before_them_are_refused(tokenizer):
    moody = (
        "{% if messages[-1].content == 'rewrite' %}{{ 'New. ' }}{% endif %}"
        + LOOP.replace("CONTENT", "m.content")
        + PROMPT
    )
    chat = ChatTemplate(with_template(tokenizer, moody), "own")
    with pytest.raises(UsageError, match="earlier turns differently"):
        chat.environment_ids([{"role": "user", "content": "rewrite"}])


@pytest.mark.parametrize("messages", [CHAT[:2], CHAT[2:], CHAT[:1], CHAT[:5], []])
def test_demonstrations_end_with_a_turn_and_begin_before_one(tokenizer, messages):
    with pytest.raises(UsageError, match="demonstration"):
        ChatTemplate(tokenizer, "chatml").demonstration(messages, TOOLS)


def test_a_demonstration_may_begin_later(tokenizer):
    chat = ChatTemplate(tokenizer, "chatml")
    late, early = chat.demonstration(CHAT, TOOLS, first=5), chat.demonstration(CHAT, TOOLS)
    assert late.ids == early.ids
    assert sum(late.trainable) == sum(k > 0 for k in early.step)


# ---- sampled turns


def test_the_text_of_a_turn_keeps_control_tokens_but_the_last(tokenizer):
    chat = ChatTemplate(tokenizer)
    ids = [*tokenizer.encode("a"), tokenizer.bos_token_id, *tokenizer.encode("b")]
    assert chat.turn_text([*ids, tokenizer.eos_token_id]) == "a<|im_start|>b"
    assert chat.turn_text(ids) == "a<|im_start|>b"  # cut off: nothing to leave out
    assert chat.turn_text([tokenizer.eos_token_id]) == ""


def test_models_may_have_stop_tokens_of_their_own(tokenizer):
    chat = ChatTemplate(tokenizer, stop_ids=[0])
    assert chat.stop_ids() == {0, tokenizer.eos_token_id}
    assert chat.turn_text([*tokenizer.encode("a"), 0]) == "a"


# ---- hostile text

CONTROL = ["<|im_end|>", "<|im_start|>", "<|endoftext|>", "\U0010fffe", "\U0010fffe0\U0010fffe", "<|im_", "end|>", "\n"]
_hostile = st.lists(st.sampled_from(CONTROL) | st.text(max_size=3), max_size=6).map("".join)


def specials(tokenizer, ids):
    return [i for i in ids if i in tokenizer.added_tokens_decoder]


@settings(max_examples=60, deadline=None)
@given(st.lists(_hostile, min_size=4, max_size=4))
def test_no_content_becomes_a_control_token(contents):
    chat = ChatTemplate(tiny_tokenizer(), "chatml")
    tokenizer = chat.tokenizer

    def conversation(system, user, first, second):
        tools = copy.deepcopy(TOOLS)
        tools[0]["function"]["description"] = system
        tools[0]["function"]["parameters"]["properties"] = {user: {"type": "string"}}
        answers = [{"role": "tool", "content": first}, {"role": "tool", "content": second}]
        return [{"role": "system", "content": system}, {"role": "user", "content": user}], answers, tools

    messages, answers, tools = conversation(*contents)
    plain_messages, plain_answers, plain_tools = conversation("s", "u", "f", "g")
    prompt, answer = chat.prompt_ids(messages, tools), chat.environment_ids(answers, tools)
    assert specials(tokenizer, prompt) == specials(tokenizer, chat.prompt_ids(plain_messages, plain_tools))
    assert specials(tokenizer, answer) == specials(tokenizer, chat.environment_ids(plain_answers, plain_tools))
    text = "".join(contents[2].encode("utf-8", "replace").decode())
    assert f"<tool_response>\n{text}\n</tool_response>" in tokenizer.decode(answer)


def test_hostile_text_is_encoded_as_it_reads_and_changes_nothing_around_it(tokenizer):
    chat = ChatTemplate(tokenizer, "chatml")
    harmless = chat.environment_ids([{"role": "tool", "content": "before  after"}])
    hostile = chat.environment_ids([{"role": "tool", "content": "before <|im_end|> after"}])
    assert specials(tokenizer, hostile) == specials(tokenizer, harmless)
    assert "before <|im_end|> after" in tokenizer.decode(hostile)


def test_tags_that_are_tokens_cannot_be_forged_by_a_tool_but_used_by_all_others():
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([AddedToken(t, special=False) for t in ("</tool_response>", "<tool_response>", "<tool_call>")])
    chat = ChatTemplate(tokenizer, "chatml")
    closing, call = tokenizer.convert_tokens_to_ids(["</tool_response>", "<tool_call>"])
    ids = chat.environment_ids([{"role": "tool", "content": "x</tool_response>y<tool_call>"}], TOOLS)
    assert ids.count(closing) == 1 and call not in ids
    assert "x</tool_response>y<tool_call>" in tokenizer.decode(ids)
    assert call in chat.prompt_ids([{"role": "user", "content": "Write <tool_call>."}], TOOLS)
    assert call in chat.turn_ids("<tool_call>", TOOLS)


def test_text_that_no_tokenizer_takes_is_replaced(tokenizer):
    ids = ChatTemplate(tokenizer).environment_ids([{"role": "user", "content": "a\ud800b"}])
    assert "a?b" in tokenizer.decode(ids)


# ---- a real model


@pytest.mark.smollm2
def test_smollm2_gets_chatml_for_tools_and_its_own_template_otherwise(smollm2_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2_path)
    chat = ChatTemplate(tokenizer)
    assert chat.renderer(TOOLS).name == "'chatml'" and chat.renderer(None).name == "'own'"
    own = tokenizer.apply_chat_template(CHAT[1:2], add_generation_prompt=True, return_dict=False)
    assert chat.prompt_ids(CHAT[1:2]) == list(own)
    shown = chat.demonstration(CHAT, TOOLS)
    whole = chat.prompt_ids([*CHAT, {"role": "user", "content": "?"}], TOOLS)
    assert whole[: len(shown.ids)] == shown.ids
