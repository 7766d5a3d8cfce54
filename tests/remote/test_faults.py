"""What the person reads when the way to a host is broken, and that it is read in
bounded time.
"""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import paramiko
import pytest
from paramiko.packet import Packetizer

from fleet.errors import LinkError, UnreachableError
from fleet.remote.connect import connect
from tests.command import wait_for
from tests.hosts import odd
from tests.hosts.client import know
from tests.hosts.proxy import FaultProxy, Faults


@pytest.fixture
def ssh_host(make_hosts):
    """A host with SFTP."""
    (server,) = make_hosts(1, options=("Subsystem sftp internal-sftp",))
    return server


@pytest.fixture
def through(ssh_host, known_hosts):
    """Return a function: a proxy with the given faults, and the inventory's entry that
    goes through it.
    """
    proxies = []
    key = ssh_host.known_hosts_line.split(" ", 1)[1]

    def make(**faults):
        proxy = FaultProxy((ssh_host.address, ssh_host.port), Faults(**faults))
        proxies.append(proxy)
        known_hosts.write_text(f"[{proxy.address}]:{proxy.port} {key}")
        return proxy, ssh_host.entry(
            name="board", address=proxy.address, port=proxy.port
        )

    yield make
    for proxy in proxies:
        proxy.close()


def test_a_closed_port_is_refused(known_hosts, ssh_host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(
            UnreachableError, match=rf"board: no TCP connection .*{port}.*refused"
        ):
            connect(ssh_host.entry(name="board", address="127.0.0.1", port=port))


@pytest.mark.parametrize(
    ("address", "message"),
    [  # longer than DNS allows, so that nobody is asked
        ("a" * 64, rf"board: the name '{'a' * 64}' cannot be resolved: .+\. Correct"),
        ("no such name", r"board: .*'?no such name"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_apart(
    known_hosts, ssh_host, address, message
):
    with pytest.raises(UnreachableError, match=message):
        connect(ssh_host.entry(name="board", address=address))


def test_the_next_address_of_a_name_is_tried_when_the_first_refuses(
    through, known_hosts, monkeypatch
):
    proxy, host = through()
    really_resolve = socket.getaddrinfo

    def resolve(name, *arguments, **options):
        if name != "two-addresses":
            return really_resolve(name, *arguments, **options)
        return [
            (
                socket.AF_INET6,
                socket.SOCK_STREAM,
                6,
                "",
                ("::1", proxy.port, 0, 0),
            ),  # nobody listens there
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (proxy.address, proxy.port)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    known_hosts.write_text(
        known_hosts.read_text().replace("[127.0.0.1]", "[two-addresses]")
    )
    with connect(replace(host, address="two-addresses")) as connection:
        assert connection.run("echo here").stdout == b"here\n"


def test_twenty_hosts_are_dialled_at_once(make_hosts, known_hosts):
    hosts = make_hosts(20)
    know(known_hosts, *hosts)

    def seen(host):
        with connect(host.entry()) as connection:
            return connection.run("echo $SSH_CONNECTION").stdout.decode().split()[2:]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(seen, hosts)) == [
            [host.address, str(host.port)] for host in hosts
        ]


def test_a_full_backlog_is_a_tcp_timeout(known_hosts, ssh_host):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        host = ssh_host.entry(name="board", address=address[0], port=address[1])
        silence = pytest.raises(
            UnreachableError, match=r"board: no TCP connection .*no answer within 0.5 s"
        )
        with socket.create_connection(address), silence:
            connect(host, timeout_s=0.5)


@pytest.mark.parametrize(
    ("faults", "timeout_s", "message"),
    [
        ({"silent": True}, 0.5, "no SSH banner within 0.5 s"),
        ({"hang_up": True}, 15, "(closed it|no SSH banner)"),
        (
            {"junk": b"HTTP/1.1 400 Bad Request\r\n" * 200},
            15,
            "does not speak SSH: .*HTTP",
        ),
        (
            {"junk": b"SSH-1.5-OpenSSH_2.0\r\n"},
            15,
            "SSH-1.5-OpenSSH_2.0.* does not speak version 2 of SSH",
        ),
    ],
    ids=["silent", "hangs up", "another service", "version 1"],
)
def test_a_port_without_an_sshd_is_named_as_that(through, faults, timeout_s, message):
    _, host = through(**faults)
    with pytest.raises(UnreachableError, match=f"board: .*{message}"):
        connect(host, timeout_s=timeout_s)


def test_an_sshd_that_opens_no_sessions(make_known):
    words = r"board: the host's sshd opened no session for a command: .*MaxSessions"
    host = make_known("MaxSessions 0").entry(name="board")
    with connect(host) as connection, pytest.raises(LinkError, match=words):
        connection.run("true")


@pytest.mark.parametrize(
    "faults", [{"prefix": b"welcome\r\nto the lab\r\n"}, {"chunk_bytes": 7}]
)
def test_lines_before_the_banner_and_small_pieces_do_no_harm(through, faults):
    _, host = through(**faults)
    with connect(host) as connection:
        assert connection.run("cat", stdin=b"x" * 20_000).stdout == b"x" * 20_000


@pytest.mark.parametrize("count", [60, 1000, 1600])
@pytest.mark.parametrize("reset", [False, True], ids=["end-of-file", "reset"])
def test_a_handshake_cut_anywhere_is_told_in_words(through, count, reset):
    _, host = through(cut_down_after=count, reset=reset)
    with pytest.raises(
        UnreachableError, match=r"board: .*(key exchange|authentication)\. Try again"
    ):
        connect(host)


@pytest.mark.parametrize("count", [60, 1000, 1400])
def test_a_handshake_frozen_anywhere_ends_in_time(through, count):
    _, host = through(freeze_down_after=count, chunk_bytes=20)
    with pytest.raises(
        UnreachableError,
        match=r"board: .*(SSH banner within 1 s|key exchange|authentication)",
    ):
        connect(host, timeout_s=1)


@pytest.mark.parametrize("reset", [False, True], ids=["end-of-file", "reset"])
def test_a_link_cut_during_a_command_is_told_in_words(through, tmp_path, reset):
    proxy, host = through()
    begun = tmp_path / "begun"
    with connect(host) as connection:
        cut = threading.Thread(
            target=lambda: (wait_for(begun.exists), proxy.cut(reset))
        )
        cut.start()
        with pytest.raises(
            LinkError,
            match=r"board: the SSH session broke: (the connection was cut|.*reset)",
        ):
            connection.run(f"touch {begun}; sleep 20")
        cut.join()
        with pytest.raises(LinkError, match="board: "):
            connection.run("true")


@pytest.mark.parametrize("reset", [False, True], ids=["end-of-file", "reset"])
def test_a_link_cut_in_the_middle_of_a_stream_is_never_a_normal_end(through, reset):
    _, host = through(cut_down_after=200_000, reset=reset)
    with (
        connect(host) as connection,
        connection.stream("yes", idle_timeout_s=60) as stream,
    ):
        count = 0
        with pytest.raises(LinkError, match="board: the SSH session broke"):
            for line in stream:
                assert line == b"y"
                count += 1
        assert count > 0
        assert stream.exit_code is None


def test_a_link_frozen_in_the_middle_of_a_stream_is_noticed_by_the_idle_timeout(
    through,
):
    proxy, host = through()
    with (
        connect(host) as connection,
        connection.stream("echo one; cat", idle_timeout_s=60) as stream,
    ):
        stream._idle_timeout_s = 0.5  # once it has started
        proxy.freeze()
        with pytest.raises(LinkError, match=r"board: .*nothing for 0.5 s"):
            list(stream)


def test_a_link_frozen_before_a_command_is_noticed_by_its_timeout(through):
    proxy, host = through()
    with connect(host) as connection:
        proxy.freeze()
        with pytest.raises(
            LinkError,
            match=r"board: a command did not end within 0.5 s\. Is that host, or",
        ):
            connection.run("true", timeout_s=0.5)


def test_a_file_put_into_a_frozen_link_is_noticed_by_its_timeout(through, tmp_path):
    _, host = through(freeze_up_after=100_000)
    with (
        connect(host) as connection,
        pytest.raises(LinkError, match=r"board: .*within 1 s"),
    ):
        connection.put(bytes(30_000_000), str(tmp_path / "file"), timeout_s=1)


def test_a_file_whose_put_is_cut_leaves_the_old_one(through, tmp_path):
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    path.write_bytes(b"old")
    _, host = through(cut_up_after=100_000)
    with (
        connect(host) as connection,
        pytest.raises(LinkError, match="board: the SSH session broke"),
    ):
        connection.put(bytes(1_000_000), str(path))
    wait_for(lambda: list(path.parent.iterdir()) == [path])
    assert path.read_bytes() == b"old"


def hold_thread(monkeypatch, owner, name):
    """Have paramiko's thread of a cut link wait at the end of a method; return (it
    waits, let it go on).
    """
    original = getattr(owner, name)
    waits = threading.Event()
    release = threading.Event()

    def wait():
        waits.set()
        release.wait(60)

    def method(*arguments, **options):
        try:
            result = original(*arguments, **options)
        except (EOFError, OSError):
            wait()
            raise
        if name == "_unlink":
            wait()
        return result

    monkeypatch.setattr(owner, name, method)
    return waits, release


def send_by_sftp(connection, path):
    with connection.sftp(60) as sftp:
        sftp.write(path, bytes(1_000_000), 0o600)


@pytest.mark.parametrize(
    "use",
    [
        lambda connection, path: connection.run("cat", stdin=bytes(1_000_000)),
        lambda connection, path: connection.put(bytes(1_000_000), path),
        send_by_sftp,
    ],
    ids=["run", "put", "sftp"],
)
def test_closed_channels_of_a_cut_link_are_blamed_on_the_link(
    through, tmp_path, monkeypatch, use
):
    _, release = hold_thread(monkeypatch, paramiko.Channel, "_unlink")
    _, host = through(cut_up_after=100_000)
    with connect(host) as connection:
        with pytest.raises(LinkError, match="board: the SSH session broke"):
            use(connection, str(tmp_path / "file"))
        release.set()


def test_a_failed_write_to_a_cut_link_is_blamed_on_the_link(through, monkeypatch):
    waits, release = hold_thread(monkeypatch, Packetizer, "read_all")
    proxy, host = through()
    with connect(host) as connection:
        proxy.cut(reset=True)
        waits.wait()
        with pytest.raises(LinkError, match="board: the SSH session broke"):
            connection.run("true")
        release.set()


def test_a_thawed_link_goes_on_where_it_was(through):
    proxy, host = through()
    with connect(host) as connection:
        proxy.freeze()
        thaw = threading.Timer(0.5, proxy.thaw)
        thaw.start()
        assert connection.run("echo here").stdout == b"here\n"
        thaw.join()


def test_a_host_that_drips_bytes_is_given_up_in_time(through):
    _, host = through(chunk_bytes=1, delay_s=0.1)
    with pytest.raises(
        UnreachableError, match=r"board: .*(no SSH banner|within 0.5 s)"
    ):
        connect(host, timeout_s=0.5)


@pytest.fixture
def lingering(make_known, tmp_path):
    """An open connection to a host whose login script leaves a process behind."""
    server = make_known(*odd.lingering_login(tmp_path, 0.3, 60))
    with connect(server.entry(name="board")) as connection:
        yield connection


def test_a_process_of_the_login_script_does_not_keep_a_command_from_ending(lingering):
    assert lingering.run("echo one; exit 3").exit_code == 3
    done = lingering.run("cat; echo err >&2; exit 4", stdin=b"all of it")
    assert done.exit_code == 4
    assert done.stdout == b"all of it"
    assert done.stderr == b"err\n"
    with lingering.stream("echo one; echo two", idle_timeout_s=30) as stream:
        assert list(stream) == [b"one", b"two"]
    assert stream.exit_code == 0


def test_what_a_process_of_the_login_script_prints_is_among_the_lines(lingering):
    with lingering.stream("echo one; cat; echo two", idle_timeout_s=60) as stream:
        lines = iter(stream)
        assert {next(lines), next(lines)} == {
            b"one",
            b"Reminder: the lab closes at six",
        }
        stream.stop()
        assert list(lines) == [b"two"]
