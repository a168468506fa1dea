"""Where rollouts choose a tool: found by the sampled ids, refused where the ids do not decide it."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import toolcredit  # noqa: F401 - registers the environments

torch = pytest.importorskip("torch", reason="needs the extra 'train'")

from toolcredit.agents.branching import Branch, roll_out  # noqa: E402
from toolcredit.agents.chat_template import ChatTemplate  # noqa: E402
from toolcredit.agents.choice_points import ChoiceFinder  # noqa: E402
from toolcredit.agents.episode import Start  # noqa: E402
from toolcredit.agents.group_methods import SLCAExact  # noqa: E402
from toolcredit.agents.trajectory import SampledTurn, TrajectoryBuilder  # noqa: E402
from toolcredit.errors import UsageError  # noqa: E402
from toolcredit.llm.local import load_local_model  # noqa: E402

NAMES = ("home", "phone", "list_flights", "list_hotels")
CALL = '<tool_call>\n{"name": "%s", "arguments": {"person": "Ada"}}\n</tool_call>'


@pytest.fixture(scope="module")
def local():
    return load_local_model("tiny-chat")


@pytest.fixture(scope="module")
def finder(local):
    return ChoiceFinder(ChatTemplate(local.tokenizer, "compact"))


def rollout(local, *turns, tools=NAMES):
    """Turns as text or as ids; all but the last one hold calls."""
    builder = TrajectoryBuilder()
    for number, turn in enumerate(turns):
        builder.add_environment(local.tokenizer.encode(f"user {number}\n"))
        ids = local.tokenizer.encode(turn) if isinstance(turn, str) else turn
        ids = (*ids, local.tokenizer.eos_token_id)
        sampled = SampledTurn(tuple(ids), (-0.5,) * len(ids))
        builder.add_turn(sampled, message=number, calls=number < len(turns) - 1, reward=0.0)
    return builder.build(tools=tools)


def drawn(choices):
    return [None if c.drawn is None else c.names[c.drawn] for c in choices]


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (CALL % "phone", ["phone"]),
        ("Let me see.\n" + CALL % "list_hotels", ["list_hotels"]),
        (CALL % "home" + "\n" + CALL % "phone", ["home", "phone"]),
        ('<tool_call>{"name":"home","arguments":{}}</tool_call>', ["home"]),
        ('[TOOL_CALLS][{"name": "home", "arguments": {}}, {"name": "phone", "arguments": {}}]', ["home"]),
        ('<|python_tag|>{"name": "home", "parameters": {}}', ["home"]),
        (CALL % "garage", [None]),  # no tool
        ('<tool_call>\n{"name": "home', ["home"]),  # cut off: decided all the same, for what follows does not matter
        ('<tool_call>\n{"name": "homes", "arguments": {}}\n</tool_call>', ["home"]),  # likewise
        ("<think>\n" + CALL % "home" + "\n</think>\n" + CALL % "phone", ["phone"]),
        ('<tool_call>\n{"arguments": {"name": "home"}, "name": "phone"}\n</tool_call>', []),
        ('<tool_call>\n{"name": "home", "arguments": {"text": "{\\"name\\": \\"phone\\"}"}}\n</tool_call>', ["home"]),
        ("home", []),
    ],
)
def test_names_are_found_where_a_call_begins(local, finder, turn, expected):
    found = finder.find(rollout(local, turn, "All done."))
    assert drawn(found) == expected
    for choice in found:
        assert choice.member == 0 and choice.step == 0 and choice.names == NAMES


def test_a_choice_is_the_ids_before_the_name_and_the_ids_of_every_name(local, finder):
    t = rollout(local, CALL % "list_flights", CALL % "home", "Done.")
    first, second = finder.find(t, member=3)
    assert (first.step, second.step, first.member) == (0, 1, 3)
    assert local.tokenizer.decode(t.ids[: first.start]).endswith('<tool_call>\n{"name": "')
    assert local.tokenizer.decode(t.ids[slice(*first.tokens())]) == "list_flights"
    assert [local.tokenizer.decode(c) for c in first.candidates] == list(NAMES)
    assert first.context(t) != second.context(t)
    assert first.context(t) == finder.find(rollout(local, CALL % "phone", "Done."))[0].context(
        rollout(local, CALL % "phone", "Done.")
    )


def test_the_last_turn_is_a_choice_only_if_it_holds_a_call(local, finder):
    assert drawn(finder.find(rollout(local, CALL % "home"))) == []  # said to be no call: it is the summary


def test_an_unusual_spelling_of_a_name_stays_sampled(local, finder):
    before = local.tokenizer.encode('<tool_call>\n{"name": "')
    letters = [i for letter in "home" for i in local.tokenizer.encode(letter)]
    after = local.tokenizer.encode('", "arguments": {}}\n</tool_call>')
    assert drawn(finder.find(rollout(local, [*before, *local.tokenizer.encode("home"), *after], "Done."))) == ["home"]
    assert drawn(finder.find(rollout(local, [*before, *letters, *after], "Done."))) == [None]


def test_names_whose_tokens_do_not_stand_apart_are_no_candidates(local, finder):
    opening = '<tool_call>\n{"name": "'
    assert len(finder.candidates(opening, NAMES)) == 4
    assert finder.candidates(opening, ("list", "list_flights")) == ()  # one begins the other
    assert finder.candidates(opening, ("home", 'ho"me')) == ()  # no name that JSON writes as it is
    found = finder.find(rollout(local, CALL % "list", "Done.", tools=("list", "list_flights")))
    assert drawn(found) == [None] and found[0].candidates == ()
    assert finder.find(rollout(local, CALL % "home", "Done.", tools=("home",))) == []  # nothing to choose


def test_a_token_that_joins_a_quote_with_a_name_leaves_the_choice_sampled(local):
    other = load_local_model("tiny-chat")
    other.tokenizer.add_tokens(['home"', '"phone'], special_tokens=False)
    finder = ChoiceFinder(ChatTemplate(other.tokenizer, "compact"))
    opening = '<tool_call>\n{"name": "'
    assert finder.candidates(opening, ("home", "job")) == ()
    assert finder.candidates(opening, ("phone", "job")) == ()
    assert drawn(finder.find(rollout(other, CALL % "phone", "Done."))) == [None]
    plain = local.tokenizer.encode(CALL % "phone")
    assert drawn(finder.find(rollout(other, plain, "Done.", tools=("job", "king")))) == [None]


# -- continuations -----------------------------------------------------------------------------------------------


def tiny_learner(env, **more):
    policy = {"model": "tiny-chat", "weights": "full", "template": "compact"}
    settings = {"policy": policy, "max_new_tokens": 40, "max_turns": 3, "kl": 0.0, "options": {"scale": False}}
    learner = SLCAExact(settings | more)
    learner.bind(env)
    learner.prepare(env)
    return learner


def written(learner, *texts):
    """Turns as if the policy had sampled them."""
    tokenizer = learner.backend.tokenizer
    rows = [(*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id) for text in texts]
    return tuple(SampledTurn(ids, (-0.1,) * len(ids)) for ids in rows)


def gold_rollouts(learner, env, number=2):
    """Rollouts that make the gold calls of the first tasks."""
    starts = []
    inner = env.unwrapped
    for task in inner.task_ids[:number]:
        gold = inner.gold(task)
        calls = [{"type": "function", "function": call} for call in gold["plans"][0][0]]
        call = inner.turn_text({"role": "assistant", "tool_calls": calls})
        starts.append(Start(task, written(learner, call, gold["reply"])))
    return [list(group) for group in learner.rollouts.collect(starts)]


def test_on_sgls_exchanged_names_are_scored_by_the_environment(chat_envs):
    env = gym.make("SGLSToolCallingReplay-v0", tier="easy")
    learner = tiny_learner(env, choice_values="counterfactual")
    groups = gold_rollouts(learner, env)
    for pairs, (t,) in zip(learner.supplements.choices.find(groups, seed=0), groups, strict=True):
        ((choice, point),) = pairs
        assert choice.names == t.tools and len(t.tools) > 1
        assert point.values[point.drawn] == t.rewards["process"] == pytest.approx(1)
        assert (np.delete(point.values, point.drawn) < 0.8).all()
        assert np.exp(point.logprobs).sum() < 1


def test_on_sgls_names_that_nobody_drew_are_rolled_out(chat_envs):
    env = gym.make("SGLSToolCallingReplay-v0", tier="easy")
    learner = tiny_learner(env)
    groups = gold_rollouts(learner, env)
    ((choice, point),) = learner.supplements.choices.find(groups[:1], seed=5)[0]
    assert np.isfinite(point.values).all() and point.values[point.drawn] == pytest.approx(1)
    counts = learner.supplements.choices.take_counts()
    assert counts["branch_episodes"] == len(choice.names) - 1 and counts["branch_tokens"] > 0
    both = learner.supplements.choices.find(groups, seed=5)
    np.testing.assert_array_equal(both[0][0][1].values, point.values)  # whatever else is rolled out


def test_a_rollout_that_omits_the_call_has_no_choice_and_falls_under_the_guard(chat_envs):
    env = gym.make("SGLSToolCallingReplay-v0", tier="easy")
    learner = tiny_learner(env, choice_values="counterfactual")
    ((called,),) = gold_rollouts(learner, env, number=1)
    ((silent,),) = learner.rollouts.collect([Start(called.task_id, written(learner, "I do not know."))])
    group = [called, silent]
    (pairs,) = learner.supplements.choices.find([group], seed=0)
    assert [choice.member for choice, _ in pairs] == [0]
    credit = learner.estimate(group, choices=[point for _, point in pairs])
    assert credit.channels["tool"].absent == (1,) and credit.channels["tool"].dead
    assert credit.choices[0].any()  # one member that calls is enough: the other names were scored as well
    assert (credit.tokens[1][silent.trainable] < 0).all()  # −0.5 against the summary of the one that called


def test_a_name_without_any_score_leaves_its_choice_sampled(chat_envs):
    env = gym.make("SGLSToolCallingReplay-v0", tier="easy")
    learner = tiny_learner(env)
    ((t,),) = gold_rollouts(learner, env, number=1)
    unscored = replace(t, rewards={**t.rewards, "process": None})
    choices = learner.supplements.choices
    ((_, point),) = choices.find([[unscored]], seed=0)[0]
    assert np.isfinite(point.values).all()  # its own name is rolled out as well
    assert choices.take_counts()["branch_episodes"] == len(t.tools)
    choices._continued = lambda branches, seed: [[] for _ in branches]
    ((_, point),) = choices.find([[t]], seed=0)[0]
    assert np.isnan(point.values).all() and point.drawn is not None
    credit = learner.estimate([t, t], choices=[point])
    assert credit.channels["choices"].excluded == (0,) and not credit.choices[0].any()


def test_a_continuation_begins_with_what_it_was_given_and_stays_within_the_turns_limit(chat_envs):
    env = gym.make("SGLSToolCallingReplay-v0", tier="easy")
    learner = tiny_learner(env)
    ((t,),) = gold_rollouts(learner, env, number=1)
    position = t.prompt_length + 4
    own = int((t.step == 0).sum())
    for limit in (3, 5, 8):
        branch = Branch(t, position, (7, 8), key=(limit,))
        ((found,),) = roll_out(learner.rollouts, [branch], seed=0, temperature=1.0, max_new_tokens=limit)
        given = [*t.ids[:position], 7, 8][: t.prompt_length + limit]
        assert found.ids[: len(given)].tolist() == given
        assert (found.step == 0).sum() <= limit
    later = Branch(t, int((t.step == 1).argmax()), key=(0,))
    ((found,),) = roll_out(learner.rollouts, [later], seed=0, temperature=1.0, max_new_tokens=4)
    assert found.ids[: later.position].tolist() == t.ids[: later.position].tolist() and (found.step == 0).sum() == own


def test_an_environment_that_answers_otherwise_is_refused(chat_envs):
    numbers = iter(range(100))
    env = chat_envs.Conversation(
        lambda task, turn, text: chat_envs.tool_answers(f"answer {next(numbers)}") if turn < 1 else None
    )
    learner = tiny_learner(env, max_new_tokens=4)
    ((t,),) = learner.rollouts.collect(["a"], 1, max_new_tokens=4)
    with pytest.raises(UsageError, match="answers the same turns alike"):
        roll_out(
            learner.rollouts,
            [Branch(t, int((t.step == 1).argmax()), key=(0,))],
            seed=0,
            temperature=1.0,
            max_new_tokens=4,
        )
