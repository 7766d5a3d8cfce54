"""Bounded keeping of what a command prints: all of it, its lines, or its tail. Pure: no input or output.

Used by `local` and `ssh`.
"""

from fleet.errors import LinkError
from fleet.remote.connection import LINE_LIMIT_BYTES, RUN_LIMIT_BYTES

STDERR_TAIL_BYTES = 64 << 10
_AFTER_MARK_BYTES = 16  # a blank, an exit code, a newline


class Whole:
    """Everything one command printed on one of its outputs, up to RUN_LIMIT_BYTES."""

    def __init__(self, host_name: str) -> None:
        self._host_name = host_name
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add `data`; raises LinkError once there is too much."""
        self._data += data
        if len(self._data) > RUN_LIMIT_BYTES:
            raise LinkError(
                f"{self._host_name}: a command printed more than {RUN_LIMIT_BYTES >> 20} MiB, so we stopped "
                "listening. Log in by hand and see what the host prints (a login script in a loop?)."
            )

    def bytes(self) -> bytes:
        """Return what was fed."""
        return bytes(self._data)


class Answer(Whole):
    """What one question brought on one output, up to the mark that ends it."""

    def __init__(self, host_name: str, mark: str) -> None:
        super().__init__(host_name)
        self._end = f"\n{mark}".encode()

    def cut(self) -> tuple[bytes, bytes] | None:
        """What came before the mark and the rest of the mark's line; None until that line is whole."""
        if not self._data.endswith(b"\n"):
            return None
        at = self._data.rfind(self._end, -len(self._end) - _AFTER_MARK_BYTES)
        rest = bytes(self._data[at + len(self._end) : -1])
        return None if at < 0 or b"\n" in rest else (bytes(self._data[:at]), rest)


class Lines:
    """Cuts what is fed into lines without their newline, each at most LINE_LIMIT_BYTES."""

    def __init__(self, host_name: str) -> None:
        self._host_name = host_name
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add `data` and return the lines it completes; raises LinkError on one that is too long."""
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
        self._begun += piece
        if len(self._begun) > LINE_LIMIT_BYTES:
            raise LinkError(
                f"{self._host_name}: the host sent a line longer than {LINE_LIMIT_BYTES >> 20} MiB, "
                "which is not how a fleet agent speaks; the command was given up."
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
        del self._data[:-STDERR_TAIL_BYTES]

    def bytes(self) -> bytes:
        """Return what is kept."""
        return bytes(self._data)
