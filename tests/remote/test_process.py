"""A client whose work is elsewhere is ended by message: it tells its host, and nothing is left there."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fleet.remote.command import Process
from tests.command import wait_for
from tests.processes import is_running

AFAR = "setsid sh -c 'echo $$; exec sleep 300' & far=$!; "  # what no signal to the client's group reaches
CLIENTS = {
    "end-of-file": AFAR + "trap '' TERM; cat >/dev/null; sleep 0.2; kill $far",
    "SIGTERM": AFAR + "trap 'kill $far; exit' TERM; while :; do sleep 0.05; done",
}


@pytest.fixture
def far() -> Iterator[list[int]]:
    left: list[int] = []
    yield left
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def started(script: str, far: list[int]) -> Process:
    process = Process("board", ["/bin/sh", "-c", script], {})
    far.append(int(process.stdout.readline()))
    return process


@pytest.mark.parametrize("message", CLIENTS)
def test_a_client_has_the_time_to_end_what_it_started_afar(message: str, far: list[int]) -> None:
    process = started(CLIENTS[message], far)
    process.end()
    wait_for(lambda: not is_running(far[0]))


def test_a_client_that_heeds_no_message_is_killed(far: list[int]) -> None:
    process = started("sleep 300 & echo $!; trap '' TERM; while :; do sleep 0.05; done", far)
    process.end(0.1)
    assert process.wait(0) == 128 + signal.SIGKILL
    wait_for(lambda: not is_running(far[0]))  # of its own group
