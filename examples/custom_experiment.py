"""Which tool helps which family of questions? An experiment of one's own, with nothing but Gymnasium."""

from collections import defaultdict

import gymnasium as gym
import toolcredit  # noqa: F401 - registers GenomeToolSubset-v0

env = gym.make("GenomeToolSubset-v0", split="test")
right = defaultdict(list)
for question_id in env.unwrapped.question_ids:
    for action in (0, 1, 2, 4, 8, 15):  # bit i calls tool i: none, each of the four alone, all
        env.reset(options={"question_id": question_id})
        *_, info = env.step(action)
        right[info["family"], " + ".join(info["subset"]) or "none"].append(info["correct"])
for (family, tools), outcomes in sorted(right.items()):
    print(f"{family:16} {tools:73} {sum(outcomes) / len(outcomes):.2f}")
