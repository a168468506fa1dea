"""The multi-turn loop, its checker and the simulated APIs, on a hand-written package and on the released one."""

import decimal
import json
import threading

import pytest
from toolcredit.benchmarks.bfcl import multi_turn
from toolcredit.benchmarks.bfcl.calls import Call
from toolcredit.benchmarks.bfcl.convert import MORE_FUNCTIONS
from toolcredit.benchmarks.bfcl.data import open_dataset
from toolcredit.benchmarks.bfcl.gold import gold_turns
from toolcredit.benchmarks.bfcl.multi_turn import read_turns, score_turns
from toolcredit.benchmarks.bfcl.official import load_official
from toolcredit.benchmarks.bfcl.replies import to_message
from toolcredit.benchmarks.bfcl.simulation import Simulation
from toolcredit.benchmarks.suite import converse

DONE = {"role": "assistant", "content": "Done."}


@pytest.fixture
def official(package):
    return load_official(open_dataset(package))


@pytest.fixture
def entry(package):
    return open_dataset(package).entries(["multi_turn_miss_func"])[0]


class Script:
    """Answers with given messages, repeating the last one; keeps what it was shown."""

    def __init__(self, *messages):
        self.messages, self.shown, self.tools = list(messages), [], []

    def __call__(self, messages, tools):
        self.shown.append(messages)
        self.tools.append([tool["function"]["name"] for tool in tools])
        return self.messages.pop(0) if len(self.messages) > 1 else self.messages[0]


def call(name, **arguments):
    return to_message([Call(name, arguments)])


def play(entry, respond, official, prompting=False):
    return converse(multi_turn.play(entry, official, prompting), respond)


def verdict(entry, official, *turns):
    return score_turns(entry, [[step for step in turn] for turn in turns], official)


TOUCH, LS = (Call("touch", {"file_name": "a.txt"}),), (Call("ls"),)


def test_gold_is_right(entry, official):
    for prompting in (False, True):
        left = [message for turn in gold_turns(entry, prompting) for message in turn]
        episode = play(entry, lambda messages, tools, left=left: left.pop(0), official, prompting)
        calls, malformed = read_turns(entry, episode.turns, prompting)
        assert not left and malformed == 0 and not episode.forced_stop
        assert score_turns(entry, calls, official).valid and official.check_turns(entry, calls).valid


def test_the_loop_goes_on_until_no_call_is_made(entry, official):
    script = Script(DONE, call("touch", file_name="a.txt"), call("ls"), DONE, DONE)
    episode = play(entry, script, official)
    assert [len(turn) for turn in episode.turns] == [1, 3, 1]
    roles = [message["role"] for message in episode.transcript]
    assert roles == ["user", "assistant", "user", *["assistant", "tool"] * 2, "assistant", "user", "assistant"]
    results = [message["content"] for message in episode.transcript if message["role"] == "tool"]
    assert results == ["None", '{"files": ["old.txt", "a.txt"]}']


def test_withheld_functions_are_added_with_the_fixed_message(entry, official):
    script = Script(DONE)
    play(entry, script, official)
    assert script.tools == [["ls", "remove_all"], ["ls", "remove_all", "touch"], ["ls", "remove_all", "touch"]]
    assert script.shown[1][-1] == {"role": "user", "content": MORE_FUNCTIONS}


def test_more_than_twenty_steps_end_the_entry(entry, official):
    episode = play(entry, Script(call("ls")), official)
    assert episode.forced_stop and len(episode.turns) == 1 and len(episode.turns[0]) == 21
    nearly = Script(*[call("ls")] * 20, DONE)
    assert not play(entry, nearly, official).forced_stop


def test_broken_arguments_end_the_turn_and_every_call_is_answered(entry, official):
    broken = to_message([Call("ls"), Call("touch", {"file_name": "a.txt"})])
    broken["tool_calls"][1]["function"]["arguments"] = "{bad"
    script = Script(broken, DONE)
    episode = play(entry, script, official)
    assert [len(turn) for turn in episode.turns] == [1, 1, 1]
    answers = [message for message in script.shown[1] if message["role"] == "tool"]
    assert [a["tool_call_id"] for a in answers] == ["call_0", "call_1"] and "were not made" in answers[0]["content"]
    assert read_turns(entry, episode.turns)[1] == 1


def test_calls_without_an_id_get_one(entry, official):
    message = call("ls")
    del message["tool_calls"][0]["id"]
    episode = play(entry, Script(message, DONE), official)
    assert [m.get("tool_call_id") for m in episode.transcript if m["role"] == "tool"] == ["call_0_0_0"]


def test_prompting_shows_results_as_a_users_message(entry, official):
    script = Script({"role": "assistant", "content": "[ls()]"}, DONE)
    play(entry, script, official, prompting=True)
    assert script.tools[0] == [] and script.shown[0][0]["role"] == "system"
    assert script.shown[1][-1]["role"] == "user"
    assert script.shown[1][-1]["content"] == str(
        [{"role": "tool", "name": "ls()", "content": '{"files": ["old.txt"]}'}]
    )


