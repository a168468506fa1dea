"""Registers the Gymnasium ids. Entry points are strings, so that importing toolcredit loads no environment."""

from __future__ import annotations

import gymnasium as gym

#: id -> keyword arguments of `gymnasium.register`. Tests run their universal checks over exactly these ids.
REGISTRATIONS: dict[str, dict] = {
    "GenomeToolSubset-v0": {
        "entry_point": "toolcredit.envs.genome.env:GenomeToolSubsetEnv",
        "vector_entry_point": "toolcredit.envs.vector:genome_tool_subset",
    },
    "SGLSToolCalling-v0": {
        "entry_point": "toolcredit.envs.sgls.env:SGLSToolCallingEnv",
        "vector_entry_point": "toolcredit.envs.vector:sgls_tool_calling",
        "nondeterministic": True,
    },
    "SGLSToolCallingReplay-v0": {
        "entry_point": "toolcredit.envs.sgls.env:SGLSReplayEnv",
        "vector_entry_point": "toolcredit.envs.vector:sgls_tool_calling_replay",
    },
    "toolcredit/BFCL-v0": {
        "entry_point": "toolcredit.benchmarks.bfcl.env:BFCLEnv",
        "vector_entry_point": "toolcredit.envs.vector:bfcl",
    },
    "toolcredit/Tau2-v0": {
        "entry_point": "toolcredit.benchmarks.tau2.env:Tau2Env",
        "vector_entry_point": "toolcredit.envs.vector:tau2",
    },
}


def register_envs() -> None:
    """Register every id of `REGISTRATIONS` that is not registered yet; calling it again changes nothing."""
    for env_id, arguments in REGISTRATIONS.items():
        if env_id not in gym.registry:
            gym.register(env_id, **arguments)


def registered_ids() -> list[str]:
    """The Gymnasium ids of this package."""
    return list(REGISTRATIONS)
