"""Checks addresses, users and jump hosts: none passes as an option or as shell syntax.
Pure.
"""

import ipaddress
import re
from contextlib import suppress
from typing import NamedTuple

from fleet.model import InputError

# wider than RFC 1123, for ssh_config and pods
_NAME = re.compile(r"(?!.*\.\.)[\w.][\w./+-]{0,254}")
_ZONE = re.compile(r"[\w.-]{,64}")  # fe80::1%eth0
_USER = re.compile(r"[\w.][\w./+#@\\-]{0,254}(?<!\\)")
_PORTS = range(1, 65_536)


class Hop(NamedTuple):
    """A jump host."""

    address: str
    user: str | None = None
    port: int | None = None


def read_address(text: str) -> str:
    """Return a name or an IP address, without brackets. Raises InputError if it is
    neither.
    """
    # a name, or an IPv4 address, which looks like one
    if _NAME.fullmatch(text):
        return text
    bare = text
    if text.startswith("[") and text.endswith("]"):
        bare = text[1:-1]
    # the zone of fe80::1%eth0 is eth0; without one it is "", which is valid, too
    _, _, zone = bare.partition("%")
    if ":" in bare and _ZONE.fullmatch(zone):
        with suppress(ValueError):
            ipaddress.IPv6Address(bare)
            return bare
    raise InputError(f"must be a name or an IP address, not {text[:100]!a}")


def is_address(text: str) -> bool:
    """Report whether `read_address` accepts `text`."""
    with suppress(InputError):
        return bool(read_address(text))
    return False


def read_user(text: str) -> str:
    """Return a user name. Raises InputError if it is not one, or means something to a
    shell.
    """
    if not _USER.fullmatch(text):
        raise InputError(f"must be a user name, not {text[:100]!a}")
    return text


def read_hop(text: str) -> Hop:
    """Read `[user@]address[:port]`, `[v6]:port` or `ssh://...`. Raises InputError, also
    for a password.
    """
    user, at, address_and_port = text.removeprefix("ssh://").rpartition("@")
    address, port = _split_port(address_and_port)
    try:
        return Hop(
            address=read_address(address),
            user=read_user(user) if at else None,
            port=None if port is None else _read_port(port),
        )
    except InputError:
        raise InputError(
            "a hop is [user@]host[:port], a name or an IP address, no password"
        ) from None


def _split_port(text: str) -> tuple[str, str | None]:
    """Split `address:port`; the port is None without one, as in a bare IPv6 address."""
    address, colon, port = text.rpartition(":")
    is_bare_ipv6 = text.count(":") > 1 and not address.endswith("]")
    if not colon or is_bare_ipv6:
        return text, None
    return address, port


def _read_port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) not in _PORTS:
        raise InputError("must be a port")
    return int(text)
