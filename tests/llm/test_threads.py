import pytest
from toolcredit.errors import ConfigError

torch = pytest.importorskip("torch")
from toolcredit.llm import threads  # noqa: E402


@pytest.fixture(autouse=True)
def restore(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("TOOLCREDIT_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    torch.set_num_threads(before)


def test_variables_decide_and_the_own_one_first(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert threads.choose_threads() == threads.Threads(2, "$OMP_NUM_THREADS")
    monkeypatch.setenv("TOOLCREDIT_THREADS", "1")
    assert threads.choose_threads() == threads.Threads(1, "$TOOLCREDIT_THREADS")
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_variables_that_are_no_number(monkeypatch, value):
    monkeypatch.setenv("TOOLCREDIT_THREADS", value)
    with pytest.raises(ConfigError, match="positive whole number"):
        threads.choose_threads()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({1: 1.0, 2: 0.5, 4: 0.3, 8: 0.29}, 4),
        ({1: 1.0, 2: 0.95, 4: 0.1}, 1),
        ({1: 1.0, 2: 7.0}, 1),
        ({1: 1.0, 2: 0.5, 4: 0.25, 8: 0.12}, 8),
    ],
)
def test_threads_double_for_as_long_as_that_pays(monkeypatch, caplog, seconds, expected):
    caplog.set_level("INFO")
    monkeypatch.setattr(threads, "_seconds", seconds.__getitem__)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    assert threads.choose_threads().number == expected
    assert f"{expected} CPU thread" in caplog.text


def test_the_probe_measures_on_this_machine():
    chosen = threads.choose_threads()
    assert chosen.number == torch.get_num_threads() >= 1
    assert "measured" in chosen.reason
