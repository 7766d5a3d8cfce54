"""`fleet run` on QNX hosts over real SSH, on STAND-INS: Linux dressed as QNX. Proves
our code, not QNX.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pytest

from fleet.model import Host
from tests import needs
from tests.command import Done, Fleet, entry, wait_for
from tests.hosts.client import know, know_behind
from tests.hosts.proxy import FaultProxy, Faults
from tests.hosts.qnx import sdp
from tests.hosts.qnx.image import FULL, MINIMAL, NO_SFTP, RECIPES, Image, Recipe

pytestmark = pytest.mark.slow
QUICK = ("--rounds", "3", "--samples", "9", "-q", "--json")
LONG = ("--rounds", "30", "--samples", "9", "-q", "--json")


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stand-in SDP, the same for all tests."""
    needs.program("gcc", "gcc")
    return sdp.install(tmp_path_factory.mktemp("platform") / "sdp")


@pytest.fixture
def noting_platform(tmp_path: Path) -> Path:
    """Return a stand-in SDP whose compiler notes each call in `calls` beside it."""
    needs.program("gcc", "gcc")
    folder = sdp.install(tmp_path / "sdp")
    qcc = folder / sdp.QCC
    qcc.rename(qcc.with_name("qcc.real"))
    qcc.write_text(f'#!/bin/sh\necho "$*" >>{folder}/calls\nexec "$0.real" "$@"\n')
    qcc.chmod(0o755)
    return folder


def qnx(host: Host, platform: Path) -> str:
    """The inventory's entry for a QNX host built for with this SDP."""
    name, _, output = entry(host).partition(": ")
    return (
        f"{name}:"
        f" {json.dumps(json.loads(output) | {'toolchain': {'sdp': str(platform)}})}\n"
    )


def states(done: Done) -> dict[str, str]:
    assert done.stdout, done.stderr
    return {
        row["host"]: f"{row['state']} {row['message']}".strip() for row in done.json
    }


def test_three_qnx_and_three_linux_hosts_are_measured_in_one_session(
    fleet, make_qnx, make_hosts, known_hosts, noting_platform
):
    platform = noting_platform
    stand_ins = [(recipe.name, *make_qnx(recipe)) for recipe in RECIPES]
    linux = make_hosts(3)
    know(known_hosts, *(server for _, server, _ in stand_ins), *linux)
    lines = [qnx(server.entry(name=name), platform) for name, server, _ in stand_ins]
    lines += [
        entry(server.entry(name=f"linux{number}"))
        for number, server in enumerate(linux)
    ]
    fleet.inventory("hosts:\n" + "".join(lines))
    done = fleet("run", *QUICK)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert set(states(done).values()) == {"complete"}
    runs = pd.read_parquet(fleet.results / "runs").set_index("host_id")
    assert set(runs.loc[[name for name, *_ in stand_ins], "os"]) == {"qnx-standin"}
    assert set(runs.loc[[name for name, *_ in stand_ins], "target"]) == {
        "qnx-standin-x86_64"
    }
    assert set(runs.loc[[f"linux{number}" for number in range(3)], "os"]) == {"linux"}
    compiled = [
        call for call in (platform / "calls").read_text().splitlines() if " -o " in call
    ]
    assert len(compiled) == 1, compiled
    for name, _, image in stand_ins:
        assert len([path for path in image.files() if "fleet-agent-" in path]) == 1, (
            name,
            image.files(),
        )
    for name in ("minimal", "linux0"):
        page = fleet("show", name)
        assert page.exit_code == 0, page.stderr
        assert "cas" in page.stdout
        assert ("not QNX" in page.stdout) is (name == "minimal")


def test_where_only_dev_shmem_can_be_written_the_run_says_once_that_no_lock_keeps_fleets_apart(
    fleet, make_qnx, platform
):
    """Its files cannot be locked, and there is no other place for a lock."""
    server, board = make_qnx(NO_SFTP)
    assert [path.name for path in board.writable.iterdir()] == ["shmem"]
    fleet.inventory("hosts:\n" + qnx(server.entry(name="board"), platform))
    done = fleet("run", *QUICK)
    assert done.exit_code == 0, done.stdout
    (host,) = done.json
    lock_notes = [
        note
        for note in host["notes"]
        if "another fleet may measure here at the same time" in note
    ]
    assert len(lock_notes) == 1, host["notes"]
    assert "The machine lock could not be taken" in lock_notes[0]


