"""Suites and other people's harnesses through the server: what they find is what they find without it."""

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest
import torch
from toolcredit.benchmarks.bfcl.gold import gold_reply, gold_turns
from toolcredit.benchmarks.players import EndpointPlayer, local_player
from toolcredit.benchmarks.registry import make_suite
from toolcredit.benchmarks.runner import run_suite
from toolcredit.benchmarks.suite import Selection
from toolcredit.envs.sgls.parsing import from_openai
from toolcredit.llm.local import load_local_model
from toolcredit.runs import read_jsonl

ROOT = Path(__file__).resolve().parents[3]
HARNESS = "TOOLCREDIT_BFCL_HARNESS"


def files_of(run):
    """Results and transcripts of a run by task, without times."""
    found = {}
    for name in ("results.jsonl", "transcripts.jsonl"):
        for record in read_jsonl(run / name):
            record.pop("seconds", None)
            found[name, record["task"], record["trial"]] = record
    return found


def played_twice(server, suite, folder, selection, temperature):
    """Files of a run with the model itself, and with the model behind the server."""
    server.player.temperature = temperature
    options = {"base_url": server.url, "temperature": temperature, "max_tokens": server.player.max_tokens, "retries": 0}
    for name, player in (("local", server.player), ("served", EndpointPlayer("tiny", options))):
        run_suite(suite, player, folder / name, selection=selection, trials=2, seed=3, references=(), workers=4)
    server.player.temperature = 0.0
    return files_of(folder / "local"), files_of(folder / "served")


def call_then_reply(prompt):
    """A model that calls the first two tools that it is shown, and reports when it has an answer."""
    if "<tool_response>" in prompt.rsplit("<|im_start|>assistant", 2)[-2]:
        return "That is what I found."
    names = re.findall(r'"name": "([^"]+)"', prompt)[:2]
    return "\n".join(f'<tool_call>\n{{"name": "{name}", "arguments": {{"a": 1.0}}}}\n</tool_call>' for name in names)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_a_suite_of_conversations_ends_the_same_with_a_model_of_its_own_mind(start, tmp_path, temperature):
    server = start(max_tokens=12, slots=4)
    suite = make_suite("toucan", {"split": "dev", "tier": "easy"})
    local, served = played_twice(server, suite, tmp_path, Selection(limit=3), temperature)
    assert len(local) == 12 and local == served


def test_calls_and_answers_go_through_the_server_unchanged(start, tmp_path):
    server = start(max_tokens=200, slots=4)
    server.script(call_then_reply)
    suite = make_suite("toucan", {"split": "dev", "tier": "easy"})
    local, served = played_twice(server, suite, tmp_path, Selection(limit=3), 0.0)
    assert local == served
    said = [m for record in local.values() for m in record.get("output", {}).get("episode", {}).get("messages", ())]
    assert {"assistant", "tool"} <= {message["role"] for message in said}
    assert sum(message["content"].count("<tool_call>") for message in said) >= 12
    assert sum(message["content"] == "That is what I found." for message in said) == 6


def test_what_a_run_trained_is_served_from_its_folder_and_as_an_adapter(tmp_path):
    """A LoRA run, its adapter on the base model, and a run of full weights; none answers as the base model does."""
    from toolcredit.agents.sft import SFTLearner

    def logits(spec):
        model = local_player(spec, {}).local.model
        with torch.no_grad():
            return model(torch.arange(3, 20)[None]).logits

    base = logits("tiny")
    for weights in ("lora", "full"):
        learner = SFTLearner({"policy": {"model": "tiny", "weights": weights, "lora_rank": 2}})
        with torch.no_grad():
            for weight in learner.policy.trainable_parameters().values():
                weight.add_(0.05)
        learner.save(tmp_path / weights)
        trained = logits(str(tmp_path / weights))
        assert (trained - base).abs().max() > 0.1
        spec = f"tiny+{tmp_path / weights}" if weights == "lora" else str(tmp_path / weights / "model")
        assert torch.allclose(logits(spec), trained, atol=1e-5)


