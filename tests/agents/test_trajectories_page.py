"""The code of docs/trajectories.md runs as it stands."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trajectories.md"


def test_the_code_of_the_page_runs():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(names["rollouts"]) == 2 and not names["rollouts"].failures
    assert torch.allclose(names["ratio"], torch.ones_like(names["ratio"]), atol=1e-3)
