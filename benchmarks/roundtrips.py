"""How many round trips a host costs: the slope of a session's time over the delay of
the line to the host.

    .venv/bin/python benchmarks/roundtrips.py [--delays 50,200,800] [--rounds 3]

The line is a proxy in front of an sshd on loopback. It hands on each piece a fixed time
after it came, so that pieces sent one behind the other stay so, as on a long line; it
neither loses nor narrows anything, and TCP's slow start is not in it: answers of more
than some 14 KB cost a real line more. The proxy accepts by itself, so the round trip of
TCP's own handshake is added. The job is that of `benchmarks/scale.py`: cached, the
agent is there already; cold, the controller has to send it; ssh, a bare `ssh host
agent`. The three take turns within each round. A slope is of the shortest and the
longest delay: on a busy machine choose them far apart, since what other work costs is
in both.
"""

import argparse
import contextlib
import json
import os
import queue
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.scale import Field, fleet, make_field, time_command  # noqa: E402
from fleet.model import Via  # noqa: E402
from tests.hosts.sshd import SshHost  # noqa: E402

HANDSHAKE = 1.0  # round trips of TCP's own that the proxy hides


class DelayLine:
    """Listens on loopback and carries every connection to `target`, each direction
    `one_way_s` late.
    """

    def __init__(self, target: tuple[str, int], one_way_s: float) -> None:
        self._target = target
        self._one_way_s = one_way_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address, self.port = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nothing more."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                theirs = socket.create_connection(self._target)
                for end in (ours, theirs):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._carry(ours, theirs)
                self._carry(theirs, ours)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def take() -> None:
            data = b"begun"
            while data:
                try:
                    data = source.recv(1 << 16)
                except OSError:
                    data = b""
                pieces.put((time.monotonic() + self._one_way_s, data))

        def give() -> None:
            with contextlib.suppress(OSError):
                while True:
                    due, data = pieces.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)

        threading.Thread(target=take, daemon=True).start()
        threading.Thread(target=give, daemon=True).start()


def seconds_of_a_host(field: Field, via: Via = Via.SSH) -> float:
    """Run a session of one host and return how long the host took, by fleet's own
    account.
    """
    done = subprocess.run(
        [*fleet(field, via), "--json"],
        cwd=field.folder,
        env={
            **os.environ,
            "FLEET_SSH_CONFIG": str(field.config),
            "HOME": str(field.folder),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    (outcome,) = json.loads(done.stdout)["rows"]
    return float(outcome["seconds"])


def cold(field: Field, host: SshHost, via: Via = Via.SSH) -> float:
    for agent in host.home.rglob("fleet-agent-*"):
        agent.unlink()
    return seconds_of_a_host(field, via)


def ssh(field: Field, host: SshHost) -> float:
    line = field.hosts[0]
    agent = next(host.home.rglob("fleet-agent-*"))
    command = (
        f"{agent} --benchmark=clock --cpus=0 --rounds=1 --samples=10 --iterations=1000"
        " --format=jsonl"
    )
    return time_command(
        ["ssh", "-F", str(field.config), "-p", str(line.port), line.address, command],
        field.folder,
    )[0]


def through(field: Field, host: SshHost, one_way_s: float) -> tuple[DelayLine, Field]:
    """Enter the host behind a line."""
    line = DelayLine((host.address, host.port), one_way_s)
    behind = SshHost(host.folder, host.client_key)
    behind.address = line.address
    behind.port = line.port
    key = " ".join(host.known_hosts_line.split()[1:])
    with field.known_hosts.open("a") as known_hosts:
        known_hosts.write(f"[{line.address}]:{line.port} {key}\n")
    return line, replace(field, hosts=[behind])


Way = Callable[[Field, SshHost], float]  # seconds of a host, behind a line
WAYS: dict[str, Way] = {
    "cached": lambda field, _: seconds_of_a_host(field),
    "cold": cold,
    "cached, via openssh": lambda field, _: seconds_of_a_host(field, Via.OPENSSH),
    "cold, via openssh": lambda field, host: cold(field, host, Via.OPENSSH),
    "ssh": ssh,
}


def time_ways(
    lines: Sequence[Field], host: SshHost, rounds: int
) -> dict[str, list[list[float]]]:
    """Return the seconds of each way: rounds x lines."""
    taken: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            taken[name].append([way(field, host) for field in lines])
    return taken


def print_way(
    name: str, rounds: Sequence[Sequence[float]], delays: Sequence[float]
) -> None:
    """Print the round trips of a way, and its seconds at each delay."""
    longest = delays[-1] - delays[0]
    slopes = [(times[-1] - times[0]) / longest + HANDSHAKE for times in rounds]
    seconds = []
    for delay, times in zip(delays, zip(*rounds, strict=True), strict=True):
        seconds.append(f"{statistics.median(times):.2f} s at {1000 * delay:.0f} ms")
    print(
        f"{name:19} {statistics.median(slopes):5.1f} round trips "
        f"({min(slopes):.1f}-{max(slopes):.1f}); {', '.join(seconds)}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--delays",
        default="50,200,800",
        help="milliseconds of a round trip, comma-separated",
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    delays = [float(word) / 1000 for word in options.delays.split(",")]
    with make_field(1) as field, contextlib.ExitStack() as lines:
        (host,) = field.hosts
        seconds_of_a_host(field)
        behind_lines = []
        for delay in delays:
            line, behind = through(field, host, delay / 2)
            lines.callback(line.close)
            behind_lines.append(behind)
        taken = time_ways(behind_lines, host, options.rounds)
        for name, rounds in taken.items():
            print_way(name, rounds, delays)


if __name__ == "__main__":
    main()
