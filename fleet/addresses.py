"""The grammar of addresses, users and jump hosts: none can be an option, or mean anything to a shell. Pure.

Whatever becomes a host passes it: the inventory, what programs list, Ansible, ssh_config. It is wider than
RFC 1123: names of ssh_config, pods and containers are addresses too.
"""

import ipaddress
import re
from typing import NamedTuple

_NAME = re.compile(r"(?!.*\.\.)[\w.][\w./+-]{0,254}")
_ZONE = re.compile(r"[\w.-]{1,64}")  # fe80::1%eth0
_USER = re.compile(r"[\w.][\w./+#@\\-]{0,254}(?<!\\)")
_PORTS = range(1, 65_536)


class Hop(NamedTuple):
    """A jump host as `[user@]address[:port]` names it."""

    address: str
    user: str | None = None
    port: int | None = None


def read_address(text: str) -> str:
    """Return a name or an IP address, without brackets. Raises ValueError if it is neither."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" not in bare:
        if bare is text and _NAME.fullmatch(bare):
            return bare
    else:
        literal, percent, zone = bare.partition("%")
        if not percent or _ZONE.fullmatch(zone):
            try:
                ipaddress.IPv6Address(literal)
            except ValueError:
                pass
            else:
                return bare
    raise ValueError(f"must be a name or an IP address, not {text[:100]!a}")


def is_address(text: str) -> bool:
    """Return whether `text` is a name or an IP address, as `read_address` has it."""
    try:
        return bool(read_address(text))
    except ValueError:
        return False


def read_user(text: str) -> str:
    """Return the name of a user. Raises ValueError if no system would take it, or a shell would."""
    if not _USER.fullmatch(text):
        raise ValueError(f"must be a user name, not {text[:100]!a}")
    return text


def read_hop(text: str) -> Hop:
    """Read `[user@]address[:port]`, `[v6]:port` or `ssh://...`. Raises ValueError, also for a password."""
    user, at, place = text.removeprefix("ssh://").rpartition("@")
    address, colon, port = place.rpartition(":")
    if not colon or (place.count(":") > 1 and not address.endswith("]")):
        address, port = place, "22"
    try:
        if not re.fullmatch("[0-9]{1,5}", port) or int(port) not in _PORTS:
            raise ValueError
        return Hop(
            read_address(address), read_user(user) if at else None, int(port) if address != place else None
        )
    except ValueError:
        raise ValueError(
            "each hop must read [user@]host[:port], with a name or an IP address and no password"
        ) from None
