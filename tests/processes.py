"""Processes that end with the tests, also when the tests are killed; whether one runs;
and permissions that bind.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import needs

_CAPABILITY_VERSION_3 = 0x20080522
_DAC_OVERRIDE = 1 << 1
_DAC_READ_SEARCH = 1 << 2


def until_we_end(signal: str = "KILL") -> list[str]:
    """Return a prefix: the program, not its children, gets `signal` when the thread
    that starts it ends.
    """
    return [needs.program("setpriv", "util-linux"), f"--pdeathsig={signal}", "--"]


def is_running(pid: int) -> bool:
    """False for a process that is gone or that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@contextmanager
def obeying_permissions() -> Iterator[None]:
    """For a while, let modes of files bind this thread as they bind an ordinary user,
    also where it is root's.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    before = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    assert libc.capget(header, before) == 0
    bound = (ctypes.c_uint32 * 6)(*before)
    bound[0] &= ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    assert libc.capset(header, bound) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0
