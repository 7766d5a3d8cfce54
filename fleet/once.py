"""A cache for many threads: who asks meanwhile waits, where functools.cache would let each do the work."""

import threading
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def once(function: Callable[P, R]) -> Callable[P, R]:
    """Call `function` once for each of the last 64 combinations of arguments, which are hashable."""
    kept = lru_cache(maxsize=64)(function)
    guard = threading.RLock()  # a function may call itself

    @wraps(function)
    def found(*arguments: P.args, **named: P.kwargs) -> R:
        with guard:
            return kept(*cast("tuple[Hashable, ...]", arguments), **cast("dict[str, Hashable]", named))

    return found
