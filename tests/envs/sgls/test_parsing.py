import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcredit.envs.sgls.parsers import make_parser, parser_names
from toolcredit.envs.sgls.parsing import HERMES, LEVELS, call_id, from_openai, repair, to_openai
from toolcredit.envs.sgls.tasks import Call
from toolcredit.errors import UnknownNameError

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
TAGGED = TEXT | st.sampled_from(
    ["</tool_call>", "<tool_call>", "<think>", "[TOOL_CALLS]", "<|python_tag|>", 'it\'s "x"\\']
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TAGGED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TAGGED, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True).filter(
    lambda name: name.lower() not in ("true", "false", "null", "none")
)
CALLS = st.lists(st.builds(Call, NAMES, st.dictionaries(TAGGED, VALUES, max_size=3)), min_size=1, max_size=4)


def one(text, **arguments):
    calls = HERMES.parse(text, **arguments).calls
    assert len(calls) == 1
    return calls[0]


@pytest.mark.parametrize("name", parser_names())
@given(calls=CALLS)
def test_every_syntax_reads_back_strictly_what_it_wrote(name, calls):
    parser = make_parser(name)
    turn = parser.parse(parser.render(calls), "strict")
    assert [(call.name, call.arguments, call.problem) for call in turn.calls] == [
        (call.name, call.arguments, None) for call in calls
    ]
    assert turn.level == "strict"
    assert turn.reply == ""


@pytest.mark.parametrize("name", ["hermes", "llama3", "mistral"])
def test_reasoning_and_reply_are_kept_apart_from_calls(name):
    parser = make_parser(name)
    turn = parser.parse(parser.render([Call("a")], "One moment.", "which tool?"))
    assert (turn.reasoning, turn.reply, turn.calls[0].name) == ("which tool?", "One moment.", "a")


@pytest.mark.parametrize("name", parser_names())
@pytest.mark.parametrize(
    "text", ["It is 21 °C in Rome.", "", "[1] says so", "{curly} prose", 'say "hi"', "a; b", "[a b](c)"]
)
def test_prose_is_a_reply_in_every_syntax_and_at_every_level(name, text):
    for level in LEVELS:
        turn = make_parser(name).parse(text, level)
        assert (turn.blocks, turn.reply) == ((), text)


@pytest.mark.parametrize("name", parser_names())
@given(text=st.text(alphabet="<>/[]{}():;,'\"\\=abt_ \n1.-`|#", max_size=80) | st.text(max_size=40))
def test_no_text_raises(name, text):
    turn = make_parser(name).parse(text)
    for block in turn.blocks:
        assert block.calls
        for call in block.calls:
            assert call.problem or call.name


# --- Hermes


def test_blocks_hold_an_object_or_a_list_and_parameters_is_arguments():
    turn = HERMES.parse(
        '<tool_call>{"name": "a", "arguments": {"x": 1}}</tool_call>\n'
        '<tool_call>[{"name": "b", "parameters": {"y": 2}}, {"name": "c"}]</tool_call>'
    )
    assert [(call.name, call.arguments) for call in turn.calls] == [("a", {"x": 1}), ("b", {"y": 2}), ("c", {})]
    assert (turn.tags, len(turn.blocks), turn.level) == ((2, 2), 2, "strict")


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ('<tool_call>{"name": "a", "arguments": {"s": "x"}}</tool_call>', "strict"),
        ('<tool_call>\n```json\n{"name": "a", "arguments": {"s": "x"}}\n```\n</tool_call>', "fenced"),
        ('<tool_call>```\n{"name": "a", "arguments": {"s": "x"}}```</tool_call>', "fenced"),
        ('Sure:\n```json\n{"name": "a", "arguments": {"s": "x"}}\n```\n', "fenced"),
        ('```tool_call\n[{"name": "a", "parameters": {"s": "x"}}]\n```', "fenced"),
        ('<tool_call>{"name": "a", "arguments": {"s": "x",},}</tool_call>', "repaired"),
        ("<tool_call>{'name': 'a', 'arguments': {'s': 'x'}}</tool_call>", "repaired"),
        ('<tool_call>{"name": "a", "arguments": {"s": "x"}}', "repaired"),
        ("<tool_call>```json\n{'name': 'a', 'arguments': {'s': 'x'}}\n```</tool_call>", "repaired"),
    ],
)
def test_the_level_that_was_needed_is_recorded_and_can_be_refused(text, level):
    turn = HERMES.parse(text)
    assert turn.level == level
    assert [(call.name, call.arguments) for call in turn.calls] == [("a", {"s": "x"})]
    for allowed in LEVELS:
        good = [call for call in HERMES.parse(text, allowed).calls if call.problem is None]
        assert bool(good) == (LEVELS.index(allowed) >= LEVELS.index(level))


