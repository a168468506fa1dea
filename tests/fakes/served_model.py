"""`toolcredit serve` in this process: the real server on a loopback port with the tiny model, quick to start.

    with ServedModel(local) as served:
        openai.OpenAI(base_url=served.url, api_key="none")

`script` makes the model say what a function wants, token by token; everything around it stays real.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from toolcredit.benchmarks.local_chat import LocalPlayer
from toolcredit.benchmarks.serving.server import Server, open_socket, url_of
from toolcredit.benchmarks.serving.service import Service


class ServedModel:
    """The server; a context manager.

    Args:
        local: the model.
        name: what clients call it.
        key: what clients must send.
        queue: turns that may wait.
        timeout: seconds for a request.
        pause: seconds that every token takes.
        options: of `LocalPlayer`.
    """

    def __init__(self, local, *, name="tiny", key=None, queue=256, timeout=60.0, pause=0.0, **options: Any):
        self.player = LocalPlayer("tiny", local, **options)
        self.backend = self.player.sampler._backend
        self.service = Service(self.player, name, queue=queue, timeout=timeout)
        self._pause = pause
        self._script: Callable[[Sequence[int]], str] | None = None
        advance, logits = self.backend.advance, self.backend._cached_logits

        def slow_advance():
            time.sleep(self._pause)
            return advance()

        self.backend.advance = slow_advance
        self.backend._cached_logits = lambda: self._scripted(logits())
        self._socket = open_socket("127.0.0.1", 0)
        self.url = url_of(self._socket)
        self.port = self._socket.getsockname()[1]
        ready = threading.Event()
        self.server = Server(self.service, self._socket, key, ready.set)
        self._thread = threading.Thread(target=self.server.serve_until_stopped, daemon=True)
        self._thread.start()
        assert ready.wait(30)

    def script(self, say: Callable[[str], str] | None) -> None:
        """The model's turns from now on: told the prompt's text, what it says before it ends its turn."""
        self._script = say

    def _scripted(self, logits: torch.Tensor) -> torch.Tensor:
        if self._script is None:
            return logits
        tokenizer = self.player.local.tokenizer
        forced = torch.full_like(logits, -30.0)
        for row, turn in enumerate(self.backend._running.values()):
            text = self._script(tokenizer.decode(list(turn.request.ids)))
            ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
            forced[row, ids[min(len(turn.ids), len(ids) - 1)]] = 30.0
        return forced

    @property
    def places_taken(self) -> int:
        return self.service._taken

    def wait_until_idle(self, seconds: float = 20.0) -> None:
        """Wait until every place is free, and every row of the cache."""
        end = time.monotonic() + seconds
        while (self.places_taken or self.player.sampler._open) and time.monotonic() < end:
            time.sleep(0.02)
        assert self.places_taken == 0 and not self.player.sampler._open

    def __enter__(self) -> ServedModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop as a signal would, and wait for it."""
        self.server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive() and self.service.close(30)
