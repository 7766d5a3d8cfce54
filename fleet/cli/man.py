"""The hidden command that prints fleet.1, the manual page, from the help of all commands: man."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import typer

from fleet.cli.app import app
from fleet.cli.help import GroupedCommand
from fleet.model.version import VERSION

_END = Path(__file__).with_name("man_end.roff")


@app.command(hidden=True, short_help="Print the manual page.")
def man() -> None:
    """Print the manual page fleet.1, in the format of man.

    Example: fleet man > fleet.1
    """
    typer.echo(page(click.get_current_context().find_root()), nl=False)


def page(root: click.Context) -> str:
    """The manual page of the program whose context this is."""
    group = root.command
    assert isinstance(group, click.Group)  # noqa: S101  fleet has commands
    commands = [(name, group.commands[name]) for name in group.list_commands(root)]
    lines = [
        f'.TH FLEET 1 "" "fleet {VERSION}" "User Commands"',
        ".SH NAME",
        rf"fleet \- {_text(group.help or '')}",
        ".SH SYNOPSIS",
        r".B fleet",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH COMMANDS",
    ]
    for name, command in commands:
        if not command.hidden:
            lines += _section(name, command, root)
    return "\n".join(lines) + "\n" + _END.read_text(encoding="utf-8")


def _section(name: str, command: click.Command, root: click.Context) -> Iterator[str]:
    context = click.Context(command, parent=root, info_name=name)
    yield f".SS {_text(command.get_usage(context).removeprefix('Usage: '))}"
    for paragraph in (command.help or "").split("\n\n"):
        yield from (".PP", _text(paragraph))
    assert isinstance(command, GroupedCommand)  # noqa: S101  as all of fleet's
    for _, record in command.listed(context):
        yield from (".TP", rf"\fB{_text(record[0])}\fR", _text(record[1]) or r"\&")


def _text(words: str) -> str:
    """Text as roff reads it: no control lines, no escapes, hyphens that can be pasted."""
    line = re.sub(r"\s+", " ", words).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line
