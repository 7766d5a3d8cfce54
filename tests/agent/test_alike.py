"""Hosts that are alike: the first of them compiles, the others get what it has
built.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.agent.build import on_controller, on_host
from fleet.agent.build.on_controller import Builder
from fleet.agent.deploy import deploy, preview
from fleet.errors import BuildError, LinkError
from fleet.model import (
    Agent,
    BuildPlace,
    Compiler,
    Facts,
    Host,
    RequestedToolchain,
    Via,
)
from fleet.remote.cancellation import Cancellation, Cancelled
from fleet.remote.connect import connect
from fleet.remote.connection import Connection
from tests import needs
from tests.agent.test_deploy import HERE, SMALL_AGENT, read_build_id, script
from tests.command import wait_for
from tests.hosts.sshd import SshHost
from tests.shared import local_connection

VERSION = "cc 12.2"
SENT = f"built with {VERSION} on a host like this one"


class Hosts:
    """Hosts, each with a directory and a compiler; `compiled` names those that
    compiled, in order.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "compiled"
        self.notes: list[str] = []
        self.cancellation = Cancellation()
        self.builder = self.session()

    def session(self) -> Builder:
        """A session of its own, on the same controller."""
        return Builder(self.folder / "cache", cancellation=self.cancellation)

    def make(
        self, name: str, compiler: str = 'exec cc "$@"', **changes: object
    ) -> Host:
        """A host whose compiler runs this script; of a build it logs the first half."""
        (self.folder / name).mkdir(exist_ok=True)
        script(
            self.folder / name / "cc",
            f"case $PWD in */0) echo {name} >>{self.log} ;; esac;"
            f" PATH={os.environ['PATH']}\n{compiler}",
        )
        path = f"{self.folder / name}:{os.environ['PATH']}"
        host = replace(HERE, name=name, address=name, via=Via.SSH, env={"PATH": path})
        return replace(host, **changes)  # type: ignore[arg-type]

    def facts(self, host: Host, **more: object) -> Facts:
        workdir = self.folder / host.name / "workdir"
        workdir.mkdir(mode=0o700, exist_ok=True)
        facts = Facts(
            os="linux",
            arch=os.uname().machine,
            libc="glibc 2.99",
            cpu_model="a CPU",
            workdir=str(workdir),
            workdir_entries=tuple(sorted(file.name for file in workdir.iterdir())),
            compilers=(Compiler("cc", VERSION),),
        )
        return replace(facts, **more)  # type: ignore[arg-type]

    def deploy(self, host: Host, **more: object) -> Agent:
        with local_connection(host) as connection:
            return deploy(
                connection,
                host,
                self.facts(host, **more),
                self.builder,
                self.notes.append,
            )

    def together(self, hosts: list[Host]) -> list[Agent]:
        """Deploy to all of them at once."""
        with ThreadPoolExecutor(len(hosts)) as pool:
            return list(pool.map(self.deploy, hosts))

    @property
    def compiled(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def lie_there(self, host: Host) -> list[str]:
        return [file.name for file in (self.folder / host.name / "workdir").iterdir()]


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    needs.program("cc", "gcc")
    monkeypatch.setattr("fleet.agent.build.source.read_sources", lambda: SMALL_AGENT)
    monkeypatch.setattr(on_controller, "POLL_S", 0.01)
    return Hosts(tmp_path)


def test_many_alike_hosts_compile_once(hosts: Hosts) -> None:
    agents = hosts.together([hosts.make(f"h{i}") for i in range(8)])
    assert len(hosts.compiled) == 1
    assert sorted(agent.place for agent in agents) == sorted(
        [f"built on the host with {VERSION}", *[SENT] * 7]
    )
    assert len({(agent.build, Path(agent.path).name) for agent in agents}) == 1
    assert all(read_build_id(agent.path) == agent.build for agent in agents)
    assert hosts.notes == []


def test_what_a_host_has_built_is_there_for_those_like_it_in_later_sessions(
    hosts: Hosts,
) -> None:
    hosts.deploy(hosts.make("first"))
    hosts.builder = hosts.session()
    second = hosts.make("second")
    words = f"would be sent, {SENT}"
    assert preview(second, hosts.facts(second), hosts.builder).description == words
    agent = hosts.deploy(second)
    assert agent.place == SENT
    assert preview(second, hosts.facts(second), hosts.builder).path == agent.path
    assert hosts.deploy(second).place == "already on the host"
    assert hosts.compiled == ["first"]


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"build": BuildPlace.HOST}, {}),
        ({"via": Via.LOCAL}, {}),
        ({"toolchain": RequestedToolchain(cflags=("-O1",))}, {}),
        ({}, {"libc": "musl 1.2.3"}),
        ({}, {"libc": None}),
        ({}, {"compilers": (Compiler("cc", "cc 13.1"),)}),
        (
            {},
            {"cpu_flags": ("avx512f",)},
        ),  # for the flags of HERE's toolchain may say `native`
    ],
    ids=["build: host", "this machine", "flags", "libc", "no libc", "version", "CPU"],
)
def test_a_host_that_is_not_alike_compiles_itself(hosts: Hosts, changes, facts) -> None:
    hosts.deploy(hosts.make("first"))
    other = hosts.deploy(hosts.make("other", **changes), **facts)
    assert hosts.compiled == ["first", "other"]
    assert other.place.startswith("built on the host with ")


