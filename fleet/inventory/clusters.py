"""Hosts that a program lists: nodes, pods, containers, places, or lines of the user's own program."""

import getpass
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.addresses import is_address
from fleet.errors import InventoryError
from fleet.hostnames import ALL, HOST_LIMIT, NAME, expand_range
from fleet.inventory.starter import comment, written

_TIMEOUT_S, _MIB_MOST = 30, 8
_SHOWN = 300  # characters of what a program printed
_USABLE = frozenset(
    ("IDLE", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "RESERVED", "CLOUD", "DYNAMIC_NORM")
)
_OS_TEXT = re.compile(r" OS=.*?(?= RealMemory=)")


@dataclass(frozen=True, slots=True)
class _Listed:
    """What would be a host; unusable: why not."""

    name: str
    address: str
    labels: dict[str, str] = field(default_factory=dict)
    unusable: str = ""


def _read_each(entries: Iterable[Any], read: Callable[[Any], _Listed]) -> Iterator[_Listed]:
    """Read entries one by one; leave out, by its ID, an entry that is not as `read` expects."""
    for entry in entries:
        try:
            listed = read(entry)
            "".join(
                (listed.name, listed.address, *listed.labels.values())
            )  # all are texts, or it is a TypeError
            yield listed
        except KeyError as err:
            yield _Listed("", _entry_id(entry), unusable=f"its entry has no {err.args[0]}")
        except (ValueError, TypeError, AttributeError, IndexError, RecursionError):
            yield _Listed("", _entry_id(entry), unusable="its entry is not understood")


def _entry_id(entry: Any) -> str:
    """Return the ID or name of an odd entry; its beginning where it has neither."""
    if isinstance(entry, dict):
        meta = entry.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else entry.get("Id") or entry.get("ID")
        if isinstance(name, str) and name:
            return name
    return str(entry)[:_SHOWN]


def _node(line: str) -> _Listed:
    """Format: a line of `scontrol -o show nodes`, KEY=VALUE in a fixed order.

    Free text has blanks: OS amid the line, Comment, Extra and Reason at its end. The first of a key counts.
    """
    node: dict[str, str] = {}
    for word in _OS_TEXT.sub("", line, count=1).split():
        key, _, value = word.partition("=")
        node.setdefault(key, "" if value == "(null)" else value)
    name, state, partition = node["NodeName"], node["State"], node.get("Partitions")
    unusable = "" if set(state.split("+")) <= _USABLE else f"it is {state}"
    return _Listed(name, name, {"partition": partition} if partition else {}, unusable)


def _nodes(printed: str) -> Iterator[_Listed]:
    return _read_each(filter(str.strip, printed.splitlines()), _node)


def _pod(pod: Any) -> _Listed:
    """Format: an item of `kubectl get pods -o json`. Each restart renames a pod; its node is the host."""
    spec, meta = pod["spec"], pod["metadata"]
    phase = "Terminating" if meta.get("deletionTimestamp") else pod["status"]["phase"]
    labels = {"namespace": meta["namespace"]}
    if len(spec["containers"]) > 1:
        labels["container"] = spec["containers"][0]["name"]
    unusable = f"it is {phase}" if phase != "Running" else ""
    return _Listed(spec.get("nodeName") or meta["name"], meta["name"], labels, unusable)


def _pods(printed: str) -> Iterator[_Listed]:
    return _read_each(json.loads(printed)["items"], _pod)


def _container(entry: Any) -> _Listed:
    """Format: `ps --format json`: docker's an object a line, podman's an array, with a list of names each."""
    names = entry["Names"]
    if not names:
        raise KeyError("name")
    name = (names.split(",") if isinstance(names, str) else names)[0]
    return _Listed(name, name)


def _containers(printed: str) -> Iterator[_Listed]:
    if set(printed.split()) == {"json"}:
        raise InventoryError("docker printed the word json, not its list: docker 23 or newer is needed.")
    array = printed.lstrip().startswith("[")
    entries = json.loads(printed) if array else map(_json_or_text, printed.splitlines())
    return _read_each(entries, _container)


