"""Actions as text: one string each, and no other string is an action."""

import pytest
from toolcredit.envs.genome.actions import action_text, parse_action


@pytest.mark.parametrize("n", [1, 4, 12])
def test_action_strings_round_trip(n):
    texts = [action_text(action) for action in range(2**n)]
    assert len(set(texts)) == 2**n and [parse_action(f" \n{text}\n", n) for text in texts] == list(range(2**n))
    assert action_text(9) == "<answer>0,3</answer>" and action_text(0) == "<answer></answer>"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0,3",
        "<answer>0,3",
        "<answer>0, 3</answer>",
        "<answer> </answer>",
        "<answer>3,0</answer>",
        "<answer>0,0</answer>",
        "<answer>4</answer>",
        "<answer>00</answer>",
        "<answer>-1</answer>",
        "<answer>+1</answer>",
        "<answer>1.</answer>",
        "<answer>0,</answer>",
        "<answer>,0</answer>",
        "<answer>٣</answer>",
        "<answer>²</answer>",
        "<answer>" + "9" * 5000 + "</answer>",
        "<ANSWER>0</ANSWER>",
        "I choose <answer>0</answer>",
        "<answer>0</answer>.",
        "<answer>0</answer><answer>1</answer>",
    ],
)
def test_malformed_completions(text):
    assert parse_action(text, 4) is None
