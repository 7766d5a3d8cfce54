"""Connects to a host through a client program's pipes. A random mark in the output ends
each command.
"""

import contextlib
import fcntl
import json
import math
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from fleet import errors
from fleet.errors import LinkError, UnreachableError
from fleet.model import Host, HostKeyPolicy, Via
from fleet.model.client import client_command, shell_test_command
from fleet.remote import shell
from fleet.remote.connection import Connection
from fleet.remote.output import (
    CLOSED,
    KILLED,
    Answer,
    Completed,
    Stream,
    collect_answer,
    timeout_message,
)
from fleet.remote.ssh import config

# for a shell and a command to end after end-of-file on its stdin
_GRACE_S, _STOP_GRACE_S = (
    1.0,
    5.0,
)
_SIGNALLED = 128  # smaller exit codes are the command's
_SHOWN = 600  # characters of what a client printed
# clients that connect; an sshd lets in ten strangers at a time
_AT_ONCE = threading.BoundedSemaphore(8)
_SLICE_BYTES = 64 << 10
_TERM_S = 2.0  # for a child to end after SIGTERM
_BEAT_S = 10.0
_LOOK_S = 0.1  # how often to see whether a silent child has ended


Sign = tuple[str, Callable[[str], errors.FleetError], str]
"""A text that a client prints, the error that it means, and what to do about it, if
anything.
"""


@dataclass(frozen=True, slots=True)
class Client:
    """A program that gives a shell on a host."""

    program: str
    # from a session's mark and a folder for MARK.log
    command_line: Callable[[str, Path], Sequence[str]]
    by_hand: str  # what the user may try
    answer_timeout_s: float  # until its shell answers
    signs: Sequence[Sign] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    shares_first_session: bool = False  # later sessions use the first one's connection
    ends_input: bool = False  # it passes on end-of-file on stdin
    own_exit_code: int | None = None  # of its own failures


