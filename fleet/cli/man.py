"""The commands that print what an installation needs: completion, schema, man (fleet.1, from all help)."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.cli import app as cli
from fleet.cli.parser import completion_script, describe_commands
from fleet.model.version import VERSION
from fleet.plan.options import parse_choice

_SCHEMAS = Path(__file__).with_name("schemas")  # of docs/schemas.py
_END = Path(__file__).with_name("man_end.roff")


@cli.upkeep_command(short_help="Print the completion of a shell.")
def completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the completion of a shell.

    Example: fleet completion bash >> ~/.bashrc
    """
    parse_choice("completion", shell, ("bash", "zsh", "fish"))
    typer.echo(completion_script(shell))


@cli.upkeep_command(short_help="Print the JSON Schema of a command's --json, or of a file.")
def schema(
    name: Annotated[str | None, typer.Argument(help="Such as show; default: list all.")] = None,
) -> None:
    """Print the JSON Schema of a command's --json, of expected.yaml, of the inventory or of a run's record.

    Example: fleet schema show
    """
    paths = {path.stem: path for path in sorted(_SCHEMAS.glob("*.json"))}
    if name is None:
        typer.echo("\n".join(paths))
        return
    parse_choice("schema", name, tuple(paths))
    typer.echo(paths[name].read_text(), nl=False)


@cli.app.command(hidden=True, short_help="Print the manual page.")
def man(context: typer.Context) -> None:
    """Print the manual page fleet.1, in the format of man.

    Example: fleet man > fleet.1
    """
    typer.echo(_write_page(context.find_root()), nl=False)


def _write_page(root: Any) -> str:
    """Return the manual page of the program whose context this is."""
    lines = [
        f'.TH FLEET 1 "" "fleet {VERSION}" "User Commands"',
        ".SH NAME",
        rf"fleet \- {_escape_roff(root.command.help or '')}",
        ".SH SYNOPSIS",
        r".B fleet",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH COMMANDS",
    ]
    for usage, text, parameters in describe_commands(root):
        lines.append(f".SS {_escape_roff(usage)}")
        for paragraph in text.split("\n\n"):
            lines += (".PP", _escape_roff(paragraph))
        for name, about in parameters:
            lines += (".TP", rf"\fB{_escape_roff(name)}\fR", _escape_roff(about) or r"\&")
    return "\n".join(lines) + "\n" + _END.read_text(encoding="utf-8")


def _escape_roff(words: str) -> str:
    """Text as roff reads it: no control lines, no escapes, hyphens that can be pasted."""
    line = re.sub(r"\s+", " ", words).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line
