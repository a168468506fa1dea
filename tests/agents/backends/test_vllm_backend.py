"""The vLLM backend against a server that holds a real tiny model: tokens, adapters, the canary, and failures."""

import time

import numpy as np
import pytest
import torch
from toolcredit.agents.backends import TurnRequest
from toolcredit.agents.backends.vllm import VLLMBackend
from toolcredit.agents.policy import LoraPolicy, PolicyConfig
from toolcredit.agents.rollout import RolloutEngine
from toolcredit.errors import ConfigError, EndpointError, InfrastructureError, UsageError
from toolcredit.llm.retry import Backoff

HOT = 2.5


@pytest.fixture
def policy():
    return LoraPolicy(PolicyConfig(model="tiny", device="cpu"))


@pytest.fixture
def server(vllm_fake, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with vllm_fake.VLLMServer() as running:
        yield running


@pytest.fixture
def backend(policy, server, tmp_path):
    return make(policy, server, tmp_path)


def make(policy, server, folder, **options):
    options = {"tolerance": 1e-3, "backoff": Backoff(first=0.01), "max_retries": 2, **options}
    return VLLMBackend(policy, server.url, folder, **options)


def move(policy, by=0.05):
    """Change the adapter, as an update does."""
    with torch.no_grad():
        for weight in policy.trainable_parameters().values():
            weight.add_(by)


def engine_of(backend, chat_envs, turns=2):
    env = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(turns))  # noqa: E731
    return RolloutEngine(backend, env, template="compact")


@torch.no_grad()
def plain_logprobs(model, t):
    logits = model(torch.from_numpy(np.array(t.ids))[None]).logits[0, :-1].float()
    logprobs = torch.log_softmax(logits / t.temperature, -1)
    own = logprobs.gather(-1, torch.from_numpy(t.ids[1:].copy())[:, None])[:, 0]
    return torch.cat([torch.zeros(1), own]).numpy()


# ---- tokens


def test_trajectories_are_exact_and_carry_the_version(policy, backend, chat_envs):
    move(policy)
    backend.sync(3)
    rollouts = engine_of(backend, chat_envs).collect(["a", "b"], 2, temperature=HOT, max_new_tokens=6)
    assert [len(group) for group in rollouts] == [2, 2]
    for t in (t for group in rollouts for t in group):
        assert len(t.turns) == 3 and t.policy_version == 3
        assert np.abs(plain_logprobs(policy.local.model, t) - t.logprobs)[t.trainable].max() < 1e-4
    sampled = sum(int(t.trainable.sum()) for group in rollouts for t in group)
    assert rollouts.stats["sampled_tokens"] >= sampled and rollouts.stats["requests"] >= 12


def test_requests_switch_off_everything_that_changes_the_distribution(backend, server, chat_envs):
    backend.sync(0)
    server.requests.clear()
    engine_of(backend, chat_envs).collect(["a"], 2, temperature=0.7, max_new_tokens=5)
    for body in server.requests:
        assert body["temperature"] == 0.7 and body["top_p"] == 1.0 and body["top_k"] == -1 and body["min_p"] == 0.0
        assert body["repetition_penalty"] == 1.0 and body["presence_penalty"] == body["frequency_penalty"] == 0.0
        assert body["return_token_ids"] and all(isinstance(i, int) for i in body["prompt"])
    turns = [body for body in server.requests if body["stop_token_ids"]]
    assert len({body["seed"] for body in turns}) == len(turns) == 6


def test_seeds_give_the_same_tokens_again(policy, backend, chat_envs):
    backend.sync(0)
    runs = [
        engine_of(backend, chat_envs).collect(["a", "b"], 2, seed=seed, temperature=HOT, max_new_tokens=6)
        for seed in (1, 1, 2)
    ]
    ids = [[t.ids.tolist() for group in run for t in group] for run in runs]
    assert ids[0] == ids[1] != ids[2]


