"""Shows a text that is higher than the terminal in $PAGER."""

import os
import shlex
import shutil
import signal
import subprocess
import sys

import typer

from fleet.cli.streams import escape_controls
from fleet.cli.terminal import wrap

_LESS = "FRX"  # leave at once what fits, keep colours, keep the screen


def print_paged(text: str) -> None:
    """Print a text, wrapped; if it is higher than the terminal, show it in $PAGER."""
    text = wrap(text)
    if not _is_higher_than_terminal(text):
        typer.echo(text)
        return
    os.environ.setdefault("LESS", _LESS)
    failure = _show_in_pager(text)
    if failure is None:
        return
    if os.environ.get("PAGER"):
        typer.echo(wrap(f"fleet: {failure}; the text follows."), err=True)
    typer.echo(text)


def _is_higher_than_terminal(text: str) -> bool:
    """Report whether a person at a terminal would not see all of the text at once."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        return False
    prompt_lines = 1
    lines = text.count("\n") + 1
    return lines + prompt_lines > shutil.get_terminal_size().lines


def _choose_pager() -> str:
    """Return the command of the pager: $PAGER, else cat on a dumb terminal, else
    less.
    """
    named = os.environ.get("PAGER", "").strip()
    if named:
        return named
    return "cat" if os.environ.get("TERM") == "dumb" else "less"


def _show_in_pager(text: str) -> str | None:
    """Show a text in the pager until it ends; return why that failed, or None."""
    name = _choose_pager()
    # less then starts no program, and opens and writes no file
    environment = {**os.environ, "LESSSECURE": "1"}
    try:
        words = shlex.split(name)
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or err
        return f"$PAGER, {name}, cannot be started ({reason})"
    _feed_until_end(pager, escape_controls(text, colours=True))
    code = pager.returncode
    if code in (0, -signal.SIGINT):
        return None
    if code < 0:
        return f"$PAGER, {name}, was killed by signal {-code}"
    return f"$PAGER, {name}, ended with exit code {code}"


def _feed_until_end(pager: subprocess.Popen[bytes], text: str) -> None:
    """Write a text to a pager, and wait until the pager ends. Ctrl-C does not end the
    wait: the pager gets it, too, and may stay.
    """
    to_write: bytes | None = f"{text}\n".encode(errors="backslashreplace")
    while pager.returncode is None:
        try:
            pager.communicate(to_write)
        except KeyboardInterrupt:
            to_write = None  # `communicate` goes on with what it got first
