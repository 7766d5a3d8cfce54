"""Governor and boost: changed only when asked for, and put back whatever ends
the run.
"""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import (
    LONG,
    QUICK,
    measure,
    notes,
    run,
    start_agent,
    wait_for_worker,
)
from tests.native.preload import preload

CPUS = sorted(os.sched_getaffinity(0))[:2]


@pytest.fixture
def machine(tmp_path):
    """A pretended tree of sysfs with a governor for each CPU, and boost."""
    needs.cpus(2)
    for cpu in os.sched_getaffinity(0):
        folder = tmp_path / f"cpu{cpu}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("powersave\n")
    (tmp_path / "cpufreq").mkdir()
    (tmp_path / "cpufreq" / "boost").write_text("1\n")
    return tmp_path


def env(machine):
    return preload("sysfs.c") | {"SYSFS": str(machine)}


def state(machine):
    governors = [
        (machine / f"cpu{cpu}/cpufreq/scaling_governor").read_text().strip()
        for cpu in CPUS
    ]
    return (*governors, (machine / "cpufreq/boost").read_text().strip())


BEFORE = ("powersave", "powersave", "1")
DURING = ("performance", "performance", "0")
CHANGE = (
    "--governor",
    "performance",
    "--boost",
    "off",
    "-b",
    "cas",
    "-c",
    ",".join(map(str, CPUS)),
)


def wait_until_restored(machine):
    while state(machine) != BEFORE:
        time.sleep(0.01)


def test_settings_are_put_back_at_the_end_and_a_note_says_what_was_changed(machine):
    records = measure(*CHANGE, *QUICK, env=env(machine))
    assert state(machine) == BEFORE
    assert records[0]["plan"]["governor"] == "performance"
    assert records[0]["plan"]["boost"] == "off"
    cpus = f"{CPUS[0]}-{CPUS[1]}" if CPUS[1] == CPUS[0] + 1 else f"{CPUS[0]},{CPUS[1]}"
    assert notes(records)[:2] == [
        (
            f"The governor of CPUs {cpus} is performance for the time of this run;"
            " before and after: powersave."
        ),
        "The boost is off for the time of this run; before and after: on.",
    ]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, None])
def test_settings_are_put_back_when_the_agent_is_killed_or_the_link_dies(machine, how):
    with start_agent(*CHANGE, *LONG, "--until-eof", env=env(machine)) as process:
        wait_for_worker(process.pid, CPUS[0])
        assert state(machine) == DURING
        if how is None:
            process.stdin.close()
        else:
            process.send_signal(how)
        process.wait()
        wait_until_restored(machine)


def test_who_puts_settings_back_keeps_no_stream_open_and_does_not_stay(machine):
    with start_agent(*CHANGE, *LONG, env=env(machine)) as process:
        wait_for_worker(process.pid, CPUS[0])
        (guardian,) = (
            Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        )
        ours = {
            Path(f"/proc/{process.pid}/fd/{number}").readlink() for number in range(3)
        }
        assert ours.isdisjoint(
            path.readlink() for path in Path(f"/proc/{guardian}/fd").iterdir()
        )
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
    wait_until_restored(machine)
    while Path(f"/proc/{guardian}").exists():
        time.sleep(0.01)


def test_without_permission_it_is_refused_and_nothing_is_measured(machine):
    needs.root()
    locked = machine / f"cpu{CPUS[1]}/cpufreq/scaling_governor"
    locked.chmod(0o444)
    drop = (
        needs.program("setpriv", "util-linux"),
        "--bounding-set",
        "-dac_override",
        "--inh-caps",
        "-dac_override",
    )
    done = run(*CHANGE, *QUICK, "-f", "jsonl", prefix=drop, env=env(machine))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(
        "fleet-agent: may not set the governor (Permission denied)"
    )
    assert state(machine) == BEFORE  # the other CPU's and boost too


def test_a_machine_without_such_a_setting_says_so(machine):
    shutil.rmtree(machine / f"cpu{CPUS[0]}")
    done = run(*CHANGE, *QUICK, env=env(machine))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "fleet-agent: this machine lets nobody set its governor\n"


def test_where_boost_is_told_the_other_way_round_it_is_understood(machine):
    (machine / "cpufreq" / "boost").unlink()
    (machine / "intel_pstate").mkdir()
    no_turbo = machine / "intel_pstate" / "no_turbo"
    no_turbo.write_text("0\n")
    with start_agent("--boost", "off", "-b", "cas", *LONG, env=env(machine)) as process:
        assert "before and after: on" in json.loads(process.stdout.readline())["text"]
        assert no_turbo.read_text().strip() == "1"
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert no_turbo.read_text().strip() == "0"


def test_unless_asked_for_nothing_is_touched(machine):
    for path in machine.rglob("*"):
        if path.is_file():
            path.write_text("untouched\n")
    assert run("-b", "cas", *QUICK, env=env(machine)).returncode == 0
    assert state(machine) == ("untouched",) * 3
