"""A host over the user's own `ssh` program (`via: openssh`): the Connection protocol on its stdin and stdout.

For servers, keys and certificates that paramiko does not know. The conversation is that of `ssh`: one ssh
runs one command after another in the loader's shell, and shares its session with those for commands that need
their own stdin.
"""

import math
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from fleet.errors import AuthError, FleetError, HostKeyError, LinkError, ProbeError, UnreachableError
from fleet.model import Host, HostKeyPolicy
from fleet.remote import shell
from fleet.remote.base import BaseConnection
from fleet.remote.command_stream import CommandStream
from fleet.remote.connection import Completed
from fleet.remote.output import Answer, answer, never_ended
from fleet.remote.process import Process
from fleet.remote.ssh import config_lookup

_KEEPALIVE_S, _MISSED = 5, 3  # a host that answers none of so many is gone
_USER_ACTS_S = 60.0  # the user may have to touch a token
_STOP_GRACE_S = 5.0  # for a command to end after end-of-file on its stdin
_NO_SESSION = 255  # ssh's own exit code
_SIGNALLED = 128  # smaller exit codes are the command's
_SHOWN = 600  # characters of what ssh printed
_HOST_KEY = ("Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED", "No matching host key")
_REFUSED = ("Permission denied (", "Too many authentication failures", "No supported authentication methods")
_BUSY = ("kex_exchange_identification", "banner exchange", "Connection reset by", "Connection closed by")
_AT_ONCE = threading.BoundedSemaphore(8)  # handshakes; an sshd lets in ten strangers at a time


