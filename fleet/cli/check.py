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
        typer.Option("--benchmark", "-b", help="Foretell a run of these: cas, readwrite, clock or all."),
    ] = None,
    cpus: Annotated[
        str | None, typer.Option("--cpus", "-c", help="Foretell a run on these CPUs only, as 0-3,8.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="Foretell a run of half, ordered, a list as 0-1,0-4, or per-relation:K."),
    ] = None,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = 15.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Name what would disturb a run on each host, its remedy, and what `fleet run` would do; changes nothing.

    Example: fleet check localhost -b cas --pairs per-relation:3
    """
    from fleet import check_text, checking, outcomes, wishes
    from fleet.inventory import load
    from fleet.model import PlanWish
    from fleet.progress import progress
    from fleet.remote.connect import connect

    chosen = load(inventory).select(select or [])
    wish = PlanWish(
        benchmarks=wishes.benchmarks(benchmark) if benchmark is not None else None,
        cpus=wishes.cpus(cpus) if cpus is not None else None,
        **wishes.plan(pairs=pairs),
    )
    with progress(chosen, quiet=quiet) as watcher, stop_on_signals():
        checked = checking.check(chosen, partial(connect, timeout_s=connect_timeout), watcher, parallel, wish)
    typer.echo(check_text.checks_json(checked) if json else check_text.checks_text(checked))
    raise typer.Exit(outcomes.exit_code([one.outcome for one in checked]))
