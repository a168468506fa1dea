"""`toolcredit play ENV`: a person acts in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import typer

from ..agents.base import ChatEnv, TextBandit
from ..agents.chat_baselines import assistant_message
from ..envs.make import make_env
from ..errors import UsageError
from ..runs import JsonLines
from . import options

_HELP = """Write a call as  TOOL {"parameter": value}  on a line of its own; several lines are calls of one turn.
Anything else is said; a turn without a call is your reply, which ends most episodes. An empty line sends the turn.
:tools shows the tools in full, :undo forgets the lines of this turn, :quit stops."""


def play(
    env: str = typer.Argument("SGLSToolCallingReplay-v0", help="Gymnasium id of the environment."),
    task: str = typer.Option(None, "--task", help="Id of the task or question; default: drawn by the seed."),
    seed: int = typer.Option(0, "--seed", help="Seed of the draw."),
    save: Path = typer.Option(None, "--save", help="Append the transcript to this JSONL file."),
    env_set: list[str] = options.ENV_SET,
) -> None:
    """Act yourself, and see what it is worth."""
    environment = make_env(env, **options.env_arguments(env_set=env_set))
    inner = environment.unwrapped
    key = "task_id" if isinstance(inner, ChatEnv) else "question_id"
    observation, info = environment.reset(seed=seed, options={key: task} if task is not None else None)
    if isinstance(inner, ChatEnv):
        info = _play_chat(environment, inner, observation, info)
    elif isinstance(environment.action_space, gym.spaces.Discrete):
        info = _play_once(environment, observation)
    else:
        raise UsageError(f"{env} has the action space {environment.action_space}: only chats and numbers can be played")
    for name, value in info["rewards"].items():
        typer.echo(f"{name}: {'not scored' if value is None else format(value, '.4g')}")
    if save is not None and "transcript" in info:
        with JsonLines(save) as file:
            file.append(json.loads(info["transcript"]))


def _play_chat(env: gym.Env, inner: ChatEnv, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
    tools = {tool["function"]["name"]: tool["function"] for tool in info["tools"]}
    for message in observation:
        _say(message)
    typer.echo(f"\nTools: {', '.join(map(_signature, tools.values())) or 'none'}\n{_HELP}")
    shown = len(observation)
    while True:
        action = inner.turn_text(_read_turn(tools))
        observation, _, terminated, truncated, info = env.step(action)
        for message in observation[shown + 1 :]:
            _say(message)
        shown = len(observation)
        if terminated or truncated:
            typer.echo(f"The episode has ended{': limit of ' + info['reason'] if 'reason' in info else ''}.")
            return info


def _read_turn(tools: dict[str, Any]) -> dict[str, Any]:
    """One turn of the person as an assistant message."""
    calls: list[tuple[str, dict[str, Any]]] = []
    words: list[str] = []
    while True:
        line = _ask("> ")
        if not line.strip():
            if calls or words:
                return assistant_message(calls, "\n".join(words))
        elif line.strip() == ":quit":
            raise typer.Exit(130)
        elif line.strip() == ":undo":
            calls, words = [], []
        elif line.strip() == ":tools":
            typer.echo(json.dumps(list(tools.values()), indent=2, ensure_ascii=False))
        else:
            name, _, rest = line.strip().partition(" ")
            arguments = _arguments(rest) if name in tools else None
            if arguments is not None:
                calls.append((name, arguments))
            elif name in tools and rest.lstrip().startswith("{"):
                typer.echo('not JSON; write  TOOL {"parameter": value}')
            else:
                words.append(line)


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _play_once(env: gym.Env, observation: Any) -> dict[str, Any]:
    inner: Any = env.unwrapped
    typer.echo(observation)
    tools = getattr(inner, "tool_names", ())
    for number, name in enumerate(tools):
        typer.echo(f"{number}: {name}")
    while True:
        text = _ask("Numbers of the tools to call: " if tools else f"Action, 0 to {env.action_space.n - 1}: ")  # type: ignore[attr-defined]
        try:
            numbers = {int(part) for part in text.replace(",", " ").split()}
        except ValueError:
            numbers = {-1}
        action = sum(1 << n for n in numbers if n >= 0) if tools else next(iter(numbers), -1)
        if min(numbers, default=0) >= 0 and env.action_space.contains(action):
            break
        typer.echo("Please give numbers from the list.")
    if isinstance(inner, TextBandit):
        typer.echo(f"You answer {inner.action_text(action)}")
    info = env.step(action)[4]
    for block in info.get("evidence") or ():
        typer.echo(options.printable(f"\n[{block['tool']}] {block['text']}"))
    return info


def _signature(function: dict[str, Any]) -> str:
    parameters = function.get("parameters", {})
    required = parameters.get("required", ())
    names = [name if name in required else f"{name}?" for name in parameters.get("properties", {})]
    return f"{function['name']}({', '.join(names)})"


def _say(message: dict[str, Any]) -> None:
    who = f"{message['role']} {message['name']}" if "name" in message else message["role"]
    typer.echo(options.printable(f"[{who}] {message['content']}"))


def _ask(prompt: str) -> str:
    try:
        return input(prompt)
    except EOFError:
        raise UsageError("the input ended before the episode did: give a whole episode, or type it") from None
