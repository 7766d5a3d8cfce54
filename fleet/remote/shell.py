"""The sh text that `ssh` and the client programs share. Pure: no input or output."""

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


def loader(mark: str) -> tuple[str, ...]:
    """The loader as words, where no login shell is between."""
    return ("/bin/sh", "-c", SCRIPT, mark)


def with_input(command: str, size: int) -> str:
    """The command with the next `size` bytes as its stdin, where a client may keep end-of-file to itself."""
    return f"head -c {size} 2>/dev/null | (\n{command}\n)"


def until_stop(command: str, size: int) -> str:
    """The command with `size` bytes as its stdin, up to STOP, its end or silence; it prints the marks."""
    fed = f"dd bs=1 count={size};" if size else ""
    return (
        "fleet_t=;read -t 1 fleet_l </dev/null 2>/dev/null;"
        f"case $? in 1)fleet_t='-t {_SILENCE_S}';;esac;"
        f"{{ {fed}while IFS= read -r $fleet_t fleet_l;do case $fleet_l in stop)break;;esac;done; }} "
        f"2>/dev/null | {{ (\n{command}\n);"
        'fleet_c=$?;echo "$fleet_n$0 $fleet_c";echo "$fleet_n$0" >&2; }'
    )


def new_mark() -> str:
    """A word that no command and no output contains."""
    return f"fleet-{os.urandom(8).hex()}"


def last(command: str, env: Mapping[str, str], mark: str) -> bytes:
    """What the loader runs `command` by, with all that follows as stdin; a link cut before runs nothing."""
    return f"{_with_env(command, env)}{mark}\n".encode(errors="surrogateescape")


def question(command: str, env: Mapping[str, str], mark: str) -> bytes:
    """What to send to the loader to have it run `command`, with nothing on stdin, and wait for more."""
    return f"{_with_env(command, env)}ask {mark}\n".encode(errors="surrogateescape")


def assigned(settings: Mapping[str, str]) -> str:
    """The variables of a script that follows, set in one line."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())


def _with_env(command: str, env: Mapping[str, str]) -> str:
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
    return f"{exports}{command}\n"


def cksum(data: bytes) -> str:
    """What POSIX `cksum` prints of a stdin: CRC-32, highest bit first, the length appended; the size."""
    length = len(data).to_bytes((len(data).bit_length() + 7) // 8, "little")
    mirrored = zlib.crc32((data + length).translate(_REVERSED), 0xFFFFFFFF)
    return f"{int(f'{mirrored:032b}'[::-1], 2)} {len(data)}"


def put_command(path: str, mode: int, data: bytes) -> str:
    """Write stdin to `path`: beside it first, then renamed over it if size and `cksum` are `data`'s.

    No link is followed: `set -C` opens what is new, and `mv` would move the file into what a link leads to.
    """
    new, to = shlex.quote(f"{path}.{os.urandom(8).hex()}"), shlex.quote(path)
    return (
        f"umask 077; set -C; if cat > {new} && [ $(wc -c < {new}) -eq {len(data)} ] && "
        f"case $(cksum < {new} 2>/dev/null) in '{cksum(data)}'*|'');; *)echo 'other bytes came' >&2; false;; "
        f"esac && chmod {mode:o} {new} && {{ [ ! -L {to} ] || rm -f {to}; }} && [ ! -d {to} ] && "
        f"mv -f {new} {to}; then exit 0; fi; "
        f"rm -f {new}; exit 1"
    )
