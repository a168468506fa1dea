"""Environments as conversations: SGLS, the genome bandit, what is neither, and copies of them."""

import json
import threading

import gymnasium as gym
import pytest
import toolcredit  # noqa: F401 - registers the ids
from gymnasium.utils.env_checker import check_env
from toolcredit.agents.backends.local import LocalBackend
from toolcredit.agents.chat_env import BanditChat, chat_env, env_maker
from toolcredit.agents.chat_template import ChatTemplate
from toolcredit.agents.rollout import RolloutEngine
from toolcredit.agents.trajectory import Segment
from toolcredit.errors import UsageError
from toolcredit.llm.local import load_local_model
from toolcredit.llm.tiny import tiny_tokenizer

HOT = 2.5  # the tiny model's distributions are narrow: this makes its turns differ


@pytest.fixture(scope="module")
def tiny():
    return load_local_model("tiny", device="cpu")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def scripted(tokenizer, scripted_backend):
    """Makes a scripted backend: `scripted(write, slots=…)`."""
    return lambda write=lambda episode, turn: "Fine.", **options: scripted_backend.ScriptedBackend(
        tokenizer, write, **options
    )


def test_sgls_episodes(tiny):
    env = gym.make("SGLSToolCalling-v0", tier="easy", split="train")
    engine = RolloutEngine(LocalBackend(tiny, slots=4), env, template="compact")
    tasks = list(engine.task_ids[:2])
    rollouts = engine.collect(tasks, 2, temperature=HOT, max_new_tokens=8)
    assert [t.task_id for group in rollouts for t in group] == [tasks[0]] * 2 + [tasks[1]] * 2
    for t in (t for group in rollouts for t in group):
        assert {"process", "summary", "total"} <= t.rewards.keys()
        assert t.messages[0]["role"] in ("system", "user")


def test_sgls_gold_calls_are_answered_and_scored(scripted):
    """A scripted policy that solves its task: two segments, full process score."""
    env = gym.make("SGLSToolCalling-v0", tier="easy", split="train")
    task_id = env.unwrapped.task_ids[0]
    env.reset(options={"task_id": task_id})
    gold = env.unwrapped.task.plans[0].to_json()
    blocks = [[json.dumps(call) for call in step] for step in gold]
    turns = ["\n".join(f"<tool_call>\n{b}\n</tool_call>" for b in step) for step in blocks]
    write = lambda episode, turn: turns[turn] if turn < len(turns) else "This is the answer."  # noqa: E731
    ((t,),) = RolloutEngine(scripted(write, context_length=8192), env, template="compact").collect([task_id])
    assert [turn.calls for turn in t.turns] == [True] * len(turns) + [False]
    assert t.has(Segment.TOOL) and t.has(Segment.SUMMARY)
    assert t.rewards["process"] == pytest.approx(1.0)


def test_the_genome_bandit_is_a_conversation_of_one_turn(scripted):
    env = gym.make("GenomeToolSubset-v0", prompt_bases=30)
    question = env.unwrapped.question_ids[0]
    texts = {0: "<answer>0</answer>", 1: "no answer"}
    engine = RolloutEngine(scripted(lambda episode, turn: texts[episode], context_length=8192), env)
    assert list(engine.task_ids) == list(env.unwrapped.question_ids)
    (group,) = engine.collect([question], 2)
    env.reset(options={"question_id": question})
    _, expected, *_ = env.step(1)
    assert group[0].rewards["summary"] == group[0].rewards["total"] == group[0].episode_reward == expected
    assert group[1].rewards["total"] == env.unwrapped.malformed_reward
    for t in group:
        assert len(t.turns) == 1 and set(t.segment[t.trainable].tolist()) == {Segment.SUMMARY}
        assert t.finish_reason == "terminated"
    template = ChatTemplate(tiny_tokenizer())
    prompt = template.prompt_ids(env.unwrapped.policy_messages(*env.reset(options={"question_id": question})))
    assert group[0].ids[: group[0].prompt_length].tolist() == prompt
    assert isinstance(engine.take_env(), BanditChat)


def test_a_bandit_as_a_conversation_follows_gymnasium(subset_bandit):
    bandit = subset_bandit([[0, 1, 1, 0], [1, 1, 0, 0]])
    env = chat_env(bandit)
    check_env(env, skip_render_check=True)
    assert env.task_ids == ("q0", "q1")
    observation, info = env.reset(options={"task_id": "q1"})
    assert observation == [{"role": "user", "content": "Question q1?"}]
    assert info["rewards"] == {"summary": None, "total": None} and info["tools"] == []
    after, reward, terminated, truncated, info = env.step("<answer>1</answer>")
    assert after == [*observation, {"role": "assistant", "content": "<answer>1</answer>"}]
    assert (reward, terminated, truncated) == (bandit.rewards[1, 2], True, False)
    assert info["rewards"]["summary"] == reward and not info["malformed"]
    env.reset(options={"task_id": "q1"})
    _, reward, terminated, _, info = env.step("no idea")
    assert (reward, terminated, info["malformed"]) == (bandit.malformed_reward, True, True)


def test_a_chat_environment_is_left_as_it_is(chat_envs):
    env = chat_envs.Conversation(chat_envs.turns_of_tools(0))
    assert chat_env(env) is env


def test_what_holds_no_conversation_is_refused():
    with pytest.raises(UsageError, match="CartPole.* has no conversations.*lacks question_ids"):
        chat_env(gym.make("CartPole-v1"))


def test_copies_are_made_by_the_spec(chat_envs):
    env = gym.make("GenomeToolSubset-v0", split="dev", prompt_bases=10)
    make = env_maker(env)
    copies = make(), make()
    assert copies[0] is not copies[1] is not env
    assert copies[0].unwrapped.split == "dev" and copies[0].unwrapped.prompt_bases == 10


def test_copies_of_an_unregistered_environment_are_deep(chat_envs):
    env = chat_envs.Conversation(chat_envs.turns_of_tools(0), tasks={"a": "A?"})
    copy = env_maker(env)()
    assert copy is not env and copy.tasks == env.tasks and copy.tasks is not env.tasks


def test_an_environment_that_cannot_be_copied_is_told_what_to_do(chat_envs):
    env = chat_envs.Conversation(chat_envs.turns_of_tools(0))
    env.lock = threading.Lock()
    with pytest.raises(UsageError, match="cannot be copied.*gym.make, or give a function"):
        env_maker(env)()


def test_a_function_is_taken_as_it_is():
    def make():
        return gym.make("CartPole-v1")

    assert env_maker(make) is make
