"""BFCL's function documentation as OpenAI tools, and as the system prompt of the prompting mode.

The documentation uses type names of its own (`dict`, `float`, `tuple`, `any`, Java's and JavaScript's types) and dotted
function names. What comes out is, character for character, what the official harness sends for the same entry, so that
a model gives the same answers to both; only the `response` documentation of the simulated APIs is left out, since it is
no part of the OpenAI format. Types are translated at every depth, so that every tool is valid JSON Schema.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from .categories import Language
from .data import Doc

_TYPES = {
    "integer": "integer",
    "long": "integer",
    "short": "integer",
    "byte": "integer",
    "Bigint": "integer",
    "number": "number",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "Queue": "array",
    "Stack": "array",
    "dict": "object",
    "object": "object",
    "HashMap": "object",
    "Hashtable": "object",
}
_SYNTAX = {"python": "Python 3", "java": "Java 8 SDK", "javascript": "JavaScript"}
_LANGUAGE = {"java": "Java", "javascript": "JavaScript"}

# The prompts are BFCL's (Apache-2.0), unchanged.
_TASK = (
    "You are given a question and a set of possible functions. Based on the question, you will need to make one or more"
    " function/tool calls to achieve the purpose."
)
_NONE = (
    "If none of the functions can be used, point it out. If the given question lacks the parameters required by the"
    " function, also point it out."
)
_FORMAT = (
    "You should only return the function calls in your response.\n\n"
    "If you decide to invoke any of the function(s), you MUST put it in the format of [func_name1(params_name1="
    "params_value1, params_name2=params_value2...), func_name2(params)]"
)
_ONLY = "You SHOULD NOT include any other text in the response."
_TURNS = (
    "At each turn, you should try your best to complete the tasks requested by the user within the current turn."
    " Continue to output functions to call until you have fulfilled the user's request to the best of your ability."
    " Once you have no more functions to call, the system will consider the current turn complete and proceed to the"
    " next turn or task."
)
_PROMPT_V4 = (
    f"You are an expert in composing functions.{_TASK} {_NONE}\n\n{_FORMAT}.  {_ONLY}\n\n{_TURNS}\n\n"
    "Here is a list of functions in json format that you can invoke.\n"
)
_PROMPT_V3 = (
    f"You are an expert in composing functions. {_TASK}\n{_NONE}\n{_FORMAT}\n{_ONLY}\n\n{_TURNS}\n\n"
    "Here is a list of functions in JSON format that you can invoke.\n"
)
MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"


def offered_name(name: str) -> str:
    """A function's name as OpenAI endpoints take it: they refuse dots."""
    return name.replace(".", "_")


def openai_tools(functions: Sequence[Doc], language: Language = "python") -> list[dict[str, Any]]:
    """The functions in OpenAI's `tools` format.

    Args:
        functions: documentation as in the data; not changed.
        language: of the functions; the values of Java's and JavaScript's parameters are asked for as strings.
    """
    return [
        {
            "type": "function",
            "function": {
                "name": offered_name(doc["name"]),
                "description": doc["description"],
                "parameters": _object_schema(doc["parameters"]),
            },
        }
        for doc in with_hints(functions, language)
    ]


def system_prompt(functions: Sequence[Doc], language: Language = "python", version: str = "v4") -> str:
    """The system prompt of the prompting mode: the task, the answer's format, and the functions."""
    hinted = with_hints(functions, language)
    if version == "v3":
        return f"{_PROMPT_V3}{hinted}\n\n"
    return f"{_PROMPT_V4}{json.dumps(hinted, indent=4)}\n"


def with_system_prompt(turn: Sequence[dict[str, str]], prompt: str) -> list[dict[str, str]]:
    """The messages of a first turn after `prompt`; a system message of the entry's own is appended to it."""
    messages = [dict(message) for message in turn]
    if messages and messages[0]["role"] == "system":
        messages[0]["content"] = f"{prompt}\n\n{messages[0]['content']}"
        return messages
    return [{"role": "system", "content": prompt}, *messages]


def more_functions(functions: Sequence[Doc], prompting: bool) -> dict[str, str]:
    """The user message of a turn in which withheld functions are added."""
    text = f"{list(functions)}\n{MORE_FUNCTIONS}" if prompting else MORE_FUNCTIONS
    return {"role": "user", "content": text}


def with_hints(functions: Sequence[Doc], language: Language) -> list[Doc]:
    """Copies of the documentation that say the language, and that Java's and JavaScript's values go into strings."""
    hinted = copy.deepcopy(list(functions))
    for doc in hinted:
        doc["description"] += f" Note that the provided function is in {_SYNTAX[language]} syntax."
        if language != "python":
            for schema in doc["parameters"]["properties"].values():
                _ask_for_string(schema, _LANGUAGE[language])
    return hinted


def _ask_for_string(schema: dict[str, Any], language: str) -> None:
    kind, said = schema.get("type", "any"), schema.get("description", "")
    if kind == "any":
        said += f" This parameter can be of any type of {language} object in string representation."
    else:
        said += f" This is {language} {kind} type parameter in string representation."
    if kind in ("Array", "ArrayList", "array") and "items" in schema:
        inner = schema.pop("items")["type"]
        said += f" The list elements are of type {inner}; they are not in string representation."
    if kind == "dict" and "properties" in schema:
        entries = json.dumps(schema.pop("properties"))
        said += f" The dictionary entries have the following schema; they are not in string representation. {entries}"
    schema["description"], schema["type"] = said, "string"


def _object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    properties = {name: _property(schema) for name, schema in parameters["properties"].items()}
    return parameters | {"type": "object", "properties": properties}


def _property(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a named value; what a model must know of a float is said in words too."""
    if schema.get("type") != "float":
        return _schema(schema)
    said = f"{schema.get('description', '')} This is a float type value."
    return _schema(schema | {"format": "float", "description": said})


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    converted = schema | {"type": _TYPES.get(schema.get("type", ""), "string")}
    if isinstance(schema.get("properties"), dict):
        converted["properties"] = {name: _property(inner) for name, inner in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            converted[key] = _schema(schema[key])
    return converted
