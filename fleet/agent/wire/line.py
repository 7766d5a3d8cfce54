"""What every line of an agent has in common (docs/wire.md). Pure; `records` knows what they hold."""

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


def split(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into another process's words, left without a newline, and the record; or either."""
    if line.lstrip().startswith(b"{"):
        return b"", line
    at = line.find(b'{"record":"')
    return (line, b"") if at < 0 else (line[:at], line[at:])


def checked(decoder: msgspec.json.Decoder[_S], line: bytes) -> _S:
    """Decode a line. Raises WireError that says which key is wrong, and how, with the line's beginning."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as err:
        raise WireError(f"{decoding_words(err)}: {short(line)}") from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise WireError(f"not a JSON record: {short(line)}") from err


def short(sent: bytes | str) -> str:
    """The beginning of what a host sent, safe to print: escaped, at most 120 characters."""
    text = sent[:200].decode("utf-8", "replace") if isinstance(sent, bytes) else sent[:200]
    shown = ascii(text)
    return shown if len(shown) <= 120 else shown[:117] + "..."
