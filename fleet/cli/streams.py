"""Wrappers of stdout and stderr that escape all that the program prints."""

import codecs
import errno
import io
import os
import re
from typing import TextIO

from fleet.text import printable

_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_KEPT = "\n\t"  # what tools print has tabs


def takes_colours(stream: TextIO) -> bool:
    """Report whether to write colours to a stream: to a terminal and, with FORCE_COLOR,
    to anything, but to nothing with NO_COLOR. An empty variable is as good as none:
    https://no-color.org, https://force-color.org.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def escape_stream(stream: TextIO) -> TextIO:
    """Return a stream that escapes what is written to `stream`; `stream` itself if it
    has no byte buffer.
    """
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, _Escaping):
        return stream
    stream.flush()
    return _Escaping(stream)


class PrintError(OSError):
    """Writing to stdout or stderr failed. It has no errno, since typer would exit by
    itself on EPIPE.
    """

    def __init__(self, err: OSError) -> None:
        super().__init__(err.strerror)
        self.reader_left = err.errno == errno.EPIPE


class _Escaping(io.TextIOWrapper):
    """A text stream that escapes control and unencodable characters; colour codes pass
    where colours are taken.

    below: the wrapped stream, which closing this one leaves open. The live table, which
    escapes by itself, writes to that.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        """Wrap a stream, in its encoding. This stream keeps no text: it hands each text
        on to the stream's bytes at once.
        """
        encoding = stream.encoding
        # click replaces an ASCII stream by one in UTF-8, which would bypass this one
        if codecs.lookup(encoding).name == "ascii":
            encoding = "utf-8"
        super().__init__(
            stream.buffer,
            encoding,
            "backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=True,
        )
        self.below = stream

    def close(self) -> None:
        """Flush this stream; leave the wrapped one open."""
        if not self.below.closed:
            self.flush()

    def write(self, text: str, /) -> int:
        """Write the text, escaped. Raises PrintError."""
        try:
            super().write(escape_controls(text, colours=takes_colours(self)))
        except OSError as err:
            raise PrintError(err) from err
        return len(text)

    def flush(self) -> None:
        """Write out buffered text. Raises PrintError."""
        try:
            super().flush()
        except OSError as err:
            raise PrintError(err) from err


def escape_controls(text: str, *, colours: bool) -> str:
    """Escape control characters for a terminal or a pager. colours: leave colour codes
    as they are.
    """
    if not colours:
        return printable(text, _KEPT)
    parts = _COLOURS.split(text)  # at odd places the codes
    parts[::2] = [printable(part, _KEPT) for part in parts[::2]]
    return "".join(parts)