@pytest.fixture
def pluggable_host(make_qnx, known_hosts, platform, fleet):
    """Return a function of recipe and faults: a stand-in host, `board` in the
    inventory, and its plug.
    """
    with ExitStack() as held:

        def make(recipe: Recipe, **faults: object) -> tuple[Image, FaultProxy]:
            server, image = make_qnx(recipe)
            proxy = held.enter_context(
                FaultProxy((server.address, server.port), Faults(**faults))
            )
            know_behind(known_hosts, proxy, server)
            host = server.entry(name="board", address=proxy.address, port=proxy.port)
            fleet.inventory("hosts:\n" + qnx(host, platform))
            return image, proxy

        yield make


def bursts(fleet: Fleet) -> list[tuple[str, int, int, int]]:
    """Every stored burst by its key."""
    samples = fleet.samples()
    return list(
        zip(
            *(samples[name] for name in ("benchmark", "round", "ping_cpu", "pong_cpu")),
            strict=True,
        )
    )


@pytest.mark.parametrize("recipe", [FULL, NO_SFTP], ids=lambda recipe: recipe.name)
def test_a_link_cut_in_the_upload_leaves_nothing_that_passes_for_the_agent(
    fleet, pluggable_host, recipe
):
    image, proxy = pluggable_host(recipe, cut_up_after=60_000)
    done = fleet("run", *QUICK)
    assert "Traceback" not in done.stderr
    assert done.exit_code != 0
    wait_for(lambda: not image.running())
    halves = {path for path in image.files() if "fleet-agent-" in path}
    assert all("." in path for path in halves), halves

    proxy.faults = Faults()
    done = fleet("run", *QUICK)
    assert done.exit_code == 0, done.stdout + done.stderr
    agents = {
        path for path in image.files() if "fleet-agent-" in path and "." not in path
    }
    assert len(agents) == 1
    wait_for(lambda: not image.running())

    agent = image.writable / agents.pop()
    before = agent.read_bytes()
    agent.write_bytes(before[:9000])  # as a board that lost its power may leave it
    done = fleet("run", *QUICK)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert agent.read_bytes() == before


def test_a_link_cut_in_the_run_costs_no_burst_and_leaves_no_agent(
    fleet, pluggable_host
):
    image, proxy = pluggable_host(MINIMAL)
    process = fleet.start("run", *LONG)
    wait_for(lambda: any(b'"burst"' in path.read_bytes() for path in journals(fleet)))
    proxy.cut(reset=True)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    keys = bursts(fleet)
    assert len(keys) == len(set(keys)) == 2 * 30
    assert proxy.accepted > 1
    wait_for(lambda: not image.running())


def test_results_lost_on_their_way_are_measured_again(fleet, pluggable_host):
    """The agent has ended before anything of it arrived; then the link is cut."""
    image, proxy = pluggable_host(NO_SFTP)
    process = fleet.start("run", *LONG)
    wait_for(lambda: any(b'"hello"' in path.read_bytes() for path in journals(fleet)))
    proxy.freeze()
    wait_for(lambda: not image.running())
    proxy.cut()
    proxy.thaw()
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    keys = bursts(fleet)
    assert len(keys) == len(set(keys)) == 2 * 30
    wait_for(lambda: not image.running())


def test_a_killed_controller_leaves_no_agent_behind(fleet, pluggable_host):
    image, _ = pluggable_host(NO_SFTP)
    process = fleet.start("run", "--rounds", "100000", "--samples", "9", "-q")
    wait_for(lambda: any(b'"burst"' in path.read_bytes() for path in journals(fleet)))
    assert image.running()
    process.kill()
    process.communicate()
    wait_for(lambda: not image.running())


def journals(fleet: Fleet) -> list[Path]:
    return list((fleet.results / ".fleet/journal").glob("*/stream.jsonl"))
