"""Renders hosts as text and as JSON. Prints nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from fleet.model import Host, RequestedOptions
from fleet.text import as_document, table


def render_hosts(
    hosts: Sequence[Host],
    last_runs: Mapping[str, datetime] | None = None,
    smt: Mapping[str, str] | None = None,
    width: int | None = None,
) -> str:
    """Render a row per host. last_runs: by host ID, when its last run started. smt: by
    host ID, a text on its SMT. In both, a host that is missing has "-". width: of the
    terminal; None: unlimited.
    """
    rows = []
    for host in hosts:
        start = (last_runs or {}).get(host.host_id)
        smt_text = (smt or {}).get(host.host_id, "-")
        rows.append(_make_row(host, start, smt_text))
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


def _make_row(host: Host, start: datetime | None, smt: str) -> tuple[str, ...]:
    """Return a host's cells. start: of its last run, None before the first. smt: a text
    such as "off, or not supported by the CPU", of which only the words before the first
    comma are shown.
    """
    measured = f"{start:%Y-%m-%d %H:%M}" if start else "-"
    short_answer, _, _ = smt.partition(",")
    labels = " ".join(f"{key}={value}" for key, value in host.labels.items())
    return (
        host.name,
        format_address(host),
        str(host.via),
        f"{host.os or 'auto'}/{host.arch or 'auto'}",
        str(host.build),
        measured,
        short_answer,
        ",".join(host.groups) or "-",
        labels or "-",
    )


def format_address(host: Host) -> str:
    """Format user, address, port and jump hosts; leave out those that the inventory
    does not set.
    """
    if host.via == "local":
        return "this machine"
    words = host.address
    if ":" in host.address:  # of IPv6
        words = f"[{host.address}]"
    if host.user:
        words = f"{host.user}@{words}"
    if host.port:
        words += f":{host.port}"
    if host.jump:
        words += f" through {', '.join(host.jump)}"
    return words


def render_hosts_json(
    hosts: Sequence[Host], last_runs: Mapping[str, datetime], smt: Mapping[str, str]
) -> str:
    """Render a JSON list: each `host_object` with its last run's start in UTC and its
    SMT, or null.
    """
    rows = []
    for host in hosts:
        row = host_object(host)
        start = last_runs.get(host.host_id)
        row["measured_utc"] = start and f"{start:%Y-%m-%dT%H:%M:%SZ}"
        row["smt"] = smt.get(host.host_id)
        rows.append(row)
    return as_document("hosts", rows)


def host_object(host: Host) -> dict[str, Any]:
    """Return every field of a host for JSON; of `env` only the names, since the values
    may be secret.
    """
    names = [part.name for part in fields(Host)]
    values = {name: getattr(host, name) for name in names}
    values["host_id"] = host.host_id
    values["env"] = sorted(host.env)
    values["labels"] = dict(host.labels)
    values["toolchain"] = asdict(host.toolchain)
    values["plan"] = _list_requested(host.plan)
    if host.build_host is not None:
        values["build_host"] = host.build_host.name
    return values


def _list_requested(options: RequestedOptions) -> dict[str, Any]:
    """Return the options that the inventory sets."""
    every = asdict(options)
    return {name: value for name, value in every.items() if value is not None}
