import pytest
from toolcredit.envs.sgls.parsing import HERMES, RawCall
from toolcredit.envs.sgls.schemas import SchemaError
from toolcredit.envs.sgls.tasks import ToolSpec
from toolcredit.envs.sgls.validation import Toolbox
from toolcredit.errors import ConfigError, UsageError

BOOK = ToolSpec(
    "book_table",
    "Book a table.",
    {
        "type": "object",
        "properties": {
            "restaurant": {"type": "string", "minLength": 1, "description": "Name of the restaurant."},
            "guests": {"type": "integer", "minimum": 1, "maximum": 12},
            "date": {"type": "string", "format": "date"},
            "area": {"enum": ["inside", "terrace"]},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "deposit": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "dishes": {
                "type": "array",
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "qty": {"type": "integer"}},
                    "required": ["name", "qty"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["restaurant", "guests"],
        "additionalProperties": False,
    },
)
WEATHER = ToolSpec(
    "get_weather", "Weather.", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)
TOOLS = Toolbox([BOOK, WEATHER])


def book(**arguments):
    return TOOLS.check(RawCall("book_table", {"restaurant": "Roma", "guests": 2, **arguments}))


def test_a_good_call_passes_unchanged():
    checked = book(date="2025-03-01", area="terrace", dishes=[{"name": "soup", "qty": 1}], deposit=None)
    assert checked.problems == () and checked.changes == ()
    assert checked.arguments["dishes"] == [{"name": "soup", "qty": 1}]


@pytest.mark.parametrize(
    ("arguments", "code", "path", "message"),
    [
        ({"guests": "2"}, "type", "guests", 'expected an integer, got the string "2"'),
        ({"guests": True}, "type", "guests", "expected an integer, got the boolean true"),
        ({"guests": 2.5}, "type", "guests", "expected an integer, got the number 2.5"),
        ({"guests": None}, "type", "guests", "expected an integer, got null"),
        ({"guests": 0}, "range", "guests", "expected a number of at least 1, got 0"),
        ({"guests": 13}, "range", "guests", "expected a number of at most 12, got 13"),
        ({"restaurant": ""}, "size", "restaurant", "expected at least 1 characters, got 0"),
        ({"area": "terace"}, "enum", "area",
         'expected one of "inside", "terrace", got "terace"; did you mean "terrace"?'),
        ({"date": "1 March"}, "format", "date", 'expected a date YYYY-MM-DD, got "1 March"'),
        ({"code": "abc"}, "pattern", "code", 'expected text that matches "^[A-Z]{3}$", got "abc"'),
        ({"guest": 2}, "extra", "", '"guest" is not a known name; did you mean "guests"?'),
        ({"deposit": "5"}, "anyOf", "deposit", "fits none of the 2 alternatives: "
         'expected a number, got the string "5"; or expected null, got the string "5"'),
        ({"dishes": [{"name": "a", "qty": "1"}]}, "type", "dishes[0].qty", 'expected an integer, got the string "1"'),
        ({"dishes": [{"name": "soup"}]}, "missing", "dishes[0]", '"qty" is required (an integer) and missing'),
        ({"dishes": {}}, "type", "dishes", "expected an array, got an object"),
        ({"dishes": [{"name": "a", "qty": 1}] * 4}, "size", "dishes", "expected at most 3 items, got 4"),
    ],
)  # fmt: skip
def test_each_problem_says_where_what_and_what_instead(arguments, code, path, message):
    (problem,) = book(**arguments).problems
    assert (problem.code, problem.path, problem.message) == (code, path, message)


def test_all_problems_of_a_call_are_told_at_once():
    checked = TOOLS.check(RawCall("book_table", {"guests": "two", "dat": "x", "area": "roof"}))
    assert {problem.code for problem in checked.problems} == {"missing", "type", "extra", "enum"}
    error = checked.error()["error"]
    assert error["code"] == "invalid_arguments"
    for word in ("book_table", "restaurant", "Name of the restaurant.", "guests", "dat", '"date"', "roof"):
        assert word in error["message"]


def test_an_unknown_tool_is_answered_with_the_nearest_names():
    for name in ("get_wether", "Get_Weather", "getWeather"):
        error = TOOLS.check(RawCall(name, {})).error()["error"]
        assert error["code"] == "unknown_tool"
        assert '"get_weather"' in error["message"]
    assert '"book_table", "get_weather"' in TOOLS.check(RawCall("zzz", {})).error()["error"]["message"]
    assert len(TOOLS.check(RawCall("x" * 10**6, {})).error()["error"]["message"]) < 300


@pytest.mark.parametrize("arguments", [[], "text", 5, None, True, [{"city": "Rome"}]])
def test_arguments_must_be_an_object(arguments):
    for strictness in ("strict", "paper"):
        checked = Toolbox([WEATHER], strictness).check(RawCall("get_weather", arguments))
        assert checked.problems[0].code == "not_object"
        assert "must be an object" in checked.error()["error"]["message"]


def test_double_encoded_arguments_are_named():
    checked = TOOLS.check(RawCall("get_weather", '{"city": "Rome"}'))
    assert "not a string that holds it" in checked.problems[0].message


def test_what_is_no_call_is_told_with_its_own_problem():
    turn = HERMES.parse("<tool_call>{oops</tool_call>")
    error = TOOLS.check(turn.calls[0]).error()["error"]
    assert error["code"] == "invalid_call" and "not JSON" in error["message"]


def test_integral_floats_are_handed_on_as_integers_and_recorded():
    checked = book(guests=2.0, dishes=[{"name": "soup", "qty": 3.0}])
    assert checked.arguments["guests"] == 2 and type(checked.arguments["guests"]) is int
    assert checked.changes == (
        {"path": "guests", "from": 2.0, "to": 2},
        {"path": "dishes[0].qty", "from": 3.0, "to": 3},
    )


def test_coercion_is_off_by_default_and_recorded_when_on():
    arguments = {"restaurant": 7, "guests": "2", "deposit": "12.5", "dishes": [{"name": "x", "qty": "1"}]}
    assert len(book(**arguments).problems) == 4
    checked = Toolbox([BOOK], coerce=True).check(RawCall("book_table", dict(arguments)))
    assert checked.problems == ()
    assert checked.arguments == {"restaurant": "7", "guests": 2, "deposit": 12.5, "dishes": [{"name": "x", "qty": 1}]}
    assert [change["path"] for change in checked.changes] == ["restaurant", "guests", "deposit", "dishes[0].qty"]


@pytest.mark.parametrize("value", ["two", "", "2.5", "NaN", "1e999", "[2]", "true"])
def test_coercion_does_not_guess(value):
    assert Toolbox([BOOK], coerce=True).check(RawCall("book_table", {"restaurant": "R", "guests": value})).problems


def test_paper_strictness_makes_the_published_checks_only():
    paper = Toolbox([BOOK], "paper")
    assert paper.check(RawCall("book_table", {"restaurant": 7, "guests": "many", "x": None})).problems == ()
    assert [p.code for p in paper.check(RawCall("book_table", {"guests": 1})).problems] == ["missing"]
    assert paper.check(RawCall("nope", {})).problems[0].code == "unknown_tool"


def test_tools_are_shown_in_openai_form_as_fresh_copies():
    shown = TOOLS.openai()
    assert [tool["function"]["name"] for tool in shown] == ["book_table", "get_weather"]
    shown[0]["function"]["parameters"].clear()
    assert TOOLS.openai()[0]["function"]["parameters"] == BOOK.parameters


def test_misuse_is_refused():
    with pytest.raises(UsageError, match="two tools are named 'get_weather'"):
        Toolbox([WEATHER, WEATHER])
    with pytest.raises(ConfigError, match="strict, paper"):
        Toolbox([WEATHER], "lenient")
    with pytest.raises(SchemaError, match="tool 'bad': .*fetched"):
        Toolbox([ToolSpec("bad", "", {"$ref": "http://example.org"})]).check_schemas()
    with pytest.raises(SchemaError, match="tool 'bad'"):
        Toolbox([ToolSpec("bad", "", {}, response={"type": "strin"})]).check_schemas()
