"""Resolves the route to a host from the inventory, which wins, and from ssh_config."""

import getpass
import os
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fleet.addresses import read_address, read_hop, read_user
from fleet.errors import UnreachableError
from fleet.home import expand_home
from fleet.model import Host, HostKeyPolicy, InputError
from fleet.remote.ssh.config import Settings, get_last, look_up

# what ssh would follow and fleet does not, with the value that asks for nothing
_NOT_HONOURED = {
    "PKCS11Provider": "none",
    "KnownHostsCommand": "none",
    "RevokedHostKeys": "none",
    "BindAddress": "none",
    "BindInterface": "none",
    "ProxyUseFdpass": "no",
    "NoHostAuthenticationForLocalhost": "no",
}
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_USUAL_AGENT = "SSH_AUTH_SOCK"  # the value of IdentityAgent for the usual one
_HOPS_AT_MOST = 8
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One sshd on the way to a host, and how to authenticate there."""

    name: str  # as the user wrote it
    address: str
    port: int
    user: str
    inventory_files: tuple[str, ...]  # the inventory's keys, offered first
    identity_files: tuple[str, ...]  # those of ssh_config
    certificate_files: tuple[str, ...]
    only_listed_identities: bool  # offer no other keys
    use_agent: bool  # False forbids the agent even for listed keys
    host_key_name: str  # as in known_hosts
    host_key: HostKeyPolicy
    user_known_hosts: tuple[str, ...]
    global_known_hosts: tuple[str, ...]
    hash_known_hosts: bool
    known_hosts_command: bool  # ssh would ask a program as well
    address_family: socket.AddressFamily
    proxy_command: str | None  # tokens replaced
    jump: tuple[str, ...]  # by its own ssh_config
    connect_timeout_s: float | None
    notes: tuple[str, ...]


def resolve_route(host: Host) -> tuple[Endpoint, ...]:
    """Return the SSH servers to pass: the jump hosts in order, then the host's own
    sshd. Raises UnreachableError if ssh_config is bad.
    """
    target = _make_endpoint(host, host.address, host.user, host.port)
    # the inventory's keys, which are in `inventory_files`, replace those of ssh_config
    if host.identity_files:
        target = replace(target, identity_files=(), only_listed_identities=True)
    jump = host.jump or target.jump
    if not jump:
        return (target,)
    hops = _resolve_hops(host, jump)
    # reached through the last hop, not by a ProxyCommand of its own
    return (*hops, _drop_proxy_command(target))


def _resolve_hops(host: Host, jump: Sequence[str]) -> list[Endpoint]:
    """Resolve the jump hosts in the order they are passed. As in OpenSSH, only the
    first jump host's own ProxyJump is followed, then that of its first, and so on.

    If `jump` is b,c and ssh_config has ProxyJump a for b, the jump hosts are a,b,c: the
    first turn of the loop resolves b and c, the second puts a before them.
    """
    hops: list[Endpoint] = []
    # names of jump hosts to be passed before those in `hops`
    earlier_hops = tuple(jump)
    while earlier_hops:
        if len(hops) + len(earlier_hops) > _HOPS_AT_MOST:
            raise UnreachableError(
                f"{host.name}: more than {_HOPS_AT_MOST} jump hosts. Does ProxyJump in"
                " your ssh_config make a host jump through itself?"
            )
        first, *others = [_resolve_hop(host, hop) for hop in earlier_hops]
        earlier_hops = first.jump
        # a hop behind another is reached through it, not by its own ProxyCommand
        if earlier_hops:
            first = _drop_proxy_command(first)
        resolved_hops = [first, *map(_drop_proxy_command, others)]
        hops = resolved_hops + hops
    return hops


def _drop_proxy_command(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint without its ProxyCommand, since it is reached through the jump
    host before it instead.
    """
    return replace(endpoint, proxy_command=None)


def _resolve_hop(host: Host, hop: str) -> Endpoint:
    name, user, port = _parse_value(host, read_hop, hop, "ProxyJump")
    return _make_endpoint(host, name, user, port)


