import email.utils
import random
import time

import pytest
from toolcredit.llm.retry import Backoff, is_transient, retry_after


def test_waits_double_up_to_the_longest():
    backoff = Backoff(first=1.0, longest=10.0, jitter=random.Random(0))
    for failures, full in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (500, 10)):
        waits = [backoff.wait(failures) for _ in range(200)]
        assert full / 2 <= min(waits) < max(waits) <= full


def test_retry_after_is_a_floor_up_to_the_longest():
    backoff = Backoff(first=1.0, longest=10.0)
    assert backoff.wait(1, retry_after=5.0) == 5.0
    assert backoff.wait(1, retry_after=5000.0) == 10.0
    assert backoff.wait(4, retry_after=0.0) >= 4.0


def test_the_same_jitter_gives_the_same_waits_and_the_global_generator_is_untouched():
    state = random.getstate()
    first, second = (Backoff(jitter=random.Random(7)) for _ in range(2))
    assert [first.wait(i) for i in range(1, 9)] == [second.wait(i) for i in range(1, 9)]
    assert random.getstate() == state


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 99 Jan 2001 00:00:00 GMT"}, None),
    ],
)
def test_retry_after_headers(headers, expected):
    assert retry_after(headers) == expected


def test_retry_after_as_a_date():
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 28 < retry_after({"retry-after": date}) <= 30


def test_what_is_transient():
    assert [
        s for s in (200, 301, 400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504, 599) if is_transient(s)
    ] == [
        408,
        429,
        500,
        502,
        503,
        504,
        599,
    ]
