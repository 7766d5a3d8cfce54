"""Ctrl-C ends all work of a session, builds elsewhere included."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agent.deploy import deploy
from fleet.errors import EXIT_INTERRUPTED
from fleet.model import BuildPlace, Facts, Host, RequestedToolchain, Via
from fleet.remote.connect import connect
from fleet.session import runner
from fleet.session.context import SessionContext
from fleet.session.events import Outcome, State, ignore
from fleet.session.host_progress import HostProgress
from fleet.store import Store
from tests.command import wait_for
from tests.hosts.qnx import sdp
from tests.hosts.sshd import SshHost
from tests.shared import local_connection


@pytest.fixture
def endless_compiler(tmp_path: Path) -> tuple[Path, Path]:
    """An SDP whose compiler is at work until the test ends, and the file that is there
    meanwhile.
    """
    platform = tmp_path / "sdp"
    at_work = tmp_path / "at work"
    (platform / "target/qnx").mkdir(parents=True)
    qcc = platform / sdp.QCC
    qcc.parent.mkdir(parents=True)
    qcc.write_text(
        "#!/bin/sh\n[ $1 != -V ] || { echo gcc_ntox86_64; exit; }\n"
        f"touch '{at_work}'; while [ -e '{at_work}' ]; do sleep 0.1; done\n"
    )
    qcc.chmod(0o755)
    return platform, at_work


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT is Ctrl-C, also in a worker of pytest-xdist."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("where", [BuildPlace.BUILD_HOST, BuildPlace.CONTROLLER])
def test_a_build_here_or_elsewhere_ends_with_the_session(
    where: BuildPlace,
    ssh_host: SshHost,
    known_hosts: Path,
    tmp_path: Path,
    endless_compiler: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known_hosts.write_text(ssh_host.known_hosts_line)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "STOP_PATIENCE_S", 0.1)
    platform, at_work = endless_compiler
    toolchain = RequestedToolchain(sdp=str(platform))
    (scratch := tmp_path / "scratch").mkdir()
    forge = ssh_host.entry(
        name="forge", toolchain=toolchain, env={"TMPDIR": str(scratch)}
    )
    hosts = [
        Host(
            name, "here", Via.LOCAL, build=where, toolchain=toolchain, build_host=forge
        )
        for name in "ab"
    ]
    facts = Facts(os="qnx", arch="x86_64", kernel="8.0.0", workdir=str(tmp_path))
    context = SessionContext(
        session_id="s",
        store=Store(tmp_path / "results"),
        emit=ignore,
        connect=connect,
        parallel=2,
    )

    def deploy_agent(progress: HostProgress) -> Outcome:
        progress.enter("deploy")
        host = progress.host
        deploy(local_connection(host), host, facts, context.builder, progress.note)
        return progress.completed_outcome()

    main = threading.get_ident()

    def interrupt() -> None:
        wait_for(at_work.exists)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        outcomes = runner.run_on_each(hosts, deploy_agent, context)
    finally:
        at_work.unlink(missing_ok=True)
    assert [
        (outcome.state, outcome.stage, outcome.exit_code) for outcome in outcomes
    ] == [(State.INTERRUPTED, "deploy", EXIT_INTERRUPTED)] * 2
    wait_for(lambda: not list(scratch.iterdir()))


@pytest.mark.usefixtures("interruptible")
def test_a_command_of_before_has_nothing_to_finish_and_is_left_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STOP_PATIENCE_S", 3600.0)
    begun = tmp_path / "begun"
    host = Host("here", "here", Via.LOCAL, before=(f"touch '{begun}'; sleep 600",))
    context = SessionContext(
        session_id="s",
        store=Store(tmp_path / "results"),
        emit=ignore,
        connect=connect,
    )
    main = threading.get_ident()

    def interrupt() -> None:
        wait_for(begun.exists)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    (outcome,) = runner.measure_each([host], context)
    assert outcome.state == State.INTERRUPTED
    assert outcome.stage == "before"
