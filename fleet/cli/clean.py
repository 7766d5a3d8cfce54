"""The command that removes our files from hosts: clean."""

from functools import partial
from typing import Annotated

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


@app.command(short_help="Remove from the hosts what fleet left there.")
def clean(
    select: Select = None,
    inventory: InventoryPath = INVENTORY,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = CONNECT_TIMEOUT_S,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="List what would be removed; remove nothing.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Remove agents, leftovers of builds and our then empty directory from the chosen hosts.

    Example: fleet clean 'rpi*' --dry-run
    """
    from fleet.console.clean import cleaned_json, cleaned_text
    from fleet.console.progress import progress
    from fleet.remote.connect import connect
    from fleet.session import outcome
    from fleet.session.clean import clean as clean_hosts
    from fleet.session.context import HostAccess

    chosen = load_inventory(inventory).select(select or [])
    with progress(chosen, quiet=quiet) as show, stop_on_signals():
        access = HostAccess(connect=partial(connect, timeout_s=connect_timeout), emit=show, parallel=parallel)
        cleaned = clean_hosts(chosen, access, dry_run=dry_run)
    (typer.echo if json else print_text)(
        cleaned_json(cleaned) if json else cleaned_text(cleaned, dry_run=dry_run)
    )
    raise typer.Exit(outcome.exit_code([one.outcome for one in cleaned]))
