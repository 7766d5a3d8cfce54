"""Reads the output of a command between its marks, within limits: all of it, its lines,
or its tail.
"""

import abc
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from fleet.errors import LinkError

# a host that prints more than this to one command is refused
RUN_LIMIT_BYTES = 16 << 20
LINE_LIMIT_BYTES = 1 << 20  # the longest line a stream hands out
STDERR_TAIL_BYTES = 64 << 10
_MARK_ROOM_BYTES = 64
_BEGINS = b" :"  # behind the mark before a command
_EXIT_CODE = re.compile(rb"[0-9]{1,3}")
CLOSED = "the connection has been closed on our side."
KILLED = (
    "the command ended without an exit code: something on the host killed its shell. "
    "Look at the host's system log (out of memory?)."
)
# a line that takes longer to arrive is not an agent's, however slow the link
LINE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended, with its outputs as received, at most RUN_LIMIT_BYTES
    each.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes


class RefusedError(Exception):
    """The host refused an SFTP request. Never leaves `fleet.remote`."""


def timeout_message(host_name: str, timeout_s: float) -> str:
    """Return the message for a command whose time is up."""
    return (
        f"{host_name}: a command did not end within {timeout_s:g} s. Is that host, or"
        " this machine, overloaded (`uptime`)? If neither, log in by hand and see"
        " whether a command waits for something."
    )


class Answer:
    """A command's stdout or stderr, between the marks before and after it, at most
    RUN_LIMIT_BYTES.
    """

    def __init__(self, host_name: str, mark: str) -> None:
        self.host_name = host_name
        self.data = bytearray()  # since the command started, if it has
        self._mark = f"\n{mark}".encode()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        """Add `data`. Raises LinkError beyond the limit."""
        self.data += data
        if len(self.data) > RUN_LIMIT_BYTES:
            raise LinkError(
                f"{self.host_name}: a command printed more than {RUN_LIMIT_BYTES >> 20}"
                " MiB, so we stopped listening. Log in by hand and see what the host"
                " prints (a login script in a loop?)."
            )

    def split_at_end_mark(self) -> tuple[bytes, bytes] | None:
        """Return the output before the last mark and the rest of the mark's line; None
        until both came.
        """
        while True:
            mark_offset = self.data.find(self._mark, self._searched)
            if mark_offset < 0:  # unless its first part is the end of the data
                self._searched = max(0, len(self.data) - len(self._mark))
                return None
            mark_end = mark_offset + len(self._mark)
            newline = self.data.find(b"\n", mark_end)
            if newline < 0:
                self._searched = mark_offset
                return None
            rest = bytes(self.data[mark_end:newline])
            if rest != _BEGINS:
                return bytes(self.data[:mark_offset]), rest
            del self.data[: newline + 1]
            self._searched = 0


def collect_answer(
    received: Iterable[tuple[bool, bytes]], out: Answer, err: Answer
) -> Completed | None:
    """Collect (is_stderr, data) up to each output's last mark; None if one is missing.
    Raises LinkError.
    """
    try:
        for is_stderr, data in received:
            answer = err if is_stderr else out
            answer.feed(data)
            stdout = out.split_at_end_mark()
            stderr = err.split_at_end_mark() if stdout else None
            if stdout and stderr:
                exit_code = parse_exit_code(stdout[1])
                return Completed(exit_code, stdout[0], stderr[0])
    except TimeoutError:
        outputs = {"stdout": out, "stderr": err}
        missing = [
            name
            for name, output in outputs.items()
            if output.split_at_end_mark() is None
        ]
        if len(missing) != 1:
            raise
        raise LinkError(
            f"{out.host_name}: a command ended, but nothing came on its {missing[0]},"
            " which fleet needs. Does a login script, a ForceCommand or a client"
            " program close it, redirect it or hold it back?"
        ) from None
    return None


def parse_exit_code(word: bytes) -> int:
    """Parse the exit code beside a mark; return 126, "cannot be run", for any other
    text.
    """
    return int(word) if _EXIT_CODE.fullmatch(word.strip()) else 126


