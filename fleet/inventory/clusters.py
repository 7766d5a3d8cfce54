"""Lists the hosts that a program prints: nodes, pods, containers, labgrid places, or
the user's lines.
"""

import getpass
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fleet.addresses import is_address
from fleet.errors import InventoryError
from fleet.hostnames import ALL, HOST_LIMIT, NAME, expand_range
from fleet.inventory.starter import as_comment, render_inventory
from fleet.model import InputError

_TIMEOUT_S, _LIMIT_MIB = 30, 8
_LIMITED = f'ulimit -f {_LIMIT_MIB << 11} 2>/dev/null; exec "$@"'
_SHOWN = 300  # characters of what a program printed
_USABLE = {
    "IDLE",
    "ALLOCATED",
    "MIXED",
    "COMPLETING",
    "PLANNED",
    "RESERVED",
    "CLOUD",
    "DYNAMIC_NORM",
}
_FREE_TEXT = ("AdminComment", "Comment", "Extra", "Reason")  # behind all other keys
_OS_TEXT = re.compile(r" OS=.*?(?= RealMemory=)")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An entry of a list that may become a host. unusable: why it cannot; "" if
    it can.
    """

    name: str
    address: str
    labels: dict[str, str] = field(default_factory=dict)
    unusable: str = ""

    def make_entry(self) -> dict[str, Any]:
        """Return its inventory entry, without empty values or an address equal to the
        name.
        """
        values = {"address": self.address, "labels": self.labels}
        return {
            key: value for key, value in values.items() if value and value != self.name
        }


def _parse_entry(parse: Callable[[Any], _Candidate], entry: Any) -> _Candidate:
    """Return the candidate that `parse` makes; if it refuses, an unusable one with the
    entry's ID or text.
    """
    try:
        return parse(entry)
    except InputError as err:
        why = str(err)
    match entry:
        case (
            {"metadata": {"name": str(name)}} | {"Id": str(name)} | {"ID": str(name)}
        ) if name:
            return _Candidate("", name, unusable=why)
    return _Candidate("", str(entry)[:_SHOWN], unusable=why)


def _read(entry: Any, key: str, kind: Any = str) -> Any:
    """Return the value of a key. Raises InputError if it is not there, empty, or not of
    this kind.
    """
    value = entry.get(key) if isinstance(entry, dict) else None
    if not value or not isinstance(value, kind):
        raise InputError(f"its entry has no {key}")
    return value


def _parse_slurm(line: str) -> _Candidate:
    """Parse a line of `scontrol -o show nodes`: KEY=VALUE, up to the free text at its
    end.
    """
    fields: dict[str, str] = {}
    for word in _OS_TEXT.sub("", line, count=1).split():
        key, _, value = word.partition("=")
        if key in _FREE_TEXT:
            break
        fields.setdefault(key, "" if value == "(null)" else value)
    name, state = _read(fields, "NodeName"), _read(fields, "State")
    unusable = "" if set(state.split("+")) <= _USABLE else f"it is {state}"
    labels = {"partition": partition} if (partition := fields.get("Partitions")) else {}
    return _Candidate(name, name, labels, unusable)


def _parse_pod(pod: Any) -> _Candidate:
    """Parse an item of `kubectl get pods -o json`. Its node is the host, since each
    restart renames a pod.
    """
    spec, meta = _read(pod, "spec", dict), _read(pod, "metadata", dict)
    name, labels = _read(meta, "name"), {"namespace": _read(meta, "namespace")}
    phase = (
        "Terminating"
        if meta.get("deletionTimestamp")
        else _read(_read(pod, "status", dict), "phase")
    )
    if len(containers := _read(spec, "containers", list)) > 1:
        labels["container"] = _read(containers[0], "name")
    node = _read(spec, "nodeName") if spec.get("nodeName") else name
    return _Candidate(
        node, name, labels, f"it is {phase}" if phase != "Running" else ""
    )


def _parse_container(entry: Any) -> _Candidate:
    """Parse an entry of `ps --format json`, whose names are a list (podman) or joined
    by commas (docker).
    """
    names = _read(entry, "Names", str | list)
    name = _read(
        {"name": (names.split(",") if isinstance(names, str) else names)[0]}, "name"
    )
    return _Candidate(
        name,
        name,
        unusable="it only holds a pod's namespaces" if entry.get("IsInfra") else "",
    )


def _split_lines(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.strip()]


def _split_items(printed: str) -> list[Any]:
    match msgspec.json.decode(printed):
        case {"items": [*items]}:
            return items
    raise InputError("its JSON has no list `items`")


def _split_containers(printed: str) -> Iterable[Any]:
    if set(printed.split()) == {"json"}:
        raise InventoryError(
            "docker printed the word json, not its list: docker 23 or newer is needed."
        )
    is_list = printed.lstrip()[:1] == "["
    return (
        msgspec.json.decode(printed)
        if is_list
        else map(_json_or_text, printed.splitlines())
    )


def _json_or_text(line: str) -> Any:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line)
    return line


def _parse_labgrid(line: str) -> _Candidate:
    """Parse a line of `labgrid-client who`, each a place that somebody has acquired."""
    words = dict(zip(("user", "host", "place"), line.split(), strict=False))
    user, place = _read(words, "user"), _read(words, "place")
    return _Candidate(
        place, place, {}, f"{user} has acquired it" if user != getpass.getuser() else ""
    )


def _parse_lines(printed: str) -> Iterator[_Candidate]:
    """Parse lines of NAME [ADDRESS] [KEY=LABEL...]; NAME may be a range, n[1-3]. Raises
    InputError.
    """
    for line in printed.splitlines():
        pattern, *words = line.split("#")[0].split() or [""]
        labels = dict(word.split("=", 1) for word in words if "=" in word)
        address, *more = [word for word in words if "=" not in word] or [""]
        if more:
            raise InputError(f"{line[:_SHOWN]!r} is not NAME [ADDRESS] [KEY=LABEL...]")
        for name in expand_range(pattern) if pattern else ():
            if not NAME.fullmatch(name):
                raise InputError(f"no host may be called {name[:_SHOWN]!r}")
            yield _Candidate(name, address or name, labels)


_Cluster = tuple[
    tuple[str, ...],
    dict[str, Any],
    Callable[[str], Iterable[Any]],
    Callable[[Any], _Candidate],
]
"""A command, its hosts' defaults, a function that splits its output, and one that
parses each entry.
"""
_PS = ("ps", "--format", "json")
_LABGRID = {
    "via": "command",
    "command": ["labgrid-client", "-p", "{address}", "ssh", "{shell}"],
}
_CLUSTERS: Mapping[str, _Cluster] = {
    "slurm": (
        ("scontrol", "-o", "show", "nodes"),
        {"via": "srun"},
        _split_lines,
        _parse_slurm,
    ),
    "kubectl": (
        ("kubectl", "get", "pods", "-o", "json"),
        {"via": "kubectl"},
        _split_items,
        _parse_pod,
    ),
    "docker": (
        ("docker", *_PS),
        {"via": "docker"},
        _split_containers,
        _parse_container,
    ),
    "podman": (
        ("podman", *_PS),
        {"via": "podman"},
        _split_containers,
        _parse_container,
    ),
    "labgrid": (
        ("labgrid-client", "who"),
        _LABGRID,
        lambda text: _split_lines(text)[1:],
        _parse_labgrid,
    ),
}
CLUSTERS = tuple(_CLUSTERS)


def from_cluster(kind: str) -> str:
    """Render a program's list as an inventory, with comments on what is left out.
    Raises InventoryError.
    """
    command, defaults, *_ = _CLUSTERS[kind]
    hosts, left_out = _ask_hosts_and_left_out(kind)
    origin = f"What {' '.join(command[1:4])} of {command[0]} listed."
    return render_inventory(origin, left_out, hosts, defaults)


def list_or_reuse_hosts(
    source: str | Sequence[str],
    defaults: Collection[str],
    noted_hosts: Mapping[str, Any] | None,
) -> dict[str, dict[str, Any]]:
    """Return host entries from `noted_hosts`; if it is None, from a program. Raises
    InventoryError.
    """
    hosts = _ask_hosts_and_left_out(source)[0] if noted_hosts is None else noted_hosts
    reached = (
        _CLUSTERS[source][1]
        if isinstance(source, str) and "via" not in defaults
        else {}
    )
    # no more: whoever may write to a shared root may have written the note
    taken = {
        "address",
        "labels",
    }
    return {
        name: reached | {k: entry[k] for k in entry if k in taken}
        for name, entry in hosts.items()
    }


def _ask_hosts_and_left_out(
    source: str | Sequence[str],
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Run a program that lists hosts. Return the entry of each, and a sentence for each
    one left out.
    """
    own: _Cluster = tuple(source), {}, _parse_lines, lambda candidate: candidate
    command, _, split, parse = _CLUSTERS[source] if isinstance(source, str) else own
    if source == "slurm" and (allocated := os.environ.get("SLURM_JOB_NODELIST")):
        command = (*command, allocated)
    program, printed = command[0], _run(command)
    try:
        if len(entries := list(split(printed))) > HOST_LIMIT:
            raise InputError(f"more than {HOST_LIMIT} hosts")
    except (InputError, msgspec.DecodeError, RecursionError) as err:
        text = (
            f"{program} printed what is not its list: {str(err)[:_SHOWN]}. See"
            f" `{shlex.join(command)}`."
        )
        raise InventoryError(text) from err
    hosts: dict[str, _Candidate] = {}
    left_out = []
    for candidate in (_parse_entry(parse, entry) for entry in entries):
        name, address = candidate.name, candidate.address
        if candidate.unusable:
            why = candidate.unusable
        elif not NAME.fullmatch(name) or name == ALL:
            why = "no host may have that name"
        elif isinstance(source, str) and not is_address(address):
            why = "it is neither a name nor an IP address"
        elif earlier := hosts.get(name.casefold()):
            why = f"{name} is there already, by {earlier.address}"
        else:
            hosts[name.casefold()] = candidate
            continue
        left_out.append(f"Left out: {as_comment(address)}: {as_comment(why)}.")
    if not hosts:
        why = " ".join(left_out[:3])
        raise InventoryError(
            f"{program} lists no host that could be measured. {why}".rstrip()
        )
    return {host.name: host.make_entry() for host in hosts.values()}, left_out


