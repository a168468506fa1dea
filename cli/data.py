"""`toolcredit data`: install and find assets (model weights and data that do not belong into site-packages)."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .. import assets
from .options import JSON, print_json

app = typer.Typer(no_args_is_help=True, help="Install and find assets: model weights and data.")


@app.command()
def install(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Assets to install.")], as_json: bool = JSON
) -> None:
    """Download, check and prepare assets; what is installed already is left alone."""
    for name in names:
        assets.asset(name)  # refuse a wrong name before the first long download
    folders = {}
    for name in names:
        folders[name] = str(assets.install(name))
        if not as_json:
            typer.echo(f"{name}: {folders[name]}")
    if as_json:
        print_json([{"name": name, "path": folder} for name, folder in folders.items()])


@app.command("list")
def list_assets(as_json: bool = JSON) -> None:
    """Show every asset, its licence, and whether it is installed."""
    rows = [_describe(asset) for asset in assets.ASSETS.values()]
    if as_json:
        print_json(rows)
        return
    table = Table("name", "installed", "licence", "description")
    for row in rows:
        table.add_row(row["name"], "yes" if row["installed"] else "no", row["licence"], row["description"])
    Console().print(table)


@app.command()
def path(name: Annotated[str, typer.Argument(metavar="NAME")], as_json: bool = JSON) -> None:
    """Print the folder of an installed asset."""
    folder = str(assets.path(name))
    if as_json:
        print_json({"name": name, "path": folder})
    else:
        typer.echo(folder)


def _describe(asset: assets.Asset) -> dict[str, Any]:
    installed = assets.is_installed(asset.name)
    return {
        "name": asset.name,
        "version": asset.version,
        "licence": asset.licence,
        "requirement": asset.requirement,
        "description": asset.description,
        "installed": installed,
        "path": str(assets.path(asset.name)) if installed else None,
    }
