"""What a session costs the controller, beside OpenSSH and other tools at the same job,
in one run.

    .venv/bin/python benchmarks/scale.py [--hosts 1,10,50,200] [--rounds 3] [--parallel
    32] [--peers VENV]

The hosts are sshds on loopback. The job: start the agent that is already there and
bring back the `clock` benchmark of one CPU; fleet besides asks for facts, keeps a
journal, publishes Parquet. `+ questions` is OpenSSH with fleet's questions before and
after the agent, so with fleet's work for the host; `via openssh` is fleet with `via:
openssh` in the inventory. Peers come from a virtual environment made for them: pip
install ansible-core asyncssh parallel-ssh pyinfra. Controller CPU is that of the tool's
processes (user and system, children and orphans such as Ansible's ControlPersist
masters included), not of the sshds. The tools take turns within each round, and CPU
stands next to wall, since other work on the machine slows all of them; look at medians
and spread.

A session of at most 50 hosts also prints what was measured. So a session of one host
does not show the start-up of a large one: what a host costs beyond start-up is taken
between the smallest and the largest number of hosts above 50, such as `--hosts 60,200`.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fleet.facts import probe  # noqa: E402
from fleet.facts.systems import SYSTEMS  # noqa: E402
from fleet.model import Via  # noqa: E402
from tests.command import entry  # noqa: E402
from tests.hosts.sshd import SshHost, host_maker, keygen  # noqa: E402

_PR_SET_CHILD_SUBREAPER = 36
NUMBERS_AT_MOST = 50  # hosts whose numbers a session prints at its end
JOB = [
    "--benchmark=clock",
    "--cpus=0",
    "--rounds=1",
    "--samples=10",
    "--iterations=1000",
]

ASYNCSSH = """
import asyncio, sys, pathlib, asyncssh
key, known, command, parallel, out, *hosts = sys.argv[1:]
async def one(gate, host):
    address, port = host.rsplit(":", 1)
    async with gate, asyncssh.connect(address, int(port), known_hosts=known, client_keys=[key],
                                      agent_path=None, config=None, kex_algs=["curve25519-sha256"],
                                      encryption_algs=["aes128-gcm@openssh.com"]) as session:
        done = await session.run(command, check=True, stdin=asyncssh.DEVNULL)
        pathlib.Path(out, address).write_text(done.stdout)
async def main():
    gate = asyncio.Semaphore(int(parallel))
    await asyncio.gather(*(one(gate, host) for host in hosts))
asyncio.run(main())
"""
PARALLEL_SSH = """
import sys, pathlib
from pssh.clients import ParallelSSHClient
from pssh.config import HostConfig
key, known, command, parallel, out, *hosts = sys.argv[1:]
names = [host.rsplit(":", 1) for host in hosts]
client = ParallelSSHClient([name for name, _ in names], pkey=key, pool_size=int(parallel),
                           host_config=[HostConfig(port=int(port)) for _, port in names])
for got in client.run_command(command):
    pathlib.Path(out, got.host).write_text("\\n".join(got.stdout))
    assert got.exit_code == 0
