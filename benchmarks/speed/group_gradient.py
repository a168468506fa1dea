"""What training groups as trees saves: forward and backward through the same episodes, as trees and as padded rows.

    python -m toolcredit.benchmarks.speed.group_gradient --init runs/sft --repeats 5

Samples one update's episodes (8 tasks, 8 each by default) on the easy tier, then computes the gradient of their summed
log-probabilities both ways, one after the other in each repeat. Prints medians of CPU seconds, the tokens that went
through the model, and by how much the two gradients differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import gymnasium as gym

ENV_ID = "SGLSToolCallingReplay-v0"


def measure(
    init: str | None, tasks: int = 8, group: int = 8, repeats: int = 5, model: str = "tiny-chat"
) -> dict[str, Any]:
    """Both ways on the same episodes.

    Args:
        init: run folder of the policy; None for random weights, whose episodes are longer.
        tasks: groups.
        group: episodes in each.
        repeats: how often each way is timed.
        model: the policy's.
    """
    import torch

    from ...agents.chat_learner import task_ids
    from ...agents.group_methods import SLCAGRPO
    from ...agents.sequence_logprobs import pad_batch, token_logprobs
    from ..experiment import load_preset

    config = load_preset("slca-grpo", "tiny")["config"]
    config["policy"]["model"] = model
    learner = SLCAGRPO(config | {"init": init, "tasks_per_update": tasks, "group_size": group})
    env = gym.make(ENV_ID, tier="easy")
    learner.bind(env)
    engine = learner.engine(env)
    try:
        rollouts = engine.collect(task_ids(engine)[:tasks], group, seed=0, max_new_tokens=config["max_new_tokens"])
    finally:
        engine.close()
    batch = pad_batch([t for own in rollouts for t in own])
    weights = list(learner.policy.trainable_parameters().values())
    seconds: dict[bool, list[float]] = {True: [], False: []}
    tokens: dict[bool, int] = {}
    gradients: dict[bool, torch.Tensor] = {}
    for _ in range(repeats + 1):
        for shared in seconds:
            begin = time.process_time()
            scores = token_logprobs(learner.policy.model, batch, shared=shared)
            gradient = torch.autograd.grad(scores.logprobs.sum(), weights)
            seconds[shared].append(time.process_time() - begin)
            tokens[shared], gradients[shared] = scores.tokens, torch.cat([g.flatten() for g in gradient])
    tree, rows = (statistics.median(seconds[shared][1:]) for shared in (True, False))  # the first one warms up
    difference = (gradients[True] - gradients[False]).norm() / gradients[False].norm()
    return {
        "episodes": len(batch.trajectories),
        "tree_seconds": round(tree, 4),
        "rows_seconds": round(rows, 4),
        "times_faster": round(rows / tree, 2),
        "tree_tokens": tokens[True],
        "rows_tokens": tokens[False],
        "gradient_difference": float(difference),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init", help="run folder of the policy; random weights without it")
    parser.add_argument("--model", default="tiny-chat")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.init, arguments.tasks, arguments.group, arguments.repeats, arguments.model)))


if __name__ == "__main__":
    main()
