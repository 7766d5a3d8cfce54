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
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from fleet.addresses import is_address
from fleet.errors import InventoryError
from fleet.hostnames import ALL, HOST_LIMIT, NAME, expand_range
from fleet.inventory.starter import as_comment, render_inventory
from fleet.model import InputError

_TIMEOUT_S = 30
_LIMIT_MIB = 8
# The script of a shell that runs a program and ends it when it has printed too much:
# `ulimit -f` counts 512 bytes.
_RUN_LIMITED = f'ulimit -f {_LIMIT_MIB << 11} 2>/dev/null; exec "$@"'
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
    """Return the candidate that `parse` makes of an entry. If it refuses, return one
    that cannot be used, with the entry's own name where it has one, else its text.
    """
    try:
        return parse(entry)
    except InputError as err:
        why = str(err)
    # where kubectl, podman and docker, in this order, have the name or ID
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
    """Parse a line of `scontrol -o show nodes`, such as "NodeName=n1 State=IDLE+CLOUD
    Partitions=short". The line ends with free text, which is not parsed.
    """
    fields: dict[str, str] = {}
    # the value of OS= has blanks, so it is removed before the line is split
    for word in _OS_TEXT.sub("", line, count=1).split():
        key, _, value = word.partition("=")
        if key in _FREE_TEXT:
            break
        if value == "(null)":
            value = ""
        fields.setdefault(key, value)
    name = _read(fields, "NodeName")
    state = _read(fields, "State")
    labels = {}
    partition = fields.get("Partitions")
    if partition:
        labels["partition"] = partition
    # a state and its flags are joined by "+"; all of them must be usable ones
    is_usable = set(state.split("+")) <= _USABLE
    unusable = "" if is_usable else f"it is {state}"
    return _Candidate(name, name, labels, unusable)


def _parse_pod(pod: Any) -> _Candidate:
    """Parse an item of `kubectl get pods -o json`. The pod is the address. The host is
    its node, since each restart gives the pod another name.
    """
    spec = _read(pod, "spec", dict)
    metadata = _read(pod, "metadata", dict)
    name = _read(metadata, "name")
    labels = {"namespace": _read(metadata, "namespace")}
    phase = _read_phase(pod, metadata)
    containers = _read(spec, "containers", list)
    # kubectl has to be told which one to enter
    if len(containers) > 1:
        labels["container"] = _read(containers[0], "name")
    node = name
    if spec.get("nodeName"):
        node = _read(spec, "nodeName")
    unusable = ""
    if phase != "Running":
        unusable = f"it is {phase}"
    return _Candidate(node, name, labels, unusable)


def _read_phase(pod: Any, metadata: Mapping[str, Any]) -> str:
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    phase: str = _read(_read(pod, "status", dict), "phase")
    return phase


def _parse_container(entry: Any) -> _Candidate:
    """Parse an entry of podman's or docker's `ps --format json`. Its names are a list
    if podman wrote it, and one text, joined by commas, if docker did. The first one is
    used.
    """
    names = _read(entry, "Names", str | list)
    if isinstance(names, str):
        names = names.split(",")
    first_name = names[0]
    # `_read` refuses a name that is empty or no text
    name = _read({"name": first_name}, "name")
    unusable = "it only holds a pod's namespaces" if entry.get("IsInfra") else ""
    return _Candidate(name, name, unusable=unusable)


def _split_lines(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.strip()]


def _split_items(printed: str) -> list[Any]:
    match msgspec.json.decode(printed):
        case {"items": [*items]}:
            return items
    raise InputError("its JSON has no list `items`")


def _split_containers(printed: str) -> Iterable[Any]:
    """Return the entries of podman's JSON list, or of docker's lines of JSON. A line
    that is no JSON stays text, which the parser refuses.
    """
    if set(printed.split()) == {"json"}:
        raise InventoryError(
            "docker printed the word json, not its list: docker 23 or newer is needed."
        )
    if printed.lstrip().startswith("["):
        containers: list[Any] = msgspec.json.decode(printed)
        return containers
    return [_json_or_text(line) for line in printed.splitlines()]


def _json_or_text(line: str) -> Any:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line)
    return line


