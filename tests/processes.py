"""Processes that end with the tests, also when the tests are killed."""

from tests import needs


def until_we_end(signal: str = "KILL") -> list[str]:
    """Return a prefix for a command; the kernel sends it `signal` when the thread that started it ends.

    It applies to the program itself, not to its children, and not to a program with the set-group-ID bit.
    """
    return [needs.program("setpriv", "util-linux"), f"--pdeathsig={signal}", "--"]
