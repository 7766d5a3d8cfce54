"""stdout and stderr as the program has them: all that is printed leaves through them, escaped."""

import codecs
import errno
import io
import re
from typing import TextIO

from fleet.text import printable

_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_KEPT = "\n\t"  # what tools print has tabs


def escape_stream(stream: TextIO) -> TextIO:
    """The stream with all that is written to it escaped; one without bytes below stays as it is."""
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, _Escaping):
        return stream
    stream.flush()
    return _Escaping(stream)


class PrintError(OSError):
    """stdout or stderr takes no more. It has no errno, or typer would end the program for EPIPE itself."""

    def __init__(self, err: OSError) -> None:
        super().__init__(err.strerror)
        self.reader_left = err.errno == errno.EPIPE


class _Escaping(io.TextIOWrapper):
    """Shows control characters as escapes, and what the encoding lacks; a terminal gets colours.

    The stream below stays open for others; the live table, which escapes by itself, writes there.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        encoding = stream.encoding
        if codecs.lookup(encoding).name == "ascii":
            encoding = "utf-8"  # as click has it, which would write past an ASCII stream
        super().__init__(
            stream.buffer,
            encoding,
            "backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=True,
        )
        self.below = stream

    def close(self) -> None:
        """Write out what is held back, no more."""
        if not self.below.closed:
            self.flush()

    def write(self, text: str, /) -> int:
        """Write the text, escaped."""
        try:
            super().write(escape_controls(text, colours=self.isatty()))
        except OSError as err:
            raise PrintError(err) from err
        return len(text)

    def flush(self) -> None:
        """Write out what is held back."""
        try:
            super().flush()
        except OSError as err:
            raise PrintError(err) from err


def escape_controls(text: str, *, colours: bool) -> str:
    """Text for a terminal or a pager: what may be more than text is escaped, but for codes of colours."""
    parts = _COLOURS.split(text) if colours else [text]  # at odd places the codes
    return "".join(part if place % 2 else printable(part, _KEPT) for place, part in enumerate(parts))
