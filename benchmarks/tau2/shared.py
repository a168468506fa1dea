"""Databases whose entries are shared until they are asked for, and which are compared by what changed.

The databases of airline and retail hold thousands of entries, a task touches a handful. Loading one takes 0.3 s, and so
does hashing it; the official evaluator does each of them twice for every dialogue. Here a database is a shallow copy
whose entries are copied when they are asked for by key. That is safe as long as nobody changes an entry that was found
by iterating; the tools do not, and a test plays every task and then looks whether the originals are as they were.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any


class Shared(dict):
    """A dict of pydantic models that copies a model when it is asked for by its key.

    Args:
        origin: what it starts as; never changed.
    """

    def __init__(self, origin: Mapping[str, Any]):
        super().__init__(origin)
        self.origin = origin
        self._own: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if key not in self._own:
            value = value.model_copy(deep=True)
            self[key] = value
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._own.add(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        try:
            return self[key]
        except KeyError:
            return default

    def changes(self) -> Iterator[tuple[str, str]]:
        """Key and content of every entry that is not as it was, by key; an entry that is gone has no content."""
        for key in sorted(self._own | (self.origin.keys() - self.keys())):
            now, before = _content(super().get(key)), _content(self.origin.get(key))
            if now != before:
                yield key, now


def share(database: Any) -> Any:
    """A database of the same content, every field of which is a dict of pydantic models."""
    fields = type(database).model_fields
    return type(database).model_construct(**{name: Shared(getattr(database, name)) for name in fields})


def is_shared(database: Any) -> bool:
    """Whether a database was made by `share`, and not replaced since."""
    return all(isinstance(getattr(database, name), Shared) for name in type(database).model_fields)


def digest(database: Any) -> str:
    """A hash of what changed in a shared database: equal for two of one origin if and only if they are equal."""
    changes = {name: list(getattr(database, name).changes()) for name in type(database).model_fields}
    return hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()


def _content(model: Any) -> str:
    return "" if model is None else json.dumps(model.model_dump(), sort_keys=True, default=str)
