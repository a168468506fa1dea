import copy
import json
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from toolcredit.agents.base import TextBandit, text_bandit
from toolcredit.envs.genome.env import GenomeToolSubsetEnv, MultiBinaryAction, training_reference
from toolcredit.envs.genome.questions import PublicQuestion, Question
from toolcredit.envs.genome.reasoners.base import Answer
from toolcredit.envs.genome.tools.base import MAX_EVIDENCE_CHARACTERS, Evidence
from toolcredit.envs.table import RewardTable, keeps_outcomes
from toolcredit.errors import EndpointError, StaleTableError, TableError, UsageError
from toolcredit.rewards.subset import eq1, subset_sizes

ENV_ID = "GenomeToolSubset-v0"


def describe(id, sequence, answer, split="train", family="sites"):
    return Question(
        id, PublicQuestion("Which site is this?", ("donor", "acceptor", "neither"), sequence), answer, family, split
    )


QUESTIONS = (
    describe("d1", "ACGTACGTACGT" * 10, 0),
    describe("d2", "GGGTTTAAACCC", 1),
    Question("s1", PublicQuestion("Which one is a promoter?", ("ACGT" * 20, "TTTT", "GGCC")), 2, "promoters", "train"),
    describe("t1", "ACCA", 0, split="test"),
)


class Word:
    """A tool that says its word and counts how often it was asked."""

    description = "Says a word."

    def __init__(self, name, version="1"):
        self.name, self.version, self.asked = name, version, 0

    def analyse(self, question):
        self.asked += 1
        return Evidence(self.name, self.name.title(), f"{self.name} of {len(question.choices)} options")


class Counter:
    """A reasoner that chooses the option whose number is the number of blocks; three blocks are unreadable."""

    name, version, concurrency = "counter", "1", 1

    def __init__(self):
        self.seen = []

    def answer(self, question, evidence):
        self.seen.append([block.block() for block in evidence])
        return Answer(len(evidence) if len(evidence) < 3 else None)


@pytest.fixture
def reasoner():
    return Counter()


@pytest.fixture
def make(reasoner):
    def make(**kwargs):
        defaults = {"questions": QUESTIONS, "tools": [Word("alpha"), Word("beta"), Word("gamma")], "reasoner": reasoner}
        return GenomeToolSubsetEnv(**(defaults | kwargs))

    return make


def play(env, question_id, action):
    env.reset(options={"question_id": question_id})
    return env.step(action)


# -------------------------------------------------------------------------------------------------------- one episode


def test_one_episode(make, reasoner):
    env = make()
    observation, info = env.reset(options={"question_id": "d2"})
    assert observation == (
        "Which site is this?\n\nSequence: GGGTTTAAACCC\n\nOptions:\nA) donor\nB) acceptor\nC) neither"
    )
    assert info == {"id": "d2", "family": "sites", "split": "train", "shape": "describe"}
    after, reward, terminated, truncated, info = env.step(np.int64(4))
    assert after == observation and (terminated, truncated) == (True, False)
    assert info == {
        "id": "d2",
        "family": "sites",
        "split": "train",
        "shape": "describe",
        "subset": ["gamma"],
        "evidence": [{"tool": "gamma", "title": "Gamma", "text": "gamma of 3 options"}],
        "answer": "B",
        "correct": True,
        "rewards": {"correct": 1.0, "parsimony": pytest.approx(0.1 / 3)},
    }
    assert reward == pytest.approx(1 + 0.1 / 3) and json.loads(json.dumps(info, allow_nan=False)) == info
    assert reasoner.seen == [["[Gamma]\ngamma of 3 options"]]


def test_the_reward_is_the_papers_for_every_action(make):
    env = make()
    outcomes = {"d1": 0, "d2": 1, "s1": 2}
    for question_id, answer in outcomes.items():
        correct = [size == answer for size in subset_sizes(3)]
        got = [play(env, question_id, action)[1] for action in range(8)]
        assert got == pytest.approx(eq1(correct, subset_sizes(3), 3).tolist())


def test_an_unreadable_answer_is_wrong(make):
    _, reward, _, _, info = play(make(), "d1", 7)
    assert (info["answer"], info["correct"]) == (None, False) and reward == pytest.approx(-1.1)


def test_a_select_question_shows_the_options_only(make):
    observation, info = make().reset(options={"question_id": "s1"})
    assert observation == f"Which one is a promoter?\n\nOptions:\nA) {'ACGT' * 20}\nB) TTTT\nC) GGCC"
    assert info["shape"] == "select"


