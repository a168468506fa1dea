"""The loop of the rollout engine under a scripted policy: order, threads, limits, failures, the contract."""

import time

import numpy as np
import pytest
from toolcredit.agents.collected import Failure
from toolcredit.agents.episode import Start
from toolcredit.agents.rollout import RolloutEngine
from toolcredit.agents.trajectory import SampledTurn, Segment
from toolcredit.errors import ConfigError, EndpointError, InfrastructureError, UnknownNameError, UsageError
from toolcredit.llm.tiny import tiny_tokenizer

CALL = '<tool_call>\n{"name": "lookup", "arguments": {"word": "a"}}\n</tool_call>'


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def scripted(tokenizer, scripted_backend):
    """Makes a scripted backend: `scripted(write, slots=…)`."""
    return lambda write=lambda episode, turn: "Fine.", **options: scripted_backend.ScriptedBackend(
        tokenizer, write, **options
    )


# ---- the loop (a scripted backend)


def test_members_of_a_group_get_seeds_of_their_own_and_one_prompt(scripted, chat_envs):
    seeds = []

    class Seeded(chat_envs.Conversation):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed, options=options)

    engine = RolloutEngine(scripted(), lambda: Seeded(chat_envs.turns_of_tools(0)))
    engine.collect(["a", "b"], 3, seed=1)
    assert len(set(seeds)) == 6
    first, again = sorted(seeds), []
    seeds.clear()
    engine.collect(["b", "a"], 3, seed=1)
    again = sorted(seeds)
    assert first == again


def test_a_group_whose_prompts_differ_is_refused(scripted, chat_envs):
    counter = iter(range(100))
    moody = {"a": lambda: f"Question {next(counter)}?"}
    engine = RolloutEngine(scripted(), lambda: chat_envs.Conversation(chat_envs.turns_of_tools(0), tasks=moody))
    with pytest.raises(UsageError, match="begin differently"):
        engine.collect(["a"], 2)


def test_environments_that_name_no_tasks_take_seeds(scripted, chat_envs):
    engine = RolloutEngine(scripted(), lambda: chat_envs.Conversation(chat_envs.turns_of_tools(0), tasks=None))
    assert engine.task_ids is None
    groups = list(engine.collect([3, 4], 2))
    assert [t.messages[0]["content"] for t in groups[0]] == [groups[0][0].messages[0]["content"]] * 2
    assert groups[0][0].messages[0] != groups[1][0].messages[0]
    with pytest.raises(UsageError, match="a task is a seed"):
        engine.collect(["a"])


def test_environments_work_in_threads_while_others_are_sampled(scripted, chat_envs):
    """Four slow environments: their steps overlap with each other and with sampling."""
    chat_envs.Conversation.peak = 0
    backend = scripted(slots=4)
    env = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(2), delay=lambda task, turn: 0.1)  # noqa: E731
    engine = RolloutEngine(backend, env, rejoin_after=None)
    begin = time.perf_counter()
    rollouts = engine.collect(["a"], 4)
    assert chat_envs.Conversation.peak > 1
    assert time.perf_counter() - begin < 4 * 3 * 0.1
    assert rollouts.stats["waited_seconds"] < rollouts.stats["seconds"]


def test_a_slow_environment_does_not_hold_up_the_others(scripted, chat_envs):
    """With `rejoin_after=None` the quick episodes all end before the slow one does."""
    order = []

    class Logged(chat_envs.Conversation):
        def _step(self, action):
            result = super()._step(action)
            if result[2]:
                order.append(self.task)
            return result

    delay = lambda task, turn: 0.3 if task == "a" else 0.0  # noqa: E731
    env = lambda: Logged(chat_envs.turns_of_tools(1), delay=delay)  # noqa: E731
    RolloutEngine(scripted(slots=2), env, rejoin_after=None).collect(["a", "b", "b", "b"])
    assert order == ["b", "b", "b", "a"]


def test_an_episode_that_ends_makes_room_for_the_next(scripted, chat_envs):
    backend = scripted(slots=2)
    envs = []

    def make():
        envs.append(chat_envs.Conversation(chat_envs.turns_of_tools(1)))
        return envs[-1]

    engine = RolloutEngine(backend, make)
    rollouts = engine.collect(["a", "b"], 3)
    assert [len(g) for g in rollouts] == [3, 3]
    assert len(envs) == 2 and backend.peak <= 2
    assert sorted(backend.released) == list(range(6))
    assert backend.begun == backend.ended == 1
    engine.close()
    assert all(env.closed for env in envs)


