"""A first inventory.yaml from an Ansible inventory; values of variables that we do not use never reach it.

Ansible's own built-in parsers read a linked copy, with no settings, plugins or programs of the user: nothing
that lies in or beside the inventory runs, and nothing is decrypted.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from getopt import GetoptError, gnu_getopt
from pathlib import Path
from shlex import quote
from typing import Any

from fleet.addresses import is_address
from fleet.errors import InventoryError
from fleet.hostnames import ALL, HOST_LIMIT, NAME
from fleet.inventory import schema
from fleet.inventory.document import read
from fleet.inventory.starter import as_yaml, comment, written

_KEYS = {
    "address": ("ansible_host", "ansible_ssh_host"),
    "port": ("ansible_port", "ansible_ssh_port"),
    "user": ("ansible_user", "ansible_ssh_user"),
    "identity_files": ("ansible_private_key_file", "ansible_ssh_private_key_file"),
}
_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_USED = {name for names in _KEYS.values() for name in names} | {*_ARGUMENTS, "ansible_connection"}
_LOCAL = {"local", "ansible.builtin.local"}
_SSH = {"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh"}
_SSH_OPTIONS = "1246ab:c:e:fgi:kl:m:no:p:qstvxyAB:CD:E:F:GI:J:KL:MNO:P:Q:R:S:TVw:W:XY"  # ssh(1)
_OPTION_KEYWORDS = {"-J": "ProxyJump", "-i": "IdentityFile"}
_NAMED = 12  # variables and hosts in one sentence
_TIMEOUT_S = 60
_MEMORY_KIB = 2 << 20
_SIZE_LIMIT_BYTES = 64 << 20
_FILES_LIMIT = 20_000
_VAULT = b"$ANSIBLE_VAULT"
_ERROR_LIMIT = 4_000  # characters
_LIMITED = f'ulimit -v {_MEMORY_KIB} 2>/dev/null; exec "$@"'  # against ranges of a billion hosts


@dataclass(slots=True)
class _Result:
    """Our entries, our host names by Ansible's, and what was not carried over with whom it concerns."""

    entries: dict[str, dict[str, object]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def take_name(self, theirs: str) -> str:
        """Our name for a host or group; "" if it cannot be used or is taken."""
        ours = re.sub(r"[^A-Za-z0-9._-]", "-", theirs).lstrip("._-")[:100]
        if not NAME.fullmatch(ours) or ours == ALL or ours.casefold() in self.taken:
            return ""
        self.taken.add(ours.casefold())
        return ours

    def leave_out(self, what: str, *names: str) -> None:
        """Note that something was not carried over, and of which hosts, groups or variables."""
        self.left_out.setdefault(what, {}).update(dict.fromkeys(names))


def from_ansible(path: Path) -> str:
    """The hosts and groups of the Ansible inventory at `path` as ours. InventoryError, also for none."""
    listed, encrypted = listing(path)
    variables = _mapping(_mapping(listed.pop("_meta", None)).get("hostvars"))
    hosts = _hosts(listed)
    if not hosts:
        raise InventoryError(f"{path}: names no host. Is it an Ansible inventory?")
    if len(hosts) > HOST_LIMIT:
        raise InventoryError(f"{path}: more than {HOST_LIMIT} hosts; split the inventory")
    result = _Result()
    for file in encrypted:
        result.leave_out(f"{file}, encrypted with ansible-vault")
    for host in hosts:
        _take_host(host, _mapping(variables.get(host)), result)
    if not result.entries:
        why = comment("; ".join(_sentences(result)))
        raise InventoryError(f"{path}: none of its hosts can be carried over: {why}")
    common = _common(result.entries.values())
    own = {
        name: {key: value for key, value in entry.items() if key not in common}
        for name, entry in result.entries.items()
    }
    groups = _groups(listed, result)
    left_out = (f"Not carried over: {text}" for text in _sentences(result))
    return written(f"Hosts of the Ansible inventory {path}.", left_out, own, common, groups)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _names(body: Any, key: str) -> list[str]:
    names = _mapping(body).get(key)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _hosts(listed: Mapping[str, Any]) -> list[str]:
    """Every host once, those outside all groups first."""
    groups = [listed.get("ungrouped"), *listed.values()]
    return list(dict.fromkeys(host for body in groups for host in _names(body, "hosts")))


def _take_host(host: str, variables: Mapping[str, Any], result: _Result) -> None:
    connection = str(variables.get("ansible_connection") or "ssh")
    if connection not in _SSH | _LOCAL:
        result.leave_out("hosts reached neither by SSH nor locally", host)
        return
    name = result.take_name(host)
    if not name:
        result.leave_out("hosts whose names we cannot use, or that differ only by case or punctuation", host)
        return
    entry = {"via": "local"} if connection in _LOCAL else _ssh_entry(name, host, variables, result)
    address = str(entry.get("address", host))
    if not is_address(address):
        result.leave_out("hosts whose address is neither a name nor an IP address", host)
        return
    result.names[host] = name
    result.entries[name] = _accepted(entry, host, result)
    for variable, value in variables.items():
        if variable in _USED:
            continue
        if schema.SECRET.search(variable) or "pass" in variable:
            result.leave_out(f"the secret {variable}", host)
        elif "__ansible_vault" in _mapping(value):
            result.leave_out(f"{variable}, encrypted with ansible-vault", host)
        elif variable.startswith("ansible_"):
            result.leave_out(variable, host)
        else:
            result.leave_out("variables that are not about connecting to a host", variable)


def _ssh_entry(name: str, host: str, variables: Mapping[str, Any], result: _Result) -> dict[str, object]:
    entry: dict[str, object] = {} if name == host else {"address": host}
    for key, names in _KEYS.items():
        for variable in names:
            if value := _text(variables, variable, host, result):
                entry[key] = value
    for variable in _ARGUMENTS:
        if value := _text(variables, variable, host, result):
            _take_arguments(value, variable, entry, host, result)
    return entry


def _text(variables: Mapping[str, Any], variable: str, host: str, result: _Result) -> str:
    """A variable's value if it is plain text; the one template we know is the host's own name."""
    value = variables.get(variable)
    if value is None:
        return ""
    value = _mapping(value).get("__ansible_unsafe", value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        vault = "__ansible_vault" in _mapping(value)
        result.leave_out(f"{variable}, {'encrypted with ansible-vault' if vault else 'not text'}", host)
        return ""
    text = re.sub(r"\{\{\s*inventory_hostname\s*\}\}", lambda _: host, str(value))
    if "{{" in text or "{%" in text:
        result.leave_out(f"{variable}, a template", host)
        return ""
    return text


def _take_arguments(text: str, variable: str, entry: dict[str, object], host: str, result: _Result) -> None:
    """Options of ssh: jump hosts, key files and accept-new have keys here, others have not."""
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
            keyword, value = (*re.split(r"\s*[\s=]\s*", argument.strip(), maxsplit=1), "")[:2]
        key, ours = _ssh_setting(keyword.lower(), value)
        if ours:
            entry[key] = ours
        elif keyword.lower() == "stricthostkeychecking" and value.lower() in ("no", "off"):
            result.leave_out("StrictHostKeyChecking=no; unknown keys stay refused (see host_key)", host)
        elif not keyword.lower().startswith("control"):  # connections are shared anyway
            result.leave_out(f"{keyword[:40]} in {variable}", host)


def _ssh_setting(keyword: str, value: str) -> tuple[str, str]:
    """Our key and value for a keyword of ssh_config(5); an empty value where there is none."""
    match keyword:
        case "proxyjump":
            return "jump", "" if value.lower() == "none" else value
        case "proxycommand":
            return "jump", _hop(value)
        case "identityfile":
            return "identity_files", value
        case "stricthostkeychecking":
            return "host_key", value if value == "accept-new" else ""
    return "", ""


def _hop(command: str) -> str:
    """The jump host of a ProxyCommand `ssh … -W %h:%p … [user@]host …` without other settings; else ""."""
    try:
        program, *words = shlex.split(command)
        options, hosts = gnu_getopt(words, _SSH_OPTIONS)
    except (ValueError, GetoptError):
        return ""
    given = dict(options)
    plain = given.get("-W") == "%h:%p" and not given.keys() - {"-W", "-p", "-q", "-A", "-T", "-x"}
    if Path(program).name != "ssh" or len(hosts) != 1 or not plain:
        return ""
    return f"{hosts[0]}:{given['-p']}" if "-p" in given else hosts[0]


def _accepted(entry: Mapping[str, object], host: str, result: _Result) -> dict[str, object]:
    """The entry without the keys whose values our inventory would refuse."""
    kept = {key: value for key, value in entry.items() if _is_valid(key, value)}
    for key in entry.keys() - kept:
        result.leave_out(f"{key}, whose value our inventory does not take", host)
    return kept


@cache
def _is_valid(key: str, value: object) -> bool:
    document = read(as_yaml({"hosts": {"any": {key: value}}}))
    schema.check(document)
    return not document.problems


def _groups(listed: Mapping[str, Any], result: _Result) -> dict[str, dict[str, list[str]]]:
    kept: dict[str, str] = {}
    for group in sorted(listed.keys() - {ALL, "ungrouped"}):
        if name := result.take_name(group):
            kept[group] = name
        else:
            result.leave_out("groups whose name is taken or cannot be used", group)
    found = {}
    for group, name in kept.items():
        hosts = [result.names[host] for host in _names(listed[group], "hosts") if host in result.names]
        children = [kept[child] for child in _names(listed[group], "children") if child in kept]
        found[name] = {key: value for key, value in (("hosts", hosts), ("children", children)) if value}
    return found


def _common(entries: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """What all entries have in common, addresses apart; nothing for a single host."""
    first, *rest = entries
    shared = first.items() - {("address", first.get("address"))} if rest else set()
    kept = [item for item in shared if all(entry.get(item[0]) == item[1] for entry in rest)]
    return dict(sorted(kept))


def _sentences(result: _Result) -> Iterable[str]:
    """What was left out, by name only."""
    for what, names in result.left_out.items():
        more = len(names) - _NAMED
        few = ", ".join([*names][:_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield f"{what} ({few})" if names else what


def listing(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The listing as Ansible prints it or a file holds it, and encrypted files left out. InventoryError."""
    try:
        if path.suffix == ".json" and path.stat().st_size < _SIZE_LIMIT_BYTES:
            saved = _object(path.read_bytes())
            if saved and "_meta" in saved:
                return saved, []
        program = shutil.which("ansible-inventory")
        if program is None:
            raise InventoryError(
                f"{path}: reading an Ansible inventory needs ansible-inventory, which is not installed. "
                f"Install it (pip install ansible-core), or {_save(path)}"
            )
        with tempfile.TemporaryDirectory(prefix="fleet-ansible-") as work:
            copy = Path(work, "inventory")
            encrypted = _link(path.absolute(), copy)
            found = _object(_output(program, path, copy, Path(work)))
    except (OSError, ValueError) as err:
        raise InventoryError(f"{path}: cannot be read: {err}") from err
    if found is None:
        raise InventoryError(f"{path}: {program} printed no JSON object")
    return found, encrypted


def _save(path: Path) -> str:
    """What to do about an inventory that only Ansible with the user's settings can list."""
    command = f"ansible-inventory -i {quote(str(path))} --list > listing.json"
    return f"run `{command}` where Ansible is set up, then use --from-ansible listing.json."


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _link(path: Path, copy: Path) -> list[str]:
    """Fill `copy` with links to the inventory's files; the encrypted ones are left out and returned."""
    root = path if path.is_dir() else path.parent
    encrypted: list[str] = []
    count = 0

    def left_out(folder: str, names: list[str]) -> set[str]:
        nonlocal count
        if Path(folder) == root != path:
            kept = {path.name, "group_vars", "host_vars"} & set(names)
        else:
            kept = {name for name in names if not name.startswith(".")}
        vaults = {name for name in kept if _is_vault(Path(folder, name))}
        encrypted.extend(str(Path(folder, name)) for name in sorted(vaults))
        count += len(kept)
        if count > _FILES_LIMIT:
            raise InventoryError(f"{path}: more than {_FILES_LIMIT} files; is this an inventory?")
        return set(names) - kept | vaults

    path.stat()  # an absent file is an error here, not an empty folder
    shutil.copytree(root, copy, ignore=left_out, copy_function=os.symlink)
    if str(path) in encrypted:
        raise InventoryError(f"{path}: encrypted with ansible-vault; {_save(path)}")
    return encrypted


def _is_vault(path: Path) -> bool:
    """Whether a file is encrypted by ansible-vault. Raises InventoryError if it is a program."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(len(_VAULT))
    if head.startswith(b"#!"):
        raise InventoryError(f"{path}: is a program, and fleet runs none; {_save(path)}")
    return head == _VAULT


def _output(program: str, path: Path, copy: Path, work: Path) -> bytes:
    inventory = copy if path.is_dir() else copy / path.name
    command = ["sh", "-c", _LIMITED, "sh", program, "-i", str(inventory), "--list"]
    try:
        done = subprocess.run(
            command,
            cwd=work,
            env=_environment(work),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise InventoryError(f"{path}: {program} did not finish within {_TIMEOUT_S} s") from err
    if done.returncode == 0:
        return done.stdout
    source = path if path.is_dir() else path.parent
    text = " ".join(done.stderr.decode(errors="replace").replace(str(copy), str(source)).split())
    text = re.sub(r" (?=\[WARNING\]:|\[ERROR\]:|ERROR! )", "\n  ", text[:_ERROR_LIMIT])
    raise InventoryError(
        f"{path}: ansible-inventory failed (exit status {done.returncode}):\n  {text}\n"
        f"If it needs a plugin or a program, {_save(path)}"
    )


def _environment(work: Path) -> dict[str, str]:
    """The user's environment without Ansible's settings; plugins come from Ansible itself only."""
    (work / "ansible.cfg").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    none = str(work / "none")
    return kept | {
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_HOME": str(work / "home"),
        "ANSIBLE_LOCAL_TEMP": str(work / "home" / "tmp"),
        "ANSIBLE_COLLECTIONS_PATH": none,
        "ANSIBLE_INVENTORY_PLUGINS": none,
        "ANSIBLE_VARS_PLUGINS": none,
        "ANSIBLE_VARS_ENABLED": "host_group_vars",
        "ANSIBLE_INVENTORY_ENABLED": "yaml,ini,toml",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }
