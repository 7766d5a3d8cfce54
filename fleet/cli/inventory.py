"""The commands about the inventory: init, hosts."""

import os
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli import app as cli


@cli.app.command(short_help="Write a commented inventory.yaml to start from.")
def init(
    inventory: cli.InventoryPath = cli.INVENTORY,
    from_ssh_config: Annotated[bool, typer.Option(help="With the hosts of ~/.ssh/config.")] = False,
    from_ansible: Annotated[
        Path | None, typer.Option(help="Of an Ansible inventory, a file or directory.")
    ] = None,
    from_slurm: Annotated[bool, typer.Option(help="Nodes of a Slurm allocation, or of the cluster.")] = False,
    from_kubectl: Annotated[bool, typer.Option(help="Running pods.")] = False,
    from_docker: Annotated[bool, typer.Option(help="Containers of docker.")] = False,
    from_podman: Annotated[bool, typer.Option(help="Containers of podman.")] = False,
    from_labgrid: Annotated[bool, typer.Option(help="Places that you have acquired.")] = False,
) -> None:
    """Write a commented inventory.yaml, if there is none.

    Example: fleet init --from-ssh-config
    """
    from fleet.errors import UsageError
    from fleet.inventory import ansible, clusters, starter
    from fleet.remote.ssh.config import user_file

    from_clusters = (from_slurm, from_kubectl, from_docker, from_podman, from_labgrid)
    if (from_ansible is not None) + from_ssh_config + sum(from_clusters) > 1:
        raise UsageError("The options --from-... exclude one another; take one, add the rest.")
    if any(from_clusters):
        text = clusters.from_cluster(clusters.CLUSTERS[from_clusters.index(True)])
    elif from_ansible is not None:
        text = ansible.from_ansible(from_ansible)
    elif from_ssh_config:
        named = os.environ.get("FLEET_SSH_CONFIG", "none")
        text = starter.from_ssh_config(user_file() if named == "none" else Path(named))
    else:
        text = starter.read_starter()
    from fleet.store.files import write_output

    write_output(inventory, [text])
    typer.echo(f"Wrote {inventory}. Next: fleet hosts, then fleet run.")


@cli.app.command(short_help="Show what the inventory resolves to; connects to nothing.")
def hosts(
    select: cli.Select = None,
    limit: cli.Limit = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.ResultsPath = cli.RESULTS,
    resolve: Annotated[bool, typer.Option(help="Ask the program of hosts_from for its hosts.")] = False,
    json: cli.Json = False,
) -> None:
    """Show what the inventory resolves to, and what its last run says; start no program.

    Example: fleet hosts 'rpi*' rack=b2 '!rpi-old'
    """
    from fleet.console.hosts import render_hosts, render_hosts_json

    loaded = cli.load_inventory(inventory, None if resolve else {}, starts=resolve)
    if loaded.unasked_program:
        note = f"hosts_from: {loaded.unasked_program} lists more hosts; `fleet hosts --resolve` asks it."
        cli.print_text(f"fleet: {note}", err=True)
    from fleet.analysis.base.selection import read_smt
    from fleet.store.places import Folder, parse_place
    from fleet.store.runs import Listing

    chosen = cli.select_hosts(loaded, select, limit, results) if select or limit or loaded.hosts else ()
    # a bucket would have to be connected to
    listing = Listing(results) if isinstance(parse_place(results), Folder) else None
    last_runs = {run.host_id: run for run in listing.runs} if listing else {}
    starts = {host: run.started_utc for host, run in last_runs.items()}
    smt = read_smt(listing, tuple(last_runs.values())) if listing else {}
    if json:
        typer.echo(render_hosts_json(chosen, starts, smt))
    else:
        cli.print_text(render_hosts(chosen, starts, smt, cli.describe_terminal()["width"]))


@cli.upkeep_command(short_help="Let an inventory that lies here start its programs.")
def trust(inventory: Annotated[Path, typer.Argument(help="The inventory.")] = cli.INVENTORY) -> None:
    """Let an inventory that no option names start its programs, as long as it stays as it is; list them.

    Example: fleet trust inventory.yaml
    """
    from fleet.inventory.select import read_document
    from fleet.inventory.trust import list_programs, trust

    text, document = read_document(inventory)
    trust(inventory, text)
    for line, program in list_programs(document):
        typer.echo(f"{inventory}:{line}: {program}")
    typer.echo(f"Trusted {inventory} as it is now.")
