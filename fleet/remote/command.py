"""Connects to a host through a client program's pipes. The mark that the loader prints ends each command."""

import math
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from fleet.errors import FleetError, LinkError, ProbeError, TimeLimitError, UnreachableError
from fleet.model import Host
from fleet.remote import shell
from fleet.remote.connection import Connection
from fleet.remote.output import Answer, Completed, collect_answer, timeout_message
from fleet.remote.process import Process
from fleet.remote.stream import Stream

_GRACE_S, _STOP_GRACE_S = 1.0, 5.0  # for a shell and a command to end after end-of-file on its stdin
_SIGNALLED = 128  # smaller exit codes are the command's
_SHOWN = 600  # characters of what a client printed
_AT_ONCE = threading.BoundedSemaphore(8)  # clients that connect; an sshd lets in ten strangers at a time


@dataclass(frozen=True, slots=True)
class Sign:
    """A text that a client prints, the error that it means, and what to do about it."""

    text: str
    error: Callable[[str], FleetError]
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """A program that gives a shell on a host.

    command_line: to start it, from a session's mark and a folder where it may write MARK.log. by_hand: what
    to try. answer_timeout_s: until its shell answers. shares_first_session: later sessions need the first
    one. ends_input: it passes end-of-file on stdin to the host. own_exit_code: of its own failures, unless a
    command's is the same.
    """

    program: str
    command_line: Callable[[str, Path], Sequence[str]]
    by_hand: str
    answer_timeout_s: float
    signs: Sequence[Sign] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    shares_first_session: bool = False
    ends_input: bool = False
    own_exit_code: int | None = None