class Process:
    """A child process in its own session. Reading ends when the child ends. env:
    variables added to ours.
    """

    def __init__(
        self, host_name: str, command: Sequence[str], env: Mapping[str, str]
    ) -> None:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **env},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise LinkError(
                f"{host_name}: cannot start {command[0]} on this machine: {error}."
            ) from error
        assert child.stdout is not None  # noqa: S101  we asked for pipes
        assert child.stderr is not None  # noqa: S101
        self._child = child
        self._lock = threading.Lock()
        self._stdin: IO[bytes] | None = child.stdin
        self.heartbeat = b""  # for the child's stdin now and then, once it is fed
        self._beat_at = time.monotonic() + _BEAT_S
        self.stdout, self.stderr = child.stdout, child.stderr
        # those that have not ended yet
        self._unread: set[IO[bytes]] = {
            self.stdout,
            self.stderr,
        }

    def exchange(
        self,
        stdin: bytes,
        deadline: float,
        *,
        no_eof: bool = False,
        idle_timeout_s: float = math.inf,
    ) -> Iterator[tuple[bool, bytes]]:
        """Write `stdin`, close it unless no_eof, and yield (is_stderr, data). Raises
        TimeoutError.
        """
        left = memoryview(stdin)
        with selectors.DefaultSelector() as selector:
            for output in self._unread:
                selector.register(output, selectors.EVENT_READ, output)
            if left and self._stdin:
                os.set_blocking(self._stdin.fileno(), False)
                selector.register(self._stdin, selectors.EVENT_WRITE)
            elif not no_eof:
                self.close_stdin()
            while self._unread and self._child.poll() is None:
                for key in self._wait_until_ready(selector, deadline, idle_timeout_s):
                    if key.data is not None:
                        if data := os.read(key.fd, _SLICE_BYTES):
                            yield key.data is self.stderr, data
                        else:
                            selector.unregister(key.data)
                            self._unread.remove(key.data)
                    elif not (left := self._write(left)):
                        selector.unregister(key.fileobj)
                        if not no_eof:
                            self.close_stdin()
        yield from self._read_remaining()

    def write_if_open(self, data: bytes) -> None:
        """Write a few bytes to the child's stdin if it is open; ignore errors.
        Thread-safe.
        """
        with self._lock, contextlib.suppress(OSError):
            if self._stdin is not None:
                os.write(self._stdin.fileno(), data)

    def write_all(self, data: bytes, deadline: float) -> None:
        """Write `data` to the child's stdin and read nothing. Raises TimeoutError at
        `deadline`.
        """
        left = memoryview(data)
        with selectors.DefaultSelector() as selector:
            if self._stdin:
                os.set_blocking(self._stdin.fileno(), False)
                selector.register(self._stdin, selectors.EVENT_WRITE)
            while left:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                left = self._write(left)

    def wait(self, timeout_s: float) -> int:
        """Wait for the child; return its exit code, 128+n for signal n as in sh. Raises
        TimeoutError.
        """
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        return code if code >= 0 else 128 - code

    def close_stdin(self) -> None:
        """Give the child end-of-file on stdin. Thread-safe; may be called twice."""
        with self._lock:
            stdin, self._stdin = self._stdin, None
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()

    def end(self, grace_s: float = _GRACE_S) -> None:
        """End the child by end-of-file, then by signals to its group, since its own
        children may live on.
        """
        self.close_stdin()
        for number in (signal.SIGTERM, signal.SIGKILL, None):
            deadline = time.monotonic() + (math.inf if number is None else grace_s)
            with contextlib.suppress(TimeoutError):
                for _ in self.exchange(b"", deadline):
                    pass
                self.wait(max(0.0, deadline - time.monotonic()))
                break
            if number is not None:
                self.signal(number)
            grace_s = _TERM_S
        self.stdout.close()
        self.stderr.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's group; readers of its output see it end.
        Thread-safe.
        """
        with self._lock:
            if (
                self._child.poll() is None
            ):  # not reaped yet, so the id cannot have gone to somebody else
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, number)

    def _wait_until_ready(
        self, selector: selectors.BaseSelector, deadline: float, idle_timeout_s: float
    ) -> list[selectors.SelectorKey]:
        """Wait until something can be read or written, or the child has ended. Raises
        TimeoutError.
        """
        silent_until = min(deadline, time.monotonic() + idle_timeout_s)
        while (time_left := silent_until - time.monotonic()) > 0:
            fed = len(selector.get_map()) == len(self._unread)
            if self.heartbeat and fed and time.monotonic() >= self._beat_at:
                self._beat_at = time.monotonic() + _BEAT_S
                self.write_if_open(self.heartbeat)
            events = selector.select(min(time_left, _LOOK_S))
            if events or self._child.poll() is not None:
                return [key for key, _ in events]
        raise TimeoutError

    def _read_remaining(self) -> Iterator[tuple[bool, bytes]]:
        """Yield the output still in the pipes of a child that has ended."""
        for output in self._unread:
            held = fcntl.ioctl(output, termios.FIONREAD, bytes(4))
            if size := int.from_bytes(held, sys.byteorder):
                yield output is self.stderr, os.read(output.fileno(), size)
        self._unread.clear()

    def _write(self, left: memoryview) -> memoryview:
        stdin = self._stdin
        if stdin is None:
            return left[:0]
        try:
            return left[os.write(stdin.fileno(), left[:_SLICE_BYTES]) :]
        except BlockingIOError:
            return left
        except (
            OSError,
            ValueError,
        ):  # the command does not read its stdin, or we closed it
            return left[:0]


class CommandConnection(Connection):
    """A connection to one host by sessions of a client program."""

    # `banner` stays empty: ssh tells it only among its debugging messages.

    def __init__(self, host: Host, client: Client) -> None:
        """Connect. Raises UnreachableError, HostKeyError, AuthError, ProbeError with
        the client's output.
        """
        super().__init__(host)
        self.client = client
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="fleet-client-"))
        except OSError as err:
            raise UnreachableError(
                f"{host.name}: {client.program} needs a temporary folder here:"
                f" {err.strerror}. Free some space there, or set TMPDIR."
            ) from err
        self._lock = threading.Lock()
        self._closed = False
        self._running: list[_Session] = []
        self._shell: _Session | None = None  # one that waits for a command
        try:
            self._shell = self._start_session(first=True)
        except BaseException:
            self.close()
            raise

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """See Connection.run. After a timeout the command may run on, without stdin and
        stdout.
        """
        if stdin and not self.client.ends_input:
            command = shell.limit_stdin(command, len(stdin))
        session = self._take_session(last=bool(stdin))
        reusable = False
        try:
            done = session.run_command(
                command, self._env, stdin, time.monotonic() + timeout_s
            )
            reusable = not stdin and done is not None
        except TimeoutError:
            raise errors.TimeLimitError(
                timeout_message(self.host_name, timeout_s)
            ) from None
        finally:
            if reusable:
                self._shell = session
            else:
                self._end_session(session)
        if done is None:
            raise self._broken_link_error(session)
        return done

    def stream(
        self,
        command: str,
        *,
        idle_timeout_s: float,
        limit_s: float = math.inf,
        stdin: bytes = b"",
    ) -> "ClientStream":
        """See Connection.stream."""
        return ClientStream(self, command, idle_timeout_s, limit_s, stdin)

    def close(self) -> None:
        """See Connection.close."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        waiting, self._shell = self._shell, None
        for session in running:
            if session is not waiting:
                session.close_stdin()
                session.signal(signal.SIGTERM)
        if waiting is not None:
            waiting.write_if_open(shell.render_command("", {}, waiting.mark, last=True))
            self._end_session(waiting)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take_session(self, *, last: bool) -> "_Session":
        """Return the waiting or a new session. last: the command will end it, so take
        none that is shared.
        """
        if not (last and self.client.shares_first_session):
            waiting, self._shell = self._shell, None
            if waiting is not None:
                return waiting
        return self._start_session()

    def _start_session(self, *, first: bool = False) -> "_Session":
        """Start a client and wait until its shell answers. first: report failures as
        failures to connect.
        """
        if self._closed:
            raise LinkError(f"{self.host_name}: {CLOSED}")
        client, session = (
            self.client,
            _Session(self.host_name, self.client, self._folder),
        )
        with self._lock:
            self._running.append(session)
        answered = timed_out = False
        try:
            with _AT_ONCE:
                deadline = time.monotonic() + client.answer_timeout_s
                answered = (
                    session.run_command(":", {}, b"", deadline, first=True) is not None
                )
        except TimeoutError:
            timed_out = True
        finally:
            if not answered:
                self._end_session(session)
        if answered:
            return session
        if timed_out and first:
            raise UnreachableError(
                f"{self.host_name}: {client.program} did not reach the host's shell"
                f" within {client.answer_timeout_s:g}"
                f" s{_make_log_suffix(session.log_text())}. Try {client.by_hand}"
            )
        if timed_out:
            raise errors.TimeLimitError(
                timeout_message(self.host_name, client.answer_timeout_s)
            )
        raise (
            self._unreachable_error(session)
            if first
            else self._broken_link_error(session)
        )

    def _end_session(self, session: "_Session", grace_s: float = _GRACE_S) -> None:
        session.end(grace_s)
        with self._lock:
            if session in self._running:
                self._running.remove(session)

    def _unreachable_error(self, session: "_Session") -> errors.FleetError:
        client, log = self.client, session.log_text()
        if client.own_exit_code is not None and session.ended_with < _SIGNALLED:
            return errors.ProbeError(
                f"{self.host_name}: {client.program} connected, but instead of /bin/sh"
                " there was an exit code,"
                f" {session.ended_with}{_make_log_suffix(session.printed_text())}."
                f" fleet needs an account that may run commands; try {client.by_hand}"
            )
        unknown: Sign = ("", UnreachableError, "")
        text, error, remedy = next(
            (sign for sign in client.signs if sign[0] in log), unknown
        )
        if remedy:  # of the lines the one that it answers
            log = next(line for line in log.split("; ") if text in line)
        advice = remedy or f"Try {client.by_hand}"
        return error(
            f"{self.host_name}: {client.program} could not"
            f" connect{_make_log_suffix(log)}. {advice}"
        )

    def _broken_link_error(self, session: "_Session") -> LinkError:
        if self._closed:
            return LinkError(f"{self.host_name}: {CLOSED}")
        if self.client.own_exit_code in (None, session.ended_with):
            log = _make_log_suffix(session.log_text())
            return LinkError(
                f"{self.host_name}: the {self.client.program} session broke{log}. What"
                " the command did is unknown. Is the host still up, and the network"
                " between?"
            )
        return LinkError(f"{self.host_name}: {KILLED}")


