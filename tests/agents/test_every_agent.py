"""Every built-in agent keeps every rule of the interface; every learner is saved, loaded and resumed exactly."""

import gymnasium as gym
import pytest
from toolcredit.agents.base import _BUILT_IN, Learner, agent_class
from toolcredit.agents.check import check_agent

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from safetensors.torch import load_file  # noqa: E402

COMMON = {"max_updates": 2, "learning_rate": 1e-2, "save_every": 1, "eval_every": 1}
BANDIT = COMMON | {"policy": {"model": "tiny"}, "format_updates": 1, "batch_size": 3}
CHAT = COMMON | {
    "policy": {"model": "tiny", "weights": "lora", "lora_rank": 4, "template": "compact"},
    "max_new_tokens": 4,
    "max_turns": 2,
}
GROUPS = CHAT | {"tasks_per_update": 2, "group_size": 3, "temperature": 4.0, "kl": 0.01}
LEARNERS = {"fgpo": BANDIT, "grpo": BANDIT, "sft": CHAT | {"batch_size": 2}}
#: what agents that cannot be made without arguments are made with
ARGUMENTS = {
    "fixed": {"tools": ["scales"]},
    "prompted": {"model": lambda messages: "<answer>1</answer>"},
    "prompted_chat": {"model": lambda messages, tools: {"content": "Fine."}},
}
BANDITS = ("fgpo", "grpo", "random", "none", "all", "fixed", "best_fixed", "oracle", "prompted")


def letters(text):
    return sum(c.islower() for c in text) / max(len(text), 1)


def score(task, texts):
    process, summary = letters(texts[0]), letters(texts[-1])
    parts = {"process": process, "summary": summary, "name": process, "omitted": 0.0, "total": process + summary}
    return process + summary, parts


@pytest.fixture
def env_for(subset_bandit, chat_envs):
    """name → an environment that its agent is meant for."""

    def make(name):
        if name in BANDITS:
            return subset_bandit([[1, 0, 1, 1]] * 6)
        if issubclass(agent_class(name), Learner) and name != "sft":
            return chat_envs.Conversation(chat_envs.turns_of_tools(1), score=score)
        return gym.make("SGLSToolCallingReplay-v0", split="dev", tier="easy", tasks="embedded:200")

    return make


def learners():
    return [name for name in _BUILT_IN if issubclass(agent_class(name), Learner)]


def weights(folder):
    return load_file(folder / "adapter" / "adapter_model.safetensors")


@pytest.mark.parametrize("name", [name for name in _BUILT_IN if name not in learners()])
def test_every_agent_keeps_the_rules(name, env_for):
    agent = agent_class(name)(**ARGUMENTS.get(name, {}))
    assert agent.name == name
    check_agent(agent, env_for(name))


@pytest.mark.parametrize("name", learners())
def test_every_learner_keeps_the_rules_and_resumes_to_the_same_weights(name, env_for, tmp_path):
    cls, config, env = agent_class(name), LEARNERS.get(name, GROUPS), env_for(name)
    whole = cls(config, out=tmp_path / "whole")
    assert whole.name == name
    check_agent(whole, env, learn=True)

    def stop(record):
        if record["update"] == whole.total_updates:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cls(config, out=tmp_path / "cut").learn(env, callbacks=[stop])
    assert not (tmp_path / "cut" / "adapter").exists()
    cls(config, out=tmp_path / "cut").learn(env, resume=True)
    a, b = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
    assert any(tensor.abs().sum() > 0 for key, tensor in a.items() if "lora_B" in key), "nothing was learned"