@pytest.fixture(scope="session")
def harness():
    """The module `scripts/bfcl_harness.py`, and the folder that the whole official wheel was installed into."""
    folder = os.environ.get(HARNESS)
    if not folder or not (Path(folder) / "bfcl_eval" / "_llm_response_generation.py").is_file():
        pytest.skip(f"{HARNESS} names no folder with the whole wheel bfcl-eval; see scripts/bfcl_harness.py")
    spec = importlib.util.spec_from_file_location("toolcredit_bfcl_harness", ROOT / "scripts" / "bfcl_harness.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, Path(folder)


class Teacher:
    """What a model says that gives the gold answers, step by step; those of every third entry spoilt."""

    def __init__(self, entries, prompting):
        self.answers = {}
        for number, entry in enumerate(entries):
            turns = (
                gold_turns(entry, prompting) if entry.kind.kind == "multi_turn" else [[gold_reply(entry, prompting)]]
            )
            texts = [from_openai(dict(step)) for turn in turns for step in turn]
            question = entry.turns[0][-1]["content"]
            self.answers[question] = [spoilt(text) for text in texts] if number % 3 == 2 else texts
        assert len(self.answers) == len(entries)

    def __call__(self, prompt):
        (texts,) = (texts for question, texts in self.answers.items() if question in prompt)
        steps = prompt.count("<|im_start|>assistant") - 1
        return texts[min(steps, len(texts) - 1)]


def spoilt(text):
    """Another number in the first call, or no call."""
    changed = re.sub(r"(?<=[:=\[ ])[1-9](?=[,}\]) \n])", lambda m: str(10 - int(m[0]) + 20), text, count=1)
    return changed if changed != text else "I do not know."


@pytest.mark.bfcl
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fc", "prompting", "completions"])
@pytest.mark.parametrize("category", ["simple_python", "parallel_multiple", "irrelevance", "multi_turn_base"])
def test_the_official_harness_gives_the_verdicts_of_the_suite(
    mode, category, harness, served_model, bfcl_path, tmp_path, capsys
):
    module, wheel = harness
    name, kind = module.MODES[mode]
    local = load_local_model("tiny", device="cpu")
    local.model.config.max_position_embeddings = 1 << 16  # random weights do not care, and the prompts are long
    folder = str(tmp_path / "model")  # of which the wheel's handler for local models takes tokenizer and template
    local.model.save_pretrained(folder)
    local.tokenizer.save_pretrained(folder)
    suite = make_suite("bfcl", {"source": str(bfcl_path), "mode": kind})
    entries = suite.dataset.entries([category])[: 3 if category.startswith("multi_turn") else 9]
    selection = Selection(ids=tuple(entry.id for entry in entries), categories=(category,))
    with served_model(local, name=folder, max_tokens=1000, slots=4, timeout=600) as server:
        server.script(Teacher(entries, kind == "prompting"))
        run_suite(suite, server.player, tmp_path / "bench", selection=selection, references=())
        said = {record["task"]: record["output"] for record in read_jsonl(tmp_path / "bench" / "transcripts.jsonl")}
        ours = {r["task"]: (r["success"], said[r["task"]]) for r in read_jsonl(tmp_path / "bench" / "results.jsonl")}
        right = [success for success, _ in ours.values()]
        assert len(right) == len(entries) and sum(right) >= 2 * len(entries) // 3
        assert all(right) == (category == "irrelevance")
        project = tmp_path / "official"
        project.mkdir()
        (project / "test_case_ids_to_generate.json").write_text(json.dumps({category: list(ours)}))
        module.wheel(wheel, project, server.url, folder, name, category)
    assert module.compare(ours, project, name) == 0
    assert "replies that differ: none" in capsys.readouterr().out
