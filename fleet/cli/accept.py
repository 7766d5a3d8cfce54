"""The command that holds machines against what is expected of them: accept."""

import time
from functools import partial
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
        Path | None, typer.Option(help="Ranges set by hand. [default: expected.yaml beside the inventory]")
    ] = None,
    write: Annotated[
        bool, typer.Option(help="Write such a file from these machines' runs, and judge nothing.")
    ] = False,
    run: Annotated[bool, typer.Option(help="Measure the hosts first, as `fleet run` does.")] = False,
    threshold: Annotated[
        str | None, typer.Option(help="A smaller deviation is as expected. [default: 3%]", metavar="SHARE")
    ] = None,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
    csv: cli.Csv = False,
) -> None:
    """Hold each host's last run against what is expected: ranges, its earlier runs, and equal machines.

    Exit code 21 if a host is below what is expected, else that of --run, 2 if nothing can be told of one.

    Example: fleet accept node7
    """
    from fleet.analysis.compare import Outcome, judge_last_runs
    from fleet.analysis.exchange import load_model
    from fleet.analysis.reduce.comparison_rows import Only
    from fleet.analysis.views import accept as views
    from fleet.inventory.expected import read_expected
    from fleet.store.files import write_output

    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")
    path = expected or inventory.parent / EXPECTED
    only, code = Only(cli.join_lists(benchmark), cpus), 0
    if run:
        select, code = _measure(inventory, results, select, only.benchmark)
    root = cli.open_listing(results)
    tables = partial(load_model, root)
    if write:
        proposal = views.propose_ranges(
            judge_last_runs(root, select or ("all",), load_tables=tables, only=only)
        )
        write_output(path, [proposal])
        typer.echo(f"Wrote {path}. Read it before you rely on it.")
        return
    ranges = read_expected(path) if expected or path.exists() else []
    acceptances = judge_last_runs(
        root, select or ("all",), ranges, load_tables=tables, threshold=read_share(threshold), only=only
    )
    if ranges and not any(
        acceptance.rows["source"].str.startswith(f"{path.name}:").any() for acceptance in acceptances
    ):
        typer.echo(f"fleet: no entry of {path} is about a number of these hosts.", err=True)
    if json or csv:
        typer.echo((views.acceptances_json if json else views.acceptances_csv)(acceptances))
    else:
        typer.echo(views.acceptances_text(acceptances))  # a line stays one
    outcomes = {acceptance.outcome for acceptance in acceptances}
    if Outcome.BELOW in outcomes:
        raise typer.Exit(EXIT_BELOW)
    if code or Outcome.CANNOT_TELL in outcomes:
        raise typer.Exit(code or UsageError.exit_code)


def _measure(
    inventory: Path, results: str, select: list[str] | None, benchmarks: str | None
) -> tuple[list[str], int]:
    """Measure hosts; return the ids of their runs, and the exit code of `fleet run`. Exits without runs."""
    from fleet.cli.run import measure_session, repeat_options, show_progress
    from fleet.console.summary import render_outcomes
    from fleet.plan.options import parse_requested
    from fleet.session.outcome import exit_code
    from fleet.store import Store

    hosts = cli.select_hosts(cli.load_inventory(inventory), select, results=results)
    requested = parse_requested({"benchmarks": benchmarks})
    cli.check_hosts(hosts, requested)
    store, started = Store(results), time.monotonic()
    store.make_ready()
    with show_progress(hosts, (), quiet=False, json=False) as on_event:
        outcomes, logs = measure_session(store, hosts, on_event, requested=requested)
    if code := exit_code(outcomes):
        hints = repeat_options(results, inventory, logs)
        cli.print_text(render_outcomes(outcomes, time.monotonic() - started, hints), err=True)
    run_ids = [str(outcome.run_id) for outcome in outcomes if outcome.is_stored]
    if not run_ids:
        raise typer.Exit(code)
    return run_ids, code
