"""The inventory as commands read it: which file, its default options, its hosts and
groups.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fleet.cli.parser import is_given
from fleet.errors import UsageError
from fleet.model import Host, RequestedOptions

if TYPE_CHECKING:
    from fleet.inventory.reader import InventoryFile
    from fleet.inventory.select import Inventory

INVENTORY = Path("inventory.yaml")
RESULTS = "results"


def find_inventory() -> Path:
    """Return the inventory's path when no option names it: $FLEET_INVENTORY, else
    inventory.yaml.
    """
    return Path(os.environ.get("FLEET_INVENTORY") or INVENTORY)


def read_inventory_if_there(path: Path) -> "InventoryFile | None":
    """Read the inventory once for the running command; None if there is no such file.
    Raises InventoryError.
    """
    if not os.path.lexists(path):
        return None
    is_named = is_given("inventory") or bool(os.environ.get("FLEET_INVENTORY"))
    return _read_inventory_once(path, is_named)


@cache
def _read_inventory_once(path: Path, is_named: bool) -> "InventoryFile":
    # it takes 30 ms to load, which commands without an inventory need not pay
    from fleet.inventory import reader

    return reader.read_inventory(path, is_named=is_named)


def load_settings(path: Path) -> dict[str, Any]:
    """Return option defaults by parameter name from an inventory's table `fleet:`.
    Raises InventoryError.
    """
    file = read_inventory_if_there(path)
    return file.read_settings() if file else {}


def apply_settings(context: typer.Context, path: Path) -> Path:
    """Set the defaults of the command's options from the inventory's table `fleet:`;
    return its path.
    """
    context.default_map = load_settings(path)
    return path


def load_inventory(
    path: Path, listed_hosts: Mapping[str, Any] | None = None
) -> "Inventory":
    """Load the inventory, or just this machine if the default file is missing. Raises
    InventoryError.

    listed_hosts: the hosts to take for those that the program of `hosts_from` lists;
    None: ask the program. Pass {} to skip them where a command only names hosts: then
    the file need not be trusted.
    """
    from fleet.inventory import reader
    from fleet.inventory.select import load_hosts, make_local_inventory

    file = read_inventory_if_there(path)
    if file is None and path != INVENTORY:
        # A file that is named must exist. Read it to raise the error that says so.
        file = reader.read_inventory(path, is_named=True)
    if file is not None:
        return load_hosts(file, listed_hosts)
    typer.echo(
        f"fleet: no {INVENTORY} here: this machine alone. `fleet init` writes one.",
        err=True,
    )
    return make_local_inventory(path)


def select_hosts(
    loaded: "Inventory",
    select: Sequence[str] | None,
    limit: Sequence[str] | None = None,
    results: str | None = None,
) -> tuple[Host, ...]:
    """Return the hosts in both selections. results: a root, read only to select by age
    or fact; None: the one that other commands read. Raises UsageError.
    """
    from fleet.analysis import base

    last_runs = base.find_last_runs(lambda: results or _find_results(loaded.path))
    within_limit = loaded.select(limit or (), last_runs)
    selected = loaded.select(select or (), last_runs)
    hosts = tuple(host for host in selected if host in within_limit)
    # Each selection has hosts, else `select` raises; without --limit, within_limit has
    # all. So if no host is in both, --limit excludes those selected.
    if not hosts:
        raise UsageError(
            f"--limit {','.join(limit or ())}: leaves none of these hosts. See `fleet"
            " hosts`."
        )
    return hosts


def _find_results(inventory: Path) -> str:
    """Return the results root that no option names: $FLEET_RESULTS, else that of the
    inventory, else results/.
    """
    named = os.environ.get("FLEET_RESULTS")
    if named:
        return named
    root: str = load_settings(inventory).get("results", RESULTS)
    return root


def require_usable(hosts: Sequence[Host], requested: RequestedOptions) -> None:
    """Raise UsageError, before any connection, for options that conflict or entries
    that cannot work.
    """
    from fleet.agent.deploy import check_entries
    from fleet.plan.conflicts import require_no_conflicts

    require_no_conflicts(hosts, requested)
    check_entries(hosts)


def expand_group_names(
    context: typer.Context, texts: list[str] | None
) -> list[str] | None:
    """Replace inventory groups by their hosts in words that select runs: with a group
    `lab` of the hosts a and b, "!lab,c" becomes "!a,b,c". Without groups, or while a
    shell completes a word, return `texts`.
    """
    if context.resilient_parsing or not texts:
        return texts
    file = read_inventory_if_there(find_inventory())
    if file is None:
        return texts
    words = set[str]()
    for text in texts:
        words.update(_split_selection(text))
    if words.isdisjoint(file.values.get("groups", ())):
        return texts
    hosts_by_group = _list_hosts_by_group(file)
    expanded = []
    for text in texts:
        items = [hosts_by_group.get(word, word) for word in _split_selection(text)]
        mark = "!" if text.startswith("!") else ""
        expanded.append(mark + ",".join(items))
    return expanded


def _split_selection(text: str) -> list[str]:
    """Split "!web,db" -> ["web", "db"]."""
    return text.removeprefix("!").split(",")


def _list_hosts_by_group(file: "InventoryFile") -> dict[str, str]:
    """Return the hosts of each group that has some, joined by commas."""
    from fleet.inventory.select import load_hosts

    # only a program of its own could say which hosts a group has
    listed: Mapping[str, Any] | None = None if "hosts_from" in file.values else {}
    groups = load_hosts(file, listed).groups
    return {name: ",".join(hosts) for name, hosts in groups.items() if hosts}