def _run(command: tuple[str, ...]) -> str:
    """Return what a program prints. Raises InventoryError if it fails, prints too much
    or takes too long.
    """
    by_hand, environment = shlex.join(command), {**os.environ, "LC_ALL": "C"}
    if shutil.which(command[0]) is None:
        raise InventoryError(
            f"{command[0]}, which lists the hosts, is not in PATH. Install it."
        )
    with tempfile.TemporaryFile() as printed:
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", _LIMITED, "-", *command],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.PIPE,
                timeout=_TIMEOUT_S,
                check=False,
                env=environment,
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            why = (
                err.strerror
                if isinstance(err, OSError)
                else f"it took more than {_TIMEOUT_S} s"
            )
            raise InventoryError(
                f"{command[0]} listed no hosts: {why}. Try `{by_hand}`."
            ) from err
        if printed.tell() >= _LIMIT_MIB << 20:
            raise InventoryError(
                f"{command[0]} printed {_LIMIT_MIB} MiB or more. Try `{by_hand} |"
                " head`."
            )
        if done.returncode:
            last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            why = f": {last_line[-_SHOWN:].rstrip('.?!')}" if last_line else ""
            raise InventoryError(
                f"{command[0]} ended with {done.returncode}{why}. Try `{by_hand}`."
            )
        printed.seek(0)
        return printed.read().decode(errors="replace")
