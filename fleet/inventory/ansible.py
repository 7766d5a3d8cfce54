"""Make a first inventory.yaml from what `ansible-inventory --list` has printed; start,
evaluate and decrypt nothing.
"""

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from fleet.inventory.gate import read_bounded, require_size
from fleet.inventory.starter import as_comment, as_name, as_yaml, render_inventory

# the keys of our entries, by variable
_KEYS = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_private_key_file": "identity_files",
    "ansible_ssh_private_key_file": "identity_files",
}
_SSH_ARGUMENTS = (
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)
# values of other variables are never written
_USED = {*_KEYS, *_SSH_ARGUMENTS, "ansible_connection"}
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
_HOP_OPTIONS = {"-W", "-p", "-q", "-A", "-T", "-x"}  # of a plain jump
_OPTION_KEYWORDS = {"-J": "ProxyJump", "-i": "IdentityFile"}
_HOST_NAME = re.compile(r"\{\{\s*inventory_hostname\s*\}\}")  # in a template
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
            if not names:
                yield part
                continue
            text = ", ".join([*names][:_MAX_NAMES])
            if len(names) > _MAX_NAMES:
                text += f" and {len(names) - _MAX_NAMES} more"
            yield f"{part} ({text})"


def from_ansible(path: Path) -> str:
    """Convert the hosts and groups that Ansible has listed to the text of an inventory.
    path: a file, a pipe, or - for stdin. Raises InventoryError.
    """
    listing = _read_listing(path)
    meta = _mapping_or_empty(listing.pop("_meta", None))
    variables = _mapping_or_empty(meta.get("hostvars"))
    hosts = _list_hosts(listing)
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
    defaults = _move_common_values(list(result.entries.values()))
    groups = _convert_groups(listing, result)
    left_out = [f"Not carried over: {text}" for text in result.describe_left_out()]
    source = "stdin" if path == _STDIN else path
    origin = f"Hosts that ansible-inventory listed in {source}."
    return render_inventory(origin, left_out, result.entries, defaults, groups)


def _list_hosts(listing: Mapping[str, Any]) -> list[str]:
    """Return each host once, those outside all groups first."""
    names = _list_names(listing.get("ungrouped"), "hosts")
    for body in listing.values():
        names += _list_names(body, "hosts")
    return list(dict.fromkeys(names))


def _move_common_values(entries: Sequence[dict[str, object]]) -> dict[str, object]:
    """Remove the values that all of several entries have, except addresses, and return
    them as defaults.
    """
    if len(entries) < 2:
        return {}
    defaults = {}
    for key, value in sorted(entries[0].items()):
        is_common = all((key, value) in entry.items() for entry in entries)
        if is_common and key != "address":
            defaults[key] = value
    for entry in entries:
        for key in defaults:
            del entry[key]
    return defaults


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_names(body: Any, key: str) -> list[str]:
    names = _mapping_or_empty(body).get(key)
    if not isinstance(names, list):
        return []
    return [name for name in names if isinstance(name, str)]


def _add_host(host: str, variables: Mapping[str, Any], result: _Result) -> None:
    """Add the entry of a host of Ansible's to the result, or why it is left out; record
    what of its variables is left out.
    """
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
    if connection in _LOCAL:
        entry: dict[str, object] = {"via": "local"}
    else:
        entry = _make_ssh_entry(name, host, variables, result)
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
        if variable not in _USED:
            _leave_out_variable(variable, value, host, result)


def _leave_out_variable(variable: str, value: Any, host: str, result: _Result) -> None:
    """Record a variable that we do not use, with the name of its host. Variables that
    are not about connecting are recorded as one thing left out, with their own names.
    """
    if schema.SECRET.search(variable) or "pass" in variable:
        result.leave_out(f"the secret {variable}", host)
    elif "__ansible_vault" in _mapping_or_empty(value):
        result.leave_out(f"{variable}, encrypted with ansible-vault", host)
    elif variable.startswith("ansible_"):
        result.leave_out(variable, host)
    else:
        # here the name to list is the variable's, and not the host's
        result.leave_out("variables that are not about connecting to a host", variable)


def _make_ssh_entry(
    name: str, host: str, variables: Mapping[str, Any], result: _Result
) -> dict[str, object]:
    """Return the entry of a host that is reached by SSH, made of its variables; record
    what is left out.
    """
    entry: dict[str, object] = {}
    if name != host:
        entry["address"] = host
    # a variable such as ansible_port, and our key for its value
    for variable, key in _KEYS.items():
        if value := _read_text(variables, variable, host, result):
            entry[key] = value
    for variable in _SSH_ARGUMENTS:
        if value := _read_text(variables, variable, host, result):
            _add_ssh_options(value, variable, entry, host, result)
    return entry


