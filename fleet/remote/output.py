"""Keeps a command's output within bounds: all of it, its lines, or its tail. Pure: no input or output."""

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
    """A command that ran to its end. Output as received, at most RUN_LIMIT_BYTES each."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class RefusedError(Exception):
    """The host refused an SFTP request. Never leaves `fleet.remote`."""


def timeout_message(host_name: str, timeout_s: float) -> str:
    """Return the message for a command whose time is up."""
    return (
        f"{host_name}: a command did not end within {timeout_s:g} s. Is that host, or this machine, "
        "overloaded (`uptime`)? If neither, log in by hand and see whether a command waits for something."
    )


def start_line(mark: str) -> bytes:
    """Return what the loader prints before a command, with the newline before it."""
    return b"\n%b%b\n" % (mark.encode(), _BEGINS)


class Answer:
    """The output of one command on one stream, between its marks, at most RUN_LIMIT_BYTES."""

    def __init__(self, host_name: str, mark: str) -> None:
        self.host_name = host_name
        self._data = bytearray()
        self._mark = f"\n{mark}".encode()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        """Add `data`. Raises LinkError beyond the limit."""
        self._data += data
        if len(self._data) > RUN_LIMIT_BYTES:
            raise LinkError(
                f"{self.host_name}: a command printed more than {RUN_LIMIT_BYTES >> 20} MiB, so we stopped "
                "listening. Log in by hand and see what the host prints (a login script in a loop?)."
            )

    def split_at_mark(self) -> tuple[bytes, bytes] | None:
        """Return the output between the marks and the rest of the last mark's line; None until then."""
        while True:
            mark_offset = self._data.find(self._mark, self._searched)
            newline = -1 if mark_offset < 0 else self._data.find(b"\n", mark_offset + len(self._mark))
            if newline < 0:
                self._searched = max(0, len(self._data) - len(self._mark)) if mark_offset < 0 else mark_offset
                return None
            rest = bytes(self._data[mark_offset + len(self._mark) : newline])
            if rest != _BEGINS:
                return bytes(self._data[:mark_offset]), rest
            del self._data[: newline + 1]
            self._searched = 0

    def bytes(self) -> bytes:
        """Return what was fed, since the command started if it has."""
        return bytes(self._data)


def collect_answer(received: Iterable[tuple[bool, bytes]], out: Answer, err: Answer) -> Completed | None:
    """Collect (is it stderr, data) up to both marks; None if one is missing. Raises LinkError."""
    try:
        for is_stderr, data in received:
            (err if is_stderr else out).feed(data)
            if (stdout := out.split_at_mark()) and (stderr := err.split_at_mark()):
                return Completed(parse_exit_code(stdout[1]), stdout[0], stderr[0])
    except TimeoutError:
        missing = [
            name for name, output in (("stdout", out), ("stderr", err)) if output.split_at_mark() is None
        ]
        if len(missing) != 1:
            raise
        raise LinkError(
            f"{out.host_name}: a command ended, but nothing came on its {missing[0]}, which fleet needs. "
            "Does a login script, a ForceCommand or a client program close it, redirect it or hold it back?"
        ) from None
    return None


def parse_exit_code(word: bytes) -> int:
    """Return the exit code beside a mark; 126, a command that cannot be run, for anything else."""
    return int(word) if _EXIT_CODE.fullmatch(word.strip()) else 126


class Lines:
    """Splits what is fed into lines without their newline, each at most LINE_LIMIT_BYTES."""

    def __init__(self, host_name: str) -> None:
        self._host_name = host_name
        self._begun = bytearray()
        self._begun_at = 0.0

    def feed(self, data: bytes) -> list[bytes]:
        """Add `data` and return the lines it completes. Raises LinkError for a line too long or too slow."""
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
        """Add `data` and forget what is too old."""
        self._data += data
        del self._data[: -STDERR_TAIL_BYTES - _MARK_ROOM_BYTES]

    def cut_at_mark(self, mark: str) -> bool:
        """Report whether the mark has come; drop it and what follows."""
        mark_offset = self._data.find(f"\n{mark}\n".encode())
        if mark_offset >= 0:
            del self._data[mark_offset:]
        return mark_offset >= 0

    def bytes(self) -> bytes:
        """Return the last STDERR_TAIL_BYTES."""
        return bytes(self._data[-STDERR_TAIL_BYTES:])