def test_requests_hold_everything_before_the_turn(scripted, chat_envs, tokenizer):
    backend = scripted(lambda episode, turn: CALL if turn < 2 else "Done.", slots=1)
    engine = RolloutEngine(backend, lambda: chat_envs.Conversation(chat_envs.turns_of_tools(2)))
    ((t,),) = engine.collect(["a"], temperature=0.5, max_new_tokens=100)
    ids = t.ids.tolist()
    starts = [int(np.flatnonzero(t.step == k)[0]) for k in range(3)]
    assert [list(r.ids) for r in backend.requests] == [ids[:start] for start in starts]
    assert {r.temperature for r in backend.requests} == {0.5}
    assert len({r.seed for r in backend.requests}) == 3
    assert t.policy_version == 7
    assert t.segment[t.trainable].tolist() == [Segment.SUMMARY if k == 2 else Segment.TOOL for k in t.step[t.trainable]]


def test_the_whole_of_a_turn_given_in_part_goes_to_the_environment(scripted, chat_envs, tokenizer):
    seen = []
    answer = lambda task, turn, text: seen.append(text)  # noqa: E731
    head = tokenizer.encode("The answer", add_special_tokens=False)
    start = Start("a", (), SampledTurn(tuple(head), (-0.5,) * len(head)))
    engine = RolloutEngine(scripted(lambda e, t: " is two."), lambda: chat_envs.Conversation(answer))
    ((t,),) = engine.collect([start])
    assert seen == ["The answer is two."]
    assert t.trainable.sum() == len(t.sampled(0).ids) > len(head)


# ---- ends, limits, scores


def test_a_turn_that_is_cut_goes_on_as_it_is_and_its_end_is_not_trained(scripted, chat_envs, tokenizer, caplog):
    backend = scripted(lambda episode, turn: "one two three…" if turn == 0 else "Done.", slots=1)
    engine = RolloutEngine(backend, lambda: chat_envs.Conversation(chat_envs.turns_of_tools(1)))
    rollouts = engine.collect(["a"])
    ((t,),) = rollouts
    cut = t.sampled(0)
    after = int(np.flatnonzero(t.step == 0)[-1]) + 1
    assert cut.clipped and tokenizer.eos_token_id not in cut.ids
    assert t.ids[after] == tokenizer.eos_token_id and not t.trainable[after]
    assert t.messages[1]["content"] == "one two three"
    assert t.clipped and rollouts.stats["clipped_ratio"] == 1.0
    assert "100 % of the episodes were cut" in caplog.text


def test_clipping_is_counted_by_episode(scripted, chat_envs, caplog):
    backend = scripted(lambda episode, turn: "cut…" if episode == 0 else "Fine.", slots=4)
    engine = RolloutEngine(backend, lambda: chat_envs.Conversation(chat_envs.turns_of_tools(3)))
    rollouts = engine.collect(["a"], 4)
    assert rollouts.stats["clipped_ratio"] == 0.25 and "length limit" not in caplog.text


def scored(total):
    return lambda task, texts: (total, {"process": total / 2, "summary": None, "total": total})


def test_the_context_ends_an_episode_with_an_empty_turn_so_that_it_is_scored(scripted, chat_envs):
    backend = scripted(lambda episode, turn: CALL, slots=1, context_length=200)
    texts = []

    def score(task, all_texts):
        texts.extend(all_texts)
        return 0.25, {"total": 0.25}

    answer = lambda task, turn, text: chat_envs.tool_answers("x " * 30) if text else None  # noqa: E731
    engine = RolloutEngine(backend, lambda: chat_envs.Conversation(answer, score), template="compact")
    ((t,),) = engine.collect(["a"])
    assert t.finish_reason == "context" and t.clipped
    assert texts[-1] == "" and texts[0] == CALL
    assert t.rewards == {"total": 0.25} and t.episode_reward == 0.25
    assert int(t.trainable.sum()) == sum(len(t.sampled(k).ids) for k in range(len(t.turns)))
    assert max(len(r.ids) + r.max_new_tokens for r in backend.requests) <= 200
    assert not t.has(Segment.SUMMARY), "all of its turns are calls"


def test_the_engines_own_turn_cap_works_like_that_too(scripted, chat_envs):
    answer = lambda task, turn, text: chat_envs.tool_answers("go on") if text else None  # noqa: E731
    engine = RolloutEngine(scripted(slots=1), lambda: chat_envs.Conversation(answer, scored(0.5)), max_turns=3)
    ((t,),) = engine.collect(["a"])
    assert t.finish_reason == "max_turns" and len(t.turns) == 3 and t.episode_reward == 0.5


