"""The nouns: frozen dataclasses and closed sets of words, as docs/glossary.md defines them."""

from fleet.model.host import BuildPlace, Host, HostKeyPolicy, LockPolicy, RequestedToolchain, Target, Via
from fleet.model.machine import Cache, Compiler, Cpu, Facts, Finding, Load, Relation, Severity, Topology
from fleet.model.plan import (
    Estimator,
    LinePolicy,
    Order,
    PairChoice,
    Pairs,
    Plan,
    Preset,
    RequestedOptions,
    Side,
    merged,
)
from fleet.model.run import Agent, Burst, End, Failed, Hello, Note, Run, RunState
from fleet.model.targets import ARCHES, OSES, arch_named

__all__ = [
    "ARCHES",
    "OSES",
    "Agent",
    "BuildPlace",
    "Burst",
    "Cache",
    "Compiler",
    "Cpu",
    "End",
    "Estimator",
    "Facts",
    "Failed",
    "Finding",
    "Hello",
    "Host",
    "HostKeyPolicy",
    "LinePolicy",
    "Load",
    "LockPolicy",
    "Note",
    "Order",
    "PairChoice",
    "Pairs",
    "Plan",
    "Preset",
    "Relation",
    "RequestedOptions",
    "RequestedToolchain",
    "Run",
    "RunState",
    "Severity",
    "Side",
    "Target",
    "Topology",
    "Via",
    "arch_named",
    "merged",
]
