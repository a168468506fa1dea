import copy
import json
from collections import Counter

import pytest
from toolcredit.envs.sgls.env import SGLSToolCallingEnv
from toolcredit.envs.sgls.generate import generate_tasks
from toolcredit.envs.sgls.parsing import HERMES
from toolcredit.envs.sgls.tasks import SPLITS, Call
from toolcredit.envs.sgls.tasksets import embedded_tasks
from toolcredit.errors import ConfigError, TaskError, UnknownNameError
from toolcredit.rewards.hierr import SUCCESSES, HierR, is_success
from toolcredit.rewards.judging import Rating
from toolcredit.rewards.process import COMPONENTS

PARTS = ("process", *COMPONENTS)


@pytest.fixture(scope="module")
def tasks():
    return generate_tasks(240, seed=3)


@pytest.fixture(scope="module")
def arena(tasks):
    return {split: SGLSToolCallingEnv(tasks=tasks, split=split, scorer=None) for split in SPLITS}


def record(env, task, steps, reply=None):
    """The transcript of an episode with these turns; no reply cuts it off at the turn limit."""
    env.reset(seed=0, options={"task_id": task.id})
    info = {}
    for step in steps:
        *_, terminated, truncated, info = env.step(step if isinstance(step, str) else HERMES.render(step))
        if terminated or truncated:
            break
    else:
        if reply is not None:
            info = env.step(reply)[-1]
    return json.loads(info["transcript"])


def gold_record(env, task):
    return record(env, task, task.gold.steps, task.reply)


def score(transcript, **arguments):
    return HierR(**arguments)(transcript["task"], transcript)


def parts(rewards):
    return tuple(rewards[name] for name in PARTS)


# --- gold


def test_gold_replay_scores_1_in_every_category(arena, tasks):
    seen = Counter()
    for task in tasks:
        rewards = score(gold_record(arena[task.split], task))
        assert rewards["process"] == rewards["summary"] == 1.0 and rewards["total"] == 2.0
        assert all(rewards[name] == 1.0 for name in SUCCESSES) and rewards["omitted"] == 0.0
        assert (rewards["format"] is None) == task.abstains
        seen[task.category] += 1
    assert len(seen) == 7


@pytest.mark.slow
def test_gold_replay_scores_1_on_the_whole_embedded_set():
    wrong = []
    for split in SPLITS:
        env = SGLSToolCallingEnv(split=split, scorer="hierr")
        for task in embedded_tasks():
            if task.split == split:
                env.reset(seed=0, options={"task_id": task.id})
                for step in task.gold.steps:
                    env.step(HERMES.render(step))
                _, reward, *_, info = env.step(task.reply)
                if reward != 2.0 or not all(info["rewards"][name] == 1.0 for name in SUCCESSES):
                    wrong.append(task.id)
    assert not wrong


def test_all_equivalent_plans_score_1(arena, tasks):
    several = [task for task in tasks if len(task.plans) > 1]
    assert several
    for task in several:
        for plan in task.plans[:4]:
            rewards = score(record(arena[task.split], task, plan.steps, task.reply))
            assert rewards["process"] == rewards["summary"] == 1.0


def test_the_paper_mode_on_gold(arena, tasks):
    for category, process, summary in (("single", 1.0, 1.0), ("irrelevant", 0.90, 0.0), ("missing", 0.90, 0.0)):
        task = next(task for task in tasks if task.category == category)
        rewards = score(gold_record(arena[task.split], task), mode="paper")
        assert rewards["process"] == pytest.approx(process) and rewards["summary"] == summary
        assert rewards["success_process"] == 1.0


# --- each single corruption of the gold gives exactly the value of the formula


def corrupted(task, change):
    """The gold steps with `change` applied to the first call that has arguments; the number of those."""
    steps = [list(step) for step in task.gold.steps]
    for step in steps:
        for index, call in enumerate(step):
            if call.arguments:
                step[index] = change(call)
                return steps, len(call.arguments)
    raise AssertionError


def simple(tasks):
    """Tasks with one plan, in which the corrupted call is the only one of its tool."""
    for task in tasks:
        names = Counter(call.name for call in task.gold.calls)
        if len(task.plans) == 1 and not task.abstains and set(names.values()) == {1}:
            yield task


def expected(format=1.0, name=1.0, key=1.0, value=1.0, parallel=1.0):
    process = 0.10 * format + 0.25 * name + 0.15 * key + 0.20 * value + 0.30 * parallel
    return pytest.approx((process, format, name, key, value, parallel))


