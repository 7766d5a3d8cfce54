"""A fleet as large ones are: hosts that refuse, say nothing, hang or are cut cost the
good ones nothing.
"""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fleet.model import BuildPlace, Host
from tests.command import Fleet
from tests.hosts.client import know, know_behind
from tests.hosts.proxy import FaultProxy, Faults
from tests.hosts.sshd import MakeHosts, SshHost

JOB = (
    "-b",
    "clock",
    "--cpus",
    "0",
    "--rounds",
    "1",
    "-s",
    "5",
    "--lock",
    "off",
    "-q",
    "--json",
)
LIMITS = ("--connect-timeout", "10", "--reconnect", "0")


def black_hole(held: ExitStack) -> int:
    """A port of loopback where nobody answers a SYN: its queue is full and stays so."""
    listener = held.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port: int = listener.getsockname()[1]
    for _ in range(4):
        caller = held.enter_context(socket.socket())
        caller.setblocking(False)
        caller.connect_ex(("127.0.0.1", port))
    return port


@contextmanager
def bad_fleet(size: int, make: MakeHosts, known_hosts: Path) -> Iterator[list[Host]]:
    """`size` hosts: a tenth refuses, a twentieth each is a black hole, hangs once we
    are in, is cut.
    """
    few = size // 20
    good = make(size - 5 * few)
    hanging = make(few, options=["ForceCommand sleep 300"])
    cut = make(few)
    with ExitStack() as held:
        proxies = [
            held.enter_context(
                FaultProxy((host.address, host.port), Faults(cut_down_after=3_000))
            )
            for host in cut
        ]
        know(known_hosts, *good, *hanging)
        for host, proxy in zip(cut, proxies, strict=True):
            know_behind(known_hosts, proxy, host)

        def make_host(name: str, number: int, host: SshHost, **changes: object) -> Host:
            return host.entry(
                name=f"{name}{number:03}", build=BuildPlace.CONTROLLER, **changes
            )

        entries = [make_host("good", i, host) for i, host in enumerate(good)]
        entries += [
            make_host("refuse", i, good[0], address="127.0.0.1", port=1)
            for i in range(2 * few)
        ]
        entries += [
            make_host("hole", i, good[0], address="127.0.0.1", port=black_hole(held))
            for i in range(few)
        ]
        entries += [make_host("hang", i, host) for i, host in enumerate(hanging)]
        entries += [
            make_host("cut", i, host, address=proxy.address, port=proxy.port)
            for i, (host, proxy) in enumerate(zip(cut, proxies, strict=True))
        ]
        yield entries


def kinds(outcomes: list[dict[str, str]]) -> dict[tuple[str, str], int]:
    """How many hosts of each kind ended how."""
    return Counter(
        (entry["host"].rstrip("0123456789"), entry["state"]) for entry in outcomes
    )


@pytest.mark.slow
def test_the_good_hosts_of_a_bad_fleet_are_measured_and_every_other_is_named(
    fleet: Fleet, make_hosts: MakeHosts, known_hosts: Path
) -> None:
    with bad_fleet(40, make_hosts, known_hosts) as entries:
        fleet.hosts(*entries)
        done = fleet("run", *JOB, *LIMITS)
    assert done.exit_code == 1, done.stderr
    assert kinds(done.json) == {
        ("good", "complete"): 30,
        ("refuse", "failed"): 4,
        ("hole", "failed"): 2,
        ("hang", "failed"): 2,
        ("cut", "failed"): 2,
    }
    messages = {entry["host"]: entry["message"] for entry in done.json}
    for name, words in (
        ("refuse", "refused"),
        ("hole", "no answer within 10 s"),
        ("hang", "did not end within"),
    ):
        assert words in messages[f"{name}000"]
        assert messages[f"{name}000"].startswith(f"{name}000: ")
    assert set(fleet.samples()["host_id"].astype(str)) == {
        f"good{i:03}" for i in range(30)
    }


@pytest.mark.slow
def test_twenty_hosts_behind_one_bastion_with_stock_limits_are_all_measured(
    fleet: Fleet, make_hosts: MakeHosts, known_hosts: Path
) -> None:
    """Each host has a connection of its own through the bastion, whose sshd drops
    strangers beyond ten.
    """
    (bastion,) = make_hosts(
        1, options=["MaxStartups 10:30:100", "AllowTcpForwarding yes"]
    )
    hosts = make_hosts(20)
    know(known_hosts, bastion, *hosts)
    jump = (f"{bastion.address}:{bastion.port}",)
    fleet.hosts(
        *(
            h.entry(name=f"h{i:02}", build=BuildPlace.CONTROLLER, jump=jump)
            for i, h in enumerate(hosts)
        )
    )
    done = fleet("run", *JOB)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert bastion.log.read_text().count("Accepted publickey") == len(hosts)
    assert {entry["state"] for entry in done.json} == {"complete"}
