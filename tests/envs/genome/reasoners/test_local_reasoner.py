import pickle

import pytest
from toolcredit.envs.genome.questions import PublicQuestion, load_questions
from toolcredit.envs.genome.reasoners import Reasoner, make_reasoner
from toolcredit.envs.genome.reasoners import local as local_reasoner
from toolcredit.envs.genome.tools.base import Evidence
from toolcredit.errors import AssetError, ConfigError, UnknownNameError, UsageError

pytest.importorskip("torch")
pytest.importorskip("transformers")

QUESTION = PublicQuestion("What is it?", ("promoter", "enhancer", "neither"), "ACGT" * 10)


def make(**arguments):
    return make_reasoner({"name": "local", "model": "tiny", "device": "cpu", **arguments})


def test_letters_give_an_answer_that_repeats():
    reasoner = make()
    answers = [reasoner.answer(QUESTION, [Evidence("t", "Motifs", "TATA box")]) for _ in range(2)]
    assert answers[0] == answers[1] and answers[0].choice in (0, 1, 2)
    assert answers[0].raw == "ABC"[answers[0].choice]
    assert isinstance(reasoner, Reasoner) and reasoner.name == "local"


def test_letters_are_judged_against_their_probability_without_content(monkeypatch):
    logprobs = {"N/A": [-0.1, -3.0, -4.0], "What": [-0.2, -1.0, -3.9]}

    def fixed(self, messages, texts):
        return logprobs["N/A" if "N/A" in messages[1]["content"] else "What"]

    monkeypatch.setattr("toolcredit.llm.local.LocalModel.next_token_logprobs", fixed)
    local_reasoner._letter_bias.cache_clear()
    assert make().answer(QUESTION, []).choice == 1
    local_reasoner._letter_bias.cache_clear()


def test_replies_are_read_as_those_of_an_endpoint(monkeypatch):
    replies = iter(["Answer: C", "nothing to say"])
    monkeypatch.setattr("toolcredit.llm.local.LocalModel.reply", lambda self, messages, max_tokens: next(replies))
    reasoner = make(mode="reply")
    assert [reasoner.answer(QUESTION, []).choice for _ in range(2)] == [2, None]


def test_the_version_follows_model_mode_and_prompt(tmp_path):
    from toolcredit.llm.local import load_local_model

    other = load_local_model("tiny", device="cpu", seed=1)
    other.model.save_pretrained(tmp_path)
    other.tokenizer.save_pretrained(tmp_path)
    versions = {make(**a).version for a in ({}, {"mode": "reply"}, {"bases": 60}, {"dtype": "bfloat16"})}
    versions.add(make(model=str(tmp_path), mode="letter").version)
    assert len(versions) == 5
    assert pickle.loads(pickle.dumps(make())).version == make().version


@pytest.mark.parametrize("mode", ["letter", "reply"])
def test_too_much_evidence_is_cut_evenly(mode):
    reasoner = make(mode=mode, max_tokens=4)
    blocks = [Evidence(f"t{i}", f"Tool {i}", "ACGT" * 1000) for i in range(4)]
    reasoner.answer(QUESTION, blocks)
    model = local_reasoner._load("tiny", "auto", "cpu")
    text = reasoner._fitting(model, QUESTION, blocks)[1]["content"]
    assert text.count("… [cut]") == 4 and all(f"[Tool {i}]" in text for i in range(4))
    short = reasoner._fitting(model, QUESTION, [Evidence("t", "Tool", "ACGT")])[1]["content"]
    assert "[cut]" not in short


def test_a_question_that_does_not_fit_says_so():
    long = PublicQuestion("What is it?", ("a", "b"), "ACGT" * 3000)
    with pytest.raises(UsageError, match="do not fit into the 4096"):
        make().answer(long, [Evidence("t", "Tool", "text")])
    assert make(bases=60).answer(long, []).choice in (0, 1)


def test_arguments(tmp_path, monkeypatch):
    with pytest.raises(UnknownNameError, match="mode of the local reasoner 'letters'.*did you mean 'letter'"):
        make(mode="letters")
    with pytest.raises(ConfigError, match="model=''"):
        make_reasoner("local:")
    monkeypatch.setenv("TOOLCREDIT_HOME", str(tmp_path))
    with pytest.raises(AssetError, match="toolcredit data install smollm2"):
        make_reasoner("local:smollm2")


@pytest.mark.smollm2
def test_smollm2_answers_an_embedded_question(smollm2_path):
    reasoner = make_reasoner("local:smollm2")
    question = next(question for question in load_questions() if question.split == "test").public
    assert reasoner.answer(question, []).choice in range(len(question.choices))
    assert reasoner.version.startswith("smollm2 ")
