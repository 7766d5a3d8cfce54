"""The commands about hosts that measure nothing: init, hosts, trust, check, clean."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet import store
from fleet.analysis import base
from fleet.cli import app as cli
from fleet.cli.app import option
from fleet.cli.plan_options import NOT_GIVEN, add_plan_options
from fleet.errors import UsageError
from fleet.model import Host, RequestedOptions

if TYPE_CHECKING:
    from fleet.plan.conditions import LastRuns
    from fleet.session.context import HostAccess


@cli.app.command(short_help="Write a commented inventory.yaml to start from.")
def init(
    inventory: cli.InventoryPath = cli.INVENTORY,
    from_ssh_config: Annotated[
        bool, option("With the hosts of ~/.ssh/config.")
    ] = False,
    from_ansible: Annotated[
        Path | None,
        option("With the hosts that ansible-inventory --list printed (-: stdin)."),
    ] = None,
    from_slurm: Annotated[
        bool, option("Nodes of a Slurm allocation, or of the cluster.")
    ] = False,
    from_kubectl: Annotated[bool, option("Running pods.")] = False,
    from_docker: Annotated[bool, option("Containers of docker.")] = False,
    from_podman: Annotated[bool, option("Containers of podman.")] = False,
    from_labgrid: Annotated[bool, option("Places that you have acquired.")] = False,
) -> None:
    """Write a commented inventory.yaml, if there is none.

    Example: fleet init --from-ssh-config
    """
    from fleet.inventory import ansible, clusters, reader, starter
    from fleet.store.files import write_output

    options = {
        "ansible": from_ansible is not None,
        "ssh_config": from_ssh_config,
        "slurm": from_slurm,
        "kubectl": from_kubectl,
        "docker": from_docker,
        "podman": from_podman,
        "labgrid": from_labgrid,
    }
    sources = [name for name, is_given in options.items() if is_given]
    if len(sources) > 1:
        raise UsageError(
            "The options --from-... exclude one another; take one, then edit the file."
        )
    if sources and sources[0] in clusters.CLUSTERS:
        text = clusters.from_cluster(sources[0])
    elif from_ansible is not None:
        text = ansible.from_ansible(from_ansible)
    elif from_ssh_config:
        text = starter.from_ssh_config(_find_ssh_config())
    else:
        text = starter.read_starter()
    write_output(inventory, [text])
    written = reader.read_inventory(inventory, is_named=True).document
    trusting = f"fleet trust {inventory}, " if written.risky else ""
    typer.echo(f"Wrote {inventory}. Next: {trusting}fleet hosts, then fleet run.")


def _find_ssh_config() -> Path:
    """Return $FLEET_SSH_CONFIG; without it, or where it is "none", the user's own
    file.
    """
    from fleet.remote.ssh.config import find_user_file

    named = os.environ.get("FLEET_SSH_CONFIG", "none")
    return find_user_file() if named == "none" else Path(named)


@cli.app.command(
    "hosts", short_help="Show what the inventory resolves to; connects to nothing."
)
def list_hosts(
    select: cli.Select = None,
    limit: cli.Limit = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.TypedResultsPath = cli.RESULTS,
    resolve: Annotated[
        bool, option("Ask the program of hosts_from for its hosts.")
    ] = False,
    json: cli.Json = False,
) -> None:
    """Show the inventory's hosts, and what each host's last run says; start no program
    without --resolve.

    Example: fleet hosts 'rpi*' rack=b2 '!rpi-old'
    """
    from fleet.console.hosts import render_hosts, render_hosts_json

    # {} skips the program of hosts_from, None asks it
    listed_hosts: dict[str, Any] | None = None if resolve else {}
    loaded = cli.load_inventory(inventory, listed_hosts)
    if loaded.unasked_program:
        note = (
            f"hosts_from: {loaded.unasked_program} lists more hosts; `fleet hosts"
            " --resolve` asks it."
        )
        cli.print_text(f"fleet: {note}", err=True)
    chosen: Sequence[Host] = ()
    is_selected = bool(select or limit)
    # an inventory may have no hosts but those of a program that was not asked
    if is_selected or loaded.hosts:
        chosen = cli.select_hosts(loaded, select, limit, results)
    last_runs = _find_last_runs(results)
    starts = last_runs.read_starts()
    smt = last_runs.describe_smt()
    if json:
        typer.echo(render_hosts_json(chosen, starts, smt))
    else:
        width = cli.get_width()
        cli.print_text(render_hosts(chosen, starts, smt, width))


def _find_last_runs(results: str) -> "LastRuns":
    """Return what a root has of the last run of each host; nothing of a bucket, which
    would have to be connected to.
    """
    from fleet.plan.conditions import NO_LAST_RUNS
    from fleet.store.places import Folder, parse_place

    if not isinstance(parse_place(results), Folder):
        return NO_LAST_RUNS
    return base.find_last_runs(lambda: results)


@cli.upkeep_command(
    short_help="Allow an inventory in this folder to start its programs."
)
def trust(
    inventory: Annotated[Path, typer.Argument(help="The inventory.")] = cli.INVENTORY,
) -> None:
    """Allow an inventory that no option names to start its programs, and more, until
    it or a file that it names changes; list what.

    Example: fleet trust inventory.yaml
    """
    from fleet.inventory.reader import read_inventory
    from fleet.inventory.trust import describe_risk, list_named_files
    from fleet.inventory.trust import trust as trust_document

    document = read_inventory(inventory, is_named=True).document
    document.require_no_problems()
    trust_document(document)
    for risky in document.risky:
        typer.echo(f"{describe_risk(document, risky)}.")
    files = list_named_files(document)
    also = f", and {', '.join(files)}" if files else ""
    typer.echo(f"Trusted {inventory}{also} as it is now.")


@cli.app.command(
    short_help="Name what would disturb a run on each host; changes nothing."
)
@partial(add_plan_options, listed=("benchmarks", "cpus"))
def check(
    select: cli.Select = None,
    limit: cli.Limit = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    requested: RequestedOptions = NOT_GIVEN,
    parallel: cli.Parallel = 32,
    connect_timeout: cli.ConnectTimeout = cli.CONNECT_TIMEOUT_S,
    quiet: cli.Quiet = False,
    verbose: cli.Verbose = 0,
    json: cli.Json = False,
    script: Annotated[bool, option("Print the script for a scheduler's step.")] = False,
) -> None:
    """Name what would disturb a run on each host, its remedy, and what `fleet run`
    would do; change nothing.

    Takes every option of a plan that `fleet run --help-all` lists.

    Example: fleet check localhost -b cas --pairs per-relation:3
    """
    from fleet.console.check import (
        render_checks,
        render_checks_json,
        render_without_information,
    )
    from fleet.plan.conflicts import require_no_conflicts
    from fleet.session import events
    from fleet.session.check import check_hosts

    if script:
        from fleet.facts.gather import render_scheduler_step

        typer.echo(render_scheduler_step(), nl=False)
        return
    hosts = cli.select_hosts(cli.load_inventory(inventory), select, limit)
    require_no_conflicts(hosts, requested)
    with _open_access(hosts, parallel, connect_timeout, quiet=quiet) as access:
        checks = check_hosts(hosts, access, requested)
    if json:
        typer.echo(render_checks_json(checks))
    else:
        # without -v only the findings that disturb, not those that only inform
        render = render_checks if verbose else render_without_information
        cli.print_text(render(checks))
    raise typer.Exit(events.exit_code([result.outcome for result in checks]))


@cli.upkeep_command(short_help="Remove from the hosts what fleet left there.")
def clean(
    select: cli.Select = None,
    limit: cli.Limit = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.TypedResultsPath = cli.RESULTS,
    parallel: cli.Parallel = 32,
    connect_timeout: cli.ConnectTimeout = cli.CONNECT_TIMEOUT_S,
    dry_run: Annotated[
        bool, option("Only list what would be removed.", "--dry-run -n")
    ] = False,
    quiet: cli.Quiet = False,
    _verbose: cli.Verbose = 0,
    json: cli.Json = False,
) -> None:
    """Remove what fleet left on the hosts, except on those that a session on this
    machine is measuring.

    Example: fleet clean 'rpi*' --dry-run
    """
    from fleet.console.summary import render_cleaned, render_cleaned_json
    from fleet.session.clean import clean_hosts
    from fleet.session.events import exit_code

    hosts = cli.select_hosts(cli.load_inventory(inventory), select, limit, results)
    with _open_access(hosts, parallel, connect_timeout, quiet=quiet) as access:
        cleaned = clean_hosts(hosts, access, store.Store(results), dry_run=dry_run)
    if json:
        typer.echo(render_cleaned_json(cleaned))
    else:
        cli.print_text(render_cleaned(cleaned, dry_run=dry_run))
    raise typer.Exit(exit_code([host.outcome for host in cleaned]))


@contextmanager
def _open_access(
    hosts: Sequence[Host], parallel: int, connect_timeout_s: float, *, quiet: bool
) -> Iterator["HostAccess"]:
    """Yield access to hosts, and show the progress on them until the context ends."""
    from fleet.console.progress import progress
    from fleet.remote.connect import connect
    from fleet.session.context import HostAccess

    with progress(hosts, quiet=quiet) as show, cli.stop_on_signals():
        yield HostAccess(
            connect=partial(connect, timeout_s=connect_timeout_s),
            emit=show,
            parallel=parallel,
        )
