"""Acting turn by turn: the tokens of a rollout, the same answer to the same question, new conversations."""

import pytest
from toolcredit.agents.backends.local import LocalBackend
from toolcredit.agents.chat_actor import ChatActor
from toolcredit.agents.chat_template import ChatTemplate
from toolcredit.agents.rollout import RolloutEngine
from toolcredit.errors import InfrastructureError
from toolcredit.llm.local import load_local_model
from toolcredit.llm.tiny import tiny_tokenizer


@pytest.fixture(scope="module")
def tiny():
    return load_local_model("tiny", device="cpu")


def actor_on(backend, **options):
    return ChatActor(backend, ChatTemplate(backend.tokenizer, "compact", backend.stop_ids), **options)


def play(actor, env, task):
    observation, info = env.reset(options={"task_id": task})
    texts, done = [], False
    while not done:
        texts.append(actor.act(observation, info))
        observation, _, terminated, truncated, info = env.step(texts[-1])
        done = terminated or truncated
    return texts


def test_it_says_what_a_greedy_rollout_says_and_computes_no_token_twice(tiny, chat_envs):
    make = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(2))  # noqa: E731
    backend = LocalBackend(tiny, slots=1)
    ((t,),) = RolloutEngine(backend, make, template="compact").collect(["a"], temperature=0, max_new_tokens=6)
    actor = actor_on(backend, max_new_tokens=6)
    texts = play(actor, make(), "a")
    assert texts == [t.messages[turn.message]["content"] for turn in t.turns]
    assert backend.end()["forwarded_tokens"] == len(t) - 1


def test_sampling_is_repeatable_after_reset(tiny, chat_envs):
    make = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(1))  # noqa: E731
    actor = actor_on(LocalBackend(tiny, slots=1), temperature=2.5, max_new_tokens=8)
    runs = []
    for seed in (1, 1, 2):
        actor.reset(seed=seed)
        runs.append(play(actor, make(), "a"))
    assert runs[0] == runs[1] != runs[2]


@pytest.fixture
def scripted(scripted_backend):
    said = []

    def write(episode, turn):
        said.append(f"Turn {len(said)}.")
        return said[-1]

    return scripted_backend.ScriptedBackend(tiny_tokenizer(), write, slots=1)


USER = {"role": "user", "content": "Hello?"}


def test_the_same_observation_gets_the_same_turn(scripted):
    actor = actor_on(scripted)
    assert actor.act([USER], {}) == actor.act([USER], {}) == "Turn 0."
    actor.reset()
    assert actor.act([USER], {}) == "Turn 1."


def test_another_conversation_begins_anew(scripted):
    actor = actor_on(scripted)
    actor.act([USER], {})
    other = [USER, {"role": "assistant", "content": "Somebody else's turn."}, USER]
    actor.act(other, {})
    assert scripted.begun == 2
    assert list(scripted.requests[1].ids) == actor.template.prompt_ids(other)
    actor.act([*other, {"role": "assistant", "content": "Turn 1."}, USER], {})
    assert scripted.begun == 2
    actor.act(
        [*other, {"role": "assistant", "content": "Turn 1."}, USER, {"role": "assistant", "content": "Turn 2."}, USER],
        {"tools": [{"type": "function", "function": {"name": "new"}}]},
    )
    assert scripted.begun == 3, "new tools need a new prompt"


def test_without_room_the_turn_is_empty(scripted):
    scripted.context_length = 20
    assert actor_on(scripted).act([{"role": "user", "content": "Hello? " * 50}], {}) == ""


def test_a_failure_of_the_backend_is_raised(scripted, scripted_backend):
    scripted.write = lambda episode, turn: scripted_backend.failing("down")
    with pytest.raises(InfrastructureError, match="down"):
        actor_on(scripted).act([USER], {})