def test_a_wrong_name(arena, tasks):
    for task in simple(tasks):
        other = next(name for name in task.tools if name not in {call.name for call in task.gold.calls})
        steps, _ = corrupted(task, lambda call, other=other: Call(other, call.arguments))
        n = len(task.gold.calls)
        share = (n - 1) / n
        rewards = score(record(arena[task.split], task, steps, task.reply))
        assert parts(rewards) == expected(name=share, key=share, value=share)


def test_an_unknown_name(arena, tasks):
    for task in simple(tasks):
        steps, _ = corrupted(task, lambda call: Call("no_such_tool", call.arguments))
        n, first = len(task.gold.calls), len(steps[0])
        share, blocks = (n - 1) / n, n
        f1 = 2 * (n - 1) / (2 * n - 1)
        remaining = [call for call in steps[0] if call.name != "no_such_tool"]
        made = len(remaining) or (len(steps[1]) if len(steps) > 1 else 0)
        rewards = score(record(arena[task.split], task, steps, task.reply))
        assert parts(rewards) == expected(
            (blocks - 1) / blocks, f1 if n > 1 else 0.0, share, share, float(made == first)
        )


def test_a_wrong_key(arena, tasks):
    for task in simple(tasks):

        def change(call):
            first, *rest = call.arguments.items()
            return Call(call.name, {"no_such_key": first[1], **dict(rest)})

        steps, k = corrupted(task, change)
        n = len(task.gold.calls)
        key, value = (n - 1 + (k - 1) / (k + 1)) / n, (n - 1 + (k - 1) / k) / n
        rewards = score(record(arena[task.split], task, steps, task.reply))
        assert parts(rewards) == expected(key=key, value=value)


@pytest.mark.parametrize("wrong", ["no such value", ["a", "list"], None, {"an": "object"}])
def test_a_wrong_value_or_type(arena, tasks, wrong):
    for task in list(simple(tasks))[:40]:

        def change(call):
            first = next(iter(call.arguments))
            return Call(call.name, {**call.arguments, first: wrong})

        steps, k = corrupted(task, change)
        n = len(task.gold.calls)
        rewards = score(record(arena[task.split], task, steps, task.reply))
        assert parts(rewards) == expected(value=(n - 1 + (k - 1) / k) / n)


def test_a_number_as_a_string_is_loosely_equal_but_stopped_by_the_validation(arena, tasks):
    task = next(t for t in simple(tasks) if len(t.gold.calls) == 1 and any(
        type(v) is int for v in t.gold.calls[0].arguments.values()))  # fmt: skip
    call = task.gold.calls[0]
    spoilt = {key: str(value) if type(value) is int else value for key, value in call.arguments.items()}
    transcript = record(arena[task.split], task, [[Call(call.name, spoilt)]], task.reply)
    assert transcript["turns"][0]["calls"][0]["status"] == "invalid"
    rewards = score(transcript)
    assert parts(rewards) == expected()
    assert rewards["summary"] < 1.0  # no tool answered


def test_an_extra_argument(arena, tasks):
    for task in simple(tasks):
        steps, k = corrupted(task, lambda call: Call(call.name, {**call.arguments, "extra": 1}))
        n = len(task.gold.calls)
        rewards = score(record(arena[task.split], task, steps, task.reply))
        assert parts(rewards) == expected(key=(n - 1 + k / (k + 1)) / n)


def test_an_extra_call(arena, tasks):
    for task in simple(tasks):
        n = len(task.gold.calls)
        f1 = 2 * n / (2 * n + 1)
        again = task.gold.steps[0][0]
        serial = score(record(arena[task.split], task, [*task.gold.steps, [again]], task.reply))
        assert parts(serial) == expected(name=f1)
        parallel = score(
            record(arena[task.split], task, [[*task.gold.steps[0], again], *task.gold.steps[1:]], task.reply)
        )
        assert parts(parallel) == expected(name=f1, parallel=0.0)


def test_a_missing_call(arena, tasks):
    for task in simple(tasks):
        n = len(task.gold.calls)
        *before, last = task.gold.steps
        steps = [*before, last[:-1]] if len(last) > 1 else before
        rewards = score(record(arena[task.split], task, steps, task.reply))
        if not steps:
            assert parts(rewards) == pytest.approx((0,) * 6)
            assert (rewards["summary"], rewards["total"], rewards["omitted"]) == (-0.5, -0.5, 1.0)
        else:
            share = (n - 1) / n
            first = len(steps[0]) == len(task.gold.steps[0])
            f1 = 2 * (n - 1) / (2 * n - 1)
            assert parts(rewards) == expected(name=f1, key=share, value=share, parallel=float(first))


