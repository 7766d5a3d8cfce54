"""The commands that maintain stored runs (label, withdraw, verify), and demo,
completion, schema, man.
"""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet import store
from fleet.analysis import base, reduce, views
from fleet.cli import app as cli
from fleet.cli.app import option
from fleet.cli.completion import complete_runs
from fleet.cli.parser import (
    SHELLS,
    list_command_contexts,
    list_parameters,
    read_completion_script,
)
from fleet.errors import StoreError, UsageError
from fleet.hostnames import join_names
from fleet.model.version import VERSION
from fleet.plan.options import parse_choice, parse_labels
from fleet.text import as_document, format_count

_SCHEMAS = Path(__file__).with_name("schemas")  # of docs/schemas.py
_END = Path(__file__).with_name("man_end.roff")


@cli.app.command(short_help="Set or remove labels of stored runs.")
def label(
    select: Annotated[
        str,
        typer.Argument(
            help="The runs, as `fleet runs` selects them.", autocompletion=complete_runs
        ),
    ],
    labels: Annotated[
        list[str], typer.Argument(help="key=value to set, key= to remove.")
    ],
    results: cli.ResultsPath = cli.RESULTS,
) -> None:
    """Set labels of stored runs; samples stay as they were written.

    Example: fleet label rome@kernel=old bios=2.1
    """
    removed = [text[:-1] for text in labels if text.endswith("=")]
    values = parse_labels([text for text in labels if not text.endswith("=")])
    if both := sorted(values.keys() & set(removed)):
        raise UsageError(f"{both[0]}: set it or remove it, not both.")
    root = store.Store(results)
    runs = base.select_runs(root.list_runs(), [select], root.place)
    root.label([run.run_id for run in runs], {**values, **dict.fromkeys(removed)})
    hosts = join_names(run.host_name for run in runs)
    cli.print_text(
        f"Labelled {format_count(len(runs), 'run')} of {hosts}: {' '.join(labels)}."
    )


@cli.app.command(short_help="Leave runs out of all results; keep their files.")
def withdraw(
    select: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs; default: list those withdrawn.", autocompletion=complete_runs
        ),
    ] = None,
    undo: Annotated[bool, option("Include the runs again.")] = False,
    results: cli.ResultsPath = cli.RESULTS,
) -> None:
    """Leave runs out of all results until --undo; keep their files.

    Example: fleet withdraw r20261121T170344Z-10246bc8
    """
    root, listing = store.Store(results), store.Listing(results)
    counting = {run.run_id for run in listing.runs}
    listed = [
        run
        for run in listing.all_runs
        if (run.run_id in counting) != (undo or not select)
    ]
    if not select:
        width = cli.get_width_and_colour()["width"]
        cli.print_text(
            views.render_runs(listed, width=width) if listed else "No run is withdrawn."
        )
        return
    runs = base.select_runs(listed, select, root.place)
    root.withdraw([run.run_id for run in runs], undo=undo)
    done = "Read again" if undo else "Withdrawn, and kept"
    cli.print_text(
        f"{done}: {format_count(len(runs), 'run')}. `fleet withdraw` lists those"
        " withdrawn."
    )


@cli.upkeep_command(short_help="Read all that is stored and name every damaged file.")
def verify(
    root: Annotated[
        str | None, typer.Argument(help="A results root, or a file to give away.")
    ] = None,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
) -> None:
    """Read all that is stored and name every damaged file.

    Exits with 11 if a file is damaged. Example: fleet verify results
    """
    from fleet.store.places import parse_place
    from fleet.store.verify import verify as verify_place
    from fleet.store.verify import verify_file

    is_file = root is not None and Path(root).is_file()
    if root and "://" not in root and not Path(root).expanduser().exists():
        raise UsageError(f"{root}: there is no such folder or file.")
    result = (
        verify_file(Path(str(root)))
        if is_file
        else verify_place(parse_place(root or results))
    )
    if not (
        is_file or result.problems
    ):  # else what is derived is not made of what was written
        listing = store.Listing(root or results)
        problems = (
            *reduce.verify_pairs(listing),
            *reduce.verify_numbers(listing),
            *views.verify_marked_bursts(listing),
        )
        result = replace(result, problems=problems)
    if json:
        typer.echo(as_document("verify", [asdict(result)]))
    else:
        counts = (
            format_count(getattr(result, f"{noun}s"), noun)
            for noun in ("run", "sample", "file")
        )
        written = "all as written" if result.files else "nothing is stored there"
        verdict = (
            format_count(len(result.problems), "problem")
            if result.problems
            else written
        )
        typer.echo("\n".join([*result.problems, f"{', '.join(counts)}: {verdict}."]))
    raise typer.Exit(StoreError.exit_code if result.problems else 0)


@cli.upkeep_command(short_help="Make a lab of made-up machines to learn on.")
def demo(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
) -> None:
    """Make a folder with the results of made-up machines, to learn the commands on.

    Example: fleet demo lab
    """
    from fleet.demo import unpack_lab

    unpack_lab(folder)
    typer.echo(
        f"Made {folder}: made-up machines and their runs. Next: cd {folder}, then fleet"
        " show."
    )


@cli.upkeep_command(short_help="Print the completion of a shell.")
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print the completion of a shell.

    Example: fleet completion bash >> ~/.bashrc
    """
    parse_choice("completion", shell, SHELLS)
    typer.echo(read_completion_script(shell), nl=False)


@cli.upkeep_command(
    short_help="Print the JSON Schema of a command's --json, or of a file."
)
def schema(
    name: Annotated[
        str | None, typer.Argument(help="Such as show; default: list all.")
    ] = None,
) -> None:
    """Print the JSON Schema of a command's --json, of expected.yaml, of the inventory
    or of a run's record.

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
    for described in list_command_contexts(root):
        lines.append(
            f".SS {_escape_roff(described.get_usage().removeprefix('Usage: '))}"
        )
        for paragraph in (described.command.help or "").split("\n\n"):
            lines += (".PP", _escape_roff(paragraph))
        for _, (name, about) in list_parameters(described):
            lines += (
                ".TP",
                rf"\fB{_escape_roff(name)}\fR",
                _escape_roff(about) or r"\&",
            )
    typer.echo("\n".join(lines) + "\n" + _END.read_text(encoding="utf-8"), nl=False)


def _escape_roff(words: str) -> str:
    """Escape text for roff: on one line, without requests or escapes, and with hyphens
    that can be pasted.
    """
    line = re.sub(r"\s+", " ", words).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line
