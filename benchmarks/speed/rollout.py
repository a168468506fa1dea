"""What keeping keys and values over turns saves in rollouts with several turns, and what decoding and encoding spoils.

    python -m toolcredit.benchmarks.speed.rollout --model tiny

Plays the same groups of three-turn tool-calling episodes twice. `engine` is `RolloutEngine` with the local backend:
every token goes through the model once, members of a group share their prompt. `rendered` is what many trainers do:
before each turn the whole conversation is rendered from text, encoded, padded, and given to `model.generate`. Prints
the tokens that went through the model, seconds, CPU seconds, and how many of the rendered turns had other token ids
when they were encoded again than when they were sampled.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import gymnasium as gym

from ...agents.chat_template import ChatTemplate
from ...envs.spaces import ChatMessages, UnicodeText
from ...llm.local import load_local_model
from ...llm.threads import choose_threads

CITIES = ("Rome", "Oslo", "Lima", "Kyoto", "Accra", "Quito", "Turin", "Perth")


def _tool(name: str, description: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [_tool("get_weather", "Weather of a city."), _tool("get_time", "Local time of a city.")]


class ThreeTurns(gym.Env[list, str]):
    """Answers the first two turns like a tool, whatever they say, and ends after the third."""

    task_ids = CITIES

    def __init__(self) -> None:
        self.observation_space, self.action_space = ChatMessages(), UnicodeText(100_000)
        self._messages: list[dict[str, Any]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[list, dict[str, Any]]:
        """Ask about the city `options["task_id"]`."""
        super().reset(seed=seed)
        city = (options or {}).get("task_id", CITIES[0])
        self._messages = [{"role": "user", "content": f"What is the weather in {city}, and what time is it there?"}]
        return list(self._messages), {"tools": TOOLS, "rewards": {"total": None}}

    def step(self, action: str) -> tuple[list, float, bool, bool, dict[str, Any]]:
        """Give an answer, or end."""
        self._messages.append({"role": "assistant", "content": action})
        turn = sum(message["role"] == "assistant" for message in self._messages)
        if turn < 3:
            answer = {"status": "ok", "result": {"turn": turn, "sky": "clear", "celsius": 21, "wind": [3, 5, 8, 13]}}
            self._messages.append({"role": "tool", "name": "get_weather", "content": json.dumps(answer)})
        done = turn == 3
        return list(self._messages), float(done), done, False, {"tools": TOOLS, "rewards": {"total": float(done)}}


def with_engine(local: Any, tasks: int, group: int, new_tokens: int, temperature: float) -> dict[str, float]:
    """Tokens and seconds of the rollout engine."""
    from ...agents.backends.local import LocalBackend
    from ...agents.rollout import RolloutEngine

    engine = RolloutEngine(LocalBackend(local, slots=tasks * group), ThreeTurns, template="chatml")
    begin, cpu = time.perf_counter(), time.process_time()
    rollouts = engine.collect(CITIES[:tasks], group, temperature=temperature, max_new_tokens=new_tokens)
    return {
        "forwarded_tokens": rollouts.stats["forwarded_tokens"],
        "sampled_tokens": rollouts.stats["sampled_tokens"],
        "seconds": round(time.perf_counter() - begin, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }


def rendered(local: Any, tasks: int, group: int, new_tokens: int, temperature: float) -> dict[str, float]:
    """The same with the conversation rendered, encoded and computed again before each turn."""
    import torch

    template = ChatTemplate(local.tokenizer, "chatml")
    envs = [ThreeTurns() for _ in range(tasks * group)]
    messages = [env.reset(options={"task_id": CITIES[i // group]})[0] for i, env in enumerate(envs)]
    forwarded = sampled = changed = 0
    torch.manual_seed(0)
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(3):
        prompts = [template.prompt_ids(own, TOOLS) for own in messages]
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts], device=local.device)
        attention = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=local.device)
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        with torch.inference_mode():
            out = local.model.generate(ids, attention_mask=attention, max_new_tokens=new_tokens, **sampling)
        for i, row in enumerate(out[:, longest:].tolist()):
            ends = [place for place, token in enumerate(row) if token in template.stop_ids(TOOLS)]
            turn = row[: ends[0] + 1] if ends else row
            text = template.turn_text(turn, TOOLS)
            changed += local.tokenizer.encode(text, add_special_tokens=False) != turn[: len(turn) - bool(ends)]
            forwarded += len(prompts[i]) + len(turn) - 1
            sampled += len(turn)
            messages[i] = envs[i].step(text)[0]
    return {
        "forwarded_tokens": forwarded,
        "sampled_tokens": sampled,
        "seconds": round(time.perf_counter() - begin, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "turns_with_other_ids": changed,
        "turns": 3 * len(envs),
    }


def main() -> None:
    """Play both ways and print JSON."""
    parser = argparse.ArgumentParser(description="Measure rollouts of three turns, with and without a kept cache.")
    parser.add_argument("--model", default="tiny", help="tiny, smollm2, a folder or a hub name")
    parser.add_argument("--tasks", type=int, default=4, choices=range(1, len(CITIES) + 1))
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=32, help="longest turn")
    parser.add_argument("--temperature", type=float, default=1.0)
    arguments = parser.parse_args()
    threads = choose_threads()
    local = load_local_model(arguments.model)
    sizes = (arguments.tasks, arguments.group, arguments.new_tokens, arguments.temperature)
    result = {"engine": with_engine(local, *sizes), "rendered": rendered(local, *sizes)}
    print(json.dumps({"model": arguments.model, "threads": threads.number, **result}, indent=2))


if __name__ == "__main__":
    main()
