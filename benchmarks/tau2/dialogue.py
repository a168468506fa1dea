"""One dialogue: the official orchestrator, turned inside out, so that the agent is called from outside.

    dialogue = Dialogue(domain, task, user)
    while not dialogue.over:
        dialogue.respond(agent.respond(dialogue.messages, dialogue.tools))

The official orchestrator calls its agent. Here it is stepped up to the agent's turn and waits there: no thread waits
with it, and a dialogue can be left at any point. What it does is otherwise its own: its messages, its prompts, its
limits in its order. Where it would raise and take the whole batch along (a reply that is empty or whose calls cannot be
read, a text in solo mode), the dialogue ends with `agent_error` instead, which scores 0.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

from ..suite import ChatAgent, Message
from .domains import Domain, Tool
from .package import Package
from .replies import Reply, ReplyError, read_reply, to_openai, to_tool_call

MAX_STEPS = 200
MAX_ERRORS = 10
#: reasons of termination that are limits, not somebody's end of the dialogue
LIMITS = ("max_steps", "too_many_errors")


class Dialogue:
    """A dialogue about one task.

    Args:
        domain: its domain.
        task: as its file has it.
        user: plays the user under the official prompt; None for solo mode, in which the agent has the user's tools,
            works on a ticket and ends by calling `done`.
        max_steps: messages between agent, user and environment after which it ends; checked as the official code does.
        max_errors: failing calls after which it ends.
        before_step: called before every step; may raise, e.g. when a deadline has passed.

    Attributes:
        messages: what the agent sees, in OpenAI's form; grows at its end only.
        tools: the agent's tools, in OpenAI's form.
        fault: why the agent's last reply could not be taken; None if it could.

    Raises:
        ConfigError: the domain has no solo mode.
        EndpointError: the user gave no usable reply.
    """

    def __init__(
        self,
        domain: Domain,
        task: Mapping[str, Any],
        user: ChatAgent | None,
        *,
        max_steps: int = MAX_STEPS,
        max_errors: int = MAX_ERRORS,
        before_step: Callable[[], Any] = lambda: None,
    ):
        self._package, self._before_step = domain.package, before_step
        self._roles = self._package.attribute("orchestrator.orchestrator:Role")
        self._is_shown = self._package.attribute("agent.base:is_valid_agent_history_message")
        self._solo = user is None
        parsed = domain.parse(task)
        environment = domain.environment(solo_mode=self._solo)
        self._agent = _agent(domain, environment.get_policy(), parsed, self._solo)
        self.tools = copy.deepcopy([tool.openai_schema for tool in self._agent.tools])
        self._orchestrator = self._package.attribute("orchestrator.orchestrator:Orchestrator")(
            domain=domain.name,
            agent=self._agent,
            user=_user(self._package, user, domain.user_tools, parsed),
            environment=environment,
            task=parsed,
            max_steps=max_steps,
            max_errors=max_errors,
            solo_mode=self._solo,
        )
        self.fault: str | None = None
        self.messages: list[Message] = [{"role": "system", "content": self._agent.system_prompt}]
        self._shown = 0
        history = parsed.initial_state.message_history if parsed.initial_state is not None else None
        self._begun = not self._solo or bool(history)  # else the orchestrator begins with the agent's first message
        if self._begun:
            self._orchestrator.initialize()
            self._go_on()

    @property
    def over(self) -> bool:
        """Whether the dialogue has ended."""
        return self._orchestrator.done

    @property
    def termination(self) -> str | None:
        """Why it has ended, in the package's words: `user_stop`, `agent_stop`, `agent_error`, `max_steps`, …."""
        reason = self._orchestrator.termination_reason
        return None if reason is None else reason.value

    @property
    def trajectory(self) -> list[Any]:
        """Everything that was said and done, as the package's messages."""
        return self._orchestrator.trajectory

    @property
    def steps(self) -> int:
        """Messages passed on so far, as the limit counts them."""
        return self._orchestrator.step_count

    def respond(self, message: Any) -> None:
        """Take the agent's turn, and go on to its next one or to the end.

        Args:
            message: an assistant message in OpenAI's form; anything else ends the dialogue as the agent's fault.

        Raises:
            EndpointError: the user gave no usable reply.
        """
        self._before_step()
        try:
            reply = read_reply(message)
            self._check_solo(reply)
        except ReplyError as error:
            self._end_by_fault(str(error))
            return
        self._agent.reply = self._as_message(reply)
        self._say(reply)
        if self._begun:
            self._step()
        else:
            self._begun = True
            self._orchestrator.initialize()
        self._go_on()

    def _check_solo(self, reply: Reply) -> None:
        if not self._solo:
            return
        if reply.tool_calls is None:
            raise ReplyError("a text without a call: there is nobody to read it in solo mode")
        if reply.content and self._agent.STOP_TOKEN in reply.content:
            raise ReplyError(f"calls beside the text {self._agent.STOP_TOKEN}")

    def _as_message(self, reply: Reply) -> Any:
        calls = reply.tool_calls and [
            self._package.messages.ToolCall(id=call.id or self._new_id(place), name=call.name, arguments=call.arguments)
            for place, call in enumerate(reply.tool_calls)
        ]
        return self._package.messages.AssistantMessage(role="assistant", content=reply.content, tool_calls=calls)

    def _new_id(self, place: int) -> str:
        return f"call_{len(self.messages)}_{place}"

    def _say(self, reply: Reply) -> None:
        """Show the agent its own turn, with calls as they were read."""
        shown: Message = {"role": "assistant", "content": reply.content}
        if self._agent.reply.tool_calls:
            shown["tool_calls"] = [to_tool_call(c.id, c.name, c.arguments) for c in self._agent.reply.tool_calls]
        self.messages.append(shown)
        self._shown = len(self.trajectory) + 1

    def _end_by_fault(self, reason: str) -> None:
        self.fault = reason
        self._orchestrator.done = True
        self._orchestrator.termination_reason = self._package.simulations.TerminationReason.AGENT_ERROR

    def _go_on(self) -> None:
        """Step until the agent is to speak, or the dialogue is over."""
        while not self.over and self._orchestrator.to_role != self._roles.AGENT:
            self._before_step()
            self._step()
        self.messages += [to_openai(message) for message in self.trajectory[self._shown :] if self._is_shown(message)]
        self._shown = len(self.trajectory)

    def _step(self) -> None:
        """One step and the checks after it, in the order of the official `run`."""
        play, reasons = self._orchestrator, self._package.simulations.TerminationReason
        play.step()
        if play.to_role == self._roles.ENV:
            return
        if play.step_count >= play.max_steps:
            play.done, play.termination_reason = True, reasons.MAX_STEPS
        if play.num_errors >= play.max_errors:
            play.done, play.termination_reason = True, reasons.TOO_MANY_ERRORS


def _agent(domain: Domain, policy: str, task: Any, solo: bool) -> Any:
    """The official agent with its prompt, which says what it was told to instead of asking a model."""
    puppet = _puppet_class(domain.package, solo)
    if solo:
        return puppet([*domain.tools, *(domain.user_tools or [])], policy, task)
    return puppet(list(domain.tools), policy)


@functools.cache
def _puppet_class(package: Package, solo: bool) -> type:
    base: Any = package.attribute(f"agent.llm_agent:{'LLMSoloAgent' if solo else 'LLMAgent'}")

    class Puppet(base):
        reply: Any = None

        def generate_next_message(self, message: Any, state: Any) -> tuple[Any, Any]:
            return self._check_if_stop_toolcall(self.reply) if solo else self.reply, state

    return Puppet


def _user(package: Package, user: ChatAgent | None, tools: list[Tool] | None, task: Any) -> Any:
    """The official user simulator, which asks `user` instead of an endpoint; the official dummy in solo mode."""
    if user is None:
        return package.attribute("user.user_simulator:DummyUser")()
    simulator = package.attribute("user.user_simulator:UserSimulator")
    return simulator(tools=tools, instructions=str(task.user_scenario), llm=user, llm_args={})
