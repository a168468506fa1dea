"""Trackers are told every record once and the configuration once; without any, metrics.jsonl has everything."""

import importlib.util
import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")
tracking = pytest.importorskip("accelerate.tracking", reason="needs the extra 'train'")

from toolcredit.agents import trackers  # noqa: E402
from toolcredit.agents.group_methods import GRPOChat  # noqa: E402
from toolcredit.errors import UnknownNameError, UsageError  # noqa: E402

TINY = {
    "policy": {"model": "tiny", "weights": "full", "template": "compact"},
    "max_updates": 3,
    "tasks_per_update": 1,
    "group_size": 2,
    "max_new_tokens": 3,
    "max_turns": 2,
    "kl": 0.0,
    "save_every": 2,
}
HERE = "toolcredit_tests_tracker:Told"


class Told(tracking.GeneralTracker):
    """Keeps what it is told."""

    name = "told"
    requires_logging_directory = True
    made = []

    def __init__(self, run_name, logging_dir):
        super().__init__()
        self.run_name, self.logging_dir, self.told, self.config, self.ended = run_name, logging_dir, [], None, False
        self.made.append(self)

    tracker = property(lambda self: self)

    def start(self):
        pass

    def store_init_configuration(self, values):
        self.config = values

    def log(self, values, step=None, **kwargs):
        self.told.append((step, values))

    def finish(self):
        self.ended = True


class LoggedOut(Told):
    def start(self):
        raise RuntimeError("log in first")


@pytest.fixture
def told(monkeypatch):
    """The trackers that were made, under an import path."""
    module = type(sys)("toolcredit_tests_tracker")
    module.Told, module.LoggedOut = Told, LoggedOut
    monkeypatch.setitem(sys.modules, module.__name__, module)
    Told.made.clear()
    return Told.made


@pytest.fixture
def env(chat_envs):
    return chat_envs.Conversation(chat_envs.turns_of_tools(1))


def stop(record):
    if record["update"] == 3:
        raise KeyboardInterrupt


def records(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_tracker_is_told_the_configuration_and_the_numbers_of_every_record(env, told, tmp_path):
    GRPOChat(TINY | {"tracker": HERE}, out=tmp_path).learn(env)
    [one] = told
    assert one.run_name == "toolcredit" and one.logging_dir == str(tmp_path / "told") and one.ended
    assert one.config["agent"] == "grpo-chat" and one.config["config/policy/model"] == "tiny"
    assert [step for step, _ in one.told] == [1, 2, 3]
    for record, (_, values) in zip(records(tmp_path), one.told, strict=True):
        assert values["reward/total"] == record["reward/total"] and values["seconds"] == record["seconds"]
        assert values["spent/episodes"] == record["spent"]["episodes"]
        assert "phase" not in values and "update" not in values


def test_a_resumed_run_tells_the_updates_that_it_makes_and_no_configuration(env, told, tmp_path):
    config = TINY | {"tracker": HERE}
    with pytest.raises(KeyboardInterrupt):
        GRPOChat(config, out=tmp_path).learn(env, callbacks=[stop])
    GRPOChat(config, out=tmp_path).learn(env, resume=True)
    assert [step for step, _ in told[1].told] == [3] and told[1].config is None


def test_a_tracker_without_a_run_folder_is_not_made(env, told):
    GRPOChat(TINY | {"tracker": HERE}).learn(env)
    assert told == []


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("tensorbord", UnknownNameError, "tensorboard"),
        ("no.such.module:Tracker", UsageError, "cannot be imported"),
        ("toolcredit_tests_tracker:LoggedOut", UsageError, "log in first"),
    ],
)
def test_what_cannot_track_is_refused(env, told, tmp_path, spec, error, words):
    with pytest.raises(error, match=words):
        GRPOChat(TINY | {"tracker": spec}, out=tmp_path).learn(env)


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(tracking, "get_available_trackers", lambda: [])
    with pytest.raises(UsageError, match="pip install wandb"):
        trackers.tracker_names("wandb")


def test_without_tensorboard_nothing_is_made_and_that_is_said(env, tmp_path, monkeypatch, caplog):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "tensorboard" else found(name, *a)
    )
    caplog.set_level("INFO")
    GRPOChat(TINY | {"max_updates": 1}, out=tmp_path).learn(env)
    assert caplog.text.count("pip install tensorboard") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "metrics.jsonl", "model", "state.safetensors"}


def test_tensorboard_has_each_step_once_after_a_resume(env, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra 'track'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with pytest.raises(KeyboardInterrupt):
        GRPOChat(TINY, out=tmp_path).learn(env, callbacks=[stop])
    GRPOChat(TINY, out=tmp_path).learn(env, resume=True)
    folder = tmp_path / "tensorboard" / trackers.PROJECT
    events = EventAccumulator(str(folder)).Reload()
    shown = [(event.step, event.value) for event in events.Scalars("reward/total")]
    assert shown == [(r["update"], pytest.approx(r["reward/total"])) for r in records(tmp_path)]
    assert list(folder.glob("*/hparams.yml"))
