"""Asks an agent what a plan costs: the one on the host, or one on the controller
(docs/wire.md).
"""

import math
import os
import shlex
import subprocess
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec
from msgspec import Struct

from fleet.agent.build import source
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Builder, Built, controller_target
from fleet.agent.wire import records
from fleet.agent.wire.records import Int64, WireError, quote_start
from fleet.errors import AgentError, BuildError, RefusedError, UsageError
from fleet.model import (
    SHIPPED,
    Cache,
    Cpu,
    Facts,
    Host,
    Node,
    Plan,
    RequestedOptions,
    Target,
)
from fleet.plan.forecast import Duration, format_seconds
from fleet.plan.merge import named_cpus
from fleet.plan.options import agent_arguments
from fleet.remote.connection import Connection

TIMEOUT_S = 60.0
DAY_S = 86_400  # the most that a run lasts without a deadline
DEADLINE_TIMES = 5  # a duration asked for, as agents do with a forecast
LONG_S = 10.0  # a first round that takes longer is told apart
_LONG_RUN_S = 600.0  # a longer one is told what would be quicker
_QUICKER = (
    "Quicker: one CPU of each core (--cpus cores), some pairs of each relation"
    " (--pairs per-relation:8; --plan few_pairs=PAIRS for benchmarks with many"
    " points), or a list of CPUs or pairs."
)
_UNLIMITED_MBPS = (1 << 31) - 1  # of load threads that go as fast as they can
_BAD_OPTIONS = 2  # the exit code of REFUSED for options


class _NodeMemory(Struct):
    node: Int64
    bytes: Int64


class _BenchmarkCost(Struct):
    benchmark: str
    ms: Int64


class Forecast(Struct, tag_field="record", tag="forecast"):
    """What a plan costs on a machine (docs/wire.md)."""

    cpus: Int64
    pairs: Int64
    points: Int64
    visits: Int64
    rounds: Int64
    bursts: Int64
    bytes: Int64
    ms: Int64
    ms_max: Int64
    ms_first: Int64
    deadline_s: Int64
    left_out: str | None  # what the time budget leaves out
    protocol: Int64
    nodes: tuple[_NodeMemory, ...] = ()  # bytes on each NUMA node
    load_mbps: Int64 = 0  # the most that load threads ask for
    benchmarks: tuple[_BenchmarkCost, ...] = ()

    @property
    def duration(self) -> Duration:
        """How long the plan takes."""
        return Duration(self.ms / 1000, self.ms_max / 1000, self.ms_first / 1000)

    @property
    def advice(self) -> str:
        """Text of what would be quicker than a long run; "" for a short one."""
        return _QUICKER if self.duration.least_s > _LONG_RUN_S else ""

    @property
    def load_duration(self) -> Duration:
        """How long load threads take memory bandwidth from other programs, with the
        fewest and with the most rounds that may run.
        """
        all_ms = 0
        load_ms = 0
        for cost in self.benchmarks:
            all_ms += cost.ms
            if _has_load_threads(cost.benchmark):
                load_ms += cost.ms
        # `ms_max` is of the whole run. Load threads are taken to have the same share of
        # it as of the time with the fewest rounds.
        load_share = load_ms / max(all_ms, 1)
        estimated_ms_max = load_share * self.ms_max
        # the most rounds take no less than the fewest, whatever the estimate is
        load_ms_max = max(load_ms, estimated_ms_max)
        return Duration(load_ms / 1000, load_ms_max / 1000)

    @property
    def time_text(self) -> str:
        """Text of how long the plan takes, and its first round if that is long; then
        what the plan leaves out to keep the user's time budget.
        """
        text = str(self.duration)
        if self.rounds > 1 and self.duration.first_s >= LONG_S:
            text += f", the first round {format_seconds(self.duration.first_s)}"
        if self.left_out:
            text += f" ({self.left_out}, as the time budget allows)"
        return text

    @property
    def memory_text(self) -> str:
        """Text of the plan's memory, and the bandwidth it takes from others; "" if it
        needs no memory.
        """
        if not self.bytes:
            return ""
        text = f"{self.bytes >> 20} MiB of memory"
        if self.nodes:
            on_nodes = [
                f"{memory.bytes >> 20} MiB on node {memory.node}"
                for memory in self.nodes
            ]
            text += f" ({', '.join(on_nodes)})"
        if self.load_mbps:
            bandwidth = f"{self.load_mbps / 1000:g} GB/s"
            if self.load_mbps >= _UNLIMITED_MBPS:
                bandwidth = "all"
            text += f" and for {self.load_duration} up to {bandwidth} of its bandwidth"
        return text


