"""A vLLM server on loopback: its protocol as far as rollouts use it, and behind it a real tiny model with adapters.

    with VLLMServer() as server:
        backend = VLLMBackend(policy, server.url, folder)

`server.faults` switches on ways in which such a server spoils training without an error; `server.fail(…)` makes it fail
with one. `server.requests` records the completion requests.
"""

from __future__ import annotations

import copy
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from peft import PeftModel
from toolcredit.llm.tiny import tiny_model

BASE = "tiny"
FAULTS = (
    "ignores_adapters",  # answers with the base model whatever is asked for
    "stale_adapters",  # goes on with the weights of the first adapter: what a reused name or cache does
    "raw_logprobs",  # log-probabilities without the temperature: vLLM's default
    "top_p",  # takes top-p from somewhere although the request switches it off
    "no_token_ids",  # older than 0.10.2
    "other_prompt",  # encodes the prompt again
    "short_logprobs",
    "nan_logprobs",
    "not_json",
    "forgets",  # loads nothing, says it did
)


class VLLMServer:
    """The server; a context manager. One request is computed at a time."""

    def __init__(self, max_model_len: int = 4096):
        self.max_model_len = max_model_len
        self.model, self.tokenizer = tiny_model()
        self.base = copy.deepcopy(self.model)
        self.adapters: dict[str, str] = {}
        self.faults: set[str] = set()
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.unloaded: list[str] = []
        self._peft = None
        self._failures: list[tuple[int, str]] = []
        self._lock = threading.Lock()
        self._hang = threading.Event()
        self._hang.set()
        self._stopping = False
        self._http = _HTTPServer(("127.0.0.1", 0), self._handler_class())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def fail(self, *codes: int, path: str = "/v1/completions") -> None:
        """Answer the next requests to `path` with these status codes."""
        self._failures += [(code, path) for code in codes]

    def hang(self) -> None:
        """Answer no completion until the server stops."""
        self._hang.clear()

    def __enter__(self) -> VLLMServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._hang.set()
        with self._lock:  # a thread that computes while the process ends would abort it
            self._http.shutdown()
        self._http.server_close()

    # ---- the API

    def answer(self, method: str, path: str, body: dict) -> tuple[int, dict | str]:
        """Status and content of the answer to a request."""
        for failure in self._failures:
            if failure[1] == path:
                self._failures.remove(failure)
                return failure[0], {"error": {"message": "scripted failure"}}
        if (method, path) == ("GET", "/v1/models"):
            return 200, {"object": "list", "data": self._cards()}
        if (method, path) == ("POST", "/v1/load_lora_adapter"):
            return self._load(body["lora_name"], body["lora_path"])
        if (method, path) == ("POST", "/v1/unload_lora_adapter"):
            self.adapters.pop(body["lora_name"], None)
            self.unloaded.append(body["lora_name"])
            return 200, f"Success: LoRA adapter '{body['lora_name']}' removed successfully."
        if (method, path) == ("POST", "/v1/completions"):
            return self._complete(body)
        return 404, {"error": {"message": f"no such path: {path}"}}

    def _cards(self) -> list[dict]:
        base = {"id": BASE, "object": "model", "parent": None, "max_model_len": self.max_model_len}
        return [
            base,
            *({"id": name, "object": "model", "parent": BASE, "root": r} for name, r in self.adapters.items()),
        ]

    def _load(self, name: str, path: str) -> tuple[int, dict | str]:
        if name in self.adapters:
            return 400, {"error": {"message": f"The lora adapter '{name}' has already been loaded."}}
        if not (Path(path) / "adapter_config.json").is_file():
            return 404, {"error": {"message": f"No adapter found for {path}"}}
        if "forgets" not in self.faults:
            self.adapters[name] = path
            if self._peft is None:
                self._peft = PeftModel.from_pretrained(self.model, path, adapter_name=name)
            else:
                self._peft.load_adapter(path, adapter_name=name)
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def _complete(self, body: dict) -> tuple[int, dict | str]:
        self.requests.append(body)
        self._hang.wait()
        name, prompt = body["model"], body["prompt"]
        if name != BASE and name not in self.adapters:
            return 404, {"error": {"message": f"The model `{name}` does not exist."}}
        if len(prompt) + body["max_tokens"] > self.max_model_len:
            return 400, {"error": {"message": "the prompt is too long"}}
        with self._lock:
            if self._stopping:
                return 503, {"error": {"message": "stopping"}}
            ids, logprobs, reason = self._sample(name, body)
        if "not_json" in self.faults:
            return 200, "<html>busy</html>"
        choice = {
            "index": 0,
            "text": self.tokenizer.decode(ids, skip_special_tokens=body["skip_special_tokens"]),
            "finish_reason": reason,
            "logprobs": {"tokens": [str(i) for i in ids], "token_logprobs": logprobs},
            "token_ids": ids if body["return_token_ids"] else None,
            "prompt_token_ids": prompt,
        }
        if "no_token_ids" in self.faults:
            del choice["token_ids"], choice["prompt_token_ids"]
        if "other_prompt" in self.faults:
            choice["prompt_token_ids"] = [*prompt[:-1], prompt[-1] + 1]
        if "short_logprobs" in self.faults:
            choice["logprobs"]["token_logprobs"] = logprobs[:-1]
        if "nan_logprobs" in self.faults:
            choice["logprobs"]["token_logprobs"] = [float("nan")] * len(ids)
        return 200, {"id": "cmpl-1", "object": "text_completion", "model": name, "choices": [choice]}

    @torch.no_grad()
    def _sample(self, name: str, body: dict) -> tuple[list[int], list[float], str]:
        stops = {*body["stop_token_ids"], *(() if body["ignore_eos"] else (self.tokenizer.eos_token_id,))}
        generator = torch.Generator().manual_seed(body["seed"])
        model, temperature = self._weights(name), body["temperature"]
        ids: list[int] = []
        logprobs: list[float] = []
        while len(ids) < body["max_tokens"]:
            logits = model(torch.tensor([body["prompt"] + ids])).logits[0, -1].float()
            processed = torch.log_softmax(logits / (temperature or 1.0), -1)
            p = processed.exp()
            if "top_p" in self.faults or body["top_p"] < 1:
                order = p.argsort(descending=True)
                dropped = order[p[order].cumsum(-1) - p[order] > 0.5]
                p[dropped] = 0
                processed = torch.log(p / p.sum())
            token = int(p.argmax()) if temperature == 0 else int(torch.multinomial(p, 1, generator=generator))
            ids.append(token)
            reported = torch.log_softmax(logits, -1) if "raw_logprobs" in self.faults else processed
            logprobs.append(float(reported[token]))
            if token in stops:
                return ids, logprobs, "stop"
        return ids, logprobs, "length"

    def _weights(self, name: str):
        if name == BASE or "ignores_adapters" in self.faults:
            return self.base
        first = next(iter(self._peft.peft_config))
        self._peft.set_adapter(first if "stale_adapters" in self.faults else name)
        return self._peft

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))

            def do_GET(self) -> None:
                self._answer({})

            def _answer(self, body: dict) -> None:
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                try:
                    status, content = server.answer(self.command, self.path, body)
                    raw = (content if isinstance(content, str) else json.dumps(content)).encode()
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:  # the client went away
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
