"""Run mypy on the package under its import name.

The repository root is the package `toolcredit`, but a clone's folder may have any name. mypy wants to see a package in
a folder of its own name, so it gets a temporary link.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


def package_files() -> list[str]:
    """Every module of the packages that pyproject.toml lists: tests, examples and builds are left out."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [name.replace(".", "/") for name in packages]
    return [
        f"{folder}/{path.name}"
        for folder in folders
        for path in sorted((ROOT / folder.removeprefix("toolcredit").lstrip("/")).glob("*.py"))
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "toolcredit").symlink_to(ROOT, target_is_directory=True)
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        command += ["--cache-dir", str(ROOT / ".mypy_cache"), "--explicit-package-bases"]
        return subprocess.call([*command, *package_files()], cwd=folder, env={**os.environ, "MYPYPATH": folder})


if __name__ == "__main__":
    sys.exit(main())
