"""The layout that docs/architecture.md describes: who may import whom, and that packaging lists every folder."""

import ast
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LAYERS = ("cli", "benchmarks", "agents", "envs", "rewards")  # each may import itself and what stands to its right
SHARED = {"llm", "errors", "runs", "assets", "_version"}  # may be imported by all
NOT_PACKAGES = {"tests", "docs", "examples", "scripts", "build", "dist"}
HEAVY = {
    "torch",
    "transformers",
    "peft",
    "accelerate",
    "safetensors",
    "gguf",
    "matplotlib",
    "pyarrow",
    "openai",
    "vllm",
}
MODULES = sorted(
    path
    for path in ROOT.rglob("*.py")
    if not any(part in NOT_PACKAGES or part.startswith(".") for part in path.relative_to(ROOT).parts)
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package_of(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts[:-1]


def imports(path: Path, top_level_only: bool = False) -> list[tuple[str, ...]]:
    return imports_of(path.read_text("utf-8"), package_of(path), top_level_only)


def imports_of(source: str, package: tuple[str, ...], top_level_only: bool = False) -> list[tuple[str, ...]]:
    """What a module imports: ("toolcredit", "envs", …) for relative imports, the dotted parts for others."""
    found = []
    tree = ast.parse(source)
    skipped = {
        id(node)
        for scope in ast.walk(tree)
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or _type_checking(scope)
        for node in ast.walk(scope)
    }
    for node in ast.walk(tree):
        if top_level_only and id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = ("toolcredit", *package[: len(package) - node.level + 1], *module)
                found += [(*base, alias.name) for alias in node.names]
            else:
                found += [(*module, alias.name) for alias in node.names]
    return found


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def inner_imports(path: Path) -> set[str]:
    return {parts[1] for parts in imports(path) if parts[0] == "toolcredit" and len(parts) > 1}


def test_packages_in_pyproject_equal_the_folders():
    folders = {".".join(("toolcredit", *package_of(path))) for path in MODULES if path.name == "__init__.py"}
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == folders


def test_every_folder_with_modules_is_a_package():
    assert {path.parent for path in MODULES} == {path.parent for path in MODULES if path.name == "__init__.py"}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_downwards_only(layer):
    allowed = {*LAYERS[LAYERS.index(layer) :], *SHARED, "__version__"}
    wrong = {
        name_of(path): sorted(above)
        for path in MODULES
        if package_of(path)[:1] == (layer,) and (above := inner_imports(path) - allowed)
    }
    assert not wrong, f"{layer} may import {sorted(allowed)} only"


def test_shared_modules_import_none_of_the_layers():
    shared = [
        path
        for path in MODULES
        if package_of(path)[:1] == ("llm",) or name_of(path) in ("errors.py", "runs.py", "assets.py")
    ]
    wrong = {name_of(path): sorted(up) for path in shared if (up := inner_imports(path) & set(LAYERS))}
    assert not wrong


def test_agents_know_no_particular_environment():
    particular = {path.name for path in (ROOT / "envs").iterdir() if (path / "__init__.py").is_file()}
    assert "genome" in particular
    wrong = {
        name_of(path): parts
        for path in MODULES
        if package_of(path)[:1] == ("agents",)
        for parts in imports(path)
        if parts[:2] == ("toolcredit", "envs") and len(parts) > 2 and parts[2] in particular
    }
    assert not wrong, "agents see environments through Gymnasium and the protocols in agents/base.py"


def test_imports_inside_the_package_are_relative():
    banned = set(PYPROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"])
    top = {path.relative_to(ROOT).parts[0] for path in MODULES if len(path.relative_to(ROOT).parts) > 1}
    assert top <= banned, "TID251 must ban every top-level folder as a bare import"
    absolute = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "toolcredit"
    }
    assert not absolute


def test_light_modules_import_nothing_heavy_at_their_top():
    """What `import toolcredit`, `gym.make` and `toolcredit --help` reach must start fast and without torch."""
    light = [path for path in MODULES if package_of(path)[:1] in ((), ("cli",), ("envs",), ("rewards",), ("llm",))]
    light += [ROOT / "agents" / name for name in ("base.py", "baselines.py", "check.py", "dead_groups.py")]
    light += [path for path in MODULES if package_of(path)[:1] == ("benchmarks",)]
    wrong = {name_of(p): sorted(heavy) for p in light if (heavy := {i[0] for i in imports(p, True)} & HEAVY)}
    assert not wrong, "import these inside the functions that need them"


def test_the_reader_of_imports_sees_every_kind():
    source = "from ...envs.genome import env\nfrom . import config\nimport torch.nn\ndef f():\n    import openai\n"
    source += "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import peft\n"
    everything = imports_of(source, ("agents", "policy"))
    assert ("toolcredit", "envs", "genome", "env") in everything
    assert ("toolcredit", "agents", "policy", "config") in everything
    assert {("torch", "nn"), ("openai",), ("peft",)} <= set(everything)
    assert {("openai",), ("peft",)}.isdisjoint(imports_of(source, ("agents", "policy"), top_level_only=True))
