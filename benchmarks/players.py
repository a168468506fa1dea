"""Who can be measured: from what a user writes after `--agent` to a `Player`.

| written | plays |
|---|---|
| `gold`, `nothing`, `random`, … | a reference of the suite |
| `openai:MODEL` | a model at any OpenAI-compatible endpoint |
| `local:NAME_OR_PATH[+ADAPTER]` | a model in this process, with a LoRA adapter |
| a run folder | what was trained there |
| `package.module:Class` | a `ChatAgent`, or an `agents.base.Agent` |
| another name | a registered agent, where the suite takes agents of environments |
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from ..agents.base import Agent, Learner, agent_class, agent_names, import_object, is_run_folder
from ..agents.config import parse_config
from ..errors import ConfigError, EndpointError, RunError, UnknownNameError, UsageError
from ..llm.client import DEFAULT_KEY_VARIABLE, OWN_FIELDS, ChatClient
from ..llm.limiter import Limit
from ..runs import RunFolder
from .chat_agents import EnvChat, chat_selector
from .runner import DEADLINE, ReferencePlayer
from .suite import AgentKind, ChatAgent, Message, Player, Suite, SuiteTask, TaskContext

if TYPE_CHECKING:
    from .local_chat import LocalPlayer

#: longest time for one call of a model, all attempts and waits together
_CALL_DEADLINE = 300.0
#: what `EndpointOptions.params` cannot set
_FILLED = OWN_FIELDS | {"tools", "within"}


class EndpointOptions(BaseModel):
    """How a model at an endpoint is asked."""

    model_config = ConfigDict(extra="forbid")

    base_url: str | None = Field(None, description="The endpoint, up to and with /v1; default $OPENAI_BASE_URL.")
    api_key_env: str = Field(DEFAULT_KEY_VARIABLE, description="Environment variable with the key.")
    temperature: float | None = Field(0.0, ge=0, description="Sampling temperature; null leaves it to the endpoint.")
    max_tokens: PositiveInt | None = Field(4096, description="Longest reply; null leaves it to the endpoint.")
    seed: bool = Field(True, description="Above temperature 0, send each attempt's own seed.")
    params: dict[str, Any] = Field(default_factory=dict, description="Further fields of every request.")
    in_flight: PositiveInt = Field(16, description="Requests at once.")
    requests_per_minute: PositiveInt | None = Field(None, description="Pace.")
    tokens_per_minute: PositiveInt | None = Field(None, description="Pace, prompt and completion together.")
    timeout: PositiveFloat = Field(120.0, description="Seconds for one request.")
    retries: int = Field(5, ge=0, description="Further requests after one that failed for a passing reason.")
    cache: str | None = Field(None, description="File of a response cache, for temperature 0.")


class LocalOptions(BaseModel):
    """How a local model is asked."""

    model_config = ConfigDict(extra="forbid")

    temperature: float = Field(0.0, ge=0, description="Sampling temperature; 0 is greedy.")
    max_tokens: PositiveInt = Field(512, description="Longest turn.")
    template: Literal["auto", "own", "chatml", "compact"] = Field("auto", description="How chats are written.")
    parser: str = Field("hermes", description="Syntax of calls: hermes, llama3, mistral, pythonic.")
    in_flight: PositiveInt = Field(8, description="Conversations sampled together.")
    dtype: str = Field("auto", description="auto, float32, bfloat16 or float16.")
    device: str = Field("auto", description="auto, or a torch device.")


def make_player(
    spec: str, suite: Suite, options: Mapping[str, Any] | None = None, deadline: float = DEADLINE
) -> Player:
    """The player of a specification.

    Args:
        spec: as a user writes it, see the module's description.
        suite: what it is to play.
        options: fields of `EndpointOptions` or `LocalOptions`; keyword arguments of a class.
        deadline: of a task; no call of an endpoint takes longer.

    Raises:
        UnknownNameError: nothing is meant by that, or there is no such option.
        UsageError: it cannot be used: no key, no such model, no agent for this suite.
    """
    options = dict(options or {})
    if spec in suite.references:
        _no_options(spec, options)
        return ReferencePlayer(suite, spec)
    kind, _, rest = spec.partition(":")
    if is_run_folder(spec):
        return _run_player(spec, suite, options)
    if kind in ("openai", "local"):
        if not rest.strip():
            raise UsageError(f"--agent {spec}: expected {kind}:MODEL")
        chat = EndpointPlayer(rest, options, deadline) if kind == "openai" else _local_player(rest, options)
        return chat if suite.agent_kind == "chat" else SelectorPlayer(chat, suite)
    if ":" in spec:
        return _class_player(spec, import_object(spec), suite, options)
    if spec in agent_names():
        return _class_player(spec, agent_class(spec), suite, options)
    if Path(spec).is_dir():
        raise RunError(f"{spec} is not a run folder: it has no config.json")
    if "/" in spec:
        raise RunError(f"there is no folder {spec}; a model is openai:MODEL or local:MODEL")
    forms = "Or openai:MODEL, local:MODEL[+ADAPTER], a run folder, package.module:Class"
    raise UnknownNameError(f"agent for the suite {suite.name}", spec, {*suite.references, *agent_names()}, forms)


def _no_options(spec: str, options: Mapping[str, Any]) -> None:
    if options:
        raise ConfigError(f"{spec} takes no options, got {', '.join(options)}")


# ------------------------------------------------------------------------------------------------------- endpoints


class EndpointPlayer:
    """A model at an OpenAI-compatible endpoint.

    Args:
        model: its name there.
        options: fields of `EndpointOptions`.
        deadline: longest time for one call.

    Raises:
        ConfigError: an option is out of range, or a key is needed and not in the environment.
    """

    kind: AgentKind = "chat"

    def __init__(self, model: str, options: Mapping[str, Any] | None = None, deadline: float = DEADLINE):
        self.name = model
        self.options = parse_config(EndpointOptions, dict(options or {}))
        taken = sorted(_FILLED & self.options.params.keys())
        if taken:
            raise ConfigError(f"params has {', '.join(taken)}: the suite fills these fields, leave them out")
        limit = Limit(self.options.in_flight, self.options.requests_per_minute, self.options.tokens_per_minute)
        # with a pace of r requests a minute, more than r tasks at once would wait longer than a minute for their turn
        self.concurrency: int | None = min(limit.in_flight, limit.requests_per_minute or limit.in_flight)
        longest = min(deadline, _CALL_DEADLINE)
        self.client = ChatClient(
            model,
            base_url=self.options.base_url,
            api_key_env=self.options.api_key_env,
            limit=limit,
            timeout=min(self.options.timeout, longest),
            deadline=longest,
            max_retries=self.options.retries,
            cache=self.options.cache,
        )

    def prepare(self, suite: Suite, tasks: Sequence[SuiteTask]) -> None:
        """Get ready to ask, so that the first attempts do not lose the seconds that this takes."""
        self.client.prepare()

    @property
    def identity(self) -> dict[str, Any]:
        """Model, endpoint and the fields of every request."""
        return {"model": self.name, "base_url": self.client.base_url, **self._fixed_params()}

    def start(self, task: SuiteTask, context: TaskContext) -> EndpointChat:
        """An agent for one attempt."""
        params = self._fixed_params()
        if self.options.seed and self.options.temperature:
            params = {"seed": context.seed, **params}
        return EndpointChat(self.client, params, context)

    def _fixed_params(self) -> dict[str, Any]:
        own = {"temperature": self.options.temperature, "max_tokens": self.options.max_tokens}
        return {name: value for name, value in {**own, **self.options.params}.items() if value is not None}


class EndpointChat:
    """The assistant of one conversation. What the model says comes through as it is, unreadable calls included."""

    def __init__(self, client: ChatClient, params: Mapping[str, Any], context: TaskContext):
        self._client, self._params, self._context = client, dict(params), context

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        """The model's message.

        Raises:
            DeadlineError: the attempt's time is over. No request outlives it: it would take a place from others.
            EndpointError: there is none.
        """
        offered = {"tools": list(tools)} if tools else {}
        left = self._context.remaining()
        try:
            said = self._client.complete(
                list(messages), within=left if math.isfinite(left) else None, **offered, **self._params
            )
        except EndpointError:
            self._context.remaining()
            raise
        message: Message = {"role": "assistant", "content": said.text}
        if said.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id or f"call_{len(messages)}_{index}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for index, call in enumerate(said.tool_calls)
            ]
        return message


# ---------------------------------------------------------------------------------------------------- local models


def local_player(spec: str, options: Mapping[str, Any]) -> LocalPlayer:
    """A model in this process that chats: what may stand after `local:` (with or without it), or what a run trained.

    Args:
        spec: a model, or a run folder.
        options: fields of `LocalOptions`.

    Raises:
        UsageError: there is no such model, it cannot be loaded, or what was trained there cannot chat.
    """
    trained = is_run_folder(spec) and "agent" in RunFolder.load_config(spec)
    return _trained_chat(spec, options) if trained else _local_player(spec.removeprefix("local:"), options)


def _local_player(spec: str, options: Mapping[str, Any]) -> LocalPlayer:
    parsed = parse_config(LocalOptions, dict(options))
    model, _, adapter = spec.partition("+")
    from ..llm.threads import choose_threads
    from .local_chat import load_model

    choose_threads()
    return _chat_of(spec, load_model(model, adapter or None, parsed.dtype, parsed.device), parsed)


def _chat_of(name: str, local: Any, options: LocalOptions) -> LocalPlayer:
    from .local_chat import LocalPlayer

    return LocalPlayer(
        name,
        local,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        template=options.template,
        parser=options.parser,
        slots=options.in_flight,
    )


def _run_player(folder: str, suite: Suite, options: Mapping[str, Any]) -> Player:
    """What was trained in a run folder: the learner itself, or the language model behind it for suites that chat."""
    if suite.agent_kind == "chat":
        return _trained_chat(folder, options)
    _no_options(folder, options)
    name, cls = _learner(folder)
    weights = {"run": name, "adapter": _adapter_digest(Path(folder))}
    return EnvPlayer(f"{name} ({Path(folder).name})", lambda: cls.load(folder), suite, weights)


def _trained_chat(folder: str, options: Mapping[str, Any]) -> LocalPlayer:
    """The language model behind a learner. Chats are written as it was trained: another way would be another model."""
    name, cls = _learner(folder)
    stored = RunFolder.load_config(folder)
    policy, env = (stored.get("config") or {}).get("policy") or {}, (stored.get("env") or {}).get("kwargs") or {}
    written = {"template": policy.get("template"), "parser": env.get("parser")}
    parsed = parse_config(LocalOptions, {k: v for k, v in written.items() if isinstance(v, str)} | dict(options))
    place = {key: options[key] for key in ("dtype", "device") if key in options}
    learner = cls.load(folder, **({"policy": policy | place} if place else {}))
    local = getattr(getattr(learner, "policy", None), "local", None)
    if local is None:
        raise UsageError(f"{folder}: {name} has no language-model policy that could chat")
    return _chat_of(f"{name} ({Path(folder).name})", local, parsed)


def _learner(folder: str) -> tuple[str, type[Learner]]:
    """Name and class of the learner whose run this is."""
    name = str(RunFolder.load_config(folder).get("agent"))
    cls = agent_class(name)
    if not issubclass(cls, Learner):
        raise RunError(f"{folder} is a run of {name!r}, which is no learner")
    return name, cls


def _adapter_digest(folder: Path) -> str | None:
    file = folder / "adapter" / "adapter_model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


# ------------------------------------------------------------------------------- classes, and agents of environments


class ObjectPlayer:
    """Somebody's own `ChatAgent`, used for all attempts from several threads; or one that starts agents.

    Args:
        name: for tables.
        made: has `respond`, or `start(context)` that gives an object with `respond` for one attempt. Optional:
            `concurrency` and `identity`.
    """

    kind: AgentKind = "chat"

    def __init__(self, name: str, made: Any):
        self.name, self._made = name, made
        self.concurrency: int | None = getattr(made, "concurrency", None)

    @property
    def identity(self) -> dict[str, Any]:
        """The import path, and what the object says of itself."""
        return {"class": self.name, **getattr(self._made, "identity", {})}

    def start(self, task: SuiteTask, context: TaskContext) -> ChatAgent:
        """The agent of one attempt."""
        return _OnCopies(self._made.start(context) if hasattr(self._made, "start") else self._made)


class _OnCopies:
    """Gives an agent copies: what it does to a conversation must not change the suite's own."""

    def __init__(self, agent: ChatAgent):
        self._agent = agent

    def respond(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Message:
        return self._agent.respond(copy.deepcopy(list(messages)), copy.deepcopy(list(tools)))


class EnvChatPlayer:
    """An agent for chat environments, a new one for each attempt."""

    kind: AgentKind = "chat"
    concurrency: int | None = None

    def __init__(self, name: str, make: Callable[[], Agent], options: Mapping[str, Any]):
        self.name, self._make = name, make
        self.identity = {"class": name, **options}

    def start(self, task: SuiteTask, context: TaskContext) -> EnvChat:
        """The agent of one attempt, bound and reset."""
        return EnvChat(self._make(), context.seed)


class EnvPlayer:
    """An agent of an environment, made and bound once; its decisions are taken one at a time."""

    kind: AgentKind = "env"
    concurrency: int | None = None

    def __init__(self, name: str, make: Callable[[], Agent], suite: Suite, identity: Mapping[str, Any]):
        self.name, self.identity = name, dict(identity)
        self._make, self._suite = make, suite
        self._agent: Agent | None = None
        self._lock = threading.Lock()

    def start(self, task: SuiteTask, context: TaskContext) -> Agent:
        """The agent of one attempt."""
        with self._lock:
            if self._agent is None:
                agent = self._make()
                agent.bind(self._suite.env())
                self._agent = agent
        return _OneAtATime(self._agent, self._lock)


class _OneAtATime(Agent):
    def __init__(self, agent: Agent, lock: threading.Lock):
        self.name, self.ceiling = agent.name, agent.ceiling
        self._agent, self._lock = agent, lock
        self._seed: int | None = None

    def reset(self, *, seed: int | None = None) -> None:
        self._seed = seed

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        with self._lock:
            self._agent.reset(seed=self._seed)
            return self._agent.act(observation, info)


class SelectorPlayer:
    """Whoever chats, asked which tools to call."""

    kind: AgentKind = "env"

    def __init__(self, chat: Player, suite: Suite):
        self.name, self.concurrency = chat.name, chat.concurrency
        self._chat, self._suite = chat, suite

    def prepare(self, suite: Suite, tasks: Sequence[SuiteTask]) -> None:
        """Prepare the chat, if it knows how."""
        if hasattr(self._chat, "prepare"):
            self._chat.prepare(suite, tasks)

    @property
    def identity(self) -> dict[str, Any]:
        """That of the chat."""
        return self._chat.identity

    def start(self, task: SuiteTask, context: TaskContext) -> Agent:
        """The agent of one attempt."""
        return chat_selector(self._chat.start(task, context), self._suite.env())


def _refuse_what_cannot_chat(spec: str, found: type[Agent], options: Mapping[str, Any]) -> None:
    """Told once before the run, instead of in every attempt. What else goes wrong is the attempt's own failure."""
    try:
        EnvChat(found(**options), seed=0)
    except UsageError as error:
        raise UsageError(f"{spec} cannot hold the conversations of this suite: {error}") from None
    except Exception:
        return


def _class_player(spec: str, found: Any, suite: Suite, options: Mapping[str, Any]) -> Player:
    if not callable(found):
        raise UsageError(f"{spec} is {found!r}, expected a class or a function that makes an agent")
    try:
        inspect.signature(found).bind(**options)
    except TypeError as error:
        raise ConfigError(f"{spec}: {error}") from None
    if isinstance(found, type) and issubclass(found, Agent):
        if suite.agent_kind == "env":
            return EnvPlayer(spec, lambda: found(**options), suite, {"class": spec, **options})
        _refuse_what_cannot_chat(spec, found, options)
        return EnvChatPlayer(spec, lambda: found(**options), options)
    chat = ObjectPlayer(spec, found(**options))
    return chat if suite.agent_kind == "chat" else SelectorPlayer(chat, suite)