class CommandConnection(Connection):
    """Sessions of a client program with one host."""

    # `banner` stays empty: ssh tells it only among its debugging messages.

    def __init__(self, host: Host, client: Client) -> None:
        super().__init__(host)
        self.client = client
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="fleet-client-"))
        except OSError as err:
            raise UnreachableError(
                f"{host.name}: {client.program} needs a temporary folder here: {err.strerror}. Free "
                "some space there, or set TMPDIR."
            ) from err
        self._lock = threading.Lock()
        self._closed = False
        self._running: list[_Session] = []
        self._shell: _Session | None = None  # one that waits for a command

    @classmethod
    def open(cls, host: Host, client: Client) -> Self:
        """Connect.

        Raises UnreachableError, HostKeyError, AuthError or ProbeError, with what the client printed.
        """
        connection = cls(host, client)
        try:
            connection._connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """See Connection.run. On a timeout the command is left to itself, without stdin and stdout."""
        if stdin and not self.client.ends_input:
            command = shell.feed_bytes(command, len(stdin))
        session = self._take_session(last=bool(stdin))
        reusable = False
        try:
            done = session.run_command(command, self._env, stdin, time.monotonic() + timeout_s)
            reusable = not stdin and done is not None
        except TimeoutError:
            raise TimeLimitError(timeout_message(self.host_name, timeout_s)) from None
        finally:
            if reusable:
                self._shell = session
            else:
                self._end_session(session)
        if done is None:
            raise self._broken_link_error(session)
        return done

    def stream(
        self, command: str, *, idle_timeout_s: float, limit_s: float = math.inf, stdin: bytes = b""
    ) -> "ClientStream":
        """See Connection.stream."""
        if not self.client.ends_input:
            command = shell.run_until_stop(command, len(stdin))
        return ClientStream(self, self._take_session(last=True), command, idle_timeout_s, limit_s, stdin)

    def close(self) -> None:
        """See Connection.close."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        waiting, self._shell = self._shell, None
        for session in running:
            if session is not waiting:
                session.process.close_stdin()
                session.process.signal(signal.SIGTERM)
        if waiting is not None:
            waiting.process.write_if_open(shell.render_last_command("", {}, waiting.mark))
            self._end_session(waiting)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self) -> None:
        """Start the first session and wait until its shell answers."""
        session, client = self._start_session(), self.client
        try:
            if not self._wait_for_shell(session):
                raise self._unreachable_error(session)
        except TimeoutError:
            raise UnreachableError(
                f"{self.host_name}: {client.program} did not reach the host's shell within "
                f"{client.answer_timeout_s:g} s{_append_output(session.log_text())}. Try {client.by_hand}"
            ) from None
        self._shell = session

    def _wait_for_shell(self, session: "_Session") -> bool:
        """Report whether a new session's shell answers, discarding earlier output. Raises TimeoutError."""
        done = None
        try:
            with _AT_ONCE:
                done = session.run_command(
                    ":", {}, b"", time.monotonic() + self.client.answer_timeout_s, first=True
                )
        finally:
            if done is None:
                self._end_session(session)
        return done is not None

    def _take_session(self, *, last: bool) -> "_Session":
        """Return a session for a command.

        last: it ends the session, so a shared first session is not used.
        """
        if not (last and self.client.shares_first_session):
            waiting, self._shell = self._shell, None
            if waiting is not None:
                return waiting
        session = self._start_session()
        try:
            if self._wait_for_shell(session):
                return session
        except TimeoutError:
            raise TimeLimitError(timeout_message(self.host_name, self.client.answer_timeout_s)) from None
        raise self._broken_link_error(session)

    def _start_session(self) -> "_Session":
        if self._closed:
            raise LinkError(f"{self.host_name}: the connection has been closed on our side.")
        session = _Session(self.host_name, self.client, self._folder)
        with self._lock:
            self._running.append(session)
        return session

    def _end_session(self, session: "_Session", grace_s: float = _GRACE_S) -> None:
        session.process.end(grace_s)
        with self._lock:
            if session in self._running:
                self._running.remove(session)

    def _unreachable_error(self, session: "_Session") -> FleetError:
        client, log = self.client, session.log_text()
        if client.own_exit_code is not None and session.ended_with < _SIGNALLED:
            return ProbeError(
                f"{self.host_name}: {client.program} connected, but instead of /bin/sh there was an exit "
                f"code, {session.ended_with}{_append_output(session.printed_text())}. fleet needs an "
                "account that may "
                f"run commands; try {client.by_hand}"
            )
        sign = next((sign for sign in client.signs if sign.text in log), Sign("", UnreachableError))
        if sign.remedy:  # of the lines the one that it answers
            log = next(line for line in log.split("; ") if sign.text in line)
        remedy = sign.remedy or f"Try {client.by_hand}"
        return sign.error(
            f"{self.host_name}: {client.program} could not connect{_append_output(log)}. {remedy}"
        )

    def _broken_link_error(self, session: "_Session") -> LinkError:
        if self._closed:
            return LinkError(f"{self.host_name}: the connection has been closed on our side.")
        if self.client.own_exit_code in (None, session.ended_with):
            return LinkError(
                f"{self.host_name}: the {self.client.program} session "
                f"broke{_append_output(session.log_text())}. What "
                "the command did is unknown. Is the host still up, and the network between?"
            )
        return LinkError(
            f"{self.host_name}: the command ended without an exit code: something on the host killed its "
            "shell. Look at the host's system log (out of memory?)."
        )


