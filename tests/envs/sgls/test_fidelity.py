import json

import pytest
from toolcredit.envs.sgls.env import SGLSToolCallingEnv
from toolcredit.envs.sgls.fidelity import MEASURES, Recording, compare, is_refusal, measure, recording_of
from toolcredit.envs.sgls.mock_embedded import EmbeddedMock
from toolcredit.envs.sgls.mocks import make_mock
from toolcredit.envs.sgls.parsing import HERMES
from toolcredit.envs.sgls.tasks import ToolSpec
from toolcredit.errors import EndpointError

RESPONSE = {"type": "object", "properties": {"metres": {"type": "number"}}, "required": ["metres"]}
TIDE = ToolSpec("tide", "The tide.", {"type": "object", "properties": {"harbour": {"type": "string"}}}, RESPONSE)
FREE = ToolSpec("free", "Anything.", {"type": "object"})


def measures(real, simulated, spec=FREE):
    return dict(compare(spec, real, simulated).measures)


def episode(*pairs):
    messages = []
    for arguments, answer in pairs:
        messages.append({"role": "tool_call", "content": json.dumps({"name": "tide", "arguments": arguments})})
        messages.append({"role": "tool_response", "content": json.dumps(answer)})
    return Recording(messages, [TIDE])


class Scripted:
    live, stateful, identity = True, False, {"mock": "scripted"}

    def __init__(self, *answers):
        self.answers, self.pasts = list(answers), []

    def start(self, scene):
        return self

    def respond(self, calls, past):
        self.pasts.append(past)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]


# --- one pair of answers


def test_a_perfect_copy_measures_1():
    answer = {"metres": 1.5, "harbours": [{"name": "Orsk", "open": True}, {"name": "Vell", "open": None}]}
    assert measures(answer, json.loads(json.dumps(answer)), TIDE) == dict.fromkeys(MEASURES, 1.0)


@pytest.mark.parametrize(
    ("real", "simulated", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}, {"key_overlap": 1 / 3, "value_similarity": 1.0, "type_agreement": 1.0}),
        ({"a": 4}, {"a": 1}, {"key_overlap": 1.0, "value_similarity": 0.25}),
        ({"a": 4}, {"a": -4}, {"value_similarity": 0.0, "type_agreement": 1.0}),
        ({"a": 4}, {"a": "4"}, {"value_similarity": 0.0, "type_agreement": 0.0}),
        ({"a": 1}, {"a": True}, {"value_similarity": 0.0, "type_agreement": 0.0}),
        ({"a": "abcd"}, {"a": "abxy"}, {"value_similarity": 0.5}),
        ({"a": [1, 2, 3]}, {"a": [1]}, {"key_overlap": 1.0, "value_similarity": 1.0}),
        ({"a": [{"b": 1}]}, {"a": []}, {"key_overlap": 1 / 3}),
        ("clear sky", "clear sky", {"key_overlap": None, "value_similarity": 1.0, "length_ratio": 1.0}),
        ("clear", {"sky": "clear"}, {"key_overlap": None, "type_agreement": 0.0, "value_similarity": 0.0}),
        ([1], [1], {"key_overlap": 1.0}),
        ({}, {"a": 1}, {"key_overlap": 0.0, "value_similarity": 0.0}),
    ],
)
def test_what_each_measure_sees(real, simulated, expected):
    found = measures(real, simulated)
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["schema_valid"] is None and found["error_agreement"] == 1.0


def test_lengths_are_compared_as_json():
    assert measures("a" * 18, "a" * 8)["length_ratio"] == 0.5


def test_refusals_are_compared_by_being_refusals_only():
    found = measures({"error": {"code": "x", "message": "y"}}, "Error executing tool tide: no such harbour")
    assert found["error_agreement"] == 1.0
    assert all(found[name] is None for name in MEASURES[2:])
    assert measures({"metres": 1}, {"error": {"code": "x"}})["error_agreement"] == 0.0