class _Session(Process):
    """One client process, and the shell on the host that runs loader.sh for it."""

    def __init__(self, host_name: str, client: Client, folder: Path) -> None:
        self.mark = shell.new_mark()
        self.host_name = host_name
        self.program = client.program
        self.ended_with = _SIGNALLED
        self.heard: tuple[
            bytes, ...
        ] = ()  # its stderr and stdout, unless the shell answered
        self._log = folder / f"{self.mark}.log"
        super().__init__(host_name, client.command_line(self.mark, folder), client.env)

    def run_command(
        self,
        command: str,
        env: dict[str, str],
        stdin: bytes,
        deadline: float,
        *,
        first: bool = False,
    ) -> Completed | None:
        """Run a command, the last if it has stdin. None if the client ended. Raises
        TimeoutError.
        """
        text = shell.render_command(command, env, self.mark, last=bool(stdin))
        out, err = Answer(self.host_name, self.mark), Answer(self.host_name, self.mark)
        received = self.exchange(text + stdin, deadline, no_eof=not stdin)
        try:
            done = collect_answer(
                self._reject_terminal_output(received) if first else received, out, err
            )
            if done is not None:
                return done
        finally:
            self.heard = (bytes(err.data), *((bytes(out.data),) if first else ()))
        self.ended_with = self.wait(max(0.0, deadline - time.monotonic()))
        return None

    def printed_text(self) -> str:
        """Return, on one line, what the client printed instead of an answer."""
        heard = next((text.strip() for text in self.heard if text.strip()), b"").decode(
            "utf-8", "replace"
        )
        return _join_lines(heard.replace(f"{self.mark} :", "").replace(self.mark, ""))

    def log_text(self) -> str:
        """Return the client's own log on one line; all its output if it keeps no
        log.
        """
        try:
            return _join_lines(self._log.read_text(errors="replace"))
        except OSError:
            return self.printed_text()

    def _reject_terminal_output(
        self, received: Iterator[tuple[bool, bytes]]
    ) -> Iterator[tuple[bool, bytes]]:
        """Yield the first answer. Raises ProbeError if a terminal echoes, adds CR or
        joins both outputs.
        """
        seen, mark = b"", self.mark.encode()
        for is_stderr, data in received:
            if not is_stderr:
                seen = (seen + data)[-_SHOWN:]
                if seen.count(mark) > 2 or re.search(
                    rb"[^\n]%b|%b [0-9:]*\r" % (mark, mark), seen
                ):
                    raise errors.ProbeError(
                        f"{self.host_name}: {self.program} goes through a terminal,"
                        " joins both outputs or labels lines. Leave out the option for"
                        " that (-t, -it, --pty, --tty, --label)."
                    )
            yield is_stderr, data


