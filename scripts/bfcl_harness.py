"""The official BFCL harness against `toolcredit serve`, and entry by entry beside `toolcredit bench run bfcl`.

    pip install --no-deps --target harness bfcl-eval==2026.3.23 overrides pandas python-dotenv tabulate tenacity \
        tree_sitter==0.21.3 tree-sitter-java==0.21.0 tree-sitter-javascript==0.21.4
    python scripts/bfcl_harness.py --harness harness --out runs/bfcl-harness --limit 20

Three things run one after the other: `toolcredit bench run bfcl --agent local:MODEL`; the wheel's own `generate`, whose
handlers for OpenAI's API ask `toolcredit serve MODEL`; the wheel's own `evaluate`. Then the verdicts are compared, and
the replies. The exit code is 1 if a verdict differs. A comparison that was stopped goes on with the same command.

The modes: `fc` (the wheel's handler for chats with tools), `prompting` (the same with functions and calls as text) and
`completions` (its handler for local models: prompts written with the model's own template; --model must be a folder).
Of the wheel only the table of models is replaced: the one that it has imports the clients of all vendors, for which
150 packages would have to be installed. And its client waits longer than ten minutes for a reply.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOOLCREDIT = [sys.executable, "-m", "toolcredit"]
#: mode to the model's name in the wheel, which looks for "FC" in it, and the mode of our suite
MODES = {"fc": ("served-FC", "fc"), "prompting": ("served", "prompting"), "completions": ("served-local", "prompting")}


def main() -> int:
    """Run everything that has not run yet in the folder, and compare; 0 if all verdicts are equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harness", type=Path, required=True, help="folder that the wheel was installed into")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--model", default="smollm2", help="what `toolcredit serve` serves")
    parser.add_argument("--mode", choices=MODES, default="fc")
    parser.add_argument("--category", default="simple_python", help="one of V4's, single-turn or multi-turn")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--threads", type=int, default=8, help="entries that the wheel asks for at once")
    given = parser.parse_args()
    bench = given.out / "bench"
    name, mode = MODES[given.mode]
    selected = ["--category", given.category, "--limit", str(given.limit), "--mode", mode]
    if given.mode == "completions":
        selected += ["--max-tokens", "4096"]  # which is what the handler asks for
    agent = ["--agent", f"local:{given.model}", "--deadline", "36000", "--retry-failed"]
    run([*TOOLCREDIT, "bench", "run", "bfcl", *agent, *selected, "--out", bench])
    said = {record["task"]: record["output"] for record in lines(bench / "transcripts.jsonl")}
    ours = {record["task"]: (record["success"], said[record["task"]]) for record in lines(bench / "results.jsonl")}
    project = given.out / "official"
    project.mkdir(parents=True, exist_ok=True)
    (project / "test_case_ids_to_generate.json").write_text(json.dumps({given.category: list(ours)}))
    forget_failures(project)
    with served(given.model) as url:
        wheel(given.harness, project, url, given.model, name, given.category, given.threads)
    return compare(ours, project, name)


def wheel(harness: Path, project: Path, url: str, model: str, name: str, category: str, threads: int = 8) -> None:
    """The wheel's `generate` and `evaluate`, in processes that see the wheel."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(harness.resolve()), os.environ.get("PYTHONPATH")))),
        "BFCL_PROJECT_ROOT": str(project.resolve()),
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": os.environ.get("TOOLCREDIT_SERVE_KEY") or "none",
        "REMOTE_OPENAI_BASE_URL": url,
        "REMOTE_OPENAI_API_KEY": os.environ.get("TOOLCREDIT_SERVE_KEY") or "none",
        "BFCL_SERVED_MODEL": model,
    }
    official = [sys.executable, __file__, "wheel"]
    asked = ["--run-ids", "--temperature", "0", "--num-threads", str(threads)]
    if name == MODES["completions"][0]:
        asked += ["--skip-server-setup", "--local-model-path", model]
    run([*official, "generate", "--model", name, *asked], env=environment)
    run([*official, "evaluate", "--model", name, "--test-category", category, "--partial-eval"], env=environment)


def forget_failures(project: Path) -> None:
    """Leave out of the wheel's result files what it could not get a reply for, so that it asks again."""
    for path in project.glob("result/**/*.json"):
        path.write_text("".join(json.dumps(record) + "\n" for record in lines(path) if not failed(record)))


