"""Connects to a host through a client program's pipes. A random mark in the output ends
each command.
"""

import math
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from fleet import errors
from fleet.errors import LinkError, UnreachableError
from fleet.model import Host
from fleet.remote import shell
from fleet.remote.clients import Client, Sign
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
from fleet.remote.process import GRACE_S, Process

_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin
_SIGNALLED = 128  # smaller exit codes are the command's
_SHOWN = 600  # characters of what a client printed
# clients that connect; an sshd lets in ten strangers at a time
_AT_ONCE = threading.BoundedSemaphore(8)


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

    def _end_session(self, session: "_Session", grace_s: float = GRACE_S) -> None:
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
            self._session, GRACE_S if at_once else _STOP_GRACE_S
        )


def _join_lines(text: str) -> str:
    return "; ".join(line.strip() for line in text.split("\n") if line.strip(" \r@"))[
        -_SHOWN:
    ]


def _make_log_suffix(log: str) -> str:
    return f": {log.rstrip('.?!')}" if log else ""
