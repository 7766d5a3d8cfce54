"""Asks an agent what a plan costs: the one on the host, or one on the controller
(docs/wire.md).
"""

import math
import os
import shlex
import subprocess
import threading
import weakref
from collections.abc import Collection, Sequence
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
DAY_S = 86_400  # the most that a run lasts without --deadline
DEADLINE_TIMES = 5  # a duration asked for, as agents do with a forecast
LONG_S = 10.0  # a first round that takes longer is told apart
_FULL = (1 << 31) - 1  # MB/s: as much as goes
_OPTIONS = 2  # the exit code of REFUSED for options


class _OnNode(Struct):
    node: Int64
    bytes: Int64


class _OfBenchmark(Struct):
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
    nodes: tuple[_OnNode, ...] = ()  # bytes on each NUMA node
    load_mbps: Int64 = 0  # the most that load threads ask for
    benchmarks: tuple[_OfBenchmark, ...] = ()

    @property
    def duration(self) -> Duration:
        """How long the plan takes."""
        return Duration(self.ms / 1000, self.ms_max / 1000, self.ms_first / 1000)

    @property
    def load_duration(self) -> Duration:
        """How long load threads take memory bandwidth from other programs."""
        load_ms = sum(
            cost.ms
            for cost in self.benchmarks
            if SHIPPED[cost.benchmark].other_unit == "byte"
        )
        share = load_ms / max(sum(cost.ms for cost in self.benchmarks), 1)
        return Duration(load_ms / 1000, max(load_ms, share * self.ms_max) / 1000)

    @property
    def time_text(self) -> str:
        """Text of how long the plan and a long first round take, and what the time
        budget leaves out.
        """
        text = str(self.duration)
        if self.rounds > 1 and self.duration.first_s >= LONG_S:
            text += f", the first round {format_seconds(self.duration.first_s)}"
        return (
            f"{text} ({self.left_out}, as the time budget allows)"
            if self.left_out
            else text
        )

    @property
    def memory_text(self) -> str:
        """Text of the plan's memory, and the bandwidth it takes from others; "" if it
        needs no memory.
        """
        by_node = ", ".join(
            f"{item.bytes >> 20} MiB on node {item.node}" for item in self.nodes
        )
        place = f" ({by_node})" if by_node else ""
        bandwidth = (
            "all" if self.load_mbps >= _FULL else f"{self.load_mbps / 1000:g} GB/s"
        )
        load = (
            f" and for {self.load_duration} up to {bandwidth} of its bandwidth"
            if self.load_mbps
            else ""
        )
        return f"{self.bytes >> 20} MiB of memory{place}{load}" if self.bytes else ""


def choose_deadline_s(
    host: Host, requested: RequestedOptions, plan: Plan, forecast: Forecast
) -> int:
    """Return the requested deadline, else the forecast's, within a bound of our own: a
    day more than the plan's own durations. Raises RefusedError for a longer forecast.
    """
    if requested.deadline_s is not None:
        return requested.deadline_s
    asked_s = (plan.time_budget_s or 0) + (plan.spread_s or 0)
    most_s = DAY_S + math.ceil(DEADLINE_TIMES * asked_s)
    if forecast.ms_max > 1000 * most_s:
        raise RefusedError(
            f"{host.name}: the run would take {forecast.duration}. Without --deadline"
            f" it may take {format_seconds(most_s)}: measure less, or name one."
        )
    return min(max(forecast.deadline_s, 1), most_s)


