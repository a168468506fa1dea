"""Rollouts of a real model: exact tokens over several turns, their cost, reproducibility, branches."""

import threading

import numpy as np
import pytest
import torch
from toolcredit.agents.backends.local import LocalBackend
from toolcredit.agents.episode import Start
from toolcredit.agents.rollout import RolloutEngine
from toolcredit.agents.trajectory import SampledTurn
from toolcredit.agents.watching import watching
from toolcredit.llm.local import load_local_model

HOT = 2.5  # the tiny model's distributions are narrow: this makes its turns differ


@pytest.fixture(scope="module")
def tiny():
    return load_local_model("tiny", device="cpu")


@pytest.fixture
def three_turns(chat_envs):
    """Episodes of three turns, with answers whose lengths depend on task and turn."""
    tasks = {f"task{i}": f"Question {i}? " + "word " * (3 * i) for i in range(4)}
    answer = chat_envs.turns_of_tools(2, lambda task, turn: f"{task} " + "result " * (2 * turn + int(task[-1])))
    return lambda: chat_envs.Conversation(answer, tasks=tasks)


# ---- exact tokens (a real model)


@torch.no_grad()
def plain_logprobs(model, t):
    logits = model(torch.from_numpy(np.array(t.ids))[None]).logits[0, :-1].float()
    logprobs = torch.log_softmax(logits / t.temperature, -1)
    own = logprobs.gather(-1, torch.from_numpy(t.ids[1:].copy())[:, None])[:, 0]
    return torch.cat([torch.zeros(1), own]).numpy()


def test_recorded_log_probabilities_are_those_of_training(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=5), three_turns, template="compact")
    rollouts = engine.collect(["task0", "task2", "task3"], 3, temperature=HOT, max_new_tokens=8)
    assert [len(group) for group in rollouts] == [3, 3, 3]
    for t in (t for group in rollouts for t in group):
        assert len(t.turns) == 3 and t.finish_reason == "terminated"
        assert np.abs(plain_logprobs(tiny.model, t) - t.logprobs)[t.trainable].max() < 1e-4
        assert t.temperature == HOT


def test_a_watcher_is_told_how_many_episodes_are_over(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=2), three_turns, template="compact")
    told = []
    with watching(lambda done, total: told.append((done, total))):
        engine.collect(["task0", "task2"], 3, temperature=HOT, max_new_tokens=4)
    numbers = [done for done, _ in told]
    assert {total for _, total in told} == {6} and numbers[0] == 0 and numbers[-1] == 6
    assert numbers == sorted(numbers) and len(set(numbers)) > 3
    engine.collect(["task0"], 1, temperature=HOT, max_new_tokens=4)
    assert told[-1] == (6, 6)  # nobody is told afterwards


def test_tokens_are_the_rendered_conversation_with_the_sampled_ids_inside(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=4), three_turns, template="compact")
    (group,) = engine.collect(["task1"], 4, temperature=HOT, max_new_tokens=8)
    template, tools = engine.template, three_turns().tools
    for t in group:
        ids = template.prompt_ids(t.messages[:1], tools)
        for k, turn in enumerate(t.turns):
            sampled = t.sampled(k)
            assert t.messages[turn.message] == {"role": "assistant", "content": template.turn_text(sampled.ids)}
            ids += sampled.ids
            if k < 2:
                ids += [template.end_of_turn(tools)] * turn.clipped
                ids += template.environment_ids(t.messages[turn.message + 1 : t.turns[k + 1].message], tools)
        assert t.ids.tolist() == ids
    assert any(turn.clipped for t in group for turn in t.turns)


def test_no_token_of_a_rollout_is_computed_twice_and_groups_share_their_prompt(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=8), three_turns, template="compact")
    rollouts = engine.collect(["task0", "task3"], 4, temperature=HOT, max_new_tokens=8)
    groups = list(rollouts)
    prompts = [group[0].ids[: group[0].prompt_length] for group in groups]
    common = int(np.flatnonzero(prompts[0] != prompts[1][: len(prompts[0])])[0])  # the system prompt
    # Every token goes through the model once, except the last sampled one of an episode, which never does.
    own = sum(len(t) - t.prompt_length - 1 for group in groups for t in group)
    assert rollouts.stats["forwarded_tokens"] == own + sum(map(len, prompts)) - common
    assert rollouts.stats["sampled_tokens"] == sum(int(t.trainable.sum()) for group in groups for t in group)


def test_the_prompts_end_with_the_generation_header(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=2), three_turns, template="chatml")
    ((t,),) = engine.collect(["task0"], max_new_tokens=4)
    assert tiny.tokenizer.decode(t.ids[: t.prompt_length]).endswith("<|im_end|>\n<|im_start|>assistant\n")


# ---- reproducible


