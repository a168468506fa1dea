"""A group learner whose episodes a vLLM server samples: every update with the adapter of that update, and proven."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.group_methods import SLCAGRPO, VinePPO  # noqa: E402
from toolcredit.errors import ConfigError  # noqa: E402

LORA = {"model": "tiny", "weights": "lora", "template": "compact", "lora_rank": 4}


@pytest.fixture
def server(vllm_fake, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with vllm_fake.VLLMServer() as running:
        yield running


@pytest.fixture
def env(chat_envs):
    def score(task, texts):
        process, summary = (sum(map(ord, text)) % 7 / 7 for text in (texts[0], texts[-1]))
        parts = {"process": process, "summary": summary, "omitted": 0.0, "total": process + summary}
        return process + summary, parts

    return chat_envs.Conversation(chat_envs.turns_of_tools(1), score=score)


def config(server, **more):
    return {
        "policy": LORA,
        "backend": "vllm",
        "vllm": {"url": server.url, "tolerance": 1e-3},
        "max_updates": 2,
        "tasks_per_update": 1,
        "group_size": 3,
        "temperature": 2.0,
        "max_new_tokens": 4,
        "max_turns": 2,
        "learning_rate": 0.05,
        "kl": 0.1,
        "eval_every": 2,
        **more,
    }


def test_each_update_samples_with_its_own_adapter(server, env, tmp_path):
    records = []
    learner = SLCAGRPO(config(server, keep_trajectories=True), out=tmp_path)
    learner.learn(env, eval_env=env, callbacks=[records.append])
    assert [r["steps"] for r in records] == [1, 1] and all(r["sampler_difference"] < 1e-4 for r in records)
    assert all(r["canary_error"] < 1e-3 for r in records) and records[1]["canary_change"] > 1e-3
    lines = [json.loads(line) for line in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert [(line["update"], line["policy_version"]) for line in lines] == [(1, 0)] * 3 + [(2, 1)] * 3
    asked = [body["model"].rpartition("-")[2] for body in server.requests]
    assert sorted(set(asked)) == ["v0", "v1", "v2"]  # the last one is what the evaluation measures
    greedy = [body["temperature"] for body in server.requests if body["model"].endswith("v2")]
    assert greedy.count(0.0) > 1
    assert [name.rpartition("-")[2] for name in server.unloaded] == ["v0", "v1"]


def test_what_is_kept_is_what_is_played_after_training_and_needs_no_server(server, env, tmp_path):
    learner = SLCAGRPO(config(server), out=tmp_path)
    learner.learn(env, eval_env=env)
    played, failed = learner.play(env)
    assert not failed and server.requests[-1]["model"].endswith("v3")  # the selected weights
    server.requests.clear()
    again, _ = SLCAGRPO.load(tmp_path).play(env)
    assert not server.requests
    assert [t.ids.tolist() for t in again] == [t.ids.tolist() for t in played]


def test_continuations_are_sampled_there_too(server, env, tmp_path):
    records = []
    VinePPO(config(server, value_rollouts=2, max_updates=1), out=tmp_path).learn(env, callbacks=[records.append])
    assert records[0]["branch_episodes"] >= 4 and records[0]["spent"]["branch_tokens"] > 0
    assert np.isfinite(records[0]["loss"])


def test_a_server_that_answers_with_other_weights_ends_the_run(server, env, tmp_path):
    server.faults.add("stale_adapters")
    with pytest.raises(ConfigError, match="does not answer with the adapter"):
        SLCAGRPO(config(server), out=tmp_path).learn(env)


@pytest.mark.parametrize(
    "change", [{"vllm": {}}, {"policy": LORA | {"weights": "full"}}, {"out": None}], ids=["url", "weights", "folder"]
)
def test_what_a_server_needs_is_asked_for(server, env, tmp_path, change):
    out = change.pop("out", tmp_path)
    with pytest.raises(ConfigError, match="backend=vllm"):
        SLCAGRPO(config(server, **change), out=out).learn(env)
    assert not server.requests
