import asyncio

import pytest
from toolcredit.llm.limiter import Limit, Limiter, Window


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_window_says_how_long_to_wait():
    clock = Clock()
    window = Window(10, seconds=60, clock=clock)
    window.spend(4)
    clock.now += 20
    window.spend(6)
    assert window.wait(0) == 0
    assert window.wait(1) == 40  # the first four leave after 60 s
    assert window.wait(4) == 40
    assert window.wait(5) == 60  # also the six must leave
    clock.now += 40
    assert window.wait(4) == 0
    clock.now += 20
    assert window.wait(10) == 0


def test_a_correction_makes_room():
    window = Window(10, seconds=60, clock=Clock())
    entry = window.spend(10)
    assert window.wait(5) == 60
    entry[1] = 3
    assert window.wait(5) == 0


def test_one_expense_above_the_budget_waits_for_an_empty_window():
    clock = Clock()
    window = Window(10, seconds=60, clock=clock)
    assert window.wait(50) == 0
    window.spend(1)
    assert window.wait(50) == 60


@pytest.mark.parametrize("first", [(4, None, 10), (8, 5, None)])
def test_the_tightest_of_two_limits(first):
    second = Limit(6, 7, None)
    expected = {(4, None, 10): Limit(4, 7, 10), (8, 5, None): Limit(6, 5, None)}[first]
    assert Limit(*first).tightest(second) == second.tightest(Limit(*first)) == expected


def test_slots_are_given_in_order_and_never_exceed_the_limit():
    async def main():
        limiter, order, peak, now = Limiter(Limit(3)), [], 0, 0

        async def work(i):
            nonlocal peak, now
            async with limiter.slot(1):
                order.append(i)
                now += 1
                peak = max(peak, now)
                await asyncio.sleep(0.001)
                now -= 1

        await asyncio.gather(*(work(i) for i in range(20)))
        return order, peak

    order, peak = asyncio.run(main())
    assert order == list(range(20)) and peak == 3


def test_cancelled_waiters_and_holders_leave_no_slot_behind():
    async def main():
        limiter = Limiter(Limit(2))

        async def work(seconds):
            async with limiter.slot(1):
                await asyncio.sleep(seconds)

        tasks = [asyncio.create_task(work(10)) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[1:9]:
            task.cancel()
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[9].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(asyncio.gather(*(work(0) for _ in range(5))), 1)

    asyncio.run(main())


def test_tightening_holds_for_those_who_wait():
    async def main():
        limiter, peak, now = Limiter(Limit(8)), 0, 0

        async def work():
            nonlocal peak, now
            async with limiter.slot(1):
                now += 1
                peak = max(peak, now)
                await asyncio.sleep(0.001)
                now -= 1

        limiter.tighten(Limit(2))
        await asyncio.gather(*(work() for _ in range(12)))
        return peak

    assert asyncio.run(main()) == 2


def test_pacing_by_tokens_waits_and_counts_what_was_used(monkeypatch):
    waits = []
    clock = Clock()

    async def sleep(seconds):
        waits.append(seconds)
        clock.now += seconds

    async def main():
        limiter = Limiter(Limit(1, None, 100))
        limiter._tokens = Window(100, seconds=60, clock=clock)
        monkeypatch.setattr("toolcredit.llm.limiter.asyncio.sleep", sleep)
        async with limiter.slot(90) as correct:
            correct(20)
        async with limiter.slot(80):
            pass
        assert waits == []
        async with limiter.slot(30):
            pass
        assert waits == [60.0]

    asyncio.run(main())
