"""The heat map of `fleet run --map` while it fills: on a real terminal, and within any
terminal's height.
"""

import contextlib
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fleet.console.live_table import LiveTable
from fleet.model import Cpu, Facts, Host
from fleet.session.events import (
    BurstsReceived,
    HostFinished,
    Outcome,
    StageEntered,
    State,
)
from fleet.session.live_medians import LiveMedians
from tests import needs
from tests.builders import a_burst, a_run
from tests.command import ROOT
from tests.shared import agents_cache

HOST = Host("board", "192.0.2.1")


def half_measured(cpus: int) -> LiveMedians:
    """The pairs of an even CPU are measured; siblings are the fastest, then those that
    share a cache.
    """
    topology = tuple(
        Cpu(cpu, core=cpu // 2, llc=cpu // 8, package=0) for cpu in range(cpus)
    )
    facts = Facts(os="linux", arch="x86_64", cpus=topology)
    live = LiveMedians(facts, facts.usable_cpus)
    hello = a_run().hello
    assert hello is not None
    for ping in range(0, cpus, 2):
        for pong in range(ping + 1, cpus):
            ticks = (
                1_000
                if ping // 2 == pong // 2
                else 2_000
                if ping // 8 == pong // 8
                else 4_000
            )
            burst = a_burst(ticks=(ticks,) * 3, warmup=0)
            live.add(
                replace(burst, benchmark="cas", ping_cpu=ping, pong_cpu=pong), hello
            )
    return live


def draw(live: LiveMedians, width: int, height: int) -> list[str]:
    console = Console(
        width=width,
        height=height,
        force_terminal=True,
        color_system="truecolor",
        _environ={},
    )
    table = LiveTable([HOST], console, as_map=True)
    table(StageEntered(HOST, "measure"))
    table(BurstsReceived(HOST, 3, 12, live.compute_medians(), live))
    with console.capture() as capture:
        console.print(table.render())
    return capture.get().splitlines()


@pytest.mark.parametrize("height", [5, 9, 24, 60, 120])
@pytest.mark.parametrize("width", [60, 120])
@pytest.mark.parametrize("cpus", [2, 8, 64, 96])
def test_the_map_makes_the_table_no_taller_than_the_terminal(
    cpus: int, width: int, height: int
) -> None:
    lines = draw(half_measured(cpus), width, height)
    assert len(lines) < height
    assert height < 24 or "cas, the last burst of each pair" in "".join(lines)


def test_pairs_without_a_burst_yet_stay_dark_and_the_rest_has_its_colour() -> None:
    lines = draw(half_measured(64), 120, 45)
    rows = [line for line in lines if "▀" in line]
    assert len(rows) == 32
    assert all(line.count("▀") == 64 for line in rows)
    # Rich keeps the codes of a style as it first wrote them: for another test maybe
    # those of 256 colours.
    colours = [set(re.findall(r"38;(2;\d+;\d+;\d+|5;\d+)", line)) for line in rows]
    # of what shares a cache, and of what does not
    assert all(len(colour_set) >= 2 for colour_set in colours)
    assert all("\x1b[30" in line for line in rows)  # the diagonal, and two odd CPUs


def test_a_host_that_has_ended_gives_its_place_to_nobody() -> None:
    console = Console(
        width=80, height=40, force_terminal=True, color_system="truecolor"
    )
    table = LiveTable([HOST], console, as_map=True)
    live = half_measured(8)
    table(BurstsReceived(HOST, 3, 12, (), live))
    table(HostFinished(Outcome(HOST, State.COMPLETE, stage="done")))
    with console.capture() as capture:
        console.print(table.render())
    assert "the last burst" not in capture.get()


@pytest.mark.slow
def test_a_real_run_fills_its_map_on_a_real_terminal(tmp_path: Path) -> None:
    needs.program("cc", "gcc")
    needs.cpus(2)
    (tmp_path / "inventory.yaml").write_text(
        "hosts: {here: {via: local, address: localhost}}\n"
    )
    environment = {
        "TERM": "xterm-256color",
        "CI": "",
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(agents_cache()),
    }
    command = [
        sys.executable,
        "-m",
        "fleet",
        "run",
        "-b",
        "cas",
        "--rounds",
        "3",
        "--plan",
        "spread_s=4s",
        "--map",
    ]
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        os.chdir(tmp_path)
        os.execve(sys.executable, command, environment)
    printed = b""
    with contextlib.suppress(OSError):  # EIO at the end of a pty
        while piece := os.read(terminal, 1 << 16):
            printed += piece
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, printed.decode()
    meanwhile = printed.split(b"host stored")[0]
    end = printed.split(b"host stored")[1]
    assert b"here, cas, the last burst of each pair" in meanwhile
    assert b"Next:" in end
    assert b"\\x1b" not in printed  # moves of the cursor are made, not shown
    climbs = [
        len(re.findall(rb"\x1b\[1A", run))
        for run in re.findall(rb"(?:\x1b\[2K|\x1b\[1A|\r)+", meanwhile)
    ]
    assert 5 <= max(climbs) < 24
