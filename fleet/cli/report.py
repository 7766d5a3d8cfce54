"""The commands that write a page to keep and to send: report, portrait."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli import completion
from fleet.cli.app import RESULTS, ResultsPath, SelectRuns, app, runs_apart

if TYPE_CHECKING:
    from fleet.store import Listing

_FEW = 4  # hosts that the title of a portrait names
Open = Annotated[bool, typer.Option("--open", help="Show the page in a browser.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write; - for stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file even if it is no report of fleet.")]


@app.command(short_help="Write one HTML page to keep and to send.")
@runs_apart
def report(
    select: SelectRuns = None,
    output: Output = Path("fleet-report.html"),
    title: Annotated[str | None, typer.Option("--title", help="The heading of the page.")] = None,
    force: Force = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare",
            metavar="A B",
            help="Compare two sides as `fleet compare` does, host by host: labels, hosts, run ids.",
        ),
    ] = None,
    open_: Open = False,
    results: ResultsPath = RESULTS,
) -> None:
    """Write one self-contained HTML page: warnings, tables, maps, distributions, differences.

    Hosts are reported with all their comparable runs; without a selection, those of the last session.

    Example: fleet report rpi5 server1 -o today.html
    """
    from fleet.analysis.compare.sides import sides
    from fleet.analysis.views import hosts
    from fleet.errors import UsageError
    from fleet.store import Listing

    if compare and select:
        raise UsageError("--compare A B names the runs of the page; leave the other words out.")
    root = Listing(results)
    if compare:
        chosen = [run for side in sides(root, compare) for run in side.runs["run_id"]]
    else:
        chosen = [run.run_id for run in hosts.chosen(root, select or ()).runs]
    _write(output, chosen, title, root, force=force, open_=open_, sides=compare)


def _write(
    output: Path,
    run_ids: list[str],
    title: str | None,
    root: "Listing",
    *,
    force: bool,
    open_: bool,
    sides: tuple[str, str] | None = None,
) -> None:
    from fleet.analysis.report import output as files
    from fleet.analysis.report.page import render
    from fleet.text import counted

    to_stdout = str(output) == "-"
    if not to_stdout:
        files.check(output, force=force)
    page = render(root, run_ids, title, sides)
    if to_stdout:
        sys.stdout.write(page)
    else:
        files.write(output, page)
        typer.echo(f"{output}: {counted(len(set(run_ids)), 'run')}, {len(page.encode()) / 1e6:.1f} MB")
        if open_:
            typer.launch(output.absolute().as_uri())


@app.command(short_help="Write one HTML page about a machine, or two side by side.")
@runs_apart
def portrait(
    hosts: Annotated[
        list[str],
        typer.Argument(
            metavar="HOST...", help="Hosts; of each the last run.", autocompletion=completion.stored_words
        ),
    ],
    output: Output = Path("fleet-portrait.html"),
    force: Force = False,
    open_: Open = False,
    results: ResultsPath = RESULTS,
) -> None:
    """Write one page with all that the last run of each host measured; fleet run -b all measures everything.

    Topology, matrices, levels of memory, products of matrices, roofline; with a second host, differences.

    Example: fleet portrait server1 server2 -o two.html
    """
    from fleet.analysis.views import hosts as views
    from fleet.store import Listing
    from fleet.text import counted

    root = Listing(results)
    found = views.chosen(root, hosts)
    names = [run.host_name for run in found.runs if run.run_id in found.latest]
    title = f"Portrait of {', '.join(names) if len(names) <= _FEW else counted(len(names), 'host')}"
    _write(output, list(found.latest), title, root, force=force, open_=open_)
