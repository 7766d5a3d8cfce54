"""Resolves the route to a host from the inventory and ssh_config (read by `config_lookup`).

The inventory overrides ssh_config. FLEET_SSH_CONFIG names a file to read instead of ~/.ssh/config and
/etc/ssh/ssh_config, as `ssh -F` does. `dial` connects to the sshds of the route.
"""

import getpass
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fleet.addresses import read_address, read_hop, read_user
from fleet.errors import UnreachableError
from fleet.model import Host, HostKeyPolicy
from fleet.remote.ssh import config_lookup

_NOT_HONOURED = {
    "certificatefile": "CertificateFile (a certificate named KEY-cert.pub beside its key is)",
    "pkcs11provider": "PKCS11Provider",
    "knownhostscommand": "KnownHostsCommand",
    "bindaddress": "BindAddress",
    "bindinterface": "BindInterface",
}
_HOPS_AT_MOST = 8
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One sshd on the way to a host, and how to authenticate there.

    name: as the user wrote it. address, port: where to connect. inventory_files: the keys the inventory
    names, offered before anything else is looked for. identity_files: those of ssh_config. only_these: offer
    nothing but these (an agent may still sign for them). use_agent: False forbids even that.
    host_key_name: as known_hosts files write it. proxy_command: None, or the command to talk through,
    its % tokens replaced. jump: the hops its own ssh_config asks for.
    """

    name: str
    address: str
    port: int
    user: str
    inventory_files: tuple[str, ...]
    identity_files: tuple[str, ...]
    only_these: bool
    use_agent: bool
    host_key_name: str
    host_key: HostKeyPolicy
    user_known_hosts: tuple[str, ...]
    global_known_hosts: tuple[str, ...]
    proxy_command: str | None
    jump: tuple[str, ...]
    connect_timeout_s: float | None
    notes: tuple[str, ...]


def route(host: Host) -> tuple[Endpoint, ...]:
    """Return the sshds to pass, the host's own last. Raises UnreachableError for an unusable ssh_config."""
    target = _endpoint(host, host.address, host.user, host.port)
    if host.identity_files:
        target = replace(target, identity_files=(), only_these=True)
    jump = host.jump or target.jump
    if not jump:
        return (target,)
    return (*_hops(host, jump), replace(target, proxy_command=None))


def _hops(host: Host, jump: Sequence[str]) -> list[Endpoint]:
    """Resolve the hops in order; only the first one's own ProxyJump counts, as in OpenSSH."""
    hops: list[Endpoint] = []
    pending = tuple(jump)
    while pending:
        if len(hops) + len(pending) > _HOPS_AT_MOST:
            raise UnreachableError(
                f"{host.name}: more than {_HOPS_AT_MOST} jump hosts. Does ProxyJump in your ssh_config "
                "make a host jump through itself?"
            )
        endpoints = [_endpoint(host, *_read(host, read_hop, hop, "ProxyJump")) for hop in pending]
        first = endpoints[0]
        hops = [first, *(replace(hop, proxy_command=None) for hop in endpoints[1:]), *hops]
        pending = first.jump
        if pending:
            hops[0] = replace(first, proxy_command=None)
    return hops


def _endpoint(host: Host, name: str, user: str | None, port: int | None) -> Endpoint:
    settings = config_lookup.look_up(host.name, name, user, port, os.environ.get("FLEET_SSH_CONFIG"))
    address = _read(host, read_address, _last(settings, "hostname", name), "HostName")
    real_port = port or int(_last(settings, "port", "22"))
    real_user = _read(host, read_user, user or _last(settings, "user", "") or getpass.getuser(), "User")
    alias = _last(settings, "hostkeyalias", "")
    agent = _last(settings, "identityagent", "SSH_AUTH_SOCK")
    ignored = [name for key, name in _NOT_HONOURED.items() if _last(settings, key, "none") != "none"]
    notes = [f"ssh_config: {note}" for note in settings.get(config_lookup.NOTES, ())]
    notes += [f"ssh_config: {name} is not honoured" for name in ignored]
    if agent not in ("none", "SSH_AUTH_SOCK"):
        notes.append("ssh_config: IdentityAgent is not honoured, only the agent at $SSH_AUTH_SOCK")
    jump, command = _last(settings, "proxyjump", "none"), _last(settings, "proxycommand", "none")
    timeout = _last(settings, "connecttimeout", "none")
    return Endpoint(
        name=name,
        address=address,
        port=real_port,
        user=real_user,
        inventory_files=tuple(os.path.expanduser(file) for file in host.identity_files),  # noqa: PTH111 ~user
        identity_files=tuple(os.path.expanduser(file) for file in settings.get("identityfile", ())),  # noqa: PTH111
        only_these=_last(settings, "identitiesonly", "no") in ("yes", "true"),
        use_agent=agent != "none",
        host_key_name=alias or known_hosts_name(address, real_port),
        host_key=host.host_key,
        user_known_hosts=_files(
            settings, "userknownhostsfile", ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
        ),
        global_known_hosts=_files(settings, "globalknownhostsfile", ("/etc/ssh/ssh_known_hosts",)),
        proxy_command=None if command == "none" else command,
        jump=() if jump == "none" else tuple(hop.strip() for hop in jump.split(",")),
        connect_timeout_s=float(timeout) if timeout.isdecimal() and int(timeout) else None,
        notes=tuple(notes),
    )


def _read(host: Host, read: Callable[[str], R], text: str, keyword: str) -> R:
    """Read a value of ssh_config, which may reach the shell of a ProxyCommand. Raises UnreachableError."""
    try:
        return read(text)
    except ValueError as error:
        raise UnreachableError(f"{host.name}: {keyword} {text!r} in your ssh_config: {error}.") from error


def known_hosts_name(address: str, port: int) -> str:
    """Format a host as known_hosts does: `name`, or `[name]:port` off the standard port."""
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def _last(settings: Mapping[str, tuple[str, ...]], key: str, default: str) -> str:
    values = settings.get(key, ())
    return values[-1] if values else default


def _files(settings: Mapping[str, tuple[str, ...]], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    files = split_files(_last(settings, key, " ".join(default)))
    return tuple(os.path.expanduser(file) for file in files if file != "none")  # noqa: PTH111


def split_files(text: str) -> list[str]:
    """Split files as `ssh -G` prints them: "/a b/known_hosts ~/c" -> ["/a b/known_hosts", "~/c"]."""
    return re.split(r" +(?=[/~])", text) if text else []