class _Session:
    """One client process and the loader at its other end."""

    def __init__(self, host_name: str, client: Client, folder: Path) -> None:
        self.mark = shell.new_mark()
        self.host_name = host_name
        self.program = client.program
        self.ended_with = _SIGNALLED
        self.heard: tuple[bytes, ...] = ()  # its stderr and stdout, unless the shell answered
        self._log = folder / f"{self.mark}.log"
        self.process = Process(host_name, client.command_line(self.mark, folder), client.env)

    def run_command(
        self, command: str, env: dict[str, str], stdin: bytes, deadline: float, *, first: bool = False
    ) -> Completed | None:
        """Run a command; with stdin it is the session's last. Return None if the client ended instead.

        Raises TimeoutError at the deadline.
        """
        text = (shell.render_last_command if stdin else shell.render_command)(command, env, self.mark)
        out, err = Answer(self.host_name, self.mark), Answer(self.host_name, self.mark)
        received = self.process.exchange(text + stdin, deadline, goes_on=not stdin)
        try:
            if (
                done := collect_answer(self._pass_unless_terminal(received) if first else received, out, err)
            ) is not None:
                return done
        finally:
            self.heard = (err.bytes(), *((out.bytes(),) if first else ()))
        self.ended_with = self.process.wait(max(0.0, deadline - time.monotonic()))
        return None

    def printed_text(self) -> str:
        """Return what came instead of an answer, on one line."""
        heard = next((text.strip() for text in self.heard if text.strip()), b"")
        return _join_lines(
            heard.decode("utf-8", "replace").replace(f"{self.mark} :", "").replace(self.mark, "")
        )

    def log_text(self) -> str:
        """Return the client's own log on one line; all its output if it keeps no log."""
        try:
            return _join_lines(self._log.read_text(errors="replace"))
        except OSError:
            return self.printed_text()

    def _pass_unless_terminal(self, received: Iterator[tuple[bool, bytes]]) -> Iterator[tuple[bool, bytes]]:
        """Pass the first answer on. Raises ProbeError if a terminal echoes, adds CR or joins the outputs."""
        seen, mark = b"", self.mark.encode()
        for is_stderr, data in received:
            if not is_stderr:
                seen = (seen + data)[-_SHOWN:]
                if seen.count(mark) > 2 or re.search(rb"[^\n]%b|%b [0-9:]*\r" % (mark, mark), seen):
                    raise ProbeError(
                        f"{self.host_name}: {self.program} goes through a terminal, joins both outputs or "
                        "labels lines. Leave out the option for that (-t, -it, --pty, --tty, --label)."
                    )
            yield is_stderr, data


class ClientStream(Stream):
    """A command running through a client; see Stream."""

    def __init__(
        self,
        connection: CommandConnection,
        session: _Session,
        command: str,
        idle_timeout_s: float,
        limit_s: float,
        stdin: bytes,
    ) -> None:
        super().__init__(connection.host_name, idle_timeout_s, limit_s, stdin)
        self._connection = connection
        self._session = session
        self._mark = session.mark
        try:  # at once, so that a stop before the first line is read finds the command running
            head = shell.render_last_command(command, connection._env, session.mark)
            session.process.write_all(head, time.monotonic() + idle_timeout_s)
        except TimeoutError:
            connection._end_session(session)
            raise LinkError(
                f"{connection.host_name}: the command did not start within {idle_timeout_s:g} s."
            ) from None

    def stop(self) -> None:
        """See Stream.stop."""
        if not self._connection.client.ends_input:
            self._session.process.write_if_open(shell.STOP)
        self._session.process.close_stdin()

    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        process = self._session.process
        if not self._connection.client.ends_input:
            process.heartbeat = b"\n"
        try:
            for piece in process.exchange(
                self._stdin, self._deadline, goes_on=True, idle_timeout_s=self._idle_timeout_s
            ):
                if self._connection._closed:
                    break
                yield piece
            self._session.ended_with = process.wait(self._idle_timeout_s)
        except TimeoutError:
            raise self._time_limit_error() from None
        self._session.heard = (self._tail.bytes(),)
        raise self._connection._broken_link_error(self._session)

    def _end_command(self, *, given_up: bool) -> None:
        at_once = given_up or self.exit_code is not None
        self._connection._end_session(self._session, _GRACE_S if at_once else _STOP_GRACE_S)


def _join_lines(text: str) -> str:
    return "; ".join(line.strip() for line in text.split("\n") if line.strip(" \r@"))[-_SHOWN:]


def _append_output(log: str) -> str:
    return f": {log.rstrip('.?!')}" if log else ""
