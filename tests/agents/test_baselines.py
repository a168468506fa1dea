import gymnasium as gym
import numpy as np
import pytest
from toolcredit.agents.base import Agent, agent_class, agent_names
from toolcredit.agents.baselines import (
    AllToolsAgent,
    BestFixedAgent,
    FixedSubsetAgent,
    NoToolsAgent,
    OracleAgent,
    PromptedAgent,
    RandomAgent,
)
from toolcredit.agents.check import check_agent
from toolcredit.envs.table import RewardTable
from toolcredit.errors import EndpointError, UnknownNameError, UsageError

CHOICES = [[1, 0, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0], [-1, -1, 2, 1]]


class Scripted:
    """A model that gives one reply and keeps what it was asked."""

    def __init__(self, reply):
        self.text = reply
        self.asked = []

    def __call__(self, messages):
        self.asked.append(messages)
        return self.text


@pytest.fixture
def env(subset_bandit):
    return subset_bandit(CHOICES)


def actions(agent, env):
    agent.bind(env)
    agent.reset(seed=0)
    return [agent.act(*env.reset(options={"question_id": id})) for id in env.question_ids]


AGENTS = {
    "random": RandomAgent,
    "none": NoToolsAgent,
    "all": AllToolsAgent,
    "fixed": lambda: FixedSubsetAgent(["scales"]),
    "best_fixed": BestFixedAgent,
    "oracle": OracleAgent,
    "prompted": lambda: PromptedAgent(Scripted("<answer>1</answer>")),
}


@pytest.mark.parametrize("name", AGENTS)
def test_baselines_keep_the_rules_of_agents(name, env):
    agent = AGENTS[name]()
    check_agent(agent, env)
    assert agent.name == name
    assert agent_class(name) is type(agent)
    assert agent.ceiling == (name in ("best_fixed", "oracle"))


def test_every_baseline_is_registered():
    assert set(AGENTS) <= set(agent_names())


def test_fixed_subsets(env):
    assert actions(NoToolsAgent(), env) == [0] * 5
    assert actions(AllToolsAgent(), env) == [3] * 5
    assert actions(FixedSubsetAgent(["scales"]), env) == [2] * 5
    assert actions(FixedSubsetAgent(["scales", "ruler", "scales"]), env) == [3] * 5


def test_fixed_subset_of_an_unknown_tool(env):
    with pytest.raises(UnknownNameError, match="'rulers': did you mean 'ruler'"):
        FixedSubsetAgent(["rulers"]).bind(env)


def test_random_covers_the_space_without_touching_it(subset_bandit):
    env = subset_bandit(CHOICES * 40)
    before = env.action_space.np_random.bit_generator.state
    drawn = actions(RandomAgent(), env)
    assert env.action_space.np_random.bit_generator.state == before
    counts = np.bincount(drawn, minlength=4)
    assert counts.min() > 30


def test_random_acts_in_any_environment():
    env = gym.make("CartPole-v1")
    check_agent(RandomAgent(), env)


def test_ceilings_by_hand(env):
    assert actions(BestFixedAgent(), env) == [1] * 5
    assert actions(OracleAgent(), env) == [1, 1, 0, 0, 0]
    table = RewardTable.build(env, workers=1)
    assert actions(BestFixedAgent(table), env) == [1] * 5
    assert actions(OracleAgent(table), env) == [1, 1, 0, 0, 0]


def test_no_strategy_beats_the_ceilings(subset_bandit):
    env = subset_bandit(np.random.default_rng(1).integers(0, 3, (30, 8)))
    rewards = np.array([[env.rewards[q, a] for a in range(8)] for q in range(30)])
    oracle, fixed = (
        np.mean([rewards[q, a] for q, a in enumerate(actions(g, env))]) for g in (OracleAgent(), BestFixedAgent())
    )
    assert oracle == pytest.approx(rewards.max(axis=1).mean())
    assert fixed == pytest.approx(rewards.mean(axis=0).max())


def test_prompted_agent_is_told_names_and_descriptions(env):
    model = Scripted(" <answer>0,1</answer>\n")
    agent = PromptedAgent(model)
    assert actions(agent, env) == [3] * 5
    assert agent.malformed == 0
    system, user = model.asked[2]
    assert "0: ruler: what a ruler tells\n1: scales: what a scales tells" in system["content"]
    assert "Question q2?" in user["content"]
    assert "family" not in str(model.asked)


def test_words_around_the_action_string_do_not_matter(env):
    reply = "First <answer>0</answer>? No: <answer>1</answer>. I am sure."
    assert actions(PromptedAgent(Scripted(reply)), env) == [2] * 5


def test_malformed_replies_call_no_tool_and_are_counted(env):
    agent = PromptedAgent(Scripted("I would use the ruler."))
    assert actions(agent, env) == [0] * 5
    assert agent.malformed == 5


def test_a_model_can_be_given_by_name(env):
    pytest.importorskip("transformers")
    agent = PromptedAgent("local:tiny")
    assert all(0 <= action < 4 for action in actions(agent, env))


@pytest.mark.parametrize("agent", [NoToolsAgent(), OracleAgent(), RandomAgent(), PromptedAgent(Scripted(""))])
def test_unbound_agents_say_so(agent):
    with pytest.raises(UsageError, match=r"call bind\(env\) first"):
        agent.act("Question q0?", {"id": "q0"})


@pytest.mark.parametrize("model", ["smollm2", "local:", "chat:", "gguf:x"])
def test_a_wrong_model_is_refused(env, model):
    with pytest.raises(UsageError, match="expected local:MODEL, chat:MODEL"):
        PromptedAgent(model).bind(env)


def test_a_model_behind_an_endpoint(env, chat_server, fake_chat, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", chat_server.url)
    chat_server.script(fake_chat.reply("<answer>1</answer>"), fake_chat.status(400))
    agent = PromptedAgent("chat:some-model")
    agent.bind(env)
    assert agent.act(*env.reset()) == 2
    assert chat_server.bodies[0]["model"] == "some-model"
    assert chat_server.bodies[0]["temperature"] == 0
    with pytest.raises(EndpointError):  # a failure, and no choice of no tools
        agent.act(*env.reset())
    assert agent.malformed == 0


def test_prompted_needs_descriptions(env, monkeypatch):
    monkeypatch.delattr(type(env), "tool_descriptions")
    with pytest.raises(UsageError, match="tool_descriptions"):
        PromptedAgent(Scripted("")).bind(env)


def test_agents_of_other_packages_are_found_by_import_path():
    assert agent_class("toolcredit.agents.baselines:NoToolsAgent") is NoToolsAgent
    assert issubclass(NoToolsAgent, Agent)
