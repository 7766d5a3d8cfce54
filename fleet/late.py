"""Work done only when it is needed, and once: slow imports, and a cache that threads
wait for.
"""

import sys
import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import random
    import tempfile
    from concurrent import futures

    import msgspec
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    from pyarrow import fs
    from scipy import special  # type: ignore[import-untyped]  # scipy ships no types
else:

    class _Late:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(import_module(self._name), name)
            setattr(self, name, attribute)  # it is used some 300 times a run
            return attribute

    futures = _Late("concurrent.futures")
    msgspec = _Late("msgspec")
    np = _Late("numpy")
    pa = _Late("pyarrow")
    pc = _Late("pyarrow.compute")
    ds = _Late("pyarrow.dataset")
    fs = _Late("pyarrow.fs")
    pq = _Late("pyarrow.parquet")
    random = _Late("random")
    special = _Late("scipy.special")
    tempfile = _Late("tempfile")

P = ParamSpec("P")
R = TypeVar("R")


def import_on_access(package: str) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which imports a name only when it is used.

    The package's file has the imports of such names, as `from fleet.store.store import
    Store`, where only type checkers carry them out: below `if TYPE_CHECKING:`.
    """

    def import_name(name: str) -> Any:
        """Find the import of a name in the text of the package's file, and carry it
        out. Raises AttributeError if there is none.
        """
        import ast  # noqa: PLC0415  no command needs it

        file = Path(str(sys.modules[package].__file__))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            if any(alias.name == name for alias in node.names):
                module = import_module(str(node.module))
                return getattr(module, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return import_name


def once(function: Callable[P, R]) -> Callable[P, R]:
    """Cache up to 64 results. One thread computes, others wait; with functools.cache
    all would compute.
    """
    cached_function = lru_cache(maxsize=64)(function)
    guard = threading.RLock()  # a function may call itself

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        with guard:
            return cached_function(*arguments, **keywords)  # type: ignore[arg-type]  # lru_cache hashes them

    return call
