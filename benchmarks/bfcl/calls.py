"""What a call is, and the error of a text that holds none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import UsageError

#: longest text of a reply, or of a call's arguments, that is read
MAX_CHARS = 262_144


@dataclass(frozen=True)
class Call:
    """One call: the function's name as the model wrote it, and its arguments by name."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


class NotCalls(UsageError):
    """The text is no list of calls; the message says where it stops being one."""
