"""Processes that end with the tests, also when the tests are killed, and whether one
runs.
"""

from pathlib import Path

from tests import needs


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
