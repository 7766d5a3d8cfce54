"""Hosts as text for people and as JSON for programs. Prints nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from fleet.model import Host
from fleet.text import as_json, table


def hosts_text(
    hosts: Sequence[Host], measured: Mapping[str, datetime] | None = None, width: int | None = None
) -> str:
    """A row per host. measured: the start of its last run, by host id. width: of the terminal."""
    known = measured or {}
    rows = []
    for host in hosts:
        last = f"{known[host.host_id]:%Y-%m-%d %H:%M}" if host.host_id in known else "-"
        labels = " ".join(f"{key}={value}" for key, value in host.labels.items()) or "-"
        system = f"{host.os or 'auto'}/{host.arch or 'auto'}"
        reached = (host.name, where(host), str(host.via), system, str(host.build))
        rows.append((*reached, last, ",".join(host.groups) or "-", labels))
    titles = ("host", "address", "via", "os/arch", "build", "measured (UTC)", "groups", "labels")
    return table(titles, rows, width=width, drop=("via", "build", "os/arch", "groups"))


def where(host: Host) -> str:
    """A host's address as far as the inventory has it; ssh_config may add to it."""
    if host.via == "local":
        return "this machine"
    address = f"[{host.address}]" if ":" in host.address else host.address
    user = f"{host.user}@" if host.user else ""
    port = f":{host.port}" if host.port else ""
    jump = f" through {', '.join(host.jump)}" if host.jump else ""
    return f"{user}{address}{port}{jump}"


def hosts_json(hosts: Sequence[Host]) -> str:
    """The same for programs, every field; of environment variables only the names."""
    return as_json([host_object(host) for host in hosts])


def host_object(host: Host) -> dict[str, Any]:
    """A host as a JSON object; without the values of its environment, which may be secret."""
    shown = {part.name: getattr(host, part.name) for part in fields(Host)}
    shown.update(
        host_id=host.host_id,
        env=sorted(host.env),
        labels=dict(host.labels),
        toolchain=asdict(host.toolchain),
        build_host=host.build_host.name if host.build_host else None,
        plan={key: value for key, value in asdict(host.plan).items() if value is not None},
    )
    return shown
