"""The header of a run: host, machine, clock, options, topology, in a few lines."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.analysis.base import run_facts, text
from fleet.analysis.views.run_data import RunData
from fleet.analysis.views.topology import describe_topology
from fleet.model import take_one_of_each_core
from fleet.plan.cpulist import format_cpus
from fleet.text import format_count, one_line

# options that the header omits
_NOT_NAMED = {
    "benchmarks",
    "preset",
    "few_pairs",
    "seed",
    "deadline_s",
}
ESTIMATORS_IN_WORDS = {
    "median": "median",
    "mean": "mean sample",
    "min": "smallest sample",
}


def render_header(data: RunData) -> str:
    """Render host, machine, kernel, governor, clock, labels, topology, and the preset
    if there was one.
    """
    lines = [
        *_describe_machine(data.run),
        *_describe_frequency(data),
        *_describe_choices(data.run),
        *_describe_cpus(data),
    ]
    return "\n".join(map(one_line, lines))


def _describe_machine(run: Mapping[str, Any]) -> list[str]:
    """Return a line on the run, on its CPUs, and on the kernel, governor and clock."""
    model = run["cpu_model"] or "unknown CPU model"
    cpus = format_count(run["cpus_measured"], "CPU")
    facts = [f"{fact} {run[fact]}" for fact in ("kernel", "governor") if run[fact]]
    return [
        f"{run['host_name']}  {run['run_id']}  {run['started_utc']:%Y-%m-%d %H:%M} UTC"
        f"  {run['state']}",
        f"{model}, {cpus}, {run['target']}",
        ", ".join([*facts, _describe_clock(run)]),
    ]


def _describe_frequency(data: RunData) -> list[str]:
    """Return a line on the frequency of the cores while they were measured, by kind:
    "cores under load: P 4.80 GHz, E 3.60 to 3.61 GHz"; none where it is not known.
    """
    kind_of_cpu = data.order.kinds
    rows = data.pairs.dropna(subset=["core_ghz"])
    kinds = [kind_of_cpu.get(cpu, "") for cpu in rows["ping_cpu"]]
    by_kind = rows.groupby(kinds, sort=False)
    spans = []
    for kind, ghz in by_kind["core_ghz"]:
        span = _format_span(ghz.min(), ghz.max())
        spans.append(f"{kind} {span} GHz".strip())
    if not spans:
        return []
    return [f"cores under load: {', '.join(spans)}"]


def _format_span(low: float, high: float) -> str:
    """Format two numbers: "3.60 to 3.61", or one if both are the same."""
    ends = dict.fromkeys((f"{low:.2f}", f"{high:.2f}"))
    return " to ".join(ends)


def _describe_clock(run: Mapping[str, Any]) -> str:
    """Describe the clock: "clock tsc 2596.14 MHz (one reading 20.0 ns)"."""
    hz = run["ticks_per_second"]
    clock = f"clock {run['clock']} {hz / 1e6:g} MHz"
    cost_ticks = run["clock_cost_ticks"]
    if cost_ticks is None:
        return clock
    cost_ns = cost_ticks * 1e9 / hz
    return f"{clock} (one reading {cost_ns:.1f} ns)"


def _describe_choices(run: Mapping[str, Any]) -> list[str]:
    """Return a line each on the labels, preset and options of a run that has any."""
    lines = []
    labels = text.format_labels(run["labels"])
    if labels:
        lines.append(f"labels: {labels}")
    if run["preset"]:
        estimator = ESTIMATORS_IN_WORDS[run["estimator"]]
        lines.append(f"preset {run['preset']}: the number of a pair is its {estimator}")
    options = _list_options(run["plan"])
    if options:
        lines.append(f"options: {', '.join(options)}")
    return lines


def _list_options(plan: Mapping[str, Any]) -> list[str]:
    """List the options of a plan as they are typed: "--rounds 3"."""
    options = []
    for name, value in plan.items():
        if value is not None and name not in _NOT_NAMED:
            typed = name.replace("_", "-")
            options.append(f"--{typed} {_format_option(value)}")
    return options


def _format_option(value: Any) -> str:
    """Format a stored option as it is typed: CPUs as 0-3, a list as "a,b". A dict that
    has `which` is a choice of pairs, formatted as "per-relation:3"; any other dict is
    JSON.
    """
    if isinstance(value, dict):
        return _format_pair_choice(value) if "which" in value else json.dumps(value)
    if isinstance(value, list):
        if all(type(item) is int for item in value):
            return format_cpus(value)
        return ",".join(map(str, value))
    return str(value)


def _format_pair_choice(choice: Mapping[str, Any]) -> str:
    """Format the pairs of a plan: 0-1,0-2, ordered or per-relation:3."""
    if choice["per_relation"]:
        return f"{choice['which']}:{choice['per_relation']}"
    listed = ",".join(f"{ping}-{pong}" for ping, pong in choice["listed"])
    return listed or str(choice["which"])


def _describe_network(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line on the NUMA node of each network device: "network: eth0: node 0";
    no line without devices. nodes: what the run says of its NUMA nodes; `network` lists
    the devices of a node.
    """
    places = [
        f"{name}: node {node['node']}"
        for node in nodes
        for name in node.get("network") or ()
    ]
    return [f"network: {', '.join(places)}"] if places else []


def _describe_cpus(data: RunData) -> list[str]:
    """Return lines on how the measured CPUs were chosen, on the topology, on SMT, and
    on the nodes of network devices.
    """
    run = data.run
    is_known = data.cpus["online"] & data.cpus["core"].notna()
    online = data.cpus.loc[is_known, ["cpu", "package", "core"]]
    # the lowest CPU of each core; if cores have one CPU each, that is all CPUs
    one_of_each = take_one_of_each_core(online.itertuples(index=False, name=None))
    has_siblings = len(one_of_each) < len(online)
    lines = []
    if has_siblings and one_of_each == tuple(sorted(data.order.cpus)):
        lines.append("measured: one CPU of each core (-c cores)")
    lines += describe_topology(data.order)
    smt = run_facts.describe_smt(
        run["smt"], run["smt_control"], run["hypervisor"], has_siblings=has_siblings
    )
    lines.append(f"hyperthreading (SMT): {smt}")
    lines += _describe_network(run.get("nodes") or ())
    return lines
