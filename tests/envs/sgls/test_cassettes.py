import json
import pickle
import subprocess
import sys

import pytest
from toolcredit.envs.sgls.cassettes import Cassette, CassetteMissError, open_cassette
from toolcredit.envs.sgls.mock_embedded import EmbeddedMock
from toolcredit.envs.sgls.mocks import Scene, make_mock
from toolcredit.envs.sgls.pack import SPECS, new_state
from toolcredit.envs.sgls.tasks import Call, ToolSpec
from toolcredit.envs.sgls.trajectories import read_trajectory, write_cassette
from toolcredit.errors import ConfigError

TOOL = ToolSpec(
    "count", "Counts.", {"type": "object", "properties": {"what": {"type": "string"}, "n": {"type": "integer"}}}
)
SCENE = Scene({"count": TOOL})
SHEEP, GOATS = Call("count", {"what": "sheep"}), Call("count", {"what": "goats"})


class Counter:
    """A live mock whose every answer is another number; remembers what it was asked."""

    live = True

    def __init__(self, stateful=False, model="m"):
        self.stateful, self.identity = stateful, {"mock": "counter", "model": model}
        self.asked = []

    def start(self, scene):
        return self

    def respond(self, calls, past):
        answers = []
        for call in calls:
            self.asked.append((call, len(past)))
            answers.append({"number": len(self.asked)})
        return answers


def behind(path, mode, inner=None, **arguments):
    from toolcredit.envs.sgls.cassettes import CassetteMock

    return CassetteMock(inner or Counter(**arguments), path, mode)


def test_what_is_recorded_is_replayed_without_the_mock(tmp_path):
    path = tmp_path / "a" / "cassette.jsonl"
    recorder = behind(path, "record")
    told = recorder.start(SCENE).respond([SHEEP, GOATS], ())
    inner = Counter()
    replayer = behind(path, "replay", inner)
    assert replayer.start(SCENE).respond([GOATS], ()) == told[1:]
    assert replayer.start(SCENE).respond([SHEEP], ()) == told[:1]
    assert inner.asked == [] and recorder.live and not replayer.live


def test_recording_takes_what_is_recorded_and_asks_for_the_rest(tmp_path):
    inner = Counter()
    mock = behind(tmp_path / "c.jsonl", "record", inner)
    first = mock.start(SCENE).respond([SHEEP], ())
    assert mock.start(SCENE).respond([SHEEP, GOATS], ()) == [*first, {"number": 2}]
    assert [call for call, _ in inner.asked] == [SHEEP, GOATS]


def test_repeated_calls_of_one_episode_keep_their_order(tmp_path):
    path = tmp_path / "c.jsonl"
    told = behind(path, "record").start(SCENE)
    answers = told.respond([SHEEP, SHEEP], ()) + told.respond([SHEEP], ())
    assert answers == [{"number": 1}, {"number": 2}, {"number": 3}]
    replayed = behind(path, "replay").start(SCENE)
    assert replayed.respond([SHEEP], ()) + replayed.respond([SHEEP, SHEEP], ()) == answers
    with pytest.raises(CassetteMissError, match="asked 4 times in one episode: it is recorded, but not as often"):
        replayed.respond([SHEEP], ())


def test_argument_order_and_number_notation_do_not_change_the_key(tmp_path):
    path = tmp_path / "c.jsonl"
    behind(path, "record").start(SCENE).respond([Call("count", {"what": "x", "n": 2})], ())
    assert behind(path, "replay").start(SCENE).respond([Call("count", {"n": 2.0, "what": "x"})], ())


def test_a_stateful_mock_is_keyed_by_the_episode_so_far(tmp_path):
    path = tmp_path / "c.jsonl"
    recorder = behind(path, "record", stateful=True).start(SCENE)
    answers = recorder.respond([SHEEP, GOATS], ()) + recorder.respond([SHEEP], ())
    assert len({json.dumps(answer) for answer in answers}) == 3
    replayed = behind(path, "replay", stateful=True).start(SCENE)
    assert replayed.respond([SHEEP, GOATS, SHEEP], ()) == answers
    with pytest.raises(CassetteMissError, match="another state"):
        behind(path, "replay", stateful=True).start(SCENE).respond([GOATS], ())
    with pytest.raises(CassetteMissError, match="another state"):
        behind(path, "replay", stateful=True).start(Scene({"count": TOOL}, {"seed": 1})).respond([SHEEP], ())


