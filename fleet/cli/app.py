"""What all commands share: the typer app, the options many of them take, signals, the terminal."""

import math
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import click
import typer
from typer.core import TyperGroup

from fleet import __version__
from fleet.errors import EXIT_INTERRUPTED
from fleet.model import LockPolicy

ORDER = (
    *("init", "hosts", "check", "run", "resume", "runs", "show", "compare", "report"),
    *("summaries", "import", "export", "verify", "selftest", "clean"),
)


class InOrder(TyperGroup):
    """Lists the commands as a person meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name."""
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    name="fleet",
    cls=InOrder,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Select = Annotated[
    list[str] | None,
    typer.Argument(help="Hosts: names, groups, globs, label=value; !… excludes. Default: all."),
]
InventoryPath = Annotated[
    Path, typer.Option("--inventory", "-f", envvar="FLEET_INVENTORY", help="The inventory file.")
]


def _root(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("names no place; give a folder, or s3://bucket/prefix.")
    if not text.isprintable():  # neither are bytes that are no UTF-8, which pyarrow cannot write to
        raise typer.BadParameter("the name is not plain text in UTF-8.")
    if os.path.exists(text) and not os.path.isdir(text):  # noqa: PTH110, PTH112  these raise nothing
        raise typer.BadParameter(f"{text} is a file; a results root is a folder.")
    return text


def _number(value: float) -> float:
    if math.isnan(value):
        raise typer.BadParameter("nan is no number of seconds.")
    return value


ResultsPath = Annotated[
    str,
    typer.Option(
        "--results",
        "-r",
        envvar="FLEET_RESULTS",
        callback=_root,
        help="The results root: a folder, or s3://….",
    ),
]
Parallel = Annotated[int, typer.Option("--parallel", "-p", min=1, max=1000, help="Hosts at once.")]
ConnectTimeout = Annotated[
    float,
    typer.Option(
        min=0.1, max=3600, callback=_number, help="Seconds a host has to answer before it is given up."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Lock = Annotated[
    LockPolicy | None,
    typer.Option(help="Where another fleet measures: refuse (default), wait for it, or off."),
]
Reconnect = Annotated[
    float,
    typer.Option(
        min=0,
        max=86_400,
        callback=_number,
        help="Seconds a link that breaks in mid-run is dialled again for.",
    ),
]
INVENTORY = Path("inventory.yaml")
RESULTS = "results"


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fleet {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and exit."),
    ] = False,
) -> None:
    """Core-to-core latency of a fleet of machines: measured over SSH, raw samples kept."""


def terminal() -> dict[str, Any]:
    """How wide stdout is and whether it shows colours; no width where nobody looks."""
    if not sys.stdout.isatty():
        return {"width": None, "colour": False}
    return {"width": shutil.get_terminal_size().columns, "colour": "NO_COLOR" not in os.environ}


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Make SIGTERM end a session as Ctrl-C does, and a second signal end the program at once.

    Nothing is lost by the second: the journals hold what arrived, the agents end with their connections.
    """
    count = 0

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            os._exit(EXIT_INTERRUPTED)
        typer.echo("stopping the agents; once more to leave at once", err=True)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
