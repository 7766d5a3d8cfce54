"""Lets read-only mappings, which fields of hosts and runs are, be pickled and copied in
depth.
"""

import copyreg
from types import MappingProxyType
from typing import Any


def freeze(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    """Return a read-only view of a dict."""
    return MappingProxyType(items)


copyreg.pickle(MappingProxyType, lambda proxy: (freeze, (dict(proxy),)))
