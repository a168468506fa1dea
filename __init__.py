"""toolcredit: credit assignment for language-model agents that use tools.

Importing the package registers its Gymnasium ids and nothing else: no torch, no data, no network.

    import gymnasium as gym, toolcredit
    env = gym.make("GenomeToolSubset-v0")
"""

from ._version import __version__
from .envs.registration import register_envs, registered_ids

register_envs()

__all__ = ["__version__", "register_envs", "registered_ids"]