def test_a_model_that_changes_what_it_is_shown_changes_nothing(entry, official):
    def vandal(messages, tools):
        messages.clear()
        tools.clear()
        return DONE

    episode = play(entry, vandal, official)
    assert [message["role"] for message in episode.transcript] == ["user", "assistant"] * 3


def test_the_checker(entry, official):
    assert verdict(entry, official, [], [TOUCH], [LS]).valid
    assert verdict(entry, official, [], [TOUCH, LS], [LS]).valid
    assert verdict(entry, official, [], [LS, TOUCH], []).error == "no_call"
    assert verdict(entry, official, [], [LS], [LS]).error == "state"
    assert verdict(entry, official, [], [TOUCH], [TOUCH]).error == "response"
    assert verdict(entry, official, [], [TOUCH]).error == "turns"
    assert verdict(entry, official, [(Call("remove_all"),)], [TOUCH], [LS]).error == "state"
    assert verdict(entry, official, [], [(Call("nothing"), *TOUCH)], [LS]).valid


def test_rollouts_are_isolated(entry, official):
    """The same entry again, and at the same time, finds the initial state."""
    before = json.dumps(entry.initial_config)
    for _ in range(3):
        assert verdict(entry, official, [], [TOUCH], [LS]).valid
        assert official.check_turns(entry, [[], [TOUCH], [LS]]).valid
    first, second = Simulation(entry, official), Simulation(entry, official)
    first.call(TOUCH[0])
    assert second.call(LS[0]) == '{"files": ["old.txt"]}'
    assert json.dumps(entry.initial_config) == before
    assert not any(
        "_instance" in key for key in vars(official._module("eval_checker.multi_turn_eval.multi_turn_utils"))
    )


@pytest.mark.parametrize(
    "name",
    ["_load_scenario", "__init__", "__class__", "eval", "open", "print", "files", "touch.__func__", "os.system", ""],
)
def test_only_the_apis_functions_can_be_called(entry, official, name):
    assert "is not defined" in Simulation(entry, official).call(Call(name, {"a": 1}))


def test_no_text_of_a_model_reaches_the_evaluating_checker(entry, official):
    evil = "__import__('os').system('x')"
    hostile = [(Call(evil), Call("touch", {evil: evil, "file_name": evil}), Call("ls); open('x'", {}))]
    official.check_turns(entry, [[], hostile, [LS]])
    seen = official._module("eval_checker.multi_turn_eval.multi_turn_checker").SEEN[-1]
    assert seen[1][0][0] == "unknown_function()"
    assert seen[1][0][1] == f"touch(file_name={evil!r}, **{{{evil!r}: {evil!r}}})"
    assert seen[1][0][2] == "unknown_function()"


def test_the_calculator_does_not_work_for_ever(bfcl_files, official):
    entry = bfcl_files.entry("multi_turn_base", initial_config={}, involved_classes=("MathAPI",))
    simulation = Simulation(entry, official)
    assert simulation.call(Call("power", {"base": 2, "exponent": 10})) == '{"result": 1024}'
    assert "not simulated" in simulation.call(Call("power", {"base": 9, "exponent": 9**9}))
    assert "not simulated" in simulation.call(Call("power", {"exponent": 9**9, "base": 9}))
    assert simulation.call(Call("power", {"base": 9.5, "exponent": 9**9})).startswith("Error during execution")
    assert "missing" in simulation.call(Call("power", {"base": 9}))


def test_what_the_model_does_wrong_is_passed_on(entry, official):
    class Broken(RuntimeError):
        pass

    def respond(messages, tools):
        raise Broken

    with pytest.raises(Broken):
        play(entry, respond, official)


# ---------------------------------------------------------------------------------------------------- the release


@pytest.mark.bfcl
def test_the_released_calculator_leaves_the_process_as_it_was(bfcl_files, v4):
    mpmath = pytest.importorskip("mpmath")
    official = load_official(v4)
    entry = bfcl_files.entry("multi_turn_base", initial_config={}, involved_classes=("MathAPI",))
    before = mpmath.mp.dps, decimal.getcontext().prec
    simulation = Simulation(entry, official)
    assert simulation.call(Call("logarithm", {"value": 100, "base": 10, "precision": 40})) == "{'result': mpf('2.0')}"
    assert "1.41421356" in simulation.call(Call("square_root", {"number": 2, "precision": 60}))
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before
    for name, arguments in {
        "logarithm": {"precision": 10**9, "value": 5, "base": 2},
        "square_root": {"precision": 10**12, "number": 2},
        "round_number": {"number": 5, "decimal_places": -(10**9)},
        "power": {"base": 10, "exponent": 10**10},
    }.items():
        assert "not simulated" in simulation.call(Call(name, arguments))


@pytest.mark.bfcl
def test_the_released_apis_play_side_by_side(v4):
    """Gold of long-context entries from four threads at once."""
    official = load_official(v4)
    entries = v4.entries(["multi_turn_long_context"])[:24]
    wrong = []

    def work(part):
        for entry in part:
            calls, _ = read_turns(entry, gold_turns(entry))
            if not (score_turns(entry, calls, official).valid and official.check_turns(entry, calls).valid):
                wrong.append(entry.id)

    threads = [threading.Thread(target=work, args=(entries[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