def _has_load_threads(benchmark: str) -> bool:
    """Report whether other threads move bytes while this benchmark is measured."""
    return SHIPPED[benchmark].other_unit == "byte"


def choose_deadline_s(
    host: Host, requested: RequestedOptions, plan: Plan, forecast: Forecast
) -> int:
    """Return the requested deadline in seconds, else the forecast's.

    Without a request, a run may take a day plus DEADLINE_TIMES times the sum of the
    plan's time budget and spread. Raises RefusedError if the forecast's maximum is
    longer than that.
    """
    if requested.deadline_s is not None:
        return requested.deadline_s
    planned_s = (plan.time_budget_s or 0) + (plan.spread_s or 0)
    longest_s = DAY_S + math.ceil(DEADLINE_TIMES * planned_s)
    if forecast.ms_max > 1000 * longest_s:
        raise RefusedError(
            f"{host.name}: the run would take {forecast.duration}. Without a deadline"
            f" it may take {format_seconds(longest_s)}: measure less, or name one by"
            " --plan deadline_s=DURATION."
        )
    return min(max(forecast.deadline_s, 1), longest_s)


class Forecaster:
    """Asks agents for forecasts; thread-safe. The controller's own agent is made once,
    in memory only.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._lock = threading.Lock()
        # of the controller's own agent; None until it is needed
        self._agent_descriptor: int | None = None
        # by the rendered facts of a machine and the agent's arguments; the facts are
        # without free memory where the plan needs none
        self._cache: dict[tuple[str, ...], Forecast] = {}

    def from_host(
        self, connection: Connection, host: Host, path: str, plan: Plan
    ) -> Forecast:
        """Ask the agent at `path` on the host. Raises UsageError, RefusedError or
        AgentError.
        """
        command = shlex.join([path, "--forecast", *agent_arguments(plan)])
        done = connection.run(f"{command} </dev/null", timeout_s=TIMEOUT_S)
        return _parse_answer(host, plan, done.exit_code, done.stdout, done.stderr)

    def from_facts(self, host: Host, facts: Facts, plan: Plan) -> Forecast:
        """Ask our own agent, which is built if need be. Raises as `from_host`, or
        BuildError.
        """
        agent_descriptor = self._open_own_agent()
        return self._ask_own_agent(agent_descriptor, host, facts, plan)

    def from_facts_if_built(
        self, host: Host, facts: Facts, plan: Plan
    ) -> Forecast | None:
        """Ask our own agent; return None if it would have to be built first or does not
        run. Raises UsageError, RefusedError or AgentError.
        """
        with suppress(BuildError):
            agent_descriptor = self._open_own_agent_if_built()
            if agent_descriptor is not None:
                return self._ask_own_agent(agent_descriptor, host, facts, plan)
        return None

    def _ask_own_agent(
        self, agent_descriptor: int, host: Host, facts: Facts, plan: Plan
    ) -> Forecast:
        """Return the forecast of the agent at this descriptor, from the cache if it has
        answered for such a machine and plan before.

        A plan that needs no memory costs the same whatever memory the machine has free.
        So its forecast is kept under a key without the memory, for all hosts that
        differ only in that.
        """
        cpus = named_cpus(plan)
        machine = render_facts(facts, cpus)
        machine_without_memory = render_facts(_drop_memory(facts), cpus)
        # a seed changes the order of a plan, not its cost
        arguments = agent_arguments(replace(plan, seed=0))
        key = (machine, *arguments)
        key_without_memory = (machine_without_memory, *arguments)
        cached = self._cache.get(key) or self._cache.get(key_without_memory)
        if cached is not None:
            return cached
        done = _run_own_agent(agent_descriptor, machine, plan)
        forecast = _parse_answer(host, plan, done.returncode, done.stdout, done.stderr)
        needs_memory = forecast.bytes > 0
        self._cache[key if needs_memory else key_without_memory] = forecast
        return forecast

    def _open_own_agent(self) -> int:
        """Return the descriptor of the controller's own agent, which the first call
        builds. Raises BuildError.
        """
        with self._lock:
            if self._agent_descriptor is None:
                target, sources = _choose_own_sources()
                built = self.builder.build(target, sources)
                self._agent_descriptor = self._copy_to_memory(built)
            return self._agent_descriptor

    def _open_own_agent_if_built(self) -> int | None:
        """Return the descriptor of the controller's own agent; None if it would have to
        be built first. Raises BuildError if there is none for the controller.
        """
        with self._lock:
            if self._agent_descriptor is None:
                target, sources = _choose_own_sources()
                built = self.builder.find_finished(target, sources)
                if built is not None:
                    self._agent_descriptor = self._copy_to_memory(built)
            return self._agent_descriptor

    def _copy_to_memory(self, agent: Built) -> int:
        """Return the descriptor of a file in memory, which lives as long as this
        object.
        """
        descriptor = os.memfd_create("fleet-agent")
        weakref.finalize(self, os.close, descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(agent.binary)
        return descriptor


def _drop_memory(facts: Facts) -> Facts:
    """Return facts without the memory that is free."""
    nodes = tuple(replace(node, free_bytes=None) for node in facts.nodes)
    return replace(facts, memory_available_bytes=None, nodes=nodes)


def _run_own_agent(
    agent_descriptor: int, machine: str, plan: Plan
) -> subprocess.CompletedProcess[bytes]:
    """Run the agent of this descriptor on rendered facts. Raises BuildError."""
    program = f"/proc/self/fd/{agent_descriptor}"
    options = ["--forecast", "--facts=/proc/self/fd/0", *agent_arguments(plan)]
    try:
        return subprocess.run(
            [program, *options],
            input=machine.encode(),
            capture_output=True,
            pass_fds=(agent_descriptor,),
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        raise BuildError(f"the controller's own agent does not run: {err}") from err


def _choose_own_sources() -> tuple[Target, tc.Sources]:
    """Return the controller's target, and the sources of its agent. Raises
    BuildError.
    """
    target = controller_target()
    sources = tc.select_sources(target, source.read_sources())
    if sources is None:
        raise BuildError(f"there is no agent for the controller, {target}")
    return target, sources


def _parse_answer(
    host: Host, plan: Plan, exit_code: int, stdout: bytes, stderr: bytes
) -> Forecast:
    """Return the forecast that an agent printed. Raises UsageError or RefusedError if
    it refused the plan, AgentError if it printed no forecast.
    """
    text = stderr.decode("utf-8", "replace").strip()
    # the agent's last message, behind "fleet-agent: "; all of stderr if there is none
    _, _, message = text.rpartition(records.PREFIX)
    if exit_code == _BAD_OPTIONS:
        raise UsageError(f"{host.name}: {message}.")
    if exit_code in records.REFUSED:
        raise RefusedError(f"{host.name}: {message}.")
    try:
        return read_forecast(stdout, plan.benchmarks)
    except WireError as err:
        raise AgentError(
            f"{host.name}: no forecast (exit code {exit_code}): {message or err}"
        ) from err


_FORECAST = msgspec.json.Decoder(Forecast)
_FEATURE_BY_FLAG = {
    "avx512f": "avx512",
    "atomics": "lse",
    "asimd": "neon",
    "lamcas": "lam_cas",
}
"""The agent's names of features that Linux calls otherwise."""
_ARCHES_BY_FEATURE = {
    "flush": ("x86_64", "i386", "aarch64", "ppc64le", "riscv64"),
    "zva": ("aarch64",),
}
"""Features that a whole architecture has. Where an OS forbids user code to flush lines,
points need more memory than is forecast.
"""
_PAGE_TABLE_ENTRY_BYTES = 8