def _parse_labgrid(line: str) -> _Candidate:
    """Parse a line of `labgrid-client who`, each a place that somebody has acquired."""
    words = dict(zip(("user", "host", "place"), line.split(), strict=False))
    user = _read(words, "user")
    place = _read(words, "place")
    unusable = "" if user == getpass.getuser() else f"{user} has acquired it"
    return _Candidate(place, place, {}, unusable)


def _parse_lines(printed: str) -> Iterator[_Candidate]:
    """Parse lines of NAME [ADDRESS] [KEY=LABEL...]; NAME may be a range, n[1-3]. Raises
    InputError.
    """
    for line in printed.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        pattern, *others = words
        labels = dict(word.split("=", 1) for word in others if "=" in word)
        addresses = [word for word in others if "=" not in word]
        if len(addresses) > 1:
            raise InputError(f"{line[:_SHOWN]!r} is not NAME [ADDRESS] [KEY=LABEL...]")
        for name in expand_range(pattern):
            if not NAME.fullmatch(name):
                raise InputError(f"no host may be called {name[:_SHOWN]!r}")
            address = addresses[0] if addresses else name
            yield _Candidate(name, address, labels)


@dataclass(frozen=True, slots=True)
class _Lister:
    """A program that lists hosts, and how to read its list.

    defaults: of the inventory of its hosts. split: returns the entries in its output.
    """

    command: tuple[str, ...]
    defaults: Mapping[str, Any]
    split: Callable[[str], Iterable[Any]]
    parse: Callable[[Any], _Candidate]


_PS = ("ps", "--format", "json")
_LABGRID_COMMAND = ["labgrid-client", "-p", "{address}", "ssh", "{shell}"]
_CLUSTERS: Mapping[str, _Lister] = {
    "slurm": _Lister(
        command=("scontrol", "-o", "show", "nodes"),
        defaults={"via": "srun"},
        split=_split_lines,
        parse=_parse_slurm,
    ),
    "kubectl": _Lister(
        command=("kubectl", "get", "pods", "-o", "json"),
        defaults={"via": "kubectl"},
        split=_split_items,
        parse=_parse_pod,
    ),
    "docker": _Lister(
        command=("docker", *_PS),
        defaults={"via": "docker"},
        split=_split_containers,
        parse=_parse_container,
    ),
    "podman": _Lister(
        command=("podman", *_PS),
        defaults={"via": "podman"},
        split=_split_containers,
        parse=_parse_container,
    ),
    "labgrid": _Lister(
        command=("labgrid-client", "who"),
        defaults={"via": "command", "command": _LABGRID_COMMAND},
        split=lambda text: _split_lines(text)[1:],
        parse=_parse_labgrid,
    ),
}
CLUSTERS = tuple(_CLUSTERS)


def _take_candidate(candidate: _Candidate) -> _Candidate:
    """Return a candidate as it is: `_parse_lines` has parsed it already."""
    return candidate


def _find_lister(source: str | Sequence[str]) -> _Lister:
    """Return how to ask `source`, a name in CLUSTERS or the words of the user's
    command, and how to parse what it prints. In a job of Slurm, only the job's nodes
    are asked for.
    """
    if not isinstance(source, str):
        return _Lister(
            command=tuple(source),
            defaults={},
            split=_parse_lines,
            parse=_take_candidate,
        )
    lister = _CLUSTERS[source]
    allocated = os.environ.get("SLURM_JOB_NODELIST")
    if source == "slurm" and allocated:
        return replace(lister, command=(*lister.command, allocated))
    return lister


def from_cluster(kind: str) -> str:
    """Render a program's list as an inventory, with comments on what is left out.
    Raises InventoryError.
    """
    lister = _CLUSTERS[kind]
    hosts, left_out = _ask_hosts_and_left_out(kind)
    program, *arguments = lister.command
    first_arguments = " ".join(arguments[:3])
    origin = f"Hosts that `{program} {first_arguments}` listed."
    return render_inventory(origin, left_out, hosts, lister.defaults)


