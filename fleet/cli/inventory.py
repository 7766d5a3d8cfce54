"""The commands about the inventory: init, hosts."""

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.app import INVENTORY, InventoryPath, Json, Select, app


@app.command()
def init(
    inventory: InventoryPath = INVENTORY,
    from_ssh_config: Annotated[
        bool, typer.Option("--from-ssh-config", help="List the hosts of ~/.ssh/config in it.")
    ] = False,
) -> None:
    """Write a commented inventory.yaml; an existing one is never touched.

    Example: fleet init --from-ssh-config
    """
    from fleet.inventory import starter

    text = (
        starter.from_ssh_config(Path("~/.ssh/config").expanduser()) if from_ssh_config else starter.starter()
    )
    starter.write_new(inventory, text)
    typer.echo(f"Wrote {inventory}. Next: fleet hosts, then fleet run.")


@app.command()
def hosts(select: Select = None, inventory: InventoryPath = INVENTORY, json: Json = False) -> None:
    """Show what the inventory resolves to; connects to nothing.

    Example: fleet hosts 'rpi*' rack=b2 '!rpi-old'
    """
    from fleet import listing
    from fleet.inventory import load

    chosen = load(inventory).select(select or [])
    typer.echo(listing.hosts_json(chosen) if json else listing.hosts_text(chosen))
