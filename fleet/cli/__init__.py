"""The commands. Each parses options, calls one function and prints; late imports keep
--help quick.
"""

import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import NoReturn

import typer

from fleet import errors
from fleet.cli import app as cli
from fleet.cli.streams import PrintError, escape_stream

# Help lists the commands in this order.
# isort: off
from fleet.cli import hosts, run, show, compare, exchange, upkeep

# isort: on

_STDOUT = 1
_STDERR = 2


def main() -> None:
    """Run the program. Turn every exception into an exit code and at most one message
    on stderr.
    """
    try:
        _prepare_streams()
        texts_printed = set[str]()  # of warnings: each is printed once
        warnings.showwarning = partial(_warn, texts_printed)
        try:
            # also for `python -m fleet`: completion asks by this name
            cli.app(prog_name="fleet")
        finally:
            # A full disk is found when the buffer is written. Write it here, where the
            # error is explained, not at the end of Python, where it is not.
            sys.stdout.flush()
    except PrintError as err:
        # else Python would write the rest at its end, and fail again
        _silence(_STDOUT)
        if err.reader_left:
            sys.exit(errors.EXIT_READER_LEFT)
        _end(f"fleet: cannot print the result: {err}", errors.StoreError.exit_code)
    except KeyboardInterrupt as err:
        errors.print_traceback_if_debugging(err)
        _end("fleet: interrupted", errors.EXIT_INTERRUPTED)
    except SystemExit as ended:
        _end("", int(ended.code or 0))
    except Exception as err:
        errors.print_traceback_if_debugging(err)
        _end_with_error(err)


def _end_with_error(err: Exception) -> NoReturn:
    """Print the cause of an error on stderr and exit with its code. An error without a
    known cause is a bug of fleet.
    """
    if isinstance(err, errors.FleetError):
        cause: errors.FleetError | None = err
    else:
        cause = errors.explain(err)
    if cause is None:
        _end(f"fleet: {errors.describe_bug(err)}", errors.EXIT_BUG)
    if errors.is_lack_of_memory(err):
        cli.print_text(f"fleet: {cause}", err=True)
        # sys.exit would wait for all threads, maybe for one that could not be started
        os._exit(cause.exit_code)
    _end(cli.wrap(f"fleet: {cause}", sys.stderr), cause.exit_code)


def _prepare_streams() -> None:
    """Escape what is printed. Stdout is nowhere if the program was started with it
    closed.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # as long as the program runs
    sys.stdout = escape_stream(sys.stdout)
    sys.stderr = escape_stream(sys.stderr)


def _silence(descriptor: int) -> None:
    """Send nowhere what Python still holds for a stream that cannot be written to."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), descriptor)


def _end(message: str, code: int) -> NoReturn:
    """Print a message on stderr and exit with this code, even if stderr cannot be
    written to.
    """
    try:
        if message:
            typer.echo(message, err=True)
        if sys.stderr:
            sys.stderr.flush()
    except OSError:
        _silence(_STDERR)
    sys.exit(code)


def _warn(
    texts_printed: set[str],
    message: Warning | str,
    category: type[Warning],
    *_where: object,
    **_how: object,
) -> None:
    """Print each StoreWarning once; hide all other warnings. Add its text to
    `texts_printed`.
    """
    text = str(message)
    if not issubclass(category, errors.StoreWarning) or text in texts_printed:
        return
    texts_printed.add(text)
    errors.print_traceback_if_debugging(getattr(message, "__cause__", None))
    cli.print_text(f"fleet: warning: {text}", err=True)