@pytest.mark.parametrize(
    ("inner", "value"),
    [
        ("{'s': True}", True),
        ("{'s': None}", None),
        ("{'s': [False,],}", [False]),
        (r"{'s': 'it\'s \"x\" and \u00e9'}", 'it\'s "x" and é'),
        ("{'s': \"it's\"}", "it's"),
        ("{'s': 'say \"hi\"'}", 'say "hi"'),
        ('{"s": "two\nlines\tand a tab"}', "two\nlines\tand a tab"),
        ('{"s": "True, None,}", }', "True, None,}"),
    ],
)
def test_repairs_change_notation_only(inner, value):
    call = one(f'<tool_call>{{"name": "a", "arguments": {inner}}}</tool_call>')
    assert call.arguments == {"s": value}


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("call get_weather for Rome", "not JSON"),
        ("", "not JSON"),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"name": "a", "arguments": {"x": 1, "x": 2}}', "occurs twice"),
        ('{"name": "a", "arguments": {"x": "open}}', "not JSON"),
        ('{"name": "a", "arguments": {"x": 1}', "not JSON"),
        ('{"name": "a"} and more', "extra text"),
        ('{"name": "a" "arguments": {}}', "not JSON"),
        ("[" * 5000, "nested deeper"),
        ("[]", "holds no call"),
        ("3", "expected an object"),
        ('{"tool": "a"}', "got no name"),
        ('{"name": 7}', "got the name 7"),
        ('{"name": ""}', "got the name"),
    ],
)
def test_what_is_no_call_is_an_error_that_says_why(block, reason):
    call = one(f"<tool_call>{block}</tool_call>")
    assert reason in call.problem


def test_a_bad_block_or_entry_leaves_the_others_alone():
    turn = HERMES.parse(
        '<tool_call>{"name": "a"}</tool_call><tool_call>{broken</tool_call>'
        '<tool_call>[{"name": "b"}, "c", {"name": "d"}]</tool_call>'
    )
    assert [call.name for call in turn.calls] == ["a", None, "b", None, "d"]
    assert [block.level for block in turn.blocks] == ["strict", None, "strict"]


def test_tags_inside_strings_are_text():
    call = one(
        '<tool_call>{"name": "a", "arguments": {"s": "</tool_call><tool_call>{\\"name\\": \\"b\\"}"}}</tool_call>'
    )
    assert call.arguments == {"s": '</tool_call><tool_call>{"name": "b"}'}


def test_a_call_inside_reasoning_is_not_made():
    for text in (
        '<think>maybe <tool_call>{"name": "a"}</tool_call></think>No.',
        '<thinking>maybe <tool_call>{"name": "a"}</tool_call></thinking>No.',
        'maybe <tool_call>{"name": "a"}</tool_call></think>No.',
    ):
        turn = HERMES.parse(text)
        assert (turn.calls, turn.tags, turn.reply) == ((), (0, 0), "No.")
        assert "maybe" in turn.reasoning
    assert HERMES.parse('<think>never closed <tool_call>{"name": "a"}</tool_call>').calls == ()


def test_unbalanced_tags_are_counted():
    assert HERMES.parse('<tool_call>{"name": "a"}</tool_call></tool_call>').tags == (1, 2)
    turn = HERMES.parse('<tool_call>{"name": "a"}<tool_call>{"name": "b"}</tool_call>')
    assert (turn.tags, [call.name for call in turn.calls], turn.level) == ((2, 1), ["a", "b"], "repaired")


def test_a_response_tag_of_the_agent_is_text():
    text = '<tool_response>{"temperature": 21}</tool_response> It is 21 degrees.'
    turn = HERMES.parse(text)
    assert (turn.calls, turn.reply) == ((), text)


def test_a_fence_that_holds_something_else_than_calls_is_part_of_the_reply():
    for body in (
        '{"name": "Rome"}',
        '{"name": "a", "arguments": {}, "note": 1}',
        "[]",
        "not json",
        '{"name": "a", "arguments": 1, ',
    ):
        text = f"Here:\n```json\n{body}\n```"
        assert HERMES.parse(text).reply == text


def test_double_encoded_arguments_stay_a_string():
    assert one('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>').arguments == '{"x": 1}'


