"""The contract of a connection, the same for all kinds."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.errors import LinkError
from fleet.model import Host, Via
from fleet.model.client import PRESETS
from fleet.remote import output
from fleet.remote.connect import connect
from fleet.remote.connection import Connection
from fleet.remote.output import LINE_LIMIT_BYTES, RUN_LIMIT_BYTES
from tests.command import ROOT
from tests.hosts.sshd import MakeKnown, SshHost

BINARY = bytes(range(256)) * 20_000  # 5 MB, every byte value
ENV = {
    "PLAIN": "a",
    "ODD": "two  words, 'quotes', \"more\", $HOME `x` \\n\nand a second line",
}


STAND_IN = (sys.executable, "-I", str(ROOT / "tests/hosts/stand_in.py"))
CLIENTS = {
    "words": ("env",),
    "joined": ("sh", "-c", "{shell}"),
    "kubectl": (*STAND_IN, "keeps-eof", "leaves", "banner", "--"),
}


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in ("words", "joined")]
PASS_ON_BYTES = ["local", "ssh", "openssh", "kubectl", *SLOWER]
SRUN = pytest.param("srun", marks=pytest.mark.slow)  # passes on whole lines


@pytest.fixture(params=[*PASS_ON_BYTES, SRUN])
def connection(
    request: pytest.FixtureRequest, known_hosts: Path
) -> Iterator[Connection]:
    if request.param == "local":
        host = Host("here", "localhost", via=Via.LOCAL, env=ENV)
    elif request.param in CLIENTS:
        host = Host(
            "board", "board", via=Via.COMMAND, command=CLIENTS[request.param], env=ENV
        )
    elif request.param == "srun":
        request.getfixturevalue("slurm_job")
        host = Host("n2", "n2", via=Via.SRUN, command=PRESETS["srun"], env=ENV)
    else:
        ssh_host: SshHost = request.getfixturevalue("ssh_host")
        known_hosts.write_text(ssh_host.known_hosts_line)
        host = ssh_host.entry(env=ENV, via=Via(request.param))
    with connect(host) as opened:
        yield opened


def test_a_command_gives_back_both_outputs_and_its_exit_code(connection):
    done = connection.run("echo out; echo err >&2; exit 3")
    assert done.exit_code == 3
    assert done.stdout == b"out\n"
    assert done.stderr == b"err\n"


def test_a_command_that_a_signal_killed_has_the_exit_code_sh_gives_it(connection):
    assert connection.run("sh -c 'kill -9 $$'").exit_code == 128 + 9


def test_five_megabytes_of_any_bytes_come_back_as_they_went(connection):
    assert connection.run("cat", stdin=BINARY).stdout == BINARY


@pytest.mark.parametrize(
    ("word", "code"), [(b" 7\n", 7), (b"", 126), (b"9" * 5000, 126), (b"\xb2", 126)]
)
def test_an_exit_code_is_a_number_of_three_digits(word: bytes, code: int) -> None:
    assert output.parse_exit_code(word) == code


def test_five_megabytes_on_stderr_beside_stdout_do_not_block(connection):
    done = connection.run("tee /dev/stderr", stdin=BINARY)
    assert done.stdout == BINARY
    assert done.stderr == BINARY


def test_a_command_that_does_not_read_its_stdin_is_no_error(connection):
    assert connection.run("echo done", stdin=BINARY).stdout == b"done\n"


def test_stdin_ends_where_it_was_given(connection):
    assert (
        connection.run("cat; echo end", stdin=b"no newline").stdout
        == b"no newlineend\n"
    )
    assert connection.run("cat; echo end").stdout == b"end\n"


@pytest.mark.parametrize("name", sorted(ENV))
def test_the_environment_of_the_inventory_reaches_the_command_unchanged(
    connection, name
):
    assert connection.run(f'printf %s "${name}"').stdout.decode() == ENV[name]


def test_the_environment_of_the_inventory_is_in_no_process_list(connection):
    listed = connection.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'").stdout
    assert b"two  words" not in listed
    assert b"/bin/sh" in listed


def test_a_command_may_be_many_lines_of_sh_with_any_quotes(connection):
    script = (
        "cat <<'MARK'\nit's a \"test\" \\ ! $x\nMARK\nfor i in 1 2\ndo echo $i\ndone"
    )
    assert connection.run(script).stdout == b'it\'s a "test" \\ ! $x\n1\n2\n'


def test_a_command_that_takes_too_long_is_given_up_and_the_connection_goes_on(
    connection, tmp_path
):
    os.mkfifo(gate := tmp_path / "gate")
    with pytest.raises(
        LinkError, match=f"{connection.host_name}: .*did not end within 0.3 s"
    ):
        connection.run(f"read line <{gate}; echo late", timeout_s=0.3)
    with gate.open(
        "r+b", buffering=0
    ) as opened:  # for the command, where it still waits
        opened.write(b"\n")
    assert connection.run("echo alive").stdout == b"alive\n"


def test_a_flood_of_output_is_cut_off(connection):
    with pytest.raises(LinkError, match=f"more than {RUN_LIMIT_BYTES >> 20} MiB"):
        connection.run("cat /dev/zero")
    assert connection.run("echo alive").stdout == b"alive\n"


def test_a_file_is_put_whole_with_its_mode_and_nothing_is_left_beside_it(
    connection, tmp_path
):
    path = tmp_path / "a folder" / "it's"
    path.parent.mkdir()
    path.write_bytes(b"old")
    assert connection.put(BINARY, str(path), mode=0o750).exit_code == 0
    assert path.read_bytes() == BINARY
    assert path.stat().st_mode & 0o777 == 0o750
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_put_is_told_by_the_exit_code(connection, tmp_path):
    done = connection.put(b"x", str(tmp_path / "missing" / "file"))
    assert done.exit_code != 0
    assert b"missing" in done.stderr


def test_a_stream_hands_out_lines_while_the_command_runs_and_stop_ends_it(connection):
    with connection.stream(
        "echo one; echo err >&2; cat; printf last", idle_timeout_s=60
    ) as stream:
        lines = iter(stream)
        assert next(lines) == b"one"
        assert stream.exit_code is None
        stream.stop()
        stream.stop()
        assert list(lines) == [b"last"]
        assert stream.exit_code == 0
        assert stream.stderr == b"err\n"


def test_a_stream_left_early_ends_a_command_that_waits_for_its_stdin(
    connection, tmp_path
):
    with connection.stream(
        f"echo one; cat; touch {tmp_path}/ended", idle_timeout_s=60
    ) as stream:
        assert next(iter(stream)) == b"one"
    assert (tmp_path / "ended").exists()


def test_a_stream_keeps_the_end_of_a_long_stderr_and_is_not_blocked_by_it(connection):
    with connection.stream(
        "yes noise | head -c 3000000 >&2; echo the end >&2; echo out", idle_timeout_s=60
    ) as stream:
        assert list(stream) == [b"out"]
    assert stream.stderr.endswith(b"the end\n")
    assert len(stream.stderr) == 64 << 10


def test_a_silent_stream_is_given_up_after_its_idle_timeout(connection):
    with connection.stream("echo one; cat", idle_timeout_s=60) as stream:
        stream._idle_timeout_s = 0.3  # once it has started
        with pytest.raises(
            LinkError, match=f"{connection.host_name}: .*printed nothing for 0.3 s"
        ):
            list(stream)


def test_lines_of_any_length_up_to_the_limit_arrive_and_a_longer_one_is_refused(
    connection,
):
    command = f"head -c {LINE_LIMIT_BYTES} /dev/zero; echo; echo short; cat /dev/zero"
    with connection.stream(command, idle_timeout_s=60) as stream:
        lines = iter(stream)
        assert next(lines) == bytes(LINE_LIMIT_BYTES)
        assert next(lines) == b"short"
        with pytest.raises(LinkError, match="longer than 1 MiB"):
            next(lines)


def test_closing_the_connection_from_another_thread_ends_a_stream(connection):
    with connection.stream("echo one; cat", idle_timeout_s=60) as stream:
        lines = iter(stream)
        assert next(lines) == b"one"
        closing = threading.Timer(0.2, connection.close)
        closing.start()
        with pytest.raises(LinkError, match="closed on our side"):
            list(lines)
        closing.join()
    connection.close()


def test_a_closed_connection_says_so(connection):
    connection.close()
    with pytest.raises(LinkError, match="closed on our side"):
        connection.run("true")


def test_bytes_do_not_reset_the_time_limit_of_a_stream(connection):
    drip = "while :; do printf x; sleep 0.05; done"
    late = pytest.raises(
        LinkError, match=f"{connection.host_name}: .*still running after 0.5 s"
    )
    with connection.stream(drip, idle_timeout_s=30, limit_s=0.5) as stream, late:
        list(stream)


@pytest.mark.parametrize("connection", PASS_ON_BYTES, indirect=True)
def test_a_line_that_never_ends_is_given_up(connection, monkeypatch):
    monkeypatch.setattr(output, "LINE_TIMEOUT_S", 0.3)
    drip = "echo one; while :; do printf x; sleep 0.05; done"
    with connection.stream(drip, idle_timeout_s=30) as stream:
        lines = iter(stream)
        assert next(lines) == b"one"
        with pytest.raises(
            LinkError,
            match=f"{connection.host_name}: a line .*not complete after 0.3 s",
        ):
            next(lines)


@pytest.mark.parametrize(
    ("is_stderr", "data", "missing"),
    [
        (False, b"\nmark :\nhere\n\nmark 0\n", "stderr"),
        (True, b"\nmark :\necho: I/O error\n\nmark\n", "stdout"),
    ],
)
def test_an_answer_of_which_one_output_is_closed_is_named_as_that(
    is_stderr, data, missing
):
    def receive() -> Iterator[tuple[bool, bytes]]:
        yield is_stderr, data
        raise TimeoutError

    out = output.Answer("board", "mark")
    err = output.Answer("board", "mark")
    with pytest.raises(
        LinkError, match=f"board: a command ended, but nothing came on its {missing}"
    ):
        output.collect_answer(receive(), out, err)


@pytest.mark.parametrize(
    "behind", ["sleep 300", "while :; do echo later; sleep 0.01; done"]
)
def test_a_command_ends_with_its_own_process_whatever_it_leaves_behind(
    connection, tmp_path, behind
):
    """The process left behind holds both outputs open, and is silent or goes on
    printing.
    """
    command = f"({behind}) & echo $! >>{tmp_path}/pids; echo done; exit 3"
    try:
        done = connection.run(command)
        assert done.exit_code == 3
        assert b"done\n" in done.stdout
        with connection.stream(command, idle_timeout_s=60) as stream:
            assert b"done" in list(stream)
        assert stream.exit_code == 3
    finally:
        for pid in (tmp_path / "pids").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def test_output_is_handed_out_as_it_was_printed_with_its_empty_lines(connection):
    with connection.stream(
        "echo; echo; echo one; echo; printf last; exit 3", idle_timeout_s=60
    ) as stream:
        assert list(stream) == [b"", b"", b"one", b"", b"last"]
    assert stream.exit_code == 3
    with connection.stream("echo one; echo; echo", idle_timeout_s=60) as stream:
        assert list(stream) == [b"one", b"", b""]


@pytest.mark.long
def test_a_session_goes_on_with_new_keys(make_known: MakeKnown) -> None:
    host = make_known("RekeyLimit 64K 1s")
    with connect(host.entry()) as connection:
        sent = connection.run("cat; sleep 1; cat /dev/null", stdin=BINARY)
        assert sent.stdout == BINARY
        lines = (
            "for i in 1 2 3; do echo $i; head -c 200000 /dev/zero; echo; sleep 1; done"
        )
        with connection.stream(lines, idle_timeout_s=60) as stream:
            assert [line for line in stream if len(line) == 1] == [b"1", b"2", b"3"]
