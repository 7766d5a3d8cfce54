"""Renders the sh text that `ssh` and the client programs share. Pure: no input or
output.
"""

import os
import shlex
import zlib
from collections.abc import Mapping
from pathlib import Path

_LINES = Path(__file__).with_name("loader.sh").read_text(encoding="utf-8").splitlines()
SCRIPT = " ".join(line for line in _LINES if not line.startswith("#"))
LOADER = f"exec /bin/sh -c '{SCRIPT}' "
STOP = b"stop\n"
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_SILENCE_S = 60  # of a controller that sends an empty line every 10 s: it is gone


def limit_stdin(command: str, size: int) -> str:
    """Wrap a command: its stdin is the next `size` bytes. Read what it leaves, or srun
    may lose output.
    """
    return (
        f"head -c {size} 2>/dev/null | {{ (\n{command}\n);fleet_c=$?;cat >/dev/null"
        " 2>&1;exit $fleet_c; }"
    )


def end_stdin_at_stop_line(command: str, size: int) -> str:
    """Wrap a command: give it `size` bytes, then end-of-file at STOP or after
    _SILENCE_S without a line.
    """
    fed = f"dd bs=1 count={size};" if size else ""
    return (
        "fleet_t=;read -t 1 fleet_l </dev/null 2>/dev/null;case $? in 1)fleet_t='-t"
        f" {_SILENCE_S}';;esac;{{ {fed}while IFS= read -r $fleet_t fleet_l;do case"
        " $fleet_l in stop)break;;esac;done; } 2>/dev/null | {"
        f' (\n{command}\n);fleet_c=$?;echo "$fleet_n$0 $fleet_c";echo "$fleet_n$0"'
        " >&2; }"
    )


def new_mark() -> str:
    """Return a random word that no command and no output contains."""
    return f"fleet-{os.urandom(8).hex()}"


def render_command(
    command: str, env: Mapping[str, str], mark: str, *, last: bool = False
) -> bytes:
    """Return the loader's input for a command without stdin; the loader then waits for
    the next command.

    last: the command's stdin follows, and no next command. If the link breaks before
    the mark, nothing runs.
    """
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in env.items()
    )
    end = mark if last else f"ask {mark}"
    return f"{exports}{command}\n{end}\n".encode(errors="surrogateescape")


def assign_variables(settings: Mapping[str, str]) -> str:
    """Return one line that sets the variables of a script that follows."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())


def posix_cksum(data: bytes) -> str:
    """Return what POSIX `cksum` prints for `data` on stdin: CRC-32, highest bit first,
    and the size.
    """
    # zlib's CRC-32 has the same polynomial, but the lowest bit first; POSIX also counts
    # the length, in as few bytes as it takes.
    length_bytes = (len(data).bit_length() + 7) // 8
    length = len(data).to_bytes(length_bytes, "little")
    mirrored_input = (data + length).translate(_REVERSED)
    mirrored_crc = zlib.crc32(mirrored_input, 0xFFFFFFFF)
    bits = f"{mirrored_crc:032b}"
    crc = int(bits[::-1], 2)
    return f"{crc} {len(data)}"


def put_command(path: str, mode: int, data: bytes) -> str:
    """Return sh text that writes stdin to a new file and renames it to `path` if size
    and `cksum` match.

    No link is followed: `set -C` opens only new files, and a link at `path` is removed
    before `mv`.
    """
    sums = posix_cksum(data)
    to = shlex.quote(path)
    new = shlex.quote(f"{path}.{os.urandom(8).hex()}")
    return (
        f"umask 077; set -C; if cat > {new} && [ $(wc -c < {new}) -eq {len(data)} ] &&"
        f" case $(cksum < {new} 2>/dev/null) in '{sums}'*|'');; *)echo 'other bytes"
        f" came' >&2; false;; esac && chmod {mode:o} {new} && {{ [ ! -L {to} ] || rm -f"
        f" {to}; }} && [ ! -d {to} ] && mv -f {new} {to}; then exit 0; fi; rm -f {new};"
        " exit 1"
    )
