"""Replies as calls: tool calls, Python, Java and JavaScript text, broken attempts, prose, and hostile text."""

import time

import pytest
from toolcredit.benchmarks.bfcl.calls import Call, NotCalls
from toolcredit.benchmarks.bfcl.foreign import foreign_calls, foreign_value
from toolcredit.benchmarks.bfcl.pythonic import python_calls
from toolcredit.benchmarks.bfcl.replies import read_reply, to_message


def tool_call(name, arguments):
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}


def reply_to(*calls):
    return read_reply({"role": "assistant", "content": None, "tool_calls": list(calls)})


# ----------------------------------------------------------------------------------------------------- tool calls


def test_tool_calls_are_read_and_written():
    calls = [Call("f", {"a": 1, "b": [None, "é"]}), Call("g")]
    assert read_reply(to_message(calls)).calls == tuple(calls)
    assert read_reply(to_message([], "Sorry.")).calls == ()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{bad", "not JSON"),
        ("", "not JSON"),
        ('"{\\"a\\": 1}"', "must be an object"),
        ("[]", "must be an object"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        ('{"a": ' + "[" * 1000 + "]" * 1000 + "}", "nested deeper"),
        ('{"a": ' + "9" * 5000 + "}", "more than 100 digits"),
    ],
)
def test_broken_arguments_spoil_the_reply(arguments, problem):
    reply = reply_to(tool_call("g", "{}"), tool_call("f", arguments))
    assert reply.calls == () and problem in reply.malformed


def test_text_is_no_call_where_tool_calls_are_asked_for():
    reply = read_reply({"role": "assistant", "content": "[f(a=1)]"})
    assert reply.calls == () and reply.malformed is None


# --------------------------------------------------------------------------------------------------------- Python


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('[f(a=1, b="x, y", c=None, d=True)]', {"a": 1, "b": "x, y", "c": None, "d": True}),
        ("f(a=-1.5)", {"a": -1.5}),
        ("```\n[f(a=[1, (2, 3)], b={'k': [1]})]\n```", {"a": [1, (2, 3)], "b": {"k": [1]}}),
        ("f(a=user_id, b=true)", {"a": "user_id", "b": "true"}),
        ("f(a=5/100, b=2**10, c=7//2, d='x' + 'y')", {"a": 0.05, "b": 1024, "c": 3, "d": "xy"}),
        ("f(a=now(), b=rows[0], c=g(h=1))", {"a": "now()", "b": "rows[0]", "c": {"g": {"h": 1}}}),
        (r"f(a='\d')", {"a": r"\d"}),
    ],
)
def test_python_calls(text, arguments):
    assert python_calls(text).calls == (Call("f", arguments),)


def test_several_python_calls_and_none():
    assert [call.name for call in python_calls("[a.b.c(x=1), d()]").calls] == ["a.b.c", "d"]
    assert python_calls("f(a=1), g(b=2)").calls == (Call("f", {"a": 1}), Call("g", {"b": 2}))
    assert python_calls("[]").calls == python_calls("").calls == ()


@pytest.mark.parametrize("text", ["I cannot do it.", "[1, 2]", "[f]", "{'f': 1}", "```python\n[f(a=1)]\n```", "f(a=1"])
def test_text_without_calls(text):
    with pytest.raises(NotCalls):
        python_calls(text)


@pytest.mark.parametrize("text", ["[f(1)]", "[f(a=1, a=2)]", "[f(**{'a': 1})]"])
def test_arguments_without_a_name_of_their_own_spoil_the_call_but_it_was_a_call(text):
    reply = python_calls(text)
    assert reply.calls[0].name == "f" and reply.malformed


@pytest.mark.parametrize(
    "value",
    ["__import__('os').system('x')" + ".y", "lambda: 1", "1 if x else 2", "not True", "b'x'", "1j", "{1: 2}", "{1, 2}",
     "f'{x}'", "x.y", "[i for i in x]", "9**9**9", "2**99999", "1/0", "1e999", "'a' * 3"],
)  # fmt: skip
def test_only_literals_are_values(value):
    reply = python_calls(f"[f(a={value})]")
    assert reply.calls == () and reply.malformed


def test_nothing_is_evaluated(tmp_path):
    target = tmp_path / "made"
    for text in (f"[f(a=open({str(target)!r}, 'w'))]", f"[f(a=open(file={str(target)!r}, mode='w'))]"):
        python_calls(text)
        assert not target.exists()


def test_an_attempt_is_told_from_prose_by_the_functions_names():
    prose = read_reply({"content": "No function (of these) fits."}, prompting=True, names=["weather.get"])
    attempt = read_reply({"content": "I call weather.get(city='Rome')!"}, prompting=True, names=["weather.get"])
    assert prose.malformed is None and attempt.malformed


# --------------------------------------------------------------------------------------------- Java and JavaScript


def test_java_calls_keep_values_as_text():
    text = (
        '[A.b(s="x, y", n=5L, m=new HashMap<String, Object>() {{ put("a, b=c", 1); }}, l=new int[]{1, 2}, v=Foo.BAR)]'
    )
    assert foreign_calls(text).calls == (
        Call(
            "A.b",
            {
                "s": "x, y",
                "n": "5L",
                "m": 'new HashMap<String, Object>() {{ put("a, b=c", 1); }}',
                "l": "new int[]{1, 2}",
                "v": "Foo.BAR",
            },
        ),
    )


