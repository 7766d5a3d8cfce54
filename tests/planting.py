"""Makes a function of fleet fail in this process, as a bug or the system would."""

import builtins
import errno
import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

import pyarrow as pa

EXCEPTIONS: Mapping[str, BaseException] = {
    "NameError": NameError("name 'planted' is not defined"),
    "KeyError": KeyError("planted"),
    "ZeroDivisionError": ZeroDivisionError("planted"),
    "AssertionError": AssertionError("planted"),
    "ValueError": ValueError("planted"),
    "RecursionError": RecursionError("planted"),
    "ArrowInvalid": pa.ArrowInvalid("planted"),
    "MemoryError": MemoryError("planted"),
    "OSError": OSError(errno.EIO, "planted"),
    "ImportError": ModuleNotFoundError("No module named 'planted'", name="planted"),
    "KeyboardInterrupt": KeyboardInterrupt(),
}


def home(function: Callable[..., object]) -> ModuleType:
    """Return the module that a function is in, to make a constant of it small for a
    test.
    """
    return sys.modules[function.__module__]


def plant(function: str, kind: str) -> None:
    """Replace the code of a function, given by its whole name, so that all who have
    imported it fail.
    """
    target = inspect.unwrap(pkgutil.resolve_name(function))
    builtins.planted = EXCEPTIONS[kind]  # type: ignore[attr-defined]  # what code of any module sees
    target.__code__ = _fail.__code__


def _fail(*_: object, **__: object) -> None:
    raise planted  # type: ignore[name-defined]  # noqa: F821