@pytest.mark.parametrize(("reward", "asked"), [("eq1", 1), ("differential", 2), ("vista", 2)])
def test_counterfactual_rewards_also_ask_without_tools(make, reward, asked):
    env = make(reward=reward)
    _, value, _, _, info = play(env, "d2", 1)  # none: A, wrong; one tool: B, right
    assert env.reasoner_calls == asked and info["correct"]
    assert value == pytest.approx({"eq1": 1 + 0.1 / 3, "differential": 1.0, "vista": 1.0}[reward])
    assert sum(info["rewards"].values()) == value


def test_a_reward_of_ones_own_sees_all_outcomes(make):
    env = make(reward=lambda correct, sizes, n, parsimony: correct * 10 + sizes - n)
    assert play(env, "d2", 1)[1] == 8.0 and env.reasoner_calls == 8
    assert play(env, "d2", 7)[1] == 0.0 and env.reasoner_calls == 8


def test_known_answers_are_not_asked_for_again(make, reasoner):
    tools = [Word("alpha"), Word("beta")]
    env = make(tools=tools)
    for _ in range(5):
        for action in range(4):
            play(env, "d1", action)
    assert env.reasoner_calls == len(reasoner.seen) == 4 and [tool.asked for tool in tools] == [1, 1]


def test_returned_objects_are_fresh(make):
    env = make()
    first = play(env, "d1", 3)[4]
    first["evidence"].clear()
    first["rewards"]["correct"] = 9
    again = play(env, "d1", 3)[4]
    assert len(again["evidence"]) == 2 and again["rewards"]["correct"] == -1.0


def test_render(make):
    env = make(render_mode="ansi")
    assert env.render() is None
    env.reset(options={"question_id": "d2"})
    assert env.render().endswith("C) neither")
    env.step(1)
    assert env.render().endswith("Tools: alpha\n\n[Alpha]\nalpha of 3 options\n\nAnswer: B) acceptor (right)")
    play(env, "d2", 0)
    assert env.render().endswith("Tools: none\n\n(no evidence)\n\nAnswer: A) donor (wrong)")
    play(env, "d2", 7)
    assert env.render().endswith("Answer: not readable (wrong)")
    assert make().render() is None


# ------------------------------------------------------------------------------------------------- resetting, choosing


def test_questions_are_drawn_uniformly_from_the_split(make):
    env = make()
    env.reset(seed=0)
    drawn = [env.reset()[1]["id"] for _ in range(600)]
    assert {id: drawn.count(id) for id in set(drawn)} == {id: pytest.approx(200, abs=50) for id in ("d1", "d2", "s1")}
    assert make(split="test").question_ids == ("t1",) and make(split="all").question_ids == ("d1", "d2", "s1", "t1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"question": "d1"}, "unknown reset option 'question': did you mean 'question_id'"),
        ({"question_id": "d9"}, "no question 'd9' in the split 'train' of 3 questions"),
        ({"question_id": "t1"}, "it is in the split 'test'"),
        ({"question_id": 1}, "no question 1"),
        ({"question_id": ["d1"]}, "no question"),
    ],
)
def test_wrong_reset_options(make, options, message):
    with pytest.raises(UsageError, match=message):
        make().reset(options=options)


@pytest.mark.parametrize("action", [-1, 8, 1.0, "1", None, [1, 0, 0]])
def test_wrong_actions(make, action):
    env = make()
    env.reset()
    with pytest.raises(UsageError, match="an integer from 0 to 7, got"):
        env.step(action)


def test_an_episode_has_one_step(make):
    env = make()
    with pytest.raises(ResetNeeded):
        env.step(0)
    play(env, "d1", 0)
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"split": "tests"}, "unknown split 'tests': did you mean 'test'"),
        ({"split": "dev"}, r"no question in the split 'dev': the questions have \['test', 'train'\]"),
        ({"tools": []}, "a list of 1 to 16 tools"),
        ({"tools": "alpha"}, "a list of 1 to 16 tools, got 'alpha'"),
        ({"tools": ["motif_scaner"]}, "unknown tool 'motif_scaner': did you mean 'motif_scanner'"),
        ({"tools": [Word("alpha"), Word("alpha")]}, "each tool may be given once, got alpha, alpha"),
        ({"reasoner": "oracle"}, "oracle"),
        ({"reward": "eq2"}, "unknown reward 'eq2': did you mean 'eq1'"),
        ({"parsimony": 1}, "parsimony must be a number from 0 to below 1, got 1"),
        ({"parsimony": float("nan")}, "got nan"),
        ({"parsimony": "0.1"}, "got '0.1'"),
        ({"parsimony": "a tenth"}, "got 'a tenth'"),
        ({"parsimony": None}, "got None"),
        ({"prompt_bases": 0}, "prompt_bases must be None or an integer of at least 1, got 0"),
        ({"prompt_bases": 60.5}, "got 60.5"),
        ({"render_mode": "human"}, "render_mode must be None or 'ansi', got 'human'"),
        ({"questions": "no/such/file.jsonl"}, "no/such/file.jsonl"),
        ({"table": "no/such/table.parquet"}, "there is no reward table no/such/table.parquet"),
    ],
)
def test_wrong_arguments_are_named(make, kwargs, message):
    with pytest.raises(UsageError, match=message):
        make(**kwargs)


