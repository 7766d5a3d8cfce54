"""Prints text for people, wrapped to the terminal that it goes to."""

import os
import shutil
import sys
from typing import Any, TextIO

import typer

from fleet.cli.streams import takes_colours


def get_width_and_colour(stream: TextIO | None = None) -> dict[str, Any]:
    """Return a stream's "width" (None for a pipe without $COLUMNS), and in "colour"
    whether to use colour.
    """
    output = stream or sys.stdout
    # None where the program was started with it closed
    is_open = bool(output)
    is_terminal = is_open and output.isatty()
    width = None
    if is_terminal or os.environ.get("COLUMNS", "").isdigit():
        width = shutil.get_terminal_size().columns or None
    return {"width": width, "colour": is_open and takes_colours(output)}


def get_width(stream: TextIO | None = None) -> int | None:
    """Return the width of a stream, by default of stdout; None: unlimited."""
    width: int | None = get_width_and_colour(stream)["width"]
    return width


def wrap(text: str, stream: TextIO | None = None) -> str:
    """Wrap a text to the width of a stream's terminal, by default that of stdout."""
    from fleet.analysis.base.text import wrap_to_width

    return wrap_to_width(text, get_width(stream))


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text, wrapped to the terminal."""
    stream = sys.stderr if err else None
    typer.echo(wrap(text, stream), err=err)
