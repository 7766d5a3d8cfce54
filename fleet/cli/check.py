"""The command that looks at hosts and changes nothing: check."""

from functools import partial
from typing import Annotated

import typer

from fleet.cli.app import (
    INVENTORY,
    ConnectTimeout,
    InventoryPath,
    Json,
    Parallel,
    Quiet,
    Select,
    app,
    stop_on_signals,
)


@app.command(short_help="Name what would disturb a run on each host; changes nothing.")
def check(
    select: Select = None,
    inventory: InventoryPath = INVENTORY,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", "-b", help="Preview a run of these: cas, readwrite, clock or all."),
    ] = None,
    cpus: Annotated[
        str | None, typer.Option("--cpus", "-c", help="Preview a run on these CPUs only, as 0-3,8.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="Preview a run of half, ordered, a list as 0-1,0-4, or per-relation:K."),
    ] = None,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = 15.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Name what would disturb a run on each host, its remedy, and what `fleet run` would do; changes nothing.

    Example: fleet check localhost -b cas --pairs per-relation:3
    """
    from fleet.console.check import checks_json, checks_text
    from fleet.console.progress import progress
    from fleet.inventory.select import load
    from fleet.model import RequestedOptions
    from fleet.plan import options
    from fleet.remote.connect import connect
    from fleet.session import outcome
    from fleet.session.check import check as check_hosts
    from fleet.session.context import HostAccess

    chosen = load(inventory).select(select or [])
    requested = RequestedOptions(
        benchmarks=options.benchmarks(benchmark) if benchmark is not None else None,
        cpus=options.cpus(cpus) if cpus is not None else None,
        **options.plan(pairs=pairs),
    )
    with progress(chosen, quiet=quiet) as show, stop_on_signals():
        access = HostAccess(connect=partial(connect, timeout_s=connect_timeout), emit=show, parallel=parallel)
        checked = check_hosts(chosen, access, requested)
    typer.echo(checks_json(checked) if json else checks_text(checked))
    raise typer.Exit(outcome.exit_code([one.outcome for one in checked]))
