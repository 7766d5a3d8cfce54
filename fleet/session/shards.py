"""Splits hosts among controllers by rendezvous hashing, so that adding a host moves no
other. Pure.
"""

import hashlib
import re
from collections import defaultdict
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
    if match is not None:
        number = int(match[1])
        count = int(match[2])
        if 1 <= number <= count <= MAX_SHARDS:
            return number, count
    raise UsageError(
        f"--shard {text}: not a shard. Write i/n: part i of n, as 2/4; "
        f"i from 1 to n, n at most {MAX_SHARDS}."
    )


def select_shard(hosts: Sequence[Host], number: int, count: int) -> tuple[Host, ...]:
    """Return the hosts of one shard, in order; may be empty. Entries of one machine
    stay together.
    """
    shard = []
    for host in hosts:
        machine = machine_key(host)
        if _choose_shard(machine, count) == number:
            shard.append(host)
    return tuple(shard)


def split_into_groups(hosts: Sequence[Host], count: int) -> list[list[Host]]:
    """Return at most `count` nearly equal groups, none empty. Entries of one machine
    stay together.
    """
    hosts_by_machine = defaultdict[str, list[Host]](list)
    for host in hosts:
        machine = machine_key(host)
        hosts_by_machine[machine].append(host)
    group_count = min(count, len(hosts_by_machine))
    groups: list[list[Host]] = [[] for _ in range(group_count)]
    for entries in hosts_by_machine.values():
        smallest = min(groups, key=len)
        smallest.extend(entries)
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
    """Return the number of the shard, from 1, that weighs most for a machine. The
    weights of a machine are digests, which do not depend on `count`: a new shard takes
    machines from the others, and moves no other machine.
    """

    def weigh(number: int) -> bytes:
        return hashlib.sha256(f"{number} {key}".encode()).digest()

    numbers = range(1, count + 1)
    return max(numbers, key=weigh)