"""


@dataclass(frozen=True)
class Field:
    """The hosts of one round and what every tool needs to reach them."""

    hosts: list[SshHost]
    key: Path
    known_hosts: Path
    config: Path
    agent: str
    folder: Path
    parallel: int
    peers: Path | None

    @property
    def command(self) -> str:
        """Return the command that every tool runs on every host."""
        return " ".join([self.agent, *JOB, "--format=jsonl"])

    @property
    def names(self) -> list[str]:
        """Every host as address:port."""
        return [f"{host.address}:{host.port}" for host in self.hosts]


def fleet_by_openssh(field: Field) -> list[str]:
    return fleet(field, Via.OPENSSH)


def fleet(field: Field, via: Via = Via.SSH) -> list[str]:
    inventory = field.folder / "inventory.yaml"
    text = "defaults: {build: controller}\nhosts:\n" + "".join(
        entry(host.entry(name=f"host-{number:03}", via=via))
        for number, host in enumerate(field.hosts)
    )
    inventory.write_text(text)
    job = [
        "--lock",
        "off",
        "-b",
        "clock",
        "-c",
        "0",
        "--rounds",
        "1",
        "-s",
        "10",
        "--plan",
        "iterations=1000",
    ]
    return [
        *(
            sys.executable,
            "-m",
            "fleet",
            "run",
            "-i",
            str(inventory),
            "-r",
            str(field.folder / "results"),
        ),
        *(*job, "--parallel", str(field.parallel), "--quiet"),
    ]


def openssh(field: Field) -> list[str]:
    return xargs(field, field.command, "/dev/null")


def openssh_with_questions(field: Field) -> list[str]:
    script = field.folder / "questions.sh"
    linux = SYSTEMS["linux"]
    script.write_text(
        "\n".join(
            (
                probe.render_probe(linux.probe).decode(),
                field.command,
                probe.render_load_probe(linux.load).decode(),
            )
        )
    )
    return xargs(field, "sh -s", str(script))


def xargs(field: Field, command: str, stdin: str) -> list[str]:
    out = field.folder / "openssh"
    out.mkdir(exist_ok=True)
    command_line = (
        f'ssh -F {field.config} -p "${{0##*:}}" "${{0%:*}}" "{command}" <{stdin}'
        f' >{out}/"${{0%:*}}"'
    )
    hosts = field.folder / "hosts"
    hosts.write_text("\n".join(field.names) + "\n")
    return [
        "xargs",
        "-a",
        str(hosts),
        "-P",
        str(field.parallel),
        "-n",
        "1",
        "sh",
        "-c",
        command_line,
    ]


def run_by_script(text: str) -> Callable[[Field], list[str]]:
    def command(field: Field) -> list[str]:
        script = field.folder / "peer.py"
        script.write_text(text)
        out = field.folder / "peer"
        out.mkdir(exist_ok=True)
        python = str(field.peers / "bin" / "python") if field.peers else sys.executable
        return [
            python,
            str(script),
            str(field.key),
            str(field.known_hosts),
            field.command,
            str(field.parallel),
            str(out),
            *field.names,
        ]

    return command


def pyinfra(field: Field) -> list[str]:
    assert field.peers
    hosts = [
        (
            host.address,
            {
                "ssh_port": host.port,
                "ssh_key": str(field.key),
                "ssh_known_hosts_file": str(field.known_hosts),
                "ssh_user": "root",
            },
        )
        for host in field.hosts
    ]
    inventory = field.folder / "pyinfra_hosts.py"
    inventory.write_text(f"hosts = {hosts!r}\n")
    return [
        str(field.peers / "bin" / "pyinfra"),
        "--parallel",
        str(field.parallel),
        "-y",
        str(inventory),
        "exec",
        "--",
        field.command,
    ]


def ansible(field: Field) -> list[str]:
    assert field.peers
    inventory = field.folder / "ansible_hosts"
    lines = [
        f"{host.address} ansible_port={host.port}"
        f" ansible_ssh_private_key_file={field.key}"
        for host in field.hosts
    ]
    lines += ["[all:vars]", f"ansible_ssh_common_args='-F {field.config}'"]
    inventory.write_text("\n".join(lines) + "\n")
    return [
        str(field.peers / "bin" / "ansible"),
        "all",
        "-i",
        str(inventory),
        "-f",
        str(field.parallel),
        "-m",
        "raw",
        "-a",
        field.command,
    ]


OURS: dict[str, Callable[[Field], list[str]]] = {
    "fleet": fleet,
    "via openssh": fleet_by_openssh,
    "openssh+xargs": openssh,
    "+ questions": openssh_with_questions,
}
PEERS: dict[str, Callable[[Field], list[str]]] = {
    "asyncssh": run_by_script(ASYNCSSH),
    "parallel-ssh": run_by_script(PARALLEL_SSH),
    "pyinfra": pyinfra,
    "ansible raw": ansible,
}


def write_config(path: Path, key: Path, known_hosts: Path) -> Path:
    """Write what both ssh and fleet read: the quickest key exchange and cipher, strict
    host keys.
    """
    settings = {
        "BatchMode": "yes",
        "Ciphers": "aes128-gcm@openssh.com",
        "IdentitiesOnly": "yes",
        "IdentityFile": key,
        "KexAlgorithms": "curve25519-sha256",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": known_hosts,
        "GlobalKnownHostsFile": "none",
    }
    path.write_text(
        "Host *\n" + "".join(f"  {name} {value}\n" for name, value in settings.items())
    )
    return path


def time_command(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Run a tool once; return wall seconds, CPU seconds of its processes, and its
    largest process in MB.
    """
    environment = {
        **os.environ,
        "FLEET_SSH_CONFIG": str(folder / "ssh_config"),
        "PYTHONPATH": str(ROOT),
    }
    environment |= {
        "HOME": str(folder),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_HOST_KEY_CHECKING": "1",
    }
    environment["XDG_CACHE_HOME"] = str(folder.parent / "cache")
    # installed programs have their bytecode; ours would be compiled in every session
    for name in ("SSH_AUTH_SOCK", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        orphans = end_orphans()
        if process.returncode != 0:
            output.seek(0)
            printed = output.read().decode("utf-8", "replace")
            raise SystemExit(
                f"{command[:4]}…: exit code {process.returncode}\n{printed[-4000:]}"
            )
    return wall, used.ru_utime + used.ru_stime + orphans, used.ru_maxrss / 1024


def adopt_orphans() -> None:
    """Make processes that a tool leaves behind ours, so that `end_orphans` can count
    them.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot adopt orphans")


def end_orphans() -> float:
    """End the ssh masters that a tool has left running; return the CPU seconds they and
    others took.
    """
    seconds = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        is_ours = int(after_name[1]) == os.getpid()
        if is_ours and command.startswith(b"ssh:"):  # "ssh: /path/of/socket [mux]"
            pid = int(folder.name)
            os.kill(pid, signal.SIGTERM)
            _, _, used = os.wait4(pid, 0)
            seconds += used.ru_utime + used.ru_stime
    return seconds


def put_agents(field: Field) -> str:
    """Bring the agent onto every host with fleet itself; return where it lies below
    every HOME.
    """
    time_command(fleet(field), field.folder)
    (agent,) = field.hosts[0].home.rglob("fleet-agent-*")
    return f"~/{agent.relative_to(field.hosts[0].home)}"


def row(
    count: int, tool: str, taken: list[tuple[float, float, float]]
) -> dict[str, Any]:
    """Print one line of the table; return it with every figure."""
    walls, cpus, peaks = (sorted(column) for column in zip(*taken, strict=True))
    wall = statistics.median(walls)
    cpu = statistics.median(cpus)
    print(
        f"{count:4} hosts  {tool:14} wall {wall:7.2f} s"
        f" ({walls[0]:.2f}-{walls[-1]:.2f})   CPU {cpu:6.2f} s"
        f" ({cpus[0]:.2f}-{cpus[-1]:.2f})   largest process {peaks[-1]:4.0f} MB",
        flush=True,
    )
    return {
        "hosts": count,
        "tool": tool,
        "walls_s": walls,
        "cpus_s": cpus,
        "peaks_mb": peaks,
    }


def print_cost_of_a_host(measurements: list[dict[str, Any]]) -> None:
    """Print the CPU of one more host, where two of the sessions were too large to print
    numbers.
    """
    for tool in dict.fromkeys(measurement["tool"] for measurement in measurements):
        large = [
            measurement
            for measurement in measurements
            if measurement["tool"] == tool and measurement["hosts"] > NUMBERS_AT_MOST
        ]
        if not large:
            continue
        hosts = large[-1]["hosts"] - large[0]["hosts"]
        if hosts:
            most_cpu_s = statistics.median(large[-1]["cpus_s"])
            least_cpu_s = statistics.median(large[0]["cpus_s"])
            cpu_ms = 1000 * (most_cpu_s - least_cpu_s) / hosts
            print(f"{tool:14} {cpu_ms:5.1f} ms of CPU a host beyond start-up")


@contextmanager
def make_field(
    count: int, parallel: int = 1, peers: Path | None = None
) -> Iterator[Field]:
    """Start so many hosts in a new folder; end and remove them behind the block."""
    folder = Path(tempfile.mkdtemp(prefix="fleet-benchmark-"))
    key = keygen(folder / "key")
    try:
        with host_maker(folder, key) as make:
            hosts = make(count, options=["MaxStartups 300:30:400"])
            home = folder / "home"
            home.mkdir()
            known_hosts = home / "known_hosts"
            known_hosts.write_text("".join(host.known_hosts_line for host in hosts))
            yield Field(
                hosts=hosts,
                key=key,
                known_hosts=known_hosts,
                config=write_config(home / "ssh_config", key, known_hosts),
                agent="",
                folder=home,
                parallel=parallel,
                peers=peers,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def time_tools(
    tools: Mapping[str, Callable[[Field], list[str]]], field: Field, rounds: int
) -> dict[str, list[tuple[float, float, float]]]:
    """Run the tools in turn; return the times of each, as `time_command` does."""
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, tool in tools.items():
            taken[name].append(time_command(tool(field), field.folder))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", default="1,10,50")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parallel", type=int, default=32)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--only", default="", help="names of tools, comma-separated")
    options = parser.parse_args()
    tools = OURS | (PEERS if options.peers else {})
    if options.only:
        tools = {name: tools[name] for name in options.only.split(",")}
    counts = [int(word) for word in options.hosts.split(",")]
    measurements = []
    adopt_orphans()
    with make_field(max(counts), options.parallel, options.peers) as field:
        agent = put_agents(field)
        for count in counts:
            some = replace(field, hosts=field.hosts[:count], agent=agent)
            for name, times in time_tools(tools, some, options.rounds).items():
                measurements.append(row(count, name, times))
    print_cost_of_a_host(sorted(measurements, key=lambda row: int(row["hosts"])))
    print(json.dumps(measurements))


if __name__ == "__main__":
    main()
