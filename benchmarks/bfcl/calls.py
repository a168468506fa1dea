"""What a call is, what a checker says of calls, and the error of a text that holds none."""

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

    def source(self) -> str:
        """The call as Python source, as the prompting mode writes it."""
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


@dataclass(frozen=True)
class Verdict:
    """What a checker says of a reply.

    Attributes:
        valid: right or wrong.
        error: the kind of the first thing that is wrong; empty if right.
        detail: what is wrong, for people.
    """

    valid: bool
    error: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Reply:
    """What a reply says.

    Attributes:
        calls: in order, as far as they can be read; empty if nothing is called.
        malformed: why an attempt at calls cannot be read, or is not right however it is read; None otherwise.
    """

    calls: tuple[Call, ...] = ()
    malformed: str | None = None


class NotCalls(UsageError):
    """The text is no list of calls; the message says where it stops being one."""