def test_the_order_of_calls(arena, tasks):
    for task in simple(tasks):
        backwards = [list(reversed(step)) for step in task.gold.steps]
        assert parts(score(record(arena[task.split], task, backwards, task.reply))) == expected()
        if len(task.gold.calls) > 1 and len(task.gold.steps) == 1:
            serial = [[call] for call in task.gold.calls]
            assert parts(score(record(arena[task.split], task, serial, task.reply))) == expected(parallel=0.0)
        if len({len(step) for step in task.gold.steps}) > 1:
            turned = list(reversed(task.gold.steps))
            same = float(len(turned[0]) == len(task.gold.steps[0]))
            assert parts(score(record(arena[task.split], task, turned, task.reply))) == expected(parallel=same)


def test_doing_nothing_and_calling_at_random(arena, tasks):
    for task in tasks[:60]:
        silent = score(record(arena[task.split], task, [""]))
        if task.abstains:
            assert (silent["process"], silent["summary"], silent["total"]) == (1.0, 0.0, 1.0)
            called = score(record(arena[task.split], task, [[Call(task.tools[0])]], "I cannot do that, sorry."))
            assert parts(called) == pytest.approx((0.10 / 0.65, 1.0, 0.0, None, None, 0.0))
        else:
            assert (silent["process"], silent["summary"], silent["total"]) == (0.0, -0.5, -0.5)


# --- the guard, totals and successes


@pytest.fixture
def single(arena, tasks):
    task = next(task for task in tasks if task.category == "single")
    return arena[task.split], task


def test_the_guard_overrides_and_asks_no_judge(single):
    def never(case):
        raise AssertionError

    transcript = record(*single, [], single[1].reply)
    rewards = score(transcript, judge=never, process_weight=3.0, summary_weight=2.0)
    assert (rewards["process"], rewards["summary"], rewards["total"], rewards["omitted"]) == (0.0, -0.5, -0.5, 1.0)
    assert all(rewards[name] == 0.0 for name in SUCCESSES)
    note = HierR().explain(transcript["task"], transcript).notes[-1]
    assert "omission guard" in note
    assert score(transcript, mode="paper")["summary"] == -0.5


def test_an_attempt_that_cannot_be_read_is_no_omission(single):
    rewards = score(record(*single, ["<tool_call>{oops</tool_call>"], "I tried to do it."))
    assert rewards["omitted"] == 0.0 and rewards["process"] == 0.0 and rewards["summary"] == 0.25


def test_the_total_is_the_weighted_sum(single):
    transcript = gold_record(*single)
    assert score(transcript, judge=lambda case: 3)["total"] == 1.5
    assert score(transcript, judge=lambda case: 3, process_weight=2.0, summary_weight=0.5)["total"] == 2.25


def test_three_definitions_of_success(arena, tasks):
    task = next(task for task in simple(tasks) if len(task.gold.calls) == 1 and len(task.gold.calls[0].arguments) == 2)
    steps, _ = corrupted(task, lambda call: Call(call.name, {**call.arguments, next(iter(call.arguments)): "nothing"}))
    transcript = record(arena[task.split], task, steps, task.reply)
    for points, combined in ((5, 1.0), (4, 0.0)):
        rewards = score(transcript, judge=lambda case, p=points: p)
        assert rewards["process"] == pytest.approx(0.9) and rewards["process"] < 0.9
        assert tuple(rewards[name] for name in SUCCESSES) == (1.0, combined, 1.0)
    assert is_success(0.9 - 1e-10) and not is_success(0.9 - 1e-8)


def test_a_judge_without_opinion_leaves_the_process_score(single):
    transcript = gold_record(*single)
    rewards = score(transcript, judge=lambda case: Rating(None, ("down",)))
    assert rewards["process"] == 1.0 and rewards["success_process"] == 1.0
    assert rewards["summary"] is rewards["total"] is rewards["success_combined"] is None
    assert score(transcript, judge=lambda case: None, summary_weight=0.0)["total"] == 1.0


def test_cut_off_episodes_are_scored_without_a_reply(tasks, single):
    _, task = single
    env = SGLSToolCallingEnv(tasks=tasks, split=task.split, scorer=None, max_turns=len(task.gold.steps))
    transcript = record(env, task, task.gold.steps)
    assert transcript["ending"]["reason"] == "turns"
    rewards = score(transcript)
    assert rewards["process"] == 1.0 and rewards["summary"] == 0.0