def list_or_reuse_hosts(
    source: str | Sequence[str],
    defaults: Collection[str],
    noted_hosts: Mapping[str, Any] | None,
) -> dict[str, dict[str, Any]]:
    """Return host entries by name. They are those of `noted_hosts`, which a session
    noted before; if it is None, a program lists them.

    defaults: the keys of the inventory's `defaults:`. Raises InventoryError.
    """
    hosts = noted_hosts
    if hosts is None:
        hosts, _ = _ask_hosts_and_left_out(source)
    # how a cluster's hosts are reached, unless the inventory's defaults say that
    connection: Mapping[str, Any] = {}
    if isinstance(source, str) and "via" not in defaults:
        connection = _CLUSTERS[source].defaults
    entries = {}
    for name, entry in hosts.items():
        # only these keys, which run nothing: anybody who may write to a shared root may
        # have written the note
        harmless = {key: entry[key] for key in entry if key in ("address", "labels")}
        entries[name] = {**connection, **harmless}
    return entries


def _ask_hosts_and_left_out(
    source: str | Sequence[str],
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Run a program that lists hosts. Return the inventory entries by host name, and a
    sentence for each host that is left out. Raises InventoryError if there is no entry.
    """
    lister = _find_lister(source)
    program = lister.command[0]
    entries = _split_entries(lister, _run(lister.command))
    hosts: dict[str, _Candidate] = {}  # by name in lower case, which is to be unique
    left_out = []
    for entry in entries:
        candidate = _parse_entry(lister.parse, entry)
        folded = candidate.name.casefold()
        earlier = hosts.get(folded)
        why = candidate.unusable or _find_name_or_address_problem(
            candidate, is_from_cluster=isinstance(source, str)
        )
        if not why and earlier:
            why = f"{candidate.name} is there already, by {earlier.address}"
        if why:
            address = as_comment(candidate.address)
            left_out.append(f"Left out: {address}: {as_comment(why)}.")
        else:
            hosts[folded] = candidate
    if not hosts:
        reasons = " ".join(left_out[:3])
        raise InventoryError(
            f"{program} lists no host that could be measured. {reasons}".rstrip()
        )
    return {host.name: host.make_entry() for host in hosts.values()}, left_out


def _find_name_or_address_problem(
    candidate: _Candidate, *, is_from_cluster: bool
) -> str:
    """Return why no host may have this name or address; "" if one may. The user's own
    addresses may be any text.
    """
    if not NAME.fullmatch(candidate.name) or candidate.name == ALL:
        return "no host may have that name"
    if is_from_cluster and not is_address(candidate.address):
        return "it is neither a name nor an IP address"
    return ""


def _split_entries(lister: _Lister, printed: str) -> list[Any]:
    """Return the entries in what the program printed. Raises InventoryError."""
    try:
        entries = list(lister.split(printed))
        if len(entries) > HOST_LIMIT:
            raise InputError(f"more than {HOST_LIMIT} hosts")
    except (InputError, msgspec.DecodeError, RecursionError) as err:
        raise InventoryError(
            f"{lister.command[0]} printed what is not its list: {str(err)[:_SHOWN]}."
            f" See `{shlex.join(lister.command)}`."
        ) from err
    return entries


def _run(command: tuple[str, ...]) -> str:
    """Run a program that lists hosts, in a shell that limits what it may print; return
    what it prints. Raises InventoryError if it fails, prints too much or takes too
    long.
    """
    by_hand = shlex.join(command)
    if shutil.which(command[0]) is None:
        raise InventoryError(
            f"{command[0]}, which lists the hosts, is not in PATH. Install it."
        )
    with tempfile.TemporaryFile() as printed:
        try:
            # the shell sets a limit by `ulimit`, then the program takes its place
            done = subprocess.run(
                ["/bin/sh", "-c", _RUN_LIMITED, "-", *command],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.PIPE,
                timeout=_TIMEOUT_S,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            why = f"it took more than {_TIMEOUT_S} s"
            if isinstance(err, OSError):
                why = str(err.strerror)
            raise InventoryError(
                f"{command[0]} listed no hosts: {why}. Try `{by_hand}`."
            ) from err
        # The program had this file as its stdout and shared the position in it. So the
        # position is now where its text ends.
        printed_bytes = printed.tell()
        if printed_bytes >= _LIMIT_MIB << 20:
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