class ClientStream(Stream):
    """A command running through a client; see Stream."""

    def __init__(
        self,
        connection: CommandConnection,
        command: str,
        idle_timeout_s: float,
        limit_s: float,
        stdin: bytes,
    ) -> None:
        self._session = session = connection._take_session(last=True)
        super().__init__(connection.host_name, idle_timeout_s, limit_s, stdin)
        self._connection, self._mark = connection, session.mark
        if not connection.client.ends_input:
            command = shell.end_stdin_at_stop_line(command, len(stdin))
        # at once, so that a stop before the first line is read finds the command
        # running
        try:
            head = shell.render_command(
                command, connection._env, session.mark, last=True
            )
            session.write_all(head, time.monotonic() + idle_timeout_s)
        except TimeoutError:
            connection._end_session(session)
            raise LinkError(
                f"{connection.host_name}: the command did not start within"
                f" {idle_timeout_s:g} s."
            ) from None

    def stop(self) -> None:
        """See Stream.stop."""
        if not self._connection.client.ends_input:
            self._session.write_if_open(shell.STOP)
        self._session.close_stdin()

    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        process = self._session
        if not self._connection.client.ends_input:
            process.heartbeat = b"\n"
        try:
            for piece in process.exchange(
                self._stdin,
                self._deadline,
                no_eof=True,
                idle_timeout_s=self._idle_timeout_s,
            ):
                if self._connection._closed:
                    break
                yield piece
            self._session.ended_with = process.wait(self._idle_timeout_s)
        except TimeoutError:
            raise self._time_limit_error() from None
        self._session.heard = (bytes(self._tail),)
        raise self._connection._broken_link_error(self._session)

    def _end_command(self, *, given_up: bool) -> None:
        at_once = given_up or self.exit_code is not None
        self._connection._end_session(
            self._session, _GRACE_S if at_once else _STOP_GRACE_S
        )


def _join_lines(text: str) -> str:
    return "; ".join(line.strip() for line in text.split("\n") if line.strip(" \r@"))[
        -_SHOWN:
    ]


def _make_log_suffix(log: str) -> str:
    return f": {log.rstrip('.?!')}" if log else ""


