import concurrent.futures
import pickle

import gymnasium as gym
import pytest
import toolcredit  # noqa: F401 - registers the ids
from toolcredit.envs.genome.questions import PublicQuestion
from toolcredit.envs.genome.reasoners import Reasoner, make_reasoner
from toolcredit.envs.genome.tools.base import Evidence
from toolcredit.errors import EndpointError

QUESTION = PublicQuestion("What is it?", ("promoter", "enhancer", "neither"), "ACGT" * 10)
BLOCK = Evidence("motif_scanner", "Motifs", "TATA box at 12")


def make(server, **arguments):
    return make_reasoner({"name": "chat", "model": "fake", "base_url": server.url, **arguments})


def test_it_asks_greedily_and_reads_one_letter(chat_server, fake_chat):
    chat_server.script(fake_chat.reply("B"), fake_chat.reply("I cannot tell."))
    reasoner = make(chat_server)
    assert reasoner.answer(QUESTION, [BLOCK]).choice == 1
    unread = reasoner.answer(QUESTION, [])
    assert (unread.choice, unread.raw) == (None, "I cannot tell.")
    first, second = chat_server.bodies
    assert first["temperature"] == 0 and first["model"] == "fake"
    assert "TATA box at 12" in first["messages"][1]["content"]
    assert "TATA" not in second["messages"][1]["content"]


def test_a_failing_endpoint_is_no_answer(chat_server, fake_chat):
    chat_server.script(fake_chat.wrong_content_type())
    with pytest.raises(EndpointError):
        make(chat_server).answer(QUESTION, [])


def test_parameters_replace_and_remove_defaults(chat_server):
    params = {"temperature": None, "max_tokens": None, "max_completion_tokens": 64}
    make(chat_server, params=params).answer(QUESTION, [])
    assert set(chat_server.bodies[0]) == {"model", "messages", "max_completion_tokens"}


def test_the_version_follows_model_prompt_and_parameters(chat_server):
    versions = {
        make(chat_server, **a).version for a in ({}, {"model": "other"}, {"params": {"top_k": 1}}, {"bases": 60})
    }
    assert len(versions) == 4
    assert make(chat_server).version == make(chat_server, in_flight=3, timeout=5.0).version


def test_it_is_a_reasoner_that_pickles_and_keeps_to_its_limit(chat_server, fake_chat):
    chat_server.script(fake_chat.together(chat_server, 5, fake_chat.reply("C")))
    reasoner = pickle.loads(pickle.dumps(make(chat_server, in_flight=5)))
    assert isinstance(reasoner, Reasoner) and reasoner.concurrency == 5
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert {a.choice for a in pool.map(lambda _: reasoner.answer(QUESTION, []), range(20))} == {2}
    assert chat_server.peak_in_flight == 5


def test_in_the_environment_a_failure_gives_no_reward(chat_server, fake_chat):
    reasoner = {"name": "chat", "model": "fake", "base_url": chat_server.url, "max_retries": 0}
    env = gym.make("GenomeToolSubset-v0", reasoner=reasoner, disable_env_checker=True)
    chat_server.script(fake_chat.status(500), fake_chat.reply("no idea"))
    env.reset(seed=0)
    with pytest.raises(EndpointError):
        env.step(1)
    _, reward, terminated, _, info = env.step(1)
    assert terminated and reward < 0 and info["correct"] is False
