"""The nouns: frozen dataclasses and closed sets of words, as docs/glossary.md defines them.

A name is looked for when it is first imported from here, in one module after the other: making all of them
takes as long as everything else that `fleet --help` does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.model.benchmark import *
    from fleet.model.host import *
    from fleet.model.machine import *
    from fleet.model.plan import *
    from fleet.model.run import *
    from fleet.model.state import *
    from fleet.model.targets import *

# None imports one that follows it.
_MODULES = ("state", "plan", "host", "targets", "benchmark", "machine", "run")


def __getattr__(name: str) -> Any:
    for module in _MODULES:
        found = import_module(f"fleet.model.{module}")
        if hasattr(found, name):
            globals()[name] = getattr(found, name)
            return globals()[name]
    raise AttributeError(name)
