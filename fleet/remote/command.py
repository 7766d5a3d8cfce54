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
from collections.abc import Iterator, Sequence
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
from fleet.remote.process import GRACE_S, SLICE_BYTES, Process

_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin
_SIGNALLED = 128  # the exit code of a client that a signal ended is this or more
_SHOWN = 600  # characters of what a client printed
# an sshd lets in ten strangers at a time
_limit_of_connecting_clients = threading.BoundedSemaphore(8)


class CommandConnection(Connection):
    """A connection to one host by sessions of a client program."""

    # `banner` stays empty: ssh tells it only among its debugging messages.

    def __init__(self, host: Host, client: Client) -> None:
        """Start a first session, which shows that the host can be reached. Raises
        UnreachableError, HostKeyError, AuthError or ProbeError with the client's
        output.
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
        self._open_sessions: list[_Session] = []
        self._shell: _Session | None = None  # the open one that waits for a command
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
        # without end-of-file, the host counts the bytes of stdin to find its end
        if stdin and not self.client.passes_on_end_of_file:
            command = shell.limit_stdin(command, len(stdin))
        # a command with stdin ends its session: all that is sent after it is its stdin
        is_last = bool(stdin)
        session = self._take_session(last=is_last)
        deadline = time.monotonic() + timeout_s
        can_run_another = False
        try:
            # None if the client ended before the command did
            done = session.run_command(command, self._env, stdin, deadline)
            can_run_another = done is not None and not is_last
        except TimeoutError:
            raise errors.TimeLimitError(
                timeout_message(self.host_name, timeout_s)
            ) from None
        finally:
            if can_run_another:
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
        """End all sessions; see Connection.close. Sessions that run a command are ended
        by force. The session that waits for a command gets an empty last command.
        """
        with self._lock:
            self._closed = True
            open_sessions = list(self._open_sessions)
        waiting = self._take_waiting_session()
        for session in open_sessions:
            if session is not waiting:
                session.close_stdin()
                session.signal(signal.SIGTERM)
        if waiting is not None:
            waiting.write_if_open(shell.render_command("", {}, waiting.mark, last=True))
            self._end_session(waiting)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take_session(self, *, last: bool) -> "_Session":
        """Return the waiting session, or a new one. last: the next command will end it.

        The first session may carry the connection that later ones share. It waits on,
        so that a last command takes a new one.
        """
        if last and self.client.shares_first_session:
            return self._start_session()
        return self._take_waiting_session() or self._start_session()

    def _take_waiting_session(self) -> "_Session | None":
        waiting = self._shell
        self._shell = None
        return waiting

    def _start_session(self, *, first: bool = False) -> "_Session":
        """Start a client and wait until its shell answers. first: whether no session
        has answered yet; then a failure means that the host cannot be reached.
        """
        if self._closed:
            raise LinkError(f"{self.host_name}: {CLOSED}")
        session = _Session(self.host_name, self.client, self._folder)
        with self._lock:
            self._open_sessions.append(session)
        has_answered = False
        is_late = False
        try:
            with _limit_of_connecting_clients:
                has_answered = session.has_shell(self.client.answer_timeout_s)
        except TimeoutError:
            is_late = True
        finally:
            if not has_answered:
                self._end_session(session)
        if has_answered:
            return session
        if is_late:
            raise self._no_answer_error(session, first=first)
        if first:
            raise self._unreachable_error(session)
        raise self._broken_link_error(session)

    def _end_session(self, session: "_Session", grace_s: float = GRACE_S) -> None:
        session.end(grace_s)
        with self._lock:
            if session in self._open_sessions:
                self._open_sessions.remove(session)

    def _no_answer_error(
        self, session: "_Session", *, first: bool
    ) -> errors.FleetError:
        """Return the error of a session whose shell did not answer in time. first: no
        session has answered before, so the host was not reached. Otherwise it is slow.
        """
        client = self.client
        if not first:
            return errors.TimeLimitError(
                timeout_message(self.host_name, client.answer_timeout_s)
            )
        return UnreachableError(
            f"{self.host_name}: {client.program} did not reach the host's shell within"
            f" {client.answer_timeout_s:g} s{_make_log_suffix(session.log_text())}."
            f" Try {client.command_to_try}"
        )

    def _unreachable_error(self, session: "_Session") -> errors.FleetError:
        """Return the error of a first session whose client ended before a shell
        answered: the host has no shell, or the client did not connect. The client's
        exit code and what it printed tell which, and what to do.
        """
        client = self.client
        # A client such as ssh ends with the exit code of the host's command, or with
        # 255 for failures of its own. So if it ends with less than 128, it did connect.
        has_own_code = client.own_exit_code is not None
        is_code_of_host = has_own_code and session.ended_with < _SIGNALLED
        if is_code_of_host:
            return errors.ProbeError(
                f"{self.host_name}: {client.program} connected, but instead of /bin/sh"
                " there was an exit code,"
                f" {session.ended_with}{_make_log_suffix(session.printed_text())}."
                " fleet needs an account that may run commands; try"
                f" {client.command_to_try}"
            )
        log = session.log_text()
        sign = _find_sign(client.failure_signs, log)
        advice = f"Try {client.command_to_try}"
        if sign.remedy:
            advice = sign.remedy
            # the sign stands in the log: show only its line, which the remedy answers
            log_lines = log.split("; ")
            log = next(line for line in log_lines if sign.text in line)
        return sign.error(
            f"{self.host_name}: {client.program} could not"
            f" connect{_make_log_suffix(log)}. {advice}"
        )

    def _broken_link_error(self, session: "_Session") -> LinkError:
        """Return the error of a client that ended while a command ran.

        If the link broke, some clients end with an exit code of their own, as ssh does
        with 255. Any other code of such a client is that of the host's shell, so that
        something killed the shell. A client without a code of its own does not tell
        the two apart; then the link is said to have broken.
        """
        if self._closed:
            return LinkError(f"{self.host_name}: {CLOSED}")
        own_code = self.client.own_exit_code
        may_link_have_broken = own_code is None or own_code == session.ended_with
        if may_link_have_broken:
            log = _make_log_suffix(session.log_text())
            return LinkError(
                f"{self.host_name}: the {self.client.program} session broke{log}. What"
                " the command did is unknown. Is the host still up, and the network"
                " between?"
            )
        return LinkError(f"{self.host_name}: {KILLED}")


def _find_sign(signs: Sequence[Sign], log: str) -> Sign:
    """Return the first sign whose text stands in a client's log. If there is no such
    sign, return a sign of UnreachableError without a remedy.
    """
    for sign in signs:
        if sign.text in log:
            return sign
    return Sign("", UnreachableError)


class _Session(Process):
    """One client process, and the shell on the host that runs loader.sh for it."""

    def __init__(self, host_name: str, client: Client, folder: Path) -> None:
        """Start the client. folder: where the client may keep its log."""
        self.mark = shell.new_mark()
        self.host_name = host_name
        self.program = client.program
        # the client's exit code; until it has ended, as if a signal had ended it
        self.ended_with = _SIGNALLED
        # what the client itself printed, for errors: its stderr, then its stdout
        self.client_messages: Sequence[bytes] = ()
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
        """Run a command. If it has stdin, it is the session's last command, and the
        session's stdin ends with it. Return None if the client ended before the command
        did; `client_messages` and `ended_with` then tell why. first: whether it is the
        session's first command. Raises TimeoutError.
        """
        is_last = bool(stdin)
        script = shell.render_command(command, env, self.mark, last=is_last)
        out = Answer(self.host_name, self.mark)
        err = Answer(self.host_name, self.mark)
        received = self.exchange(script + stdin, deadline, keep_open=not is_last)
        if first:
            received = self._reject_terminal_output(received)
        try:
            done = collect_answer(received, out, err)
            if done is not None:
                return done
        finally:
            self.client_messages = [bytes(err.data)]
            # errors quote these messages: the first command prints nothing itself, so
            # the client printed what is on stdout
            if first:
                self.client_messages.append(bytes(out.data))
        self.ended_with = self.wait(max(0.0, deadline - time.monotonic()))
        return None

    def has_shell(self, timeout_s: float) -> bool:
        """Report whether a shell answers, or the client ends first. Raises
        TimeoutError.
        """
        deadline = time.monotonic() + timeout_s
        return self.run_command(":", {}, b"", deadline, first=True) is not None

    def printed_text(self) -> str:
        """Return, on one line, what the client printed instead of an answer: on stderr,
        or on stdout if stderr is empty. "" if the client printed nothing at all.
        """
        for output in self.client_messages:
            text = output.strip().decode("utf-8", "replace")
            if text:
                # Marks are no words of the client: a shell may have printed its begin
                # mark, `MARK :`, before something killed it.
                text = text.replace(f"{self.mark} :", "").replace(self.mark, "")
                return _join_lines(text)
        return ""

    def log_text(self) -> str:
        """Return the client's own log on one line. If the client keeps no log, return
        what it printed instead.
        """
        try:
            return _join_lines(self._log.read_text(errors="replace"))
        except OSError:
            return self.printed_text()

    def _reject_terminal_output(
        self, received: Iterator[tuple[bool, bytes]]
    ) -> Iterator[tuple[bool, bytes]]:
        """Pass on (is_stderr, data) of the session's first command. Raises ProbeError
        if the client gives the command a terminal, which echoes what is sent, ends
        lines by CR and LF, or joins both outputs.

        On clean stdout the mark stands twice, before and after the command, each time
        at the beginning of a line that ends by LF alone. An echo or joined outputs have
        the mark more often.
        """
        mark = self.mark.encode()
        # either text before the mark on its line, or a CR at the line's end
        spoilt_mark = re.compile(rb"[^\n]%b|%b [0-9:]*\r" % (mark, mark))
        stdout_tail = b""
        for is_stderr, data in received:
            if not is_stderr:
                # Cutting loses no mark of ours: the first command prints nothing, so
                # both marks end stdout, in far fewer bytes than _SHOWN.
                stdout_tail = (stdout_tail + data)[-_SHOWN:]
                has_too_many_marks = stdout_tail.count(mark) > 2
                if has_too_many_marks or spoilt_mark.search(stdout_tail):
                    why = _explain_spoilt(stdout_tail, mark)
                    raise errors.ProbeError(f"{self.host_name}: {self.program} {why}")
            yield is_stderr, data


def _explain_spoilt(stdout_tail: bytes, mark: bytes) -> str:
    """Say what a client does to the first answer, and which of its options the user is
    to leave out. stdout_tail: the end of what came on stdout, with a spoilt mark.

    A terminal ends each line by CR and LF. If a line with the mark ends by LF alone, no
    terminal is to blame: the client itself joins or changes the outputs.
    """
    has_clean_mark_line = re.search(rb"%b [0-9:]*\n" % mark, stdout_tail) is not None
    if not has_clean_mark_line:
        return (
            "gives the command a terminal, which echoes and changes what is sent. Leave"
            " out the option for that (-t, -tt, -it, --pty, --tty)."
        )
    return (
        "joins both outputs or labels lines. Leave out the option for that (--label,"
        " -t, --tty)."
    )


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
        """Start the command as the last one of a session: its stdin stays open."""
        session = connection._take_session(last=True)
        super().__init__(connection.host_name, idle_timeout_s, limit_s, stdin)
        self._connection = connection
        self._session = session
        self._mark = session.mark
        # If the client does not pass on end-of-file, a line ends the command's stdin.
        # The length tells where `stdin` ends and such lines begin.
        if not connection.client.passes_on_end_of_file:
            command = shell.end_stdin_at_stop_line(command, len(stdin))
        script = shell.render_command(command, connection._env, session.mark, last=True)
        # The command is sent now, not when the first line is read, so that `stop` can
        # end it before a line is read.
        try:
            session.write_all(script, time.monotonic() + idle_timeout_s)
        except TimeoutError:
            connection._end_session(session)
            raise LinkError(
                f"{connection.host_name}: the command did not start within"
                f" {idle_timeout_s:g} s."
            ) from None

    def stop(self) -> None:
        """See Stream.stop."""
        if not self._connection.client.passes_on_end_of_file:
            self._session.write_if_open(shell.STOP)
        self._session.close_stdin()

    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        """Yield (is_stderr, data) until the client ends, then raise LinkError: the
        client has ended too early, since `Stream` stops reading at the end marks.
        """
        session = self._session
        client = self._connection.client
        if not client.passes_on_end_of_file:
            # without these lines the host would take us for gone, and end stdin
            session.heartbeat = b"\n"
        if client.reading_pause_s:
            # the pipe holds what the client prints while we pause
            session.hold_more_output()
        received = session.exchange(
            self._stdin,
            self._deadline,
            keep_open=True,
            idle_timeout_s=self._idle_timeout_s,
        )
        try:
            for is_stderr, data in received:
                if self._connection._closed:
                    break
                yield is_stderr, data
                # Let more output gather before we read on: each time that we wake up
                # may disturb what is measured on this machine.
                was_all_that_came = len(data) < SLICE_BYTES
                if was_all_that_came:
                    time.sleep(client.reading_pause_s)
            session.ended_with = session.wait(self._idle_timeout_s)
        except TimeoutError:
            raise self._time_limit_error() from None
        session.client_messages = [bytes(self._stderr_tail)]  # the error quotes them
        raise self._connection._broken_link_error(session)

    def _end_command(self, *, given_up: bool) -> None:
        """End the session. A command that may be about to end by itself gets more time
        for that.
        """
        grace_s = _STOP_GRACE_S
        if given_up or self.exit_code is not None:
            grace_s = GRACE_S
        self._connection._end_session(self._session, grace_s)


def _join_lines(text: str) -> str:
    """Return the end of a text on one line, without lines that are empty or of @
    alone.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip(" \r@")]
    return "; ".join(lines)[-_SHOWN:]


def _make_log_suffix(log: str) -> str:
    return f": {log.rstrip('.?!')}" if log else ""
