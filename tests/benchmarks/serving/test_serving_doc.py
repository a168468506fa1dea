"""docs/serve.md is true: its code runs, its options, fields and defaults are those of the code."""

import inspect
import re
import threading
import urllib.request
from pathlib import Path

from toolcredit.benchmarks.serving import api, requests
from toolcredit.cli.serve import serve

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "serve.md").read_text("utf-8")


def rows(header):
    """First and second cells of the table whose head begins like this."""
    table = TEXT.split(header, 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| (.+?) \| (.*?) \|", table.split("\n", 2)[2] + "\n", re.M)


def test_every_option_is_documented_with_its_default():
    documented = {name: default for names, default in rows("| option |") for name in re.findall(r"--([a-z-]+)", names)}
    options = {name.replace("_", "-"): p.default for name, p in inspect.signature(serve).parameters.items()}
    assert set(documented) == set(options) - {"model", "name"} and "`--name`" in TEXT
    for name in ("max-tokens", "slots", "queue", "timeout"):
        assert documented[name] == f"{options[name].default:g}"
    assert documented["port"] == "8000, 127.0.0.1" and (options["port"].default, options["host"].default) == (
        8000,
        "127.0.0.1",
    )


def test_every_field_is_documented():
    documented = {name for names, _ in rows("| field |") for name in re.findall(r"`([a-z_.]+)`", names)}
    fields = {*requests.ChatRequest.model_fields, *requests.CompletionRequest.model_fields} - {"model", "top_p"}
    assert fields <= documented | {"stream_options"}
    assert {"top_p", "logit_bias", "response_format", "parallel_tool_calls", "top_k"} - {"top_p"} <= set(
        requests.NEUTRAL
    )
    assert {"user", "store", "metadata", "service_tier"} <= requests.IGNORED
    assert api.MAX_BODY_BYTES == 4 << 20 and "over 4 MB" in TEXT


def test_the_code_runs(capsys):
    (block,) = re.findall(r"^```python\n(.+?)^```", TEXT, re.M | re.S)
    exec(compile(block, "docs/serve.md", "exec"), namespace := {})  # our own documentation
    server = namespace["server"]
    thread = threading.Thread(target=server.serve_until_stopped)
    thread.start()
    while not server.started:
        pass
    port = namespace["sock"].getsockname()[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as reply:
        assert reply.status == 200
    server.should_exit = True
    thread.join(30)
    assert f"http://127.0.0.1:{port}/v1" in capsys.readouterr().out
