"""Fixtures every folder may use: sshds on loopback, and known_hosts files of the test's
own.
"""

import gc
import os
import pwd
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fleet.cli import main
from fleet.demo import unpack_lab
from tests import shared
from tests.command import Done
from tests.hosts import slurm
from tests.hosts.client import know
from tests.hosts.sshd import MakeHosts, MakeKnown, SshHost, host_maker, keygen

# How long an example takes depends on what else the machine does.
settings.register_profile(
    "fleet", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fleet")


_reported = threading.Event()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say that the tests are still being collected, in all processes, until the first
    of them has ended.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("numprocesses", 0):
        return

    def speak() -> None:
        began = time.monotonic()
        while not _reported.wait(8):
            reporter.write_line(
                "collecting, and making what tests share:"
                f" {time.monotonic() - began:.0f} s"
            )

    threading.Thread(target=speak, daemon=True).start()


def pytest_runtest_logreport() -> None:
    """From now on the results speak."""
    _reported.set()


@pytest.hookimpl(tryfirst=True)  # before the summary is printed
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that skipped more tests than $FLEET_SKIPS_AT_MOST."""
    _reported.set()
    limit = os.environ.get("FLEET_SKIPS_AT_MOST")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if limit is None or reporter is None:
        return
    skips = len(reporter.stats.get("skipped", ()))
    if skips > int(limit):
        reporter.ensure_newline()
        reporter.write_line(f"{skips} tests were skipped, and {limit} may be", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    """Spare every later garbage collection the thousands of tests and modules that
    stay.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def fleet_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs `fleet` with these arguments in this process, where what it calls can be
    replaced.
    """

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["fleet", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session", autouse=True)
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests, shared by its processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    os.environ[shared.VARIABLE] = str(folder)
    os.environ["XDG_CACHE_HOME"] = str(shared.agents_cache())
    return folder


@pytest.fixture(scope="session")
def client_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key that every sshd of the tests lets in."""
    return keygen(tmp_path_factory.mktemp("keys") / "id_tests")


@pytest.fixture(scope="session")
def make_hosts(
    tmp_path_factory: pytest.TempPathFactory, client_key: Path
) -> Iterator[MakeHosts]:
    """`make_hosts(3)` starts three sshds that live until the tests end."""
    with host_maker(tmp_path_factory.mktemp("hosts"), client_key) as make:
        yield make


@pytest.fixture(scope="session")
def ssh_host(make_hosts: MakeHosts) -> SshHost:
    """One ordinary sshd, shared by all tests: do not stop it."""
    return make_hosts(1)[0]


@pytest.fixture(scope="session")
def slurm_nodes() -> Iterator[dict[str, str]]:
    """A Slurm with an allocation of three nodes; the variables to use it."""
    with slurm.allocate_nodes() as variables:
        yield variables


@pytest.fixture
def slurm_job(
    slurm_nodes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Set the variables of a Slurm job."""
    for name, value in slurm_nodes.items():
        monkeypatch.setenv(name, value)
    return slurm_nodes


@pytest.fixture(scope="session")
def made_lab(run_folder: Path) -> Path:
    """Return the lab of `fleet demo`, shared by all tests: only to be read."""
    return shared.made_once(run_folder / "lab", unpack_lab)


@pytest.fixture
def account_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own for the account of the tests; $HOME names another folder."""
    home = tmp_path / "account"
    home.mkdir()
    *account, _home, shell = pwd.getpwuid(os.getuid())
    moved = pwd.struct_passwd((*account, str(home), shell))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: moved)
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    return home


@pytest.fixture
def known_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty known_hosts file, which ssh_config names for every host; no agent,
    nothing of ~/.ssh.
    """
    path = tmp_path / "known_hosts"
    path.touch(mode=0o600)
    config = tmp_path / "ssh_config"
    config.write_text(
        f"Host *\n  UserKnownHostsFile {path}\n  GlobalKnownHostsFile none\n"
    )
    monkeypatch.setenv("FLEET_SSH_CONFIG", str(config))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return path


@pytest.fixture
def make_known(make_hosts: MakeHosts, known_hosts: Path) -> MakeKnown:
    """`make_known("MaxSessions 1")`: one more sshd, with these options; no other is
    known from then on.
    """

    def make(*options: str, **changes: str) -> SshHost:
        (server,) = make_hosts(1, options, **changes)
        know(known_hosts, server)
        return server

    return make
