"""Keeps what a session says: one log of all hosts, and one of each host that did not end well. Floor 4.

Beside the results, in `_logs/<session_id>/` on this machine; `_` keeps it out of readers' way. A log that
cannot be written costs no run. Old ones go when another session begins.
"""

import contextlib
import os
import re
import threading
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.errors import StoreError
from fleet.hostnames import without_name
from fleet.model import Host
from fleet.plan.estimate import Duration
from fleet.session.outcome import Outcome, State, Watcher
from fleet.store import Store
from fleet.store.files import write_all
from fleet.text import one_line, printable

KEPT_DAYS = 90  # after a session's last word
SESSION_LIMIT = 8 << 20  # bytes of a session's log; what comes then is not kept, and the log says so
LINES_OF_A_HOST = 500  # the last ones
_SESSION = re.compile(r"s[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_FULL = "The log is full; what follows is not kept.\n"


class Logged:
    """A watcher that keeps what another one shows.

    What hosts said is escaped, a line each in the session's log; the environment's values and what else is
    secret never reach a watcher.
    """

    def __init__(self, folder: Path, shown: Watcher) -> None:
        self.folder = folder
        self._shown = shown
        self._guard = threading.Lock()
        self._lines: dict[str, deque[str]] = {}
        self._written = 0
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def stage(self, host: Host, stage: str) -> None:
        """Keep it and pass it on."""
        self._keep(host, f"stage {stage}")
        self._shown.stage(host, stage)

    def progress(self, host: Host, done: int, total: int) -> None:
        """Pass it on; how many there were stands at the end."""
        self._shown.progress(host, done, total)

    def expect(self, host: Host, duration: Duration) -> None:
        """Keep it and pass it on."""
        self._keep(host, f"measuring takes about {duration}")
        self._shown.expect(host, duration)

    def note(self, host: Host, text: str) -> None:
        """Keep it and pass it on."""
        self._keep(host, without_name(host, text))
        self._shown.note(host, text)

    def finished(self, outcome: Outcome) -> None:
        """Keep how it ended, and the host's own log if that was not well."""
        host, run = outcome.host, f" {outcome.run_id}" if outcome.run_id else ""
        ending = f"{outcome.state} in stage {outcome.stage},{run} {outcome.bursts} bursts"
        self._keep(host, f"{ending} in {outcome.seconds:.1f} s {outcome.message}".rstrip())
        with self._guard:
            lines = self._lines.pop(host.name, ())
        if outcome.state is not State.COMPLETE:
            text = printable("".join(lines) + f"\n{outcome.message}\n")
            _append(self.folder / f"{host.host_id}.log", text)
        self._shown.finished(outcome)

    def _keep(self, host: Host, text: str) -> None:
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {host.name}: {one_line(text)}\n"
        with self._guard:
            self._lines.setdefault(host.name, deque(maxlen=LINES_OF_A_HOST)).append(line)
            if self._written > SESSION_LIMIT:
                return
            self._written += len(line.encode())
            _append(self.folder / "session.log", _FULL if self._written > SESSION_LIMIT else line)


def prune(store: Store) -> None:
    """Remove the logs of sessions that said their last word long ago and have nothing left to finish.

    A session under way, on any machine with this state directory, has a note or a journal there and is
    left alone; so are links and files that are not logs.
    """
    long_ago = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
    with contextlib.suppress(OSError, StoreError):  # what cannot be looked at stays
        old = [folder for folder in (store.state_dir / "_logs").iterdir() if _ended_before(folder, long_ago)]
        unfinished = _unfinished(store) if old else set()
        for folder in old:
            if folder.name not in unfinished:
                _remove(folder)


def _ended_before(folder: Path, moment: datetime) -> bool:
    """Whether this is a session's folder with nothing in it as young as that; most show it by their name."""
    ours = _SESSION.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink()
    if not ours or folder.name >= f"s{moment:%Y%m%dT%H%M%SZ}":
        return False
    return max(path.lstat().st_mtime for path in (folder, *folder.iterdir())) < moment.timestamp()


def _unfinished(store: Store) -> set[str]:
    noted = {note.session_id for note in store.intents()}
    return noted | set(store.busy()) | {run.session_id for run in store.begun()}


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another controller was quicker, or there is more in it
        for log in folder.glob("*.log"):
            log.unlink(missing_ok=True)
        folder.rmdir()


def _append(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, text.encode())
        finally:
            os.close(descriptor)