@pytest.mark.parametrize(
    "unit",
    [
        "<tool_call>",
        '<tool_call>{"a":"',
        "<think>",
        "</think>",
        "</tool_call>",
        "```json\n",
        '\\"',
        "<tool_call>'",
        ",",
        "\t",
    ],
)
@pytest.mark.parametrize("prefix", ["", "<tool_call>{'"])
def test_reading_is_linear(unit, prefix):
    text = prefix + unit * (131_072 // len(unit))
    start = time.process_time()
    for name in parser_names():
        make_parser(name).parse(text)
    assert time.process_time() - start < 10  # quadratic reading takes minutes


@given(st.text(max_size=60))
def test_repairing_json_changes_nothing(text):
    import json

    assert json.loads(repair(json.dumps({"a": [text, True, None, 1.5e3]}))) == {"a": [text, True, None, 1500.0]}


# --- OpenAI form


@given(CALLS)
def test_structured_calls_survive_the_round_trip(calls):
    text = HERMES.render(calls, "Wait.")
    message = to_openai(text, turn=3)
    assert [tool_call["id"] for tool_call in message["tool_calls"]] == [call_id(3, i) for i in range(len(calls))]
    assert message["content"] == "Wait."
    again = HERMES.parse(from_openai(message), "strict")
    assert [(call.name, call.arguments) for call in again.calls] == [(call.name, call.arguments) for call in calls]


def test_a_plain_message_has_no_tool_calls():
    assert to_openai("<think>x</think>Hello.") == {"role": "assistant", "content": "Hello."}
    assert from_openai({"role": "assistant", "content": "Hello."}) == "Hello."
    assert from_openai({"role": "assistant", "content": None, "tool_calls": None}) == ""
    assert from_openai({"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}) == "Hello."


@pytest.mark.parametrize("arguments", ["{broken", "[]", '"text"', '{"x": NaN}', '{"x": 1, "x": 2}', "</tool_call>{}"])
def test_bad_structured_arguments_become_a_bad_call_not_an_exception(arguments):
    function = {"name": "a", "arguments": arguments}
    call = one(from_openai({"tool_calls": [{"id": "1", "type": "function", "function": function}]}))
    assert call.name == "a"
    assert not isinstance(call.arguments, dict)


def test_every_answered_entry_has_a_structured_call():
    message = to_openai('<tool_call>{"name": "a"}</tool_call><tool_call>broken</tool_call>')
    assert [c["function"]["name"] for c in message["tool_calls"]] == ["a", "invalid_call"]


# --- other families


def test_llama3_forms():
    parser = make_parser("llama3")
    for text in (
        '<|python_tag|>{"name": "a", "parameters": {"x": 1}}<|eom_id|>',
        '{"name": "a", "parameters": {"x": 1}}',
        '{"type": "function", "name": "a", "parameters": {"x": 1}}<|eot_id|>\n',
    ):
        turn = parser.parse(text)
        assert [(call.name, call.arguments) for call in turn.calls] == [("a", {"x": 1})]
    turn = parser.parse('ok <|python_tag|>{"name": "a"}; {"name": "b"}\n{oops')
    assert [call.name for call in turn.calls] == ["a", "b", None]
    assert turn.reply == "ok"
    assert parser.parse("{'name': 'a', 'parameters': {'x': True}}").level == "repaired"


def test_mistral_forms():
    parser = make_parser("mistral")
    for text in (
        '[TOOL_CALLS] [{"name": "a", "arguments": {"x": 1}}]</s>',
        '[TOOL_CALLS]a[ARGS]{"x": 1}',
        '[TOOL_CALLS]a{"x": 1}',
    ):
        turn = parser.parse(text)
        assert [(call.name, call.arguments, call.problem) for call in turn.calls] == [("a", {"x": 1}, None)]
    assert [call.name for call in parser.parse('[TOOL_CALLS]a{"x": 1}[TOOL_CALLS]b[ARGS]{}').calls] == ["a", "b"]
    assert parser.parse("[TOOL_CALLS] call a").calls[0].problem


def test_pythonic_forms():
    parser = make_parser("pythonic")
    turn = parser.parse("[weather.get(city='Rome', days=[1, -2.5, (3,)], o={'k': None},), now()]")
    assert [(call.name, call.arguments) for call in turn.calls] == [
        ("weather.get", {"city": "Rome", "days": [1, -2.5, [3]], "o": {"k": None}}),
        ("now", {}),
    ]
    assert parser.parse("[a(x=true)]").level == "repaired"
    assert parser.parse("[a(x=true)]", "fenced").calls[0].problem


@pytest.mark.parametrize(
    "text",
    [
        "[a(1)]", "[a(x=b)]", "[a(x=__import__('os'))]", "[a(x=1, x=2)]", "[a(x={'k': 1, 'k': 2})]", "[a(x=1e999)]",
        "[a(x=" + "9" * 500 + ")]", "[a(x=" + "[" * 9000, "[a(x=" + "-" * 9000 + "1)]", "[a(x=1+1)]", "[a()] more",
        "[a(x='open)]", "[a(**[1])]", "[a(x=1.2.3)]", "[a(){}]",
    ],
)  # fmt: skip
def test_pythonic_takes_literals_only(text):
    assert any(call.problem for call in make_parser("pythonic").parse(text).calls)


def test_an_unknown_syntax_is_named():
    with pytest.raises(UnknownNameError, match="hermes"):
        make_parser("hermess")
