"""What the τ² tests share: domains, tasks by id, and playing one with scripted sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from toolcredit.benchmarks.chat_agents import Scripted
from toolcredit.benchmarks.tau2.replies import to_tool_call


@pytest.fixture
def domain(tau2_source) -> Callable[[str], Any]:
    """A domain by its name."""
    from toolcredit.benchmarks.tau2.domains import load_domain

    return lambda name: load_domain(tau2_source, name)


@pytest.fixture
def said() -> Callable[..., dict[str, Any]]:
    """An assistant message: of a text, or of calls `(name, arguments)`."""

    def message(content: str | None = None, *calls: tuple[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            made["tool_calls"] = [to_tool_call("", name, arguments) for name, arguments in calls]
        return made

    return message


@pytest.fixture
def play(domain, said) -> Callable[..., Any]:
    """Play a task of a domain with scripted turns: texts, or messages. Without `user` in solo mode."""
    from toolcredit.benchmarks.tau2.dialogue import Dialogue

    def played(name: str, task_id: str, agent: list[Any], user: list[Any] | None, **options: Any) -> Any:
        def scripted(turns: list[Any]) -> Scripted:
            return Scripted([said(turn) if isinstance(turn, str) else turn for turn in turns])

        where = domain(name)
        sides = scripted(agent), None if user is None else scripted(user)
        dialogue = Dialogue(where, where.all_tasks[task_id], sides[1], **options)
        while not dialogue.over:
            dialogue.respond(sides[0].respond(dialogue.messages, dialogue.tools))
        return dialogue

    return played
