"""Finds the user's files as ssh does: in the account's home, whatever $HOME says."""

import os
import pwd


def expand_home(path: str) -> str:
    """Return `path` with its leading ~ or ~user replaced by the home of that account.

    For a user without an account's entry ~ is $HOME. An unknown ~user stays.
    """
    if path != "~" and not path.startswith("~/"):
        return os.path.expanduser(path)  # noqa: PTH111  raises nothing
    return f"{_find_own_home()}{path[1:]}"


def _find_own_home() -> str:
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = os.path.expanduser("~")  # noqa: PTH111
    return home.rstrip("/")
