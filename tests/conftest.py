"""Fixtures for the whole suite. The fakes are loaded from `tests/fakes` by path, since the tests are no package."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings
from toolcredit import assets

settings.register_profile("any machine", deadline=None)  # others may use it, too: time says nothing about the code
settings.load_profile("any machine")


def _load_fake(name: str) -> ModuleType:
    full_name = f"toolcredit_fakes_{name}"
    if full_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(full_name, Path(__file__).parent / "fakes" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module
        spec.loader.exec_module(module)
    return sys.modules[full_name]


@pytest.fixture(scope="session")
def fake_chat() -> ModuleType:
    """The module `tests/fakes/chat_server.py`: `ChatServer` and its behaviours."""
    return _load_fake("chat_server")


@pytest.fixture
def chat_server(fake_chat: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """A running scripted chat server; answers "A" until it is scripted otherwise."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with fake_chat.ChatServer() as server:
        yield server


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """Folder of the installed SmolLM2 asset; the test is skipped where it is not installed."""
    if not assets.is_installed("smollm2"):
        pytest.skip("the asset is not installed; run: toolcredit data install smollm2")
    return assets.path("smollm2")


@pytest.fixture(scope="session")
def bfcl_path() -> Path:
    """Folder of the installed BFCL V4 asset; the test is skipped where it is not installed."""
    if not assets.is_installed("bfcl"):
        pytest.skip("the asset is not installed; run: toolcredit data install bfcl")
    return assets.path("bfcl")


@pytest.fixture(scope="session")
def bfcl_v3_path() -> Path:
    """Folder of the installed BFCL V3 asset; the test is skipped where it is not installed."""
    if not assets.is_installed("bfcl-v3"):
        pytest.skip("the asset is not installed; run: toolcredit data install bfcl-v3")
    return assets.path("bfcl-v3")


@pytest.fixture(scope="session")
def tau2_source() -> object:
    """The `Source` of the installed τ²-bench asset; the test is skipped where it, or a package it needs, is missing."""
    if not assets.is_installed("tau2"):
        pytest.skip("the asset is not installed; run: toolcredit data install tau2")
    for name in ("addict", "docstring_parser", "toml"):
        pytest.importorskip(name, reason="run: pip install 'toolcredit[tau2-light]'")
    from toolcredit.benchmarks.tau2.package import find_source

    return find_source()


@pytest.fixture(scope="session")
def subset_bandit() -> type:
    """The class `SubsetBandit` of `tests/fakes/subset_bandit.py`."""
    return _load_fake("subset_bandit").SubsetBandit


@pytest.fixture(scope="session")
def chat_envs() -> ModuleType:
    """The module `tests/fakes/chat_envs.py`: the environment `Conversation`, made of functions."""
    return _load_fake("chat_envs")


@pytest.fixture(scope="session")
def scripted_backend() -> ModuleType:
    """The module `tests/fakes/scripted_backend.py`: `ScriptedBackend`, whose turns a function writes."""
    return _load_fake("scripted_backend")


@pytest.fixture(scope="session")
def grammar_policy() -> ModuleType:
    """The module `tests/fakes/grammar_policy.py`: a real small model whose rollouts can all be listed."""
    return _load_fake("grammar_policy")


@pytest.fixture(scope="session")
def vllm_fake() -> ModuleType:
    """The module `tests/fakes/vllm_server.py`: `VLLMServer`, a vLLM server that holds a real tiny model."""
    return _load_fake("vllm_server")


@pytest.fixture(scope="session")
def bfcl_files() -> ModuleType:
    """The module `tests/fakes/bfcl_files.py`: a small folder in BFCL's format, and a package around it."""
    return _load_fake("bfcl_files")


@pytest.fixture(scope="session")
def toy_suite() -> ModuleType:
    """The module `tests/fakes/toy_suite.py`: the suite `Sums` and the agent `Adder`."""
    return _load_fake("toy_suite")


@pytest.fixture(scope="session")
def hear_ctrl_c() -> Callable[[], None]:
    """For `preexec_fn` of a process that is sent SIGINT: a shell starts its background jobs deaf to it."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return prepare


@pytest.fixture(scope="session")
def page_reader() -> type:
    """The class `PageReader` of `tests/fakes/page_reader.py`."""
    return _load_fake("page_reader").PageReader