class Forecaster:
    """Asks agents for forecasts; thread-safe. The controller's own agent is made once,
    in memory only.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._guard = threading.Lock()
        self._agent: int | None = None
        self._cache: dict[
            tuple[str, ...], Forecast
        ] = {}  # of plans and machines, some without their memory

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
        return self._ask_own_agent(self._open_own_agent(), host, facts, plan)

    def refuse_infeasible(self, host: Host, facts: Facts, plan: Plan) -> None:
        """Let our own agent refuse the plan, unless it would have to be built first.
        Raises UsageError, RefusedError.
        """
        with suppress(BuildError):  # the agent on the host will be asked as well
            agent = self._open_own_agent_if_built()
            if agent is not None:
                self._ask_own_agent(agent, host, facts, plan)

    def _ask_own_agent(
        self, agent: int, host: Host, facts: Facts, plan: Plan
    ) -> Forecast:
        """Ask the agent of this descriptor, unless it has answered for such a machine
        and plan before.
        """
        cpus = named_cpus(plan)
        machine = render_facts(facts, cpus)
        nodes = tuple(replace(node, free_bytes=None) for node in facts.nodes)
        memoryless = replace(facts, memory_available_bytes=None, nodes=nodes)
        seedless_arguments = agent_arguments(replace(plan, seed=0))
        exact_key = (machine, *seedless_arguments)
        key = (render_facts(memoryless, cpus), *seedless_arguments)
        cached = self._cache.get(exact_key) or self._cache.get(key)
        if cached is not None:
            return cached
        program = f"/proc/self/fd/{agent}"
        arguments = agent_arguments(plan)
        try:
            done = subprocess.run(
                [program, "--forecast", "--facts=/proc/self/fd/0", *arguments],
                input=machine.encode(),
                capture_output=True,
                pass_fds=(agent,),
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            raise BuildError(f"the controller's own agent does not run: {err}") from err
        forecast = _parse_answer(host, plan, done.returncode, done.stdout, done.stderr)
        self._cache[exact_key if forecast.bytes else key] = forecast
        return forecast

    def _open_own_agent(self) -> int:
        with self._guard:
            if self._agent is None:
                built = self.builder.build(*_choose_own_sources())
                self._agent = self._copy_to_memory(built)
            return self._agent

    def _open_own_agent_if_built(self) -> int | None:
        with self._guard:
            if self._agent is None:
                built = self.builder.find_finished(*_choose_own_sources())
                if built is not None:
                    self._agent = self._copy_to_memory(built)
            return self._agent

    def _copy_to_memory(self, agent: Built) -> int:
        """Return the descriptor of a file in memory, which lives as long as this
        object.
        """
        descriptor = os.memfd_create("fleet-agent")
        weakref.finalize(self, os.close, descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(agent.binary)
        return descriptor


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
    words = stderr.decode("utf-8", "replace").strip().rpartition(records.PREFIX)[2]
    if exit_code in records.REFUSED:
        raise (UsageError if exit_code == _OPTIONS else RefusedError)(
            f"{host.name}: {words}."
        )
    try:
        return read_forecast(stdout, plan.benchmarks)
    except WireError as err:
        raise AgentError(
            f"{host.name}: no forecast (exit code {exit_code}): {words or err}"
        ) from err


_FORECAST = msgspec.json.Decoder(Forecast)
# The agent's names of features that Linux calls otherwise.
_FLAGS = {"avx512f": "avx512", "atomics": "lse", "asimd": "neon", "lamcas": "lam_cas"}
# Where an OS forbids user code to flush lines, which its architecture allows, points
# need more memory.
_BY_ARCH = {
    "flush": ("x86_64", "i386", "aarch64", "ppc64le", "riscv64"),
    "zva": ("aarch64",),
}
# bytes: a huge page has as many base pages as a page of the page table has entries
_TABLE_ENTRY = 8


def read_forecast(output: bytes, benchmarks: Collection[str]) -> Forecast:
    """Parse the forecast in an agent's output. Raises WireError, also for benchmarks
    not asked for.
    """
    parts = (record for _, record in map(records.split_noise, output.splitlines()))
    lines = [record for record in parts if record.startswith(b'{"record":"forecast"')]
    if len(lines) != 1:
        raise WireError(f"a record `forecast` expected, got {quote_start(output)}")
    forecast = records.decode_line(_FORECAST, lines[0])
    if (
        forecast.protocol != records.PROTOCOL
        or not (forecast.left_out or "").isprintable()
    ):
        got = quote_start(lines[0])
        raise WireError(
            f"a record `forecast` of protocol {records.PROTOCOL} expected, got {got}"
        )
    if others := sorted(
        {cost.benchmark for cost in forecast.benchmarks} - {*benchmarks}
    ):
        names = quote_start(", ".join(others))
        raise WireError(
            f"a forecast of {names}, but was asked for {', '.join(benchmarks)}"
        )
    return forecast


def render_facts(facts: Facts, plan_cpus: Collection[int] = ()) -> str:
    """Render the facts that planning needs, for --facts. plan_cpus: CPUs to list even
    if not allowed.
    """
    page = facts.page_bytes or 4096
    by_arch = [name for name, arches in _BY_ARCH.items() if facts.arch in arches]
    values = {
        "arch": facts.arch or None,
        "features": " ".join(
            [*(_FLAGS.get(flag, flag) for flag in facts.cpu_flags), *by_arch]
        ),
        "page_bytes": page,
        "huge_page_bytes": (
            None if facts.huge_pages in (None, "never") else page * page // _TABLE_ENTRY
        ),
        "memory_bytes": facts.memory_available_bytes,
        "memory_limit": facts.memory_limit,
        "cpu_limit": (
            None if facts.cpu_quota is None else f"{facts.cpu_quota} {facts.cpu_limit}"
        ),
    }
    lines = [
        f"{name} {value}".rstrip()
        for name, value in values.items()
        if value is not None
    ]
    lines += [
        _join_none_as_dash("node", n.node, n.free_bytes, 1 if n.allowed else None)
        for n in facts.nodes
    ]
    for cpu in facts.cpus:
        if cpu.online and (cpu.allowed or cpu.cpu in plan_cpus):
            groups = cpu.core, cpu.cluster, cpu.die, cpu.package, cpu.node
            lines.append(_join_none_as_dash("cpu", cpu.cpu, *groups, cpu.capacity))
            for cache in cpu.caches:
                numbers = (
                    cache.size_bytes,
                    cache.line_bytes,
                    min(cache.shared_cpus, default=None),
                )
                lines.append(
                    _join_none_as_dash("cache", cache.level, cache.kind, *numbers)
                )
    return "".join(f"{line}\n" for line in (*lines, "end"))


def _join_none_as_dash(*words: str | int | None) -> str:
    return " ".join(["-" if word is None else str(word) for word in words])


def make_typical_machine(cpus: Sequence[int]) -> Facts:
    """Return facts of an unknown host: caches of 48 KiB and 2 MiB a core, and 32 MiB
    for all CPUs.
    """
    last = Cache(3, "Unified", 32 << 20, 64, (0,))
    own = ((1, 48 << 10), (2, 2 << 20))
    caches = [
        (*(Cache(n, "Unified", size, 64, (cpu,)) for n, size in own), last)
        for cpu in cpus
    ]
    typical = map(
        lambda cpu, own: Cpu(cpu, core=cpu, package=0, node=0, caches=own), cpus, caches
    )
    return Facts("", "", huge_pages="madvise", nodes=(Node(0),), cpus=tuple(typical))
