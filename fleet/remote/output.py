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
_BEGIN_SUFFIX = b" :"  # what stands behind a begin mark on its line
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
    """A command's stdout or stderr, between its begin mark and its end mark, at most
    RUN_LIMIT_BYTES.

    A mark is a line that loader.sh prints on both outputs: `MARK :` before the command,
    and after it `MARK CODE` on stdout and `MARK` on stderr.
    """

    def __init__(self, host_name: str, mark: str) -> None:
        self.host_name = host_name
        self.data = bytearray()  # since the command started, if it has
        self._mark = f"\n{mark}".encode()
        self._searched_bytes = 0  # the data before them has no whole mark

    def feed(self, data: bytes) -> None:
        """Add the output's next bytes. Raises LinkError beyond RUN_LIMIT_BYTES."""
        self.data += data
        if len(self.data) > RUN_LIMIT_BYTES:
            raise LinkError(
                f"{self.host_name}: a command printed more than {RUN_LIMIT_BYTES >> 20}"
                " MiB, so we stopped listening. Log in by hand and see what the host"
                " prints (a login script in a loop?)."
            )

    def split_at_end_mark(self) -> tuple[bytes, bytes] | None:
        """Return the output before the end mark, and what stands behind the mark on its
        line: the exit code on stdout, nothing on stderr. None until that line came.

        What came before a begin mark, such as the words of a login script, is dropped.
        """
        # each turn drops a begin mark, until an end mark is found or more data is
        # needed
        while True:
            mark_offset = self.data.find(self._mark, self._searched_bytes)
            if mark_offset < 0:
                # the end of the data may be the first part of a mark
                self._searched_bytes = max(0, len(self.data) - len(self._mark))
                return None
            mark_end = mark_offset + len(self._mark)
            newline = self.data.find(b"\n", mark_end)
            if newline < 0:
                self._searched_bytes = mark_offset
                return None
            behind_mark = bytes(self.data[mark_end:newline])
            if behind_mark != _BEGIN_SUFFIX:
                return bytes(self.data[:mark_offset]), behind_mark
            del self.data[: newline + 1]
            self._searched_bytes = 0


def collect_answer(
    received: Iterable[tuple[bool, bytes]], out: Answer, err: Answer
) -> Completed | None:
    """Collect a command's outputs from the (is_stderr, data) received, each up to its
    end mark; return None if the data ends before both end marks. If the time is up,
    raises TimeoutError if neither end mark has come, LinkError if only one has.
    """
    try:
        for is_stderr, data in received:
            answer = err if is_stderr else out
            answer.feed(data)
            done = _join_outputs(out, err)
            if done is not None:
                return done
    except TimeoutError:
        missing_name = _find_only_missing_output(out, err)
        if missing_name is None:  # both are missing
            raise
        raise LinkError(
            f"{out.host_name}: a command ended, but nothing came on its {missing_name},"
            " which fleet needs. Does a login script, a ForceCommand or a client"
            " program close it, redirect it or hold it back?"
        ) from None
    return None


def _join_outputs(out: Answer, err: Answer) -> Completed | None:
    """Return the command with its exit code and both outputs; None until both end marks
    came.
    """
    stdout_and_code = out.split_at_end_mark()
    if stdout_and_code is None:
        return None
    stderr_and_nothing = err.split_at_end_mark()
    if stderr_and_nothing is None:
        return None
    stdout, exit_code = stdout_and_code
    stderr, _ = stderr_and_nothing
    return Completed(parse_exit_code(exit_code), stdout, stderr)