def _json_or_text(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _place(line: str) -> _Listed:
    """Format: `labgrid-client who`: below a heading a line for each place that somebody has acquired."""
    user, _, place, *_ = line.split()
    return _Listed(place, place, {}, f"{user} has acquired it" if user != getpass.getuser() else "")


def _places(printed: str) -> Iterator[_Listed]:
    return _read_each(printed.splitlines()[1:], _place)


def _lines(printed: str) -> Iterator[_Listed]:
    """A host a line: NAME [ADDRESS] [KEY=LABEL...]; without an address NAME may be a range: n[1-3]."""
    for line in printed.splitlines():
        name, *words = line.split("#")[0].split() or [""]
        labels = dict(word.split("=", 1) for word in words if "=" in word)
        address, *more = [word for word in words if "=" not in word] or [""]
        if more:
            raise ValueError(f"{line[:_SHOWN]!r} is not NAME [ADDRESS] [KEY=LABEL...]")
        for one in expand_range(name) if name else ():
            if not NAME.fullmatch(one):
                raise ValueError(f"no host may be called {one[:_SHOWN]!r}")
            yield _Listed(one, address or one, labels)


_Reader = Callable[[str], Iterator[_Listed]]
_PS = ("ps", "--format", "json")
_SSH = ["labgrid-client", "-p", "{address}", "ssh", "{shell}"]
_CLUSTERS: Mapping[str, tuple[tuple[str, ...], dict[str, Any], _Reader]] = {
    "slurm": (("scontrol", "-o", "show", "nodes"), {"via": "srun"}, _nodes),
    "kubectl": (("kubectl", "get", "pods", "-o", "json"), {"via": "kubectl"}, _pods),
    "docker": (("docker", *_PS), {"via": "docker"}, _containers),
    "podman": (("podman", *_PS), {"via": "podman"}, _containers),
    "labgrid": (("labgrid-client", "who"), {"via": "command", "command": _SSH}, _places),
}
CLUSTERS = tuple(_CLUSTERS)


def from_cluster(kind: str) -> str:
    """What the program of `kind` lists now, as an inventory with comments on the rest. InventoryError."""
    command, defaults, _ = _CLUSTERS[kind]
    hosts, left_out = _listed(kind)
    return written(f"What {' '.join(command[1:4])} of {command[0]} listed.", left_out, hosts, defaults)


def hosts_from(
    source: str | Sequence[str], defaults: Collection[str], known: Mapping[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """List the entries of the hosts that a program lists. Raises InventoryError.

    known: these instead, without asking the program; only their addresses and labels count, since anybody who
    may write to a shared root may have noted them.
    """
    hosts = _listed(source)[0] if known is None else known
    reached = _CLUSTERS[source][1] if isinstance(source, str) and "via" not in defaults else {}
    return {
        name: {**reached, **{key: entry[key] for key in ("address", "labels") if key in entry}}
        for name, entry in hosts.items()
    }


def _listed(source: str | Sequence[str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The entry of each host, and a sentence for each that is left out."""
    command, _, read = _CLUSTERS[source] if isinstance(source, str) else (tuple(source), {}, _lines)
    allocated = os.environ.get("SLURM_JOB_NODELIST")
    command = (*command, *([allocated] if source == "slurm" and allocated else []))
    program = command[0]
    try:
        if len(listed := list(read(_output(command)))) > HOST_LIMIT:
            raise ValueError(f"more than {HOST_LIMIT} hosts")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as err:
        problem = f"{type(err).__name__} {err}"[:_SHOWN]
        raise InventoryError(
            f"{program} printed what is not its list: {problem}. See `{shlex.join(command)}`."
        ) from err
    hosts: dict[str, _Listed] = {}
    left_out = []
    for one in listed:
        unusable = one.unusable
        if unusable:
            pass
        elif not NAME.fullmatch(one.name) or one.name == ALL:
            unusable = "no host may have that name"
        elif isinstance(source, str) and not is_address(one.address):
            unusable = "it is neither a name nor an IP address"
        elif one.name.casefold() in hosts:
            unusable = f"{one.name} is there already, by {hosts[one.name.casefold()].address}"
        if unusable:
            left_out.append(f"Left out: {comment(one.address)}: {comment(unusable)}.")
        else:
            hosts[one.name.casefold()] = one
    if not hosts:
        raise InventoryError(
            f"{program} lists no host that could be measured. {' '.join(left_out[:3])}".rstrip()
        )
    return {one.name: _entry(one) for one in hosts.values()}, left_out


def _entry(listed: _Listed) -> dict[str, Any]:
    address = {"address": listed.address} if listed.address != listed.name else {}
    return {**address, **({"labels": listed.labels} if listed.labels else {})}


def _output(command: tuple[str, ...]) -> str:
    by_hand, limited = shlex.join(command), ["/bin/sh", "-c", f'ulimit -f {_MIB_MOST << 11}; exec "$@"', "-"]
    if shutil.which(command[0]) is None:
        raise InventoryError(f"PATH leads to no {command[0]}, which has to list the hosts.")
    with tempfile.TemporaryFile() as printed:
        try:
            done = subprocess.run(
                [*limited, *command],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.PIPE,
                timeout=_TIMEOUT_S,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            why = err.strerror if isinstance(err, OSError) else f"it took more than {_TIMEOUT_S} s"
            raise InventoryError(f"{command[0]} listed no hosts: {why}. Try `{by_hand}`.") from err
        if printed.tell() >= _MIB_MOST << 20:
            raise InventoryError(f"{command[0]} printed {_MIB_MOST} MiB or more. Try `{by_hand} | head`.")
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][-_SHOWN:].rstrip(".?!")
            said = f": {said}" if said else ""
            raise InventoryError(f"{command[0]} ended with {done.returncode}{said}. Try `{by_hand}`.")
        printed.seek(0)
        return printed.read().decode(errors="replace")