def test_where_the_first_fails_the_next_tries_and_each_says_why(hosts: Hosts) -> None:
    """The one that fails falls back to the controller, whose build is then the first
    choice of the others.
    """
    hosts.builder.build = lambda *_: pytest.fail("the controller need not build")  # type: ignore[method-assign]
    broken = hosts.make(
        "broken", "echo 'no space left' >&2; exit 1", build=BuildPlace.AUTO
    )
    # so there is no way out
    wished = replace(broken, toolchain=replace(broken.toolchain, cc="cc"))
    others = [
        replace(hosts.make(f"h{i}"), toolchain=wished.toolchain) for i in range(4)
    ]
    errors: list[BuildError] = []

    def tried(host: Host) -> Agent | None:
        try:
            return hosts.deploy(host)
        except BuildError as err:
            errors.append(err)
            return None

    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(tried, wished)
        wait_for(lambda: hosts.compiled)
        agents = list(pool.map(tried, others))
    assert first.result() is None
    assert [str(err).splitlines()[0] for err in errors] == [
        "broken: cc on the host could not build the agent:"
    ]
    assert "no space left" in str(errors[0])
    assert hosts.compiled[0] == "broken"
    assert len(hosts.compiled) == 2
    assert all(agents)


def test_an_agent_that_does_not_run_on_an_alike_host_is_removed_and_that_host_compiles(
    hosts: Hosts,
) -> None:
    first = hosts.deploy(hosts.make("first"))
    (folder,) = (hosts.folder / "cache").glob("alike-*")
    binary = bytearray(folder.read_bytes())
    binary[64:] = bytes(len(binary) - 64)  # an ELF header and nothing else
    binary[56:58] = b"\0\0"
    folder.write_bytes(binary)
    hosts.builder = hosts.session()
    second = hosts.deploy(hosts.make("second"))
    (note,) = hosts.notes
    assert f"second: an agent {SENT} does not run there (exit code 126: " in note
    assert hosts.compiled == ["first", "second"]
    assert (
        hosts.lie_there(hosts.make("second"))
        == [Path(second.path).name]
        == [Path(first.path).name]
    )


@pytest.mark.slow
def test_hosts_do_not_wait_for_ever_for_a_slow_one(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another begins as well, and the slow one takes its build when its own time
    is up.
    """
    monkeypatch.setattr(on_controller, "PATIENCE_S", 0.0)
    monkeypatch.setattr(on_host, "BUILD_TIMEOUT_S", 3.0)
    slow = hosts.make("slow", "sleep 1000")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(hosts.deploy, slow)
        wait_for(lambda: hosts.compiled)
        assert hosts.deploy(hosts.make("quick")).place.startswith("built on the host")
        assert late.result().place == SENT
    assert hosts.lie_there(slow) == [Path(late.result().path).name]


class Endless:
    """A compiler that starts another process and never ends."""

    def __init__(self, hosts: Hosts, name: str = "slow") -> None:
        self.pids = hosts.folder / "pids"
        self.host = hosts.make(
            name, f"sleep 1000 & echo $! $$ >>{self.pids}; sleep 1000"
        )

    def begun(self) -> bool:
        # two of each half
        return self.pids.exists() and len(self.pids.read_text().split()) == 4

    def ended(self) -> bool:
        return not any(_runs(pid) for pid in self.pids.read_text().split())


def _runs(pid: str) -> bool:
    """Whether it runs; a process that nobody has waited for has ended."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


@pytest.mark.long
def test_a_build_that_takes_too_long_is_ended_and_says_the_ways_out(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_host, "BUILD_TIMEOUT_S", 3.0)
    slow = Endless(hosts)
    with pytest.raises(
        BuildError,
        match=(
            r"slow: cc on the host did not build .* 3 s and was ended\. Set `build:"
            r" contr"
        ),
    ):
        hosts.deploy(replace(slow.host, build=BuildPlace.HOST))
    wait_for(slow.ended)
    wait_for(lambda: not hosts.lie_there(slow.host))

    agent = hosts.deploy(slow.host)
    assert "on the controller" in agent.place
    assert "The agent comes from the controller instead." in hosts.notes[-1]


def test_a_build_ends_with_the_session(hosts: Hosts) -> None:
    slow = Endless(hosts)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(hosts.deploy, slow.host)
        wait_for(slow.begun)
        waiting = pool.submit(hosts.deploy, hosts.make("other"))
        hosts.cancellation.request_and_stop_streams()
        for future in (first, waiting):
            with pytest.raises(Cancelled):
                future.result()
    wait_for(slow.ended)
    wait_for(lambda: not hosts.lie_there(slow.host))
    assert hosts.compiled == ["slow"]


def test_a_build_ends_with_its_connection(
    hosts: Hosts, ssh_host: SshHost, known_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_hosts.write_text(ssh_host.known_hosts_line)
    slow = Endless(hosts)
    entry = replace(ssh_host.entry(name="slow"), env=slow.host.env)
    facts = hosts.facts(entry)

    def cut(connection: Connection) -> None:
        wait_for(slow.begun)
        connection.close()

    with connect(entry) as connection:
        threading.Thread(target=cut, args=[connection], daemon=True).start()
        with pytest.raises(LinkError):
            deploy(connection, entry, facts, hosts.builder, hosts.notes.append)
    wait_for(slow.ended)
    wait_for(lambda: not hosts.lie_there(entry))
