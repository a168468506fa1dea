"""Modules of a package's folder, loaded under a private name: nothing is installed, nothing of it leaks.

The official code of a benchmark asks for fifty other packages, or makes folders where it is imported. So it is not
imported: its modules are run from their folder below a root name of their own. The interpreter's package of that name,
if it has one, is not touched, two releases work side by side, and a copy can be mended without mending anybody else's.
What the modules import besides can be replaced by stand-ins.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


class PrivatePackage(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A package's folder as modules below a root of their own.

    Its modules are run with the names in their imports, and dotted paths in their strings, led below the root. The
    object stays in `sys.meta_path`: make one for each folder.

    Args:
        folder: of the package itself.
        name: of the package, as its modules import it.
        stand_ins: attributes of modules that are replaced, by dotted name (`pandas`, `tau2.utils.llm_utils`).
        allowed: which modules may be loaded, by their name inside the package (`""` is the package itself).
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        stand_ins: Mapping[str, Mapping[str, Any]] = {},
        allowed: Callable[[str], bool] = lambda name: True,
    ):
        self.folder, self.name = folder, name
        self.root = f"_toolcredit_{self.name}_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
        self._stand_ins, self._allowed = stand_ins, allowed
        names = "|".join(sorted({name, *(module.partition(".")[0] for module in stand_ins)}))
        self._led = (
            (re.compile(rf"^(\s*)from ({names})\b", re.MULTILINE), rf"\1from {self.root}.\2"),
            (re.compile(rf"^(\s*)import ({names})\b(?!\.)", re.MULTILINE), rf"\1from {self.root} import \2"),
            (re.compile(rf"(?<=[\"'])({self.name}\.)"), rf"{self.root}.\1"),
        )
        sys.meta_path.append(self)

    def module(self, name: str) -> ModuleType:
        """A module of the package, by its name inside it, such as `data_model.message`."""
        return importlib.import_module(f"{self.root}.{self.name}.{name}")

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module's spec, if it is below this root."""
        root, _, name = fullname.partition(".")
        if root != self.root:
            return None
        if not name or name in self._stand_ins:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=not name)
        package, _, inner = name.partition(".")
        place = self.folder.joinpath(*inner.split("."))
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if package != self.name or not self._allowed(inner) or not file.is_file():
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(file), is_package=place.is_dir())
        spec.has_location = True  # packages find their data by `__file__`
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Fill a stand-in, or run the module's source."""
        name = module.__name__.partition(".")[2]
        if name in self._stand_ins:
            vars(module).update(self._stand_ins[name])
        elif module.__spec__ is not None and module.__spec__.origin is not None:
            origin = module.__spec__.origin
            source = Path(origin).read_text("utf-8")
            for pattern, replacement in self._led:
                source = pattern.sub(replacement, source)
            exec(compile(source, origin, "exec", dont_inherit=True), vars(module))
