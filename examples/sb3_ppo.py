"""A Stable-Baselines3 agent on the same environment: PPO on hashed words of the question.

    pip install 'toolcredit[sb3]'

Stable-Baselines3 wants numbers, the environment shows text: a wrapper turns one into the other.
"""

import zlib

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from toolcredit.agents.base import Agent
from toolcredit.benchmarks.strategies import evaluate, reference_agents

FEATURES = 128


def features(question: str) -> np.ndarray:
    """The words of the question, without the sequences, as a hashed bag of words."""
    counts = np.zeros(FEATURES, np.float32)
    for word in question.lower().split():
        if len(word) < 20:
            counts[zlib.crc32(word.encode()) % FEATURES] = 1.0
    return counts


class HashedWords(gym.ObservationWrapper):
    """Observations as vectors."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (FEATURES,), np.float32)

    def observation(self, observation: str) -> np.ndarray:
        return features(observation)


class PPOAgent(Agent):
    """What PPO learnt, as an agent that can stand beside all others."""

    name = "ppo"

    def __init__(self, model: PPO):
        self.model = model

    def act(self, observation: str, info: dict) -> int:
        return int(self.model.predict(features(observation), deterministic=True)[0])


def train(steps: int, seed: int = 0) -> PPOAgent:
    env = HashedWords(gym.make("GenomeToolSubset-v0", split="train"))
    model = PPO("MlpPolicy", env, n_steps=256, batch_size=64, learning_rate=1e-3, gamma=0.0, seed=seed, device="cpu")
    return PPOAgent(model.learn(steps))


if __name__ == "__main__":
    agents = {"ppo": train(20_000), **reference_agents()}
    strategies = evaluate(gym.make("GenomeToolSubset-v0", split="test"), agents).summary()["strategies"]
    for name, result in strategies.items():
        print(f"{name:8} {result['accuracy']:.3f} {result['reward']:+.3f} {result['tools_per_question']:.2f} tools")
