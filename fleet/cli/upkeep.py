"""The commands that look after what is stored, label, withdraw, verify; and demo, completion, schema, man."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.cli import app as cli
from fleet.cli.completion import complete_runs
from fleet.cli.parser import completion_script, describe_commands
from fleet.errors import UsageError
from fleet.model.version import VERSION
from fleet.plan.options import parse_choice

_SCHEMAS = Path(__file__).with_name("schemas")  # of docs/schemas.py
_END = Path(__file__).with_name("man_end.roff")


@cli.app.command(short_help="Set or remove labels of stored runs.")
def label(
    select: Annotated[
        str, typer.Argument(help="The runs, as `fleet runs` selects them.", autocompletion=complete_runs)
    ],
    labels: Annotated[list[str], typer.Argument(help="key=value to set, key= to remove.")],
    results: cli.ResultsPath = cli.RESULTS,
) -> None:
    """Set labels of stored runs; samples stay as they were written.

    Example: fleet label rome@kernel=old bios=2.1
    """
    from fleet.analysis.base.selection import select_runs
    from fleet.hostnames import join_names
    from fleet.plan.options import parse_labels
    from fleet.store import Store
    from fleet.text import format_count

    removed = [text[:-1] for text in labels if text.endswith("=")]
    values = parse_labels([text for text in labels if not text.endswith("=")])
    if both := sorted(values.keys() & set(removed)):
        raise UsageError(f"{both[0]}: either set it or remove it.")
    store = Store(results)
    runs = select_runs(store.list_runs(), [select], store.place)
    store.label([run.run_id for run in runs], {**values, **dict.fromkeys(removed)})
    hosts = join_names(run.host_name for run in runs)
    cli.print_text(f"Labelled {format_count(len(runs), 'run')} of {hosts}: {' '.join(labels)}.")


@cli.app.command(short_help="Keep runs, but read them no longer.")
def withdraw(
    select: Annotated[
        list[str] | None,
        typer.Argument(help="Runs; default: list those withdrawn.", autocompletion=complete_runs),
    ] = None,
    undo: Annotated[bool, typer.Option(help="Read the runs again.")] = False,
    results: cli.ResultsPath = cli.RESULTS,
) -> None:
    """Keep runs, but read them no longer, until --undo.

    Example: fleet withdraw r20261121T170344Z-10246bc8
    """
    from fleet.analysis.base.selection import select_runs
    from fleet.analysis.views.runs import render_runs
    from fleet.store import Listing, Store
    from fleet.text import format_count

    store, root = Store(results), Listing(results)
    counting = {run.run_id for run in root.runs}
    listed = [run for run in root.all_runs if (run.run_id in counting) != (undo or not select)]
    if not select:
        width = cli.describe_terminal()["width"]
        cli.print_text(render_runs(listed, width=width) if listed else "No run is withdrawn.")
        return
    runs = select_runs(listed, select, store.place)
    store.withdraw([run.run_id for run in runs], undo=undo)
    done = "Read again" if undo else "Withdrawn, and kept"
    cli.print_text(f"{done}: {format_count(len(runs), 'run')}. `fleet withdraw` lists those withdrawn.")


@cli.upkeep_command(short_help="Read all that is stored and name every damaged file.")
def verify(
    root: Annotated[str | None, typer.Argument(help="As --results, or a file to give away.")] = None,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
) -> None:
    """Read all that is stored and name every damaged file.

    Exits with 11 if a file is damaged. Example: fleet verify results
    """
    from dataclasses import asdict, replace

    from fleet.analysis.reduce.pairs import verify_pairs
    from fleet.analysis.views.warnings import verify_marked_bursts
    from fleet.errors import StoreError
    from fleet.store.places import parse_place
    from fleet.store.runs import Listing
    from fleet.store.verify import verify as verify_place
    from fleet.store.verify import verify_file
    from fleet.text import as_document, format_count

    place = parse_place(root or results)
    is_file = root is not None and Path(root).is_file()
    result = verify_file(Path(str(root))) if is_file else verify_place(place)
    if not (is_file or result.problems):  # else what is derived is not made of what was written
        listing = Listing(place)
        result = replace(result, problems=(*verify_pairs(listing), *verify_marked_bursts(listing)))
    problems = result.problems
    if json:
        typer.echo(as_document("verify", [asdict(result)]))
    else:
        counts = (
            format_count(result.runs, "run"),
            format_count(result.samples, "sample"),
            format_count(result.files, "file"),
        )
        verdict = format_count(len(problems), "problem") if problems else "all as written"
        verdict = verdict if result.files or problems else "nothing is stored there"
        typer.echo("\n".join([*problems, f"{', '.join(counts)}: {verdict}."]))
    raise typer.Exit(StoreError.exit_code if problems else 0)


@cli.upkeep_command(short_help="Make a lab of made-up machines to learn on.")
def demo(folder: Annotated[Path, typer.Argument(help="A new or empty folder.")]) -> None:
    """Make a folder with the results of made-up machines, to learn the commands on.

    Example: fleet demo lab
    """
    from fleet.demo import unpack_lab

    unpack_lab(folder)
    typer.echo(f"Made {folder}: made-up machines and their runs. Next: cd {folder}, then fleet show.")


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
    root: Any = context.find_root()
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
    typer.echo("\n".join(lines) + "\n" + _END.read_text(encoding="utf-8"), nl=False)


def _escape_roff(words: str) -> str:
    """Text as roff reads it: no control lines, no escapes, hyphens that can be pasted."""
    line = re.sub(r"\s+", " ", words).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line
