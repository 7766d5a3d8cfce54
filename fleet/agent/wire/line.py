"""Splits and decodes any line of an agent (docs/wire.md). Pure; `records` has the types."""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from fleet.store.gate import INT64_MAX
from fleet.text import decoding_words

PROTOCOL = 1
PREFIX = "fleet-agent: "  # of the agent's messages on stderr
REFUSED = (2, 3, 4, 5)  # its exit codes for a plan that cannot be carried out there
Int64 = Annotated[int, Meta(ge=0, le=INT64_MAX)]
_S = TypeVar("_S")


class WireError(ValueError):
    """A line the wire does not allow; the message says what is wrong with it, not which host sent it."""


def split_noise(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into another process's text without a newline, and the record; either may be empty."""
    if line.lstrip().startswith(b"{"):
        return b"", line
    start = line.find(b'{"record":"')
    return (line, b"") if start < 0 else (line[:start], line[start:])


def decode_line(decoder: msgspec.json.Decoder[_S], line: bytes) -> _S:
    """Decode a line. Raises WireError that names the wrong key and quotes the start of the line."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as err:
        raise WireError(f"{decoding_words(err)}: {quote_start(line)}") from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise WireError(f"not a JSON record: {quote_start(line)}") from err


def quote_start(output: bytes | str) -> str:
    """Return the start of a host's output, safe to print: escaped, at most 120 characters."""
    text = output[:200].decode("utf-8", "replace") if isinstance(output, bytes) else output[:200]
    escaped = ascii(text)
    return escaped if len(escaped) <= 120 else escaped[:117] + "..."
