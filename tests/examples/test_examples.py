"""Every file in examples/ runs; what the README quotes is among them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from toolcredit.agents.check import check_agent
from toolcredit.benchmarks.strategies import evaluate, reference_agents

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"toolcredit_example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, folder):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment).stdout


def test_custom_experiment(tmp_path):
    lines = run("custom_experiment", tmp_path).splitlines()
    assert any(line.split() == ["tf_motif", "motif_scanner", line.split()[-1]] for line in lines)
    assert all(0 <= float(line.split()[-1]) <= 1 for line in lines)


def test_my_agent(tmp_path):
    figures = {
        line.split()[0]: [float(x) for x in line.split()[1:4]] for line in run("my_agent", tmp_path).splitlines()
    }
    assert list(figures) == ["words", "none", "all", "random"]
    accuracy, reward, tools = figures["words"]
    assert accuracy > figures["none"][0]
    assert reward > figures["all"][1]
    assert tools < 2


def test_stable_baselines3_learns_on_the_environment():
    pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
    agent = load("sb3_ppo").train(2048)
    env = gym.make("GenomeToolSubset-v0", split="train")
    check_agent(agent, env)
    strategies = evaluate(env, {"ppo": agent, **reference_agents()}).summary()["strategies"]
    assert strategies["ppo"]["reward"] > strategies["random"]["reward"]


def test_every_example_is_tested():
    tested = {"custom_experiment", "my_agent", "sb3_ppo"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested
