"""Make a first inventory.yaml from what `ansible-inventory --list` has printed; start,
evaluate and decrypt nothing.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from getopt import GetoptError, gnu_getopt
from pathlib import Path
from typing import Any

from fleet.addresses import is_address
from fleet.errors import InventoryError
from fleet.hostnames import ALL, HOST_LIMIT
from fleet.inventory import schema
from fleet.inventory.document import parse
from fleet.inventory.gate import read_bounded
from fleet.inventory.starter import as_comment, as_name, as_yaml, render_inventory

_KEYS = {  # of our entries, by variable; "" for arguments of ssh
    **dict.fromkeys(("ansible_host", "ansible_ssh_host"), "address"),
    **dict.fromkeys(("ansible_port", "ansible_ssh_port"), "port"),
    **dict.fromkeys(("ansible_user", "ansible_ssh_user"), "user"),
    **dict.fromkeys(
        ("ansible_private_key_file", "ansible_ssh_private_key_file"), "identity_files"
    ),
    **dict.fromkeys(
        ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args"), ""
    ),
}
_USED = {*_KEYS, "ansible_connection"}  # values of other variables are never written
_LOCAL = {"local", "ansible.builtin.local"}
_SSH = {
    "ssh",
    "smart",
    "paramiko",
    "paramiko_ssh",
    "ansible.builtin.ssh",
    "ansible.builtin.paramiko_ssh",
}
_SSH_OPTIONS = (  # ssh(1)
    "1246ab:c:e:fgi:kl:m:no:p:qstvxyAB:CD:E:F:GI:J:KL:MNO:P:Q:R:S:TVw:W:XY"
)
_OPTION_KEYWORDS = {"-J": "ProxyJump", "-i": "IdentityFile"}
_MAX_NAMES = 12  # variables and hosts in a sentence
_SIZE_LIMIT_BYTES = 64 << 20
_STDIN = Path("-")
_HOW = "ansible-inventory -i INVENTORY --list | fleet init --from-ansible -"


@dataclass(slots=True)
class _Result:
    """Host entries by our name; our host names by Ansible's. left_out: by description,
    the names affected.
    """

    entries: dict[str, dict[str, object]] = field(default_factory=dict)
    host_names: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def choose_name(self, ansible_name: str) -> str:
        """Reserve and return our name for a host or group; "" if it is not a valid name
        or is taken.
        """
        name = as_name(ansible_name, self.taken)
        self.taken.add(name.casefold())
        return name

    def leave_out(self, part: str, *names: str) -> None:
        """Record what is not carried over. part: its description. names: hosts or
        variables affected.
        """
        self.left_out.setdefault(part, {}).update(dict.fromkeys(names))

    def describe_left_out(self) -> Iterator[str]:
        """Yield a description of each thing left out, with the names affected but no
        variable's value.
        """
        for part, names in self.left_out.items():
            more = (
                f" and {len(names) - _MAX_NAMES} more"
                if len(names) > _MAX_NAMES
                else ""
            )
            yield (
                f"{part} ({', '.join([*names][:_MAX_NAMES])}{more})" if names else part
            )


def from_ansible(path: Path) -> str:
    """Convert the hosts and groups that Ansible has listed to the text of an inventory.
    path: a file, a pipe, or - for stdin. Raises InventoryError.
    """
    listing = _read_listing(path)
    variables = _mapping_or_empty(
        _mapping_or_empty(listing.pop("_meta", None)).get("hostvars")
    )
    # hosts outside all groups come first
    bodies = [
        listing.get("ungrouped"),
        *listing.values(),
    ]
    hosts = list(
        dict.fromkeys(host for body in bodies for host in _list_names(body, "hosts"))
    )
    if not hosts:
        raise InventoryError(f"{path}: names no host. Is it the right inventory?")
    if len(hosts) > HOST_LIMIT:
        raise InventoryError(
            f"{path}: more than {HOST_LIMIT} hosts; split the inventory"
        )
    result = _Result()
    for host in hosts:
        _add_host(host, _mapping_or_empty(variables.get(host)), result)
    if not result.entries:
        why = as_comment("; ".join(result.describe_left_out()))
        raise InventoryError(f"{path}: none of its hosts can be carried over: {why}")
    first, *others = result.entries.values()
    shared = [
        item
        for item in sorted(first.items())
        if all(item in entry.items() for entry in others)
    ]
    defaults = {key: value for key, value in shared if others and key != "address"}
    for entry in result.entries.values():
        for key in defaults:
            del entry[key]
    groups = _convert_groups(listing, result)
    left_out = (f"Not carried over: {text}" for text in result.describe_left_out())
    source = "stdin" if path == _STDIN else path
    origin = f"Hosts that ansible-inventory listed in {source}."
    return render_inventory(origin, left_out, result.entries, defaults, groups)


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_names(body: Any, key: str) -> list[str]:
    names = _mapping_or_empty(body).get(key)
    return (
        [name for name in names if isinstance(name, str)]
        if isinstance(names, list)
        else []
    )


def _add_host(host: str, variables: Mapping[str, Any], result: _Result) -> None:
    connection = str(variables.get("ansible_connection") or "ssh")
    if connection not in _SSH | _LOCAL:
        result.leave_out("hosts reached neither by SSH nor locally", host)
        return
    name = result.choose_name(host)
    if not name:
        result.leave_out(
            "hosts whose names we cannot use, or that differ only by case or"
            " punctuation",
            host,
        )
        return
    entry = (
        {"via": "local"}
        if connection in _LOCAL
        else _make_ssh_entry(name, host, variables, result)
    )
    address = str(entry.get("address", host))
    if not is_address(address):
        result.leave_out(
            "hosts whose address is neither a name nor an IP address", host
        )
        return
    result.host_names[host] = name
    result.entries[name] = {
        key: value for key, value in entry.items() if _is_valid(key, value)
    }
    for key in entry.keys() - result.entries[name]:
        result.leave_out(f"{key}, whose value our inventory does not take", host)
    for variable, value in variables.items():
        if variable in _USED:
            continue
        if schema.SECRET.search(variable) or "pass" in variable:
            result.leave_out(f"the secret {variable}", host)
        elif "__ansible_vault" in _mapping_or_empty(value):
            result.leave_out(f"{variable}, encrypted with ansible-vault", host)
        elif variable.startswith("ansible_"):
            result.leave_out(variable, host)
        else:
            result.leave_out(
                "variables that are not about connecting to a host", variable
            )


def _make_ssh_entry(
    name: str, host: str, variables: Mapping[str, Any], result: _Result
) -> dict[str, object]:
    entry: dict[str, object] = {} if name == host else {"address": host}
    for variable, key in _KEYS.items():
        if value := _read_text(variables, variable, host, result):
            if key:
                entry[key] = value
            else:
                _add_ssh_options(value, variable, entry, host, result)
    return entry


def _read_text(
    variables: Mapping[str, Any], variable: str, host: str, result: _Result
) -> str:
    """Return a variable's text with the host's name filled in, else ""; record what is
    not plain text.
    """
    if (value := variables.get(variable)) is None:
        return ""
    value = _mapping_or_empty(value).get("__ansible_unsafe", value)
    text = re.sub(r"\{\{\s*inventory_hostname\s*\}\}", lambda _: host, str(value))
    if "__ansible_vault" in _mapping_or_empty(value):
        why = "encrypted with ansible-vault"
    elif isinstance(value, bool) or not isinstance(value, str | int):
        why = "not text"
    elif "{{" in text or "{%" in text:
        why = "a template"
    else:
        return text
    result.leave_out(f"{variable}, {why}", host)
    return ""


def _add_ssh_options(
    text: str, variable: str, entry: dict[str, object], host: str, result: _Result
) -> None:
    """Add jump hosts, key files and accept-new from ssh options in `text` to `entry`;
    leave out others.
    """
    try:
        options, rest = gnu_getopt(shlex.split(text), _SSH_OPTIONS)
    except (ValueError, GetoptError):
        result.leave_out(f"{variable}, which cannot be split into options of ssh", host)
        return
    if rest:
        result.leave_out(f"arguments without an option in {variable}", host)
    for letter, argument in options:
        keyword, value = _OPTION_KEYWORDS.get(letter, letter), argument
        if letter == "-o":
            keyword, value = (
                *re.split(r"\s*[\s=]\s*", argument.strip(), maxsplit=1),
                "",
            )[:2]
        key, setting = _convert_ssh_setting(keyword.lower(), value)
        if setting:
            entry[key] = setting
        elif keyword.lower() == "stricthostkeychecking" and value.lower() in (
            "no",
            "off",
        ):
            result.leave_out(
                "StrictHostKeyChecking=no; unknown keys stay refused (see host_key)",
                host,
            )
        elif not keyword.lower().startswith("control"):  # connections are shared anyway
            result.leave_out(f"{keyword[:40]} in {variable}", host)


def _convert_ssh_setting(keyword: str, value: str) -> tuple[str, str]:
    """Return our key and value for a keyword of ssh_config(5); an empty value where we
    have none.
    """
    match keyword:
        case "proxyjump":
            return "jump", "" if value.lower() == "none" else value
        case "proxycommand":
            return "jump", _hop_from_command(value)
        case "identityfile":
            return "identity_files", value
        case "stricthostkeychecking" if value == "accept-new":
            return "host_key", value
    return "", ""


def _hop_from_command(command: str) -> str:
    """Return the jump host of a ProxyCommand that is just `ssh -W %h:%p [user@]host`;
    else "".
    """
    try:
        program, *words = shlex.split(command)
        options, hosts = gnu_getopt(words, _SSH_OPTIONS)
    except (ValueError, GetoptError):
        return ""
    by_letter = dict(options)
    is_plain = by_letter.get("-W") == "%h:%p" and not by_letter.keys() - {
        "-W",
        "-p",
        "-q",
        "-A",
        "-T",
        "-x",
    }
    if Path(program).name != "ssh" or len(hosts) != 1 or not is_plain:
        return ""
    return f"{hosts[0]}:{by_letter['-p']}" if "-p" in by_letter else hosts[0]


@cache
def _is_valid(key: str, value: object) -> bool:
    document = parse(as_yaml({"hosts": {"any": {key: value}}}))
    schema.check(document)
    return not document.problems


def _convert_groups(
    listing: Mapping[str, Any], result: _Result
) -> dict[str, dict[str, list[str]]]:
    group_names = {}
    for group in sorted(listing.keys() - {ALL, "ungrouped"}):
        if name := result.choose_name(group):
            group_names[group] = name
        else:
            result.leave_out("groups whose name is taken or cannot be used", group)
    groups: dict[str, dict[str, list[str]]] = {
        name: {} for name in group_names.values()
    }
    for group, name in group_names.items():
        for key, names in ("hosts", result.host_names), ("children", group_names):
            if members := [
                names[member]
                for member in _list_names(listing[group], key)
                if member in names
            ]:
                groups[name][key] = members
    return groups


def _read_listing(path: Path) -> dict[str, Any]:
    try:
        if path == _STDIN:
            text = sys.stdin.buffer.read(_SIZE_LIMIT_BYTES)
        else:
            text = read_bounded(path, _SIZE_LIMIT_BYTES, is_named=True)
    except OSError as err:
        raise InventoryError(f"{path}: cannot be read: {err}. Try `{_HOW}`.") from err
    try:
        listing = json.loads(text)
    except (ValueError, RecursionError):
        listing = None
    if not isinstance(listing, dict) or "_meta" not in listing:
        raise InventoryError(
            f"{path}: is not what `ansible-inventory --list` prints. Try `{_HOW}`."
        )
    return listing