def _find_only_missing_output(out: Answer, err: Answer) -> str | None:
    """Return the name of the output whose end mark did not come although the other
    output's did; None if both came or neither.
    """
    has_stdout = out.split_at_end_mark() is not None
    has_stderr = err.split_at_end_mark() is not None
    if has_stdout == has_stderr:
        return None
    return "stderr" if has_stdout else "stdout"


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
        """Begin the time of the limits. stdin: to be sent to the command."""
        self.exit_code: int | None = None
        self.stderr = b""
        self._host_name = host_name
        self._idle_timeout_s = idle_timeout_s
        self._limit_s = limit_s
        self._stdin = stdin
        self._deadline = time.monotonic() + limit_s
        self._line = bytearray()  # the line whose end has not come
        self._line_began_s = 0.0
        # the end of what came on stderr, also the marks, which `Answer` explains
        self._stderr_tail = bytearray()
        self._has_command_begun = False  # whether the begin mark came on stdout
        self._code_at_mark: int | None = None  # None until the end mark came on stdout
        # whether the last line on stdout was empty: it belongs to the end mark if that
        # comes next
        self._is_empty_line_held_back = False
        self._has_been_left = False  # whether the context was left
        self._given_up = False  # whether iterating raised LinkError

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
        """Yield the lines that the command prints on stdout, until the end mark came on
        both outputs, or the outputs end without it. `Answer` says what marks are.

        `stderr` is set however the iteration ends.
        """
        try:
            for is_stderr, data in self._receive():
                if is_stderr:
                    self._keep_stderr_tail(data)
                else:
                    yield from self._lines_between_marks(self._complete_lines(data))
                if self._code_at_mark is None:  # stdout has not come to its end mark
                    continue
                has_stderr_ended = self._cut_stderr_at_end_mark()
                if has_stderr_ended:
                    self.exit_code = self._code_at_mark
                    return
        except LinkError:
            self._given_up = True
            raise
        finally:
            self.stderr = self._get_stderr_behind_begin_mark()
        # the outputs have ended, and no end mark came on one or both
        yield from self._last_lines_without_mark()

    def _last_lines_without_mark(self) -> Iterator[bytes]:
        """Yield what was held back in case an end mark would follow."""
        if self._line:
            yield from self._lines_between_marks([bytes(self._line)])
        if self._is_empty_line_held_back and self._code_at_mark is None:
            yield b""

    def _keep_stderr_tail(self, data: bytes) -> None:
        self._stderr_tail += data
        del self._stderr_tail[: -STDERR_TAIL_BYTES - _MARK_ROOM_BYTES]

    def _cut_stderr_at_end_mark(self) -> bool:
        """Remove the end mark, and what follows it, from the tail of stderr. Return
        False if no end mark has come.
        """
        end_mark = f"\n{self._mark}\n".encode()
        mark_offset = self._stderr_tail.find(end_mark)
        if mark_offset < 0:
            return False
        del self._stderr_tail[mark_offset:]
        return True

    def _get_stderr_behind_begin_mark(self) -> bytes:
        """Return the tail of stderr without what login scripts printed."""
        begin_mark = f"\n{self._mark} :\n".encode()
        tail = bytes(self._stderr_tail[-STDERR_TAIL_BYTES:])
        _, _, stderr = tail.rpartition(begin_mark)
        return stderr

    def _complete_lines(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`; keep the start of the next one. Raises
        LinkError for a line that is too long or takes too long.
        """
        *line_ends, next_line_start = data.split(b"\n")
        lines = []
        for line_end in line_ends:
            self._extend_line_within_limits(line_end)
            lines.append(bytes(self._line))
            self._line.clear()
        self._extend_line_within_limits(next_line_start)
        return lines

    def _extend_line_within_limits(self, piece: bytes) -> None:
        """Add a piece to the line whose end has not come. Raises LinkError if that line
        is too long, or began too long ago.
        """
        if not self._line:
            self._line_began_s = time.monotonic()
        elif time.monotonic() - self._line_began_s > LINE_TIMEOUT_S:
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
                is_transient=False,
            )

    def _lines_between_marks(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines between the begin mark and the end mark, and keep the exit
        code that stands in the end mark's line. lines: the next lines of stdout.

        loader.sh prints a newline before each mark. If the command's last line is
        complete, that makes an empty line, which is left out.
        """
        begin_line = f"{self._mark} :".encode()
        end_prefix = f"{self._mark} ".encode()  # the exit code follows
        for line in lines:
            if self._code_at_mark is not None:
                return
            if not self._has_command_begun:
                self._has_command_begun = line == begin_line
                continue
            if line.startswith(end_prefix):
                self._code_at_mark = parse_exit_code(line.removeprefix(end_prefix))
                return
            # An empty line is held back until the next line tells whether it is the
            # command's: it is not if the end mark follows.
            if self._is_empty_line_held_back:
                yield b""
                self._is_empty_line_held_back = False
            if line == b"":
                self._is_empty_line_held_back = True
            else:
                yield line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._has_been_left:
            return
        self._has_been_left = True
        self.stop()
        self._end_command(given_up=kind is not None or self._given_up)

    def _time_limit_error(self) -> LinkError:
        """Return the error for the limit that has run out: the limit of the command's
        whole time, or else the limit of the time without output.
        """
        if time.monotonic() >= self._deadline:
            problem = f"was still running after {self._limit_s:g} s, its time limit."
        else:
            problem = (
                f"printed nothing for {self._idle_timeout_s:g} s; is the host still"
                " there?"
            )
        return LinkError(f"{self._host_name}: the command {problem}")