class Stream(abc.ABC):
    """A running command whose stdin we hold open; iterate it for stdout lines without
    their newline.

    Iterating raises LinkError if the link breaks, no byte comes for `idle_timeout_s`,
    the command runs longer than `limit_s`, or a line is longer than LINE_LIMIT_BYTES or
    takes too long. Iterating ends with the command and sets `exit_code` and `stderr`
    (the last 64 KiB). Leaving the context stops the command.
    """

    _mark: str  # printed on both outputs, before and after those of the command

    def __init__(
        self, host_name: str, idle_timeout_s: float, limit_s: float, stdin: bytes
    ) -> None:
        self.exit_code: int | None = None
        self.stderr = b""
        self._host_name = host_name
        self._idle_timeout_s = idle_timeout_s
        self._limit_s = limit_s
        self._stdin = stdin
        self._deadline = time.monotonic() + limit_s
        self._line = bytearray()  # that has begun
        self._line_began = 0.0
        self._tail = bytearray()  # of stderr
        self._has_begun = False
        self._marked: int | None = None  # the exit code beside the mark
        self._blank = False  # whether an empty line is held back
        self._over = False
        self._given_up = False

    @abc.abstractmethod
    def stop(self) -> None:
        """Close the command's stdin, which makes an agent end. Thread-safe; may be
        called twice.
        """

    @abc.abstractmethod
    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        """Yield (is_stderr, data) until both outputs end; then set the exit code or
        raise LinkError.
        """

    @abc.abstractmethod
    def _end_command(self, *, given_up: bool) -> None:
        """End the command; give it time to end by itself unless it was given up."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            for is_stderr, data in self._receive():
                if is_stderr:
                    self._tail += data
                    del self._tail[: -STDERR_TAIL_BYTES - _MARK_ROOM_BYTES]
                else:
                    yield from self._lines_before_mark(self._complete_lines(data))
                if self._marked is not None and self._cut_tail_at_mark():
                    self.exit_code = self._marked
                    return
        except LinkError:
            self._given_up = True
            raise
        finally:
            tail = bytes(self._tail[-STDERR_TAIL_BYTES:])
            self.stderr = tail.rpartition(f"\n{self._mark} :\n".encode())[2]
        if self._line:
            yield from self._lines_before_mark([bytes(self._line)])
        if self._blank and self._marked is None:
            yield b""

    def _cut_tail_at_mark(self) -> bool:
        """Remove the mark after the command, and what follows, from the tail of stderr;
        return False if it has not come.
        """
        mark_offset = self._tail.find(f"\n{self._mark}\n".encode())
        if mark_offset < 0:
            return False
        del self._tail[mark_offset:]
        return True

    def _complete_lines(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes. Raises LinkError for a line too long
        or too slow.
        """
        *complete, rest = data.split(b"\n")
        lines = []
        for piece in complete:
            self._extend_line_within_limits(piece)
            lines.append(bytes(self._line))
            self._line.clear()
        self._extend_line_within_limits(rest)
        return lines

    def _extend_line_within_limits(self, piece: bytes) -> None:
        if not self._line:
            self._line_began = time.monotonic()
        elif time.monotonic() - self._line_began > LINE_TIMEOUT_S:
            raise LinkError(
                f"{self._host_name}: a line that the host began is not complete after"
                f" {LINE_TIMEOUT_S:g} s; the command was given up."
            )
        self._line += piece
        if len(self._line) > LINE_LIMIT_BYTES:
            raise LinkError(
                f"{self._host_name}: the host sent a line longer than"
                f" {LINE_LIMIT_BYTES >> 20} MiB, which is not how a fleet agent speaks;"
                " the command was given up.",
                passing=False,
            )

    def _lines_before_mark(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines between the marks, except an empty one before the last mark;
        keep the exit code.
        """
        before = f"{self._mark} :".encode()
        after = f"{self._mark} ".encode()  # the exit code follows
        for line in lines:
            if self._marked is not None:
                return
            if not self._has_begun:
                self._has_begun = line == before
                continue
            if line.startswith(after):
                self._marked = parse_exit_code(line.removeprefix(after))
                return
            if self._blank:
                yield b""
            self._blank = not line
            if line:
                yield line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._over:
            return
        self._over = True
        self.stop()
        self._end_command(given_up=kind is not None or self._given_up)

    def _time_limit_error(self) -> LinkError:
        if time.monotonic() >= self._deadline:
            late = f"was still running after {self._limit_s:g} s, its time limit."
        else:
            late = (
                f"printed nothing for {self._idle_timeout_s:g} s; is the host still"
                " there?"
            )
        return LinkError(f"{self._host_name}: the command {late}")
