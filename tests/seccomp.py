"""Runs a command that the kernel refuses a call, as in a container: seccomp.py EACCES poll COMMAND...

"kill" in the place of the error ends whatever makes the call.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

CALLS = {
    "x86_64": {"perf_event_open": 298, "poll": 7, "clone3": 435},
    "aarch64": {"perf_event_open": 241, "poll": 73, "clone3": 435},  # poll: the library calls ppoll
}.get(platform.machine(), {})
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # prctl(2)
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/filter.h
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # linux/seccomp.h


def refusing(error: str, call: str = "perf_event_open") -> list[str]:
    """The beginning of a command that is refused this call, one of CALLS, with this error."""
    return [sys.executable, str(Path(__file__)), error, call]


def _refuse(error: str, call: str) -> None:
    action = _KILL if error == "kill" else _ERRNO | getattr(errno, error)
    steps = (
        (_LOAD, 0, 0, 0),  # the number of the call
        (_IF_EQUAL, 0, 1, CALLS[call]),
        (_RETURN, 0, 0, action),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    rule = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SECCOMP, _FILTER, rule, 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    _refuse(*sys.argv[1:3])
    os.execvp(sys.argv[3], sys.argv[3:])