_ERRORS: Mapping[str, Callable[[str], errors.FleetError]] = {
    "auth": errors.AuthError,
    "connect": UnreachableError,
    "host-key": errors.HostKeyError,
    "passing": partial(UnreachableError, passing=True),
    "probe": errors.ProbeError,
}
# By program what it prints, the word of the error that it means, and perhaps what to do
# about it.
_SIGNS = {
    program: [(text, _ERRORS[word], "".join(remedy)) for text, word, *remedy in signs]
    for programs, signs in json.loads(
        Path(__file__).with_suffix(".json").read_text()
    ).items()
    for program in programs.split()
}
_WORKS = (
    " If that works: it may need an option that passes stdin on (-i), or, as ssh does,"
    ' fleet\'s words as one ("{shell}", the last word of `command`).'
)
_KEEPALIVE_S, _MISSED = 5, 3  # a host that answers none of so many is gone
_USER_ACTS_S = 60.0  # the user may have to touch a token
_NO_SESSION = 255  # ssh's own exit code


def _openssh_client(host: Host, timeout_s: float) -> Client:
    """Return the client for `via: openssh`: the user's own ssh, which can do what
    paramiko cannot.
    """
    return Client(
        program="ssh",
        command_line=partial(_ssh_command, host, timeout_s),
        by_hand=f"`{shell_test_command(host)}`.",
        signs=_SIGNS[Via.OPENSSH],
        answer_timeout_s=timeout_s + _USER_ACTS_S,
        env={"SSH_ASKPASS_REQUIRE": "never"},
        shares_first_session=True,
        ends_input=True,
        own_exit_code=_NO_SESSION,
    )


def _ssh_command(
    host: Host, timeout_s: float, mark: str, folder: Path
) -> tuple[str, ...]:
    """Return the ssh command with the inventory's overrides. Raises UnreachableError if
    there is no ssh.
    """
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UnreachableError(
            f"{host.name}: `via: openssh` needs ssh, which is not in PATH; install it."
        )
    key_must_be_known = host.host_key is not HostKeyPolicy.ACCEPT_NEW
    settings: dict[str, object] = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes" if key_must_be_known else "accept-new",
        "ConnectTimeout": max(1, math.ceil(timeout_s)),
        "ServerAliveInterval": _KEEPALIVE_S,
        "ServerAliveCountMax": _MISSED,
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "RemoteCommand": "none",
        "RequestTTY": "no",
    }
    file = os.environ.get("FLEET_SSH_CONFIG")
    own_settings = config.look_up(host.name, host.address, host.user, host.port, file)
    if (
        own_settings.get("controlpath", ("none",))[-1] == "none"
    ):  # else the user shares sessions already
        settings |= {
            "ControlMaster": "auto",
            "ControlPath": folder / "session",
            "ControlPersist": "no",
        }
    unwanted = {
        "forkafterauthentication": "no",
        "sessiontype": "default",
        "stdinnull": "no",
    }
    settings |= {
        key: value
        for key, value in unwanted.items()
        if own_settings.get(key, (value,)) != (value,)
    }
    return (
        *(ssh, "-E", str(folder / f"{mark}.log")),
        *(("-F", file) if file else ()),
        *(
            word
            for name, value in settings.items()
            for word in ("-o", f"{name}={value}")
        ),
        *(("-o", "IdentitiesOnly=yes") if host.identity_files else ()),
        *(
            word
            for path in host.identity_files
            for word in ("-i", os.path.expanduser(path))  # noqa: PTH111
        ),
        *(("-J", ",".join(host.jump)) if host.jump else ()),
        *(("-p", str(host.port)) if host.port else ()),
        *(("-l", host.user) if host.user else ()),
        *("--", host.address, shell.LOADER + mark),
    )


def choose_client(host: Host, timeout_s: float) -> Client:
    """Return the client program that the host's entry names, or this machine's shell
    for `via: local`.
    """
    if host.via is Via.OPENSSH:
        return _openssh_client(host, timeout_s)
    local = host.via is Via.LOCAL
    program = os.path.basename((*host.command, "sh")[0])  # noqa: PTH119
    return Client(
        program=program,
        command_line=lambda mark, _: client_command(
            host, ("/bin/sh", "-c", shell.SCRIPT, mark)
        ),
        by_hand=f"`{shell_test_command(host)}`." + _WORKS * (not local),
        answer_timeout_s=timeout_s,
        signs=_SIGNS.get(program, ()),
        ends_input=local,
    )