def test_a_live_stateful_mock_is_told_the_recorded_past(tmp_path):
    inner = Counter(stateful=True)
    mock = behind(tmp_path / "c.jsonl", "record", inner)
    mock.start(SCENE).respond([SHEEP], ())
    mock.start(SCENE).respond([SHEEP, GOATS], ())
    assert inner.asked == [(SHEEP, 0), (GOATS, 1)]


@pytest.mark.parametrize(
    ("call", "difference"),
    [
        (Call("count", {"what": "cows"}), 'what="sheep", here it is "cows"'),
        (Call("count", {}), 'the argument what="sheep", here it is missing'),
        (Call("count", {"what": "sheep", "n": 1}), "no argument n, here it is 1"),
    ],
)
def test_a_miss_shows_the_difference_to_the_nearest_record(tmp_path, call, difference):
    path = tmp_path / "c.jsonl"
    behind(path, "record").start(SCENE).respond([Call("count", {"what": "zebras", "n": 9}), SHEEP], ())
    with pytest.raises(CassetteMissError) as raised:
        behind(path, "replay").start(SCENE).respond([call], ())
    assert difference in str(raised.value) and "mode='record'" in str(raised.value)


def test_a_miss_tells_of_other_schemas_and_other_tools(tmp_path):
    path = tmp_path / "c.jsonl"
    behind(path, "record").start(SCENE).respond([SHEEP], ())
    changed = ToolSpec("count", "Counts.", {"type": "object"})
    with pytest.raises(CassetteMissError, match="another schema of the tool"):
        behind(path, "replay").start(Scene({"count": changed})).respond([SHEEP], ())
    with pytest.raises(CassetteMissError, match="nothing is recorded for this tool; recorded: count"):
        behind(path, "replay").start(Scene({"weigh": TOOL})).respond([Call("weigh", {})], ())


def test_a_cassette_belongs_to_one_mock(tmp_path):
    path = tmp_path / "c.jsonl"
    behind(path, "record").start(SCENE).respond([SHEEP], ())
    with pytest.raises(ConfigError, match="was recorded with .*use the same settings"):
        behind(path, "replay", model="other").start(SCENE)
    replay = make_mock({"name": "replay", "cassette": str(path)})  # whoever recorded it
    assert replay.start(SCENE).respond([SHEEP], ()) == [{"number": 1}]
    assert pickle.loads(pickle.dumps(replay)).start(SCENE).respond([SHEEP], ()) == [{"number": 1}]
    assert not replay.live


def test_files_that_are_no_cassettes_are_refused(tmp_path):
    for content, reason in (
        ("", "missing or empty"),
        ('{"a": 1}\n', "no 'identity'"),
        ('{"identity": {}}\n{"key": "x"}\n', "lacks key"),
        ("oops\n{}\n", "not JSON"),
    ):
        path = tmp_path / f"{len(content)}.jsonl"
        path.write_text(content)
        with pytest.raises(ConfigError, match=reason):
            Cassette(path)
    with pytest.raises(ConfigError, match="missing or empty"):
        make_mock({"name": "replay", "cassette": str(tmp_path / "none.jsonl")})


def test_a_torn_last_line_is_recorded_again(tmp_path):
    path = tmp_path / "c.jsonl"
    answers = behind(path, "record").start(SCENE).respond([SHEEP, GOATS], ())
    path.write_bytes(path.read_bytes()[:-9])
    again = behind(path, "record").start(SCENE).respond([SHEEP, GOATS], ())
    assert again[0] == answers[0]
    assert behind(path, "replay").start(SCENE).respond([SHEEP, GOATS], ()) == again


