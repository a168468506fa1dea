"""What exact scoring of 16 candidate strings costs: plain rows against packed trees, in time and in memory.

    python -m toolcredit.benchmarks.speed.candidate_scoring --prompt-tokens 400

Every variant runs in a process of its own, on one thread, with an adapter of rank 16. The rows are the strongest plain
ones: one batch, logits at the candidates' tokens only. Memory is the peak beyond the loaded model (Linux and CUDA).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ACTIONS = [f"<answer>{','.join(str(i) for i in range(4) if a >> i & 1)}</answer>" for a in range(16)]

VARIANTS = {
    "rows": "16 rows",
    "tree": "packed tree",
    "tree-checkpointed": "packed tree, checkpointed",
    "tree-batch": "a tree of 4, per question",
    "trunk-batch": "the same, ¼ adapted, cached trunk",
}
BATCH = 4


@dataclass(frozen=True)
class Cost:
    """What one question costs under a variant.

    Attributes:
        variant: key of `VARIANTS`.
        tokens: tokens through the model.
        forward: seconds without gradient, median: of the processor on CPU, elapsed on CUDA.
        training: seconds of forward and backward pass, median.
        peak_mb: peak memory of one such pass beyond the loaded model; None where it cannot be measured.
    """

    variant: str
    tokens: float
    forward: float
    training: float
    peak_mb: float | None


def measure(variant: str, model: str, prompt_tokens: int, repeats: int) -> Cost:
    """Measure a variant in this process."""
    import torch

    from ...agents.policy import LoraPolicy, PolicyConfig
    from ...agents.policy.families import decoder_layers
    from ...agents.policy.scorer import row_logprobs
    from ...llm.local import load_local_model

    torch.set_num_threads(1)
    fields: dict[str, Any] = {"gradient_checkpointing": variant == "tree-checkpointed"}
    local = load_local_model(model)
    if variant == "trunk-batch":
        fields |= {"lora_layers": max(1, len(decoder_layers(local.model)[1]) // 4), "trunk_cache": "memory"}
    policy = LoraPolicy(PolicyConfig(model=model, **fields), local)
    policy.set_candidates(ACTIONS)
    questions = BATCH if variant.endswith("batch") else 1
    prompts = [_prompt(policy, prompt_tokens, seed) for seed in range(questions)]
    tokens = 0

    def score(grad: bool) -> torch.Tensor:
        nonlocal tokens
        if variant != "rows":
            scored = policy.score(prompts, grad=grad)
            tokens = scored.tokens
            return scored.sums
        pairs = [(prompt, candidate) for prompt in prompts for candidate in policy.candidates]
        longest = max(map(len, policy.candidates))
        tokens = sum(len(prompt) + longest for prompt, _ in pairs)
        with torch.set_grad_enabled(grad):
            return row_logprobs(local.model, pairs).sum(-1).view(questions, -1)

    def train() -> None:
        score(True).log_softmax(-1)[:, 3].sum().backward()

    policy.score([prompts[0][:32]])  # what is paid once is not measured
    if variant == "trunk-batch":
        policy.score(prompts)
    memory = _Peak(local.device)
    train()
    peak = memory.megabytes()
    training = _median_seconds(train, repeats, local.device)
    forward = _median_seconds(lambda: score(False), repeats, local.device)
    return Cost(variant, tokens / questions, forward / questions, training / questions, peak and peak / questions)


def _prompt(policy: Any, tokens: int, seed: int) -> list[int]:
    """Token ids of a question of about `tokens` tokens, the first half of it the same for every seed."""
    bases = random.Random(seed)
    instruction = "You are an expert at selecting tools for genomic reasoning."
    sequence = ""
    while True:
        ids = policy.encode(
            [{"role": "system", "content": instruction}, {"role": "user", "content": f"Which class is {sequence}?"}]
        )
        if len(ids) >= tokens:
            return ids
        if len(ids) < tokens // 2:
            instruction += " Use as few of the tools as you can."
        else:
            sequence += "".join(bases.choices("ACGT", k=4))


def _median_seconds(run: Callable[[], Any], repeats: int, device: Any) -> float:
    import torch

    def seconds() -> float:
        on_cuda = device.type == "cuda"
        clock = time.perf_counter if on_cuda else time.process_time  # other programs do not count
        began = clock()
        run()
        if on_cuda:
            torch.cuda.synchronize(device)
        return clock() - began

    return statistics.median(seconds() for _ in range(repeats))


class _Peak:
    """Peak memory of a process from now on: of the device on CUDA, resident elsewhere (Linux only)."""

    def __init__(self, device: Any):
        import torch

        self.device = device
        self.before: float | None
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device) / 2**20
            return
        self.before = self._resident("VmRSS")
        if self.before is not None:
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM

    def megabytes(self) -> float | None:
        """Peak since the start, less what was in use then."""
        import torch

        on_cuda = self.device.type == "cuda"
        peak = torch.cuda.max_memory_allocated(self.device) / 2**20 if on_cuda else self._resident("VmHWM")
        return None if peak is None or self.before is None else peak - self.before

    @staticmethod
    def _resident(field: str) -> float | None:
        status = Path("/proc/self/status")
        if not status.exists():
            return None
        line = next(line for line in status.read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) / 1024


def compare(variants: list[str], model: str, prompt_tokens: int, repeats: int) -> list[Cost]:
    """Measure each variant in a process of its own, one after the other."""
    costs = []
    for variant in variants:
        arguments = ["--variant", variant, "--model", model, "--prompt-tokens", prompt_tokens, "--repeats", repeats]
        worker = subprocess.run(
            [sys.executable, "-m", __spec__.name, *map(str, arguments), "--json"],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        costs.append(Cost(**json.loads(worker.stdout)))
    return costs


def show(costs: list[Cost]) -> None:
    """Print the costs and what they are of the first variant's."""
    from rich.console import Console
    from rich.table import Table

    table = Table("variant", "tokens", "forward s", "and backward", "peak MB", "speed", "memory")
    first = costs[0]
    for cost in costs:
        table.add_row(
            VARIANTS[cost.variant],
            f"{cost.tokens:.0f}",
            f"{cost.forward:.2f}",
            f"{cost.training:.2f}",
            "–" if cost.peak_mb is None else f"{cost.peak_mb:.0f}",
            f"{first.training / cost.training:.1f}×",
            f"1/{first.peak_mb / cost.peak_mb:.1f}" if first.peak_mb and cost.peak_mb else "–",
        )
    Console().print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt-tokens", type=int, default=400)
    parser.add_argument("--model", default="smollm2", help="smollm2, tiny, a folder or a hub name")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--variant", choices=VARIANTS, help="measure this one only, in this process")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.variant:
        costs = [measure(chosen.variant, chosen.model, chosen.prompt_tokens, chosen.repeats)]
    else:
        costs = compare(list(VARIANTS), chosen.model, chosen.prompt_tokens, chosen.repeats)
    if chosen.json:
        rows = [asdict(cost) for cost in costs]
        print(json.dumps(rows[0] if chosen.variant else rows))
    else:
        show(costs)


if __name__ == "__main__":
    main()