@pytest.mark.parametrize(("rule", "last"), [("content", Segment.TOOL), ("position", Segment.SUMMARY)])
def test_a_rollout_that_is_cut_after_a_call(scripted, chat_envs, rule, last):
    """The hazard: the turn cap comes right after a tool call."""
    backend = scripted(lambda episode, turn: CALL, slots=1)
    env = lambda: chat_envs.Conversation(  # noqa: E731
        chat_envs.turns_of_tools(9), cut=lambda task, turn: "turns" if turn == 1 else None
    )
    ((t,),) = RolloutEngine(backend, env, segment_rule=rule).collect(["a"])
    assert t.finish_reason == "turns"
    assert [int(t.segment[t.step == k][0]) for k in range(2)] == [Segment.TOOL, last]


@pytest.mark.parametrize(
    ("text", "extra", "answers", "calls"),
    [
        ("Done.", {}, False, False),
        (CALL, {}, False, True),
        ("<tool_call> broken", {}, False, True),
        (f"<think>{CALL}</think> Done.", {}, False, False),
        (f"<think>no {CALL} yet</think> {CALL}", {}, False, True),
        ("[lookup(word='a')]", {"turn": {"calls": [{"name": "lookup"}]}}, False, True),
        ("lookup", {}, True, True),
        ("Done.", {"turn": {"calls": []}}, False, False),
        ("Done.", {"turn": "odd"}, False, False),
    ],
)
def test_what_counts_as_a_call(scripted, chat_envs, text, extra, answers, calls):
    answer = lambda task, turn, said: chat_envs.tool_answers("x") if answers else []  # noqa: E731
    env = lambda: chat_envs.Conversation(  # noqa: E731
        answer, extra=lambda task, turn: extra, cut=lambda task, turn: "turns"
    )
    ((t,),) = RolloutEngine(scripted(lambda episode, turn: text, slots=1), env).collect(["a"])
    assert t.turns[0].calls is calls
    assert t.has(Segment.SUMMARY) is not calls


def test_scores_keep_their_holes_and_the_total_is_the_return(scripted, chat_envs):
    env = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(1), scored(0.5))  # noqa: E731
    rollouts = RolloutEngine(scripted(), env).collect(["a"], 2)
    assert rollouts[0][0].rewards == {"process": 0.25, "summary": None, "total": 0.5}
    assert rollouts.stats["unscored"] == 2
    plain = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(1), lambda task, texts: (0.75, {}))  # noqa: E731
    ((t,),) = RolloutEngine(scripted(), plain).collect(["a"])
    assert t.rewards == {"total": 0.75} and t.episode_reward == 0.75


# ---- failures


def flaky(chat_envs, **bad):
    """An environment that fails in the second turn of some tasks: by raising, saying so, or hanging."""

    def answer(task, turn, text):
        if turn == 1 and bad.get(task) == "raises":
            raise EndpointError("the mock is down")
        return chat_envs.turns_of_tools(2)(task, turn, text)

    def extra(task, turn):
        said = turn == 1 and bad.get(task) == "says"
        return {"error": {"type": "EndpointError", "message": "judge down"}} if said else {}

    def cut(task, turn):
        return "error" if turn == 1 and bad.get(task) == "says" else None

    def delay(task, turn):
        return 30.0 if turn == 1 and bad.get(task) == "hangs" else 0.0

    return lambda: chat_envs.Conversation(
        answer, lambda task, texts: (0.0, {"total": None}), tasks=("a", "b", "c"), extra=extra, cut=cut, delay=delay
    )


@pytest.mark.parametrize("how", ["raises", "says"])
@pytest.mark.parametrize("rejoin_after", [None, 2])
def test_a_failed_environment_is_dropped_counted_and_listed(scripted, chat_envs, how, rejoin_after):
    engine = RolloutEngine(scripted(), flaky(chat_envs, b=how), rejoin_after=rejoin_after)
    rollouts = engine.collect(["a", "b", "c"], 2)
    assert [len(group) for group in rollouts] == [2, 0, 2]
    assert [(f.task_id, f.member) for f in rollouts.failures] == [("b", 0), ("b", 1)]
    assert all("down" in f.reason for f in rollouts.failures)
    assert rollouts.stats["episodes"] == 4 and rollouts.stats["failed"] == 2


@pytest.mark.parametrize("rejoin_after", [None, 2])
def test_an_environment_that_hangs_fails_after_its_time_and_is_not_used_again(scripted, chat_envs, rejoin_after):
    made = []

    def make(flaky=flaky(chat_envs, b="hangs")):
        made.append(flaky())
        return made[-1]

    engine = RolloutEngine(scripted(slots=1), make, rejoin_after=rejoin_after, env_timeout=0.5)
    begin = time.perf_counter()
    rollouts = engine.collect(["a", "b", "c"])
    assert time.perf_counter() - begin < 20
    assert [len(group) for group in rollouts] == [1, 0, 1]
    assert rollouts.failures == [Failure("b", 0, "the environment did not answer within 0.5 s")]
    assert len(made) == 2