def _make_endpoint(
    host: Host, name: str, user: str | None, port: int | None
) -> Endpoint:
    """Return one sshd on the way to a host, as ssh_config has it. name: the name of the
    host itself or of a jump host. user, port: what the inventory or the list of jump
    hosts says, which wins over ssh_config; None if it says nothing.
    """
    settings = look_up(host.name, name, user, port, os.environ.get("FLEET_SSH_CONFIG"))
    host_name = get_last(settings, "hostname", name)
    address = _parse_value(host, read_address, host_name, "HostName")
    port = port or int(get_last(settings, "port", "22"))
    user = user or get_last(settings, "user", "") or getpass.getuser()
    user = _parse_value(host, read_user, user, "User")
    alias = get_last(settings, "hostkeyalias", "")
    return Endpoint(
        name=name,
        address=address,
        port=port,
        user=user,
        inventory_files=_expand_user(host.identity_files),
        identity_files=_expand_user(settings.get("identityfile", ())),
        certificate_files=_expand_user(_list_certificates(settings)),
        only_listed_identities=get_last(settings, "identitiesonly") in ("yes", "true"),
        use_agent=get_last(settings, "identityagent", _USUAL_AGENT) != "none",
        host_key_name=alias or known_hosts_name(address, port),
        host_key=host.host_key,
        user_known_hosts=_list_files(
            settings, "userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"
        ),
        global_known_hosts=_list_files(
            settings, "globalknownhostsfile", "/etc/ssh/ssh_known_hosts"
        ),
        hash_known_hosts=get_last(settings, "hashknownhosts") == "yes",
        known_hosts_command=get_last(settings, "knownhostscommand", "none") != "none",
        address_family=_FAMILIES.get(
            get_last(settings, "addressfamily"), socket.AF_UNSPEC
        ),
        proxy_command=_get_unless_none(settings, "proxycommand"),
        jump=_split_hops(_get_unless_none(settings, "proxyjump")),
        connect_timeout_s=_parse_timeout_s(get_last(settings, "connecttimeout")),
        notes=tuple(_list_notes(settings)),
    )


def _get_unless_none(settings: Settings, key: str) -> str | None:
    value = get_last(settings, key)
    return None if value == "none" else value


def _list_files(settings: Settings, key: str, default: str) -> tuple[str, ...]:
    files = split_files(get_last(settings, key, default))
    return _expand_user(file for file in files if file != "none")


def _list_certificates(settings: Settings) -> list[str]:
    files = settings.get("certificatefile", ())
    return [file for file in files if file != "none"]


def _expand_user(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(expand_home, paths))


def _split_hops(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    return tuple(hop.strip() for hop in text.split(","))


def _parse_timeout_s(text: str) -> float | None:
    if text.isdecimal() and int(text):
        return float(text)
    return None


def _list_notes(settings: Settings) -> list[str]:
    """Return a sentence for each setting that ssh would follow and fleet does not."""
    notes = [
        f"ssh_config: {name} is not honoured"
        for name, unset_value in _NOT_HONOURED.items()
        if get_last(settings, name.lower(), unset_value) != unset_value
    ]
    agent = get_last(settings, "identityagent", _USUAL_AGENT)
    if agent not in ("none", _USUAL_AGENT):
        notes.append(
            "ssh_config: IdentityAgent is not honoured, only the agent at"
            " $SSH_AUTH_SOCK"
        )
    return notes


def _parse_value(host: Host, parse: Callable[[str], R], text: str, keyword: str) -> R:
    """Parse a value of ssh_config, and check it, since a ProxyCommand may hand it to a
    shell. keyword: such as "HostName", for the message. Raises UnreachableError.
    """
    try:
        return parse(text)
    except InputError as error:
        raise UnreachableError(
            f"{host.name}: {keyword} {text!r} in your ssh_config: {error}."
        ) from error


def known_hosts_name(address: str, port: int) -> str:
    """Format a host as known_hosts does: `name`, or `[name]:port` if the port is not
    22.
    """
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def split_files(text: str) -> list[str]:
    """Split files as `ssh -G` prints them: "/a b/known_hosts ~/c" -> ["/a
    b/known_hosts", "~/c"].
    """
    return re.split(r" +(?=[/~])", text) if text else []