def read_forecast(output: bytes, benchmarks: Collection[str]) -> Forecast:
    """Parse the forecast in an agent's output. Raises WireError, also for benchmarks
    not asked for.
    """
    line = _find_forecast(output)
    forecast = records.decode_line(_FORECAST, line)
    is_printable = (forecast.left_out or "").isprintable()
    if forecast.protocol != records.PROTOCOL or not is_printable:
        raise WireError(
            f"a record `forecast` of protocol {records.PROTOCOL} expected, got"
            f" {quote_start(line)}"
        )
    unrequested = {cost.benchmark for cost in forecast.benchmarks} - {*benchmarks}
    if unrequested:
        names = quote_start(", ".join(sorted(unrequested)))
        raise WireError(
            f"a forecast of {names}, but was asked for {', '.join(benchmarks)}"
        )
    return forecast


def _find_forecast(output: bytes) -> bytes:
    """Return the one record `forecast` in an agent's output. Raises WireError."""
    forecasts = []
    for line in output.splitlines():
        _, record = records.split_noise(line)
        if record.startswith(b'{"record":"forecast"'):
            forecasts.append(record)
    if len(forecasts) != 1:
        raise WireError(f"a record `forecast` expected, got {quote_start(output)}")
    return forecasts[0]


def render_facts(facts: Facts, plan_cpus: Collection[int] = ()) -> str:
    """Render the facts that planning needs as lines for the agent's --facts
    (docs/wire.md). plan_cpus: CPUs to list even if not allowed.
    """
    lines = list(_render_machine(facts))
    lines += map(_render_node, facts.nodes)
    for cpu in facts.cpus:
        if cpu.online and (cpu.allowed or cpu.cpu in plan_cpus):
            lines += _render_cpu(cpu)
    lines.append("end")
    return "".join(f"{line}\n" for line in lines)


