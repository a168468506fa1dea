"""Fixtures of the BFCL tests: the hand-written files, and the installed releases."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from toolcredit.benchmarks.bfcl.data import Dataset, open_dataset


@pytest.fixture
def folder(bfcl_files: ModuleType, tmp_path: Path) -> Path:
    """A folder of hand-written data files, without a package."""
    return bfcl_files.write_folder(tmp_path / "files")


@pytest.fixture(scope="session")
def package(bfcl_files: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package around the hand-written data files."""
    return bfcl_files.write_package(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def v4(bfcl_path: Path) -> Dataset:
    """The released V4."""
    return open_dataset(bfcl_path)


@pytest.fixture(scope="session")
def v3(bfcl_v3_path: Path) -> Dataset:
    """The released V3."""
    return open_dataset(bfcl_v3_path)
