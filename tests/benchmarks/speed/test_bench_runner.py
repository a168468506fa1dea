"""The measurement of the runner measures; what it finds on a busy machine is no matter of tests."""

from toolcredit.benchmarks.speed.bench_runner import measure


def test_figures(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    found = measure(tasks=32, latency=0.02, in_flight=8, repeats=2)
    assert found["overhead_ms"] > 0 and 0 < found["share_of_ideal"] <= 1.01
    assert len(found["share_of_ideal_all"]) == len(found["overhead_ms_all"]) == 2