def _render_machine(facts: Facts) -> Iterator[str]:
    """Yield a line for each fact of the whole machine that is known."""
    if facts.arch:
        yield f"arch {facts.arch}"
    yield " ".join(["features", *_list_features(facts)])
    page_bytes = facts.page_bytes or 4096
    yield f"page_bytes {page_bytes}"
    if facts.huge_pages not in (None, "never"):
        # A huge page is what one page of the page table maps: it has as many entries as
        # fit, each for one page. With 4096 bytes and 8 bytes an entry, that is 2 MiB.
        entries_per_table = page_bytes // _PAGE_TABLE_ENTRY_BYTES
        yield f"huge_page_bytes {page_bytes * entries_per_table}"
    if facts.memory_available_bytes is not None:
        yield f"memory_bytes {facts.memory_available_bytes}"
    # the texts of the limits may be empty: no blank is to end the line then
    if facts.memory_limit is not None:
        yield f"memory_limit {facts.memory_limit}".rstrip()
    if facts.cpu_quota is not None:
        yield f"cpu_limit {facts.cpu_quota} {facts.cpu_limit}".rstrip()


def _list_features(facts: Facts) -> list[str]:
    """List what the CPUs can do, by the agent's names."""
    features = [_FEATURE_BY_FLAG.get(flag, flag) for flag in facts.cpu_flags]
    for feature, arches in _ARCHES_BY_FEATURE.items():
        if facts.arch in arches:
            features.append(feature)
    return features


def _render_node(node: Node) -> str:
    """Return the line of a NUMA node; its last word is 1 if it is allowed, else -."""
    allowed = 1 if node.allowed else None
    return _join_none_as_dash("node", node.node, node.free_bytes, allowed)


def _render_cpu(cpu: Cpu) -> Iterator[str]:
    """Yield the line of a CPU, "cpu 4 4 - - 0 0 1024", then the lines of its caches,
    "cache 1 Data 49152 64 4". A dash stands for what is unknown.
    """
    groups = (cpu.core, cpu.cluster, cpu.die, cpu.package, cpu.node)
    yield _join_none_as_dash("cpu", cpu.cpu, *groups, cpu.capacity)
    for cache in cpu.caches:
        lowest_cpu = min(cache.shared_cpus, default=None)
        yield _join_none_as_dash(
            "cache",
            cache.level,
            cache.kind,
            cache.size_bytes,
            cache.line_bytes,
            lowest_cpu,
        )


def _join_none_as_dash(*values: str | int | None) -> str:
    words = ["-" if value is None else str(value) for value in values]
    return " ".join(words)


def make_typical_machine(cpus: Sequence[int]) -> Facts:
    """Return facts of an unknown host: caches of 48 KiB and 2 MiB a core, and 32 MiB
    for all CPUs.
    """
    return Facts(
        os="",
        arch="",
        huge_pages="madvise",
        nodes=(Node(0),),
        cpus=tuple(_make_typical_cpu(cpu) for cpu in cpus),
    )


def _make_typical_cpu(cpu: int) -> Cpu:
    l1 = _make_typical_cache(level=1, size_bytes=48 << 10, lowest_cpu=cpu)
    l2 = _make_typical_cache(level=2, size_bytes=2 << 20, lowest_cpu=cpu)
    l3 = _make_typical_cache(level=3, size_bytes=32 << 20, lowest_cpu=0)
    return Cpu(cpu, core=cpu, package=0, node=0, caches=(l1, l2, l3))


def _make_typical_cache(level: int, size_bytes: int, lowest_cpu: int) -> Cache:
    """Return a cache with 64-byte lines. Of the CPUs that share it only the lowest is
    named: no other is rendered.
    """
    return Cache(
        level=level,
        kind="Unified",
        size_bytes=size_bytes,
        line_bytes=64,
        shared_cpus=(lowest_cpu,),
    )
