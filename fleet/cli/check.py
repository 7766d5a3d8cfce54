"""The commands that visit hosts and measure nothing: check, clean."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli import app as cli
from fleet.cli.plan_options import NOT_GIVEN, add_plan_options
from fleet.model import Host, RequestedOptions

if TYPE_CHECKING:
    from fleet.session.context import HostAccess


@cli.app.command(short_help="Name what would disturb a run on each host; changes nothing.")
@add_plan_options(listed=("benchmarks", "cpus"))
def check(
    select: cli.Select = None,
    limit: cli.Limit = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    requested: RequestedOptions = NOT_GIVEN,
    parallel: cli.Parallel = 32,
    connect_timeout: cli.ConnectTimeout = cli.CONNECT_TIMEOUT_S,
    quiet: cli.Quiet = False,
    _verbose: cli.Verbose = 0,
    json: cli.Json = False,
    script: Annotated[bool, typer.Option(help="Print what a scheduler's step has to start.")] = False,
) -> None:
    """Name what would disturb a run on each host, its remedy, and what `fleet run` would do; change nothing.

    Takes every option of a plan that `fleet run --help-all` lists.

    Example: fleet check localhost -b cas --pairs per-relation:3
    """
    from fleet.console.check import render_checks, render_checks_json
    from fleet.plan.conflicts import require_no_conflicts
    from fleet.session import outcome
    from fleet.session.check import check_hosts

    if script:
        from fleet.facts.gather import step_script

        typer.echo(step_script(), nl=False)
        return
    hosts = cli.select_hosts(cli.load_inventory(inventory), select, limit)
    require_no_conflicts(hosts, requested)
    with _open_access(hosts, parallel, connect_timeout, quiet=quiet) as access:
        checks = check_hosts(hosts, access, requested)
    (typer.echo if json else cli.print_text)(render_checks_json(checks) if json else render_checks(checks))
    raise typer.Exit(outcome.exit_code([result.outcome for result in checks]))


@cli.upkeep_command(short_help="Remove from the hosts what fleet left there.")
def clean(
    select: cli.Select = None,
    limit: cli.Limit = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    parallel: cli.Parallel = 32,
    connect_timeout: cli.ConnectTimeout = cli.CONNECT_TIMEOUT_S,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only list it.")] = False,
    quiet: cli.Quiet = False,
    _verbose: cli.Verbose = 0,
    json: cli.Json = False,
) -> None:
    """Remove from the hosts what fleet left there.

    Example: fleet clean 'rpi*' --dry-run
    """
    from fleet.console.summary import render_cleaned, render_cleaned_json
    from fleet.session import outcome
    from fleet.session.clean import clean_hosts

    hosts = cli.select_hosts(cli.load_inventory(inventory), select, limit)
    with _open_access(hosts, parallel, connect_timeout, quiet=quiet) as access:
        cleaned = clean_hosts(hosts, access, dry_run=dry_run)
    text = render_cleaned_json(cleaned) if json else render_cleaned(cleaned, dry_run=dry_run)
    (typer.echo if json else cli.print_text)(text)
    raise typer.Exit(outcome.exit_code([host.outcome for host in cleaned]))


@contextmanager
def _open_access(
    hosts: Sequence[Host], parallel: int, connect_timeout_s: float, *, quiet: bool
) -> Iterator["HostAccess"]:
    from fleet.console.progress import progress
    from fleet.remote.connect import connect
    from fleet.session.context import HostAccess

    with progress(hosts, quiet=quiet) as show, cli.stop_on_signals():
        yield HostAccess(connect=partial(connect, timeout_s=connect_timeout_s), emit=show, parallel=parallel)
