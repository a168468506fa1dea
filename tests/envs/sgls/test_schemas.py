import math
import socket
import time

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toolcredit.envs.sgls.formats import FORMATS
from toolcredit.envs.sgls.schemas import CompiledSchema, SchemaError, compile_schema

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([0.5, 2.0, -1.0])
    | st.sampled_from(["", "a", "b", "ab", "a1"])
)
KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=6)
SMALL = st.integers(0, 3)


def _schemas(inner):
    keywords = {
        "type": st.sampled_from(
            ["string", "integer", "number", "boolean", "null", "array", "object", ["string", "null"]]
        ),
        "enum": st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr),
        "const": SCALARS,
        "minimum": st.integers(-3, 3),
        "exclusiveMaximum": st.integers(-3, 3),
        "multipleOf": st.sampled_from([1, 2, 3]),
        "minLength": SMALL,
        "maxLength": SMALL,
        "pattern": st.sampled_from(["^a", "b", "[0-9]"]),
        "minItems": SMALL,
        "maxItems": SMALL,
        "uniqueItems": st.booleans(),
        "items": inner,
        "contains": inner,
        "properties": st.dictionaries(KEYS, inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), inner, max_size=1),
        "additionalProperties": inner,
        "required": st.lists(KEYS, max_size=2, unique=True),
        "propertyNames": inner,
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }
    chosen = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))


SCHEMAS = st.recursive(st.booleans() | st.just({}), _schemas, max_leaves=5)


@given(SCHEMAS, VALUES)
def test_verdicts_equal_those_of_jsonschema(schema, value):
    reference = jsonschema.Draft202012Validator(schema)
    problems = compile_schema(schema).problems(value)
    assert bool(problems) != reference.is_valid(value)
    assert all(problem.message and problem.code != "None" for problem in problems)


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
                                   "https://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2019-09/schema",
                                   "https://json-schema.org/draft/2020-12/schema", None])  # fmt: skip
def test_one_rule_for_numbers_in_every_draft(draft):
    named = {"$schema": draft} if draft else {}
    integer, number = compile_schema({**named, "type": "integer"}), compile_schema({**named, "type": "number"})
    assert not integer.problems(2) and not integer.problems(2.0) and not number.problems(2.5)
    for value in (2.5, True, "2", None):
        assert integer.problems(value)
    for value in (True, "2"):
        assert number.problems(value)


def test_the_draft_is_the_one_the_schema_names():
    items = {"items": [{"type": "string"}], "additionalItems": False}
    seven = compile_schema({"$schema": "http://json-schema.org/draft-07/schema#", **items})
    assert seven.problems([1]) and seven.problems(["a", "b"])
    with pytest.raises(SchemaError, match="items"):
        compile_schema(items)  # 2020-12 has no array form of items
    with pytest.raises(SchemaError, match="unknown \\$schema"):
        compile_schema({"$schema": "http://json-schema.org/draft-99/schema#"})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "title": "Args", "properties": {"q": {"title": "Q", "type": "string"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False},
        {"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}}},
        {"type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}, "$defs": {"P": {"type": "string"}}},
        {"$id": "https://example.org/tool", "type": "object", "properties": {"a": {"$ref": "#/definitions/a"}},
         "definitions": {"a": {"enum": ["x"]}}},
        {"type": "object", "properties": {"node": {"$ref": "#/$defs/node"}},
         "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}}},
        {"type": "object", "properties": {"x": {"format": "made-up", "x-note": [1], "examples": ["a"]}}},
    ],
)  # fmt: skip
def test_raw_schemas_of_tool_servers_load(schema):
    assert compile_schema(schema).problems({}) == []


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (3, "must be an object"),
        ({"type": "strin"}, "not a valid JSON Schema at type"),
        ({"required": True}, "not a valid JSON Schema at required"),
        ({"properties": {"x": {"minimum": "1"}}}, "not a valid JSON Schema at properties.x.minimum"),
        ({"minimum": math.nan}, "cannot be used"),
        ({"$ref": "https://example.org/schema.json"}, "nothing is fetched"),
        ({"$ref": "other.json#/x"}, "nothing is fetched"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "points to nothing"),
        ({"$ref": "#anchor"}, "only JSON pointers"),
        ({"$ref": "#"}, "leads back to itself"),
        (
            {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
            "leads back to itself",
        ),
        ({"x": {"y": {"pattern": r"(a)\1"}}, "properties": {"p": {"$ref": "#/x/y"}}}, "linear time"),
        ({"patternProperties": {"(?=a)": {}}}, "linear time"),
        ({"properties": {"x": {"$id": "https://example.org/x"}}}, "\\$id below the root"),
        ({"$dynamicRef": "#x"}, "not supported"),
        ({"unevaluatedProperties": False}, "not supported"),
    ],
)
def test_schemas_that_are_broken_or_unsafe_are_refused_when_loaded(schema, reason):
    with pytest.raises(SchemaError, match=reason):
        compile_schema(schema)


def test_a_deep_schema_is_refused():
    schema: dict = {}
    for _ in range(5_000):
        schema = {"not": schema}
    with pytest.raises(SchemaError, match="deeper"):
        compile_schema(schema)


def test_an_unfolding_schema_is_refused():
    definitions: dict = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(30)}
    definitions["d30"] = {"type": "string"}
    with pytest.raises(SchemaError, match="unfolds"):
        compile_schema({"$ref": "#/$defs/d0", "$defs": definitions})


