"""A first inventory.yaml from an Ansible inventory; what is not carried over is said. Floor 2.

`ansible_files` reads; here variables are resolved as Ansible does and put into our words. No value of a
variable we do not use reaches the result, so no secret does.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.errors import InventoryError
from fleet.inventory import schema
from fleet.inventory.ansible_files import EVERYBODY, Declared, declared
from fleet.inventory.document import read
from fleet.inventory.select import ALL, NAME
from fleet.inventory.starter import HEAD, comment

_KEYS = {
    "address": ("ansible_host", "ansible_ssh_host"),
    "port": ("ansible_port", "ansible_ssh_port"),
    "user": ("ansible_user", "ansible_ssh_user"),
    "identity_files": ("ansible_private_key_file", "ansible_ssh_private_key_file"),
}
_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_USED = {name for names in _KEYS.values() for name in names} | {*_ARGUMENTS, "ansible_connection"}
_OVER_SSH = {
    "ssh",
    "smart",
    "paramiko",
    "paramiko_ssh",
    "ansible.builtin.ssh",
    "ansible.builtin.paramiko_ssh",
}
_LOCAL = {"local", "ansible.builtin.local"}
_SILENT = {"ansible_group_priority"}
_NAMED = 12  # variables and hosts in one sentence


@dataclass(slots=True)
class _Made:
    """Our entries by our names, our names by Ansible's, and what was not carried over: sentence -> hosts.

    unused: variables that are not about reaching a host.
    """

    entries: dict[str, dict[str, object]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)
    unused: dict[str, None] = field(default_factory=dict)

    def leave_out(self, what: str, *hosts: str) -> None:
        """Note that something was not carried over, and for whom."""
        self.left_out.setdefault(what, {}).update(dict.fromkeys(hosts))


def from_ansible(path: Path) -> str:
    """An inventory with the hosts and groups of the Ansible inventory at `path`, a file or a directory.

    Raises InventoryError if it cannot be read or has no host.
    """
    found = declared(path)
    if not found.hosts:
        raise InventoryError(f"{path}: names no host. Is it an Ansible inventory?")
    made = _Made()
    for sentence in found.said:
        made.leave_out(sentence)
    order = _merge_order(found, path)
    memberships = {group: _members(found, group) for group in order}
    for host in found.hosts:
        variables = _resolved(found, host, [group for group in order if host in memberships[group]])
        _take_host(host, variables, made)
    if not made.entries:
        why = "; ".join(_sentences(made))
        raise InventoryError(f"{path}: none of its hosts can be taken over: {comment(why)}")
    groups = _groups(found, memberships, made)
    return _written(path, made, groups)


def _merge_order(found: Declared, path: Path) -> list[str]:
    """Groups as Ansible merges their variables: the deeper later, then by ansible_group_priority and name."""
    depth = dict.fromkeys(found.groups, 1)
    depth["all"] = 0
    for _ in found.groups:
        deeper = {
            child: depth[group] + 1
            for group, body in found.groups.items()
            for child in body.children
            if depth[child] <= depth[group]
        }
        if not deeper:
            break
        depth.update(deeper)
    else:
        raise InventoryError(f"{path}: groups contain one another; Ansible refuses that too")

    def rank(name: str) -> tuple[int, int, str]:
        body = found.groups[name]
        priority = body.beside.get("ansible_group_priority", body.inline.get("ansible_group_priority", "1"))
        return (depth[name], int(priority) if priority.isdecimal() else 1, name)

    return sorted(found.groups, key=rank)


def _members(found: Declared, group: str) -> set[str]:
    if group == "all":
        return set(found.hosts)
    seen, waiting, members = {group}, [group], set[str]()
    while waiting:
        body = found.groups[waiting.pop()]
        members |= set(body.hosts)
        waiting += [child for child in body.children if child not in seen]
        seen |= set(body.children)
    return members


def _resolved(found: Declared, host: str, groups: Iterable[str]) -> dict[str, str]:
    """A host's variables; of group_vars all come after what groups say in the inventory itself."""
    bodies = [found.groups[group] for group in groups]
    layers = [*(body.inline for body in bodies), *(body.beside for body in bodies), found.hosts[host]]
    return {key: value for layer in layers for key, value in layer.items()}


