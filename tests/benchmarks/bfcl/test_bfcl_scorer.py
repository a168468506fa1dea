"""Our own scorer: what is right, and for every kind of category what is not."""

import pytest
from toolcredit.benchmarks.bfcl.calls import Call, Reply
from toolcredit.benchmarks.bfcl.scorer import score_reply, standardised


def verdict(entry, *calls, prompting=False, malformed=None):
    return score_reply(entry, Reply(calls, malformed), prompting)


@pytest.fixture
def weather(bfcl_files):
    return bfcl_files.entry("simple_python", [bfcl_files.WEATHER], [bfcl_files.WEATHER_ANSWER])


@pytest.fixture
def value(bfcl_files):
    """Scores one value of one parameter of a type against its allowed values."""

    def score(given, options, kind, items=None, category="simple_python"):
        schema = {"type": kind, **({"items": {"type": items}} if items else {})}
        entry = bfcl_files.entry(category, [bfcl_files.doc("f", x=schema)], [{"f": {"x": options}}])
        return verdict(entry, Call("f", {"x": given})).valid

    return score


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"city": "Rome", "days": 3}, ""),
        ({"city": "ROMA", "days": 3, "units": "C"}, ""),
        ({"city": "Paris", "days": 3}, "wrong_value"),
        ({"city": "Rome", "days": 4}, "wrong_value"),
        ({"city": "Rome", "days": "3"}, "wrong_type"),
        ({"city": "Rome", "days": 3.0}, "wrong_type"),
        ({"city": "Rome", "days": True}, "wrong_type"),
        ({"city": "Rome", "days": None}, "wrong_type"),
        ({"city": ["Rome"], "days": 3}, "wrong_type"),
        ({"days": 3}, "missing_parameter"),
        ({"city": "Rome"}, "missing_parameter"),
        ({"city": "Rome", "days": 3, "units": "F"}, "wrong_value"),
        ({"city": "Rome", "days": 3, "country": "Italy"}, "unexpected_parameter"),
        ({}, "missing_parameter"),
    ],
)
def test_simple(weather, arguments, error):
    assert verdict(weather, Call("weather_get", arguments)).error == error


def test_the_offered_name_is_the_right_one(weather):
    right = {"city": "Rome", "days": 3}
    assert verdict(weather, Call("weather_get", right)).valid
    assert verdict(weather, Call("weather.get", right)).error == "wrong_name"
    assert verdict(weather, Call("weather.get", right), prompting=True).valid
    assert verdict(weather, Call("weather_get", right), prompting=True).error == "wrong_name"


def test_the_count_and_broken_calls(weather):
    right = Call("weather_get", {"city": "Rome", "days": 3})
    assert verdict(weather).error == verdict(weather, right, right).error == "wrong_count"
    assert verdict(weather, right, malformed="an argument has no name").error == "malformed"
    assert verdict(weather, malformed="not JSON").error == "malformed"


def test_multiple(bfcl_files):
    entry = bfcl_files.entry("multiple", [bfcl_files.TIME, bfcl_files.WEATHER], [bfcl_files.WEATHER_ANSWER])
    assert verdict(entry, Call("weather_get", {"city": "Rome", "days": 3})).valid
    assert verdict(entry, Call("clock_time", {"zone": "UTC"})).error == "wrong_name"


def test_parallel_calls_come_in_any_order_each_once(bfcl_files):
    answers = [bfcl_files.TIME_ANSWER, {"clock_time": {"zone": ["CET"]}}]
    entry = bfcl_files.entry("parallel", [bfcl_files.TIME], answers)
    utc, cet = Call("clock_time", {"zone": "UTC"}), Call("clock_time", {"zone": "CET"})
    assert verdict(entry, utc, cet).valid and verdict(entry, cet, utc).valid
    assert verdict(entry, utc, utc).error == "wrong_value"
    assert verdict(entry, utc).error == verdict(entry, utc, cet, cet).error == "wrong_count"


def test_parallel_calls_are_matched_in_the_best_way(bfcl_files):
    """The first answer also allows what the second one needs: taking the first fit would leave the second empty."""
    answers = [{"clock_time": {"zone": ["CET", "UTC"]}}, {"clock_time": {"zone": ["CET"]}}]
    entry = bfcl_files.entry("parallel", [bfcl_files.TIME], answers)
    assert verdict(entry, Call("clock_time", {"zone": "CET"}), Call("clock_time", {"zone": "UTC"})).valid


def test_parallel_multiple(bfcl_files):
    answers = [bfcl_files.TIME_ANSWER, bfcl_files.WEATHER_ANSWER]
    entry = bfcl_files.entry("parallel_multiple", [bfcl_files.WEATHER, bfcl_files.TIME], answers)
    time, weather = Call("clock_time", {"zone": "UTC"}), Call("weather_get", {"city": "Rome", "days": 3})
    assert verdict(entry, weather, time).valid
    missed = verdict(entry, time, Call("weather_get", {"city": "Oslo", "days": 3}))
    assert missed.error == "wrong_value" and "Oslo" in missed.detail


