"""The nouns: frozen dataclasses and closed sets of words, as docs/glossary.md defines them.

A name is looked for when it is first imported from here, in one module after the other: making all of them
takes as long as everything else that `fleet --help` does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.model.benchmark import (
        BENCHMARKS,
        Benchmark,
        Parameter,
        Shape,
        View,
        as_described_by,
        benchmark_named,
        described,
        learn,
    )
    from fleet.model.host import BuildPlace, Host, HostKeyPolicy, LockPolicy, RequestedToolchain, Target, Via
    from fleet.model.machine import (
        Cache,
        Compiler,
        Cpu,
        Facts,
        Finding,
        Load,
        Relation,
        Relations,
        Severity,
        Topology,
    )
    from fleet.model.plan import (
        Estimator,
        LinePolicy,
        Order,
        Pages,
        PairChoice,
        Pairs,
        Plan,
        Preset,
        RequestedOptions,
        Side,
        merged,
    )
    from fleet.model.run import (
        FORECAST,
        Agent,
        Burst,
        Count,
        End,
        Failed,
        Hello,
        Note,
        Parameters,
        Run,
    )
    from fleet.model.state import RunState
    from fleet.model.targets import ARCHES, OSES, arch_named

_MODULES = (
    "state",
    "plan",
    "host",
    "targets",
    "benchmark",
    "machine",
    "run",
)  # none imports one that follows it


def __getattr__(name: str) -> Any:
    for module in _MODULES:
        found = import_module(f"fleet.model.{module}")
        if hasattr(found, name):
            globals()[name] = getattr(found, name)
            return globals()[name]
    raise AttributeError(name)
