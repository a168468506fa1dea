"""Turns of many callers from one model: sampled together, given up, failed and closed without a loss."""

import threading
import time
from concurrent.futures import CancelledError, wait

import pytest
from toolcredit.agents.backends.local import LocalBackend
from toolcredit.agents.backends.sampler import BatchedSampler
from toolcredit.errors import InfrastructureError
from toolcredit.llm.local import load_local_model

NEVER = frozenset()


@pytest.fixture(scope="module")
def tiny():
    return load_local_model("tiny", device="cpu")


@pytest.fixture
def sampler(tiny):
    sampler = BatchedSampler(LocalBackend(tiny, slots=3))
    yield sampler
    assert sampler.close(30)


def ask(sampler, number, length=6, **options):
    return sampler.sample([5 + number, 6, 7], NEVER, length, 2.0, (number,), **options)


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_more_turns_than_rows_are_those_of_each_alone(sampler):
    together = [future.result(30).ids for future in [ask(sampler, k) for k in range(9)]]
    alone = [ask(sampler, k).result(30).ids for k in range(9)]
    assert together == alone and len(set(together)) > 1


def test_turns_join_while_others_run(sampler):
    long, joined = ask(sampler, 0, length=400), ask(sampler, 1, length=3)
    assert len(joined.result(30).ids) == 3 and not long.done()
    assert len(long.result(60).ids) == 400


def test_a_watch_sees_every_token_and_may_end_the_turn(sampler):
    seen = []

    def watch(turn):
        seen.append((list(turn.ids), [place[0] for place in turn.alternatives]))
        return len(turn.ids) == 4

    turn = ask(sampler, 0, length=50, alternatives=2, watch=watch).result(30)
    assert [len(ids) for ids, _ in seen] == [1, 2, 3, 4] and turn.ids == tuple(seen[-1][0]) and turn.clipped
    assert all(-20 < logprob <= 0 for _, alternatives in seen for _, logprob in alternatives)
    assert len(ask(sampler, 0, length=3, watch=lambda turn: False).result(30).ids) == 3


def test_a_turn_that_is_stopped_frees_its_row(sampler):
    stop = threading.Event()
    long = [ask(sampler, k, length=4000, watch=lambda turn: stop.is_set()) for k in range(3)]
    waiting = ask(sampler, 9)
    time.sleep(0.2)
    assert not waiting.done()
    stop.set()
    assert len(waiting.result(30).ids) == 6
    assert all(len(future.result(30).ids) < 4000 for future in long)


def test_a_turn_that_waits_is_given_up_before_it_starts(sampler):
    stop, seen = threading.Event(), []
    long = [ask(sampler, k, length=4000, watch=lambda turn: stop.is_set()) for k in range(3)]
    wait_until(lambda: len(sampler._open) == 3)
    waiting = ask(sampler, 9, watch=seen.append)
    assert waiting.cancel()
    stop.set()
    wait(long, 30)
    assert len(ask(sampler, 1).result(30).ids) == 6 and not seen
    with pytest.raises(CancelledError):
        waiting.result(1)


def test_a_watch_that_fails_fails_its_own_turn_only(sampler):
    def watch(turn):
        raise ZeroDivisionError("mine")

    bad, good = ask(sampler, 0, watch=watch), ask(sampler, 1)
    with pytest.raises(ZeroDivisionError):
        bad.result(30)
    last = ask(sampler, 0, length=1, watch=watch)
    with pytest.raises(ZeroDivisionError):
        last.result(30)
    assert len(good.result(30).ids) == 6


def test_a_model_that_fails_fails_the_turns_that_run_and_goes_on(sampler, monkeypatch):
    expected = ask(sampler, 0).result(30)
    backend = sampler._backend
    monkeypatch.setattr(backend, "_cached_logits", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ask(sampler, 0).result(30)
    monkeypatch.undo()
    assert ask(sampler, 0).result(30).ids == expected.ids


def test_closing_fails_what_runs_and_what_waits(tiny):
    sampler = BatchedSampler(LocalBackend(tiny, slots=2))
    futures = [ask(sampler, k, length=4000) for k in range(6)]
    wait_until(lambda: len(sampler._open) == 2)
    assert sampler.close(30) and sampler.close(0)
    for future in futures:
        with pytest.raises(InfrastructureError, match="closed"):
            future.result(1)
    with pytest.raises(InfrastructureError, match="closed"):
        ask(sampler, 0)


def test_an_idle_sampler_closes(tiny):
    assert BatchedSampler(LocalBackend(tiny, slots=2)).close(30)
