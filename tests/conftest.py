"""Fixtures that give the shared fakes of tests/fakes; `tests` itself is no package."""

import importlib.util
import sys
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"


def load_fake(name: str):
    """The module tests/fakes/<name>.py, registered so that what it defines can be pickled."""
    module_name = f"toolcredit_fakes_{name}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, FAKES / f"{name}.py")
        sys.modules[module_name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[module_name]


@pytest.fixture(scope="session")
def subset_bandit():
    """The class `SubsetBandit`."""
    return load_fake("subset_bandit").SubsetBandit
