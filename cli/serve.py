"""`toolcredit serve`: a local model behind OpenAI's protocol."""

from __future__ import annotations

import logging
import os
import signal
import sys

import typer

from ..errors import MissingExtraError


def serve(
    model: str = typer.Argument(..., help="smollm2, a folder, a hub name, NAME+ADAPTER, or a run folder."),
    port: int = typer.Option(8000, "--port", min=0, max=65535, help="0 takes any that is free."),
    host: str = typer.Option(
        "127.0.0.1",
        "--host",
        help="Address to listen on; others than this machine's need a key in $TOOLCREDIT_SERVE_KEY.",
    ),
    name: str = typer.Option(None, "--name", help="Name of the model for clients; default: as written here."),
    max_tokens: int = typer.Option(512, "--max-tokens", min=1, help="Longest reply where a chat sets no limit."),
    slots: int = typer.Option(8, "--slots", min=1, help="Turns sampled together; each needs memory for its tokens."),
    queue: int = typer.Option(256, "--queue", min=0, help="Turns that may wait; more are refused with 503."),
    timeout: float = typer.Option(600.0, "--timeout", min=0.001, help="Seconds for one request."),
    template: str = typer.Option(None, "--template", help="How chats are written: auto, own, chatml, compact."),
    parser: str = typer.Option(None, "--parser", help="Syntax of calls: hermes, llama3, mistral, pythonic."),
    dtype: str = typer.Option(None, "--dtype", help="auto, float32, bfloat16 or float16."),
    device: str = typer.Option(None, "--device", help="auto, or a torch device."),
) -> None:
    """Serve a model, or what a run trained, to clients of the OpenAI API; the URL is the first line that is printed.

    Template, call syntax and precision are by default those that a run was trained with, else auto and hermes.
    """
    try:
        from ..benchmarks.serving.server import GRACE, KEY_VARIABLE, Server, check_key, open_socket, url_of
    except ImportError as error:
        extra = "serve" if error.name in ("starlette", "uvicorn") else "train"
        raise MissingExtraError(error.name or "uvicorn", extra, "`toolcredit serve`") from None
    from ..benchmarks.players import local_player
    from ..benchmarks.serving.service import Service

    key = check_key(host, os.environ.get(KEY_VARIABLE))
    logging.basicConfig(format="toolcredit: %(message)s", level=logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # while the model loads; later the server stops first
    given = {"template": template, "parser": parser, "dtype": dtype, "device": device}
    options: dict[str, object] = {"max_tokens": max_tokens, "in_flight": slots}
    options |= {field: value for field, value in given.items() if value is not None}
    try:
        with open_socket(host, port) as sock:
            player = local_player(model, options)
            service = Service(player, name or model.removeprefix("local:"), queue=queue, timeout=timeout)
            about = f"{service.name}: {player.local.context_length} tokens of context, {slots} turns at once"

            def say() -> None:
                print(url_of(sock), flush=True)
                typer.echo(f"{about}; Ctrl-C stops", err=True)

            code = Server(service, sock, key, say).serve_until_stopped()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not service.close(GRACE):
        # A long prompt is being computed. Ending the interpreter under a thread that computes would abort it.
        os._exit(code)
    raise typer.Exit(code)
