"""Libraries that take long to load, each loaded when something of it is first asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["fs", "msgspec", "np", "pa", "pc", "pq"]

if TYPE_CHECKING:
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
            return getattr(import_module(self._name), name)

    msgspec, np = map(_Late, ("msgspec", "numpy"))
    pa, fs, pc, pq = map(_Late, ("pyarrow", "pyarrow.fs", "pyarrow.compute", "pyarrow.parquet"))
