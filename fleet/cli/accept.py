"""The command that holds machines against what is expected of them: accept."""

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli import app as cli
from fleet.cli.compare import read_share
from fleet.errors import EXIT_BELOW, UsageError

EXPECTED = "expected.yaml"


@cli.app.command(short_help="Say whether machines are as good as they should be.")
@cli.skip_damaged
def accept(
    select: cli.SelectRuns = None,
    expected: Annotated[
        Path | None,
        typer.Option("--expected", help="Ranges set by hand. [default: expected.yaml beside the inventory]"),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write such a file from these machines' runs, and judge nothing.")
    ] = False,
    threshold: Annotated[
        str | None, typer.Option(help="A smaller deviation is as expected. [default: 3%]", metavar="SHARE")
    ] = None,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Hold each host's last run against what is expected: ranges, its earlier runs, and equal machines.

    Exit code 21 if a host is below what is expected, 2 if nothing can be told of one, else 0.

    Example: fleet accept node7
    """
    from fleet.analysis.compare.accept import Outcome
    from fleet.analysis.compare.accept import accept as judge
    from fleet.analysis.reduce.comparison_rows import Only
    from fleet.analysis.views import accept as views
    from fleet.inventory.expected import read_expected
    from fleet.store.files import write_output

    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")
    path = expected or inventory.parent / EXPECTED
    root, only = cli.open_listing(results), Only(cli.join_lists(benchmark), cpus)
    if write:
        proposal = views.propose_ranges(judge(root, select or ("all",), only=only))
        write_output(path, [proposal])
        typer.echo(f"Wrote {path}. Read it before you rely on it.")
        return
    ranges = read_expected(path) if expected or path.exists() else []
    acceptances = judge(root, select or ("all",), ranges, threshold=read_share(threshold), only=only)
    if json or csv:
        typer.echo((views.acceptances_json if json else views.acceptances_csv)(acceptances))
    else:
        cli.print_paged(views.acceptances_text(acceptances))
    outcomes = {acceptance.outcome for acceptance in acceptances}
    if Outcome.BELOW in outcomes:
        raise typer.Exit(EXIT_BELOW)
    if Outcome.CANNOT_TELL in outcomes:
        raise typer.Exit(UsageError.exit_code)
