"""A running command on any connection: its lines up to its mark, its time limits and its end."""

import abc
import time
from collections.abc import Iterable, Iterator
from typing import Self

from fleet.errors import LinkError
from fleet.remote.output import Lines, Tail, parse_exit_code, start_line


class Stream(abc.ABC):
    """A running command whose stdin we hold open; iterate it for stdout lines without their newline.

    Iterating raises LinkError if the link breaks, no byte comes for `idle_timeout_s`, the command runs
    longer than `limit_s`, or a line is longer than LINE_LIMIT_BYTES or takes too long. Otherwise it ends
    with the command; then `exit_code` and `stderr` (the last 64 KiB) are set. Leaving the context stops
    the command.

    _mark: what the host prints on both outputs before and after the command's own. _stdin: to feed it.
    """

    _mark: str

    def __init__(self, host_name: str, idle_timeout_s: float, limit_s: float, stdin: bytes) -> None:
        self.exit_code: int | None = None
        self.stderr = b""
        self._host_name = host_name
        self._idle_timeout_s = idle_timeout_s
        self._limit_s = limit_s
        self._stdin = stdin
        self._deadline = time.monotonic() + limit_s
        self._lines = Lines(host_name)
        self._tail = Tail()
        self._has_begun = False
        self._marked: int | None = None  # the exit code beside the mark
        self._blank = False  # whether an empty line is held back
        self._over = False
        self._given_up = False

    @abc.abstractmethod
    def stop(self) -> None:
        """Close the command's stdin, the agent's order to end. Thread-safe; may be called twice."""

    @abc.abstractmethod
    def _receive(self) -> Iterator[tuple[bool, bytes]]:
        """Yield (is it stderr, data) to the end of both; set the exit code if no mark has it."""

    @abc.abstractmethod
    def _end_command(self, *, given_up: bool) -> None:
        """End the command, at once if it was given up."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            for is_stderr, data in self._receive():
                if is_stderr:
                    self._tail.feed(data)
                else:
                    yield from self._lines_before_mark(self._lines.feed(data))
                if self._marked is not None and self._tail.cut_at_mark(self._mark):
                    self.exit_code = self._marked
                    return
        except LinkError:
            self._given_up = True
            raise
        finally:
            self.stderr = self._tail.bytes().rpartition(start_line(self._mark))[2]
        yield from self._lines_before_mark(self._lines.rest())
        if self._blank and self._marked is None:
            yield b""

    def _lines_before_mark(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines between the marks; the last mark has the exit code and an empty line before it."""
        for line in lines:
            if self._marked is not None:
                return
            if not self._has_begun:
                self._has_begun = line == f"{self._mark} :".encode()
                continue
            if line.startswith(mark := f"{self._mark} ".encode()):
                self._marked = parse_exit_code(line[len(mark) :])
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
            late = f"printed nothing for {self._idle_timeout_s:g} s; is the host still there?"
        return LinkError(f"{self._host_name}: the command {late}")