def test_a_long_chain_of_references_is_refused():
    definitions: dict = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(500)}
    definitions["d500"] = {}
    with pytest.raises(SchemaError, match="longer than"):
        compile_schema({"$ref": "#/$defs/d0", "$defs": definitions})


def test_nothing_is_fetched(monkeypatch):
    def refuse(*arguments, **named):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    for reference in (
        "http://example.org/a",
        "https://json-schema.org/draft/2020-12/schema#/$defs/x",
        "file:///a.json",
    ):
        with pytest.raises(SchemaError):
            compile_schema({"properties": {"a": {"$ref": reference}}})


def _nested(depth):
    value: object = 1
    for _ in range(depth):
        value = {"c": value}
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [{"properties": {"c": {"$ref": "#"}}, "required": ["z"]}] * 2}, _nested(50)),
        ({"allOf": [{"properties": {"c": {"$ref": "#"}}}] * 3}, _nested(50)),
        ({"items": {"enum": list(range(5_000))}}, [-1] * 20_000),
        ({"anyOf": [{"items": {"required": [f"k{i}" for i in range(5_000)]}}]}, [{}] * 20_000),
        ({"items": {"pattern": "^(a?){500}(a+)+$"}}, ["a" * 5_000 + "!"] * 10),
        ({"uniqueItems": True}, [1, "a"] * 30_000),
        (
            {"patternProperties": {"[^x]{1,900}y": {}}, "additionalProperties": False},
            {f"{i}" * 50: 1 for i in range(900)},
        ),
    ],
)
def test_a_costly_validation_is_given_up_soon(schema, value):
    compiled = compile_schema(schema)
    start = time.process_time()
    assert compiled.problems(value)
    assert time.process_time() - start < 5


def test_decimal_multiples_are_exact():
    cents = compile_schema({"multipleOf": 0.1})
    assert not cents.problems(0.3) and not cents.problems(1e300)
    assert cents.problems(0.35)
    assert not compile_schema({"multipleOf": 1e-300}).problems(1e308)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["2025-02-28"], ["2025-02-30", "20250228", "2025-2-8", "2025-02-28\n", "2025-W01-1", ""]),
        ("date-time", ["2025-02-28T16:00:00Z", "2025-02-28t16:00:00.5+01:00", "2025-02-28 16:00:00"],
         ["2025-02-28", "2025-02-28T25:00:00Z"]),
        ("time", ["16:00:00Z", "16:00:00"], ["16:00", "24:00:00", "4 pm"]),
        ("email", ["ada@example.org", "ada@localhost"], ["ada", "a b@example.org", "@example.org", "ada@.org"]),
        ("hostname", ["example.org", "a"], ["-a", "a..b", "a_b", "x" * 64]),
        ("ipv4", ["127.0.0.1"], ["256.0.0.1", "1.2.3", "::1"]),
        ("ipv6", ["::1"], ["127.0.0.1", "gg::"]),
        ("uri", ["https://example.org/a?b#c", "mailto:a@b"], ["example.org", "http://a b", ""]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567", "g23e4567-e89b-12d3-a456-426614174000"]),
    ],
)  # fmt: skip
def test_formats(name, good, bad):
    compiled = compile_schema({"format": name})
    for text in good:
        assert compiled.problems(text) == []
    for text in [*bad, "a" * 100_000]:
        assert [problem.code for problem in compiled.problems(text)] == ["format"]
    assert compiled.problems(5) == []  # a format is about strings
    assert name in FORMATS


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(text=st.text(alphabet="a1-:.@/T+Z ", max_size=40))
def test_formats_never_raise(name, text):
    assert FORMATS[name].accepts(text) in (True, False)


def test_compiled_schemas_are_remembered_and_do_not_change_with_the_callers_dict():
    schema = {"type": "object", "required": ["a"]}
    compiled = compile_schema(schema)
    assert compile_schema({"required": ["a"], "type": "object"}) is compiled
    schema["required"].append("b")
    assert len(compiled.problems({})) == 1
    assert len(compile_schema(schema).problems({})) == 2


@given(SCHEMAS, VALUES)
def test_threads_may_share_a_schema_since_problems_leaves_no_trace(schema, value):
    compiled = compile_schema(schema)
    assume(isinstance(compiled, CompiledSchema))
    assert compiled.problems(value) == compiled.problems(value)
