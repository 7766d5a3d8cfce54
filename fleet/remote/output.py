"""Bounded keeping of what a command prints: all of it, its lines, or its tail. Pure: no input or output."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import LinkError

RUN_LIMIT_BYTES = 16 << 20  # a host that prints more than this to one command is refused
LINE_LIMIT_BYTES = 1 << 20  # the longest line a stream hands out
STDERR_TAIL_BYTES = 64 << 10
_MARK_ROOM_BYTES = 64
_BEGINS = b" :"  # behind the mark before a command
_EXIT_CODE = re.compile(rb"[0-9]{1,3}")
LINE_TIMEOUT_S = 60.0  # a line that takes longer to arrive is not an agent's, however slow the link


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ran to its end. Bytes as received, never longer than RUN_LIMIT_BYTES each."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class RefusedError(Exception):
    """The host refused an SFTP request. Never leaves `fleet.remote`."""


def never_ended(host_name: str, timeout_s: float) -> str:
    """What to say of a command whose time is up."""
    return (
        f"{host_name}: a command did not end within {timeout_s:g} s. Is that host, or this machine, "
        "overloaded (`uptime`)? If neither, log in by hand and see whether a command waits for something."
    )


def first_line(mark: str) -> bytes:
    """Return what the loader prints before a command, with the newline before it."""
    return b"\n%b%b\n" % (mark.encode(), _BEGINS)


class Answer:
    """What one command printed on one output, between its marks; at most RUN_LIMIT_BYTES are taken."""

    def __init__(self, host_name: str, mark: str) -> None:
        self.host_name = host_name
        self._data = bytearray()
        self._mark = f"\n{mark}".encode()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        """Add `data`; raises LinkError once there is too much."""
        self._data += data
        if len(self._data) > RUN_LIMIT_BYTES:
            raise LinkError(
                f"{self.host_name}: a command printed more than {RUN_LIMIT_BYTES >> 20} MiB, so we stopped "
                "listening. Log in by hand and see what the host prints (a login script in a loop?)."
            )

    def cut(self) -> tuple[bytes, bytes] | None:
        """Return what came between the marks and the rest of the last one's line; None until that is whole.

        What came before the command, such as a greeting, is forgotten, and what comes after it is not ours.
        """
        while True:
            at = self._data.find(self._mark, self._searched)
            newline = -1 if at < 0 else self._data.find(b"\n", at + len(self._mark))
            if newline < 0:
                self._searched = max(0, len(self._data) - len(self._mark)) if at < 0 else at
                return None
            rest = bytes(self._data[at + len(self._mark) : newline])
            if rest != _BEGINS:
                return bytes(self._data[:at]), rest
            del self._data[: newline + 1]
            self._searched = 0

    def bytes(self) -> bytes:
        """Return what was fed, since the command began if it has."""
        return bytes(self._data)


def answer(received: Iterable[tuple[bool, bytes]], out: Answer, err: Answer) -> Completed | None:
    """Collect (is it stderr, data) up to both marks; None: they are missing, of a silence a LinkError."""
    try:
        for is_stderr, data in received:
            (err if is_stderr else out).feed(data)
            if (stdout := out.cut()) and (stderr := err.cut()):
                return Completed(exit_code(stdout[1]), stdout[0], stderr[0])
    except TimeoutError:
        missing = [name for name, output in (("stdout", out), ("stderr", err)) if output.cut() is None]
        if len(missing) != 1:
            raise
        raise LinkError(
            f"{out.host_name}: a command ended, but nothing came on its {missing[0]}, which fleet needs. "
            "Does a login script, a ForceCommand or a client program close it, redirect it or hold it back?"
        ) from None
    return None


def exit_code(word: bytes) -> int:
    """The exit code beside a mark; 126, as of a command that cannot be run, for anything else."""
    return int(word) if _EXIT_CODE.fullmatch(word.strip()) else 126


class Lines:
    """Cuts what is fed into lines without their newline, each at most LINE_LIMIT_BYTES."""

    def __init__(self, host_name: str) -> None:
        self._host_name = host_name
        self._begun = bytearray()
        self._begun_at = 0.0

    def feed(self, data: bytes) -> list[bytes]:
        """Add `data` and return the lines it completes. Raises LinkError on one too long, or too late."""
        *complete, rest = data.split(b"\n")
        lines = []
        for piece in complete:
            self._begin(piece)
            lines.append(self._end())
        self._begin(rest)
        return lines

    def rest(self) -> list[bytes]:
        """Return the unterminated last line, if there is one."""
        return [self._end()] if self._begun else []

    def _begin(self, piece: bytes) -> None:
        if not self._begun:
            self._begun_at = time.monotonic()
        elif time.monotonic() - self._begun_at > LINE_TIMEOUT_S:
            raise LinkError(
                f"{self._host_name}: a line that the host began is not complete after {LINE_TIMEOUT_S:g} s; "
                "the command was given up."
            )
        self._begun += piece
        if len(self._begun) > LINE_LIMIT_BYTES:
            raise LinkError(
                f"{self._host_name}: the host sent a line longer than {LINE_LIMIT_BYTES >> 20} MiB, "
                "which is not how a fleet agent speaks; the command was given up.",
                passing=False,
            )

    def _end(self) -> bytes:
        line = bytes(self._begun)
        self._begun.clear()
        return line


class Tail:
    """The last STDERR_TAIL_BYTES of what is fed."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add `data`, forgetting what is too old."""
        self._data += data
        del self._data[: -STDERR_TAIL_BYTES - _MARK_ROOM_BYTES]

    def cut(self, mark: str) -> bool:
        """Return whether the mark has come; it and what follows is forgotten."""
        at = self._data.find(f"\n{mark}\n".encode())
        if at >= 0:
            del self._data[at:]
        return at >= 0

    def bytes(self) -> bytes:
        """Return what is kept."""
        return bytes(self._data[-STDERR_TAIL_BYTES:])
