"""The command that looks at hosts and changes nothing: check."""

from functools import partial

import typer

from fleet.cli.app import (
    CONNECT_TIMEOUT_S,
    INVENTORY,
    ConnectTimeout,
    InventoryPath,
    Json,
    Parallel,
    Quiet,
    Select,
    app,
    load_inventory,
    print_text,
    stop_on_signals,
)
from fleet.cli.plan_options import NOT_GIVEN, with_plan_options
from fleet.model import RequestedOptions


@app.command(short_help="Name what would disturb a run on each host; changes nothing.")
@with_plan_options
def check(
    select: Select = None,
    inventory: InventoryPath = INVENTORY,
    requested: RequestedOptions = NOT_GIVEN,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = CONNECT_TIMEOUT_S,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Name what would disturb a run on each host, its remedy, and what `fleet run` would do; changes nothing.

    Example: fleet check localhost -b cas --pairs per-relation:3
    """
    from fleet.console.check import checks_json, checks_text
    from fleet.console.progress import progress
    from fleet.plan.conflicts import check_together
    from fleet.plan.estimate import check_named_cpus
    from fleet.remote.connect import connect
    from fleet.session import outcome
    from fleet.session.check import check as check_hosts
    from fleet.session.context import HostAccess

    chosen = load_inventory(inventory).select(select or [])
    check_together(chosen, requested)
    check_named_cpus(chosen, requested)
    with progress(chosen, quiet=quiet) as show, stop_on_signals():
        access = HostAccess(connect=partial(connect, timeout_s=connect_timeout), emit=show, parallel=parallel)
        checked = check_hosts(chosen, access, requested)
    (typer.echo if json else print_text)(checks_json(checked) if json else checks_text(checked))
    raise typer.Exit(outcome.exit_code([one.outcome for one in checked]))