def test_javascript_calls_keep_values_as_text():
    text = "f(a=[1,2], b={x: 1, y: \"z\"}, c=(e) => e == 1, d='q', g=async function(x) { return 1; });"
    (call,) = foreign_calls(text).calls
    assert call.arguments["b"] == '{x: 1, y: "z"}' and call.arguments["c"] == "(e) => e == 1"
    assert call.arguments["d"] == "q" and call.arguments["g"].startswith("async function")
    assert foreign_calls("[]").calls == () and foreign_calls("[A.b()]").calls == (Call("A.b"),)


@pytest.mark.parametrize(
    "text",
    ["I cannot", "f(5)", "f(a=1, a=2)", "f(a=1", "f(a='x)", "f(a=)", "f(a=one two)", "f(a=user:x)", "f(a=1), g(b=2)",
     "f(a=SELECT * FROM t)", "f(a=x@y.z)"],
)  # fmt: skip
def test_text_that_is_no_java_or_javascript_call(text):
    with pytest.raises(NotCalls):
        foreign_calls(text)


@pytest.mark.parametrize(
    ("text", "kind", "inner", "value"),
    [
        ("5", "integer", None, 5),
        ("5L", "long", None, 5),
        ("5", "long", None, "5"),
        ("1.5f", "float", None, 1.5),
        ("1.5", "float", None, "1.5"),
        ("1e3", "double", None, 1000.0),
        ("true", "boolean", None, True),
        ("True", "boolean", None, "True"),
        ('new String[]{"a, b", "c"}', "Array", "String", ["a, b", "c"]),
        ("new String[]{a, c}", "Array", "String", ["a", "c"]),
        ("new int[] {1, 2}", "Array", "integer", [1, 2]),
        ('new ArrayList<>(Arrays.asList("a", 1, true))', "ArrayList", "any", ["a", 1, True]),
        ("new ArrayList<Long>() {{ add(1L); add(2L); }}", "ArrayList", "long", [1, 2]),
        ("new ArrayList<>()", "ArrayList", "String", []),
        ('new HashMap<String, Object>() {{ put("k", "v)"); put("n", 5); }}', "HashMap", None, {"k": "v)", "n": 5}),
        ("new HashMap<>()", "HashMap", None, {}),
        ("someMap", "HashMap", None, "someMap"),
    ],
)
def test_java_values(text, kind, inner, value):
    assert foreign_value(text, {"type": kind, "items": {"type": inner}}, "java") == value


@pytest.mark.parametrize(
    ("text", "kind", "inner", "value"),
    [
        ("'q'", "String", None, "q"),
        ("12n", "Bigint", None, 12),
        ("4", "float", None, 4.0),
        ("false", "Boolean", None, False),
        ('["x, y", "z"]', "array", "String", ["x, y", "z"]),
        ("new Array(1, 2)", "array", "integer", [1, 2]),
        ("[1, {a: [true]}]", "array", None, [1, {"a": [True]}]),
        ('{a: 1, "b": "c:d", e: f(1, 2)}', "dict", None, {"a": 1, "b": "c:d", "e": "f(1, 2)"}),
        ("config", "dict", None, "config"),
    ],
)
def test_javascript_values(text, kind, inner, value):
    assert foreign_value(text, {"type": kind, "items": {"type": inner}}, "javascript") == value


# -------------------------------------------------------------------------------------------------- hostile texts

N = 20_000
HOSTILE = [
    "[f(a=" + "-" * N + "1)]",
    "[f(a=" + "(" * N + ")",
    "[f(a=" + "[" * 150 + "]" * 150 + ")]",
    "[f(a=1" + "+1" * N + ")]",
    "[" + "a." * N + "f()]",
    "[f" + "()" * N + "]",
    "f(a=" + " " * N + ")",
    "f(a=" + "] " * N + ")",
    "f(a=" + "a " * N + ")",
    "f(a=" + '"a' * N + ")",
    "f(" + "a=1," * N,
    "f(a=" + "," * N + ")",
    "f(a=new HashMap<>() {" + "} " * N + ")",
    "\ud800",
    "x" * 300_000,
    "[f(a='" + "\\" * N + "')]",
]


@pytest.mark.parametrize("language", ["python", "java", "javascript"])
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12].encode("ascii", "replace").decode())
def test_hostile_text_is_refused_or_read_quickly(text, language):
    begin = time.process_time()
    read_reply({"content": text}, prompting=True, language=language, names=["f"])
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("new HashMap<>() {" + " " * N, "HashMap"),
        ("new HashMap<>() {" + "} " * N, "HashMap"),
        ("new HashMap<>() {{" + 'put("a",1);' * N + "}}", "HashMap"),
        ("new ArrayList<" + "<" * N, "ArrayList"),
        ("new int[]{" + "{" * N, "Array"),
        ("[" * N, "array"),
        ("[" + '"a' * N + "]", "array"),
        ("{a:" * N, "dict"),
        ("9" * N, "integer"),
    ],
    ids=lambda text: text[:20],
)
def test_hostile_values_are_read_quickly(text, kind):
    begin = time.process_time()
    for language in ("java", "javascript"):
        foreign_value(text, {"type": kind, "items": {"type": "integer"}}, language)
    assert time.process_time() - begin < 2
