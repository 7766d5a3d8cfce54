"""Wherever a function of fleet fails, the command says whose fault it is, and blames no
run.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import NoReturn

import pytest

from fleet.analysis.reduce import load_samples
from fleet.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    DamagedFileError,
    LibraryError,
    MemoryLimitError,
    StoreError,
)
from fleet.model import Host
from fleet.session.context import HostAccess
from fleet.session.events import Outcome, State, exit_code
from fleet.session.host_progress import HostProgress
from fleet.session.runner import run_on_each
from fleet.store import reading
from tests import lies
from tests.command import Fleet
from tests.planting import EXCEPTIONS

# A function of each package that commands pass through, and a command that calls it.
PLACES: Mapping[str, tuple[str, ...]] = {
    "cli.inventory_file.load_inventory": ("hosts",),
    "inventory.reader.read_inventory": ("hosts",),
    "inventory.select.load_hosts": ("hosts",),
    "inventory.document._Walk.convert": ("hosts",),
    "console.hosts.render_hosts": ("hosts",),
    "plan.merge.merge_plan": ("run", "--dry-run"),
    "hostnames.expand_range": ("show", "h0"),
    "session.runner.run_host": ("run", "-q"),
    "remote.connect.connect": ("run", "-q"),
    "facts.gather.gather": ("run", "-q"),
    "agent.deploy.deploy": ("run", "-q"),
    "store.values.check_values": ("verify",),
    "store.values.check_bursts": ("verify",),
    "store.reading.extract_record": ("show", "h0"),
    "store.gate._value_type": ("show", "all"),
    "model.benchmark.find_name_problem": ("show", "all"),
    "store.rows.unpack_record": ("show", "all"),
    "analysis.reduce.matrices.reduce_bursts": ("show", "all"),
    "model.benchmark._require_short": ("show", "all"),
    "analysis.reduce.host_numbers.summarize_hosts": ("show", "all"),
    "analysis.views.topology.describe_topology": ("show", "h0"),
    "analysis.compare.comparison.compare": ("compare", "h0", "h1"),
    "analysis.report.page.render": ("report", "all", "-o", "-"),
    "analysis.exchange.export.export_matrix": ("export", "all"),
    "text.printable": ("show", "all"),
    "remote.connection.Connection.__exit__": ("check", "-q"),
    "console.progress._LineWriter.break_silence": ("check",),  # in a thread
}
CODES: Mapping[str, int] = {
    "MemoryError": MemoryLimitError.exit_code,
    "OSError": StoreError.exit_code,
    "ImportError": LibraryError.exit_code,
    "KeyboardInterrupt": EXIT_INTERRUPTED,
}


@pytest.fixture(scope="module")
def stored_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a healthy run on each of two hosts."""
    root = tmp_path_factory.mktemp("stored") / "results"
    for number in range(2):
        lies.publish(root, lies.RECORDED.read_bytes().splitlines(), number)
    return root


@pytest.fixture
def fleet(tmp_path: Path, stored_root: Path) -> Iterator[Fleet]:
    shutil.copytree(stored_root, tmp_path / "results")
    with Fleet(tmp_path) as command:
        command.inventory("hosts: {localhost: {via: local}}\n")
        yield command


CASES = [*zip(PLACES, cycle(EXCEPTIONS), strict=False)]
REST = [case for case in product(PLACES, EXCEPTIONS) if case not in CASES]


@pytest.mark.parametrize(
    ("place", "kind"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in REST)],
)
def test_a_failing_function_blames_no_run_and_no_host(
    fleet: Fleet, place: str, kind: str
) -> None:
    done = replace(fleet, planted=(f"fleet.{place}", kind))(*PLACES[place])
    output = " ".join((done.stdout + done.stderr).split())
    code = CODES.get(kind, EXIT_BUG)
    assert done.exit_code == code, (
        kind,
        output,
    )
    assert ("a bug in fleet" in output) == (code == EXIT_BUG), (
        kind,
        output,
    )
    assert not [
        word for word in ("Traceback", "withdraw", "left out") if word in output
    ], (kind, output)


@pytest.mark.parametrize("place", PLACES)
def test_the_traceback_of_a_bug_is_shown_when_asked_for(
    fleet: Fleet, place: str
) -> None:
    debug = replace(
        fleet, planted=(f"fleet.{place}", "NameError"), environment={"FLEET_DEBUG": "1"}
    )
    done = debug(*PLACES[place])
    assert done.exit_code == EXIT_BUG, done.stderr
    assert "Traceback" in done.stderr, done.stderr


def test_a_bug_on_one_host_costs_no_other_host_its_outcome() -> None:
    def work(progress: HostProgress) -> Outcome:
        if progress.host.name == "b":
            raise KeyError("planted")
        return progress.completed_outcome()

    def connect(host: Host) -> NoReturn:
        raise AssertionError(host)

    hosts = [Host(name, "192.0.2.1") for name in "abc"]
    outcomes = run_on_each(
        hosts, work, HostAccess(connect=connect, emit=lambda _: None)
    )
    assert [outcome.state for outcome in outcomes] == [
        State.COMPLETE,
        State.FAILED,
        State.COMPLETE,
    ]
    assert "b: a bug in fleet" in outcomes[1].message
    assert exit_code(outcomes) == EXIT_BUG


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_a_file_that_cannot_be_opened_is_not_called_damaged(
    stored_root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: str) -> NoReturn:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(reading, "require_regular", refuse)
    with pytest.raises(StoreError, match=os.strerror(number)) as refused:
        load_samples(stored_root, run_id="r20260102T030405Z-00000000")
    assert isinstance(refused.value, DamagedFileError) == (number != errno.EMFILE), (
        "that is of no one file"
    )
    assert "copy" not in str(refused.value)
