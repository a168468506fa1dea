import json
import subprocess
import sys

from toolcredit.benchmarks.speed.sgls_env import measure


def test_the_environment_is_fast_and_its_validator_much_faster_than_a_fresh_one():
    result = measure(tasks=30, repeats=2)
    assert (result["episodes"], result["repeats"]) == (30, 2)
    assert result["episodes_per_s"] > 300
    assert result["validator_ratio"] > 10
    low, high = result["calls_per_s_range"]
    assert low <= result["calls_per_s"] <= high


def test_it_prints_json():
    command = [sys.executable, "-m", "toolcredit.benchmarks.speed.sgls_env", "--tasks", "5", "--repeats", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["episodes"] == 5