def test_what_counts_as_a_refusal():
    refusals = (
        "Error: no",
        "error executing tool",
        "Traceback (most recent call last)",
        {"error": 1},
        {"isError": True},
    )
    assert all(map(is_refusal, refusals))
    assert not any(map(is_refusal, ("Terrors of the deep", "", {"errors": 0}, [], {"isError": False}, 0, None)))


def test_the_response_schema_is_checked():
    assert measures({"metres": 1}, {"metres": "one"}, TIDE)["schema_valid"] == 0.0
    assert measures({"metres": 1}, {"metres": 2}, TIDE)["schema_valid"] == 1.0


# --- whole recordings


def test_the_summary_has_means_by_tool_and_overall():
    mock = Scripted({"metres": 1}, {"metres": 1}, {"error": {"code": "x", "message": "y"}})
    recorded = episode(
        ({"harbour": "a"}, {"metres": 1}), ({"harbour": "b"}, {"metres": 2}), ({"harbour": "c"}, {"metres": 3})
    )
    overall = measure(mock, [recorded]).summary()["overall"]
    assert overall["calls"] == 3 and overall["failed"] == 0
    assert overall["value_similarity"] == pytest.approx(0.75)
    assert (overall["real_error_rate"], overall["mock_error_rate"]) == (0.0, pytest.approx(1 / 3))
    assert overall["schema_valid"] == pytest.approx(2 / 3)
    assert overall["error_agreement"] == pytest.approx(2 / 3)


def test_the_mock_is_told_the_real_past():
    mock = Scripted({"metres": 7}, {"metres": 8})
    measure(mock, [episode(({"harbour": "a"}, {"metres": 1}), ({"harbour": "b"}, {"metres": 2}))])
    assert [len(past) for past in mock.pasts] == [0, 1] and mock.pasts[1][0][1] == {"metres": 1}


def test_failures_are_listed_and_enter_no_mean():
    mock = Scripted(EndpointError("down"), {"metres": 1})
    found = measure(mock, [episode(({"harbour": "a"}, {"metres": 1}), ({"harbour": "b"}, {"metres": 1}))])
    summary = found.summary()
    assert summary["overall"]["failed"] == 1 and summary["overall"]["value_similarity"] == 1.0
    assert summary["failures"] == [{"tool": "tide", "failure": "down"}]
    assert json.loads(json.dumps(summary)) == summary


def test_calls_that_cannot_be_put_are_listed():
    messages = [
        {"role": "tool_call", "content": '{"name": "swim", "arguments": {}}'},
        {"role": "tool_response", "content": "x"},
        {"role": "tool_response", "content": "y"},
    ]
    found = measure(Scripted(), [Recording(messages, [TIDE])])
    assert found.unusable == (
        "recording 0: swim is not among its tools",
        "recording 0: an answer without a call",
    )
    assert found.summary()["overall"]["real_error_rate"] is None


def test_a_model_as_mock_is_measured_over_http(chat_server, fake_chat):
    chat_server.script(fake_chat.reply('<tool_response>{"metres": 2}</tool_response>'), fake_chat.reply("no idea"))
    mock = make_mock({"name": "chat", "model": "m", "base_url": chat_server.url, "asks": 1, "max_retries": 0})
    summary = measure(mock, [episode(({"harbour": "a"}, {"metres": 1}), ({"harbour": "b"}, {"metres": 1}))]).summary()
    assert summary["overall"]["failed"] == 1 and summary["overall"]["value_similarity"] == 0.5
    assert "no valid answer" in summary["failures"][0]["failure"]


def test_the_embedded_mock_copies_its_own_episodes_perfectly():
    env = SGLSToolCallingEnv(split="dev", scorer=None)
    recordings = []
    for task_id in env.task_ids[:60]:
        env.reset(seed=0, options={"task_id": task_id})
        for step in env.task.gold.steps:
            env.step(HERMES.render(step))
        recordings.append(recording_of(env.transcript))
    overall = measure(EmbeddedMock(), recordings).summary()["overall"]
    assert overall["calls"] > 60 and overall["failed"] == 0
    assert all(overall[name] == 1.0 for name in MEASURES)
    assert overall["real_error_rate"] == overall["mock_error_rate"] > 0