def _read_text(
    variables: Mapping[str, Any], variable: str, host: str, result: _Result
) -> str:
    """Return a variable's text with the host's name filled in, else ""; record what is
    not plain text.

    `ansible-inventory` prints some texts as objects: {"__ansible_unsafe": TEXT} for one
    that Ansible does not fill in, {"__ansible_vault": TEXT} for an encrypted one.
    """
    value = variables.get(variable)
    if value is None:
        return ""
    value = _unwrap_unsafe(value)
    is_encrypted = "__ansible_vault" in _mapping_or_empty(value)
    # an int, such as a port, counts as text; a bool, though an int, does not
    is_text = isinstance(value, str | int) and not isinstance(value, bool)
    text = _HOST_NAME.sub(lambda _: host, str(value))
    if is_encrypted:
        why = "encrypted with ansible-vault"
    elif not is_text:
        why = "not text"
    elif "{{" in text or "{%" in text:
        why = "a template"
    else:
        return text
    result.leave_out(f"{variable}, {why}", host)
    return ""


def _unwrap_unsafe(value: Any) -> Any:
    """Return TEXT of {"__ansible_unsafe": TEXT}; any other value as it is."""
    return _mapping_or_empty(value).get("__ansible_unsafe", value)


def _add_ssh_options(
    text: str, variable: str, entry: dict[str, object], host: str, result: _Result
) -> None:
    """Add the settings of ssh options in a variable's text to `entry`: jump hosts, key
    files and accept-new. Record other options as left out. host: its name in Ansible.
    """
    try:
        options, rest = gnu_getopt(shlex.split(text), _SSH_OPTIONS)
    except (ValueError, GetoptError):
        result.leave_out(f"{variable}, which cannot be split into options of ssh", host)
        return
    if rest:
        result.leave_out(f"arguments without an option in {variable}", host)
    for letter, argument in options:
        # -J and -i are short for a keyword of ssh_config(5)
        keyword = _OPTION_KEYWORDS.get(letter, letter)
        value = argument
        if letter == "-o":  # its argument is such as ProxyJump=HOST
            keyword, value = _split_ssh_setting(argument)
        # setting: "" for an option of ssh that has no counterpart in our inventory
        key, setting = _convert_ssh_setting(keyword.lower(), value)
        if setting:
            entry[key] = setting
        elif _accepts_any_key(keyword.lower(), value.lower()):
            part = "StrictHostKeyChecking=no; unknown keys stay refused (see host_key)"
            result.leave_out(part, host)
        elif not keyword.lower().startswith("control"):  # connections are shared anyway
            result.leave_out(f"{keyword[:40]} in {variable}", host)


def _split_ssh_setting(argument: str) -> tuple[str, str]:
    """Split `Keyword=value` or `Keyword value`; the value is "" if there is none."""
    match re.split(r"\s*[\s=]\s*", argument.strip(), maxsplit=1):
        case [keyword, value]:
            return keyword, value
    return argument.strip(), ""


def _accepts_any_key(keyword: str, value: str) -> bool:
    return keyword == "stricthostkeychecking" and value in ("no", "off")


def _convert_ssh_setting(keyword: str, value: str) -> tuple[str, str]:
    """Return our key and value for a keyword of ssh_config(5), in lower case, and its
    value. The value is "" where our inventory has nothing for it.
    """
    match keyword:
        case "proxyjump" if value.lower() == "none":
            return "jump", ""
        case "proxyjump":
            return "jump", value
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
    has_other_options = bool(by_letter.keys() - _HOP_OPTIONS)
    is_plain = by_letter.get("-W") == "%h:%p" and not has_other_options
    if Path(program).name != "ssh" or len(hosts) != 1 or not is_plain:
        return ""
    if "-p" in by_letter:
        return f"{hosts[0]}:{by_letter['-p']}"
    return hosts[0]


@cache
def _is_valid(key: str, value: object) -> bool:
    document = parse(as_yaml({"hosts": {"any": {key: value}}}))
    schema.check(document)
    return not document.problems


def _convert_groups(
    listing: Mapping[str, Any], result: _Result
) -> dict[str, dict[str, list[str]]]:
    """Return the groups by our name, each with `hosts:` and `children:` by our names;
    record the groups that are left out.
    """
    group_names = {}
    for group in sorted(listing.keys() - {ALL, "ungrouped"}):
        if name := result.choose_name(group):
            group_names[group] = name
        else:
            result.leave_out("groups whose name is taken or cannot be used", group)
    groups = {}
    for group, name in group_names.items():
        body = listing[group]
        hosts = _translate(_list_names(body, "hosts"), result.host_names)
        children = _translate(_list_names(body, "children"), group_names)
        members = {"hosts": hosts, "children": children}
        groups[name] = {key: names for key, names in members.items() if names}
    return groups


def _translate(names: Iterable[str], our_names: Mapping[str, str]) -> list[str]:
    """Return our names of those of Ansible's that have one."""
    return [our_names[name] for name in names if name in our_names]


def _read_listing(path: Path) -> dict[str, Any]:
    """Read what `ansible-inventory --list` printed, from a file or standard input.
    Raises InventoryError.
    """
    try:
        if path == _STDIN:
            # a byte more than the limit shows that there is more
            text = sys.stdin.buffer.read(_SIZE_LIMIT_BYTES + 1)
            require_size(path, text, _SIZE_LIMIT_BYTES)
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
