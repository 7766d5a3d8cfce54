"""The commands that maintain stored runs (label, withdraw, verify), and demo,
completion, schema, man.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet import store
from fleet.analysis import base, compare, reduce, views
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
from fleet.plan.grammars import AGE
from fleet.plan.options import parse_choice, parse_labels
from fleet.text import as_document, format_count

if TYPE_CHECKING:
    from fleet.store.verify import Verification

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
    changes = _parse_label_changes(labels)
    root = store.Store(results)
    listing = store.Listing(results, must_exist=True)
    runs = base.select_runs(listing.runs, [select], listing)
    run_ids = [run.run_id for run in runs]
    root.label(run_ids, changes)
    count = format_count(len(runs), "run")
    hosts = join_names(run.host_name for run in runs)
    cli.print_text(f"Labelled {count} of {hosts}: {' '.join(labels)}.")


def _parse_label_changes(texts: Sequence[str]) -> dict[str, str | None]:
    """Parse ["bios=2.1", "kernel="] -> {"bios": "2.1", "kernel": None}. Raises
    UsageError.
    """
    texts_to_set = list[str]()
    to_remove = list[str]()
    for text in texts:
        if text.endswith("="):
            to_remove.append(text.removesuffix("="))
        else:
            texts_to_set.append(text)
    to_set = parse_labels(texts_to_set)
    both = to_set.keys() & set(to_remove)
    if both:
        raise UsageError(f"{min(both)}: set it or remove it, not both.")
    return {**to_set, **dict.fromkeys(to_remove)}


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
    root = store.Store(results)
    listing = store.Listing(results, must_exist=True)
    included = {run.run_id for run in listing.runs}
    withdrawn = [run for run in listing.all_runs if run.run_id not in included]
    if not select:
        _print_withdrawn(withdrawn)
        return
    candidates = withdrawn if undo else listing.runs
    runs = base.select_runs(candidates, select, listing)
    root.withdraw([run.run_id for run in runs], undo=undo)
    done = "Read again" if undo else "Withdrawn, and kept"
    count = format_count(len(runs), "run")
    cli.print_text(f"{done}: {count}. `fleet withdraw` lists those withdrawn.")


def _print_withdrawn(withdrawn: Sequence[store.RunSummary]) -> None:
    if not withdrawn:
        cli.print_text("No run is withdrawn.")
        return
    _print_runs(withdrawn)


def _print_runs(runs: Sequence[store.RunSummary]) -> None:
    width = cli.get_width()
    cli.print_text(views.render_runs(runs, width=width))


@cli.app.command(short_help="Remove old runs, but never those of a baseline.")
def prune(
    older: Annotated[
        timedelta, cli.make_parsed_option(AGE, "Runs that began earlier, such as 90d.")
    ],
    select: cli.SelectRuns = None,
    dry_run: cli.DryRun = False,
    results: cli.ResultsPath = cli.RESULTS,
) -> None:
    """Remove the files of old runs, which cannot be undone.

    What a host is judged by stays: its last run, and the first eight from its last run
    with the label accepted=yes on, or its first eight of all.

    Example: fleet prune --older 90d --dry-run
    """
    from fleet.store.prune import remove_runs

    before = datetime.now(UTC) - older
    listing = store.Listing(results, must_exist=True)
    runs = _choose_old_runs(listing, select, before)
    count = format_count(len(runs), "run")
    about = f"{count} from before {before:%Y-%m-%d}"
    if dry_run:
        if runs:
            _print_runs(runs)
        cli.print_text(f"Would remove {about}.")
        return
    remove_runs(listing.place, runs)
    cli.print_text(f"Removed {about}.")


def _choose_old_runs(
    listing: store.Listing, select: Sequence[str] | None, before: datetime
) -> list[store.RunSummary]:
    """Choose the selected runs that may be removed. The runs of a baseline are those of
    all that is stored, whatever is selected.
    """
    removable = compare.choose_removable(listing.runs, before)
    if not select:
        return removable
    selected = base.select_runs(listing.runs, select, listing)
    return [run for run in removable if run in selected]


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
    from fleet.store.verify import verify_file

    is_bucket = root is not None and "://" in root
    if root and not is_bucket and not Path(root).expanduser().exists():
        raise UsageError(f"{root}: there is no such folder or file.")
    if root is not None and Path(root).is_file():
        result = verify_file(Path(root))
    else:
        result = _verify_root(root or results)
    if json:
        typer.echo(as_document("verify", [asdict(result)]))
    else:
        typer.echo(_render_verified(result))
    if result.problems:
        raise typer.Exit(StoreError.exit_code)


def _verify_root(root: str) -> "Verification":
    """Verify what was written to a root. If that is whole, also verify what was derived
    from it: pairs, numbers and marked bursts.
    """
    from fleet.store.places import parse_place
    from fleet.store.verify import verify

    place = parse_place(root)
    place.require_folder()
    written = verify(place)
    if written.problems:
        return written
    listing = store.Listing(root)
    problems = (
        *reduce.verify_pairs(listing),
        *reduce.verify_numbers(listing),
        *views.verify_marked_bursts(listing),
    )
    return replace(written, problems=problems)


def _render_verified(result: "Verification") -> str:
    """Render the problems, then what was read and the verdict."""
    runs = format_count(result.runs, "run")
    samples = format_count(result.samples, "sample")
    files = format_count(result.files, "file")
    if result.problems:
        verdict = format_count(len(result.problems), "problem")
    elif result.files:
        verdict = "all as written"
    else:
        verdict = "nothing is stored there"
    return "\n".join([*result.problems, f"{runs}, {samples}, {files}: {verdict}."])


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
    files = sorted(_SCHEMAS.glob("*.json"))
    paths = {file.stem: file for file in files}
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
        lines += _render_roff(described)
    end = _END.read_text(encoding="utf-8")
    typer.echo("\n".join(lines) + "\n" + end, nl=False)


def _render_roff(described: typer.Context) -> list[str]:
    """Render the manual page's lines about a command: usage, description, options."""
    usage = described.get_usage().removeprefix("Usage: ")
    lines = [f".SS {_escape_roff(usage)}"]
    description = described.command.help or ""
    for paragraph in description.split("\n\n"):
        lines += [".PP", _escape_roff(paragraph)]
    for _, (name, about) in list_parameters(described):
        lines += [
            ".TP",
            rf"\fB{_escape_roff(name)}\fR",
            _escape_roff(about) or r"\&",  # an empty text, which still is a line
        ]
    return lines


def _escape_roff(words: str) -> str:
    """Escape text for roff: on one line, without requests or escapes, and with hyphens
    that can be pasted.
    """
    line = re.sub(r"\s+", " ", words).strip()
    line = line.replace("\\", r"\e")
    line = line.replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line
