"""The commands: parse, call one function, print. Nobody imports them.

One module per group of commands, each registering its own with `app`. Heavy imports stand inside the
commands that need them, so that `fleet --help` answers at once.
"""

import io
import os
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from typing import NoReturn

import typer

from fleet.cli import (
    amend,
    check,
    clean,
    compare,
    demo,
    exchange,
    inventory,
    man,
    report,
    resume,
    run,
    selftest,
    show,
    verify,
)
from fleet.cli.app import app
from fleet.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    FleetError,
    MemoryLimitError,
    StoreWarning,
    is_lack_of_memory,
    lack_of_memory,
)
from fleet.text import printable


def main() -> None:
    """Run the program; every known error becomes one message and its exit code, a traceback is a bug."""
    _prepare_output()
    try:
        try:
            app(prog_name="fleet")  # also for `python -m fleet`: completion asks by this name
        finally:
            sys.stdout.flush()  # a full disk shows here, or else after the last word of ours
    except FleetError as err:
        _end(_wrapped(f"fleet: {printable(str(err))}"), err.exit_code)
    except OSError as err:
        what = printable(str(err.filename)) if err.filename else "cannot print the result"
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)  # for what Python still holds of it
        if isinstance(err, BrokenPipeError):  # the reader has what it wanted
            sys.exit(1)
        _end(f"fleet: {what}: {err.strerror or err}", 1)
    except KeyboardInterrupt:
        _end("fleet: interrupted", EXIT_INTERRUPTED)
    except SystemExit as ended:
        _end("", int(ended.code or 0))
    except Exception as err:
        if is_lack_of_memory(err):
            typer.echo(_wrapped(f"fleet: {printable(str(lack_of_memory(err)))}"), err=True)
            os._exit(MemoryLimitError.exit_code)  # a thread that was not started may be waited for
        traceback.print_exc()
        _end("fleet: a bug in fleet; please report it with the lines above", EXIT_BUG)


def _prepare_output() -> None:
    if sys.stdout is None:  # the program was started with stdout closed
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # as long as the program runs
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label may hold what the terminal cannot show
    warnings.showwarning = _warn


def _end(message: str, code: int) -> NoReturn:
    """End the program with this code, also where stderr, like a full disk, takes no message."""
    try:
        if message:
            typer.echo(message, err=True)
        if sys.stderr:
            sys.stderr.flush()
    except OSError:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
    sys.exit(code)


def _wrapped(text: str) -> str:
    """A message for the terminal that stderr is, if it is one."""
    from fleet.analysis.views.text import fitted

    return fitted(text, shutil.get_terminal_size().columns if sys.stderr and sys.stderr.isatty() else None)


def _warn(message: Warning | str, category: type[Warning], *_where: object, **_how: object) -> None:
    """Print a warning of ours as one line; those of libraries are none of the person's business."""
    if issubclass(category, StoreWarning):
        typer.echo(f"fleet: warning: {printable(str(message))}", err=True)