@pytest.mark.parametrize("category", ["irrelevance", "live_irrelevance"])
def test_irrelevance_is_not_credited_for_broken_calls(bfcl_files, category):
    entry = bfcl_files.entry(category, [bfcl_files.TIME])
    assert verdict(entry).valid
    assert verdict(entry, Call("clock_time", {"zone": "UTC"})).error == "called"
    assert verdict(entry, Call("anything")).error == "called"
    assert verdict(entry, malformed="not JSON").error == "malformed"


def test_relevance_wants_a_call(bfcl_files):
    entry = bfcl_files.entry("live_relevance", [bfcl_files.TIME])
    assert verdict(entry, Call("clock_time")).valid
    assert verdict(entry).error == "not_called"
    assert verdict(entry, malformed="not JSON").error == "malformed"


def test_strings_are_compared_without_case_blanks_and_signs():
    assert standardised("April 1, 2024") == standardised("april 1 2024") == "april12024"
    assert standardised("it's_a-b/c.d*e^f") == 'it"sabcdef'


@pytest.mark.parametrize(
    ("given", "options", "kind", "items", "right"),
    [
        (3, [3.0], "float", None, True),
        (3.0, [3], "integer", None, False),
        (True, [1.0], "float", None, False),
        (1, [True], "boolean", None, False),
        ("true", [True], "boolean", None, False),
        ([1, 2], [[1.0, 2.0]], "array", "float", True),  # the official checker wants floats inside arrays
        ([1.0, 2.0], [[1, 2]], "array", "integer", False),
        ([True, 2], [[1, 2]], "array", "integer", False),
        ([1, 2, 3], [[1, 2]], "array", "integer", False),
        ([2, 1], [[1, 2]], "array", "integer", False),
        (["A b"], [["a-b"]], "array", "string", True),
        ((1, 2), [[1, 2]], "tuple", "integer", True),
        ((1, 2), [[1, 2]], "array", "integer", False),
        ([], [["x"], ""], "array", "string", True),
        ([], [["x"]], "array", "string", False),
        (None, [None], "string", None, True),
        (None, ["a"], "string", None, False),
        ("user_id", ["user_id"], "integer", None, True),  # a variable of the user
        ("USER_ID", ["user_id"], "integer", None, False),
        ([[1, 2]], [[[1, 2]]], "array", "array", True),
    ],
)
def test_python_values(value, given, options, kind, items, right):
    assert value(given, options, kind, items) is right


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"a": "X", "n": 1}, True),
        ({"a": "x", "n": 1.0}, True),
        ({"a": "x"}, True),
        ({"n": 1}, False),
        ({"a": "x", "n": 2}, False),
        ({"a": "x", "n": True}, False),
        ({"a": "x", "z": 1}, False),
        ("x", False),
    ],
)
def test_dictionaries_have_allowed_values_for_each_field(value, given, right):
    assert value(given, [{"a": ["x"], "n": [1, ""]}], "dict") is right
    if isinstance(given, dict):
        assert value([given], [[{"a": ["x"], "n": [1, ""]}]], "array", "dict") is right
        assert not value([given, given], [[{"a": ["x"], "n": [1, ""]}]], "array", "dict")


@pytest.mark.parametrize(
    ("given", "options", "kind", "items", "right"),
    [
        ("5", [5], "integer", None, True),
        (5, [5], "integer", None, False),  # values are Java source in strings
        ("5", [5], "long", None, False),
        ("5L", [5], "long", None, True),
        ("TYPE_SCROLL", ["TYPE_SCROLL"], "integer", None, True),
        ('new String[]{"a", "b"}', [["a", "b"]], "Array", "String", True),
        ('new String[]{"a"}', [["a", "b"]], "Array", "String", False),
        ('new HashMap<String, Object>() {{ put("k", "v"); }}', [{"k": ["v"]}], "HashMap", None, True),
        ('new HashMap<String, Object>() {{ put("k", "w"); }}', [{"k": ["v"]}], "HashMap", None, False),
        ("20.5", [20.5, "20.5"], "any", None, True),
    ],
)
def test_java_values(value, given, options, kind, items, right):
    assert value(given, options, kind, items, "simple_java") is right


def test_javascript_values(value):
    assert value("[60, 30]", [[60, 30]], "array", "float", "simple_javascript")
    assert value('{a: "x"}', [{"a": ["x"]}], "dict", None, "simple_javascript")
    assert not value({"a": "x"}, [{"a": ["x"]}], "dict", None, "simple_javascript")


def test_a_ground_truth_that_is_not_offered_cannot_be_met(bfcl_files):
    entry = bfcl_files.entry("multiple", [bfcl_files.TIME, bfcl_files.WEATHER], [{"other": {}}])
    assert verdict(entry, Call("other")).error == "wrong_name"