# -------------------------------------------------------------------------------------------- what fails on the way


def test_a_failing_endpoint_gives_no_reward_and_the_step_can_be_repeated(make, reasoner):
    env = make()
    env.reset(options={"question_id": "d2"})
    answer, reasoner.answer = reasoner.answer, lambda *_: (_ for _ in ()).throw(EndpointError("down"))
    with pytest.raises(EndpointError, match="down"):
        env.step(1)
    reasoner.answer = answer
    assert env.step(1)[4]["correct"]


def test_a_tool_that_breaks_is_evidence_of_its_failure(make, reasoner):
    broken, long = Word("broken"), Word("long")
    broken.analyse = lambda question: 1 / 0
    long.analyse = lambda question: Evidence("long", "Long", "x" * 10**6)
    _, _, _, _, info = play(make(tools=[broken, long]), "d1", 3)
    assert info["evidence"][0]["text"] == "The tool failed: ZeroDivisionError: division by zero"
    assert len(info["evidence"][1]["text"]) == MAX_EVIDENCE_CHARACTERS


def test_a_tools_endpoint_failure_is_a_failure(make):
    tool = Word("remote")
    tool.analyse = lambda question: (_ for _ in ()).throw(EndpointError("gone"))
    with pytest.raises(EndpointError, match="gone"):
        play(make(tools=[tool]), "d1", 1)


def test_a_reasoner_that_names_no_option_is_at_fault(make, reasoner):
    reasoner.answer = lambda *_: Answer(3)
    with pytest.raises(UsageError, match="counter answered with choice 3 of 3"):
        play(make(), "d1", 0)


# --------------------------------------------------------------------------------------------------------- text bandit


def test_it_is_a_text_bandit_and_an_outcome_bandit(make):
    env = make()
    assert isinstance(env, TextBandit) and keeps_outcomes(env) and text_bandit(env) is env
    assert env.malformed_reward == pytest.approx(-1.1) and make(reward="vista").malformed_reward == -0.5
    assert env.tool_descriptions() == {name: "Says a word." for name in ("alpha", "beta", "gamma")}


def test_the_policy_prompt(make):
    env = make(prompt_bases=6)
    system, user = env.policy_messages(*env.reset(options={"question_id": "d2"}))
    assert system == {
        "role": "system",
        "content": "You are an expert at selecting tools for genomic reasoning. "
        "You have access to 3 tools, indexed 0 to 2.",
    }
    assert user["role"] == "user"
    assert user["content"] == (
        "Tools:\n0: type1 (Letter)\n1: type2 (Letter)\n2: type3 (Letter)\n\n"
        "Question: Which site is this?\n\nSequence: TTTAAA\n\nOptions:\nA) donor\nB) acceptor\nC) neither\n\n"
        "Which tools help to answer the question? Give a comma-separated list of their indices in <answer></answer>, "
        "empty if none."
    )
    options = env.policy_messages(*env.reset(options={"question_id": "s1"}))[1]["content"]
    assert "A) CGTACG\nB) TTTT\nC) GGCC\n" in options
    assert not {"alpha", "beta", "gamma", "sites", "promoters"} & set(options.lower().split())


# ---------------------------------------------------------------------------------------------------------- the table


def test_answers_from_a_table_are_those_of_the_reasoner(make, reasoner, tmp_path):
    live = make(reward="differential")
    for table in (RewardTable.build(make(split="all")), RewardTable.build(make(split="all"), tmp_path / "t.parquet")):
        env, calls = make(reward="differential", table=table), len(reasoner.seen)
        assert (table.rewards_for(env) == RewardTable.build(env).rewards_for(env)).all()
        assert len(reasoner.seen) == calls and env.reasoner_calls == 0
        for question_id in live.question_ids:
            for action in range(8):
                mine, its = play(live, question_id, action), play(env, question_id, action)
                assert its[1] == mine[1] and its[4] == mine[4] | {"evidence": None}
    assert GenomeToolSubsetEnv(QUESTIONS, "test", env._tools_from, reasoner, table=str(tmp_path / "t.parquet"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tools": [Word("alpha"), Word("beta"), Word("delta")]}, "tools: table 'alpha, beta, gamma'.*delta"),
        ({"tools": [Word("alpha"), Word("beta", "2"), Word("gamma")]}, "tool beta: table '1', environment '2'"),
        ({"tools": [Word("beta"), Word("alpha"), Word("gamma")]}, "environment 'beta, alpha, gamma'"),
        ({"tools": [Word("alpha")]}, "table: 8 actions with outcomes, environment: 2 actions"),
    ],
)
def test_a_table_of_other_tools_is_refused(make, change, message):
    table = RewardTable.build(make())
    with pytest.raises(StaleTableError, match=message):
        make(table=table, **change)


