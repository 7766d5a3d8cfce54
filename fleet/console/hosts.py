"""Renders hosts as text and as JSON. Prints nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from fleet.model import Host
from fleet.text import as_document, table


def render_hosts(
    hosts: Sequence[Host],
    last_runs: Mapping[str, datetime] | None = None,
    smt: Mapping[str, str] | None = None,
    width: int | None = None,
) -> str:
    """Render a row per host. last_runs: the last run's start by host ID. smt: a text by
    host ID.
    """
    rows = []
    for host in hosts:
        start = (last_runs or {}).get(host.host_id)
        labels = " ".join(f"{key}={value}" for key, value in host.labels.items()) or "-"
        system = f"{host.os or 'auto'}/{host.arch or 'auto'}"
        address = (
            host.name,
            format_address(host),
            str(host.via),
            system,
            str(host.build),
        )
        answer = (smt or {}).get(host.host_id, "-").partition(",")[0]
        begin = f"{start:%Y-%m-%d %H:%M}" if start else "-"
        rows.append((*address, begin, answer, ",".join(host.groups) or "-", labels))
    titles = (
        "host",
        "address",
        "via",
        "os/arch",
        "build",
        "measured (UTC)",
        "SMT",
        "groups",
        "labels",
    )
    return table(titles, rows, width=width, drop=("via", "build", "os/arch", "groups"))


def format_address(host: Host) -> str:
    """Format user, address, port and jump hosts; leave out those that the inventory
    does not set.
    """
    if host.via == "local":
        return "this machine"
    address = f"[{host.address}]" if ":" in host.address else host.address
    user = f"{host.user}@" if host.user else ""
    port = f":{host.port}" if host.port else ""
    jump = f" through {', '.join(host.jump)}" if host.jump else ""
    return f"{user}{address}{port}{jump}"


def render_hosts_json(
    hosts: Sequence[Host], last_runs: Mapping[str, datetime], smt: Mapping[str, str]
) -> str:
    """Render a JSON list: each `host_object` with its last run's start in UTC and its
    SMT, or null.
    """
    starts = {
        host_id: f"{start:%Y-%m-%dT%H:%M:%SZ}" for host_id, start in last_runs.items()
    }
    rows = [
        host_object(host)
        | {
            "measured_utc": starts.get(host.host_id),
            "smt": smt.get(host.host_id),
        }
        for host in hosts
    ]
    return as_document("hosts", rows)


def host_object(host: Host) -> dict[str, Any]:
    """Return every field of a host for JSON; of `env` only the names, since the values
    may be secret.
    """
    values = {part.name: getattr(host, part.name) for part in fields(Host)}
    return values | {
        "host_id": host.host_id,
        "env": sorted(host.env),
        "labels": dict(host.labels),
        "toolchain": asdict(host.toolchain),
        "build_host": host.build_host.name if host.build_host else None,
        "plan": {
            key: value for key, value in asdict(host.plan).items() if value is not None
        },
    }
