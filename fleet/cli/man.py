"""The hidden command that prints fleet.1, the manual page, from the help of all commands: man."""

import re
from collections.abc import Iterator

import click
import typer

from fleet.cli.app import app
from fleet.model.version import VERSION

_END = """\
.SH EXIT STATUS
0: all hosts complete. 1: some not; the rest is stored. 2: usage or inventory.
If one cause stopped every host: 3: unreachable, 4: host key, 5: authentication, 6: link lost,
7: host not understood, 8: build, 9: deploy, 10: agent, 11: store, 12: another fleet is measuring there,
13: out of memory.
20: \\fBcompare \\-\\-fail\\-on\\-change\\fR found a change. 70: a bug. 130: interrupted.
.SH ENVIRONMENT
.TP
.B FLEET_INVENTORY
Default of \\fB\\-\\-inventory\\fR.
.TP
.B FLEET_RESULTS
Default of \\fB\\-\\-results\\fR.
.TP
.B FLEET_SSH_CONFIG
Read in place of ~/.ssh/config and /etc/ssh/ssh_config.
.TP
.B PAGER
Shows output that is longer than the terminal.
.TP
.B NO_COLOR
No colours, if set.
.SH FILES
.TP
.I inventory.yaml
The machines; without it, this machine alone.
.TP
.I results/
The results root, with a directory of Parquet files for each run.
.SH SEE ALSO
.BR ssh (1),
.BR ssh_config (5)
"""


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
    return "\n".join(lines) + "\n" + _END


def _section(name: str, command: click.Command, root: click.Context) -> Iterator[str]:
    context = click.Context(command, parent=root, info_name=name)
    yield f".SS {_text(command.get_usage(context).removeprefix('Usage: '))}"
    for paragraph in (command.help or "").split("\n\n"):
        yield from (".PP", _text(paragraph))
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (".TP", rf"\fB{_text(record[0])}\fR", _text(record[1]) or r"\&")


def _text(words: str) -> str:
    """Text as roff reads it: no control lines, no escapes, hyphens that can be pasted."""
    line = re.sub(r"\s+", " ", words).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line