def test_the_servers_context_counts(policy, vllm_fake, monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with vllm_fake.VLLMServer(max_model_len=300) as server:
        assert make(policy, server, tmp_path).context_length == 300


# ---- versions


def test_every_version_gets_a_new_name_and_the_old_one_goes(policy, backend, server, tmp_path):
    first = backend.sync(0)
    move(policy)
    second = backend.sync(1)
    assert first["canary_change"] == 0.0 and second["canary_change"] > 0.01 > second["canary_error"]
    assert list(server.adapters) == [backend._adapter] and backend._adapter.endswith("-v1")
    assert [name.rpartition("-")[2] for name in server.unloaded] == ["v0"]
    assert [path.name for path in tmp_path.iterdir()] == [backend._adapter]
    with pytest.raises(UsageError, match="used twice"):
        backend.sync(1)


def test_two_runs_on_one_server_do_not_share_names(policy, server, tmp_path):
    names = set()
    for run in range(2):
        backend = make(policy, server, tmp_path / str(run))
        backend.sync(0)
        names.add(backend._adapter)
    assert len(names) == 2


def test_a_policy_that_was_never_sent_samples_nothing(backend, chat_envs):
    with pytest.raises(UsageError, match="call sync"):
        engine_of(backend, chat_envs).collect(["a"])


def test_an_adapter_that_cannot_be_unloaded_is_only_a_warning(policy, backend, server, caplog):
    backend.sync(0)
    server.fail(500, 500, 500, path="/v1/unload_lora_adapter")
    backend.sync(1)
    assert "stays on the server" in caplog.text


# ---- the canary


@pytest.mark.parametrize("fault", ["ignores_adapters", "stale_adapters"])
def test_the_canary_finds_an_adapter_that_does_not_answer(policy, backend, server, fault):
    move(policy)
    backend.sync(0)
    server.faults.add(fault)
    move(policy, -0.1)
    with pytest.raises(ConfigError, match="does not answer with the adapter toolcredit-.*-v1"):
        backend.sync(1)


@pytest.mark.parametrize("fault", ["raw_logprobs", "top_p"])
def test_the_canary_finds_log_probabilities_of_another_distribution(policy, backend, server, chat_envs, fault):
    """At the first request with that temperature: at temperature 1 raw log-probabilities are right."""
    backend.sync(0)
    server.faults.add(fault)
    with pytest.raises(ConfigError, match="temperature 2.5.*processed_logprobs"):
        engine_of(backend, chat_envs).collect(["a"], temperature=HOT, max_new_tokens=5)


def test_each_temperature_is_proven_once_a_version(policy, backend, server, chat_envs):
    canaries = lambda: sum(body["ignore_eos"] for body in server.requests)  # noqa: E731
    backend.sync(0)
    assert canaries() == 1
    engine = engine_of(backend, chat_envs)
    for temperature, seen in ((1.0, 1), (HOT, 2), (HOT, 2), (0.0, 3)):
        engine.collect(["a"], temperature=temperature, max_new_tokens=4)
        assert canaries() == seen
    backend.sync(1)
    engine.collect(["a"], temperature=HOT, max_new_tokens=4)
    assert canaries() == 5


def test_a_loaded_adapter_must_be_listed(backend, server):
    server.faults.add("forgets")
    with pytest.raises(ConfigError, match="does not list the adapter"):
        backend.sync(0)


# ---- failures


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no_token_ids", "0.10.2"),
        ("other_prompt", "not for the prompt"),
        ("short_logprobs", "one log-probability per token"),
        ("nan_logprobs", "no finite numbers"),
        ("not_json", "not JSON"),
    ],
)
def test_replies_are_checked(backend, server, chat_envs, fault, message):
    backend.sync(0)
    server.faults.add(fault)
    with pytest.raises(InfrastructureError, match=message):
        engine_of(backend, chat_envs).collect(["a"], max_new_tokens=4)


def test_a_short_outage_is_waited_for(backend, server, chat_envs):
    backend.sync(0)
    server.fail(503, 429)
    rollouts = engine_of(backend, chat_envs).collect(["a"], 2, max_new_tokens=4)
    assert not rollouts.failures and rollouts.stats["retries"] == 2


def test_a_turn_that_fails_costs_its_episode_only(backend, server, chat_envs):
    backend.sync(0)
    server.fail(400)
    rollouts = engine_of(backend, chat_envs).collect(["a"], 3, max_new_tokens=4)
    assert len(rollouts[0]) == 2 and len(rollouts.failures) == 1
    assert "HTTP 400" in rollouts.failures[0].reason and "scripted failure" in rollouts.failures[0].reason


def test_a_server_that_hangs_is_given_up(policy, server, tmp_path, chat_envs):
    backend = make(policy, server, tmp_path, timeout=0.5, max_retries=0)
    backend._timeout = 60  # the canary computes on a busy machine
    backend.sync(0)
    backend._timeout = 0.5
    server.hang()
    begin = time.perf_counter()
    with pytest.raises(InfrastructureError, match="no whole reply within 0.5 s"):
        engine_of(backend, chat_envs).collect(["a"], 2)
    assert time.perf_counter() - begin < 20


def test_turns_under_way_are_given_up_at_the_end(policy, server, tmp_path):
    backend = make(policy, server, tmp_path)
    backend.sync(0)
    server.hang()
    woken = []
    backend.begin(lambda: woken.append(1))
    backend.submit(TurnRequest(0, (5, 6, 7), frozenset({2}), 4, 1.0, (0,)))
    assert backend.advance() == []
    backend.end()
    backend.begin(lambda: None)
    assert backend.advance() == []


def test_a_server_that_is_not_there(policy, tmp_path):
    with pytest.raises(EndpointError, match="attempt 2"):
        VLLMBackend(policy, "http://127.0.0.1:9/v1", tmp_path, max_retries=1, backoff=Backoff(first=0.01))


def test_the_key_comes_from_the_environment_and_shows_nowhere(policy, server, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="VLLM_KEY"):
        make(policy, server, tmp_path, api_key_env="VLLM_KEY")
    monkeypatch.setenv("VLLM_KEY", "s3cret")
    backend = make(policy, server, tmp_path, api_key_env="VLLM_KEY")
    assert server.headers[-1]["authorization"] == "Bearer s3cret"
    server.fail(400, path="/v1/load_lora_adapter")
    with pytest.raises(EndpointError) as caught:
        backend.sync(0)
    assert "s3cret" not in str(caught.value) + repr(vars(backend))
