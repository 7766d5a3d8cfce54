"""Runs a command that the kernel refuses perf_event_open, as in a container: seccomp.py EACCES COMMAND...

"kill" in the place of the error ends whatever makes the call.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # prctl(2)
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/filter.h
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # linux/seccomp.h


def refusing(error: str) -> list[str]:
    """The beginning of a command that is refused with this error."""
    return [sys.executable, str(Path(__file__)), error]


def _refuse(error: str) -> None:
    action = _KILL if error == "kill" else _ERRNO | getattr(errno, error)
    steps = (
        (_LOAD, 0, 0, 0),  # the number of the call
        (_IF_EQUAL, 0, 1, _PERF_EVENT_OPEN[platform.machine()]),
        (_RETURN, 0, 0, action),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    rule = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SECCOMP, _FILTER, rule, 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    _refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