def test_failed_and_unfinished_episodes_have_no_score(single):
    transcript = gold_record(*single)
    failed = copy.deepcopy(transcript)
    failed["ending"] = {
        "terminated": False,
        "truncated": True,
        "reason": "error",
        "error": {"type": "X", "message": "y"},
    }
    for broken in (failed, {**transcript, "ending": None}):
        report = HierR().explain(broken["task"], broken)
        assert set(report.rewards.values()) == {None} and report.notes[0].startswith("not scored")


def test_a_broken_transcript_is_told(single):
    transcript = gold_record(*single)
    del transcript["turns"][0]["calls"]
    with pytest.raises(TaskError, match="misshapen field"):
        score(transcript)


# --- variants


def test_the_execution_variant_takes_the_verdict(single):
    env, task = single
    good = score(gold_record(env, task), execution="embedded")
    assert (good["process"], good["matching"], good["solved"], good["total"]) == (1.0, 1.0, 1.0, 2.0)
    steps, _ = corrupted(task, lambda call: Call(call.name, {**call.arguments, "extra": 1}))
    bad = score(record(env, task, steps, task.reply), execution="embedded")
    assert (bad["process"], bad["solved"]) == (0.0, 0.0) and bad["matching"] > 0.9 and bad["success_process"] == 1.0
    omitted = score(record(env, task, [], task.reply), execution="embedded")
    assert (omitted["process"], omitted["summary"], omitted["total"]) == (0.0, -0.5, -0.5)


def test_other_solutions_count_as_solved(single):
    """What the tools answered decides, not how they were called: a detour is no failure."""
    env, task = single
    again = score(record(env, task, [task.gold.steps[0], task.gold.steps[0]], task.reply), execution="embedded")
    assert again["process"] == 1.0 and again["matching"] < 1.0


def test_noise_follows_the_nonce_and_the_seed(single):
    env, task = single
    transcript = gold_record(env, task)
    noisy = HierR(noise=0.5, seed=4)
    scores = [noisy(transcript["task"], {**transcript, "nonce": n})["summary"] for n in range(60)]
    assert len(set(scores)) > 2 and scores.count(1.0) > 20
    assert scores == [noisy(transcript["task"], {**transcript, "nonce": n})["summary"] for n in range(60)]
    env.reset(seed=1, options={"task_id": task.id})
    first = env.transcript["nonce"]
    env.reset(options={"task_id": task.id})
    assert env.transcript["nonce"] != first


def test_the_environment_scores_by_hierr(tasks):
    env = SGLSToolCallingEnv(tasks=tasks, split="train", scorer={"name": "hierr", "mode": "paper", "noise": 1.0})
    task = next(task for task in tasks if task.split == "train" and task.category == "single")
    env.reset(seed=0, options={"task_id": task.id})
    env.step(HERMES.render(task.gold.steps[0]))
    _, reward, *_, info = env.step(task.reply)
    assert reward == info["rewards"]["total"] == 1.0 + info["rewards"]["summary"]
    assert set(info["rewards"]) == set(HierR().components)


@pytest.mark.parametrize("arguments", [{}, {"mode": "paper"}, {"execution": "embedded"}, {"noise": 0.3}])
def test_scoring_is_a_pure_function_of_plain_json(arena, tasks, arguments):
    for task in tasks[:20]:
        transcript = gold_record(arena[task.split], task)
        before = json.dumps(transcript)
        first = score(transcript, **arguments)
        assert score(json.loads(before), **arguments) == first
        assert json.dumps(transcript) == before and json.loads(json.dumps(first)) == first
        assert HierR(**arguments)(task, transcript) == first


def test_what_the_scores_depend_on_is_recorded():
    identity = HierR(weights="uniform", noise=0.1, execution="embedded").identity
    assert json.loads(json.dumps(identity)) == identity
    assert identity["weights"] == dict.fromkeys(COMPONENTS, 0.2)
    assert identity["judge"]["noise"] == 0.1 and identity["execution"]["judge"] == "embedded"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mode": "published"}, ConfigError, "expected one of default, paper"),
        ({"weights": "uniformly"}, UnknownNameError, "did you mean 'uniform'"),
        ({"judge": "embeded"}, UnknownNameError, "did you mean 'embedded'"),
        ({"noise": 2}, ConfigError, "probability"),
        ({"process_weight": -1}, ConfigError, "at least 0"),
        ({"process_weight": 0, "summary_weight": 0}, ConfigError, "both 0"),
        ({"execution": lambda case: 5}, ConfigError, "solved"),
    ],
)
def test_misuse_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        HierR(**arguments)