def test_environments_of_a_process_share_what_they_record(tmp_path):
    path = tmp_path / "c.jsonl"
    one, two = behind(path, "record"), behind(path, "record")
    first, second = one.start(SCENE), two.start(SCENE)
    assert first.respond([SHEEP], ()) == second.respond([SHEEP], ())
    assert open_cassette(path, one.identity, False, True) is open_cassette(path, two.identity, False, True)


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
def test_only_one_process_records_to_a_file(tmp_path):
    path = tmp_path / "c.jsonl"
    mock = behind(path, "record")
    session = mock.start(SCENE)
    code = f"from toolcredit.envs.sgls.cassettes import Cassette; Cassette({str(path)!r}, {{'mock': 'x'}}, False, True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "being recorded by another process" in done.stderr
    assert session.respond([SHEEP], ())


def test_answers_are_fresh_copies(tmp_path):
    path = tmp_path / "c.jsonl"
    behind(path, "record").start(SCENE).respond([SHEEP], ())[0]["number"] = 99
    replay = behind(path, "replay")
    replay.start(SCENE).respond([SHEEP], ())[0]["number"] = 98
    assert replay.start(SCENE).respond([SHEEP], ()) == [{"number": 1}]


def test_the_embedded_mock_can_be_recorded_too(tmp_path):
    path = tmp_path / "c.jsonl"
    calls = [Call("get_current_weather", {"city": "Rome"}), Call("get_air_quality", {"city": "Rome"})]
    scene = Scene(SPECS, new_state(4))
    told = behind(path, "record", EmbeddedMock()).start(scene).respond(calls, ())
    assert told == EmbeddedMock().start(scene).respond(calls, ())
    assert make_mock({"name": "replay", "cassette": str(path)}).start(scene).respond(calls, ()) == told


# --- recorded trajectories

CALL_FORMS = {
    "openai": [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "count", "arguments": '{"what": "sheep"}'}},
            {"id": "b", "type": "function", "function": {"name": "count", "arguments": '{"what": "goats"}'}}]},
        {"role": "tool", "tool_call_id": "b", "content": '{"number": 2}'},
        {"role": "tool", "tool_call_id": "a", "content": "about *five*"},
    ],
    "toucan": [
        {"role": "assistant", "content": "", "function_call": {"name": "count", "arguments": '{"what": "goats"}'}},
        {"role": "function", "name": "count", "content": '{"number": 2}'},
        {"role": "assistant", "content": "", "function_call": {"name": "count", "arguments": '{"what": "sheep"}'}},
        {"role": "function", "name": "count", "content": "about *five*"},
    ],
    "sft": [
        {"role": "tool_call", "content": "{'name': 'count', 'arguments': {'what': 'goats'}}"},
        {"role": "tool_response", "content": '{"number": 2}'},
        {"role": "tool_call", "content": '{"name": "count", "arguments": "{\\"what\\": \\"sheep\\"}"}'},
        {"role": "tool_response", "content": "about *five*"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", CALL_FORMS)
def test_recorded_trajectories_become_cassettes(tmp_path, form):
    path = tmp_path / "real.jsonl"
    assert write_cassette(path, [(CALL_FORMS[form], [TOOL])]) == (2, [])
    replay = make_mock({"name": "replay", "cassette": str(path)})
    assert replay.start(SCENE).respond([SHEEP, GOATS], ()) == ["about *five*", {"number": 2}]


def test_calls_that_cannot_be_used_are_listed_with_reasons(tmp_path):
    messages = [
        {"role": "tool", "content": "too early"},
        {"role": "assistant", "function_call": {"name": "count", "arguments": "[1]"}},
        {"role": "function", "name": "count", "content": "x"},
        {"role": "assistant", "function_call": {"name": "weigh", "arguments": "{}"}},
        {"role": "function", "name": "weigh", "content": "x"},
        {"role": "tool_call", "content": "count the sheep"},
        {"role": "tool_response", "content": "x"},
        {"role": "assistant", "function_call": {"name": "count", "arguments": "{}"}},
    ]
    count, skipped = write_cassette(tmp_path / "real.jsonl", [(messages, [TOOL])])
    assert count == 0
    reasons = (
        "an answer without a call",
        "cannot be read",
        "weigh is not among its tools",
        "cannot be read",
        "not answered",
    )
    assert len(skipped) == len(reasons)
    assert all(reason in text for reason, text in zip(reasons, skipped, strict=True))
    assert len(list(read_trajectory(messages))) == len(reasons)