def failed(record: dict[str, Any]) -> bool:
    """Whether an entry of the wheel's results stands for no reply, such as a time-out of its client."""
    return str(record["result"]).startswith("Error during inference")


def run_wheel() -> None:
    """The wheel's command line, with `sys.argv` without this script's own word; its table of models has our three."""
    table: Any = types.ModuleType("bfcl_eval.constants.model_config")
    sys.modules[table.__name__] = table
    table.MODEL_CONFIG_MAPPING = {}
    from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
    from bfcl_eval.model_handler.local_inference.quick_testing_oss import QuickTestingOSSHandler

    class PatientHandler(OpenAICompletionsHandler):
        """Waits as long as the wheel's handler for local models does, instead of ten minutes."""

        def _build_client_kwargs(self) -> dict[str, Any]:
            return {**super()._build_client_kwargs(), "timeout": 72000}

    for mode, (name, _) in MODES.items():
        table.MODEL_CONFIG_MAPPING[name] = types.SimpleNamespace(
            model_name=os.environ["BFCL_SERVED_MODEL"],
            display_name=name,
            url="",
            org="",
            license="",
            model_handler=QuickTestingOSSHandler if mode == "completions" else PatientHandler,
            input_price=None,
            output_price=None,
            is_fc_model=mode == "fc",
            underscore_to_dot=mode == "fc",
        )
    from bfcl_eval.__main__ import cli

    del sys.argv[1]
    cli()


def compare(ours: dict[str, tuple[bool, Any]], project: Path, name: str) -> int:
    """Print both verdicts on every entry; 1 if some differ, else 0.

    Args:
        ours: verdict and reply of every entry.
        project: folder of the wheel's results.
        name: of the model there.
    """
    records = [record for path in project.glob(f"result/{name}/**/*.json") for record in lines(path)]
    official = {record["id"]: record["result"] for record in records if not failed(record)}
    wrong = {
        record["id"]
        for path in project.glob(f"score/{name}/**/*_score.json")
        for record in lines(path)
        if "id" in record
    }
    missing = sorted(set(ours) - set(official))
    verdicts = {id: (own, id not in wrong) for id, (own, _) in ours.items() if id not in missing}
    different = [id for id, (own, theirs) in verdicts.items() if own != theirs]
    replies = [id for id in verdicts if reply_of(ours[id][1]) != (official[id] or "")]
    for id, (own, theirs) in verdicts.items():
        mark = "" if own == theirs else "   DIFFERENT"
        print(f"{id:24} bench {'right' if own else 'wrong'}, harness {'right' if theirs else 'wrong'}{mark}")
    right = sum(own for own, _ in verdicts.values())
    print(
        f"{len(verdicts)} entries, right {right} by bench and {sum(theirs for _, theirs in verdicts.values())} by the "
        f"harness; verdicts that differ: {different or 'none'}; replies that differ: {replies or 'none'}; "
        f"without a reply: {missing or 'none'}"
    )
    return int(bool(different or missing))


def reply_of(output: dict[str, Any]) -> Any:
    """A stored reply in the form of the harness's result files: calls, or text; in lists by turn and step."""
    if "turns" in output:
        return [[reply_of({"message": step}) for step in turn] for turn in output["turns"]]
    message = output["message"]
    calls = [{c["function"]["name"]: c["function"]["arguments"]} for c in message.get("tool_calls") or ()]
    return calls or message.get("content") or ""


@contextmanager
def served(model: str) -> Iterator[str]:
    """`toolcredit serve` for the time being; its URL."""
    command = [*TOOLCREDIT, "serve", model, "--port", "0", "--timeout", "36000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            if not url:
                sys.exit(f"toolcredit serve {model} did not start")
            yield url
        finally:
            process.terminate()


def run(command: list, **options: Any) -> None:
    """Run a command; end with its exit code if it fails."""
    done = subprocess.run([str(part) for part in command], **options)
    if done.returncode:
        sys.exit(done.returncode)


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    if sys.argv[1:2] == ["wheel"]:
        run_wheel()
    else:
        sys.exit(main())
