"""The `toolcredit` command. Each verb lives in a file of its own; this one joins them and turns errors into exit codes.

Exit codes: 0 done, 1 something outside failed (endpoint, disk), 2 the input cannot be used, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import os
import sys

import typer

from .. import __version__
from ..errors import ToolcreditError, UsageError
from . import bench, check, data, doctor, evaluate, init, play, quickstart, report, serve, sgls, table, train

app = typer.Typer(
    name="toolcredit",
    help="Train and measure language-model agents that use tools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"toolcredit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Train and measure language-model agents that use tools."""


app.command("quickstart")(quickstart.quickstart)
app.command("train")(train.train_command)
app.command("eval")(evaluate.evaluate_run)
app.command("report")(report.report)
app.add_typer(table.app, name="table")
app.add_typer(data.app, name="data")
app.add_typer(sgls.app, name="sgls")
app.add_typer(bench.app, name="bench")
app.command("serve")(serve.serve)
app.command("play")(play.play)
app.add_typer(init.app, name="init")
app.command("check")(check.check)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line; one clear line and no traceback for what the user can fix.

    `TOOLCREDIT_TRACEBACK=1` shows the traceback all the same.
    """
    try:
        app()
    except ToolcreditError as error:
        if os.environ.get("TOOLCREDIT_TRACEBACK"):
            raise
        message = " ".join(str(error).split("\n"))
        print(f"toolcredit: {message}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except OSError as error:  # a disk that is full, a folder that cannot be written to
        if os.environ.get("TOOLCREDIT_TRACEBACK"):
            raise
        print(f"toolcredit: {error}; TOOLCREDIT_TRACEBACK=1 shows where", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