def test_a_failed_turn_is_dropped_counted_and_listed(scripted, scripted_backend, chat_envs):
    write = lambda episode, turn: scripted_backend.failing() if episode == 1 else "Fine."  # noqa: E731
    engine = RolloutEngine(scripted(write), lambda: chat_envs.Conversation(chat_envs.turns_of_tools(1)))
    rollouts = engine.collect(["a"], 3)
    assert [t.member for t in rollouts[0]] == [0, 2]
    assert rollouts.failures == [Failure("a", 1, "the server is down")]


def test_a_prompt_that_leaves_no_room_fails(scripted, chat_envs):
    tasks = {"a": "Short?", "b": "Long? " * 200}
    env = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(0), tasks=tasks)  # noqa: E731
    rollouts = RolloutEngine(scripted(context_length=150), env, template="compact").collect(["a", "b"])
    assert [len(group) for group in rollouts] == [1, 0]
    assert "leaves no room in a context of 150" in rollouts.failures[0].reason


def test_when_all_episodes_fail_there_is_nothing_to_go_on_with(scripted, scripted_backend, chat_envs):
    backend = scripted(lambda episode, turn: scripted_backend.failing())
    engine = RolloutEngine(backend, lambda: chat_envs.Conversation(chat_envs.turns_of_tools(1)))
    with pytest.raises(InfrastructureError, match="all 6 episodes failed; the first one: the server is down"):
        engine.collect(["a", "b"], 3)


def test_a_bug_in_an_environment_is_no_failure_of_the_infrastructure(scripted, chat_envs):
    def answer(task, turn, text):
        raise KeyError("a bug")

    backend = scripted()
    with pytest.raises(KeyError, match="a bug"):
        RolloutEngine(backend, lambda: chat_envs.Conversation(answer)).collect(["a"])
    assert backend.ended == 1


# ---- the contract of chat environments


def broken(chat_envs, change):
    class Broken(chat_envs.Conversation):
        def step(self, action):
            observation, *rest, info = super().step(action)
            return change(observation, info, *rest)

    return lambda: Broken(chat_envs.turns_of_tools(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o, i, *r: (o[1:], *r, i), "messages so far, unchanged"),
        (lambda o, i, *r: ([{**o[0], "content": "other"}, *o[1:]], *r, i), "messages so far, unchanged"),
        (lambda o, i, *r: ("text", *r, i), "messages so far, unchanged"),
        (lambda o, i, *r: ([*o[:1], *o[2:]], *r, i), "messages so far, unchanged"),
        (lambda o, i, *r: (o[:2], *r, i), "without saying anything"),
        (lambda o, i, *r: (o, *r, {**i, "tools": []}), "other tools"),
    ],
)
def test_environments_that_break_the_contract_are_refused(scripted, chat_envs, change, message):
    with pytest.raises(UsageError, match=message):
        RolloutEngine(scripted(), broken(chat_envs, change)).collect(["a"])


def test_an_observation_that_is_one_growing_list_is_understood(scripted, chat_envs):
    """Not fresh objects, against the contract, but nothing goes wrong."""

    class Growing(chat_envs.Conversation):
        def reset(self, **options):
            _, info = super().reset(**options)
            return self.messages, info

        def step(self, action):
            _, *rest = super().step(action)
            return self.messages, *rest

    ((t,),) = RolloutEngine(scripted(), lambda: Growing(chat_envs.turns_of_tools(2))).collect(["a"])
    assert len(t.turns) == 3


def test_arguments_out_of_range_are_refused(scripted, chat_envs):
    env = lambda: chat_envs.Conversation(chat_envs.turns_of_tools(0))  # noqa: E731
    for options in ({"max_turns": 0}, {"rejoin_after": -1}, {"env_timeout": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            RolloutEngine(scripted(), env, **options)
    for options in ({"template": "chat-ml"}, {"segment_rule": "order"}):
        with pytest.raises(UnknownNameError):
            RolloutEngine(scripted(), env, **options)
    engine = RolloutEngine(scripted(), env)
    for tasks, group_size, options in (([], 1, {}), (["a"], 0, {}), (["a"], 1, {"max_new_tokens": 0})):
        with pytest.raises(ConfigError, match="collect needs"):
            engine.collect(tasks, group_size, **options)
    with pytest.raises(ConfigError, match="temperature"):
        engine.collect(["a"], temperature=-1.0)
