"""An agent that chooses tools by the words of the question, checked and compared with every reference."""

import gymnasium as gym
from toolcredit.agents.base import Agent
from toolcredit.agents.check import check_agent
from toolcredit.benchmarks.strategies import evaluate, reference_agents

WORDS = {
    "splice_analyzer": ("splice", "exon", "gene sequence"),
    "motif_scanner": ("factor",),
    "genomic_expert": ("organism", "genomes", "fragment"),
    "sequence_statistics": ("composition", "cpg"),
}


class WordAgent(Agent):
    name = "words"

    def bind(self, env):
        self.tools = env.unwrapped.tool_names

    def act(self, observation, info):
        question = observation.split("\n")[0].lower()
        wanted = [any(word in question for word in WORDS[tool]) for tool in self.tools]
        return sum(1 << i for i, tool_is_wanted in enumerate(wanted) if tool_is_wanted)


if __name__ == "__main__":
    env = gym.make("GenomeToolSubset-v0", split="test")
    check_agent(WordAgent(), env)
    strategies = evaluate(env, {"words": WordAgent(), **reference_agents()}).summary()["strategies"]
    for name, result in strategies.items():
        print(f"{name:8} {result['accuracy']:.3f} {result['reward']:+.3f} {result['tools_per_question']:.2f} tools")