def ids_and_logprobs(rollouts):
    return [[(t.ids.tolist(), t.logprobs.tolist(), dict(t.rewards)) for t in group] for group in rollouts]


@pytest.mark.parametrize("rejoin_after", [0, 3])
def test_a_seed_gives_every_bit_again_whatever_the_threads_do(tiny, chat_envs, rejoin_after):
    answer = chat_envs.turns_of_tools(2)
    runs = []
    for number in range(3):
        delays = np.random.default_rng(number)
        slow = [0.0, 0.004, 0.012][number]
        lock = threading.Lock()

        def delay(task, turn, lock=lock, delays=delays, slow=slow):
            with lock:
                return float(delays.random()) * slow

        engine = RolloutEngine(
            LocalBackend(tiny, slots=3),
            lambda delay=delay: chat_envs.Conversation(answer, tasks=("a", "bb"), delay=delay),
            template="compact",
            rejoin_after=rejoin_after,
        )
        runs.append(ids_and_logprobs(engine.collect(["a", "bb"], 3, seed=5, temperature=HOT, max_new_tokens=6)))
    assert runs[0] == runs[1] == runs[2]


def test_the_order_of_tasks_and_the_rows_change_no_tokens(tiny, three_turns):
    """Random numbers belong to (seed, task, member, turn)."""
    results = []
    for tasks, slots in ((["task0", "task1"], 8), (["task1", "task0"], 8), (["task0", "task1"], 2)):
        engine = RolloutEngine(LocalBackend(tiny, slots=slots), three_turns, template="compact")
        rollouts = engine.collect(tasks, 3, seed=1, temperature=HOT, max_new_tokens=6)
        results.append({(t.task_id, t.member): t.ids.tolist() for group in rollouts for t in group})
    assert results[0] == results[1] == results[2]


def test_another_seed_and_another_member_draw_other_tokens(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=8), three_turns, template="compact")
    runs = [engine.collect(["task0"], 3, seed=seed, temperature=HOT, max_new_tokens=8) for seed in (0, 1)]
    drawn = [tuple(t.ids.tolist()) for run in runs for group in run for t in group]
    assert len(set(drawn)) == len(drawn)


def test_a_task_that_comes_twice_has_more_members_not_the_same_ones(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=8), three_turns, template="compact")
    twice = engine.collect(["task0", "task0"], 2, temperature=HOT, max_new_tokens=8)
    assert [[t.member for t in group] for group in twice] == [[0, 1], [2, 3]]
    (four,) = engine.collect(["task0"], 4, temperature=HOT, max_new_tokens=8)
    assert [t.ids.tolist() for group in twice for t in group] == [t.ids.tolist() for t in four]


def test_greedy_episodes_do_not_depend_on_the_seed(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=8), three_turns, template="compact")
    runs = [engine.collect(["task0"], 2, seed=seed, temperature=0, max_new_tokens=6) for seed in (0, 1)]
    assert len({tuple(t.ids.tolist()) for run in runs for group in run for t in group}) == 1


# ---- branches


def test_an_episode_can_begin_in_the_middle_of_another(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=4), three_turns, template="compact")
    ((t,),) = engine.collect(["task1"], temperature=HOT, max_new_tokens=8, seed=3)
    after_two = Start("task1", (t.sampled(0), t.sampled(1)))
    rollouts = engine.collect([after_two], 3, temperature=HOT, max_new_tokens=8)
    cut = int(np.flatnonzero(t.step == 2)[0])
    for branch in rollouts[0]:
        assert branch.ids[:cut].tolist() == t.ids[:cut].tolist()
        assert branch.logprobs[:cut].tolist() == t.logprobs[:cut].tolist()
        assert branch.step.max() == 2 and branch.rewards["total"] == 1.0
        assert np.abs(plain_logprobs(tiny.model, branch) - branch.logprobs)[branch.trainable].max() < 1e-4
    own = sum(len(b) - cut - 1 for b in rollouts[0])
    assert rollouts.stats["forwarded_tokens"] == own + cut, "what the branches begin with is computed once"


def test_an_episode_can_begin_in_the_middle_of_a_turn(tiny, three_turns):
    engine = RolloutEngine(LocalBackend(tiny, slots=4), three_turns, template="compact")
    ((t,),) = engine.collect(["task1"], temperature=HOT, max_new_tokens=8, seed=3)
    whole = t.sampled(1)
    partial = SampledTurn(whole.ids[:2], whole.logprobs[:2])
    (group,) = engine.collect([Start("task1", (t.sampled(0),), partial)], 3, temperature=HOT, max_new_tokens=8)
    for branch in group:
        assert branch.sampled(0) == t.sampled(0)
        assert branch.sampled(1).ids[:2] == whole.ids[:2]
        assert len(branch.turns) == 3
        assert np.abs(plain_logprobs(tiny.model, branch) - branch.logprobs)[branch.trainable].max() < 1e-4
