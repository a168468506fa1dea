"""Fixtures of the server's tests: a running server with the tiny model, and clients of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

for _name in ("torch", "starlette", "uvicorn"):
    pytest.importorskip(_name, reason="run: pip install 'toolcredit[train,serve]'")


@pytest.fixture(scope="session")
def served_model() -> type:
    """The class `ServedModel` of `tests/fakes/served_model.py`."""
    name = "toolcredit_fakes_served_model"
    if name not in sys.modules:
        path = Path(__file__).parents[2] / "fakes" / "served_model.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name].ServedModel


@pytest.fixture(scope="session")
def tiny():
    """The tiny model."""
    from toolcredit.llm.local import load_local_model

    return load_local_model("tiny", device="cpu")


@pytest.fixture(scope="module")
def server(served_model, tiny) -> Iterator:
    """A server that the tests of a module share; they leave it idle and without a script."""
    with served_model(tiny, slots=4, max_tokens=64) as running:
        yield running


@pytest.fixture
def start(served_model, tiny) -> Iterator[Callable]:
    """`start(**options)` starts a server of the test's own."""
    running = []

    def make(**options):
        running.append(served_model(tiny, **options))
        return running[-1]

    yield make
    for each in running:
        each.stop()


@pytest.fixture(scope="session")
def client_of() -> Callable:
    """`client_of(server, key)`: OpenAI's own client, which tries nothing again."""
    import openai

    return lambda server, key="none": openai.OpenAI(base_url=server.url, api_key=key, max_retries=0, timeout=60)


@pytest.fixture
def client(client_of, server):
    """A client of the shared server."""
    return client_of(server)