def test_a_table_of_another_reasoner_is_refused(make):
    table, other = RewardTable.build(make()), Counter()
    other.version = "2"
    with pytest.raises(StaleTableError, match="reasoner: table 'counter 1', environment 'counter 2'"):
        make(table=table, reasoner=other)


def test_a_question_that_is_not_in_the_table_is_named(make):
    env = make(table=RewardTable.build(make()), split="test")
    with pytest.raises(TableError, match="lacks 1 of 1 keys"):
        play(env, "t1", 0)
    with pytest.raises(StaleTableError, match="'t1'"):
        env.table.rewards_for(env)


def test_a_failed_outcome_of_a_table_has_no_reward(make, reasoner):
    answer = reasoner.answer
    reasoner.answer = lambda q, e: answer(q, e) if len(e) < 2 else (_ for _ in ()).throw(EndpointError("down"))
    env = make(table=RewardTable.build(make()))
    with pytest.raises(TableError, match="d1, <answer>0,1</answer>: this outcome failed"):
        play(env, "d1", 3)
    assert play(env, "d1", 1)


def test_the_same_question_in_other_words_of_its_sequence_is_found(make):
    table = RewardTable.build(make())
    twin = (describe("other", "gggtttaaaccc\n", 2),)
    assert make(questions=twin, table=table, tools=[Word("alpha"), Word("beta"), Word("gamma")]).reset()
    assert play(make(questions=twin, table=table), "other", 3)[4]["correct"]


# ------------------------------------------------------------------------------------------------------- environment


def test_the_reference_is_the_training_split(make):
    reference = training_reference(QUESTIONS)
    assert reference.records == (("ACGTACGTACGT" * 10, "donor"), ("GGGTTTAAACCC", "acceptor"))
    assert reference.name == "training split (2 sequences)"
    assert reference.digest == training_reference(QUESTIONS[:3]).digest != training_reference(QUESTIONS[1:]).digest


def test_multi_binary_actions(make):
    env = MultiBinaryAction(make())
    assert env.action_space == gym.spaces.MultiBinary(3)
    env.reset(options={"question_id": "d1"})
    assert env.step(np.array([1, 0, 1], np.int8))[4]["subset"] == ["alpha", "gamma"]
    env.reset()
    for wrong in ([1, 0], [0, 1, 2], 3):
        with pytest.raises(UsageError, match="3 zeros and ones"):
            env.step(wrong)
    with pytest.raises(UsageError, match=r"2\*\*n actions"):
        MultiBinaryAction(env)


def test_multi_binary_environments_can_be_made_again():
    env = MultiBinaryAction(gym.make(ENV_ID))
    twin = env.spec.from_json(env.spec.to_json()).make()
    assert isinstance(twin, MultiBinaryAction) and twin.action_space == env.action_space


def test_a_copy_goes_on_as_the_original_would(make):
    env = make()
    env.reset(seed=5)
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        ids = [copy.deepcopy(twin).reset()[1]["id"] for _ in range(3)]
        assert len(set(ids)) == 1
        assert twin.step(1)[1] == copy.deepcopy(env).step(1)[1]


def test_check_env_with_every_kind_of_argument(make, recwarn):
    kwargs = {
        "tools": ["sequence_statistics", "splice_analyzer"],
        "split": "dev",
        "reward": "differential",
        "prompt_bases": 60,
        "render_mode": "ansi",
    }
    env = gym.make(ENV_ID, **kwargs)
    check_env(env.unwrapped)
    again = env.spec.from_json(env.spec.to_json()).make()
    assert again.unwrapped.versions == env.unwrapped.versions
    assert again.reset(seed=1) == env.reset(seed=1)
    assert again.step(3) == env.step(3)
    assert not recwarn.list


def test_a_tool_that_gives_no_evidence_has_failed(make):
    silent = Word("silent")
    silent.analyse = lambda question: None
    _, _, _, _, info = play(make(tools=[silent]), "d1", 1)
    assert info["evidence"][0]["text"].startswith("The tool failed: AttributeError")


def test_a_table_with_an_option_that_the_question_lacks_is_refused(make):
    table = RewardTable.build(make())
    table.rows.column("values")[:] = 7
    with pytest.raises(TableError, match="has the option 7 of 3"):
        play(make(table=table), "d1", 1)
