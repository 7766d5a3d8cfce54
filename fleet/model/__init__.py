"""The nouns: frozen dataclasses and closed sets of words, as docs/glossary.md defines them."""

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
from fleet.model.machine import Cache, Compiler, Cpu, Facts, Finding, Load, Relation, Severity, Topology
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
from fleet.model.run import FORECAST, Agent, Burst, Count, End, Failed, Hello, Note, Parameters, Run, RunState
from fleet.model.targets import ARCHES, OSES, arch_named
