"""Runs a command whose calls the kernel refuses, or "kill"s: seccomp.py EACCES
poll,statx COMMAND...
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

# What came after Linux 3.10, by numbers that all architectures share, and by those that
# they do not.
_POLICIES = (
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "sched_setaffinity",
    "sched_getaffinity",
)
_NEW = {
    "clone3": 435,
    "openat2": 437,
    "close_range": 436,
    "faccessat2": 439,
    "futex_waitv": 449,
}
CALLS = {
    "x86_64": (
        _NEW
        | {
            "perf_event_open": 298,
            "poll": 7,
            "rseq": 334,
            "getrandom": 318,
            "membarrier": 324,
            "statx": 332,
        }
        | {"sched_setattr": 314, "sched_getattr": 315, "memfd_create": 319}
        | dict(zip(_POLICIES, (237, 238, 239, 203, 204), strict=True))
    ),
    "aarch64": (
        _NEW
        | {
            "perf_event_open": 241,
            "poll": 73,
            "rseq": 293,
            "getrandom": 278,
            "membarrier": 283,
            "statx": 291,
        }
        | {
            "sched_setattr": 274,
            "sched_getattr": 275,
            "memfd_create": 279,
        }  # poll: the library calls ppoll
        | dict(zip(_POLICIES, (235, 237, 236, 122, 123), strict=True))
    ),
}.get(platform.machine(), {})
OLD_KERNEL = ",".join(sorted(CALLS.keys() - {"perf_event_open", "poll", *_POLICIES}))
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # prctl(2)
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/filter.h
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # linux/seccomp.h


def refusing(error: str, call: str = "perf_event_open") -> list[str]:
    """The beginning of a command that is refused these calls, of CALLS, with this
    error.
    """
    from tests import needs  # noqa: PLC0415  the script below runs without it

    if not CALLS:
        needs.missing(f"the numbers of the system calls of {platform.machine()}")
    return [sys.executable, str(Path(__file__)), error, call]


def _refuse(error: str, calls: list[str]) -> None:
    action = _KILL if error == "kill" else _ERRNO | getattr(errno, error)
    steps = (
        (_LOAD, 0, 0, 0),  # the number of the call
        *((_IF_EQUAL, len(calls) - i, 0, CALLS[call]) for i, call in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, action),
    )
    program = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *step) for step in steps)
    )
    rule = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _SECCOMP, _FILTER, rule, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    _refuse(sys.argv[1], sys.argv[2].split(","))
    os.execvp(sys.argv[3], sys.argv[3:])