class OpenSshConnection(BaseConnection):
    """An open session of ssh with one host."""

    # `banner` stays empty: ssh tells it only among its debugging messages.

    def __init__(self, host: Host, timeout_s: float) -> None:
        super().__init__(host)
        self._folder = Path(tempfile.mkdtemp(prefix="fleet-ssh-"))
        self._ssh = _command(host, timeout_s, self._folder)
        self._lock = threading.Lock()
        self._closed = False
        self._running: list[_Session] = []
        self._shell: _Session | None = None  # one that waits for a command

    @classmethod
    def open(cls, host: Host, timeout_s: float) -> Self:
        """Connect. Raises UnreachableError, HostKeyError, AuthError or ProbeError, with what was printed."""
        connection = cls(host, timeout_s)
        try:
            with _AT_ONCE:
                connection._connect(timeout_s + _USER_ACTS_S)
        except BaseException:
            connection.close()
            raise
        return connection

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """See Connection.run. On a timeout the command is left to itself, without stdin and stdout."""
        session = self._start() if stdin else self._waiting_shell()
        kept = False
        try:
            done = session.ask(command, self._env, stdin, time.monotonic() + timeout_s)
            kept = not stdin and done is not None
        except TimeoutError:
            raise LinkError(never_ended(self.host_name, timeout_s)) from None
        finally:
            if kept:
                self._shell = session
            else:
                self._end(session)
        if done is None:
            raise self._broken(session)
        return done

    def stream(
        self, command: str, *, idle_timeout_s: float, limit_s: float = math.inf, stdin: bytes = b""
    ) -> "OpenSshStream":
        """See Connection.stream."""
        return OpenSshStream(self, self._start(), command, idle_timeout_s, limit_s, stdin)

    def close(self) -> None:
        """See Connection.close."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        kept, self._shell = self._shell, None
        for session in running:
            session.process.close_stdin()
            if session is not kept:
                session.process.signal(signal.SIGTERM)
        if kept is not None:
            self._end(kept)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self, timeout_s: float) -> None:
        """Start the session that the others share, and wait until its shell answers."""
        session = self._start()
        done = None
        try:
            done = session.ask(":", {}, b"", time.monotonic() + timeout_s)
        except TimeoutError:
            raise UnreachableError(
                f"{self.host_name}: ssh did not reach the host's shell within {timeout_s:g} s"
                f"{_quoted(session.log())}. Try `{session.by_hand}`."
            ) from None
        finally:
            if done is None:
                self._end(session)
        if done is None:
            raise self._unreachable(session)
        self._shell = session

    def _waiting_shell(self) -> "_Session":
        kept, self._shell = self._shell, None
        return kept if kept is not None else self._start()

    def _start(self) -> "_Session":
        if self._closed:
            raise LinkError(f"{self.host_name}: the connection has been closed on our side.")
        session = _Session(self.host_name, self._ssh, self._folder)
        with self._lock:
            self._running.append(session)
        return session

    def _end(self, session: "_Session", grace_s: float = 1.0) -> None:
        session.process.end(grace_s)
        with self._lock:
            if session in self._running:
                self._running.remove(session)

    def _unreachable(self, session: "_Session") -> FleetError:
        if session.ended_with is not None and session.ended_with < _SIGNALLED:
            return ProbeError(
                f"{self.host_name}: ssh connected, but instead of /bin/sh there was an exit code, "
                f"{session.ended_with}{_quoted(session.printed)}. fleet needs an account that may run "
                f"commands; try `{session.by_hand} '/bin/sh -c uname'`."
            )
        log = session.log()
        text = f"{self.host_name}: ssh could not connect{_quoted(log)}. Try `{session.by_hand}`."
        if any(sign in log for sign in _HOST_KEY):
            return HostKeyError(text)
        if any(sign in log for sign in _REFUSED):
            return AuthError(text)
        return UnreachableError(text, passing=any(sign in log for sign in _BUSY))

    def _broken(self, session: "_Session") -> LinkError:
        if self._closed:
            return LinkError(f"{self.host_name}: the connection has been closed on our side.")
        if session.ended_with in (None, _NO_SESSION):
            return LinkError(
                f"{self.host_name}: the SSH session broke{_quoted(session.log())}. What the command did is "
                "unknown. Is the host still up, and the network between?"
            )
        return LinkError(
            f"{self.host_name}: the command ended without an exit code: something on the host killed its "
            "shell. Look at the host's system log (out of memory?)."
        )


class _Session:
    """One ssh process and the loader at its other end."""

    def __init__(self, host_name: str, ssh: tuple[str, ...], folder: Path) -> None:
        self.mark = shell.new_mark()
        self.host_name = host_name
        self.by_hand = _by_hand(ssh)
        self.ended_with: int | None = None
        self.printed = ""  # by a shell that ended instead of answering
        self._log = folder / f"{self.mark}.log"
        command = (ssh[0], "-E", str(self._log), *ssh[1:], shell.LOADER + self.mark)
        self.process = Process(host_name, command, {"SSH_ASKPASS_REQUIRE": "never"})

    def ask(self, command: str, env: dict[str, str], stdin: bytes, deadline: float) -> Completed | None:
        """Run a command, the last one if it has a stdin; None if ssh ended instead. TimeoutError."""
        text = (shell.last if stdin else shell.question)(command, env, self.mark)
        out, err = Answer(self.host_name, self.mark), Answer(self.host_name, self.mark)
        received = self.process.talk(text + stdin, deadline, goes_on=not stdin)
        if (done := answer(received, out, err)) is not None:
            return done
        self.ended_with = self.process.wait(max(0.0, deadline - time.monotonic()))
        self.printed = (err.bytes().strip() or out.bytes().strip())[-_SHOWN:].decode("utf-8", "replace")
        return None

    def log(self) -> str:
        """What ssh itself printed, on one line."""
        try:
            lines = self._log.read_text(errors="replace").split("\n")
        except OSError:
            return ""
        return "; ".join(line.strip() for line in lines if line.strip(" \r@"))[-_SHOWN:]


class OpenSshStream(CommandStream):
    """A command running through ssh; see Stream."""

    def __init__(
        self,
        connection: OpenSshConnection,
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
        try:
            head = shell.last(command, connection._env, session.mark)
            session.process.send(head, time.monotonic() + idle_timeout_s)
        except TimeoutError:
            connection._end(session)
            raise LinkError(
                f"{connection.host_name}: the command did not start within {idle_timeout_s:g} s."
            ) from None

    def stop(self) -> None:
        """See Stream.stop."""
        self._session.process.close_stdin()

    def _pieces(self) -> Iterator[tuple[bool, bytes]]:
        process = self._session.process
        try:
            yield from process.talk(
                self._stdin, self._deadline, goes_on=True, idle_timeout_s=self._idle_timeout_s
            )
            self._session.ended_with = process.wait(self._idle_timeout_s)
        except TimeoutError:
            raise self._too_late() from None
        raise self._connection._broken(self._session)

    def _end(self, *, given_up: bool) -> None:
        at_once = given_up or self.exit_code is not None
        self._connection._end(self._session, 1.0 if at_once else _STOP_GRACE_S)


def _command(host: Host, timeout_s: float, folder: Path) -> tuple[str, ...]:
    """The ssh command up to the host's name: the user's configuration, and what the inventory overrides."""
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UnreachableError(f"{host.name}: `via: openssh` needs the ssh program, and PATH leads to none.")
    known = host.host_key is not HostKeyPolicy.ACCEPT_NEW
    settings: dict[str, object] = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes" if known else "accept-new",
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
    own = config_lookup.lookup(host.name, host.address, host.user, host.port, file)
    if own.get("controlpath", ("none",))[-1] == "none":  # else the user shares sessions already
        settings |= {"ControlMaster": "auto", "ControlPath": folder / "session", "ControlPersist": "no"}
    return (
        ssh,
        *(("-F", file) if file else ()),
        *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")),
        *(("-o", "IdentitiesOnly=yes") if host.identity_files else ()),
        *(word for path in host.identity_files for word in ("-i", os.path.expanduser(path))),  # noqa: PTH111
        *(("-J", ",".join(host.jump)) if host.jump else ()),
        *(("-p", str(host.port)) if host.port else ()),
        *(("-l", host.user) if host.user else ()),
        *("--", host.address),
    )


def _by_hand(ssh: tuple[str, ...]) -> str:
    """The command for a person to try: without the settings that matter to a program only."""
    settings = {at + offset for at, word in enumerate(ssh) if word == "-o" for offset in (0, 1)}
    return shlex.join(["ssh", *(word for at, word in enumerate(ssh) if at and at not in settings)])


def _quoted(log: str) -> str:
    return f": {log.rstrip('.')}" if log else ""
