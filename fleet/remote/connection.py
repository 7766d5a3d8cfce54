"""What every connection to a host can do: run a command, stream one, put a file.

The only interface that tests replace. `ssh`, `openssh` and `local` implement it on `base`; `connect` chooses.
Commands are POSIX sh text; whoever builds one quotes it (shlex). Nothing here interprets output.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

RUN_LIMIT_BYTES = 16 << 20  # a host that prints more than this to one command is refused
LINE_LIMIT_BYTES = 1 << 20  # the longest line a stream hands out


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ran to its end. Bytes as received, never longer than RUN_LIMIT_BYTES each."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Stream(AbstractContextManager["Stream"], Protocol):
    """A running command whose stdin we hold open; iterate it for stdout lines without their newline.

    Iterating raises LinkError when the link breaks, when no byte came for `idle_timeout_s`, when the command
    runs longer than `limit_s` whatever it prints, or when a line is longer than LINE_LIMIT_BYTES or takes too
    long to arrive. It ends normally only at the end of the command; an unterminated last line is handed out
    like any other. After that `exit_code` and `stderr` (its last 64 KiB) are known. Leaving its context stops
    and releases everything, and never replaces an exception that is already being raised.
    """

    exit_code: int | None
    stderr: bytes

    def __iter__(self) -> Iterator[bytes]: ...

    def stop(self) -> None:
        """Close the command's stdin, the agent's order to end. Safe to call twice, from any thread."""
        ...


class Connection(AbstractContextManager["Connection"], Protocol):
    """One open connection to one host. Used by one thread at a time, except `close` and `Stream.stop`.

    Every method raises LinkError if the link breaks or the time is up. A command's own failure is
    not an exception: its exit code is returned. `notes`: sentences for the user about the connection, for
    instance a setting of ssh_config that is ignored. `banner`: what the SSH server calls itself; empty where
    that is not known.
    """

    host_name: str
    notes: tuple[str, ...]
    banner: str

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        """Run `command` with the host's sh, feed it `stdin`, and wait for it.

        A link that breaks looks to the command like the end of its stdin: let it check what it got.
        """
        ...

    def stream(
        self, command: str, *, idle_timeout_s: float, limit_s: float = math.inf, stdin: bytes = b""
    ) -> Stream:
        """Start `command`, feed it `stdin`, left open until `stop`, and hand out its lines as they come."""
        ...

    def put(self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0) -> Completed:
        """Write `data` to `path` under a temporary name, then rename.

        Needs nothing but sh, cat, wc, chmod and mv on the host (no SFTP). The exit code tells whether it
        worked; a put whose link breaks leaves `path` as it was.
        """
        ...

    def use_minimal_tools(self, path: str) -> None:
        """From now on assume no tools but those on `path`, which every command gets as its PATH.

        `put` then needs only cat and chmod, or SFTP, and overwrites nothing (see `minimal_put`).
        """
        ...

    def sftp(self, timeout_s: float) -> AbstractContextManager[object | None]:
        """Open a file transfer for as long as the block lasts; None if the host has none."""
        ...

    def close(self) -> None:
        """End the connection; a command still running gets end-of-file on stdin. Safe to call twice."""
        ...
