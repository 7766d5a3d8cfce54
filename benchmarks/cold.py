"""What hosts cost that have no agent yet, beside the same hosts with one; as ratios,
since machines differ.

    .venv/bin/python benchmarks/cold.py [--hosts 50] [--rounds 3] [--percent 10,4,2,1]

Many: sessions of so many hosts, sshds on loopback, first with empty directories and an
empty cache, then again. Slow: one host whose commands get so many percent of a CPU (a
control group of version 1; root): how long until the first burst is in the journal if
it builds its own agent (`build: host`), gets a finished one from the controller, or
that of a host like it; beside the same host with its agent there.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.scale import write_config  # noqa: E402
from fleet.model import BuildPlace, Host  # noqa: E402
from tests.command import entry  # noqa: E402
from tests.hosts import odd  # noqa: E402
from tests.hosts.sshd import SshHost, host_maker, keygen  # noqa: E402

JOB = [
    "-b",
    "clock",
    "-c",
    "0",
    "--rounds",
    "1",
    "-s",
    "3",
    "--plan",
    "iterations=100",
    "--lock",
    "off",
]
GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000


class Sessions:
    """Sessions of one controller. compiled: a line for each time that a host's compiler
    built something.
    """

    def __init__(self, folder: Path, known_hosts: Path, config: Path) -> None:
        self.folder = folder
        self.known = known_hosts
        self.config = config
        self.compiled = folder / "compiled"
        self._count = 0
        cc = folder / "bin/cc"
        cc.parent.mkdir()
        log = (  # the first half of each build
            f"case $PWD in */0) echo compiled >>{self.compiled} ;; esac"
        )
        cc.write_text(f'#!/bin/sh\n{log}\nexec {shutil.which("cc")} "$@"\n')
        cc.chmod(0o755)
        self._path = f"{cc.parent}:{os.environ['PATH']}"

    def start(self, hosts: Sequence[Host]) -> tuple[subprocess.Popen[str], Path]:
        """Start a session; hand it out with its results."""
        self._count += 1
        results = self.folder / f"results-{self._count}"
        inventory = self.folder / "inventory.yaml"
        named = [
            replace(host, name=f"h{i:03}-{self._count}") for i, host in enumerate(hosts)
        ]
        inventory.write_text(
            "hosts:\n"
            + "".join(entry(replace(h, env={"PATH": self._path})) for h in named)
        )
        words = [
            sys.executable,
            "-m",
            "fleet",
            "run",
            "-i",
            str(inventory),
            "-r",
            str(results),
            "-q",
            *JOB,
        ]
        variables = {
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "FLEET_SSH_CONFIG": str(self.config),
        }
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return process, results

    def whole(self, hosts: Sequence[Host]) -> tuple[float, int, int]:
        """Seconds of a session, runs stored, and how often a host compiled."""
        before = self._times()
        began = time.perf_counter()
        process, results = self.start(hosts)
        process.communicate()
        took_s = time.perf_counter() - began
        return (
            took_s,
            len(list(results.glob("samples/host_id=*/**/*.parquet"))),
            self._times() - before,
        )

    def first_burst(self, host: Host, limit_s: float) -> tuple[float | None, str]:
        """Seconds until a burst is in the journal, None if none came; and what fleet
        said.
        """
        began = time.perf_counter()
        process, results = self.start([host])
        took_s = None
        while (
            process.poll() is None
            and took_s is None
            and time.perf_counter() - began < limit_s
        ):
            journals = results.glob(".fleet/journal/*/stream.jsonl")
            if any(b'"record":"burst"' in journal.read_bytes() for journal in journals):
                took_s = time.perf_counter() - began
            time.sleep(0.02)
        if (
            took_s is None
            and results.exists()
            and list(results.glob("samples/host_id=*/**/*.parquet"))
        ):
            took_s = time.perf_counter() - began
        if process.poll() is None and took_s is None:
            process.terminate()
        return took_s, process.communicate()[0]

    def forget(self, servers: Sequence[SshHost], *, cache: bool = True) -> None:
        """Make hosts cold, and the controller unless its cache is to stay."""
        for server in servers:
            shutil.rmtree(server.home / ".cache", ignore_errors=True)
        if cache:
            shutil.rmtree(self.folder / "cache", ignore_errors=True)

    def _times(self) -> int:
        return len(self.compiled.read_text().split()) if self.compiled.exists() else 0


@contextmanager
def quota(name: str) -> Iterator[Path]:
    """A control group whose members share a part of a CPU; `cpu.cfs_quota_us` says
    which.
    """
    group = GROUPS / name
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    try:
        yield group
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                (GROUPS / "cgroup.procs").write_text(pid)
        group.rmdir()


def many(sessions: Sessions, servers: Sequence[SshHost], rounds: int) -> None:
    """Print a line for each round, and the median ratio."""
    ratios = []
    for _ in range(rounds):
        sessions.forget(servers)
        hosts = [server.entry() for server in servers]
        cold_s, cold, compiled = sessions.whole(hosts)
        warm_s, warm, _ = sessions.whole(hosts)
        ratios.append(cold_s / warm_s)
        print(
            f"{len(hosts)} hosts: cold {cold_s:.1f} s ({cold} stored, {compiled}"
            f" compiled), warm {warm_s:.1f} s ({warm} stored): {ratios[-1]:.2f} x",
            flush=True,
        )
    print(
        f"cold / warm: {statistics.median(ratios):.2f}"
        f" ({min(ratios):.2f}-{max(ratios):.2f})"
    )


def slow(
    sessions: Sessions,
    server: SshHost,
    like: SshHost,
    group: Path,
    percent: float,
    limit_s: float,
) -> None:
    """Print a line for each way of the agent to a host that has so little of a CPU."""
    (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * percent / 100)))
    host = server.entry()
    seconds = {}
    for way in ("own", "finished", "alike", "warm"):
        if way != "warm":
            sessions.forget([server, like])
        if way == "finished":  # another host has had the controller build one
            sessions.whole([replace(like.entry(), build=BuildPlace.CONTROLLER)])
        if way == "alike":
            sessions.whole([like.entry()])
        place = BuildPlace.HOST if way == "own" else BuildPlace.AUTO
        seconds[way], output = sessions.first_burst(replace(host, build=place), limit_s)
        if seconds[way] is None:
            print(
                f"{percent:g} %, {way}: no burst; fleet said: {output.strip()[-600:]}",
                flush=True,
            )
    words = [f"{way} {took:.1f} s" for way, took in seconds.items() if took is not None]
    if warm := seconds["warm"]:
        words += [
            f"{way}/warm {took / warm:.1f} x"
            for way, took in seconds.items()
            if took and way != "warm"
        ]
    print(f"{percent:g} % of a CPU, to the first burst: {', '.join(words)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--percent", default="10,4,2,1")
    parser.add_argument("--limit", type=float, default=400)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fleet-cold-"))
    key = keygen(folder / "key")
    config = write_config(folder / "ssh_config", key, folder / "known_hosts")
    sessions = Sessions(folder, folder / "known_hosts", config)
    percents = [float(word) for word in options.percent.split(",") if word]
    try:
        with host_maker(folder, key) as make, quota(folder.name) as group:
            servers = make(max(options.hosts, 1), options=["MaxStartups 300:30:400"])
            (throttled,) = make(1, options=odd.join_group(group))
            sessions.known.write_text(
                "".join(s.known_hosts_line for s in [*servers, throttled])
            )
            if options.rounds:
                many(sessions, servers, options.rounds)
            for percent in percents:
                slow(sessions, throttled, servers[0], group, percent, options.limit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