def _take_host(host: str, variables: Mapping[str, str], made: _Made) -> None:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", host).lstrip("._-")[:100]
    taken = {known.casefold() for known in made.entries}
    if not NAME.fullmatch(name) or name == ALL or name.casefold() in taken:
        made.leave_out("hosts whose names we cannot use, or that differ only by case or signs", host)
        return
    connection = variables.get("ansible_connection", "ssh")
    if connection not in _OVER_SSH | _LOCAL:
        made.leave_out("hosts reached neither by ssh nor locally", host)
        return
    local: dict[str, object] = {"via": "local"}
    entry = local if connection in _LOCAL else _reached(name, host, variables, made)
    made.names[host] = name
    made.entries[name] = _accepted(name, entry, host, made)
    for variable in sorted(variables.keys() - _USED - _SILENT):
        if schema.SECRET.search(variable) or "pass" in variable:
            made.leave_out(f"the secret {variable}", host)
        elif variable.startswith("ansible_"):
            made.leave_out(variable, host)
        else:
            made.unused[variable] = None


def _reached(name: str, host: str, variables: Mapping[str, str], made: _Made) -> dict[str, object]:
    """How a host is reached over SSH, in our words."""
    entry: dict[str, object] = {} if name == host else {"address": host}
    for key, names in _KEYS.items():
        for variable in names:
            if value := _plain(variables, variable, host, made):
                entry[key] = value
    for variable in _ARGUMENTS:
        if value := _plain(variables, variable, host, made):
            _take_arguments(value, variable, entry, host, made)
    return entry


def _plain(variables: Mapping[str, str], variable: str, host: str, made: _Made) -> str:
    """A variable's value if it is plain text; the one template we know is the host's own name."""
    value = re.sub(r"\{\{\s*inventory_hostname\s*\}\}", lambda _: host, variables.get(variable, ""))
    if "{{" in value or "{%" in value:
        made.leave_out(f"{variable}, a template", host)
        return ""
    return value


def _take_arguments(text: str, variable: str, entry: dict[str, object], host: str, made: _Made) -> None:
    """Options of ssh: jump hosts, key files and accept-new have a place of ours, others have not."""
    try:
        words = shlex.split(text)
    except ValueError:
        made.leave_out(f"{variable}, whose quotes do not match", host)
        return
    for option, value in _options(words):
        match option.lower():
            case "proxyjump" if value.lower() != "none":
                entry["jump"] = value
            case "proxycommand" if hop := _hop(value):
                entry["jump"] = hop
            case "identityfile":
                entry["identity_files"] = value
            case "stricthostkeychecking" if value.lower() == "accept-new":
                entry["host_key"] = "accept-new"
            case "stricthostkeychecking" if value.lower() in ("no", "off"):
                made.leave_out("StrictHostKeyChecking=no; unknown keys stay refused (see host_key)", host)
            case "controlmaster" | "controlpersist" | "controlpath":
                pass  # of no use to us, and no loss
            case _:
                made.leave_out(f"{option[:40]} in {variable}", host)


def _options(words: list[str]) -> Iterable[tuple[str, str]]:
    """`-o Key=value`, `-oKey=value`, `-J hop`, `-i file`; any other word by itself."""
    letters = {"-J": "ProxyJump", "-i": "IdentityFile"}
    rest = iter(words)
    for word in rest:
        value = word[2:] or (next(rest, "") if word[:2] in ("-o", *letters) else "")
        if word.startswith("-o"):
            key, _, value = (
                value.replace(" ", "=", 1).partition("=") if "=" not in value else value.partition("=")
            )
            yield key.strip(), value.strip()
        elif word[:2] in letters:
            yield letters[word[:2]], value
        else:
            yield word[:2], ""


