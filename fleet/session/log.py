"""Writes a session's logs to `logs/<session_id>/`: one for all hosts, one for each that
did not complete.
"""

import contextlib
import fnmatch
import os
import re
import threading
import weakref
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.errors import StoreError
from fleet.hostnames import strip_host_name
from fleet.model import Host
from fleet.session import events
from fleet.session.events import Outcome, State
from fleet.store import Store
from fleet.store.files import enter_state_folder, list_folder, open_regular
from fleet.text import LINE_QUOTED, one_line, printable

KEPT_DAYS = 90  # after a session's last line
# bytes of a session's log; what follows is not kept, and the log says so
SESSION_LIMIT = 8 << 20
LINES_OF_A_HOST = 500  # the last ones
COMMAND_LINES = 100  # of the output of a command, the first and the last ones
_SESSION = re.compile(r"s[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_FULL = "The log is full; what follows is not kept.\n"


class SessionLog:
    """Writes events to the log in escaped lines without secrets, and passes each event
    on to `next_handler`.
    """

    def __init__(self, folder: Path, next_handler: events.EventHandler) -> None:
        """Begin without a file: the first line makes the log. folder: of the session's
        logs.
        """
        self.folder = folder
        self._next_handler = next_handler
        self._guard = threading.Lock()  # of the fields below: each host has a thread
        self._lines: dict[str, deque[str]] = {}  # by host name: its last lines
        self._written = 0  # bytes of the session's log
        self._session_log: int | None = None  # its descriptor, once a line was written

    def __call__(self, event: events.Event) -> None:
        """Log the event and pass it on."""
        match event:
            case events.StageEntered(host, stage, detail):
                self._write(host, f"stage {stage} {detail}".rstrip())
            case events.DurationEstimated(host, duration):
                self._write(host, f"measuring takes, by forecast, {duration}")
            case events.NoteAdded(host, text):
                self._write(host, strip_host_name(host, text))
            case events.CommandEnded():
                self._log_command(event)
            case events.HostFinished(outcome):
                self._log_outcome(outcome)
        self._next_handler(event)

    def _log_command(self, ended: events.CommandEnded) -> None:
        """Write how a command ended, and the first and the last lines of its output."""
        lines = ended.output.splitlines()
        cut_lines = len(lines) - 2 * COMMAND_LINES
        if cut_lines > 0:
            gap = f"({cut_lines:,} lines left out)"
            lines = [*lines[:COMMAND_LINES], gap, *lines[-COMMAND_LINES:]]
        head = f"`{ended.command}` ended with exit code {ended.exit_code}"
        for line in (head, *lines):
            self._write(ended.host, f"{ended.stage}: {_shorten(line)}")

    def _log_outcome(self, outcome: Outcome) -> None:
        """Write how a host ended. For a host that did not complete, also write a log of
        that host alone, with its last lines and the outcome's message.
        """
        run = f" {outcome.run_id}" if outcome.run_id else ""
        text = (
            f"{outcome.state} in stage {outcome.stage},{run} {outcome.bursts} bursts"
            f" in {outcome.seconds:.1f} s {outcome.message}"
        )
        self._write(outcome.host, text.rstrip())
        with self._guard:
            lines = self._lines.pop(outcome.host.name, ())
        if outcome.state is not State.COMPLETE:
            text = printable("".join(lines) + f"\n{outcome.message}\n")
            self._append_to_log_of_host(outcome.host, text)

    def _append_to_log_of_host(self, host: Host, text: str) -> None:
        """Append a text to the log of a host alone; do nothing if that fails."""
        with (
            contextlib.suppress(OSError),
            os.fdopen(self._open(f"{host.host_id}.log"), "ab") as log,
        ):
            log.write(text.encode())

    def _write(self, host: Host, text: str) -> None:
        """Write a line on a host to the session's log, and keep it for the host's own
        log. The first line beyond SESSION_LIMIT is replaced by a line that says so;
        later lines are only kept for the host's log.
        """
        moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        line = f"{moment} {host.name}: {one_line(text)}\n"
        with self._guard:
            own_lines = self._lines.setdefault(host.name, deque(maxlen=LINES_OF_A_HOST))
            own_lines.append(line)
            if self._written > SESSION_LIMIT:
                return
            self._written += len(line.encode())
            if self._written > SESSION_LIMIT:
                line = _FULL
            with contextlib.suppress(OSError):
                os.write(self._open_session_log(), line.encode())

    def _open_session_log(self) -> int:
        """Return its descriptor, which stays open: each line of many hosts goes
        there.
        """
        if self._session_log is None:
            self._session_log = self._open("session.log")
            weakref.finalize(self, os.close, self._session_log)
        return self._session_log

    def _open(self, name: str) -> int:
        logs = self.folder.parent
        with enter_state_folder(
            logs.parent, f"{logs.name}/{self.folder.name}", 0o700
        ) as folder:
            return open_regular(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def prune_logs(store: Store) -> None:
    """Remove old logs of finished sessions, which have no note and no journal in this
    state directory.
    """
    oldest_kept = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
    with (
        contextlib.suppress(OSError, StoreError),  # what cannot be read stays
        enter_state_folder(store.state_dir, "logs") as logs,
    ):
        folders = [logs / name for name in list_folder(logs)]
        old = [folder for folder in folders if _ended_before(folder, oldest_kept)]
        if not old:
            return
        unfinished = _list_unfinished_sessions(store)
        for folder in old:
            if folder.name not in unfinished:
                # another controller was quicker, or there is more in it
                with contextlib.suppress(OSError):
                    _remove_logs(folder)


def _list_unfinished_sessions(store: Store) -> set[str]:
    """Return the IDs of sessions that have a note or a journal here."""
    unfinished = {intent.session_id for intent in store.read_idle_intents()}
    unfinished |= store.running_sessions().keys()
    unfinished |= {run.session_id for run in store.read_begun_runs()}
    return unfinished


def _remove_logs(folder: Path) -> None:
    for name in fnmatch.filter(list_folder(folder), "*.log"):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _ended_before(folder: Path, moment: datetime) -> bool:
    """Report whether `folder` is a session's and, by its name and its files' times,
    older than `moment`.
    """
    if not _SESSION.fullmatch(folder.name):
        return False
    if not folder.is_dir() or folder.is_symlink():
        return False
    # the names begin with the time in UTC, so their order is that of the sessions
    first_newer_name = f"s{moment:%Y%m%dT%H%M%SZ}"
    if folder.name >= first_newer_name:
        return False
    paths = [folder, *(folder / name for name in list_folder(folder))]
    last_written = max(path.lstat().st_mtime for path in paths)
    return last_written < moment.timestamp()


def _shorten(line: str) -> str:
    """Cut a line after LINE_QUOTED characters, and say how many are left out."""
    cut = len(line) - LINE_QUOTED
    if cut <= 0:
        return line
    return f"{line[:LINE_QUOTED]} ({cut:,} characters left out)"
