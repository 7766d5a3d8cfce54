"""A Slurm of some nodes on this machine, with one allocation of them all: what `via:
srun` meets.

The daemons end with the tests. All nodes are this machine; their steps are limited to
MEMORY_MIB where version 1 of control groups has the memory.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import needs
from tests.command import wait_for
from tests.hosts.sshd import free_port
from tests.processes import until_we_end

NODES = ("n1", "n2", "n3")
MEMORY_MIB = 160
_GROUPS = Path("/sys/fs/cgroup/memory")
_CONF = """\
ClusterName=fleet
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/{task}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/builtin
SwitchType=switch/none
MpiDefault=none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def allocate_nodes(
    names: Sequence[str] = NODES, settings: str = ""
) -> Iterator[dict[str, str]]:
    """Start it and allocate the nodes; the variables that a command needs to use
    them. settings: more lines of slurm.conf.
    """
    needs.root()
    # a socket's path is short
    folder = Path(tempfile.mkdtemp(prefix="fleet-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    name = socket.gethostname().partition(".")[0]
    cpus = os.cpu_count()
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={name} NodeAddr=127.0.0.1"
        f" Port={free_port('127.0.0.1')} CPUs={cpus} RealMemory={MEMORY_MIB}"
        for node in names
    )
    conf = folder / "slurm.conf"
    task = "cgroup" if _GROUPS.is_dir() else "none"
    port = free_port("127.0.0.1")
    conf.write_text(
        _CONF.format(name=name, port=port, folder=folder, nodes=nodes, task=task)
        + settings
    )
    (folder / "cgroup.conf").write_text("ConstrainRAMSpace=yes\n")
    munge = {
        "key-file": "key",
        "socket": "socket",
        "pid-file": "pid",
        "log-file": "log",
        "seed-file": "seed",
    }
    daemons = [
        [needs.program("munged", "munge"), "--foreground", "--force"]
        + [f"--{option}={folder}/munge.{end}" for option, end in munge.items()],
        [needs.program("slurmctld", "slurmctld"), "-D"],
        *([needs.program("slurmd", "slurmd"), "-D", "-N", node] for node in names),
    ]
    salloc = [
        needs.program("salloc", "slurm-client"),
        "--no-shell",
        "--no-kill",
        "--exclusive",
        "--mem=0",
    ]
    salloc += [f"-N{len(names)}"]
    variables = {"SLURM_CONF": str(conf)}
    environment = os.environ | variables
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("wb") as log:
        try:
            for command in daemons:
                program = [*until_we_end("TERM"), *command]
                started.append(
                    subprocess.Popen(program, env=environment, stdout=log, stderr=log)
                )
                if len(started) == 1:
                    wait_for((folder / "munge.socket").exists)

            def job() -> bool:
                assert all(process.poll() is None for process in started), (
                    folder / "log"
                ).read_text()
                done = subprocess.run(
                    salloc, env=environment, capture_output=True, text=True, check=False
                )
                granted = re.search(r"job allocation ([0-9]+)", done.stderr)
                variables["SLURM_JOB_ID"] = granted[1] if granted else ""
                return done.returncode == 0

            wait_for(job)
            yield variables
            scancel = [
                needs.program("scancel", "slurm-client"),
                variables["SLURM_JOB_ID"],
            ]
            subprocess.run(scancel, env=environment, check=False)
        finally:
            for process in reversed(started):
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
            for group in [path for node in names for path in _groups(node)]:
                with suppress(OSError):  # a step that has not ended yet
                    group.rmdir()
            shutil.rmtree(folder, ignore_errors=True)


def _groups(node: str) -> list[Path]:
    """Those of its steps, the innermost first."""
    root = _GROUPS / f"slurm_{node}"
    return [
        *sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True),
        root,
    ]


def kill(variables: dict[str, str], node: str) -> None:
    """Kill the node's daemon, and its steps with all that runs in them."""
    if not _GROUPS.is_dir():
        needs.missing("no control groups that tell what runs on a node")
    os.kill(
        int(Path(variables["SLURM_CONF"]).with_name(f"slurmd.{node}.pid").read_text()),
        signal.SIGKILL,
    )
    for group in _groups(node):
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


@contextmanager
def restart_daemon(variables: dict[str, str], node: str) -> Iterator[None]:
    """Start its daemon again."""
    command = [
        *until_we_end("TERM"),
        needs.program("slurmd", "slurmd"),
        "-D",
        "-N",
        node,
    ]
    null = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=os.environ | variables, stdout=null, stderr=null
    ) as daemon:
        yield
        daemon.terminate()


def steps(variables: dict[str, str]) -> list[str]:
    """The steps of the allocation that are still running."""
    command = [
        needs.program("squeue", "slurm-client"),
        "--steps",
        "--noheader",
        "--format=%i",
    ]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.split()
