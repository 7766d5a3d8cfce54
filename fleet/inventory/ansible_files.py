"""What an Ansible inventory declares: its files in, groups, hosts and variables out. Floor 2.

Reads INI and YAML, directories of them, and group_vars and host_vars beside; runs nothing. `ansible` makes
hosts of it. Formats: docs.ansible.com, "How to build your inventory"; plugins ini, yaml and host_group_vars.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.errors import InventoryError
from fleet.hostnames import HOST_LIMIT
from fleet.inventory.document import BrokenError, dotted, read
from fleet.inventory.select import SIZE_LIMIT_BYTES

VAULT = "$ANSIBLE_VAULT"
EVERYBODY = ("all", "ungrouped")
_YAML = {".yml", ".yaml", ".json"}
_IGNORED = {".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry"}
_RANGE = re.compile(r"\[([0-9]+|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]{1,6}))?\]")
_VARS_DEPTH = 8


@dataclass(slots=True)
class Group:
    """A group as declared: own hosts, child groups, variables in the inventory and in group_vars."""

    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    inline: dict[str, str] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Declared:
    """Everything read. `said`: sentences about what could not be; they never hold a value."""

    groups: dict[str, Group] = field(default_factory=lambda: {"all": Group()})
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def group(self, name: str) -> Group:
        """The group of this name, made if it is new."""
        return self.groups.setdefault(name, Group())

    def host(self, pattern: str, group: str, variables: Mapping[str, str], where: str) -> None:
        """Declare the host, or the range of hosts, `pattern` in `group`."""
        name, port = _split_port(pattern)
        for host in _unfolded(name, where):
            self.group(group).hosts[host] = None
            self.hosts.setdefault(host, {}).update({"ansible_port": port} if port else {}, **variables)
        if len(self.hosts) > HOST_LIMIT:
            raise InventoryError(f"{where}: more than {HOST_LIMIT} hosts; split the inventory")


def declared(path: Path) -> Declared:
    """Read the inventory at `path`, a file or a directory of files. Raises InventoryError if it cannot be."""
    found = Declared()
    folder = path if path.is_dir() else path.parent
    for file in _files(path):
        _read_inventory(file, found)
    for name, group in list(found.groups.items()):
        group.beside.update(_variables(folder / "group_vars", name, found))
    for name, variables in found.hosts.items():
        variables.update(_variables(folder / "host_vars", name, found))
    return found


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [
        file
        for file in sorted(path.iterdir())
        if file.is_file() and not file.name.startswith(".") and not file.name.endswith(tuple(_IGNORED))
    ]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT_BYTES + 1)
    except OSError as err:
        raise InventoryError(f"{path}: cannot be read: {err.strerror}") from err
    if len(raw) > SIZE_LIMIT_BYTES:
        raise InventoryError(f"{path}: larger than {SIZE_LIMIT_BYTES >> 20} MiB; is this an inventory?")
    return raw.decode("utf-8-sig", "replace")


def _read_inventory(path: Path, found: Declared) -> None:
    text = _text(path)
    if text.startswith(VAULT):
        found.said.append(f"{path}: encrypted with ansible-vault")
    elif text.startswith("#!"):
        raise InventoryError(
            f"{path}: a program that makes an inventory, which we do not run. {_instead(path)}"
        )
    elif path.suffix in _YAML or _looks_like_yaml(text):
        _read_yaml(path, text, found)
    else:
        _read_ini(path, text, found)


def _instead(path: Path) -> str:
    return (
        f"Give us what it says: ansible-inventory -i {shlex.quote(str(path))} --list --yaml --output all.yaml"
    )


def _looks_like_yaml(text: str) -> bool:
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith(("#", ";")))
    first = next(lines, "")
    return first == "---" or re.fullmatch(r"[\w.-]+:\s*(\{.*)?", first) is not None


def _read_yaml(path: Path, text: str, found: Declared) -> None:
    data = _mapping(path, text, found)
    plugin = data.get("plugin")
    if isinstance(plugin, str):
        raise InventoryError(
            f"{path}: settings of the inventory plugin {plugin[:60]!r}, which we do not run. {_instead(path)}"
        )
    for name, body in data.items():
        _take_group(name, body, str(path), found)


def _mapping(path: Path, text: str, found: Declared) -> dict[str, Any]:
    """A YAML file as a mapping; encrypted values and other tags are said and left out."""
    try:
        document = read(text)
    except BrokenError as err:
        raise InventoryError(f"{path}:{err.problem.line}: {err.problem.text}") from err
    for problem in document.problems:
        vaulted = "!vault" in problem.text
        why = "encrypted with ansible-vault" if vaulted else problem.text
        found.said.append(f"{path}:{problem.line}: {problem.where}: {why}")
    if document.data is not None and not isinstance(document.data, dict):
        raise InventoryError(
            f"{path}: is not a mapping at its top, so no Ansible inventory or variables file"
        )
    return document.data or {}


def _take_group(name: str, body: Any, where: str, found: Declared) -> None:
    group = found.group(name)
    for key, value in (body if isinstance(body, dict) else {}).items():
        entries = value if isinstance(value, dict) else {}
        match key:
            case "hosts":
                for host, variables in ({value: None} if isinstance(value, str) else entries).items():
                    found.host(host, name, _texts(variables), where)
            case "vars":
                group.inline.update(_texts(entries))
            case "children":
                for child, inner in entries.items():
                    group.children[child] = None
                    _take_group(child, inner, where, found)
            case _:
                found.said.append(f"{where}: {dotted((name, key))}: unknown to Ansible as well")


def _texts(variables: Any) -> dict[str, str]:
    """The variables that are plain text; what is a list or a mapping is of no use to us."""
    pairs = variables.items() if isinstance(variables, dict) else ()
    return {key: value if isinstance(value, str) else "" for key, value in pairs if value is not None}


def _read_ini(path: Path, text: str, found: Declared) -> None:
    group, kind = "ungrouped", "hosts"
    for number, line in enumerate(text.splitlines(), start=1):
        stripped, where = line.strip(), f"{path}:{number}"
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if header := re.fullmatch(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:[#;].*)?", stripped):
            group, kind = header[1], header[2] or "hosts"
            found.group(group)
            if kind not in ("hosts", "children", "vars"):
                raise InventoryError(f"{where}: a section is [group], [group:children] or [group:vars]")
            continue
        _take_ini_line(stripped, group, kind, where, found)


def _take_ini_line(line: str, group: str, kind: str, where: str, found: Declared) -> None:
    if kind == "vars":
        key, equals, value = line.partition("=")
        if not equals:
            raise InventoryError(f"{where}: a variable is written name=value")
        found.group(group).inline[key.strip()] = _unquoted(value.strip())
        return
    try:
        first, *rest = shlex.split(line, comments=True)
    except ValueError as err:
        raise InventoryError(f"{where}: cannot be read: {err}; check the quotes") from err
    if kind == "children":
        found.group(group).children[first] = None
        found.group(first)
        return
    variables = dict(word.split("=", 1) for word in rest if "=" in word)
    found.host(first, group, variables, where)


def _unquoted(value: str) -> str:
    quoted = re.fullmatch(r"(['\"])(.*)\1", value)
    return quoted[2] if quoted else value


def _split_port(pattern: str) -> tuple[str, str]:
    """Cut `:port` off a host pattern; an IPv6 address with a port stands in brackets."""
    found = re.fullmatch(r"\[([0-9A-Fa-f:.%]*:[0-9A-Fa-f:.%]*)\]:([0-9]+)", pattern)
    if found and not _RANGE.search(pattern):
        return found[1], found[2]
    found = re.fullmatch(r"((?:[^:\[]|\[[^\]]*\])+):([0-9]+)", pattern)
    return (found[1], found[2]) if found else (pattern, "")


def _unfolded(name: str, where: str) -> list[str]:
    """Unfold ranges as Ansible writes them: web[01:10], db-[a:f], x[1:9:2]."""
    found = _RANGE.search(name)
    if not found:
        return [name]
    first, last, step = found[1], found[2], int(found[3] or 1)
    numbers = first.isdigit() and last.isdigit()
    low, high = (int(first), int(last)) if numbers else (ord(first[0]), ord(last[0]))
    if low > high or step < 1 or first.isdigit() != last.isdigit() or (high - low) // step >= HOST_LIMIT:
        raise InventoryError(f"{where}: the range {found[0]} cannot be unfolded")
    width = len(first) if first.startswith("0") else 1
    parts = [f"{value:0{width}d}" if numbers else chr(value) for value in range(low, high + 1, step)]
    rest = _unfolded(name[found.end() :], where)
    if len(parts) * len(rest) > HOST_LIMIT:
        raise InventoryError(f"{where}: {name} is more than {HOST_LIMIT} names")
    return [f"{name[: found.start()]}{part}{tail}" for part in parts for tail in rest]


def _variables(folder: Path, name: str, found: Declared) -> dict[str, str]:
    """What stands in `folder` for a group or host: NAME, NAME.yml, … or all files below NAME/."""
    merged: dict[str, str] = {}
    if "/" in name or name.startswith("."):
        return merged
    for candidate in (folder / name, *(folder / f"{name}{suffix}" for suffix in (".yml", ".yaml", ".json"))):
        for file in _below(candidate, 0):
            text = _text(file)
            if text.startswith(VAULT):
                found.said.append(f"{file}: encrypted with ansible-vault")
            else:
                merged.update(_texts(_mapping(file, text, found)))
    return merged


def _below(path: Path, depth: int) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir() and depth < _VARS_DEPTH:
        for inner in sorted(path.iterdir()):
            if not inner.name.startswith(".") and (inner.is_dir() or inner.suffix in (*_YAML, "")):
                yield from _below(inner, depth + 1)
