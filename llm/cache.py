"""A response cache on disk for greedy requests: SQLite, safe among threads and processes, whole after a kill."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .replies import Completion


class ResponseCache:
    """Maps a request's SHA-256 to its reply.

    Args:
        path: the SQLite file; made, with its folders, on first use.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0

    def get(self, key: str) -> Completion | None:
        """The stored reply, marked as cached, or None.

        Raises:
            UsageError: the file is no cache of this kind.
        """
        rows = self._execute("SELECT reply FROM replies WHERE key = ?", (key,))
        try:
            return Completion.from_dict(json.loads(rows[0][0]), cached=True) if rows else None
        except (ValueError, KeyError, TypeError) as error:
            raise self._unusable(error) from None

    def put(self, key: str, reply: Completion) -> None:
        """Store a reply; it is on disk when this returns.

        Raises:
            UsageError: the file is no cache of this kind.
        """
        text = json.dumps(reply.to_dict(), ensure_ascii=False)
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, text))

    def _execute(self, sql: str, arguments: tuple[str, ...]) -> list[Any]:
        with self._lock:
            try:
                if self._process != os.getpid():  # a connection must not cross a fork
                    self._connection, self._process = self._open(), os.getpid()
                assert self._connection is not None
                return self._connection.execute(sql, arguments).fetchall()
            except (sqlite3.Error, OSError) as error:
                raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> UsageError:
        return UsageError(f"{self.path} cannot be used as a response cache: {error}; remove it or name another file")

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=60.0, isolation_level=None, check_same_thread=False)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
        )
        return connection

    def __reduce__(self) -> tuple[Any, ...]:
        return ResponseCache, (self.path,)
