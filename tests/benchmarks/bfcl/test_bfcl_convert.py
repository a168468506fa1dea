"""Function documentation as OpenAI tools and as a system prompt."""

import copy
import json

import jsonschema
import pytest
from toolcredit.benchmarks.bfcl.convert import (
    MORE_FUNCTIONS,
    more_functions,
    openai_tools,
    system_prompt,
    with_system_prompt,
)

JSON_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


def types(schema):
    yield schema["type"]
    for inner in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        yield from types(inner)


def test_types_are_translated_at_every_depth(bfcl_files):
    doc = bfcl_files.doc(
        "geo.area",
        ["shape"],
        shape={"type": "dict", "properties": {"sides": {"type": "tuple", "items": {"type": "float"}}}},
        scale="float",
        note="any",
        unknown="Set",
        rows={"type": "ArrayList", "items": {"type": "HashMap", "properties": {"n": {"type": "long"}}}},
    )
    before = copy.deepcopy(doc)
    (tool,) = openai_tools([doc])
    assert doc == before
    parameters = tool["function"]["parameters"]
    jsonschema.Draft202012Validator.check_schema(parameters)
    assert set(types(parameters)) <= JSON_TYPES
    assert parameters["properties"]["shape"]["properties"]["sides"]["items"]["type"] == "number"
    assert parameters["properties"]["scale"]["format"] == "float"
    assert parameters["properties"]["scale"]["description"].endswith("This is a float type value.")
    assert parameters["properties"]["rows"]["items"]["properties"]["n"]["type"] == "integer"
    assert parameters["required"] == ["shape"]


def test_a_missing_type_is_a_string(bfcl_files):
    doc = bfcl_files.doc("f", x={"description": "No type."})
    assert openai_tools([doc])[0]["function"]["parameters"]["properties"]["x"]["type"] == "string"


def test_dots_in_names_are_replaced(bfcl_files):
    (tool,) = openai_tools([bfcl_files.WEATHER])
    assert tool["function"]["name"] == "weather_get"


def test_the_documented_response_is_left_out(bfcl_files):
    assert "response" not in json.dumps(openai_tools(bfcl_files.FILES_DOCS))


@pytest.mark.parametrize(("language", "name"), [("java", "Java"), ("javascript", "JavaScript")])
def test_java_and_javascript_values_are_asked_for_as_strings(bfcl_files, language, name):
    array = {"type": "array" if language == "javascript" else "Array", "items": {"type": "String"}}
    doc = bfcl_files.doc("f", names=array, count="integer", thing="any")
    parameters = openai_tools([doc], language)[0]["function"]["parameters"]["properties"]
    assert {schema["type"] for schema in parameters.values()} == {"string"}
    assert "items" not in parameters["names"]
    assert "The list elements are of type String" in parameters["names"]["description"]
    assert f"This is {name} integer type parameter" in parameters["count"]["description"]
    assert f"any type of {name} object" in parameters["thing"]["description"]


def test_the_prompt_joins_an_entrys_own_system_message(bfcl_files):
    prompt = system_prompt([bfcl_files.WEATHER])
    assert '"name": "weather.get"' in prompt and "Python 3 syntax" in prompt
    user = {"role": "user", "content": "Hi"}
    assert with_system_prompt([user], "P") == [{"role": "system", "content": "P"}, user]
    own = {"role": "system", "content": "Be brief."}
    assert with_system_prompt([own, user], "P") == [{"role": "system", "content": "P\n\nBe brief."}, user]
    assert own["content"] == "Be brief."


def test_the_two_releases_write_functions_differently(bfcl_files):
    assert "{'name': 'weather.get'" in system_prompt([bfcl_files.WEATHER], version="v3")
    assert '    "name": "weather.get"' in system_prompt([bfcl_files.WEATHER], version="v4").replace("        ", "    ")


def test_added_functions_are_announced_by_the_fixed_message(bfcl_files):
    assert more_functions([bfcl_files.TIME], prompting=False) == {"role": "user", "content": MORE_FUNCTIONS}
    text = more_functions([bfcl_files.TIME], prompting=True)["content"]
    assert text.startswith("[{'name': 'clock_time'") and text.endswith(f"\n{MORE_FUNCTIONS}")
    assert MORE_FUNCTIONS == "I have updated some more functions you can choose from. What about now?"


@pytest.mark.bfcl
def test_every_released_tool_is_valid_json_schema(v4):
    count, seen = 0, set()
    for entry in v4.entries():
        tools = openai_tools(entry.functions, entry.kind.language)
        count += len(tools)
        assert len({tool["function"]["name"] for tool in tools}) == len(tools)
        for tool in tools:
            text = json.dumps(tool)
            if text not in seen:
                seen.add(text)
                parameters = tool["function"]["parameters"]
                jsonschema.Draft202012Validator.check_schema(parameters)
                assert set(types(parameters)) <= JSON_TYPES
    assert count == 30_704
