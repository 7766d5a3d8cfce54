"""The command that makes a lab to learn on: demo."""

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.app import UPKEEP, app


@app.command(rich_help_panel=UPKEEP, short_help="Make a lab of made-up machines to learn on.")
def demo(folder: Annotated[Path, typer.Argument(help="A new or empty folder.")]) -> None:
    """Make a folder with the results of made-up machines, to learn the commands on.

    Example: fleet demo lab
    """
    from fleet.demo import unpack_lab

    unpack_lab(folder)
    typer.echo(f"Made {folder}: made-up machines and their runs. Next: cd {folder}, then fleet show.")