def _hop(command: str) -> str:
    """The bastion of a ProxyCommand that is `ssh … -W %h:%p … [user@]host …` and nothing more; else ""."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    if not words or Path(words[0]).name != "ssh":
        return ""
    port, hosts, rest = "", [], iter(words[1:])
    for word in rest:
        if word in ("-W", "-p", "-l"):
            value = next(rest, "")
            port = value if word == "-p" else port
            if (word == "-W" and value != "%h:%p") or word == "-l":
                return ""
        elif word.startswith("-"):
            if word not in ("-q", "-A", "-T", "-x"):
                return ""
        else:
            hosts.append(word)
    return f"{hosts[0]}:{port}" if len(hosts) == 1 and port else hosts[0] if len(hosts) == 1 else ""


def _accepted(name: str, entry: dict[str, object], host: str, made: _Made) -> dict[str, object]:
    """The entry without what our inventory would refuse, each said by its key."""
    kept: dict[str, object] = {}
    for key, value in entry.items():
        document = read(_yaml({"hosts": {name: {key: value}}}))
        schema.check(document)
        if document.problems:
            made.leave_out(f"{key}, whose value our inventory does not take", host)
        else:
            kept[key] = value
    return kept


def _groups(
    found: Declared, memberships: Mapping[str, set[str]], made: _Made
) -> dict[str, dict[str, object]]:
    taken = {name.casefold() for name in made.entries}
    kept: dict[str, str] = {}
    for group in found.groups:
        name = re.sub(r"[^A-Za-z0-9._-]", "-", group).lstrip("._-")[:100]
        if group in EVERYBODY:
            continue
        if not memberships[group] & made.names.keys():
            made.leave_out(f"group {group}, which has no host here")
        elif not NAME.fullmatch(name) or name.casefold() in taken or name == ALL:
            made.leave_out(f"group {group}, whose name is taken or cannot be used")
        else:
            taken.add(name.casefold())
            kept[group] = name
    groups = {}
    for group, name in kept.items():
        body: dict[str, object] = {}
        if hosts := [made.names[host] for host in found.groups[group].hosts if host in made.names]:
            body["hosts"] = hosts
        if children := [kept[child] for child in found.groups[group].children if child in kept]:
            body["children"] = children
        if body:
            groups[name] = body
    return groups


def _written(path: Path, made: _Made, groups: Mapping[str, dict[str, object]]) -> str:
    common = _common(made.entries.values())
    lines = [HEAD, f"# Hosts taken from the Ansible inventory {comment(path)}."]
    lines += [f"# Not carried over: {comment(text)}" for text in _sentences(made)]
    if common:
        lines += ["", "defaults:", *(f"  {key}: {_yaml(value)}" for key, value in common.items())]
    if groups:
        lines += [
            "",
            "groups:",
            *(f"  {_yaml(name)}: {_yaml(body)}" for name, body in groups.items()),
        ]
    lines += ["", "hosts:"]
    for name, entry in made.entries.items():
        own = {key: value for key, value in entry.items() if key not in common}
        lines.append(f"  {_yaml(name)}:{f' {_yaml(own)}' if own else ''}")
    return "\n".join(lines) + "\n"


def _common(entries: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """What all hosts say alike, addresses apart; nothing for a single host."""
    first, *rest = entries
    shared = first.items() - {("address", first.get("address"))} if rest else set()
    kept = [item for item in shared if all(entry.get(item[0]) == item[1] for entry in rest)]
    return dict(sorted(kept))


def _yaml(value: object) -> str:
    """A value as YAML on one line: JSON, but that what cannot be printed is escaped as YAML does."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text)


def _sentences(made: _Made) -> Iterable[str]:
    """What was left out, by name only; variables that mean nothing to us in one sentence."""
    for what, hosts in made.left_out.items():
        yield f"{what} ({_few(list(hosts))})" if hosts else what
    if made.unused:
        yield f"variables that are not about reaching a host: {_few(sorted(made.unused))}"


def _few(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
