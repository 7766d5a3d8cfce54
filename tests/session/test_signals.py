"""What a person or a supervisor gets for one signal, for the same one twice, and for a
second one.
"""

import json
import signal
import time
from pathlib import Path

import pytest

from tests.command import Fleet, entry, wait_for
from tests.hosts.sshd import MakeKnown

LONG = (
    "run",
    "-b",
    "clock",
    "--rounds",
    "100000",
    "--samples",
    "3",
    "--lock",
    "off",
    "-q",
    "--json",
)


def measuring(fleet: Fleet) -> bool:
    """Whether some bursts have arrived."""
    return any(
        p.stat().st_size > 3_000
        for p in (fleet.results / ".fleet/journal").glob("*/stream.jsonl")
    )


def test_the_same_signal_sent_twice_at_once_stops_the_agents_once(fleet: Fleet) -> None:
    """As `timeout 60 fleet run` does: to its child, then to the child's process
    group.
    """
    fleet.inventory("hosts:\n  here: {via: local}\n")
    process = fleet.start(*LONG)
    wait_for(lambda: measuring(fleet))
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    (host,) = json.loads(out)["rows"]
    assert process.returncode == 130
    assert host["state"] == "interrupted"
    assert host["bursts"] > 0
    assert err.count("stopping the agents") == 1


@pytest.mark.long
def test_a_second_signal_leaves_at_once_and_json_has_every_host(
    fleet: Fleet, make_known: MakeKnown, tmp_path: Path
) -> None:
    started = tmp_path / "asked"
    stuck = make_known(f"ForceCommand touch {started}; sleep 600")
    fleet.inventory(
        f"hosts:\n  here: {{via: local}}\n{entry(stuck.entry(name='stuck'))}"
    )
    process = fleet.start(*LONG)
    wait_for(lambda: measuring(fleet) and started.exists())
    process.send_signal(signal.SIGINT)
    while process.poll() is None:  # within a second of the first it is the same one
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    here, stuck_row = json.loads(out)["rows"]
    assert process.returncode == 130
    assert here["host"] == "here"
    assert here["state"] == "interrupted"
    assert here["bursts"] > 0
    assert stuck_row["host"] == "stuck"
    assert stuck_row["state"] == "interrupted"
    assert stuck_row["stage"] == "facts"
