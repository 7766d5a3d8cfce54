"""Splits hosts among controllers by rendezvous hashing, so that adding a host moves no
other. Pure.
"""

import hashlib
import re
from collections.abc import Sequence

from fleet.errors import UsageError
from fleet.model import Host

MAX_SHARDS = 1000
_HERE = {"localhost", "127.0.0.1", "::1"}


def parse_shard(text: str) -> tuple[int, int]:
    """Parse "2/4" into (2, 4): the number of a shard, and how many there are. Raises
    UsageError.
    """
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count <= MAX_SHARDS:
        raise UsageError(
            f"--shard {text}: not a shard. Write i/n: part i of n, as 2/4; "
            f"i from 1 to n, n at most {MAX_SHARDS}."
        )
    return number, count


def select_shard(hosts: Sequence[Host], number: int, count: int) -> tuple[Host, ...]:
    """Return the hosts of one shard, in order; may be empty. Entries of one machine
    stay together.
    """
    return tuple(
        host for host in hosts if _choose_shard(machine_key(host), count) == number
    )


def split_into_groups(hosts: Sequence[Host], count: int) -> list[list[Host]]:
    """Return at most `count` nearly equal groups, none empty. Entries of one machine
    stay together.
    """
    machines: dict[str, list[Host]] = {}
    for host in hosts:
        machines.setdefault(machine_key(host), []).append(host)
    groups: list[list[Host]] = [[] for _ in range(min(count, len(machines)))]
    for entries in machines.values():
        min(groups, key=len).extend(entries)
    return groups


def machine_key(host: Host) -> str:
    """Return a key of the host's machine: its jump hosts and address, without port and
    user.
    """
    address = host.address.lower()
    if host.via == "local" or (address in _HERE and not host.jump):
        return "this machine"
    return " ".join([*host.jump, address])


def _choose_shard(key: str, count: int) -> int:
    return max(
        range(1, count + 1),
        key=lambda number: hashlib.sha256(f"{number} {key}".encode()).digest(),
    )
