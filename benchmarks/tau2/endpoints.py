"""What stands in for the package's `generate`: it asks a `ChatAgent`, the user simulator's or the judge's."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from ...errors import EndpointError
from ..suite import ChatAgent
from .replies import Reply, ReplyError, read_reply, to_openai

ASKS = 3

#: who judges: the package names its judge by a constant, which is looked up here
JUDGE: ContextVar[ChatAgent | None] = ContextVar("toolcredit_tau2_judge", default=None)


def generate(model: ChatAgent | str, messages: Sequence[Any], tools: Sequence[Any] | None = None, **_: Any) -> Reply:
    """One reply, with the signature of the official `generate`.

    Args:
        model: who is asked; a text stands for the judge.
        messages: of the package.
        tools: of the package.

    Raises:
        EndpointError: no usable reply after `ASKS` attempts.
    """
    asked = JUDGE.get() if isinstance(model, str) else model
    if asked is None:
        raise EndpointError("the package asks for a judge, and there is none")
    conversation = [to_openai(message) for message in messages]
    schemas = [tool.openai_schema for tool in tools or ()]
    reason = ""
    for _attempt in range(ASKS):
        try:
            return read_reply(asked.respond(conversation, schemas))
        except ReplyError as error:
            reason = str(error)
    who = "judge" if isinstance(model, str) else "user simulator"
    raise EndpointError(f"the {who} gave no usable reply in {ASKS} attempts: {reason}")
