"""What takes long to load, loaded when it is first asked for: libraries, and the modules of a package."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    import tempfile
    from concurrent import futures

    import msgspec
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import fs
else:

    class _Late:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            found = getattr(import_module(self._name), name)
            setattr(self, name, found)  # asked for some 300 times a run
            return found

    msgspec, np, random, tempfile = map(_Late, ("msgspec", "numpy", "random", "tempfile"))
    futures = _Late("concurrent.futures")
    pa, fs, pc, pq = map(_Late, ("pyarrow", "pyarrow.fs", "pyarrow.compute", "pyarrow.parquet"))


def names_of(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package with the names of its modules. homes: names by module."""

    def found(name: str) -> Any:
        for module, names in homes.items():
            if name in names:
                return getattr(import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return found
