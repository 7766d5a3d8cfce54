"""The commands: parse, call one function, print. Floor 5; nobody imports it.

One module per group of commands, each registering its own with `app`. Heavy imports stand inside the
commands that need them, so that `fleet --help` answers at once.
"""

import io
import sys

import typer

from fleet.cli import (  # noqa: F401  # each registers its commands
    check,
    clean,
    compare,
    exchange,
    inventory,
    report,
    resume,
    run,
    selftest,
    show,
)
from fleet.cli.app import app
from fleet.errors import EXIT_INTERRUPTED, FleetError
from fleet.escaping import printable


def main() -> None:
    """Run the program; every known error becomes one message and its exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label may hold what the terminal cannot show
    try:
        app()
    except FleetError as err:
        typer.echo(f"fleet: {printable(str(err))}", err=True)
        sys.exit(err.exit_code)
    except OSError as err:
        typer.echo(f"fleet: cannot print the result: {err.strerror or err}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("fleet: interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
