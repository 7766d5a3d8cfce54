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
"""The loader, on one line. Its $0 is the session's mark."""
LOADER = f"exec /bin/sh -c '{SCRIPT}' "
"""Runs the loader if the mark is appended."""
STOP = b"stop\n"
# by byte, the byte with its bits in reverse order
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_SILENCE_S = 60  # of a controller that sends an empty line every 10 s: it is gone


def limit_stdin(command: str, size: int) -> str:
    """Wrap a command: its stdin is the next `size` bytes. The `cat` reads what the
    command leaves of them, or srun may lose output.
    """
    return (
        f"head -c {size} 2>/dev/null | {{ (\n{command}\n);fleet_c=$?;cat >/dev/null"
        " 2>&1;exit $fleet_c; }"
    )


def end_stdin_at_stop_line(command: str, size: int) -> str:
    """Wrap a command: its stdin is the first `size` bytes of ours. Its stdin ends once
    the line STOP comes, or if no line comes for _SILENCE_S. Other lines are heartbeats,
    which only show that the controller is still there.

    loader.sh runs the text. In it, $0 is the mark, and the variable fleet_n a newline.
    With most of the details left out, the text for 3 bytes is:

        { dd bs=1 count=3; while read LINE; do [ "$LINE" = stop ] && break; done; } |
        { ( COMMAND ); echo END-MARKS; }
    """
    # $fleet_t is `-t 60` if the shell's `read` has a time limit, else empty. At
    # end-of-file, such a `read` exits with 1; any other exits as for a wrong option.
    set_timeout_option = (
        "fleet_t=;read -t 1 fleet_l </dev/null 2>/dev/null;"
        f"case $? in 1)fleet_t='-t {_SILENCE_S}';;esac;"
    )
    pass_stdin = f"dd bs=1 count={size};" if size else ""
    wait_for_stop = (
        "while IFS= read -r $fleet_t fleet_l;do case $fleet_l in stop)break;;esac;done;"
    )
    # The end marks are printed here, as soon as the command ends. The loader waits for
    # both sides of the pipe, so also for STOP, before it prints its own.
    print_end_marks = 'fleet_c=$?;echo "$fleet_n$0 $fleet_c";echo "$fleet_n$0" >&2;'
    feed = f"{{ {pass_stdin}{wait_for_stop} }} 2>/dev/null"
    run = f"{{ (\n{command}\n);{print_end_marks} }}"
    return f"{set_timeout_option}{feed} | {run}"


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
    end_line = mark if last else f"ask {mark}"
    return f"{exports}{command}\n{end_line}\n".encode(errors="surrogateescape")


def assign_variables(settings: Mapping[str, str]) -> str:
    """Return one line that sets the variables of a script that follows."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())


def posix_cksum(data: bytes) -> str:
    """Return what POSIX `cksum` prints for `data` on stdin: a CRC-32 that takes the
    highest bit of each byte first, and the size.

    zlib's CRC-32 has the same polynomial and takes the lowest bit first. So it gets
    each byte mirrored, and its result is mirrored back.
    """
    # POSIX appends the length to the data, lowest byte first, in as few bytes as hold
    # it
    length_bytes = (len(data).bit_length() + 7) // 8
    length = len(data).to_bytes(length_bytes, "little")
    mirrored_input = (data + length).translate(_REVERSED)
    # POSIX starts from 0. zlib inverts the start that it is given, so it is given 0
    # inverted.
    inverted_start = 0xFFFFFFFF
    mirrored_crc = zlib.crc32(mirrored_input, inverted_start)
    mirrored_bits = f"{mirrored_crc:032b}"
    crc = int(mirrored_bits[::-1], 2)
    return f"{crc} {len(data)}"


def put_command(path: str, mode: int, data: bytes) -> str:
    """Return sh text that writes stdin to a new file and renames it to `path` if size
    and `cksum` match.

    No link is followed: `set -C` opens only new files, and a link at `path` is removed
    before `mv`.
    """
    checksum = posix_cksum(data)
    to = shlex.quote(path)
    new = shlex.quote(f"{path}.{os.urandom(8).hex()}")
    steps = [
        f"cat > {new}",
        f"[ $(wc -c < {new}) -eq {len(data)} ]",
        # goes on with the right checksum, or with none ('') if the host lacks cksum
        f"case $(cksum < {new} 2>/dev/null) in '{checksum}'*|'');;"
        " *)echo 'other bytes came' >&2; false;; esac",
        f"chmod {mode:o} {new}",
        f"{{ [ ! -L {to} ] || rm -f {to}; }}",
        # mv would move the file into a folder of that name
        f"[ ! -d {to} ]",
        f"mv -f {new} {to}",
    ]
    put = " && ".join(steps)
    return f"umask 077; set -C; if {put}; then exit 0; fi; rm -f {new}; exit 1"
